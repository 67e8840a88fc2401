"""What a store holds beside trials: the campaign's record, rechecks, validations.

All are plain immutable values with Python's own types; `tuner.store.rows`
turns them into rows and back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from tuner.emulation import Calibration, EmulationOptions
from tuner.machine import Machine
from tuner.metrics import REAL
from tuner.records import Configuration, CurvePoint, Evaluated, Measurement, Outcome, baseline_of
from tuner.space import Parameter
from tuner.store.subject import Subject

_C_LIBRARY = re.compile(r"libc[.-]|ld-")
"""Start of the file name of a C library, or of the loader that is one (musl)."""

RUNNING = "running"
INTERRUPTED = "interrupted"
FINISHED = "finished"
"""States of a campaign.  A killed one still says "running"; its lock is free."""


@dataclass(frozen=True)
class AllocatorRecord:
    """The library that was measured under an allocator's name."""

    library: str | None
    """Absolute path of the preloaded library; None for the C library's own malloc."""
    version: str
    """Version as the adapter found it."""


@dataclass(frozen=True)
class ScreeningRecord:
    """A shrunk workload on which proposals are measured before the whole one."""

    fidelity: float
    """Allocations of the shrunk workload over those of the whole, above 0 and below 1."""
    keep: float
    """Share of the proposals of a batch that are measured in full, above 0."""


@dataclass(frozen=True)
class TraceRecord:
    """A trace of a campaign beside its first."""

    path: str
    """Where it lay when the campaign was created; its content decides."""
    sha256: str


@dataclass(frozen=True)
class WorkloadRecord:
    """What is known of a campaign's workload; empty in campaigns of earlier versions."""

    notes: tuple[str, ...] = ()
    """What users have to know of it, a sentence each."""
    resolution: tuple[tuple[str, float], ...] = ()
    """By metric, the relative difference below which two values are equal."""
    caveat: str | None = None
    """What has to be said of a low-fidelity workload; None of any other."""
    n_events: int | None = None
    """Events of the trace."""
    recorded_with: str | None = None
    """The file whose malloc the program had when it was recorded."""
    screening: ScreeningRecord | None = None
    """None where every proposal is measured in full."""
    further: tuple[TraceRecord, ...] = ()
    program: tuple[tuple[str, float], ...] = ()
    """By metric (``mean_heap``, ``peak_heap``, ``cost``), what the whole program used: resident
    memory in bytes, CPU time in ns.  Empty where that is not known."""

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON has it; what is absent is left out."""
        known = {**asdict(self), "resolution": dict(self.resolution), "program": dict(self.program)}
        return {name: value for name, value in known.items() if value not in (None, (), {})}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> WorkloadRecord:
        """Rebuild it from `as_record`."""
        screening = record.get("screening")
        return cls(
            notes=tuple(record.get("notes", ())),
            resolution=tuple(record.get("resolution", {}).items()),
            caveat=record.get("caveat"),
            n_events=record.get("n_events"),
            recorded_with=record.get("recorded_with"),
            screening=None if screening is None else ScreeningRecord(**screening),
            further=tuple(TraceRecord(**trace) for trace in record.get("further", ())),
            program=tuple(record.get("program", {}).items()),
        )


@dataclass(frozen=True)
class CampaignRecord:
    """All that decides what a campaign measures, and where it was measured.

    The fields from `name` to `calibration` never change after creation, apart
    from `budget`, which may grow.
    """

    name: str
    """Name of the campaign, for titles."""
    trace_path: str
    """Where the trace lay when the campaign was created; its content decides."""
    trace_sha256: str
    """Hexadecimal digest of the trace file."""
    objectives: tuple[str, ...]
    """Names of the objectives, all minimised."""
    constraints: tuple[str, ...]
    """Constraints as they were written."""
    strategy: str
    """Name of the strategy in `tuner.search`."""
    population: int
    """Population of the strategy; fixed at creation, so that a larger budget
    continues the same search."""
    seed: int
    """Seed of the strategy."""
    search: str
    """``joint`` or ``separate``: one study per allocator."""
    budget: int
    """Number of distinct configurations to evaluate."""
    recheck_share: float
    """Greatest share of the budget spent again on the front, 0.0 .. 1.0."""
    space: tuple[Parameter, ...]
    """The genes; of separate searches those of all allocators."""
    seed_configurations: tuple[Configuration, ...] = ()
    """The user's own configurations, evaluated right after the defaults."""
    emulation: EmulationOptions = field(default_factory=EmulationOptions)
    allocators: Mapping[str, AllocatorRecord] = field(default_factory=dict)
    """Library and version of each allocator; the first one is the baseline."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python, the libraries, malloc-tuner and the emulator."""
    machine: Machine | None = None
    """Where it was begun; None where that is not known."""
    calibration: Calibration | None = None
    """Prices when it was begun; None where they are not known."""
    workload: WorkloadRecord = WorkloadRecord()
    created_at: str = ""
    """UTC, ISO 8601; set by the store."""
    status: str = RUNNING
    """``running``, ``interrupted`` or ``finished``."""
    reference: tuple[float, ...] | None = None
    """Reference point of the hypervolume, in objective units; frozen as soon as
    the defaults have been measured."""

    @property
    def baseline(self) -> str:
        """The allocator whose default everything is compared with."""
        return baseline_of(self.allocators)

    @property
    def prices(self) -> Calibration:
        """Prices when it was begun; nothing costs anything where they are not known."""
        return self.calibration or Calibration(0.0, 0.0)

    @property
    def resolution(self) -> tuple[tuple[str, float], ...]:
        """What `Trial.resolution` is in this campaign."""
        return self.workload.resolution

    @property
    def brought_allocator(self) -> str | None:
        """File name of the allocator that the recorded program brings; None for the C library's."""
        recorded = PurePath(self.workload.recorded_with or "").name
        return None if not recorded or _C_LIBRARY.match(recorded) else recorded


@dataclass(frozen=True)
class ClusterMachine:
    """A machine of a cluster that takes part in a campaign."""

    name: str
    """Of its host."""
    facts: Machine
    default: Measurement
    """The baseline's default, measured there."""


@dataclass(frozen=True)
class Recheck(Evaluated):
    """A trial of the final front, measured again."""

    trial: int
    """Number of the trial."""
    repeat: int
    """1-based count of re-measurements of this trial."""
    outcome: Outcome[Measurement]


@dataclass(frozen=True)
class Incident:
    """A failure of the machine, after which the evaluation was retried, or what may have moved it.

    See `tuner.measure.evaluation.MAY_NOT_REPEAT` for the latter.
    """

    configuration: Configuration
    """What was being evaluated."""
    attempt: int
    """1-based number of the attempt that failed."""
    reason: str
    """What went wrong."""
    happened_at: str = ""
    """UTC, ISO 8601; set by the store."""


@dataclass(frozen=True)
class RealMeasurement:
    """What one run of the real program showed.  Metrics that could not be had are None."""

    exit_status: int | None = None
    """Exit status; None when a signal ended the program."""
    signal: int | None = None
    """Number of the signal that ended the program; None when it exited."""
    output_sha256: str | None = None
    """Digest of the program's output."""
    peak_rss_bytes: int | None = None
    """VmHWM of the process at its end."""
    peak_heap_bytes: int | None = None
    """Greatest sampled resident anonymous memory."""
    mean_heap_bytes: float | None = None
    """Mean over time of sampled resident anonymous memory less lazily freed pages."""
    faults: int | None = None
    """Minor page faults."""
    user_ns: int | None = None
    """CPU time in user mode."""
    system_ns: int | None = None
    """CPU time in the kernel."""
    cpu_ns: int | None = None
    """user_ns + system_ns."""
    wall_ns: int | None = None
    """Elapsed time."""
    instructions: int | None = None
    """User instructions, where an instrument can count them."""
    curve: tuple[CurvePoint, ...] = field(default=(), compare=False)
    """Heap over time; `event` is 0 and `live_bytes` is 0 for real programs."""

    def __getitem__(self, name: str, /) -> float | None:
        """Return the number of a metric in `REAL`; None when it was not measured."""
        found: float | None = getattr(self, REAL[name].field)
        return found


@dataclass(frozen=True)
class ValidationSample:
    """One run of the real program, and where it belongs."""

    round: int
    """0-based round; every subject runs once in every round."""
    position: int
    """0-based place within the round."""
    label: str
    """What the subject is called in tables: ``baseline``, ``balanced``, ..."""
    configuration: Configuration
    """What ran."""
    trial: int | None
    """Number of the trial it comes from; None when it is of no trial."""
    outcome: Outcome[RealMeasurement]
    """OK only when the exit status and the output equal the baseline's."""


@dataclass(frozen=True)
class SimulationRecord:
    """The simulation that a validation on gem5 stands for."""

    simulation: str
    """Its name."""
    role: str
    """``tune`` or ``held-out``, see `tuner.config.gem5_suite.SimulationRole`."""
    identity: Mapping[str, str]
    """Digests of all that decides what is simulated: another gem5 or guest is another one."""


@dataclass(frozen=True)
class RecordedSurroundings:
    """How every run of a validation was made; None: not recorded."""

    cpu: int | None = None
    """Core of the program; None also where it was free."""
    sample_ms: int | None = None
    """Time between two samples of memory."""
    thp: str | None = None
    """Transparent huge pages: ``keep`` or ``never``."""
    aslr: str | None = None
    """Address randomisation: ``on`` or ``off``."""
    counts_syscalls: bool | None = None
    """Whether system calls were counted."""


@dataclass(frozen=True)
class ValidationConditions:
    """How a validation was made: those of equal conditions can be continued into one."""

    output: str | None = None
    """What had to equal the baseline's; None for simulations, of which everything has to."""
    instrument: str | None = None
    """What counted instructions."""
    seed: int | None = None
    """Of the order within the rounds."""
    surroundings: RecordedSurroundings = RecordedSurroundings()
    folder: str | None = None
    """Working folder of the program; None for simulations, and where it is not known."""
    program_sha256: str | None = None
    """Digest of the program's file; likewise."""
    output_sha256: str | None = None
    """Digest of what had to equal the baseline's; likewise."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """What the user preloaded, which tunables were set, beside allocators, and what was set of
    `SWITCHES`; empty likewise."""


@dataclass(frozen=True)
class ValidationRecord:
    """One invocation of ``malloc-tuner validate`` and its raw samples."""

    command: tuple[str, ...]
    """The program and its arguments."""
    rounds: int
    """Number of rounds asked for."""
    baseline: str
    """Label of the subject that the others are compared with."""
    subjects: tuple[Subject, ...] = ()
    """What is compared, the baseline first."""
    conditions: ValidationConditions = ValidationConditions()
    """How it was run."""
    simulation: SimulationRecord | None = None
    """What gem5 simulated; None for any other program."""
    notices: tuple[str, ...] = ()
    """What a reader must know, a sentence each."""
    brought_allocators: tuple[str, ...] = ()
    """File names of the allocators that the program brings itself."""
    is_recorded_program: bool | None = None
    """Whether it is the program that was recorded; None where that is not known."""
    is_shuffled: bool = False
    """Every round was shuffled, the first one too; it was not in earlier versions."""
    machine: Machine | None = None
    """Where it ran."""
    identifier: int = 0
    """1-based, set by the store."""
    created_at: str = ""
    """UTC, ISO 8601; set by the store."""
    samples: tuple[ValidationSample, ...] = ()
    """In the order they were run; empty when handed to `Store.begin_validation`."""

    def good(self, label: str | None = None) -> list[RealMeasurement]:
        """Return the successful runs of a subject, by round; None: of all."""
        mine = (s.outcome.good for s in self.samples if label in (None, s.label))
        return [run for run in mine if run is not None]

    def failure(self, label: str) -> str | None:
        """Return why the first failed run of a subject failed; None when none did."""
        reasons = (s.outcome.reason for s in self.samples if s.label == label)
        return next((reason for reason in reasons if reason is not None), None)
