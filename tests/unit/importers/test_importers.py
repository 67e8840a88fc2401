"""Traces of other tools: what is kept, what is said to be lost, and what malformed files end in."""

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
from tests.doubles.command_line import CommandLine
from tests.doubles.imported import A_FEW, import_bytes
from tests.doubles.places import DATA, ROOT
from tuner.errors import SpecError, TraceError
from tuner.importers import FORMATS, import_file
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Source
from tuner.trace.file import Op, Trace

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
fast = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


def expected_events(made: Sequence[Call], name: str) -> list[tuple[Op, int, int]]:
    """Return op, size and thread of each event that a format holds."""
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


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(data=st.data())
def test_every_call_arrives_as_far_as_the_format_holds_it(
    data: st.DataObject, name: str, tmp_path: Path
):
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
def test_the_blocks_are_the_right_ones(tmp_path: Path, name: str):
    _, events = import_bytes(tmp_path, WRITERS[name](A_FEW))

    assert events["slot"].tolist() == [0, 1, 0, 2, 1, 1, 0]


def test_without_times_events_are_a_step_apart(tmp_path: Path):
    (tmp_path / "file").write_bytes(doubles.as_malloc_lab(A_FEW))
    imported = import_file(tmp_path / "file", tmp_path / "app.trace", step_ns=20_000)

    assert imported.totals.duration_ns == 6 * 20_000
    assert any("20000 ns apart" in text for text in imported.lost)


@pytest.mark.parametrize(
    ("sample", "name", "n_events", "peak"),
    [
        ("sample.valgrind", "valgrind", 14, 1_000_005),
        ("sample.mtrace", "mtrace", 13, 1_000_000),
        ("sample.heaptrack", "heaptrack", 16, 1_072_709),
        ("sample.heaptrack.raw", "heaptrack", 16, 1_072_709),
    ],
)
def test_recorded_samples(tmp_path: Path, sample: str, name: str, n_events: int, peak: int):
    """Recorded by the tools themselves, from one small program."""
    imported = import_file(SAMPLES / sample, tmp_path / "app.trace")

    assert imported.format == name
    assert imported.totals.n_events == n_events
    assert imported.totals.peak_live_bytes == peak
    with Trace(imported.path) as trace:
        told = trace.metadata
    assert told["argv"] == ([] if name == "mtrace" else ["./sample"])
    assert told["imported"] == {"from": sample, "format": name, "lost": list(imported.lost)}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_says_what_is_lost(tmp_path: Path, name: str):
    imported, _ = import_bytes(tmp_path, WRITERS[name](A_FEW))

    assert set(FORMATS[name].lost) <= set(imported.lost)
    assert any(text.startswith("start and end of the process") for text in imported.lost)
    page = (ROOT / "docs" / "how-to" / "import.md").read_text()
    assert f"`{name}`" in page


def test_a_free_of_an_unknown_block_is_dropped_and_counted(tmp_path: Path):
    imported, events = import_bytes(tmp_path, b"--7-- free(0x1)\n--7-- malloc(4) = 0x2\n")

    assert len(events) == 1
    assert "frees and reallocs of blocks that were allocated before the start: 1" in imported.lost


def test_a_realloc_of_an_unknown_block_is_an_allocation(tmp_path: Path):
    _, events = import_bytes(tmp_path, b"--7-- realloc(0x1,9) = 0x2\n--7-- free(0x2)\n")

    assert events["op"].tolist() == [Op.MALLOC, Op.FREE]


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(data=st.data())
def test_a_damaged_file_ends_in_a_trace_or_one_error(
    data: st.DataObject, name: str, tmp_path: Path
):
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


MALFORMED = {
    "valgrind": [
        ("--7-- malloc(x) = 0x1\n", r":1: not a call that valgrind prints: 'malloc\(x\) = 0x1'"),
        (
            "--7-- malloc(1) = 0x1\n--7-- free(12)\n",
            r":2: not a call that valgrind prints: 'free\(12\)'",
        ),
        ("--7-- free(0x1\n", r":1: not a call that valgrind prints"),
        ("--7-- malloc(0x1) = 0x1\n", r":1: not a call that valgrind prints"),
        ("--7-- realloc(0x1) = 0x1\n", r":1: not a call that valgrind prints"),
        ("--7--  = 0x1\n", r":1: a result without a call"),
        ("--7-- calloc(7) = 0x1\n", r":1: not a call that valgrind prints: 'calloc\(7\) = 0x1'"),
        (f"--7-- malloc({1 << 60}) = 0x1\n", r":1: \d+ bytes: no block is that"),
        (f"--7-- memalign(al {1 << 41}, size 1) = 0x1\n", r":1: alignment \d+: the greatest is"),
        (f"--{'9' * 18}:00:00:00.000 7-- malloc(1) = 0x1\n", r":1: \d+ s since the start: no"),
        ("hello\n", r": no allocation in it that valgrind --trace-malloc=yes"),
    ],
    "mtrace": [
        ("= Start\n@ a:[0x1] + 0x10\n", r":2: a line of mtrace was expected"),
        ("@ a:[0x1] > 0x10 0x5\n", r":1: '<' and '>' of a realloc"),
        ("@ a:[0x1] < 0x10\n@ a:[0x1] - 0x10\n", r":2: '<' and '>' of a realloc"),
        ("@ a:[0x1] < 0x10\n", r":1: ends in the middle of a realloc"),
    ],
    "glibc-trace": [
        ("x" * 65, r": ends within a record"),
        ("\x00\x00\x00\x00\x63" + "\x00" * 59, r": record 0: type 99 is unknown"),
    ],
    "glibc-workload": [
        ("\x08\x05\x09", r": byte 3: the workload ends here; was it cut off"),
        ("\x02", r": byte 1: operation 2 does not belong into the head"),
    ],
    "malloc-lab": [
        ("1\n2\n3\n", r":3: the weight was expected, not ''"),
        ("1\nx\n3\n1\n", r":2: the number of blocks was expected, not 'x'"),
        ("9\n2\n1\n1\nq 0\n", r":5: 'a ID BYTES', .* was expected, not 'q 0'"),
        ("9\n2\n1\n1\na 2 5\n", r":5: block 2: the head announces 2 blocks"),
        ("9\n2\n2\n1\na 1 5\n", r":5: ends after 1 requests; the head announces 2"),
        ("9\n2\n1\n1\na 1 5\nf 1\n", r":6: ends after 2 requests; the head announces 1"),
    ],
    "heaptrack": [
        ("v 20000 9\n", r":1: format version 9; 3 is the newest"),
        ("v 1 3\n+ 5 1\n", r":2: not a line of heaptrack: '\+' with 2 numbers, after 0 kinds"),
        ("v 1 3\n- xyz\n", r":2: a line of heaptrack was expected"),
        ("v 1 3\nc ffffffffffffffff\n+ 5 1 9\n", r":3: \d+ s since the start: no program runs"),
        ("v 1 3\n+ 5\n", r":2: not a line of heaptrack: '\+' with 1 numbers, after 0 kinds"),
    ],
    "bytehound": [
        ("{}", r": allocations: Field required"),
        ('{"allocations": [{"size": 1}]}', r": allocations.0.timestamp: Field required"),
        ('{"allocations": [{"si', r": not JSON: EOF .*; was it cut off"),
        ('{"allocations": [5]}', r": allocations.0: Input should be an object, not 5"),
        ('{"allocations": []}', r": no allocation in it"),
    ],
}
"""Format -> content of files, and what their errors say behind the name."""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [(name, *case) for name, cases in MALFORMED.items() for case in cases],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, name: str, content: str, message: str
):
    with pytest.raises(TraceError, match=re.escape(str(tmp_path / "file")) + message):
        import_bytes(tmp_path, content.encode(), name)

    assert not (tmp_path / "app.trace").exists()


@pytest.mark.parametrize("name", WRITERS)
@fast
@given(content=st.binary(max_size=300))
def test_any_bytes_end_in_a_trace_or_one_error(content: bytes, name: str, tmp_path: Path):
    (tmp_path / "file").write_bytes(content)
    heap = ImportedHeap(lambda _: None, 1000)
    source, read = Source(tmp_path / "file"), FORMATS[name].read_events
    assert read is not None
    with contextlib.suppress(TraceError), source.errors():  # anything else fails the test
        read(source, heap)


def test_the_command_prints_what_was_lost(tmp_path: Path, cli: CommandLine):
    output = tmp_path / "new" / "app.trace"
    command = ["import", str(SAMPLES / "sample.mtrace"), "-o", str(output)]

    out, err = cli.run(*command)
    assert out == ""
    assert "13 events, 1 thread, peak live 976.6 KiB, from mtrace" in err
    assert "  lost: threads: all calls are those of one\n" in err
    assert err.endswith(f"next: malloc-tuner tune {output}\n")

    value = json.loads(cli.prints(*command, "--json"))
    assert (value["schema"], value["version"]) == ("malloc-tuner.import", 1)
    assert (value["format"], value["totals"]["n_events"]) == ("mtrace", 13)
    page = (ROOT / "docs" / "how-to" / "import.md").read_text()
    assert set(value) - set(re.findall(r"`(\w+)`", page)) == set()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["no-such-file"], TraceError.exit_code, "no-such-file: cannot be read (No such file"),
        (["{text}"], TraceError.exit_code, "not a file this can import"),
        (["{text}", "--format", "x"], 2, "'x' is none of valgrind, mtrace, glibc-trace"),
        (["{text}", "--step", "1"], SpecError.exit_code, "'1' is not a duration"),
        (["{heaptrack}", "--step", "1us"], SpecError.exit_code, "it has the times of its events"),
        (["{dhat}", "--step", "1us"], SpecError.exit_code, "does not apply to dhat: it has sums"),
    ],
)
def test_errors_of_the_command(
    tmp_path: Path, cli: CommandLine, arguments: list[str], code: int, message: str
):
    (tmp_path / "text").write_text("nothing\n")
    samples = {name: SAMPLES / f"sample.{name}" for name in ("dhat", "heaptrack")}
    words = [word.format(text=tmp_path / "text", **samples) for word in arguments]

    assert message in cli.run("import", *words, "-o", tmp_path / "new" / "app.trace", code=code)[1]
    assert not list(tmp_path.glob("new/*"))


def test_a_trace_is_not_imported_again(tmp_path: Path):
    imported, _ = import_bytes(tmp_path, doubles.as_mtrace(A_FEW))
    with pytest.raises(TraceError, match="is a trace already; `malloc-tuner tune "):
        import_file(imported.path, tmp_path / "again.trace")


def test_the_file_itself_is_not_overwritten(tmp_path: Path):
    (tmp_path / "file").write_bytes(doubles.as_mtrace(A_FEW))

    with pytest.raises(SpecError, match="would overwrite what it is made of"):
        import_file(tmp_path / "file", tmp_path / "file")


def test_an_import_that_fails_leaves_the_old_trace(tmp_path: Path):
    import_bytes(tmp_path, doubles.as_mtrace(A_FEW))
    old = (tmp_path / "app.trace").read_bytes()
    with pytest.raises(TraceError, match=r":2: a line of mtrace"):
        import_bytes(tmp_path, b"@ a:[0x1] + 0x10 0x5\nnonsense\n")
    assert (tmp_path / "app.trace").read_bytes() == old
    assert {path.name for path in tmp_path.iterdir()} == {"file", "app.trace"}


def test_a_long_command_of_wide_characters_is_cut(tmp_path: Path):
    face = "\N{GRINNING FACE}"
    log = f"==7== Command: {face * 2000}\n--7-- malloc(4) = 0x1\n"
    imported, _ = import_bytes(tmp_path, log.encode())
    with Trace(imported.path) as trace:
        assert trace.argv == [face * 500]


def test_the_help_names_every_format(cli: CommandLine):
    shown = "".join(cli.prints("import", "--help").split())
    assert [name for name in FORMATS if name not in shown] == []
