"""The program under the recorder: its environment, its signals, its end."""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import MissingToolError, ProgramError
from tuner.recording import program, record
from tuner.recording.program import Ending, recorder_environment, run_program


def ending(exit_status: int | None = None, signal_name: str | None = None) -> Ending:
    return Ending(exit_status, signal_name, wall_s=1.0, cpu_s=1.0, end_ns=1)


@pytest.mark.parametrize(
    ("end", "words", "is_crash", "trace"),
    [
        (ending(exit_status=3), "exited with status 3", False, "is complete"),
        (ending(signal_name="SIGTERM"), "was ended by SIGTERM", False, "ends there"),
        (ending(signal_name="SIGPIPE"), "was ended by SIGPIPE", False, "ends there: who read its"),
        (ending(signal_name="SIGSEGV"), "was ended by SIGSEGV", True, "is good up to the crash"),
        (ending(signal_name="SIG40"), "was ended by SIG40", True, "is good up to the crash"),
    ],
)
def test_only_unwanted_signals_are_crashes(end: Ending, words: str, is_crash: bool, trace: str):
    assert str(end) == words
    assert end.is_crash == is_crash
    assert end.what_is_left.startswith(f"its trace {trace}")


def test_a_library_path_the_loader_would_split_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(program, "native_file", lambda name: Path("/opt/my tools") / name)
    with pytest.raises(MissingToolError, match="LD_PRELOAD allows no blank or colon"):
        record(["true"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir()), "and nothing is left behind"


def test_other_preloaded_libraries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LD_PRELOAD", "libjemalloc.so.2")
    environment = recorder_environment(tmp_path, follow=True)
    assert environment["LD_PRELOAD"].endswith("librecorder.so:libjemalloc.so.2")
    follow, exec_ns, folder = environment["MALLOC_TUNER_RECORD"].split(":", 2)
    assert (follow, folder) == ("1", str(tmp_path))
    assert 0 < int(exec_ns) <= time.monotonic_ns()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_while_the_program_starts_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """Ctrl-C, too: the terminal may have sent it before the program was there."""
    start = subprocess.Popen

    def start_slowly(*words: Any, **how: Any) -> Any:
        signal.raise_signal(signal.Signals[name])
        return start(*words, **how)

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    monkeypatch.setattr(program, "_has_terminal", lambda: True)
    assert run_program(["sleep", "9"], tmp_path, follow=False).signal_name == name


def test_a_signal_that_comes_as_the_program_ends_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both were sent it; passing it on took the ending of the program from who waits for it."""
    wait4 = os.wait4

    def interrupted(pid: int, options: int) -> object:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        signal.raise_signal(signal.SIGTERM)
        return wait4(pid, options)

    monkeypatch.setattr(os, "wait4", interrupted)
    assert run_program(["sh", "-c", "exit 3"], tmp_path, follow=False).exit_status == 3


def test_handlers_of_the_caller_come_back(tmp_path: Path):
    before = signal.getsignal(signal.SIGINT)
    record(["ls", "/"], tmp_path / "a.trace")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_hangup_reaches_the_program_which_goes_on_recorded(tmp_path: Path):
    ready = tmp_path / "ready"
    waits = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"
    script = f"trap 'exit 5' HUP; touch {ready}; {waits}"

    def hang_up() -> None:
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        threading.Thread(target=hang_up, daemon=True).start()
        found = run_program(["sh", "-c", script], tmp_path, follow=False)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert found.exit_status == 5


@pytest.mark.parametrize("is_silent", [False, True])
def test_an_interrupt_of_this_process_alone_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
):
    wait4 = os.wait4

    def interrupted(pid: int, options: int) -> object:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        return wait4(pid, options)

    monkeypatch.setattr(os, "wait4", interrupted)
    if is_silent:
        with pytest.raises(KeyboardInterrupt):
            record(["sleep", "60"], tmp_path / "a.trace", is_silent=True)
        assert not list(tmp_path.iterdir())
    else:
        assert run_program(["sleep", "60"], tmp_path, follow=False).signal_name == "SIGINT"


@pytest.mark.parametrize(
    ("start", "follow"),
    [
        ("sleep 60 & wait", False),
        ("setsid sleep 60 & wait", False),
        ("setsid sh -c 'sleep 60 & wait' & wait", False),
        ("(setsid sleep 60 &); sleep 60", True),
    ],
)
def test_a_silent_program_that_does_not_end_in_time_ends_with_all_it_started(
    tmp_path: Path, start: str, *, follow: bool
):
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    command, trace = ["sh", "-c", f"exec 9>{tmp_path}/held; {start}"], tmp_path / "a.trace"

    with pytest.raises(ProgramError, match=r"still running under the recorder after 2 s"):
        record(command, trace, follow=follow, is_silent=True, timeout_s=2.0)

    assert select.select([held], [], [], 20.0)[0], "nobody has the other end"
    os.close(held)
    assert [path.name for path in tmp_path.iterdir()] == ["held"]


def test_a_process_that_ends_while_it_is_looked_at_keeps_no_program_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pids: list[int] = []

    def of_the_ended(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def read(path: Any) -> Any:
            if Path(path).name == "task":
                pids.append(int(Path(path).parent.name))
                raise FileNotFoundError(path)
            return real(path)

        return read

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, of_the_ended(getattr(os, name)))
    with pytest.raises(ProgramError, match="still running"):
        run_program(["sleep", "60"], tmp_path, follow=False, is_silent=True, timeout_s=0.5)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_a_script_without_an_interpreter_is_told_to_name_one(tmp_path: Path):
    script = tmp_path / "app"
    script.write_text("true\n")
    script.chmod(0o700)
    with pytest.raises(MissingToolError, match="Exec format error; begin a script with #!"):
        record([str(script)], tmp_path / "a.trace")
