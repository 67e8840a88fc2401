"""The part of a recording that its traces are of: from a moment to a moment, within so many bytes.

The program is recorded from its start, since what lives when the window begins is known only then;
traces begin with those blocks.  At the end of the window, or where the limit is reached, the
recorder in every process stops, and the program goes on without it.  What comes before the window
counts by itself and has the same limit.

    begin   at the start, so many seconds later, when a condition holds, or at SIGUSR1
    end     with the program, so many seconds after the beginning, when this process is asked to
            stop it, or at SIGUSR1
"""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tuner.errors import SpecError
from tuner.limits import REST
from tuner.recording.build import NO_WINDOW, RecordedPart, run_build_trace
from tuner.recording.program import WINDOW_SIGNAL
from tuner.units import UnitError, format_duration, parse_duration

START, READY, SIGNAL, STOP, END = "start", "ready", "signal", "stop", "end"

_POLL_S: Final = 0.02
_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT})


@dataclass(frozen=True)
class WindowPlan:
    """Which part of a recording is wanted."""

    begin: str | float = START
    """`START`, `READY`, `SIGNAL`, or seconds after the start."""
    end: str | float = END
    """`END` of the program, `STOP`, `SIGNAL`, or seconds after the beginning."""
    is_ready: Callable[[], bool] | None = None
    """Condition of `READY`."""
    at_most_bytes: int | None = None
    """Of all spools together on disk, from the beginning on, and as much again before it; None:
    no limit."""
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)
    """Is called with a sentence when the window begins and when it ends."""

    @property
    def has_signal(self) -> bool:
        """Return whether it waits for `WINDOW_SIGNAL`."""
        return SIGNAL in (self.begin, self.end)

    @property
    def is_whole(self) -> bool:
        """Return whether all of the recording is wanted."""
        return self == WindowPlan()


WHOLE: Final = WindowPlan()


def parse_begin(text: str) -> str | float:
    """Return when a window begins.

    Raises:
        SpecError: it is not understood.
    """
    return _moment("--from", text, (START, READY, SIGNAL))


def parse_end(text: str) -> str | float:
    """Return when a window ends.

    Raises:
        SpecError: it is not understood.
    """
    return _moment("--to", text, (END, STOP, SIGNAL))


def _moment(option: str, text: str, words: tuple[str, ...]) -> str | float:
    if text in words:
        return text
    try:
        return parse_duration(REST.check(text)) / 1e9
    except UnitError as error:
        raise SpecError(
            f"{option} {text}: give {', '.join(words)}, or a time such as 30s, at most {REST.most}"
        ) from error


class WindowWatch:
    """Notes when the window of a recording begins and ends, and ends the recording."""

    def __init__(self, plan: WindowPlan, spool: Path, *, follow: bool = False) -> None:
        """Prepare the folder of a recording that is about to begin.

        Args:
            plan: what is wanted.
            spool: the folder.
            follow: True if processes may outlive the first one, and `end_recording` is for them.

        Raises:
            OutputError: the folder cannot be written.
        """
        self._plan = plan
        self._spool = spool
        self._start_ns = time.monotonic_ns()
        self._signals_ns: list[int] = []
        self._stop_ns: int | None = None
        self._from_ns: int | None = self._start_ns if plan.begin == START else None
        self._until_ns: int | None = None
        self._has_begun = plan.begin == START
        self._is_full = False
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        if follow or not plan.is_whole:
            most = plan.at_most_bytes
            run_build_trace("--control", str(spool), str(most or 0))

    @property
    def window(self) -> RecordedPart:
        """What the traces are of; the whole recording, if the window never began."""
        if self._from_ns is None or self._is_full:
            return NO_WINDOW
        begin = None if self._plan.begin == START else self._from_ns
        return RecordedPart(begin, self._until_ns)

    @property
    def missed(self) -> str | None:
        """Return what the traces are of instead, and why; None where the window began."""
        begin = self._plan.begin
        if self._is_full:
            return "is of the time before the window, which took all of --at-most; allow more"
        if self._from_ns is not None:
            return None
        why = {
            READY: "the program was never ready",
            SIGNAL: f"no {WINDOW_SIGNAL.name} came to this command",
        }.get(str(begin))
        if not isinstance(begin, str):
            begin = format_duration(round(begin * 1e9))
        why = why or f"the program ended within {begin}"
        return f"is of the whole run: {why}, so --from {begin} never came"

    def end_recording(self) -> int | None:
        """Let the processes that go on do so without their recorder.

        Returns:
            When, in ns of CLOCK_MONOTONIC; None where the window or the limit had ended it.

        Raises:
            OutputError: the folder cannot be written.
        """
        was_over = run_build_trace("--over", str(self._spool))["was_over"]
        return None if was_over or self._until_ns is not None else time.monotonic_ns()

    def take_signal(self, number: int) -> None:
        """Note a signal to this process, in its handler."""
        now_ns = time.monotonic_ns()
        if number == WINDOW_SIGNAL:
            self._signals_ns.append(now_ns)
        elif number in _STOPS and self._stop_ns is None:
            self._stop_ns = now_ns
        else:
            return
        self._look_back()  # the program may end before the watcher looks

    def _look_back(self) -> None:
        """Look without a probe, which takes time, and fails when the program has ended."""
        if self._from_ns is not None or self._plan.begin != READY:
            self.look()

    def look(self) -> None:
        """Note what has begun or ended by now."""
        if self._from_ns is None:
            self._from_ns = self._begun_ns()
        if self._from_ns is not None and self._until_ns is None:
            self._until_ns = self._ended_ns(self._from_ns)

    def __enter__(self) -> Self:
        """Begin to watch."""
        if not self._plan.is_whole:
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._is_over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._look_back()
        self._begin()

    def _watch(self) -> None:
        while not self._is_over.wait(_POLL_S):
            self.look()
            self._begin()
            if self._is_full:
                return
            if self._until_ns is not None:
                run_build_trace("--over", str(self._spool))
                self._plan.tell(
                    "the window has ended; the program goes on, the trace is made at its end"
                )
                return

    def _begin(self) -> None:
        """Let the limit be that of the window, once it has begun."""
        if self._from_ns is None or self._has_begun:
            return
        self._has_begun = True
        self._is_full = run_build_trace("--window", str(self._spool))["is_over"]
        if not self._is_full:
            self._plan.tell("the window begins")

    def _begun_ns(self) -> int | None:
        begin = self._plan.begin
        if begin == SIGNAL:
            return self._signals_ns[0] if self._signals_ns else None
        if begin == READY:
            is_ready = self._plan.is_ready
            return time.monotonic_ns() if is_ready is not None and is_ready() else None
        due_ns = self._start_ns + round(float(begin) * 1e9)
        return due_ns if time.monotonic_ns() >= due_ns else None

    def _ended_ns(self, from_ns: int) -> int | None:
        end = self._plan.end
        if end == END:
            return None
        if end == STOP:
            return self._stop_ns
        if end == SIGNAL:
            later = [one for one in self._signals_ns if one > from_ns]
            return later[0] if later else None
        due_ns = from_ns + round(float(end) * 1e9)
        return due_ns if time.monotonic_ns() >= due_ns else None
