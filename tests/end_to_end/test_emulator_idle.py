"""Threads of an allocator act while the recorded program rests, as its time passes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.instruments import counting_instrument
from tests.doubles.programs import native
from tests.doubles.traces import TraceMaker
from tuner.allocators import get_allocator
from tuner.errors import MissingToolError
from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end

MIB = 1 << 20
SECOND_NS = 10**9
N_BLOCKS = 50_000
BLOCK_BYTES = 4000
BURST_BYTES = N_BLOCKS * BLOCK_BYTES


@pytest.fixture(scope="module", params=[1, 2], ids=["1-thread", "2-threads"])
def burst(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 200 MB that are freed at once, and of 15 s without an event."""
    maker = TraceMaker(step_ns=1000)
    for thread in range(1, request.param):
        maker.start(thread)
    slots = [(i % request.param, maker.allocate(BLOCK_BYTES, thread=i % request.param))
             for i in range(N_BLOCKS)]  # fmt: skip
    maker.pause(SECOND_NS)
    for thread, slot in slots:
        maker.free(slot, thread=thread)
    return maker.write(
        tmp_path_factory.mktemp("burst") / "burst.trace", (0, 16 * SECOND_NS + 10**8)
    )


def replay(
    trace: Path, settings: str, *options: str, allocator: str = "jemalloc", by: str = "MALLOC_CONF"
) -> dict[str, Any]:
    """Replay under an allocator with settings, given by that variable."""
    try:
        library = get_allocator(allocator).locate().library
    except MissingToolError as error:
        pytest.skip(str(error))
    command = [native_file("rand_malloc"), "--preload", library, "--env",
               f"{by}={settings}", "--curve-points", "2000", *options, trace]  # fmt: skip
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def floor_of(result: dict[str, Any]) -> int:
    """Return the heap at the end of the process."""
    final = result["final_heap_bytes"]
    assert final == pytest.approx(result["curve"]["heap_bytes"][-1], abs=1.0)
    return int(final)


def test_a_background_thread_gives_a_burst_back_while_idle(burst: Path):
    """The pause of the trace passes for it; without the thread the burst stays."""
    stays = replay(burst, "dirty_decay_ms:5000", "--runs", "memory")
    falls = replay(burst, "dirty_decay_ms:5000,background_thread:true", "--runs", "memory")
    assert floor_of(stays) > 0.8 * BURST_BYTES
    assert floor_of(falls) < 0.1 * BURST_BYTES
    assert falls["mean_heap_bytes"] < 0.5 * stays["mean_heap_bytes"]
    between = [one for one in falls["curve"]["heap_bytes"]
               if 0.2 * BURST_BYTES < one < 0.8 * BURST_BYTES]  # fmt: skip
    assert len(between) > 3, "decay takes its time"


def test_settings_of_decay_act_in_an_idle_phase(burst: Path):
    slow = replay(burst, "background_thread:true", "--runs", "memory")
    fast = replay(burst, "background_thread:true,dirty_decay_ms:1000", "--runs", "memory")
    assert fast["mean_heap_bytes"] < 0.6 * slow["mean_heap_bytes"]


def test_an_idle_phase_repeats_to_the_instruction(burst: Path):
    instrument = counting_instrument()
    results = [
        replay(burst, "background_thread:true,dirty_decay_ms:1000", "--instrument", instrument)
        for _ in range(2)
    ]
    for result in results:
        del result["wall_ns"], result["cpu_ns"]
    assert results[0] == results[1]
    without = replay(burst, "dirty_decay_ms:1000", "--instrument", instrument)
    mine = results[0]["instructions"]["allocator"]
    assert mine > without["instructions"]["allocator"], "its work counts"
    assert results[0]["syscalls"]["madvise"] > without["syscalls"]["madvise"]


def test_a_background_thread_runs_beside_free_threads(burst: Path):
    result = replay(burst, "background_thread:true", "--threads", "free", "--runs", "memory")
    assert result["verified_blocks"] == N_BLOCKS


@pytest.mark.parametrize("burst", [2], indirect=True, ids=["2-threads"])
def test_the_thread_of_exgen_gives_a_burst_back_while_idle(burst: Path):
    """It sleeps by system calls."""
    keeping = "purge_delay:1000,pool_superblocks:1024"
    options = ("--runs", "memory", "--timeout", "4")
    stays, falls = (
        replay(burst, f"{keeping},timer:{ms}", *options, allocator="exgen", by="EXGEN_CONF")
        for ms in (0, 100)
    )
    assert floor_of(stays) > 0.8 * BURST_BYTES
    assert floor_of(falls) < 0.1 * BURST_BYTES


@pytest.mark.parametrize(
    "way", ["nanosleep", "clock_nanosleep", "usleep", "cond_timedwait", "syscall"]
)
def test_a_thread_of_an_allocator_sleeps_on_the_clock_of_the_trace(tmp_path: Path, way: str):
    """Whatever the call: one that takes a MiB a second has taken ten after ten seconds."""
    flags = ("-shared", "-fPIC", "-pthread", "-D_GNU_SOURCE")
    library = native(tmp_path, "emulator_threaded_allocator.c", *flags)
    maker = TraceMaker(step_ns=0)
    maker.allocate(16)
    maker.pause(10 * SECOND_NS + SECOND_NS // 2)
    maker.allocate(16)
    trace = maker.write(tmp_path / "pause.trace", (0, 11 * SECOND_NS - 1))
    command = [native_file("rand_malloc"), "--preload", library, "--env",
               f"ALLOCATOR_SLEEPS={way}", "--runs", "memory", "--timeout", "4", trace]  # fmt: skip

    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)

    assert floor_of(json.loads(done.stdout)) // MIB == 10
