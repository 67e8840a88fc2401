"""A command and all its descendants under supervise, which ends when this process does.

supervise adopts whatever loses its parent, daemons too, and reads from a pipe of this process: at
its end, which a kill -9 of this process brings as well, it kills all of them.  So nothing is left
running or listening after `Guard.close`, a crash, or a kill at any moment.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tuner.errors import MissingToolError, ProgramError
from tuner.measure.process import last_lines
from tuner.measure.program import Surroundings, clean_environment, supervise_options
from tuner.records import signal_name
from tuner.resources import native_file

_POLL_S = 0.02
_CLOSE_S = 20.0
"""After this, a supervise that does not end is itself killed."""

_FIRST = 200
"""Characters of the first line that are quoted."""

_SAMPLE_NOW = 0
"""In place of a signal's number: take a sample at once."""


@dataclass(frozen=True)
class Use:
    """What all processes used at a moment."""

    time_ns: int
    """Of CLOCK_MONOTONIC."""
    processes: int
    anon_bytes: int
    """Each shared page counted once, less what was lazily freed."""
    lazy_free_bytes: int
    shared_bytes: int
    file_bytes: int
    unshared_processes: int
    """Of which the kernel shows no shares: their pages count in full."""
    threads: int
    """Of the process that has most."""
    cpu_ns: int
    """Of those that have ended too."""


@dataclass(frozen=True)
class Ended:
    """How the first process ended."""

    exit_status: int | None
    signal: int | None

    @property
    def words(self) -> str:
        """What follows its name in a sentence."""
        if self.signal is None:
            return f"ended with exit status {self.exit_status}"
        return f"was killed by {signal_name(self.signal)}"


class Guard:
    """A command that runs until it is closed."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        *,
        surroundings: Surroundings | None = None,
        user: str | None = None,
        supervise: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            command: program and arguments.
            environment: its whole environment.
            output: file for its standard output and standard error.
            surroundings: core, sampling and kernel settings; its time limit does not apply.
            user: whom it runs as; None: as this process does.
            supervise: path of the launcher; None for the installed one.

        Raises:
            MissingToolError: supervise or the command cannot be started.
        """
        self.name = command[0]
        self.uses: list[Use] = []
        self.ended: Ended | None = None
        self._is_over = threading.Event()
        reading, writing = os.pipe()
        words = [os.fspath(supervise or native_file("supervise")), "--service"]
        words += ["--report", str(writing)]
        words += supervise_options(environment, surroundings or Surroundings(aslr="on"))
        words += ["--user", user] if user else []
        try:
            with output.open("ab") as file:
                self._process = subprocess.Popen(
                    [*words, "--", *command],
                    env=clean_environment(environment),
                    stdin=subprocess.PIPE,
                    stdout=file,
                    stderr=file,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._errors = output
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of supervise, the root of all processes."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """True when no process is left."""
        return self._is_over.is_set()

    def signal(self, number: int) -> None:
        """Send a signal to the first process, or, where that has ended, to those it left."""
        orders = self._process.stdin
        if orders is not None and not orders.closed:
            with contextlib.suppress(OSError):
                orders.write(f"{number}\n".encode())
                orders.flush()

    def sample(self, timeout_s: float = 20.0) -> Use:
        """Take a sample now and return it; the last one where all processes have ended.

        Raises:
            ProgramError: nothing was ever measured, or nothing in this time.
        """
        n_before = len(self.uses)
        self.signal(_SAMPLE_NOW)
        is_taken = self.wait(lambda: len(self.uses) > n_before, timeout_s)
        if self.uses and not is_taken and not self.is_over:
            raise ProgramError(
                f"{self.name}: its memory could not be measured within {timeout_s:g} s"
            )
        if not self.uses:
            raise ProgramError(f"{self.name}: nothing could be measured; is /proc mounted?")
        return self.uses[-1]

    def wait(self, is_met: Callable[[], bool], timeout_s: float, poll_s: float = _POLL_S) -> bool:
        """Wait until a condition is met, no process is left, or the time is up.

        Returns:
            Whether the condition was met.
        """
        end_s = time.monotonic() + timeout_s
        while not is_met():
            if self.is_over:
                return is_met()
            if time.monotonic() >= end_s:
                return False
            self._is_over.wait(poll_s)
        return True

    def close(self) -> None:
        """Kill what is left; returns when nothing is.

        Raises:
            MissingToolError: the command could not be executed.
        """
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            status = self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._reader.join()
        no_program = 3
        if status == no_program:
            words = [
                line.removeprefix("supervise: ")
                for line in self._errors.read_text(errors="replace").splitlines()
                if line.startswith("supervise: ")
            ]
            raise MissingToolError(f"{words[-1] if words else self.name}; is it installed?")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # cut off by a kill
                    self._take(json.loads(line))
        self._is_over.set()

    def _take(self, record: dict[str, Any]) -> None:
        event = record.pop("event")
        if event == "exit":
            self.ended = Ended(record["exit_status"], record["signal"])
        elif event == "sample":
            self.uses.append(Use(**record))


@dataclass(frozen=True)
class ShellRun:
    """How a command that ends by itself ended."""

    ended: Ended | None
    """None at the time limit."""
    text: str
    """What it printed."""

    @property
    def is_good(self) -> bool:
        """Whether it ended with exit status 0."""
        return self.ended is not None and self.ended.exit_status == 0

    @property
    def said(self) -> str:
        """What a sentence on its end closes with: what it printed first and last, or nothing."""
        lines = last_lines(self.text)
        first = self.text.lstrip().partition("\n")[0].rstrip()[:_FIRST]
        if first not in lines:  # the reason, where its usage follows
            lines = f"{first} / ... / {lines}"
        return f": {lines}" if lines else ", and printed nothing"


def run_shell(
    command: str,
    environment: Mapping[str, str],
    output: Path,
    timeout_s: float,
    *,
    user: str | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> ShellRun:
    """Run a shell command to its end; what it leaves behind is killed.

    Args:
        command: for ``sh -c``.
        environment: its whole environment.
        output: file for what it prints; what is in it is lost.
        timeout_s: after this it is killed.
        user: whom it runs as.
        is_wanted: is asked meanwhile; it is killed when that is no longer so.

    Raises:
        MissingToolError: there is no shell.
    """
    output.unlink(missing_ok=True)
    slow = Surroundings(aslr="on", sample_ms=10_000)
    shell = ("sh", "-c", command)
    with Guard(shell, environment, output, surroundings=slow, user=user) as guard:
        guard.wait(lambda: guard.ended is not None or not is_wanted(), timeout_s)
    return ShellRun(guard.ended, output.read_text(errors="replace"))
