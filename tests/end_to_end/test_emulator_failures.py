"""Whatever goes wrong in a replay ends with its exit code, one message and no leftovers."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.instruments import counting_instrument
from tests.doubles.programs import native
from tests.doubles.traces import TraceMaker, write_mixed_trace
from tests.doubles.waiting import wait_until
from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end

LIMIT_S = 0.8
"""Of CPU time, ten times as much of elapsed time: less than the allocator naps, and long enough
for a replay on a machine that is busy with other things."""
WAITED_S = 0.4
"""The same where a test waits for ten of them."""
REPLAY_FAILED, USAGE, UNREADABLE, TIMED_OUT, NO_INSTRUMENT, NO_PRELOAD = range(1, 7)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of one thread."""
    return write_mixed_trace(tmp_path_factory.mktemp("traces") / "mixed.trace", 1, 20_000)


@pytest.fixture(scope="module")
def bad_allocator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An allocator that does what EMULATOR_BAD says."""
    flags = ("-fno-builtin", "-shared", "-fPIC")
    return native(tmp_path_factory.mktemp("libraries"), "emulator_bad_allocator.c", *flags)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run rand_malloc; never raises for an exit code."""
    command = [str(native_file("rand_malloc")), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


Misbehave = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def misbehave(trace: Path, bad_allocator: Path) -> Misbehave:
    """Return a function that replays the trace under an allocator that does what is said."""
    fixed = ("--preload", bad_allocator, "--env")
    return lambda bad, *options: run(*fixed, f"EMULATOR_BAD={bad}", *options, trace)


def expect(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """Require the code, nothing on standard output, and one line with all parts."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("rand_malloc: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        ("damage", ("contents damaged at offset 0 of the block at event ",)),
        ("dirty_calloc", ("calloc memory not zero at offset 0 at event ", "calloc of")),
        ("misaligned", ("misaligned block 0x", " at event ", "malloc of")),
        ("crash", ("killed by SIGSEGV at event ", "malloc of")),
        ("exit", ("ended with status 0 at event ",)),
        ("null", ("the allocator returned NULL at event ", "malloc of")),
    ],
)
@pytest.mark.parametrize("runs", ["memory", "count"])
def test_a_bad_allocator_is_found_out(
    misbehave: Misbehave, fault: str, parts: tuple[str, ...], runs: str
):
    done = misbehave(fault, "--runs", runs, "--instrument", counting_instrument())
    expect(done, REPLAY_FAILED, *parts)


@pytest.mark.parametrize("runs", ["memory", "count"])
def test_a_hanging_allocator_is_stopped(misbehave: Misbehave, runs: str):
    """The limit of CPU time ends the child; the message names the event."""
    options = ("--timeout", LIMIT_S, "--runs", runs, "--instrument", counting_instrument())
    done = misbehave("hang", *options)
    expect(done, TIMED_OUT, f"no end after {LIMIT_S:g} s of CPU time, stopped at event ")


def test_a_sleeping_allocator_is_stopped(misbehave: Misbehave):
    """What uses no CPU time has ten times the limit."""
    done = misbehave("sleep", "--timeout", WAITED_S, "--runs", "memory")
    expect(done, TIMED_OUT, f"no end after {10 * WAITED_S:g} s, stopped at event ")


def test_all_clocks_show_the_time_of_the_trace(misbehave: Misbehave):
    done = misbehave("clocks", "--runs", "memory")
    assert (done.returncode, done.stderr) == (0, "")


def test_processors_are_as_many_as_ordered_however_they_are_counted(misbehave: Misbehave):
    done = misbehave("cpus", "--runs", "memory", "--cpus", 7)
    assert (done.returncode, done.stderr) == (0, "")
    done = misbehave("cpus", "--runs", "memory", "--cpus", 8)
    expect(done, REPLAY_FAILED, "killed by SIGSEGV at event ")


def test_the_proof_does_not_depend_on_what_no_bytes_are(tmp_path: Path, bad_allocator: Path):
    """NULL is a legal answer for 0 bytes, and its realloc is checked as any other."""
    maker = TraceMaker()
    for _ in range(2000):
        slot = maker.allocate(0)
        maker.reallocate(slot, 50)
        maker.free(slot)
    path = maker.write(tmp_path / "nothing.trace")
    proofs = []
    for fault in ("none", "nothing"):
        options = ("--preload", bad_allocator, "--env", f"EMULATOR_BAD={fault}")
        result = json.loads(run(*options, "--runs", "memory", path).stdout)
        proofs.append((result["checksum"], result["verified_blocks"]))
    assert proofs[0] == proofs[1]
    assert proofs[0][1] == 4000


def test_waiting_is_no_time_out(misbehave: Misbehave):
    """A child that has to wait for longer than its limit, as on a busy machine, goes on."""
    done = misbehave("nap", "--timeout", LIMIT_S, "--runs", "memory")
    assert (done.returncode, done.stderr) == (0, "")


def test_time_in_which_the_emulator_is_stopped_does_not_count(trace: Path, bad_allocator: Path):
    """SIGSTOP for longer than ten limits, then SIGCONT: the replay goes on to its end."""
    command = [str(native_file("rand_malloc")), "--preload", str(bad_allocator)]
    command += ["--env", "EMULATOR_BAD=nap", "--timeout", str(WAITED_S)]
    command += ["--runs", "memory", str(trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while not children_of(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        select.select([], [], [], 10.5 * WAITED_S)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["schema"] == "rand_malloc.result"


def children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("runs", ["memory", "count"])
def test_a_killed_supervisor_leaves_no_child(
    trace: Path, bad_allocator: Path, number: signal.Signals, runs: str
):
    """The replayer, natively or inside the instrument, dies with the supervisor."""
    command = [native_file("rand_malloc"), "--preload", bad_allocator, "--env", "EMULATOR_BAD=hang"]
    command += ["--runs", runs, "--instrument", counting_instrument(), trace]
    supervisor = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    wait_until(lambda: children_of(supervisor.pid))
    children = children_of(supervisor.pid)
    supervisor.send_signal(number)
    assert supervisor.wait() == -number
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_hang_up_that_is_ignored_ends_nothing(trace: Path, bad_allocator: Path):
    """As under nohup."""
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", native_file("rand_malloc")]
    command += ["--preload", bad_allocator, "--env", "EMULATOR_BAD=nap", "--runs", "memory", trace]
    words = list(map(str, command))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: children_of(process.pid))
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["schema"] == "rand_malloc.result"


def test_an_impossible_block_is_an_error_of_the_replay(tmp_path: Path):
    maker = TraceMaker()
    maker.allocate(16)
    maker.allocate(1 << 46)
    path = maker.write(tmp_path / "hungry.trace")
    size = str(1 << 46)
    expect(run("--runs", "memory", path), REPLAY_FAILED, "returned NULL at event 1 ", size)


def test_a_missing_library_is_refused(trace: Path, tmp_path: Path):
    """The loader would only warn and go on with libc."""
    missing = tmp_path / "none.so"
    expect(run("--preload", missing, trace), NO_PRELOAD, str(missing), "No such file")


@pytest.mark.parametrize("runs", ["memory", "count"])
def test_a_library_without_malloc_is_refused(trace: Path, runs: str):
    library = Path("/usr/lib/x86_64-linux-gnu/libm.so.6")
    done = run("--preload", library, "--runs", runs, "--instrument", counting_instrument(), trace)
    expect(done, NO_PRELOAD, "malloc comes from", "libc.so.6")


def test_a_file_that_is_no_library_is_refused(trace: Path, tmp_path: Path):
    text = tmp_path / "text.so"
    text.write_text("no library\n")
    expect(run("--preload", text, trace), NO_PRELOAD, str(text), "cannot be preloaded")


def test_a_path_the_loader_would_split_is_refused(trace: Path):
    """A colon separates libraries in LD_PRELOAD."""
    expect(run("--preload", "/a:b.so", trace), NO_PRELOAD, "colon")


def test_warnings_of_the_allocator_are_passed_on(trace: Path):
    library = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    if not library.exists():
        pytest.skip("jemalloc is not installed")
    done = run("--runs", "memory", "--preload", library, "--env", "MALLOC_CONF=nonsense:1", trace)
    assert done.returncode == 0
    assert "nonsense" in done.stderr


def test_a_missing_trace_is_unreadable(tmp_path: Path):
    expect(run(tmp_path / "none.trace"), UNREADABLE, "none.trace")


def test_a_corrupt_trace_is_unreadable(trace: Path, tmp_path: Path):
    content = np.fromfile(trace, dtype=np.uint8)
    content[len(content) // 2] ^= 0xFF
    corrupt = tmp_path / "corrupt.trace"
    content.tofile(corrupt)
    expect(run(corrupt), UNREADABLE, "corrupt.trace")


def test_a_missing_instrument_is_named(trace: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = run("--runs", "count", "--instrument", "qemu", trace)
    expect(done, NO_INSTRUMENT, "qemu-user")


@pytest.mark.parametrize("runs", ["memory", "count"])
def test_a_processor_that_is_not_there_is_named(trace: Path, runs: str):
    """Whatever runs: no instrument is blamed."""
    expect(run("--cpu", 900, "--runs", runs, trace), REPLAY_FAILED, "cannot pin to processor 900")
    expect(run("--cpu", 900, "--calibrate"), REPLAY_FAILED, "cannot pin to processor 900")


def test_a_replay_is_pinned_where_the_system_lets_it(trace: Path):
    """Not only where the emulator itself runs."""
    allowed = sorted(os.sched_getaffinity(0))
    options = ("--runs", "memory", "--cpu", allowed[-1])
    command = ["taskset", "-c", allowed[0], native_file("rand_malloc"), *options, trace]
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_usage_errors_name_the_option(trace: Path):
    expect(run("--touch", "some", trace), USAGE, "--touch", "all, ends, none, zeros, recorded")


def test_a_full_output_is_an_error(trace: Path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [native_file("rand_malloc"), "--runs", "memory", trace],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == REPLAY_FAILED
    assert os.strerror(28) in done.stderr
