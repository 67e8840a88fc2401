"""The figures of a replay are right where they can be computed by hand."""

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.instruments import COUNTING, counting_instrument, need_instrument
from tests.doubles.places import ROOT
from tests.doubles.programs import compile_
from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner.allocators import HostFacts, get_allocator
from tuner.errors import MissingToolError
from tuner.machine import read_machine
from tuner.resources import native_file
from tuner.trace.file import Op

pytestmark = pytest.mark.end_to_end

MIB = 1 << 20
PAGE = 4096
SECOND_NS = 10**9
FOOTPRINT = 16 * PAGE
"""What libc holds before the first block, at most."""
COUNTS = struct.Struct("<4Q")
"""struct plugin_counts: magic, outside, own, waiting."""


def replay(trace: Path, *options: str) -> dict[str, Any]:
    """Replay a trace under libc's allocator and return the result."""
    command = [str(native_file("rand_malloc")), *options, str(trace)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def memory_of(trace: Path, *options: str) -> dict[str, Any]:
    """Return what the run for memory alone shows."""
    return replay(trace, "--runs", "memory", *options)


@pytest.fixture
def large_block(tmp_path: Path) -> Path:
    """64 MiB for one second, then nothing for seven."""
    maker = TraceMaker(step_ns=0)
    slot = maker.allocate(64 * MIB)
    maker.pause(SECOND_NS)
    maker.free(slot)
    maker.pause(7 * SECOND_NS)
    maker.free(maker.allocate(16))
    return maker.write(tmp_path / "large.trace")


def test_heap_of_one_mapped_block(large_block: Path):
    result = memory_of(large_block)
    assert result["peak_heap_bytes"] == pytest.approx(64 * MIB, abs=FOOTPRINT)
    assert result["mean_heap_bytes"] == pytest.approx(8 * MIB, abs=FOOTPRINT)
    assert result["mean_live_bytes"] == pytest.approx(8 * MIB)
    assert result["faults"] == pytest.approx(64 * MIB / PAGE, abs=8)
    assert result["syscalls"]["mmap"] == result["syscalls"]["munmap"] == 1
    assert result["fragmentation_at_peak"] == pytest.approx(1, abs=0.001)


def test_the_mean_is_over_the_life_of_the_process(tmp_path: Path):
    """50 ms idle, 6400 KiB for 200 ms, 100 ms idle; without start and end only the 200 ms."""
    maker = TraceMaker(step_ns=0)
    maker.pause(50_000_000)
    slots = [maker.allocate(64 * 1024) for _ in range(100)]
    maker.pause(200_000_000)
    for slot in slots:
        maker.free(slot)
    path = maker.write(tmp_path / "known.trace", (0, 350_000_000))
    known = memory_of(path, "--curve-points", "1000")
    assert known["mean_live_bytes"] == pytest.approx(100 * 65536 * 200 / 350)
    assert known["mean_heap_bytes"] == pytest.approx(100 * 65536 * 200 / 350, rel=0.03)
    assert known["trace"]["duration_ns"] == 350_000_000
    assert (known["trace"]["start_known"], known["trace"]["end_known"]) == (True, True)
    assert (known["curve"]["time_ns"][0], known["curve"]["time_ns"][-1]) == (0, 350_000_000)
    unknown = memory_of(maker.write(tmp_path / "unknown.trace"))
    assert unknown["mean_live_bytes"] == pytest.approx(100 * 65536)
    assert (unknown["trace"]["start_known"], unknown["trace"]["end_known"]) == (False, False)


def test_the_footprint_of_an_allocator_counts_from_the_start(tmp_path: Path):
    """What tcmalloc holds before the first event, nine tenths of the life, is in the mean."""
    maker = TraceMaker(step_ns=0)
    maker.pause(900_000_000)
    maker.free(maker.allocate(16))
    trace = maker.write(tmp_path / "late.trace", (0, 1_000_000_000))
    result = memory_of(trace, *preload("tcmalloc"))
    assert result["curve"]["heap_bytes"][0] > 50 * PAGE
    assert result["mean_heap_bytes"] >= result["curve"]["heap_bytes"][0]


def test_memory_of_idle_threads_goes_back(tmp_path: Path):
    """What libc allocates for the thread that starts next keeps no memory of this one."""
    maker = TraceMaker(step_ns=0)
    slots: dict[int, list[int]] = {}
    for thread in (1, 2, 3):
        maker.start(thread)
        slots[thread] = [maker.allocate(500, thread=thread) for _ in range(4096)]
        maker.pause(1_000_000)
    for thread, own in slots.items():
        for slot in own:
            maker.free(slot, thread=thread)
        maker.pause(1_000_000)
    maker.pause(SECOND_NS)
    for thread in slots:
        maker.exit(thread)
    trace = maker.write(tmp_path / "idle.trace", (0, 2 * SECOND_NS))
    result = memory_of(trace)
    assert result["peak_heap_bytes"] > 6 * MIB
    assert result["mean_heap_bytes"] < MIB / 2


def test_a_thread_that_exits_late_gives_back_late(tmp_path: Path):
    """A thread's cache counts until the time of its exit, and not beyond it."""
    means = []
    for exit_s in (1, 9):
        maker = TraceMaker(step_ns=0)
        maker.start(1)
        for slot in [maker.allocate(2000, thread=1) for _ in range(400)]:
            maker.free(slot, thread=1)
        maker.pause(exit_s * SECOND_NS)
        maker.exit(1)
        maker.pause((10 - exit_s) * SECOND_NS)
        maker.free(maker.allocate(16))
        trace = maker.write(tmp_path / "exit.trace", (0, 10 * SECOND_NS))
        means.append(memory_of(trace, *preload("jemalloc"))["mean_heap_bytes"])
    assert means[1] - means[0] > 100 * PAGE


def test_the_allocator_sees_the_processors_when_it_starts(tmp_path: Path):
    """An arena for all threads with one processor: jemalloc asks in its constructor."""
    maker = TraceMaker()
    for thread in (1, 2, 3):
        maker.start(thread)
        for _ in range(100):
            maker.allocate(3000, thread=thread)
    trace = maker.write(tmp_path / "arenas.trace")
    calls = {
        cpus: memory_of(trace, "--cpus", cpus, *preload("jemalloc"))["syscalls"]
        for cpus in ("1", "2")
    }
    assert calls["2"]["mmap"] > calls["1"]["mmap"]


@pytest.mark.parametrize(("touch", "pages"), [("ends", 2), ("none", 1)])
def test_untouched_memory_is_not_resident(large_block: Path, touch: str, pages: int):
    """Only what the policy writes, and libc's header, becomes resident."""
    result = memory_of(large_block, "--touch", touch)
    assert result["peak_heap_bytes"] <= pages * PAGE + FOOTPRINT


ALLOCATORS = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_recorded_pages_are_touched_and_no_others(tmp_path: Path, allocator: str):
    """Of calloc, malloc and realloc; where nothing is recorded all are, under every allocator.

    A block that grows keeps what it holds, and the checksum is the same everywhere.
    """
    maker = TraceMaker()
    maker.allocate(8 * MIB, op=Op.CALLOC, untouched=8 * MIB // PAGE - 256)
    grown = maker.allocate(4 * MIB, untouched=0)
    maker.reallocate(grown, 64 * MIB, untouched=60 * MIB // PAGE)
    maker.allocate(4 * MIB, op=Op.ALIGNED, align_log2=12, untouched=4 * MIB // PAGE)
    maker.allocate(2 * MIB)
    trace = maker.write(tmp_path / "parts.trace")
    expected = (1 + 4 + 2) * MIB
    result = memory_of(trace, *preload(allocator))
    assert result["settings"]["touch"] == "recorded"
    # Some copy the block that grows, or clear the first one themselves.
    assert expected <= result["peak_heap_bytes"] < 32 * MIB
    assert result["verified_blocks"] == 1
    glibc = memory_of(trace)
    assert result["checksum"] == glibc["checksum"]
    assert glibc["peak_heap_bytes"] == pytest.approx(expected, abs=FOOTPRINT + 2 * PAGE)
    everything = memory_of(trace, "--touch", "all")
    assert everything["peak_heap_bytes"] == pytest.approx(78 * MIB, abs=FOOTPRINT + 4 * PAGE)


@pytest.mark.parametrize(
    ("second", "touched_mib"),
    [
        ({"size": 8 * MIB}, 1),
        ({"size": 8 * MIB, "untouched": 0}, 8),
        ({"size": 8 * MIB, "op": Op.CALLOC}, 8),
        ({"size": 8 * MIB + 1}, 8),
    ],
)
def test_what_is_not_known_is_touched_like_the_last_block_of_its_kind(
    tmp_path: Path, second: dict[str, Any], touched_mib: int
):
    """Of the same size and function; else all of it is."""
    maker = TraceMaker()
    maker.allocate(8 * MIB, untouched=7 * MIB // PAGE)
    maker.allocate(**second)
    trace = maker.write(tmp_path / "kinds.trace")

    result = memory_of(trace)

    expected = (1 + touched_mib) * MIB
    assert result["peak_heap_bytes"] == pytest.approx(expected, abs=FOOTPRINT + 4 * PAGE)


def test_peak_between_two_samples_is_not_missed(tmp_path: Path):
    maker = TraceMaker()
    small = [maker.allocate(64) for _ in range(150_000)]
    maker.free(maker.allocate(32 * MIB))
    for slot in small:
        maker.free(slot)
    result = memory_of(maker.write(tmp_path / "spike.trace"))
    assert result["peak_heap_bytes"] > 32 * MIB
    assert max(result["curve"]["heap_bytes"]) < 32 * MIB
    assert 1 < result["fragmentation_at_peak"] < 1.1, "the large block is live at the peak"


def preload(name: str) -> list[str]:
    library = get_allocator(name).locate().library
    return ["--preload", str(library)] if library else []


@pytest.fixture
def steady_blocks(tmp_path: Path) -> Path:
    """6 MiB that stay, in blocks of 512 bytes."""
    maker = TraceMaker()
    for _ in range(12 * 1024):
        maker.allocate(512)
    return maker.write(tmp_path / "steady.trace")


@pytest.mark.parametrize(
    ("allocator", "setting"),
    [
        ("glibc", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"),
        ("jemalloc", "MALLOC_CONF=thp:always"),
        ("exgen", "EXGEN_CONF=huge_pages:always"),
    ],
)
def test_figures_with_huge_pages_repeat_and_count_them(
    tmp_path: Path, allocator: str, setting: str
):
    if HostFacts.detect().thp_mode == "never":
        pytest.skip("this machine has no transparent huge pages")
    maker = TraceMaker()
    blocks = [maker.allocate(1000 + 100 * (n % 50)) for n in range(4000)]
    for block in blocks[::2]:
        maker.free(block)
    for n in range(4000):
        maker.allocate(300 + n % 3000)
    trace = maker.write(tmp_path / "holes.trace")
    options = ["--env", setting, *preload(allocator)]
    found = [memory_of(trace, *options) for _ in range(4)]
    steady = [f for f in found if not f["huge_pages"]["fallbacks"] + f["huge_pages"]["collapses"]]
    figures = {(f["faults"], f["peak_heap_bytes"], f["mean_heap_bytes"]) for f in steady}
    assert len(figures) <= 1
    small = memory_of(trace, *options, "--thp", "never")
    assert small["huge_pages"] is None
    for one in steady:
        pages = one["huge_pages"]["pages"]
        assert pages > 0
        # With small pages these have a fault each, but for those that nobody touches.
        assert abs(one["faults"] + pages - small["faults"]) <= 4 * 511


@pytest.mark.parametrize("allocator", ["glibc", "exgen"])
def test_a_machine_of_huge_pages_everywhere_shows_in_the_figures(tmp_path: Path, allocator: str):
    """Without any setting; changes nothing of the machine: set it to `always` to run this."""
    found = read_machine().thp
    if found != "always":
        pytest.skip(
            f"transparent huge pages of this machine: {found or 'none'}, not always; as root, "
            "`echo always > /sys/kernel/mm/transparent_hugepage/enabled` makes it so"
        )
    maker = TraceMaker()
    for _ in range(2):
        maker.allocate(24 * MIB, untouched=5000)
    for block in [maker.allocate(2000) for _ in range(4000)][::2]:
        maker.free(block)
    trace = maker.write(tmp_path / "sparse.trace")
    options = preload(allocator)
    kept, without = memory_of(trace, *options), memory_of(trace, *options, "--thp", "never")
    assert (kept["settings"]["thp"], without["settings"]["thp"]) == ("keep", "never")
    assert without["huge_pages"] is None
    assert kept["huge_pages"]["pages"] > 0 or kept["huge_pages"]["fallbacks"]
    assert kept["faults"] < without["faults"]
    for figure in ("mean_heap_bytes", "peak_heap_bytes"):
        assert kept[figure] >= without[figure] >= kept["peak_live_bytes"] // 100


@pytest.mark.parametrize("thp", ["never", "keep"])
def test_heap_holds_what_is_live_whatever_the_allocator_took_before(steady_blocks: Path, thp: str):
    """Memory that an allocator takes while starting is heap; the baseline has none of it."""
    large_pages = {
        "glibc": "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
        "tcmalloc": "TCMALLOC_AGGRESSIVE_DECOMMIT=0",
        "jemalloc": "MALLOC_CONF=thp:always",
        "mimalloc": "MIMALLOC_LARGE_OS_PAGES=1",
        "exgen": "EXGEN_CONF=huge_pages:always",
    }
    baselines = set()
    for name, setting in large_pages.items():
        options = ["--thp", thp, "--env", setting]
        result = memory_of(steady_blocks, *options, *preload(name))
        assert result["mean_heap_bytes"] >= result["mean_live_bytes"]
        assert result["peak_heap_bytes"] >= result["peak_live_bytes"]
        baselines.add(result["baseline_bytes"])
    assert max(baselines) - min(baselines) <= 16 * PAGE


def test_a_large_footprint_at_start_shows_in_a_tiny_program(tmp_path: Path):
    """Tcmalloc holds megabytes before the first block; glibc does not."""
    maker = TraceMaker()
    maker.free(maker.allocate(16))
    trace = maker.write(tmp_path / "tiny.trace")
    glibc = memory_of(trace)
    tcmalloc = memory_of(trace, *preload("tcmalloc"))
    assert tcmalloc["peak_heap_bytes"] > glibc["peak_heap_bytes"] + MIB


def test_threads_and_their_stacks_are_no_heap(tmp_path: Path):
    maker = TraceMaker()
    for thread in range(1, 17):
        maker.start(thread)
        maker.free(maker.allocate(100, thread=thread), thread=thread)
    result = memory_of(maker.write(tmp_path / "threads.trace"))
    assert result["peak_heap_bytes"] < 17 * 4 * PAGE
    assert result["syscalls"]["mprotect"] <= 17 * 2


def test_copies_are_not_counted_per_byte(tmp_path: Path):
    """Clearing and copying large blocks takes far fewer instructions than bytes.

    Blocks below the mmap threshold, which is raised, so that libc clears and moves them
    itself; with `rep` strings counted per byte there would be one instruction per byte.
    """
    maker = TraceMaker()
    n_bytes = 0
    for _ in range(8):
        slot, guard = maker.allocate(MIB, op=Op.CALLOC), maker.allocate(64)
        maker.reallocate(slot, 4 * MIB)
        maker.free(slot)
        maker.free(guard)
        n_bytes += 2 * MIB
    path = maker.write(tmp_path / "copies.trace")
    tunables = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1073741824"
    result = replay(
        path, "--runs", "count", "--instrument", counting_instrument(), "--env", tunables
    )
    assert 10_000 < result["instructions"]["allocator"] < n_bytes / 8


def counted_by_plugin(subject: str, cpu: str, tmp_path: Path) -> tuple[int, int, int]:
    """Compile a program of tests/native and return its instructions outside, own and waiting."""
    need_instrument("qemu")
    source = (ROOT / "tests" / "native" / f"{subject}.c").read_text()
    program = compile_(tmp_path, source, "-no-pie", "-pthread")
    result = os.memfd_create("counts")
    settings = f"fd={result:x},begin=6d6101,end=6d6102,count_own=1"
    plugin = native_file("instruction_count_1.so")
    subprocess.run(
        ["qemu-x86_64", "-cpu", cpu, "-plugin", f"{plugin},{settings}", program],
        check=True,
        pass_fds=[result],
    )
    _magic, outside, own, waiting = COUNTS.unpack(os.pread(result, COUNTS.size, 0))
    os.close(result)
    return outside, own, waiting


@pytest.mark.parametrize("cpu", ["max", "max,-erms,-fsrm"])
def test_plugin_counts_every_instruction_once(tmp_path: Path, cpu: str):
    """A `rep` instruction of a million iterations is one instruction, as in hardware."""
    counts = counted_by_plugin("plugin_subject", cpu, tmp_path)
    assert counts == (1 + 10 * 6 + 4 + 10 * 6 + 2, 0, 0)


def test_plugin_counts_threads_apart(tmp_path: Path):
    """What one does is lost by no other one, and ends no `rep` instruction of another."""
    counts = {counted_by_plugin("plugin_threads", "max", tmp_path) for _ in range(4)}
    assert len(counts) == 1
    assert 200_000_000 < counts.pop()[0] < 200_010_000


SUPERBLOCKS = "EXGEN_CONF=superblock_size:"
"""The smallest and the largest have no colours, which would be those of the addresses."""


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("glibc", None),
        ("tcmalloc", None),
        ("jemalloc", None),
        ("mimalloc", None),
        ("exgen", f"{SUPERBLOCKS}{128 << 10}"),
        ("exgen", f"{SUPERBLOCKS}{8 * MIB}"),
    ],
)
@pytest.mark.parametrize("n_threads", [1, 4])
def test_instruments_agree(tmp_path: Path, name: str, setting: str | None, n_threads: int):
    """Qemu and cachegrind count the same instructions of the allocator to 1 %.

    tcmalloc's hot section, like the emulator's waiting loops, is one that valgrind knows
    no library for.  A string instruction, which valgrind counts as many, has no place in exgen.
    """
    try:
        library = get_allocator(name).locate().library
    except MissingToolError as error:
        pytest.skip(str(error))
    trace = write_mixed_trace(tmp_path / "mixed.trace", n_threads, 15_000)
    options = [] if library is None else ["--preload", str(library)]
    options += [] if setting is None else ["--env", setting]
    qemu, cachegrind = (
        replay(trace, "--runs", "count", "--instrument", need_instrument(instrument), *options)
        for instrument in COUNTING
    )
    for part in ("allocator", "process"):
        assert cachegrind["instructions"][part] == pytest.approx(
            qemu["instructions"][part], rel=0.01
        )


@pytest.mark.parametrize("n_threads", [1, 4])
def test_kept_workload_and_fewer_counts_change_no_figure(tmp_path: Path, n_threads: int):
    """What is left out of decoding and counting is not what is measured."""
    need_instrument("qemu")
    trace = write_mixed_trace(tmp_path / "mixed.trace", n_threads, 15_000)
    whole = replay(trace, "--instrument", "qemu")
    kept = ["--keep", str(tmp_path / "kept"), "--instructions", "allocator"]
    replay(trace, *kept, "--runs", "memory")
    again = replay(trace, *kept, "--instrument", "qemu")
    assert again["instructions"].pop("process") is None
    assert whole["instructions"].pop("process") > whole["instructions"]["allocator"]
    for result in (whole, again):
        del result["wall_ns"], result["cpu_ns"]
    assert again == whole


def test_what_is_kept_behind_a_plan_moves_no_memory(tmp_path: Path):
    """It moved all that is mapped later, and exgen took other instructions than at first."""
    need_instrument("qemu")
    trace = ROOT / "configs/workloads/gem5-suite/traces/traffic-random.trace"
    options = ["--instrument", "qemu", "--runs", "count", "--keep", str(tmp_path / "kept")]
    first, again = (replay(trace, *options, *preload("exgen"))["instructions"] for _ in range(2))
    assert first == again


def test_auto_takes_an_instrument_that_separates_the_allocators_share(tmp_path: Path):
    """Without it there is no cost to tune for."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 2_000)
    expected = counting_instrument()
    counted = replay(trace, "--runs", "count", "--instrument", "auto")["instructions"]
    assert counted["instrument"] == expected
    assert counted["allocator"] > 0


def test_free_running_mode_reports_latencies(tmp_path: Path):
    """Percentiles ascend for every kind of call; nothing deterministic is claimed."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", 4, 40_000)
    result = replay(trace, "--threads", "free")
    assert result["instructions"] is None
    assert result["syscalls"] is None
    for kind in ("malloc", "realloc", "free", "all"):
        row = list(result["latency_ns"][kind].values())
        assert row == sorted(row)
        assert row[0] >= 0
        assert row[-1] > 0


def test_free_running_mode_reports_what_threads_wait_for(tmp_path: Path):
    """A block that one thread allocates late and another frees at once is an edge to wait for."""
    maker = TraceMaker()
    maker.start(1)
    for _ in range(3000):
        first = [maker.allocate(2000) for _ in range(20)]
        maker.free(first.pop(), thread=1)
        for slot in first:
            maker.free(slot)
    result = replay(maker.write(tmp_path / "edges.trace"), "--threads", "free")
    contention = result["contention"]
    assert contention["allocator_ns"] > 0
    assert 0 < contention["edge_waits"] <= 2 * 3000
    assert contention["edge_wait_ns"] > 0
    assert contention["sleeps"] >= 0
    assert contention["preemptions"] >= 0
    alone = replay(write_mixed_trace(tmp_path / "one.trace", 1, 5000), "--threads", "free")
    assert alone["contention"]["edge_waits"] == 0
    baton = memory_of(tmp_path / "edges.trace")
    assert baton["contention"] is None
    assert baton["checksum"] == result["checksum"]


@pytest.mark.parametrize("threads", ["baton", "free"])
def test_lazily_freed_pages_are_no_heap_with_or_without_a_tracer(tmp_path: Path, threads: str):
    maker = TraceMaker()
    slots = [maker.allocate(4000) for _ in range(20_000)]
    for slot in slots:
        maker.free(slot)
    trace = maker.write(tmp_path / "burst.trace")
    conf = "EXGEN_CONF=purge_how:free,purge_delay:0,pool_superblocks:1024"
    result = memory_of(trace, "--threads", threads, *preload("exgen"), "--env", conf)
    assert result["lazy_free_bytes"] > 70 * MIB
    assert result["final_heap_bytes"] < 4 * MIB
    assert result["peak_heap_bytes"] > 76 * MIB


def test_a_split_run_leaves_the_other_fields_null(large_block: Path):
    """Absent is null, never 0."""
    memory = memory_of(large_block)
    count = replay(large_block, "--runs", "count", "--instrument", counting_instrument())
    assert memory["instructions"] is None
    for name in ("peak_heap_bytes", "mean_heap_bytes", "faults", "syscalls", "curve", "wall_ns"):
        assert count[name] is None
    assert count["checksum"] == memory["checksum"]
    assert count["verified_blocks"] == memory["verified_blocks"] == 2
    assert count["allocator"]["malloc_from"] == memory["allocator"]["malloc_from"]


def test_curve_has_the_points_asked_for(tmp_path: Path):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 20_000)
    curve = memory_of(trace, "--curve-points", "50")["curve"]
    assert {len(column) for column in curve.values()} == {50}
    assert curve["event"] == sorted(curve["event"])
    assert curve["time_ns"] == sorted(curve["time_ns"])


def test_purging_follows_the_time_of_the_trace(tmp_path: Path):
    """With jemalloc, memory freed before a long pause is given back during it."""
    library = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    if not library.exists():
        pytest.skip("jemalloc is not installed")
    maker = TraceMaker()
    slots = [maker.allocate(16_000) for _ in range(4000)]
    for slot in slots:
        maker.free(slot)
    for _ in range(30_000):
        maker.pause(SECOND_NS // 500)
        maker.free(maker.allocate(100_000))
    trace = maker.write(tmp_path / "pause.trace")
    means = [
        memory_of(trace, "--preload", str(library), "--env", f"MALLOC_CONF={conf}")
        for conf in ("dirty_decay_ms:1000,muzzy_decay_ms:0", "dirty_decay_ms:-1")
    ]
    assert means[0]["mean_heap_bytes"] < means[1]["mean_heap_bytes"] / 4


def test_calibration_is_plausible():
    command = [str(native_file("rand_malloc")), "--calibrate"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    assert set(result["ns_per_syscall"]) == {
        "brk",
        "mmap",
        "munmap",
        "madvise",
        "mremap",
        "mprotect",
    }
    assert all(cost > 0 for cost in result["ns_per_syscall"].values())
    assert 0 < result["ns_per_instruction"] < 100
    assert result["c_fault"] > 1
    assert 0 <= result["c_page"] < result["c_fault"]
    assert result["c_syscall"] > 1
    for price in ("c_fault", "c_page", "c_syscall"):
        low, high = result[f"{price}_interval"]
        assert low <= result[price] <= high
