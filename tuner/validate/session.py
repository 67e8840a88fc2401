"""What validations of a program and of gem5 share: options, samples, the store that keeps them.

The samples of a campaign's validations are in its store, beside the trials they are compared with.
A validation that was interrupted is continued by the same command as long as program, folder,
subjects, options and machine are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol

from tuner.compare.plan import Step, TaskT
from tuner.errors import SpecError
from tuner.limits import check_rounds
from tuner.machine import Machine
from tuner.measure.preloads import preloaded_allocator
from tuner.measure.program import ProgramRun, Surroundings, limit_after
from tuner.records import Outcome
from tuner.store import (
    RealMeasurement,
    RecordedSurroundings,
    SimulationRecord,
    Store,
    ValidationConditions,
    ValidationRecord,
    ValidationSample,
)
from tuner.validate.setup import Prepared

IGNORED = "ignored"
STDOUT = "stdout"
"""What is compared with the baseline's; everything else is the path of a file."""

HARDWARE = "auto"
CACHEGRIND = "cachegrind"
NONE = "none"
"""What counts the instructions of the real program."""

_COUNT_FACTOR = 60.0
"""Limit of a run under cachegrind, as a multiple of the time of one without."""

_NS_PER_S = 1e9


class CountsInstructions(Protocol):
    """Counts instructions; `tuner.measure.counting.InstructionCounter`, or a double."""

    def count(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float | None,
        exit_status: int | None = None,
    ) -> int | None:
        """Return the instructions of one run; None where it ends with another status."""
        ...


@dataclass(frozen=True)
class ValidationOptions:
    """How a validation is made; two with equal options can be continued into one."""

    rounds: int = 8
    """Runs of every subject, at least 1."""
    output: str = STDOUT
    """What must equal the baseline's: `STDOUT`, `IGNORED`, or the path of a file the program
    writes; simulations are compared by all that was simulated."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    """Core, time limit, sampling and kernel settings of every run."""
    instrument: str = HARDWARE
    """What counts instructions: `HARDWARE` in every run, where there are counters;
    `CACHEGRIND` once per subject; or `NONE`."""
    seed: int = 1
    """Seed of the order within the rounds."""

    def __post_init__(self) -> None:
        """Refuse what would be passed over; raises SpecError."""
        check_rounds(self.rounds)
        if self.instrument not in (known := (HARDWARE, CACHEGRIND, NONE)):
            raise SpecError(f"instrument {self.instrument!r}: give one of {', '.join(known)}")

    def conditions(self) -> ValidationConditions:
        """Return what must be equal for a validation to be continued.

        Left out are the rounds, which stand beside, and the time limit, which derived from the
        first run differs a little each time and decides nothing.
        """
        shared = asdict(self.surroundings)
        del shared["timeout_s"]
        surroundings = RecordedSurroundings(**shared)
        return ValidationConditions(self.output, self.instrument, self.seed, surroundings)

    def as_deployed(self, prepared: Iterable[Prepared]) -> ValidationOptions:
        """Return the same, with surroundings in which all subjects run as when deployed.

        Args:
            prepared: the subjects.
        """
        is_at_random = any(one.wants_huge_pages for one in prepared)
        return replace(self, surroundings=self.surroundings.as_deployed(is_at_random=is_at_random))

    def limited(
        self, baseline_ns: int | None, floor_s: float, first_s: float | None
    ) -> Surroundings:
        """Return the surroundings with a time limit.

        Args:
            baseline_ns: time of the baseline; None before its first run.
            floor_s: least limit that follows from it.
            first_s: limit of that first run; None for none.
        """
        if self.surroundings.timeout_s is not None:
            return self.surroundings
        limit_s = first_s
        if baseline_ns is not None:
            limit_s = limit_after(baseline_ns / _NS_PER_S, floor_s)
        return replace(self.surroundings, timeout_s=limit_s)


@dataclass(frozen=True)
class Counting:
    """Counts the instructions of runs as the options say."""

    instrument: str
    counter: CountsInstructions | None

    def instructions(
        self,
        run: ProgramRun,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_wanted: bool,
    ) -> int | None:
        """Return the count of a run, or of one like it under cachegrind.

        Args:
            run: the run.
            command: what ran.
            environment: under what.
            is_wanted: True for the one run of a subject that cachegrind repeats.
        """
        if self.instrument == HARDWARE:
            return run.instructions
        if self.counter is None or not is_wanted:
            return None
        limit_s = max(30.0, _COUNT_FACTOR * run.wall_ns / _NS_PER_S)
        return self.counter.count(command, environment, limit_s, run.exit_status)


def measured(
    run: ProgramRun, *, output_sha256: str | None, instructions: int | None
) -> RealMeasurement:
    """Return what is kept of a run, with the digest of what was compared."""
    return RealMeasurement(
        exit_status=run.exit_status,
        signal=run.signal,
        output_sha256=output_sha256,
        peak_rss_bytes=run.peak_rss_bytes,
        peak_heap_bytes=run.peak_anon_bytes,
        mean_heap_bytes=run.mean_anon_bytes,
        faults=run.faults,
        user_ns=run.user_ns,
        system_ns=run.system_ns,
        cpu_ns=run.cpu_ns,
        wall_ns=run.wall_ns,
        instructions=instructions,
        curve=run.curve,
    )


def quoted_tail(run: ProgramRun) -> str:
    """Return the last line that a program wrote to standard error, for messages."""
    lines = run.stderr_tail.strip().splitlines()
    return f': "{lines[-1]}"' if lines else ""


def brought_allocators(run: ProgramRun, baseline: Prepared) -> list[Path]:
    """Return the allocators in a program that the baseline did not put there."""
    preloaded = Path(preloaded_allocator(baseline.environment) or "/").resolve()
    return [path for path in map(Path, run.malloc_libraries) if path.resolve() != preloaded]


class StoreKeeper(Generic[TaskT]):
    """Keeps samples in a campaign's store, each task being a validation of its own."""

    def __init__(
        self, store: Store, identifiers: Mapping[TaskT, int], prepared: Sequence[Prepared]
    ) -> None:
        """Take the store, open for writing, the validation of each task, and the subjects."""
        self._store = store
        self._identifiers = identifiers
        self._subjects = {entry.subject.label: entry.subject for entry in prepared}

    def kept(self) -> Iterable[tuple[tuple[int, TaskT, str], Outcome[RealMeasurement]]]:
        """Yield every sample with its round, task and subject."""
        records = {record.identifier: record for record in self._store.validations()}
        for task, identifier in self._identifiers.items():
            for sample in records[identifier].samples:
                yield (sample.round, task, sample.label), sample.outcome

    def keep(self, step: Step[TaskT], sample: Outcome[RealMeasurement]) -> None:
        """Commit a sample."""
        subject = self._subjects[step.subject]
        row = ValidationSample(
            step.round, step.position, subject.label, subject.configuration, subject.trial, sample
        )
        self._store.add_validation_sample(self._identifiers[step.task], row)


def new_record(
    command: Sequence[str],
    prepared: Sequence[Prepared],
    options: ValidationOptions,
    machine: Machine,
    *,
    notices: Sequence[str],
    simulation: SimulationRecord | None = None,
) -> ValidationRecord:
    """Return a validation without any run.

    Args:
        command: program and arguments.
        prepared: the subjects, the baseline first.
        options: how it is made.
        machine: this one.
        notices: what a reader must know.
        simulation: what gem5 simulates; None for any other program.
    """
    conditions = options.conditions()
    if simulation is not None:  # compared by all that was simulated
        conditions = replace(conditions, output=None)
    return ValidationRecord(
        command=tuple(command),
        rounds=options.rounds,
        baseline=prepared[0].subject.label,
        subjects=tuple(entry.subject for entry in prepared),
        conditions=conditions,
        simulation=simulation,
        notices=tuple(notices),
        machine=machine,
    )


def simulation_of(record: ValidationRecord) -> str | None:
    """Return the simulation a validation stands for; None for one of another program."""
    return None if record.simulation is None else record.simulation.simulation


def essence(record: ValidationRecord) -> tuple[object, ...]:
    """Return subjects, rounds, conditions and machine: equal ones can be compared.

    What is expected of a subject may differ: a new answer of `optimize` moves its figures.
    """
    subjects = [replace(subject, expected=()) for subject in record.subjects]
    return record.baseline, subjects, record.rounds, record.conditions, record.machine


def find_same(
    validations: Sequence[ValidationRecord], wanted: ValidationRecord
) -> ValidationRecord | None:
    """Return the latest validation with the same command and `essence`; None for none."""

    def whole(one: ValidationRecord) -> tuple[object, ...]:
        return one.command, one.simulation, essence(one)

    return next((one for one in reversed(validations) if whole(one) == whole(wanted)), None)


def find_unfinished(
    validations: Sequence[ValidationRecord], wanted: ValidationRecord
) -> int | None:
    """Return the latest validation that the wanted one would continue; None for none."""
    found = find_same(validations, wanted)
    return None if found is None or is_over(found) else found.identifier


def n_complete(record: ValidationRecord) -> int:
    """Return how many rounds have the baseline and every subject that did not fail."""
    done = {(sample.round, sample.label) for sample in record.samples if sample.outcome.good}
    labels = [subject.label for subject in record.subjects if not record.failure(subject.label)]
    running = {*labels, record.baseline}
    return sum(all((number, label) in done for label in running) for number in range(record.rounds))


def is_complete(record: ValidationRecord) -> bool:
    """Return whether all rounds are done."""
    return n_complete(record) == record.rounds


def is_over(record: ValidationRecord) -> bool:
    """Return whether nothing is left to run: all rounds are done, or the baseline failed."""
    return record.failure(record.baseline) is not None or is_complete(record)
