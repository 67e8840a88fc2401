"""What the user sees while a campaign runs: how far, how fast, how good, what failed.

`Scoreboard` computes, the listeners show: `LiveProgress` redraws on a terminal,
`LineProgress` prints a line now and then, a plain `Listener` shows nothing.  All take
the time from a clock that is passed in.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable
from typing import TextIO

from tuner.front.bounds import default_trials
from tuner.front.dominance import front, relative_hypervolume
from tuner.front.whole import Whole, campaign_whole, seen_ratio
from tuner.measure.evaluation import MAY_NOT_REPEAT
from tuner.metrics import METRICS
from tuner.records import Configuration, Status, Trial
from tuner.store import CampaignRecord, Recheck
from tuner.units import signed_percent

Clock = Callable[[], float]
"""Seconds since any moment, never going back."""


class Listener:
    """Is called as a campaign goes on; this one shows nothing."""

    def started(self, record: CampaignRecord, n_recorded: int, n_workers: int) -> None:
        """Show that the campaign begins, with so many trials in the store already."""

    def reference_known(self, reference: tuple[float, ...]) -> None:
        """Take the reference of the hypervolume: the defaults have been measured."""

    def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
        """Count a trial that ended, or was found in the store."""

    def failed_attempt(self, configuration: Configuration, reason: str) -> None:
        """Report that an attempt at a configuration does not count; it may be retried.

        Where the reason ends with `MAY_NOT_REPEAT` its numbers count, though they may have moved.
        """

    def recheck_started(self, n_rechecks: int) -> None:
        """Show that the search is over, and that so many trials are measured again."""

    def recheck_ended(self, recheck: Recheck) -> None:
        """Count a trial that was measured again."""

    def stopping(self) -> None:
        """Show that Ctrl-C was understood."""


SLOW_S = 600.0
"""A campaign with more time left than this gets advice, once."""

_N_TO_JUDGE = 4
"""New evaluations before the time left is believed."""


class Scoreboard:
    """Counts and scores of the trials so far."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """Start with nothing; `start` begins to count."""
        self._clock = clock
        self._begun_s = 0.0
        self._n_new = 0
        self._reference: tuple[float, ...] | None = None
        self._front: list[Trial] = []
        self._defaults: list[Trial] = []
        self._record: CampaignRecord | None = None
        self.n_trials = 0
        """Trials that ended, or were found in the store."""
        self.names: tuple[str, ...] = ()
        """Objectives of the campaign."""
        self.budget = 0
        """Distinct configurations to evaluate."""
        self.n_failed = 0
        """Trials that did not succeed."""
        self.n_uncounted = 0
        """Trials whose instructions were not worth counting."""
        self.gain: float | None = None
        """Hypervolume over that of the defaults; None until both are known."""
        self._trace = ""
        self._is_advised = False
        self.best: dict[str, Trial] = {}
        """Feasible trial with the least value of each objective."""

    def start(self, record: CampaignRecord) -> None:
        """Begin to count the trials of a campaign."""
        self.names, self.budget = record.objectives, record.budget
        self._begun_s = self._clock()
        self._trace = record.trace_path
        self._record = record

    def advice(self) -> str | None:
        """Return what makes a slow campaign faster: once, else None."""
        eta_s = self.eta_s
        if self._is_advised or eta_s is None or self._n_new < _N_TO_JUDGE or eta_s <= SLOW_S:
            return None
        self._is_advised = True
        return (
            f"about {clock_text(eta_s)} left; a shorter workload takes less: cut the trace with "
            f"`malloc-tuner trace thin {shlex.quote(self._trace)} -o thin.trace`, or fit a profile "
            "(`malloc-tuner fit`) and set fidelity under [screening]"
        )

    def set_reference(self, reference: tuple[float, ...]) -> None:
        """Begin to compute `gain`."""
        self._reference = reference
        self._score()

    def add(self, trial: Trial, *, is_new: bool) -> None:
        """Count a trial."""
        self.n_trials += 1
        self._n_new += is_new
        self.n_failed += trial.has_failed
        self.n_uncounted += trial.status is Status.UNCOUNTED
        if trial.configuration.is_default:
            self._defaults.append(trial)
        if not trial.is_feasible or trial.objectives is None:
            return
        # The front dominates as much as all trials do, and stays small.
        self._front = front([*self._front, trial])
        for position, name in enumerate(self.names):
            least = self.best.get(name)
            if least is None or trial.objectives[position] < (least.objectives or ())[position]:
                self.best[name] = trial
        self._score()

    def _score(self) -> None:
        if self._reference is not None:
            self.gain = relative_hypervolume([*self._defaults, *self._front], self._reference)

    @property
    def rate(self) -> float | None:
        """New evaluations per second; None before the first."""
        elapsed_s = self._clock() - self._begun_s
        return self._n_new / elapsed_s if self._n_new and elapsed_s > 0.0 else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until the budget is spent at this rate; None while unknown."""
        rate = self.rate
        return (self.budget - self.n_trials) / rate if rate else None

    def best_texts(self) -> list[str]:
        """Return the best value of each objective with its change, see `seen_ratio`."""
        if self._record is None:
            return []
        baseline = default_trials(self._defaults).get(self._record.baseline)
        whole = self._whole
        texts = []
        for name, trial in self.best.items():
            metric = METRICS[name]
            value = (trial.objectives or ())[self.names.index(name)]
            text = f"{name} {metric.show(value)}"
            ratio = seen_ratio(metric, trial, baseline, whole) if baseline else None
            texts.append(text if ratio is None else f"{text} ({signed_percent(ratio - 1.0)})")
        return texts

    @property
    def _whole(self) -> Whole:
        return campaign_whole(self._record, self._defaults) if self._record else {}

    def summary(self) -> str:
        """Return everything in one line."""
        words = [f"{self.n_trials}/{self.budget} configurations"]
        if self.rate is not None:
            words.append(f"{self.rate:.1f}/s")
        if self.eta_s is not None:
            words.append(f"{clock_text(self.eta_s)} left")
        return ", ".join([*words, self.quality()])

    def quality(self) -> str:
        """Return hypervolume, best values and failures in one line."""
        words = [] if self.gain is None else [f"hypervolume {self.gain:.2f} x defaults"]
        if texts := self.best_texts():
            of_what = " of the whole program" if self.best.keys() <= self._whole.keys() else ""
            words.append(f"best emulated {', '.join(texts)}{of_what}")
        if self.n_uncounted:
            words.append(f"{self.n_uncounted} dominated before they were counted")
        return ", ".join([*words, f"{self.n_failed} failed"])


_LINE_INTERVAL_S = 10.0
"""Least time between two lines of progress."""

STOPPING = "stopping when the running evaluations have ended; Ctrl-C again to kill them"
"""What the user sees after the first Ctrl-C."""


class ShownProgress(Listener):
    """Prints a line when something happens."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """Start with nothing."""
        self._scores = Scoreboard(clock)

    def started(self, record: CampaignRecord, n_recorded: int, n_workers: int) -> None:
        """See `Listener.started`."""
        self._scores.start(record)
        self._print(greeting(record, n_recorded, n_workers))

    def reference_known(self, reference: tuple[float, ...]) -> None:
        """See `Listener.reference_known`."""
        self._scores.set_reference(reference)

    def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
        """See `Listener.trial_ended`."""
        self._scores.add(trial, is_new=is_new)
        self._counted(is_new=is_new)
        advice = self._scores.advice()
        if advice:
            self._print(advice)

    def failed_attempt(self, configuration: Configuration, reason: str) -> None:
        """See `Listener.failed_attempt`."""
        counts = reason.endswith(MAY_NOT_REPEAT)
        how = "" if counts else "an attempt failed and does not count: "
        self._print(f"{configuration}: {how}{reason}")

    def _counted(self, *, is_new: bool) -> None:
        """Show that a trial was added."""

    def _print(self, text: str) -> None:
        """Print a line."""
        raise NotImplementedError


class LineProgress(ShownProgress):
    """Prints at most one line per interval for trials."""

    def __init__(self, out: TextIO, clock: Clock = time.monotonic) -> None:
        """Print to `out`, usually standard error."""
        super().__init__(clock)
        self._out = out
        self._clock = clock
        self._printed_s = clock()

    def recheck_started(self, n_rechecks: int) -> None:
        """See `Listener.recheck_started`."""
        if n_rechecks:
            trials = "trial" if n_rechecks == 1 else "trials"
            self._print(f"measuring {n_rechecks} {trials} of the front again")

    def stopping(self) -> None:
        """See `Listener.stopping`."""
        with contextlib.suppress(RuntimeError):  # the signal came in the middle of a print
            self._print(STOPPING)

    def _counted(self, *, is_new: bool) -> None:
        now_s = self._clock()
        is_last = self._scores.n_trials == self._scores.budget
        if is_new and (is_last or now_s - self._printed_s >= _LINE_INTERVAL_S):
            self._printed_s = now_s
            self._print(self._scores.summary())

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def greeting(record: CampaignRecord, n_recorded: int, n_workers: int) -> str:
    """Return the first line: what is searched, for what, how."""
    allocators = ", ".join(f"{name} {a.version}" for name, a in record.allocators.items())
    text = (
        f"{record.name}: {record.budget} configurations of {allocators}, "
        f"minimising {' and '.join(record.objectives)}"
    )
    text += f", {n_workers} at a time" if n_workers else ""  # not known before workers are there
    return f"{text}; continuing after {n_recorded}" if n_recorded else text


def clock_text(seconds: float) -> str:
    """Return a duration as ``h:mm:ss`` or ``m:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
