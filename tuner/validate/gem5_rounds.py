"""Interleaved rounds of simulations on gem5: every run committed when it ends, resumable.

One validation of the store stands for one simulation.  In every round each simulation is run
under every subject, in an order shuffled by the seed; in the first round the baseline comes
first, and what it simulated is what all others must simulate: every statistic but the host's,
and the guest's output.

A subject that fails on a simulation is out of that simulation, with its reason.  A simulation
that fails under the baseline, or does not repeat itself, is out with that one record; the others
go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tuner.config.gem5_suite import Simulation
from tuner.errors import InterruptedCampaign, ProgramError
from tuner.measure.gem5 import Gem5Run
from tuner.measure.program import PRELOAD, ProgramRun, Surroundings
from tuner.output import write_text
from tuner.records import Status
from tuner.store import Store, ValidationRecord, ValidationSample
from tuner.validate.gem5_stats import Statistics, differences, parse_statistics
from tuner.validate.rounds import (
    CACHEGRIND,
    HARDWARE,
    CountsInstructions,
    find_same,
    is_over,
    order,
)
from tuner.validate.setup import Prepared, with_libc_malloc

SETTINGS = "gem5"
"""Key of a validation's settings that says which simulation it stands for."""

REFERENCES = "references"
"""Folder of what the baseline simulated, beside the outputs."""

GEM5_ROUNDS = 6
"""Rounds where the user names no number: the fewest whose median has an interval."""

_TIMEOUT_FACTOR = 10.0
_TIMEOUT_FLOOR_S = 60.0
_FIRST_TIMEOUT_S = 3600.0
"""Without a limit of the user's: an hour for the baseline's first run, then
max(floor, factor * its time)."""

_COUNT_FACTOR = 100.0
"""Limit of a counted run as a multiple of the baseline's time."""

_NS_PER_S = 1e9


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


@dataclass(frozen=True)
class Gem5Options:
    """How simulations are run; validations with equal options can be continued."""

    rounds: int = GEM5_ROUNDS
    """Runs of every subject on every simulation, at least 1."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    """Core, time limit, sampling and kernel settings of every run."""
    instrument: str = HARDWARE
    """`HARDWARE`, `CACHEGRIND` or ``none``; cachegrind once per subject and simulation."""
    seed: int = 1
    """Seed of the order within the rounds."""


@dataclass(frozen=True)
class Gem5Observer:
    """Who is told what happens."""

    on_sample: Callable[[Simulation, ValidationSample], None]
    """A run ended and is in the store."""
    on_notice: Callable[[str], None]
    """Something a reader must know."""


@dataclass
class _Course:
    """One simulation on its way through the rounds."""

    simulation: Simulation
    identifier: int
    """Of its validation in the store."""
    reference: Path
    """File with the statistics of the baseline's first run."""
    done: set[tuple[int, str]]
    """Round and label of every run in the store."""
    out: dict[str, str]
    """Label -> reason of every subject that failed."""
    digest: str | None
    """Of what the baseline simulated; None before its first run."""
    baseline_ns: int | None
    """Elapsed time of the baseline's first run."""


@dataclass(frozen=True)
class _Session:
    """What stays the same while the rounds run."""

    store: Store
    gem5: Simulates
    prepared: Sequence[Prepared]
    options: Gem5Options
    counter: CountsInstructions | None
    observer: Gem5Observer

    @property
    def baseline(self) -> str:
        """Label of the subject all others are compared with."""
        return self.prepared[0].subject.label


def validate_on_gem5(
    store: Store,
    simulations: Sequence[Simulation],
    prepared: Sequence[Prepared],
    *,
    gem5: Simulates,
    folder: Path,
    options: Gem5Options,
    machine: Mapping[str, Any],
    counter: CountsInstructions | None,
    observer: Gem5Observer,
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
        observer: is told of every run.

    Raises:
        ProgramError: gem5 itself does not run.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    try:
        prepared, notices = _with_known_malloc(gem5, prepared)
        for notice in notices:
            observer.on_notice(notice)
        session = _Session(store, gem5, prepared, options, counter, observer)
        wanted = [_record(session, s, machine, notices) for s in simulations]
        identifiers = _begin(session, simulations, wanted)
        courses = [
            _course(session, simulation, identifier, folder)
            for simulation, identifier in zip(simulations, identifiers, strict=True)
        ]
        for number in range(options.rounds):
            for course in courses:
                _run_round(session, course, number)
    except KeyboardInterrupt as event:
        message = "validation interrupted; every run so far is kept: the same command continues it"
        raise InterruptedCampaign(message) from event
    return [course.identifier for course in courses]


def judge_simulation(found: Gem5Run, digest: str | None) -> tuple[Status, str | None]:
    """Tell whether a run simulated what the baseline's did, and if not, why.

    Args:
        found: a run.
        digest: of what the baseline simulated; None for the baseline's first run.
    """
    run = found.run
    if run.timed_out:
        return Status.TIMED_OUT, run.ending
    if run.preload_mapped is False:  # None: this machine forbids to look
        return Status.REFUSED, "the library was not loaded: is gem5 statically linked?"
    if run.exit_status != 0 or found.result is None:
        lines = run.stderr_tail.strip().splitlines()
        told = f': "{lines[-1]}"' if lines else ""
        return Status.FAILED, f"{run.ending}{told}"
    try:
        same = digest in (None, digest_of(found))
    except ProgramError as error:
        return Status.FAILED, str(error)
    return (Status.OK, None) if same else (Status.FAILED, "simulated something else")


def digest_of(found: Gem5Run) -> str:
    """Return the digest of all a run simulated: statistics and the guest's output.

    Raises:
        ProgramError: its statistics are not complete.
    """
    text = statistics_of(found).digest.encode()
    return hashlib.sha256(text + found.guest_output).hexdigest()


def statistics_of(found: Gem5Run) -> Statistics:
    """Return the statistics of a run.

    Raises:
        ProgramError: they are not complete.
    """
    return parse_statistics(found.statistics or "", "stats.txt")


def _with_known_malloc(
    gem5: Simulates, prepared: Sequence[Prepared]
) -> tuple[Sequence[Prepared], list[str]]:
    """Put libc's malloc in front of an allocator that gem5 was linked with.

    gem5 is by default linked with tcmalloc where its build finds one.
    """
    run = gem5.ask(prepared[0].environment)
    if run.exit_status != 0:
        message = f"gem5 does not tell its version: {run.ending}"
        raise ProgramError(message)
    preloaded = Path(prepared[0].environment.get(PRELOAD, "/")).resolve()
    paths = (Path(library) for library in run.malloc_libraries)
    brought = [path.name for path in paths if path.resolve() != preloaded]
    if not brought:
        return prepared, []
    notice = (
        f"gem5 is linked with {', '.join(brought)}; where no allocator is preloaded, libc's malloc "
        "is put in front of it with LD_PRELOAD"
    )
    return with_libc_malloc(prepared), [notice]


def _begin(
    session: _Session, simulations: Sequence[Simulation], wanted: Sequence[ValidationRecord]
) -> list[int]:
    """Return the validation of each simulation: one to continue, or a new one.

    As long as one simulation is not over, those that are over stay as they are; when all
    of them are, all begin anew.
    """
    known = session.store.validations()
    found = [find_same(known, record) for record in wanted]
    if all(record is not None and is_over(record) for record in found):
        found = [None] * len(wanted)
    identifiers = []
    for simulation, record, asked in zip(simulations, found, wanted, strict=True):
        if record is None or record.identifier is None:
            identifiers.append(session.store.begin_validation(asked))
            continue
        identifiers.append(record.identifier)
        what = "is complete" if is_over(record) else "continuing"
        session.observer.on_notice(f"{simulation.name}: {what}: validation {record.identifier}")
    return identifiers


def _record(
    session: _Session,
    simulation: Simulation,
    machine: Mapping[str, Any],
    notices: Sequence[str],
) -> ValidationRecord:
    """Return the validation of a simulation, without any run."""
    options = asdict(session.options)
    del options["rounds"], options["surroundings"]["timeout_s"]
    # What decides the simulated results stands among the options: another gem5 or guest
    # under the same name is another validation.
    options[SETTINGS] = {
        "simulation": simulation.name,
        "role": simulation.role.value,
        "identity": session.gem5.identity(simulation),
    }
    return ValidationRecord(
        command=tuple(session.gem5.command(simulation)),
        rounds=session.options.rounds,
        baseline=session.baseline,
        settings={
            "subjects": [entry.subject.as_record() for entry in session.prepared],
            "options": options,
            "notices": list(notices),
        },
        machine=json.loads(json.dumps(machine)),  # as it comes back from the store
    )


def _course(session: _Session, simulation: Simulation, identifier: int, folder: Path) -> _Course:
    """Return where a simulation stands, from what the store has of it."""
    (record,) = (r for r in session.store.validations() if r.identifier == identifier)
    course = _Course(
        simulation,
        identifier,
        folder / REFERENCES / f"{simulation.name}-{identifier}.txt",
        {(sample.round, sample.label) for sample in record.samples},
        {s.label: s.reason or "" for s in record.samples if s.status is not Status.OK},
        None,
        None,
    )
    for sample in record.samples:
        if sample.label == session.baseline and sample.status is Status.OK:
            course.digest, course.baseline_ns = sample.output_sha256, sample.wall_ns
            break
    return course


def _run_round(session: _Session, course: _Course, number: int) -> None:
    for position, index in enumerate(_order(session, number)):
        entry = session.prepared[index]
        label = entry.subject.label
        if session.baseline in course.out:
            return  # nothing is left to compare with
        if label in course.out or (number, label) in course.done:
            continue
        sample = _sample(session, course, entry, number, position)
        session.store.add_validation_sample(course.identifier, sample)
        course.done.add((number, label))
        if sample.status is not Status.OK:
            course.out[label] = sample.reason or ""
        session.observer.on_sample(course.simulation, sample)


def _order(session: _Session, number: int) -> list[int]:
    """Return the order of a round; in the first, the baseline comes before what must equal it."""
    found = order(len(session.prepared), number, session.options.seed)
    return [0, *(index for index in found if index)] if number == 0 else found


def _sample(
    session: _Session, course: _Course, entry: Prepared, number: int, position: int
) -> ValidationSample:
    subject = entry.subject
    sample = ValidationSample(
        round=number,
        position=position,
        label=subject.label,
        configuration=subject.configuration,
        trial=subject.trial,
        status=Status.REFUSED,
        reason=entry.refusal,
    )
    if entry.refusal is not None:
        return sample
    found = session.gem5.simulate(
        course.simulation, entry.environment, _surroundings(session.options, course.baseline_ns)
    )
    status, reason = judge_simulation(found, course.digest)
    has_ended_well = found.run.exit_status == 0 and found.result is not None
    if status is Status.OK and course.digest is None:
        course.digest, course.baseline_ns = digest_of(found), found.run.wall_ns
        write_text(course.reference, statistics_of(found).to_text())
    elif status is Status.FAILED and has_ended_well:
        reason = _difference(course.reference, found, is_baseline=subject.label == session.baseline)
    run = found.heap
    return replace(
        sample,
        status=status,
        reason=reason,
        exit_status=run.exit_status,
        signal=run.signal,
        output_sha256=digest_of(found) if status is Status.OK else None,
        peak_rss_bytes=run.peak_rss_bytes,
        peak_heap_bytes=run.peak_anon_bytes,
        mean_heap_bytes=run.mean_anon_bytes,
        faults=run.faults,
        user_ns=run.user_ns,
        system_ns=run.system_ns,
        cpu_ns=run.cpu_ns,
        wall_ns=run.wall_ns,
        instructions=_instructions(session, course, entry, run, is_counted=status is Status.OK),
        curve=run.curve,
    )


def _instructions(
    session: _Session, course: _Course, entry: Prepared, run: ProgramRun, *, is_counted: bool
) -> int | None:
    """Return the hardware's count of a run, or that of a run under cachegrind in round 0."""
    if session.options.instrument == HARDWARE:
        return run.instructions
    has_count = any(label == entry.subject.label for _, label in course.done)
    if session.options.instrument != CACHEGRIND or not session.counter or has_count:
        return None
    if not is_counted:
        return None
    limit_s = max(_TIMEOUT_FLOOR_S, _COUNT_FACTOR * run.wall_ns / _NS_PER_S)
    return session.counter.count(
        session.gem5.command(course.simulation), entry.environment, limit_s
    )


def _surroundings(options: Gem5Options, baseline_ns: int | None) -> Surroundings:
    if options.surroundings.timeout_s is not None:
        return options.surroundings
    limit_s = _FIRST_TIMEOUT_S
    if baseline_ns is not None:
        limit_s = max(_TIMEOUT_FLOOR_S, _TIMEOUT_FACTOR * baseline_ns / _NS_PER_S)
    return replace(options.surroundings, timeout_s=limit_s)


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
    whose = "its own of the first round" if is_baseline else "the baseline's"
    if not differing:
        return f"the guest's output differs from {whose}"
    return f"{len(differing)} simulated statistics differ from {whose}: {differing[0]}"
