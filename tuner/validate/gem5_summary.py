"""What runs of gem5 show: every subject over all simulations, and the ranking.

A subject's change over several simulations is the geometric mean of its ratios to the baseline
of the same simulation and round, so that a long simulation counts no more than a short one.
Such a mean exists once per round; the interval of its median over the rounds shows how well the
change over these simulations is known.  The interval over simulations, which are resampled for
it, shows how the change would be over others like them, and is the wider one by far.

A subject that failed on any of the simulations has no change over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tuner import stats
from tuner.compare.values import Values
from tuner.config.gem5_suite import SimulationRole
from tuner.metrics import REAL, Metric, MetricValues
from tuner.records import Outcome
from tuner.runs import Run
from tuner.stats import Estimate, Interval
from tuner.store import ValidationRecord
from tuner.store.subject import DEFAULT, Subject
from tuner.validate.huge_pages import huge_page_notices
from tuner.validate.metrics import counterpart
from tuner.validate.ranking import Ranking, rank_trials
from tuner.validate.session import essence, is_over, n_complete, simulation_of

_METRICS = tuple(REAL[name] for name in ("mean_heap", "peak_heap", "instructions", "cpu", "faults"))
"""Metrics of gem5 as the program, in the order of tables: those of GreenMalloc first."""

Samples = tuple[tuple[int, str, Outcome[MetricValues]], ...]
"""Round, subject and outcome of every run of a simulation."""


@dataclass(frozen=True)
class SimulationSummary:
    """One simulation."""

    name: str
    samples: Samples
    reason: str | None
    """Why it is out: the baseline failed on it; None when it did not."""
    role: SimulationRole | None = None
    """None of programs inside a machine."""
    program: str = ""
    """Name of the program inside the machine; empty where gem5 is the program."""
    machine: str = ""
    """Name of the machine that it runs inside; empty where gem5 is the program."""


@dataclass(frozen=True)
class Change:
    """One metric of one subject over several simulations."""

    metric: Metric
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
    """In the order of tables, those that were measured; empty after a failure."""

    def change(self, metric: str) -> Change | None:
        """Return the change of a metric; None when it was not measured."""
        return next((found for found in self.changes if found.metric.name == metric), None)

    def ratio(self, metric: str) -> float | None:
        """Return a ratio to the baseline of which less is better; None when there is none."""
        change = self.change(metric)
        if change is not None and self.is_baseline:
            return 1.0
        if change is None or change.ratio is None:
            return None
        ratio = change.ratio.median
        return 1.0 / ratio if change.metric.is_more_better else ratio

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

    @property
    def is_comparison(self) -> bool:
        """True when a subject beside the baseline has a value."""
        return any(row.changes for row in self.subjects if not row.is_baseline)


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
    titles = {
        SimulationRole.HELD_OUT: "held-out simulations",
        SimulationRole.TUNE: "simulations tuned on",
    }
    groups = [
        (title, [r for r in records if r.simulation and r.simulation.role == role])
        for role, title in titles.items()
    ]
    return [_summarize(run, title, group) for title, group in groups if group]


def _comparable(record: ValidationRecord, last: ValidationRecord) -> bool:
    programs = [one.simulation and one.simulation.identity.get("program") for one in (record, last)]
    return programs[0] == programs[1] and essence(record) == essence(last)


def _summarize(run: Run, title: str, records: Sequence[ValidationRecord]) -> Gem5Summary:
    simulations = tuple(map(_simulation, records))
    record = records[0]
    rows = subject_rows(record.subjects, simulations, _METRICS)
    # Cachegrind counts the first run of a subject alone, which is enough to rank by.
    runs = [good[0] for one in records for s in one.subjects if (good := one.good(s.label))]
    rankings = (
        ranking
        for objective in run.campaign.objectives
        if (metric := counterpart(objective, runs))
        for ranking in rank_rows(run, objective, metric.name, rows)
    )
    return Gem5Summary(
        title,
        simulations,
        min((n_complete(r) for r in records if r.failure(r.baseline) is None), default=0),
        rows,
        tuple(rankings),
        tuple(huge_page_notices(run.campaign, record)),
    )


def _simulation(record: ValidationRecord) -> SimulationSummary:
    samples = tuple((sample.round, sample.label, sample.outcome) for sample in record.samples)
    assert record.simulation is not None  # noqa: S101 - `gem5_records` chose those that have one
    role = SimulationRole(record.simulation.role)
    reason = record.failure(record.baseline)
    return SimulationSummary(record.simulation.simulation, samples, reason, role)


def subject_rows(
    subjects: Sequence[Subject], simulations: Sequence[SimulationSummary], metrics: Iterable[Metric]
) -> tuple[Gem5Subject, ...]:
    """Return every subject over all simulations that the baseline did not fail on.

    Args:
        subjects: the baseline first.
        simulations: with their samples.
        metrics: those of the tables, in their order.
    """
    good = [simulation for simulation in simulations if simulation.reason is None]
    baseline = subjects[0].label
    values = {
        metric: Values.collect(
            (
                ((number, simulation.name, label), outcome)
                for simulation in good
                for number, label, outcome in simulation.samples
            ),
            metric.value,
        )
        for metric in metrics
    }
    rows = []
    for subject in subjects:
        failures = tuple(
            (simulation.name, outcome.reason)
            for simulation in good
            for _, label, outcome in simulation.samples
            if label == subject.label and outcome.reason is not None
        )
        changes = (
            _change(metric, of, subject.label, baseline, [one.name for one in good])
            for metric, of in values.items()
        )
        known = tuple(change for change in changes if change and not failures)
        rows.append(Gem5Subject(subject, subject.label == baseline, failures, known))
    return tuple(rows)


def _change(
    metric: Metric, values: Values[str], label: str, baseline: str, simulations: Sequence[str]
) -> Change | None:
    """Return the change over the simulations of which the baseline has the metric, if any."""
    names = [name for name in simulations if values.by_round(name, baseline)]
    medians = [found for name in names if (found := values.median(name, label))]
    if not names or len(medians) < len(names):
        return None
    value = math.fsum(found.median for found in medians) / len(names)
    if label == baseline:
        return Change(metric, value, None)
    alone = [
        (name, ratio.median) for name in names if (ratio := values.change([name], label, baseline))
    ]
    return Change(metric, value, values.change(names, label, baseline), tuple(alone))


def rank_rows(
    run: Run, objective: str, metric: str, rows: Iterable[Gem5Subject]
) -> Iterator[Ranking]:
    """Yield how well emulated values rank the subjects as their changes on gem5 do."""
    ratios = (
        (row.subject.configuration, ratio)
        for row in rows
        if (ratio := row.ratio(metric)) is not None
    )
    yield from rank_trials(objective, metric, run.trials, ratios)
