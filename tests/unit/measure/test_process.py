"""Native tools are waited for, however long their limit."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.measure.process import Finished, Processes
from tuner.recording.program import run_program


@pytest.mark.parametrize("timeout_s", [None, 1e7, 3.6e23])
def test_a_limit_longer_than_the_system_can_wait_is_no_failure(timeout_s: float | None):
    ended = Processes().run(["/bin/echo", "done"], environment={}, timeout_s=timeout_s)
    assert ended == Finished(0, "done\n", "")


def test_what_a_signal_ended_is_said_by_its_name():
    """A limit of file sizes ended rand_malloc, and the message was `-25`."""
    assert Finished(-25, "", "").ending == "killed by SIGXFSZ"
    assert Finished(1, "", "first\nno room\n").ending == "exit status 1: no room"


def test_an_interrupt_that_leaves_the_lock_of_popen_taken_ends_the_process():
    """`Popen.wait` waited for that lock, and malloc-tuner for ever."""

    class Unlucky(Processes):
        def _note(self, process: subprocess.Popen[bytes]) -> None:
            super()._note(process)
            vars(process)["_waitpid_lock"].acquire()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sleep(Unlucky())


def sleep(processes: Processes) -> Finished:
    path, nothing = {"PATH": "/usr/bin:/bin"}, subprocess.DEVNULL
    return processes.run(["sleep", "60"], environment=path, stdout=nothing, stderr=nothing)


@pytest.mark.parametrize(
    "start",
    [
        lambda _: sleep(Processes()),
        lambda spool: run_program(["sleep", "60"], spool, follow=False, is_silent=True),
    ],
)
def test_an_interrupt_while_a_process_starts_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[Path], object]
):
    popen, begun = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def interrupted(*words: Any, **how: Any) -> Any:
        begun.append(popen(*words, **how))
        signal.raise_signal(signal.SIGINT)
        return begun[0]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun[0].poll() == -signal.SIGKILL
