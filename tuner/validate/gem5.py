"""gem5 as the program: simulations in interleaved rounds, each a validation of its own.

Before the first round of each simulation the baseline runs it once unrecorded: what it simulated
is what all others must simulate, every statistic but the host's, and the guest's output.  In every
round each simulation is run under every subject, in random order.

A subject that fails on a simulation is out of that simulation, with its reason.  A simulation
that fails under the baseline, or does not repeat itself, is out with that one record; the others
go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tuner.compare.loop import Observer, compare, interruptible
from tuner.compare.plan import Course, Rounds, Step
from tuner.config.gem5_suite import Simulation
from tuner.errors import ProgramError
from tuner.machine import Machine
from tuner.measure.gem5 import Gem5Run, digest_of, judge_simulation, statistics_of
from tuner.measure.gem5_stats import differences, parse_statistics
from tuner.measure.program import ProgramRun, Surroundings
from tuner.output import write_text
from tuner.records import Outcome, Status
from tuner.store import RealMeasurement, SimulationRecord, Store, ValidationRecord
from tuner.validate.session import (
    CACHEGRIND,
    Counting,
    CountsInstructions,
    StoreKeeper,
    ValidationOptions,
    brought_allocators,
    find_same,
    is_over,
    measured,
    new_record,
)
from tuner.validate.setup import Prepared, with_libc_malloc

REFERENCES = "references"
"""Folder of what the baseline simulated, beside the outputs."""

_TIMEOUT_FLOOR_S = 60.0
_FIRST_TIMEOUT_S = 3600.0
"""Least limit that follows from the baseline's first run, and the limit of that run."""


class Simulates(Protocol):
    """Runs simulations; `tuner.measure.gem5.Gem5` with a runner, or a double."""

    def command(self, simulation: Simulation) -> list[str]:
        """Return the command line of a simulation."""
        ...

    def identity(self, simulation: Simulation) -> dict[str, str]:
        """Return digests of all that decides what is simulated."""
        ...

    def simulate(
        self, simulation: Simulation, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Gem5Run:
        """Run a simulation to its end."""
        ...

    def ask(self, environment: Mapping[str, str]) -> ProgramRun:
        """Run gem5 without a simulation."""
        ...


@dataclass
class _Reference:
    """What all runs of one simulation must equal."""

    file: Path
    """Statistics of the baseline's first run."""
    failure: Outcome[RealMeasurement] | None = None
    digest: str | None = None
    """Of what the baseline simulated; None before its first run."""
    baseline_ns: int | None = None
    """Elapsed time of its first run that is known; None before."""


class SimulationRounds:
    """Runs gem5 on a simulation under a subject: the runner of these rounds."""

    def __init__(
        self,
        gem5: Simulates,
        simulations: Sequence[Simulation],
        prepared: Sequence[Prepared],
        options: ValidationOptions,
        counter: CountsInstructions | None,
    ) -> None:
        """Prepare; see `validate_on_gem5`."""
        self._gem5 = gem5
        self._simulations = {simulation.name: simulation for simulation in simulations}
        self._entries = {entry.subject.label: entry for entry in prepared}
        self._baseline = prepared[0].subject.label
        self._options = options
        is_counted = options.instrument == CACHEGRIND
        self._counting = Counting(options.instrument, counter if is_counted else None)
        self._counted: set[tuple[str, str]] = set()
        self._references: dict[str, _Reference] = {}

    def take(self, name: str, file: Path, record: ValidationRecord) -> None:
        """Take what was measured of a simulation before."""
        found = _Reference(file)
        good = [(one.label, run) for one in record.samples if (run := one.outcome.good) is not None]
        for label, run in good:
            found.digest = found.digest or run.output_sha256
            if label == self._baseline and found.baseline_ns is None:
                found.baseline_ns = run.wall_ns
        self._counted |= {(name, label) for label, _ in good}
        self._references[name] = found

    def refers(self, name: str) -> bool:
        """Run the baseline unrecorded unless its results are known; return whether they are."""
        reference = self._references[name]
        if reference.digest is None:
            found = self._simulate(name, self._baseline)
            status, reason = judge_simulation(found, None)
            if status is not Status.OK:
                values = measured(found.heap, output_sha256=None, instructions=None)
                reference.failure = Outcome(status, reason, values)
                return False
            reference.digest, reference.baseline_ns = digest_of(found), found.run.wall_ns
            write_text(reference.file, statistics_of(found).to_text())
        return True

    def _simulate(self, name: str, label: str) -> Gem5Run:
        surroundings = self._options.limited(
            self._references[name].baseline_ns, _TIMEOUT_FLOOR_S, _FIRST_TIMEOUT_S
        )
        environment = self._entries[label].environment
        return self._gem5.simulate(self._simulations[name], environment, surroundings)

    def __call__(self, step: Step[str]) -> Outcome[RealMeasurement]:
        """Run it once."""
        entry = self._entries[step.subject]
        if entry.refusal is not None:
            return Outcome.did_not_succeed(Status.REFUSED, entry.refusal)
        reference = self._references[step.task]
        if reference.failure is not None:
            return reference.failure
        found = self._simulate(step.task, step.subject)
        status, reason = judge_simulation(found, reference.digest)
        is_baseline = step.subject == self._baseline
        if status is Status.OK and is_baseline and reference.baseline_ns is None:
            reference.baseline_ns = found.run.wall_ns
        if status is Status.FAILED and found.run.exit_status == 0 and found.result is not None:
            reason = _difference(reference.file, found, is_baseline=is_baseline)
        is_wanted = status is Status.OK and (step.task, step.subject) not in self._counted
        self._counted.add((step.task, step.subject))
        values = measured(
            found.heap,
            output_sha256=digest_of(found) if status is Status.OK else None,
            instructions=self._counting.instructions(
                found.heap,
                self._gem5.command(self._simulations[step.task]),
                entry.environment,
                is_wanted=is_wanted,
            ),
        )
        return Outcome(status, reason, values)


@dataclass(frozen=True)
class _AfterReference:
    """Rounds of each simulation, once the baseline's results are known; see `Plan`."""

    rounds: Rounds[str]
    refers: Callable[[str], bool]

    def blocks(self, course: Course[str, RealMeasurement]) -> Iterator[Sequence[Step[str]]]:
        """Yield the rounds; of a simulation that fails under the baseline, that first."""
        for block in self.rounds.blocks(course):
            if any(map(course.wants, block)) and not self.refers(block[0].task):
                yield [step for step in block if step.subject == course.baseline]
            yield block

    def n_left(self, course: Course[str, RealMeasurement]) -> int:
        """Return how many steps are missing."""
        return self.rounds.n_left(course)


def validate_on_gem5(
    store: Store,
    simulations: Sequence[Simulation],
    prepared: Sequence[Prepared],
    *,
    gem5: Simulates,
    folder: Path,
    options: ValidationOptions,
    machine: Machine,
    counter: CountsInstructions | None,
    observer: Observer[str, RealMeasurement] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> list[int]:
    """Run all rounds, or those that are missing; return the validations, one per simulation.

    Args:
        store: open for writing.
        simulations: what to run, each a validation of its own.
        prepared: the subjects, the baseline first.
        gem5: runs the simulations.
        folder: where the baseline's statistics are kept.
        options: how to run.
        machine: facts of this machine, for the record.
        counter: counts instructions; None for no count.
        observer: is called at every run.
        on_notice: is called with what a reader must know.

    Raises:
        ProgramError: gem5 itself does not run.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    options = options.as_deployed(prepared)
    with interruptible():
        prepared, notices = with_known_malloc(gem5, prepared)
    for notice in notices:
        on_notice(notice)
    wanted = {}
    for simulation in simulations:
        of = SimulationRecord(simulation.name, simulation.role.value, gem5.identity(simulation))
        command = gem5.command(simulation)
        record = new_record(command, prepared, options, machine, notices=notices, simulation=of)
        wanted[simulation.name] = replace(record, is_shuffled=True)
    identifiers = _begin(store, wanted, on_notice)
    run = SimulationRounds(gem5, simulations, prepared, options, counter)
    records = {record.identifier: record for record in store.validations()}
    for name, identifier in identifiers.items():
        file = folder / REFERENCES / f"{name}-{identifier}.txt"
        run.take(name, file, records[identifier])
    labels = tuple(entry.subject.label for entry in prepared)
    compare(
        _AfterReference(
            Rounds(labels, (*wanted,), options.rounds, options.seed, is_alike=True), run.refers
        ),
        run,
        StoreKeeper(store, identifiers, prepared),
        observer,
        baseline=labels[0],
    )
    return list(identifiers.values())


def with_known_malloc(
    gem5: Simulates, prepared: Sequence[Prepared]
) -> tuple[Sequence[Prepared], list[str]]:
    """Put libc's malloc in front of an allocator that gem5 was linked with.

    gem5 is by default linked with tcmalloc where its build finds one.

    Args:
        gem5: runs the simulations.
        prepared: the subjects, the baseline first.

    Returns:
        The subjects, and what a reader must know.

    Raises:
        ProgramError: gem5 itself does not run.
    """
    run = gem5.ask(prepared[0].environment)
    if run.exit_status != 0:
        raise ProgramError(f"gem5 prints no version: {run.ending}")
    brought = [path.name for path in brought_allocators(run, prepared[0])]
    if not brought:
        return prepared, []
    notice = (
        f"gem5 is linked with {', '.join(brought)}; where no allocator is preloaded, libc's malloc "
        "is put in front of it with LD_PRELOAD"
    )
    return with_libc_malloc(prepared), [notice]


def _begin(
    store: Store, wanted: Mapping[str, ValidationRecord], on_notice: Callable[[str], None]
) -> dict[str, int]:
    """Return the validation of each simulation: one to continue, or a new one.

    As long as one simulation is not over, those that are over stay as they are; when all
    of them are, all begin anew.
    """
    known = store.validations()
    found = {name: find_same(known, record) for name, record in wanted.items()}
    if all(record is not None and is_over(record) for record in found.values()):
        found = {}
    identifiers = {}
    for name, asked in wanted.items():
        record = found.get(name)
        if record is None:
            identifiers[name] = store.begin_validation(asked)
            continue
        identifiers[name] = record.identifier
        what = "is complete" if is_over(record) else "continuing"
        on_notice(f"{name}: {what}: validation {record.identifier}")
    return identifiers


def _difference(reference: Path, found: Gem5Run, *, is_baseline: bool) -> str:
    """Return in words what a run simulated differently."""
    try:
        statistics = statistics_of(found)
        known = parse_statistics(reference.read_text(encoding="utf-8"), str(reference))
    except ProgramError as error:
        return str(error)
    except OSError:
        return "its statistics differ from the baseline's"
    differing = differences(known, statistics)
    whose = "its own of the first run" if is_baseline else "the baseline's"
    if not differing:
        return f"the guest's output differs from {whose}"
    return f"{len(differing)} simulated statistics differ from {whose}: {differing[0]}"
