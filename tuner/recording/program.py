"""Run a program under the recorder, its terminal and signals being its own."""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from errno import ENOEXEC
from pathlib import Path
from typing import Final

from tuner.errors import MissingToolError, ProgramError
from tuner.interrupts import ENDS, handling, held
from tuner.recording.descendants import DescendantWatch, ProcessUse, descendants
from tuner.recording.memory import AnonymousMemory
from tuner.recording.spool import writers
from tuner.records import signal_name
from tuner.resources import native_file

SETTING: Final = "MALLOC_TUNER_RECORD"
"""Environment variable the recorder reads: ``FOLLOW:TIME,FD,INODE:FOLDER``, FOLLOW being 0 or 1.

TIME is CLOCK_MONOTONIC in ns just before the program is executed.  FD and INODE are of a descriptor
of FOLDER that the program is given, so that it can write there as another user; may be missing.
"""

WINDOW_SIGNAL: Final = signal.SIGUSR1
"""Begins or ends a window; sent to the process that records, never to the program: services have
their own use for it."""

USUAL_ENDS: Final = frozenset({*ENDS, signal.SIGKILL, signal.SIGPIPE, signal.SIGALRM})
"""Signals by which people and scripts end a program; any other is a crash."""


@dataclass(frozen=True)
class Ending:
    """How the program ended."""

    exit_status: int | None
    """0..255, or None when a signal ended it."""
    signal_name: str | None
    """``SIGSEGV``, or None when it exited."""
    wall_s: float
    """Time from start to end, recorder included."""
    cpu_s: float
    """User and system time of the program and the children it waited for."""
    end_ns: int
    """When it ended, CLOCK_MONOTONIC."""
    peak_anon_bytes: int = 0
    """Of the program alone, as `tuner.recording.memory` has it; 0: not known."""
    mean_anon_bytes: float = 0.0
    """The same over elapsed time."""
    pid: int | None = None
    """Of the process that was started; None: not known."""
    uses: Mapping[int, ProcessUse] = field(default_factory=dict)
    """Process -> what it was seen to use; empty unless the program was watched."""

    @property
    def is_crash(self) -> bool:
        """True when a signal ended it that is not sent on purpose."""
        return self.signal_name is not None and self.signal_name not in {s.name for s in USUAL_ENDS}

    @property
    def what_is_left(self) -> str:
        """What a trace of it holds, in words."""
        if self.is_crash:
            return "its trace is good up to the crash"
        if self.signal_name == "SIGPIPE":
            return (
                "its trace ends there: who read its output closed it; have all of it read, or "
                "write it to a file, for the trace of a whole run"
            )
        return "its trace ends there" if self.signal_name else "its trace is complete"

    def __str__(self) -> str:
        """Words for a message."""
        if self.signal_name is not None:
            return f"was ended by {self.signal_name}"
        return f"exited with status {self.exit_status}"


def run_program(
    command: Sequence[str],
    spool: Path,
    *,
    follow: bool,
    is_silent: bool = False,
    timeout_s: float | None = None,
    on_signal: Callable[[int], None] = lambda _: None,
    watches_window: bool = False,
    is_watched: bool = False,
) -> Ending:
    """Run a program with the recorder preloaded, to its end.

    Ctrl-C does not end this process: it reaches the program from the terminal.  SIGINT from
    elsewhere, SIGTERM and SIGHUP are passed on.  A silent program is none of the user's, so
    each of them interrupts this process and ends the program with what it started; of that,
    what left its group and lost its parent goes on unless it is recorded.

    Args:
        command: program and arguments.
        spool: folder in which the recorder creates a spool per process.
        follow: record the children too.
        is_silent: give it no input, and drop what it prints.
        timeout_s: limit of a silent program, which is then ended in the same way; None for none.
        on_signal: is called with each signal to this process, in its handler.
        watches_window: take `WINDOW_SIGNAL` too.
        is_watched: see what each of its processes uses.

    Raises:
        MissingToolError: the program does not exist, or the recorder is in a folder that
            LD_PRELOAD cannot name.
        ProgramError: it does not end in time.
    """
    passing = _Passing(on_signal)
    numbers = (*ENDS, WINDOW_SIGNAL) if watches_window else ENDS
    with contextlib.nullcontext() if is_silent else handling(passing.take, *numbers):
        start_ns = time.monotonic_ns()
        process = None
        try:
            with held():
                process = _started(command, spool, follow=follow, is_silent=is_silent)
                passing.process = process
            passing.is_starting = False
            watch = DescendantWatch(process.pid)
            with (
                AnonymousMemory(process.pid, start_ns / 1e9) as memory,
                watch if is_watched else contextlib.nullcontext(),
            ):
                if timeout_s is not None:
                    _check_ends(process.pid, command[0], timeout_s)
                _, status, usage = os.wait4(process.pid, 0)
        except (KeyboardInterrupt, ProgramError):
            if process is not None:
                _end(process, spool)
            raise
    end_ns = time.monotonic_ns()
    code = process.returncode = os.waitstatus_to_exitcode(status)
    return Ending(
        exit_status=code if code >= 0 else None,
        signal_name=signal_name(-code) if code < 0 else None,
        wall_s=(end_ns - start_ns) / 1e9,
        cpu_s=usage.ru_utime + usage.ru_stime,
        end_ns=end_ns,
        peak_anon_bytes=memory.peak_bytes,
        mean_anon_bytes=memory.mean_bytes,
        pid=process.pid,
        uses=watch.found,
    )


def _started(
    command: Sequence[str], spool: Path, *, follow: bool, is_silent: bool
) -> subprocess.Popen[bytes]:
    """Start a program; see `run_program`."""
    stream = subprocess.DEVNULL if is_silent else None
    folder = os.open(spool, os.O_PATH | os.O_DIRECTORY)
    try:
        return subprocess.Popen(
            list(command),
            env=recorder_environment(spool, follow=follow, folder=folder),
            stdin=stream,
            stdout=stream,
            stderr=stream,
            pass_fds=(folder,),
            start_new_session=is_silent,
        )
    except OSError as error:
        advice = "; begin a script with #!, such as #!/bin/sh" if error.errno == ENOEXEC else ""
        message = f"{command[0]}: cannot be started: {error.strerror}{advice}"
        raise MissingToolError(message) from error
    finally:
        os.close(folder)


def _end(process: subprocess.Popen[bytes], spool: Path) -> None:
    """End a program, its group, and what it started that went into another one.

    Its descendants are found while it lives, and what has lost its parent if it is recorded.
    """
    others: set[int] = set()
    try:
        others.update(descendants(process.pid))
        others.update(writers(spool))
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
        for pid in others:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _check_ends(pid: int, name: str, limit_s: float) -> None:
    """Wait until a child ends, where the system can tell (from Linux 5.3 on).

    Raises:
        ProgramError: it does not in time.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        is_over = select.select([descriptor], [], [], limit_s)[0]
    finally:
        os.close(descriptor)
    if not is_over:
        raise ProgramError(f"{name}: still running under the recorder after {limit_s:g} s")


def recorder_environment(spool: Path, *, follow: bool, folder: int | None = None) -> dict[str, str]:
    """Return this process's environment with the recorder before what is preloaded already.

    Args:
        spool: as `run_program`.
        follow: as `run_program`.
        folder: a descriptor of `spool` that the program is given; None: none.

    Raises:
        MissingToolError: as `run_program`.
    """
    recorder = str(native_file("librecorder.so"))
    if re.search(r"[\s:]", recorder):
        raise MissingToolError(
            f"{recorder}: LD_PRELOAD allows no blank or colon in a path; install elsewhere"
        )
    others = os.environ.get("LD_PRELOAD", "")
    return os.environ | {
        "LD_PRELOAD": f"{recorder}:{others}" if others else recorder,
        SETTING: recorder_setting(spool, follow=follow, folder=folder),
    }


def recorder_setting(spool: Path, *, follow: bool, folder: int | None = None) -> str:
    """Return the value of `SETTING`; see `recorder_environment`."""
    given = f",{folder},{os.fstat(folder).st_ino}" if folder is not None else ""
    return f"{int(follow)}:{time.monotonic_ns()}{given}:{spool}"


class _Passing:
    """Outlives Ctrl-C, which the program gets from the terminal; passes on what it does not get.

    Servers reload at SIGHUP, which a supervisor sends to the process that it started.
    """

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self._on_signal = on_signal
        self.process: subprocess.Popen[bytes] | None = None
        self.is_starting = True
        """What comes by then, the terminal may have sent before there was a program."""

    def take(self, number: int, frame: object) -> None:  # noqa: ARG002 - as handlers are called
        self._on_signal(number)
        if number == WINDOW_SIGNAL:
            return
        if self.process is None:
            raise KeyboardInterrupt
        is_sent = number == signal.SIGINT and not self.is_starting and _has_terminal()
        if not is_sent and self.process.returncode is None:
            # `send_signal` would wait for it, too, which `run_program` does.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, number)


def _has_terminal() -> bool:
    """Return whether Ctrl-C at a terminal reaches this process and what it started."""
    try:
        with Path("/dev/tty").open("rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
