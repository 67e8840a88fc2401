"""Traces of other tools: what is kept, what is said to be lost, and what malformed files end in."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles import calls as doubles
from tests.doubles.calls import Call
from tests.doubles.places import DATA, ROOT
from tuner.cli.main import run
from tuner.errors import SpecError, TraceError
from tuner.importers import FORMATS, Imported, import_file
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Source
from tuner.trace.file import Api, Events, Op, Trace

SAMPLES = DATA / "imports"

WRITERS: dict[str, Callable[[Sequence[Call]], bytes]] = {
    "valgrind": doubles.as_valgrind,
    "mtrace": doubles.as_mtrace,
    "glibc-trace": doubles.as_glibc_trace,
    "glibc-workload": doubles.as_glibc_workload,
    "malloc-lab": doubles.as_malloc_lab,
    "heaptrack": doubles.as_heaptrack_raw,
    "bytehound": doubles.as_bytehound,
}
"""Format -> writes calls as that tool does."""

KNOWS_KINDS = ("valgrind", "glibc-trace", "glibc-workload")
KNOWS_REALLOC = (*KNOWS_KINDS, "mtrace", "malloc-lab")
KNOWS_THREADS = ("glibc-trace", "glibc-workload", "bytehound")

A_FEW = [
    Call("malloc", 0, 100), Call("calloc", 1, 21), Call("realloc", 0, 5000),
    Call("memalign", 2, 300), Call("free", 1), Call("malloc", 1, 7), Call("free", 0),
]  # fmt: skip

fast = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def import_bytes(folder: Path, content: bytes, name: str | None = None) -> tuple[Imported, Events]:
    """Import a file of this content; return the result and the events of the trace."""
    (folder / "file").write_bytes(content)
    imported = import_file(folder / "file", folder / "app.trace", name)
    with Trace(imported.path) as trace:
        return imported, trace.read_all()


def expected_events(made: Sequence[Call], name: str) -> list[tuple[Op, int, int]]:
    """Return op, size and thread of each event a format can tell."""
    ops = {"malloc": Op.MALLOC, "realloc": Op.REALLOC, "free": Op.FREE, "calloc": Op.CALLOC,
           "memalign": Op.ALIGNED}  # fmt: skip
    lanes: dict[int, int] = {}
    events: list[tuple[Op, int, int]] = []
    for call in made:
        thread = call.thread if name in KNOWS_THREADS else 0
        lane = lanes.setdefault(thread, len(lanes))
        if lane and lane == len(lanes) - 1 and not any(e[2] == lane for e in events):
            events.append((Op.THREAD_START, 0, lane))
        op = ops[call.kind]
        if op in (Op.CALLOC, Op.ALIGNED) and name not in KNOWS_KINDS:
            op = Op.MALLOC
        if op is Op.REALLOC and name not in KNOWS_REALLOC:
            events += [(Op.FREE, 0, lane), (Op.MALLOC, call.size, lane)]
        else:
            events.append((op, call.size, lane))
    return events


# What is kept


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(data=st.data())
def test_every_call_arrives_as_far_as_the_format_holds_it(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    made = data.draw(doubles.calls(3 if name in KNOWS_THREADS else 1))
    imported, events = import_bytes(tmp_path, WRITERS[name](made))

    assert imported.format == name
    found = [(Op(e["op"]), int(e["size"]), int(e["thread"])) for e in events]
    if name == "glibc-workload":  # threads are numbered as in the file, not as they come
        numbers = dict.fromkeys(e[2] for e in found)
        assert [e[:2] for e in found] == [e[:2] for e in expected_events(made, name)]
        assert len(numbers) == len({call.thread for call in made})
    else:
        assert found == expected_events(made, name)


@pytest.mark.parametrize("name", KNOWS_REALLOC)
def test_the_blocks_are_the_right_ones(tmp_path: Path, name: str) -> None:
    """A freed slot comes back; the reallocated one keeps its number."""
    _, events = import_bytes(tmp_path, WRITERS[name](A_FEW))

    assert events["slot"].tolist() == [0, 1, 0, 2, 1, 1, 0]


def test_alignment_and_function_are_kept(tmp_path: Path) -> None:
    log = (
        b"--7-- _Znwm(4) = 0x100\n--7-- _ZnamSt11align_val_t(size 64, al 32) = 0x200\n"
        b"--7-- _ZdlPvm(0x100)\n--7-- _ZdaPvSt11align_val_t(0x200)\n"
        b"--7-- memalign(al 4096, size 10) = 0x300\n--7-- calloc(3,7) = 0x400\n"
    )
    _, events = import_bytes(tmp_path, log)

    assert [Api(a) for a in events["api"]] == [
        Api.NEW, Api.NEW_ARRAY, Api.DELETE, Api.DELETE_ARRAY, Api.MEMALIGN, Api.CALLOC,
    ]  # fmt: skip
    assert events["align_log2"].tolist() == [0, 5, 0, 0, 12, 0]
    assert events["size"].tolist() == [4, 64, 0, 0, 10, 3 * 7]


def test_times_are_kept_where_there_are_any(tmp_path: Path) -> None:
    raw = b"v 10400 3\n+ 64 1 10\nc 5\n+ 64 1 20\nc a\n- 10\n"
    imported, events = import_bytes(tmp_path, raw)

    assert events["time_ns"].tolist() == [0, 5_000_000, 10_000_000]
    assert not any(text.startswith("times: events are") for text in imported.lost)


def test_without_times_events_are_a_step_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(doubles.as_malloc_lab(A_FEW))
    imported = import_file(tmp_path / "file", tmp_path / "app.trace", step_ns=20_000)

    assert imported.totals.duration_ns == 6 * 20_000
    assert any("20000 ns apart" in text for text in imported.lost)


def test_valgrinds_time_stamps_are_used(tmp_path: Path) -> None:
    log = b"--00:00:00:01.500 7-- malloc(4) = 0x100\n--00:00:01:00.000 7-- free(0x100)\n"
    _, events = import_bytes(tmp_path, log)

    assert events["time_ns"].tolist() == [1_500_000_000, 60_000_000_000]


@pytest.mark.parametrize(
    ("sample", "name", "n_events", "peak"),
    [
        ("sample.valgrind", "valgrind", 14, 1_000_005),
        ("sample.mtrace", "mtrace", 13, 1_000_000),
        ("sample.heaptrack", "heaptrack", 16, 1_072_709),
        ("sample.heaptrack.raw", "heaptrack", 16, 1_072_709),
    ],
)
def test_recorded_samples(tmp_path: Path, sample: str, name: str, n_events: int, peak: int) -> None:
    """Recorded by the tools themselves, from one small program."""
    imported = import_file(SAMPLES / sample, tmp_path / "app.trace")

    assert imported.format == name
    assert imported.totals.n_events == n_events
    assert imported.totals.peak_live_bytes == peak
    with Trace(imported.path) as trace:
        told = trace.metadata
    assert told["argv"] == ([] if name == "mtrace" else ["./sample"])
    assert told["imported"] == {"from": sample, "format": name, "lost": list(imported.lost)}


# What is lost


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_says_what_is_lost(tmp_path: Path, name: str) -> None:
    imported, _ = import_bytes(tmp_path, WRITERS[name](A_FEW))

    assert set(FORMATS[name].lost) <= set(imported.lost)
    assert any(text.startswith("start and end of the process") for text in imported.lost)
    page = (ROOT / "docs" / "how-to" / "import.md").read_text()
    assert f"`{name}`" in page


def test_a_free_of_an_unknown_block_is_dropped_and_counted(tmp_path: Path) -> None:
    imported, events = import_bytes(tmp_path, b"--7-- free(0x1)\n--7-- malloc(4) = 0x2\n")

    assert len(events) == 1
    assert "1 frees and reallocs of blocks that were allocated before the start" in imported.lost


def test_a_realloc_of_an_unknown_block_is_an_allocation(tmp_path: Path) -> None:
    _, events = import_bytes(tmp_path, b"--7-- realloc(0x1,9) = 0x2\n--7-- free(0x2)\n")

    assert events["op"].tolist() == [Op.MALLOC, Op.FREE]


@pytest.mark.parametrize(
    ("lines", "ops", "lost"),
    [
        ("realloc(0x0,9)malloc(9) = 0x2", [Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- realloc(0x2,0)free(0x2)\n--7--  = 0", [Op.MALLOC, Op.FREE], None),
        ("malloc(9) = 0\n--7-- malloc(1) = 0x2", [Op.MALLOC], "1 allocations that failed"),
        ("malloc(9) = 0x2\n--7-- malloc(9)", [Op.MALLOC], "1 calls whose result is missing"),
        ("malloc(9) = 0x2\n--8-- malloc(9) = 0x3", [Op.MALLOC], "1 calls of other processes"),
        ("malloc(9)free(0x0)\n--7--  = 0x2", [Op.MALLOC], None),
        (
            "malloc(9)calloc(1,5)\n--7--  = 0x20\n--7--  = 0x30",
            [Op.CALLOC, Op.MALLOC],
            "1 calls of two threads within each other, whose results may be swapped",
        ),
        ("malloc(9)calloc(1,5) = 0x20\n--7--  = 0x30", [Op.CALLOC, Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- Reading syms (0x12) from = 0x1", [Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- malloc_usable_size(0x2) = 9", [Op.MALLOC], None),
        ("malloc(9) = 0x2\nprogram output: malloc(", [Op.MALLOC], None),
    ],
)
def test_oddities_of_valgrinds_log(
    tmp_path: Path, lines: str, ops: list[Op], lost: str | None
) -> None:
    imported, events = import_bytes(tmp_path, f"--7-- {lines}\n".encode(), "valgrind")

    assert events["op"].tolist() == ops
    counted = [text for text in imported.lost if text[0].isdigit()]
    assert counted == ([lost] if lost else [])


def test_blocks_of_a_bytehound_list_that_is_not_whole_are_counted(tmp_path: Path) -> None:
    content = json.loads(doubles.as_bytehound(A_FEW)) | {"total_count": 1000}
    imported, _ = import_bytes(tmp_path, json.dumps(content).encode())

    assert "995 allocations that the file counts but does not list" in imported.lost


# What is malformed


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("valgrind", "--7-- malloc(x) = 0x1\n", r":1: not a number: 'x'"),
        ("valgrind", "--7-- malloc(1) = 0x1\n--7-- free(12)\n", r":2: not an address: '12'"),
        ("valgrind", "--7-- free(0x1\n", r":1: not a call that valgrind prints"),
        ("valgrind", "--7--  = 0x1\n", r":1: a result without a call"),
        ("valgrind", "--7-- calloc(7) = 0x1\n", r":1: not the arguments of a call"),
        ("valgrind", f"--7-- malloc({1 << 60}) = 0x1\n", r":1: \d+ bytes: no block is that"),
        ("valgrind", "--7-- memalign(al 3, size 1) = 0x1\n", r":1: alignment 3: not a power"),
        ("valgrind", "hello\n", r": no allocation in it that valgrind --trace-malloc=yes"),
        ("mtrace", "= Start\n@ a:[0x1] + 0x10\n", r":2: not a line of mtrace"),
        ("mtrace", "@ a:[0x1] > 0x10 0x5\n", r":1: '<' and '>' of a realloc"),
        ("mtrace", "@ a:[0x1] < 0x10\n@ a:[0x1] - 0x10\n", r":2: '<' and '>' of a realloc"),
        ("mtrace", "@ a:[0x1] < 0x10\n", r":1: ends in the middle of a realloc"),
        ("malloc-lab", "1\n2\n3\n", r":3: the weight was expected here, not ''"),
        ("malloc-lab", "1\nx\n3\n1\n", r":2: the number of blocks was expected here, not 'x'"),
        ("malloc-lab", "9\n2\n1\n1\nq 0\n", r":5: 'a ID BYTES', .* was expected, not 'q 0'"),
        ("malloc-lab", "9\n2\n1\n1\na 2 5\n", r":5: block 2: the head announces 2 blocks"),
        ("malloc-lab", "9\n2\n2\n1\na 1 5\n", r":5: ends after 1 of 2 requests; was it cut off"),
        ("malloc-lab", "9\n2\n1\n1\na 1 5\nf 1\n", r":6: more than the 1 requests"),
        ("heaptrack", "v 20000 9\n", r":1: format version 9; 3 is the newest"),
        ("heaptrack", "v 1 3\n+ 5 1\n", r":2: not a line of heaptrack: '\+ 5 1'"),
        ("heaptrack", "v 1 3\n- xyz\n", r":2: not a line of heaptrack"),
        ("heaptrack", "v 1 3\n+ 5\n", r":2: allocation of kind 5, but only 0 were announced"),
        ("glibc-trace", "x" * 65, r": ends within a record"),
        ("glibc-trace", "\x00\x00\x00\x00\x63" + "\x00" * 59, r": record 0: type 99 is unknown"),
        ("glibc-workload", "\x08\x05\x09", r": byte 3: the workload ends here; was it cut off"),
        ("glibc-workload", "\x02", r": byte 1: operation 2 does not belong into the head"),
        ("bytehound", "{}", r": allocations: Field required"),
        (
            "bytehound",
            '{"allocations": [{"size": 1}]}',
            r": allocations.0.timestamp: Field required",
        ),
        ("bytehound", '{"allocations": [{"si', r": not JSON: EOF .*; was the file cut off"),
        ("bytehound", '{"allocations": [5]}', r": allocations.0: Input should be an object, not 5"),
        ("bytehound", '{"allocations": []}', r": no allocation in it"),
    ],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(str(tmp_path / "file")) + message):
        import_bytes(tmp_path, content.encode(), name)

    assert not (tmp_path / "app.trace").exists()


def test_threads_that_wait_for_each_other_are_an_error(tmp_path: Path) -> None:
    head = b"\x08\x05\x09\x02\x0a\x01\x0b\x09\x01"

    with pytest.raises(TraceError, match="all threads wait for each other"):
        import_bytes(tmp_path, head + b"\x07\x01\x01", "glibc-workload")


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(data=st.data())
def test_a_damaged_file_ends_in_a_trace_or_one_error(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    content = bytearray(WRITERS[name](A_FEW))
    for _ in range(data.draw(st.integers(0, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        import_bytes(tmp_path, bytes(content[: data.draw(st.integers(0, len(content)))]), name)
    except TraceError as error:
        message = str(error)
        assert str(tmp_path / "file") in message
        assert "\n" not in message
        assert not (tmp_path / "app.trace").exists()
    (tmp_path / "app.trace").unlink(missing_ok=True)


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(content=st.binary(max_size=300))
def test_any_bytes_end_in_a_trace_or_one_error(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    heap = ImportedHeap(lambda _: None, 1000)
    source, read = Source(tmp_path / "file"), FORMATS[name].read_events
    assert read is not None
    with contextlib.suppress(TraceError), source.errors():  # anything else fails the test
        read(source, heap)


# The command


def test_the_command_prints_what_was_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new" / "app.trace"
    command = ["import", str(SAMPLES / "sample.mtrace"), "-o", str(output)]

    assert run(command) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "13 events, 1 thread, peak live 976.6 KiB, from mtrace" in told.err
    assert "  lost: threads: all calls are those of one\n" in told.err

    assert run([*command, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["schema"], value["version"]) == ("malloc-tuner.import", 1)
    assert (value["format"], value["totals"]["n_events"]) == ("mtrace", 13)
    page = (ROOT / "docs" / "how-to" / "import.md").read_text()
    assert set(value) - set(re.findall(r"`(\w+)`", page)) == set()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["no-such-file"], TraceError.exit_code, "no-such-file: cannot be read (No such file"),
        (["{text}"], TraceError.exit_code, "not a file this can import"),
        (["{text}", "--format", "x"], SpecError.exit_code, "x: no such format; use one of valg"),
        (["{text}", "--step", "1"], SpecError.exit_code, "'1' is not a duration"),
    ],
)
def test_errors_of_the_command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (tmp_path / "text").write_text("nothing\n")
    words = [word.format(text=tmp_path / "text") for word in arguments]

    assert run(["import", *words, "-o", str(tmp_path / "app.trace")]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "app.trace").exists()


def test_the_file_itself_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(doubles.as_mtrace(A_FEW))

    with pytest.raises(SpecError, match="would overwrite what is imported"):
        import_file(tmp_path / "file", tmp_path / "file")
