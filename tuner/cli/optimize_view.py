"""What `optimize` shows while it works: a live view on a terminal, else a line now and then."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from tuner.campaign.progress import clock_text
from tuner.optimize.answering.table import gain_words
from tuner.optimize.proof.judgement import Gain, Standing, State
from tuner.optimize.quantities import TABLE
from tuner.optimize.view import View
from tuner.page import wrapped

if TYPE_CHECKING:
    from tuner.records import Trial

LINE_INTERVAL_S: Final = 10.0
"""Time between two lines where there is no terminal."""

_BAR = 20
_MOST_FAILURES = 3
_SLOW_TO_BEGIN = {
    "examining": "first runs of the program as it is",
    "recording": "a run under the recorder",
    "emulation": "search in emulation",
}
"""Stages whose first event may take long, and what a log says when they begin."""
_STAGES = {"examining": "first runs", "others": "last proposals"}
"""What a stage is called where its name alone says too little."""
_HEARTBEAT_S: Final = 1.0
"""Time between two looks at whether a log is due a line."""
_WIDTH = 44
_HANG = 11
"""Columns before the words of a line that stays: ``recorded   863,214 events``."""


class _StandardError(Console):
    """Whose reader may go away, as in ``2>&1 | head``: the work goes on to its answer."""

    def on_broken_pipe(self) -> None:
        """Show no more; rich would end with 1."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


class ProgressView(View):
    """Keeps what to show; `lines` are the whole picture, `line` is one line of it."""

    def __init__(
        self,
        name: str,
        seconds: float,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin; use it as a context.

        Args:
            name: of the run folder.
            seconds: that are given; 0.0: it takes what it takes.
            console: where to show; None: standard error.
            clock: in seconds.
        """
        self._name = name
        self._seconds = seconds
        self._console = console or _StandardError(stderr=True, highlight=False)
        self._clock = clock
        self._begun_s = self._shown_s = clock()
        self._stage = ""
        self._n_done = 0
        self._n_steps: int | None = None
        self._stage_begun_s = self._begun_s
        self._best: dict[str, float] = {}
        self._standings: list[Standing] = []
        self._n_left = self._n_in_all = 0
        self._failures: dict[str, str] = {}
        self._live: Live | None = None
        self._ended = threading.Event()
        self._line_lock = threading.Lock()

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._picture,
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        else:
            threading.Thread(target=self._show_that_it_goes_on, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the live view away; the lines that stay stay."""
        self._ended.set()
        if self._live is not None:
            self._live.stop()

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        if self._console.is_terminal:
            line = "\n".join(wrapped(line, self._console.width, others=" " * _HANG))
        self._console.print(Text(line), soft_wrap=True)

    def begin(self, stage: str, n_steps: int | None) -> None:
        """Show another stage."""
        is_told = stage == self._stage
        self._stage, self._n_steps, self._n_done = stage, n_steps, 0
        self._stage_begun_s = self._clock()
        if stage.startswith("held-out"):
            self._standings = []  # they are of the tuned input
        if self._live is None and stage in _SLOW_TO_BEGIN and not is_told:
            self.tell(f"{self._used()}: {_SLOW_TO_BEGIN[stage]}")

    def emulated(self, trial: Trial, expected: Mapping[str, float] | None) -> None:
        """Count a setting."""
        self._n_done = trial.number + 1
        for name, value in (expected or {}).items():
            if TABLE[name].emulated is not None:
                self._best[name] = min(value, self._best.get(name, 0.0))
        self._now_and_then()

    def ran(self, subject: str, reason: str | None, n_left: int | None) -> None:
        """Count a run."""
        self._n_done += 1
        if self._stage == "selection" and n_left is not None:
            self._n_steps = self._n_done + n_left
        if reason is not None:
            self._failures[subject] = reason
        self._now_and_then()

    def standing(self, standings: Mapping[str, Standing], left: Sequence[str]) -> None:
        """Show what the rounds prove, of the most promising first."""
        self._standings = sorted((standings[label] for label in left), key=lambda one: -one.promise)
        self._n_left = len(left)
        may_win = (one for one in standings.values() if one.state in (State.OPEN, State.CONFIRMED))
        self._n_in_all = max(len(left), sum(1 for _ in may_win))

    def lines(self) -> Iterator[str]:
        """Yield the picture."""
        yield f"{self._name}  {self._used()}"
        yield from self._fitted(f"{self._shown_stage():<14}{self._amount()}", self._expected())
        shown = [(_label(one), _gains(one)) for one in self._standings if one.n_rounds]
        width = max((len(label) for label, _ in shown), default=0)
        for label, gains in shown:
            yield from self._fitted(f"  {label:<{width}}", f" {gains}")
        for label, reason in list(self._failures.items())[:_MOST_FAILURES]:
            yield f"  failed: {label}: {reason}"

    def line(self) -> str:
        """Return the picture in one line, for a log."""
        words = f"{self._used()}: {self._shown_stage()} {self._amount()}{self._expected()}"
        first = next((one for one in self._standings if one.n_rounds), None)
        return words.rstrip() + (f"; {_label(first)} {_gains(first)}" if first else "")

    def _fitted(self, head: str, tail: str) -> Iterator[str]:
        """Yield both in one line, or in two where the console is too narrow."""
        if not tail or len(head) + len(tail) <= self._console.width:
            yield head + tail
        else:
            yield from (head, f"    {tail.strip()}")

    def _used(self) -> str:
        used = clock_text(self._clock() - self._begun_s)
        return f"{used} of {clock_text(self._seconds)}" if self._seconds else used

    def _amount(self) -> str:
        """Return how much of the stage is done, and about how long the rest takes."""
        runs = f"{self._n_done} run{'s'[: self._n_done != 1]}"
        if self._stage == "confirmation":
            some = f"{self._n_left} of " if self._n_left < self._n_in_all else ""
            plural = "s"[: self._n_in_all != 1]
            return (
                f"{runs}, {some}{self._n_in_all} candidate{plural} {'running' if some else 'left'}"
            )
        if self._n_steps is None:
            return runs if self._n_done else ""
        n_steps = max(self._n_steps, self._n_done)  # an estimate, where time is the limit
        share = self._n_done / max(n_steps, 1)
        bar = "#" * round(_BAR * share) + "-" * (_BAR - round(_BAR * share))
        text = f"{bar}  {self._n_done} of {n_steps}"
        if 0 < self._n_done < n_steps:
            took_s = self._clock() - self._stage_begun_s
            left_s = took_s / self._n_done * (n_steps - self._n_done)
            if not self._seconds or left_s < self._seconds - (self._clock() - self._begun_s):
                text += f"  about {clock_text(left_s)} left"
        return text

    def _expected(self) -> str:
        """Return what emulation promises."""
        if self._stage != "emulation" or not self._best:
            return ""
        percents = {name: round(100.0 * math.expm1(it)) for name, it in self._best.items()}
        gains = [f"{name} {percent:+d} %" for name, percent in percents.items() if percent]
        return f"  best expected: {', '.join(gains) or 'no gain yet'}"

    def _picture(self) -> RenderableType:
        # A line that wraps would move all below it at each refresh.
        return Text("\n".join(self.lines()), no_wrap=True, overflow="ellipsis")

    def _shown_stage(self) -> str:
        return _STAGES.get(self._stage, self._stage)

    def _show_that_it_goes_on(self) -> None:
        """Write a line to a log now and then, also while one run takes long."""
        while not self._ended.wait(_HEARTBEAT_S):
            self._now_and_then()

    def _now_and_then(self) -> None:
        if self._live is not None:
            return
        with self._line_lock:
            now_s = self._clock()
            if now_s - self._shown_s < LINE_INTERVAL_S:
                return
            self._shown_s = now_s
            self.tell(self.line())


def _label(one: Standing) -> str:
    return one.label if len(one.label) <= _WIDTH else one.label[: _WIDTH - 3] + "..."


def _gains(one: Standing) -> str:
    return ", ".join(f"{name} {_words(gain, name)}" for name, gain in one.gains.items())


def _words(gain: Gain, name: str) -> str:
    return gain_words(gain, with_bounds=not TABLE[name].is_memory)
