"""What a validation on gem5 shows: every subject over all simulations, and the ranking.

A subject's change over several simulations is the geometric mean of its ratios to the baseline
of the same simulation and round, so that a long simulation counts no more than a short one.
Such a mean exists once per round; the interval of its median over the rounds shows how well the
change over these simulations is known.  The interval over simulations, which are resampled for
it, shows how the change would be over others like them, and is the wider one by far.

A subject that failed on any of the simulations has no change over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tuner import stats
from tuner.compare.values import Values
from tuner.config.gem5_suite import SimulationRole
from tuner.metrics import REAL, Metric
from tuner.runs import Run
from tuner.stats import Estimate, Interval
from tuner.store import SimulationRecord, ValidationRecord
from tuner.store.subject import DEFAULT, Subject
from tuner.validate.huge_pages import huge_page_notices
from tuner.validate.metrics import counterpart
from tuner.validate.ranking import Ranking, rank_trials
from tuner.validate.session import is_over, n_complete, simulation_of

METRIC_NAMES = ("mean_heap", "peak_heap", "instructions", "cpu", "faults")
"""Metrics of the tables, in their order: those of GreenMalloc first."""


@dataclass(frozen=True)
class SimulationSummary:
    """One simulation."""

    name: str
    role: SimulationRole
    record: ValidationRecord
    reason: str | None
    """Why it is out: the baseline failed on it; None when it did not."""

    @property
    def is_held_out(self) -> bool:
        """True when no campaign has seen it."""
        return self.role is SimulationRole.HELD_OUT


@dataclass(frozen=True)
class Change:
    """One metric of one subject over several simulations."""

    metric: str
    """Name in `REAL`."""
    value: float
    """Mean over the simulations of the medians over the rounds, in the metric's unit."""
    ratio: Estimate | None
    """Geometric mean of the ratios to the baseline, with its interval over the rounds; None for
    the baseline and where a ratio is missing."""
    by_simulation: tuple[tuple[str, float], ...] = ()
    """Simulation and median of the ratios on it alone; those that exist."""

    @property
    def over_simulations(self) -> Interval | None:
        """Interval of the geometric mean over simulations like these; None for fewer than two."""
        return stats.geometric_mean_interval([ratio for _, ratio in self.by_simulation])

    @property
    def shown(self) -> Estimate | None:
        """The ratio with the interval over simulations, or where there is but one, over rounds."""
        interval = self.over_simulations
        return replace(self.ratio, interval=interval) if self.ratio and interval else self.ratio


@dataclass(frozen=True)
class Gem5Subject:
    """One subject over several simulations."""

    subject: Subject
    is_baseline: bool
    failures: tuple[tuple[str, str], ...]
    """Simulation and reason of everything that went wrong; empty when nothing did."""
    changes: tuple[Change, ...]
    """In the order of `METRIC_NAMES`, those that were measured; empty after a failure."""

    def change(self, metric: str) -> Change | None:
        """Return the change of a metric; None when it was not measured."""
        return next((found for found in self.changes if found.metric == metric), None)

    @property
    def is_default(self) -> bool:
        """True for a default of an allocator."""
        return DEFAULT in self.subject.roles


@dataclass(frozen=True)
class Gem5Summary:
    """A validation on gem5, over the simulations of one group."""

    title: str
    """``held-out simulations``, ``tuning simulations``."""
    simulations: tuple[SimulationSummary, ...]
    """All of the group, those that are out too."""
    n_rounds: int
    """Complete rounds of the simulation that has fewest."""
    subjects: tuple[Gem5Subject, ...]
    """The baseline first."""
    rankings: tuple[Ranking, ...]
    """Emulated value against the change on gem5: over all subjects, then per allocator."""
    notices: tuple[str, ...] = ()
    """What a reader must know; a sentence each."""


def gem5_records(run: Run) -> list[ValidationRecord]:
    """Return the validations on gem5 that were made last, one per simulation.

    Of each simulation it is the last that is complete, or else the last.  Those of other
    subjects, rounds or options than the last complete one are left out: they cannot be
    compared with it.
    """
    known = [r for r in reversed(run.validations) if simulation_of(r) is not None]
    known.sort(key=is_over, reverse=True)  # a stable order: the newest stays first
    found: dict[str, ValidationRecord] = {}
    for record in known:
        name = simulation_of(record) or ""
        if name not in found and _comparable(record, known[0]):
            found[name] = record
    return sorted(found.values(), key=run.validations.index)


def summarize_gem5(run: Run, records: Sequence[ValidationRecord]) -> list[Gem5Summary]:
    """Compute the summaries: held-out simulations first, then those tuned on.

    Args:
        run: the campaign with its trials, for the claims.
        records: of `gem5_records`, complete or not.

    Returns:
        One per role that has simulations.
    """
    found = [_simulation(record, record.simulation) for record in records if record.simulation]
    titles = {
        SimulationRole.HELD_OUT: "held-out simulations",
        SimulationRole.TUNE: "simulations tuned on",
    }
    groups = [(title, [s for s in found if s.role is role]) for role, title in titles.items()]
    return [_summarize(run, title, group) for title, group in groups if group]


def _comparable(record: ValidationRecord, last: ValidationRecord) -> bool:
    def essence(one: ValidationRecord) -> tuple[object, ...]:
        program = one.simulation and one.simulation.identity.get("program")
        return one.baseline, one.rounds, one.subjects, one.conditions, program, one.machine

    return essence(record) == essence(last)


def _simulation(record: ValidationRecord, of: SimulationRecord) -> SimulationSummary:
    reason = record.failure(record.baseline)
    return SimulationSummary(of.simulation, SimulationRole(of.role), record, reason)


def _summarize(run: Run, title: str, simulations: Sequence[SimulationSummary]) -> Gem5Summary:
    good = [s for s in simulations if s.reason is None]
    record = simulations[0].record
    rows = tuple(_subject(subject, record.baseline, good) for subject in record.subjects)
    return Gem5Summary(
        title,
        tuple(simulations),
        min((n_complete(s.record) for s in good), default=0),
        rows,
        tuple(_rankings(run, rows, good)),
        tuple(huge_page_notices(run.campaign, record)),
    )


def _subject(
    subject: Subject, baseline: str, simulations: Sequence[SimulationSummary]
) -> Gem5Subject:
    failures = tuple(
        (simulation.name, reason)
        for simulation in simulations
        if (reason := simulation.record.failure(subject.label)) is not None
    )
    is_baseline = subject.label == baseline
    changes: list[Change] = []
    if not failures:
        for name in METRIC_NAMES:
            change = _change(REAL[name], subject.label, baseline, simulations)
            if change is not None:
                changes.append(change if not is_baseline else Change(name, change.value, None))
    return Gem5Subject(subject, is_baseline, failures, tuple(changes))


def _change(
    metric: Metric, label: str, baseline: str, simulations: Sequence[SimulationSummary]
) -> Change | None:
    """Return the change of a metric; None when a simulation lacks it."""
    names = [simulation.name for simulation in simulations]
    values = Values.collect(
        (
            ((sample.round, simulation.name, sample.label), sample.outcome)
            for simulation in simulations
            for sample in simulation.record.samples
        ),
        metric.value,
    )
    medians = [found for name in names if (found := values.median(name, label))]
    if not names or len(medians) < len(names):
        return None
    value = math.fsum(found.median for found in medians) / len(names)
    alone = [
        (name, ratio.median) for name in names if (ratio := values.change([name], label, baseline))
    ]
    return Change(metric.name, value, values.change(names, label, baseline), tuple(alone))


def _rankings(
    run: Run, rows: Sequence[Gem5Subject], simulations: Sequence[SimulationSummary]
) -> Iterator[Ranking]:
    """Yield how well emulated values rank the subjects as their changes on gem5 do."""
    runs = [run for simulation in simulations for run in simulation.record.good()]
    for objective in run.campaign.objectives:
        metric = counterpart(objective, runs)
        if metric is not None:
            changes = [
                (row.subject.configuration, change.ratio.median if change.ratio else 1.0)
                for row in rows
                if (change := row.change(metric.name)) and (change.ratio or row.is_baseline)
            ]
            yield from rank_trials(objective, metric.name, run.trials, changes)
