"""A part of a run under the recorder, and processes that become another user."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.doubles.traces import load
from tuner.cli.main import run
from tuner.errors import ProgramError, SpecError
from tuner.recording import program, record
from tuner.resources import native_file
from tuner.trace.file import Events, Op, Trace

NOBODY = 65534
STEPS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
kept, gone = libc.malloc(111111), libc.malloc(222222)
libc.free(gone)
for size in (333333, 444444, 555555):
    print("made", flush=True)
    sys.stdin.readline()
    libc.malloc(size)
"""
"""Blocks of known sizes, one more for each line that it reads."""


def sizes(events: Events) -> list[int]:
    known = (111111, 222222, 333333, 444444, 555555)
    return [int(size) for size in events["size"] if size in known]


class Stepped:
    """A recorded program that goes on line by line."""

    def __init__(self, output: Path, *options: str, script: str = STEPS) -> None:
        words = ["record", "-o", str(output), *options, "--", sys.executable, "-c", script]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tuner.cli.main", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def step(self, *, is_last: bool = False) -> None:
        """Let it make the next block."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "made\n"
        if is_last:
            return
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_for(self, words: str) -> None:
        assert self.process.stderr is not None
        while words not in (line := self.process.stderr.readline()):
            assert line, f"never said {words!r}"

    def mark(self, words: str) -> None:
        """Send the signal of windows, and wait until the command has said what follows."""
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for(words)

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate("\n\n\n")
        return self.process.returncode, errors


@pytest.fixture
def stepped(tmp_path: Path) -> Iterator[Callable[..., Stepped]]:
    begun: list[Stepped] = []

    def begin(*options: str, script: str = STEPS) -> Stepped:
        begun.append(Stepped(tmp_path / "a.trace", *options, script=script))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def test_a_window_between_signals_begins_with_the_blocks_that_live(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    stepping = stepped("--from", "signal", "--to", "signal")
    stepping.step()
    stepping.step()  # the first block is there: it was made before this line was read
    stepping.step(is_last=True)
    stepping.mark("the window begins")
    assert stepping.process.stdin is not None
    stepping.process.stdin.write("\n")
    stepping.process.stdin.flush()

    code, errors = stepping.end()

    assert code == 0, errors
    events = load(tmp_path / "a.trace")
    assert sizes(events) == [111111, 333333, 444444, 555555]
    assert (events["time_ns"][index_of(events, 444444)]) == 0
    assert events["time_ns"][index_of(events, 555555)] > 0


def index_of(events: Events, size: int) -> int:
    return int((events["size"] == size).argmax())


def test_what_comes_after_a_window_is_not_in_its_trace(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    stepping = stepped("--to", "signal")
    stepping.step()
    stepping.step(is_last=True)
    stepping.mark("the window has ended; the program goes on, the trace is made at its end")

    code, errors = stepping.end()

    assert code == 0, errors
    assert sizes(load(tmp_path / "a.trace")) == [111111, 222222, 333333]
    with Trace(tmp_path / "a.trace") as trace:
        assert trace.totals.start_ns == 0
        assert trace.totals.end_ns is not None
        assert trace.totals.end_ns >= trace.totals.duration_ns
        assert trace.metadata["is_cut"], "though its recorder had no event to see that by"


def test_a_window_begins_when_the_program_is_ready(tmp_path: Path, stepped: Callable[..., Stepped]):
    ready = tmp_path / "ready"
    stepping = stepped("--ready", f"command:test -e {ready}", "--from", "ready", "--to", "1h")
    stepping.step()
    stepping.step(is_last=True)
    ready.touch()
    stepping.wait_for("the window begins")

    code, errors = stepping.end()

    assert code == 0, errors
    events = load(tmp_path / "a.trace")
    assert sizes(events) == [111111, 333333, 444444, 555555]
    assert events["time_ns"][index_of(events, 333333)] == 0


def test_a_window_ends_when_the_program_is_told_to_stop(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    stepping = stepped("--to", "stop")
    stepping.step()
    stepping.step(is_last=True)
    stepping.process.terminate()
    stepping.process.wait()  # before its input ends, which lets the program go on

    _, errors = stepping.process.communicate()

    assert "ended by SIGTERM" in errors
    assert sizes(load(tmp_path / "a.trace")) == [111111, 222222, 333333]


def test_a_window_that_never_begins_is_an_error_and_nothing_is_lost(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    code, errors = stepped("--from", "1h").end()

    assert code == ProgramError.exit_code
    assert "is of the whole run: the program ended within 1 h" in errors
    assert len(sizes(load(tmp_path / "a.trace"))) == 5


def test_a_recording_is_bounded_on_disk(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    script = "print(sum(len(bytes(1000)) for _ in range(400000)))"
    words = ["record", "-o", str(tmp_path / "a.trace"), "--at-most", "1 MiB", "--"]

    assert run([*words, sys.executable, "-c", script]) == 0

    found = capfd.readouterr()
    assert found.out == "400000000\n", "the program went on"
    assert "recording ended before the program: by --to, or at --at-most 1 MiB" in found.err
    n_events = len(load(tmp_path / "a.trace"))
    assert 50_000 < n_events <= (1 << 20) / 8


BUSY = """
import sys
for step in range(2):
    kept = sum(len(bytes(1000)) for _ in range(150_000))
    print("made", flush=True)
    sys.stdin.readline()
"""
"""More than 2 MiB of events, twice."""


def test_what_comes_before_a_window_does_not_count_against_its_limit(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    stepping = stepped("--from", "signal", "--at-most", "3 MiB", script=BUSY)
    stepping.step(is_last=True)
    stepping.mark("the window begins")

    code, errors = stepping.end()

    assert code == 0, errors
    assert "recording ended before the program" not in errors
    assert 300_000 < len(load(tmp_path / "a.trace")) < 400_000


def test_a_limit_reached_before_the_window_is_an_error(
    tmp_path: Path, stepped: Callable[..., Stepped]
):
    stepping = stepped("--from", "signal", "--at-most", "1 MiB", script=BUSY)
    stepping.step(is_last=True)
    stepping.process.send_signal(signal.SIGUSR1)

    code, errors = stepping.end()

    assert code == ProgramError.exit_code
    assert "is of the time before the window, which took all of --at-most; allow more" in errors
    assert 50_000 < len(load(tmp_path / "a.trace")) < 150_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from", "soon"), "--from soon: give start, ready, signal, or a time"),
        (("--to", "5"), "--to 5: give end, stop, signal, or a time"),
        (("--from", "ready"), "--ready CONDITION"),
        (("--ready", "tcp:1"), "--from ready"),
        (("--from", "ready", "--ready", "line:up"), "does not see what the program prints"),
        (("--from", "ready", "--ready", "udp:1"), "udp:1: not understood"),
        (("--at-most", "10 KiB"), "not from 1 MiB"),
    ],
)
def test_a_window_that_cannot_be_is_one_clear_error(
    tmp_path: Path, options: Sequence[str], said: str, capfd: pytest.CaptureFixture[str]
):
    words = ["record", "-o", str(tmp_path / "a.trace"), *options, "--", "true"]

    assert run(words) == SpecError.exit_code

    assert said in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


# ---- services that give up the rights of root

SERVICE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
if os.fork() == 0:
    libc.malloc(333333)
    os._exit(0)
os.wait()
os.execv(sys.executable, [sys.executable, "-c",
    "import ctypes; ctypes.CDLL(None).malloc(555555)"])
"""


@pytest.fixture
def readable_recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the recorder where everybody may read it, as an installation does."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copy(native_file("librecorder.so"), folder))
        monkeypatch.setattr(program, "native_file", lambda _: copy)
        yield


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.usefixtures("readable_recorder")
def test_a_service_that_changes_its_user_keeps_its_recording(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no python3 that everybody may run")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    found = record([python, "-c", SERVICE.format(nobody=NOBODY)], closed / "a.trace", follow=True)

    assert "recording" not in capfd.readouterr().err
    (service, child) = sorted(found.processes, key=lambda one: one.pid)
    assert 333333 in load(child.path)["size"]
    assert 555555 in load(service.path)["size"], "after its exec"
    assert re.fullmatch(r"a\.2-python3?[\d.]*\.trace", child.path.name)
    assert Op.MALLOC in load(service.path)["op"]
