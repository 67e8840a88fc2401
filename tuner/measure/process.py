"""Starting the native tools: own session, bounded time, nothing left behind."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tuner.interrupts import held
from tuner.records import signal_name

_KEPT = ("PATH", "HOME", "TMPDIR")
"""Variables a native tool needs to find valgrind, qemu and a place for its files."""

_LONGEST_WAIT_S = 1e6
"""Eleven days; poll(2) cannot wait for more than 2^31 ms."""

_PATIENCE_S = 10.0
"""For what was asked to end what it started."""

_POLL_S = 0.01

_LINES = 4
_CHARACTERS = 400
"""Of what a program said last, in a message."""


@dataclass(frozen=True)
class Finished:
    """How a process ended."""

    exit_status: int
    """Exit status, or minus the number of the signal that ended it."""
    stdout: str
    stderr: str
    timed_out: bool = False
    """True when it was killed at the time limit."""

    @property
    def ending(self) -> str:
        """How it ended, and the last line of its complaint."""
        if self.exit_status < 0:
            text = f"killed by {signal_name(-self.exit_status)}"
        else:
            text = f"exit status {self.exit_status}"
        complaint = last_line(self.stderr)
        return f"{text}: {complaint}" if complaint else text


class Processes:
    """Runs processes from any thread, and can end all that are running.

    Each process leads a session of its own: a Ctrl-C at the terminal reaches
    only malloc-tuner, which then decides, and a kill reaches all descendants
    that stayed in the session's group.  supervise ends what it started itself,
    wherever that went, and has to be asked to: a kill would leave it running.
    """

    def __init__(self, *, are_asked: bool = False) -> None:
        """Start with nothing running.

        Args:
            are_asked: SIGTERM comes before the kill, for those that end others then.
        """
        self._are_asked = are_asked
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        timeout_s: float | None = None,
        stdout: IO[bytes] | int = subprocess.PIPE,
        stderr: IO[bytes] | int = subprocess.PIPE,
        cwd: Path | None = None,
    ) -> Finished:
        """Run a command to its end; an exception in between ends its group.

        Args:
            command: program and arguments; no shell is involved.
            environment: the whole environment.
            timeout_s: elapsed seconds after which the group is killed; eleven days at the most.
            stdout: an open file to write to instead of returning the text.
            stderr: likewise.
            cwd: working folder.

        Raises:
            OSError: the program cannot be started.
        """
        words = [os.fspath(word) for word in command]
        process = None
        try:
            with held():
                process = subprocess.Popen(
                    words,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=cwd,
                    start_new_session=True,
                )
            self._note(process)
            return self._wait(process, timeout_s)
        finally:
            if process is not None:
                if process.returncode is None:  # an exception came in between
                    self._end(process)
                    _reap(process)
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """End every running process, and every one started from now on."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            self._begin_end(process)

    def _note(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.add(process)
            stopped = self._stopped
        if stopped:
            self._begin_end(process)

    def _begin_end(self, process: subprocess.Popen[bytes]) -> None:
        if not self._are_asked:
            _kill_group(process)
        elif process.returncode is None:  # once reaped, the number may be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGTERM)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and its group."""
        try:
            self._begin_end(process)
            end_s = time.monotonic() + (_PATIENCE_S if self._are_asked else 0.0)
            while time.monotonic() < end_s and not _has_ended(process):
                time.sleep(_POLL_S)
        finally:
            _kill_group(process)

    def _wait(self, process: subprocess.Popen[bytes], timeout_s: float | None) -> Finished:
        limit_s = None if timeout_s is None else min(timeout_s, _LONGEST_WAIT_S)
        timed_out = False
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            self._end(process)
            out, err = process.communicate()
        return Finished(process.returncode, _text(out), _text(err), timed_out=timed_out)


def tool_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables a native tool gets: no allocator setting of the user's."""
    kept = {name: environment[name] for name in _KEPT if name in environment}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def last_line(text: str) -> str:
    """Return the last line of what a program said; empty where it said nothing."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def last_lines(text: str) -> str:
    r"""Return the last lines of what a program said, in one; empty where it said nothing.

    Example:
        >>> last_lines("usage\n\nno such file\n  in this folder\n")
        'usage / no such file / in this folder'
    """
    lines = " / ".join([line.strip() for line in text.splitlines() if line.strip()][-_LINES:])
    return lines if len(lines) <= _CHARACTERS else f"...{lines[-_CHARACTERS:]}"


def printed_last(text: str) -> str:
    """Return `last_lines` as the end of a message; empty where a program said nothing."""
    lines = last_lines(text)
    return f"\n  it printed last: {lines}" if lines else ""


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended; it is not reaped, so its number stays its own."""
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    try:
        return os.waitid(os.P_PID, process.pid, options) is not None
    except ChildProcessError:
        return True


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was killed, past the lock of Popen.

    The exception of a signal that comes right where `communicate` takes that lock leaves it taken,
    and `Popen.wait` would wait for ever.
    """
    status = 0
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)


def _text(output: bytes | None) -> str:
    """Return what a process wrote; nothing where it wrote to a file."""
    return (output or b"").decode("utf-8", "replace")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # once reaped, the number may be another's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
