"""Interleaved rounds of a real program: every run committed when it ends, resumable.

In every round each subject runs once, in an order shuffled by the seed, so a
drift of the machine hits all alike and cancels in the ratios to the baseline of
the same round; the tests of `tuner.validate.verdicts` rest on that shuffle.
Before the first round the baseline runs twice unrecorded: it warms the caches,
its exit status and output are what all others must equal, and a program that
does not even repeat itself is noticed before any subject is blamed.

A subject that fails once is out; its run is kept with the reason.  An
interrupted validation is continued by the same command as long as subjects,
options and machine are the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tuner.errors import InterruptedCampaign, ProgramError, ProgramTimeoutError
from tuner.measure.program import PRELOAD, ProgramRun, Surroundings, digest
from tuner.records import Status
from tuner.store import Store, ValidationRecord, ValidationSample
from tuner.validate.setup import Prepared, with_libc_malloc

IGNORED = "ignored"
STDOUT = "stdout"
"""What is compared with the baseline's; everything else is the path of a file."""

HARDWARE = "auto"
CACHEGRIND = "cachegrind"
NONE = "none"
"""What counts the instructions of the real program."""

SHUFFLED = "shuffled"
"""Key of a validation's settings: every round was shuffled, the first one too."""

_TIMEOUT_FACTOR = 10.0
_TIMEOUT_FLOOR_S = 30.0
"""Without a limit of the user's: max(floor, factor * time of the baseline)."""

_COUNT_FACTOR = 60.0
"""Limit of a counted run as a multiple of the baseline's time."""

_CHILDREN_SHARE = 0.5
_NS_PER_S = 1e9


class RunsPrograms(Protocol):
    """Runs a program; `tuner.measure.program.ProgramRunner`, or a double."""

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        """Run a program to its end."""
        ...


class CountsInstructions(Protocol):
    """Counts instructions; `tuner.measure.counting.InstructionCounter`, or a double."""

    def count(
        self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float | None
    ) -> int | None:
        """Return the instructions of one run."""
        ...


@dataclass(frozen=True)
class ValidationOptions:
    """How a validation is made; two with equal options can be continued into one."""

    rounds: int = 8
    """Runs of every subject, at least 1."""
    output: str = STDOUT
    """What must equal the baseline's: `STDOUT`, `IGNORED`, or the path of a file the program
    writes."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    """Core, time limit, sampling and kernel settings of every run."""
    instrument: str = HARDWARE
    """What counts instructions: `HARDWARE` in every run, where there are counters;
    `CACHEGRIND` once per subject; or `NONE`."""
    seed: int = 1
    """Seed of the order within the rounds."""


@dataclass(frozen=True)
class Observer:
    """Who is told what happens."""

    on_sample: Callable[[ValidationSample], None]
    """A run ended and is in the store."""
    on_notice: Callable[[str], None]
    """Something a reader must know."""
    on_plan: Callable[[int], None] = lambda _: None
    """So many runs are left; told before the first one and when a subject is out."""


@dataclass(frozen=True)
class _Session:
    """What stays the same while a validation runs."""

    store: Store
    command: Sequence[str]
    options: ValidationOptions
    runner: RunsPrograms
    counter: CountsInstructions | None
    reference: ProgramRun
    """The unrecorded run of the baseline."""


def validate(
    store: Store,
    command: Sequence[str],
    prepared: Sequence[Prepared],
    *,
    options: ValidationOptions,
    machine: Mapping[str, Any],
    runner: RunsPrograms,
    counter: CountsInstructions | None,
    observer: Observer,
) -> int:
    """Run all rounds, or those that are missing, and return the validation's identifier.

    Args:
        store: open for writing.
        command: program and arguments.
        prepared: the subjects, the baseline first.
        options: how to run.
        machine: facts of this machine, for the record.
        runner: runs the program.
        counter: counts instructions; None for no count.
        observer: is told of every run.

    Raises:
        ProgramError: the program crashes with the baseline, or does not repeat its output.
        ProgramTimeoutError: it does not end in time with the baseline.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    try:
        reference = _reference(runner, command, prepared[0], options)
        notices = []
        brought = _brought(reference, prepared[0])
        if brought:
            prepared = with_libc_malloc(prepared)
            reference = _reference(runner, command, prepared[0], options)
            notices.append(
                f"the program brings {', '.join(brought)} of its own; where no allocator is "
                "preloaded, libc's malloc is put in front of it with LD_PRELOAD"
            )
        options = _with_limit(options, reference)
        session = _Session(store, command, options, runner, counter, reference)
        _check_repeats(session, prepared[0])
        notices += _notices(reference)
        for notice in notices:
            observer.on_notice(notice)
        identifier = _begin(session, prepared, machine, (brought, notices), observer)
        _run_rounds(session, identifier, prepared, observer)
    except KeyboardInterrupt as event:
        message = "validation interrupted; every run so far is kept: the same command continues it"
        raise InterruptedCampaign(message) from event
    return identifier


def order(n_subjects: int, number: int, seed: int) -> list[int]:
    """Return the random order of the subjects in a round.

    Example:
        >>> sorted(order(3, 4, 1))
        [0, 1, 2]
    """
    positions = list(range(n_subjects))
    random.Random(f"{seed}/{number}").shuffle(positions)  # noqa: S311 - not cryptography
    return positions


def _reference(
    runner: RunsPrograms, command: Sequence[str], baseline: Prepared, options: ValidationOptions
) -> ProgramRun:
    run = _run_compared(runner, command, baseline, options)
    name = command[0]
    if run.timed_out:
        limit = options.surroundings.timeout_s
        message = f"{name}: still running after {limit:g} s with the baseline; raise --timeout"
        raise ProgramTimeoutError(message)
    if run.signal is not None:
        message = f"{name}: {run.ending} with the baseline{_quoted(run.stderr_tail)}"
        raise ProgramError(message)
    return run


def _check_repeats(session: _Session, baseline: Prepared) -> None:
    """Run the baseline once more.

    Raises:
        ProgramError: it did not do the same again.
    """
    run = _run_compared(session.runner, session.command, baseline, session.options)
    status, reason = judge_run(run, session.reference, session.options.output)
    if status is not Status.OK:
        raise ProgramError(_not_repeatable(session, reason))


def _run_compared(
    runner: RunsPrograms, command: Sequence[str], subject: Prepared, options: ValidationOptions
) -> ProgramRun:
    """Run the program; `output_sha256` is then that of the output to be compared."""
    path = None if options.output in (STDOUT, IGNORED) else Path(options.output)
    before = _stamp(path)
    run = runner.run(command, subject.environment, options.surroundings)
    if path is None:
        return run
    after = _stamp(path)
    if run.signal is None and not run.timed_out and (after is None or after == before):
        message = f"{path}: not written by {command[0]} ({run.ending}); check --output-file"
        raise ProgramError(message)
    return replace(run, output_sha256=digest(path) if after else "")


def _stamp(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if found else None


def _with_limit(options: ValidationOptions, reference: ProgramRun) -> ValidationOptions:
    if options.surroundings.timeout_s is not None:
        return options
    limit_s = max(_TIMEOUT_FLOOR_S, _TIMEOUT_FACTOR * reference.wall_ns / _NS_PER_S)
    return replace(options, surroundings=replace(options.surroundings, timeout_s=limit_s))


def _begin(
    session: _Session,
    prepared: Sequence[Prepared],
    machine: Mapping[str, Any],
    seen: tuple[Sequence[str], Sequence[str]],
    observer: Observer,
) -> int:
    """Return the validation to continue, or begin a new one.

    Args:
        session: what stays the same.
        prepared: the subjects.
        machine: facts of this machine.
        seen: allocators that the program brings itself, and what else a reader must know.
        observer: is told when a validation is continued.
    """
    brought, notices = seen
    options = asdict(session.options)
    # A limit derived from the warm-up differs a little each time and decides nothing.
    del options["rounds"], options["surroundings"]["timeout_s"]
    record = ValidationRecord(
        command=tuple(session.command),
        rounds=session.options.rounds,
        baseline=prepared[0].subject.label,
        settings={
            "subjects": [entry.subject.as_record() for entry in prepared],
            "options": options,
            "brought_allocators": list(brought),
            "notices": list(notices),
            SHUFFLED: True,
        },
        machine=json.loads(json.dumps(machine)),  # as it comes back from the store
    )
    unfinished = find_unfinished(session.store.validations(), record)
    if unfinished is None:
        return session.store.begin_validation(record)
    observer.on_notice(f"continuing validation {unfinished} of this campaign")
    return unfinished


def find_unfinished(
    validations: Sequence[ValidationRecord], wanted: ValidationRecord
) -> int | None:
    """Return the latest validation that the wanted one would continue; None for none."""
    found = find_same(validations, wanted)
    return None if found is None or is_over(found) else found.identifier


def find_same(
    validations: Sequence[ValidationRecord], wanted: ValidationRecord
) -> ValidationRecord | None:
    """Return the latest validation of the same subjects, options and machine; None for none."""
    for found in reversed(validations):
        is_same = (
            (found.command, found.rounds, found.baseline, dict(found.machine))
            == (wanted.command, wanted.rounds, wanted.baseline, dict(wanted.machine))
            and found.settings["subjects"] == wanted.settings["subjects"]
            and found.settings["options"] == wanted.settings["options"]
        )
        if is_same:
            return found
    return None


def is_over(record: ValidationRecord) -> bool:
    """Tell whether nothing is left to run: all rounds are done, or the baseline failed."""
    failed = {sample.label for sample in record.samples if sample.status is not Status.OK}
    labels = {entry["label"] for entry in record.settings["subjects"]} - failed
    done = {(sample.round, sample.label) for sample in record.samples}
    return record.baseline in failed or all(
        (number, label) in done for number in range(record.rounds) for label in labels
    )


def _brought(reference: ProgramRun, baseline: Prepared) -> list[str]:
    """Return the names of the allocators in the program that the baseline did not put there."""
    preloaded = Path(baseline.environment.get(PRELOAD, "/")).resolve()
    libraries = (Path(library) for library in reference.malloc_libraries)
    return [library.name for library in libraries if library.resolve() != preloaded]


def _notices(reference: ProgramRun) -> list[str]:
    notices = []
    if reference.exit_status:
        notices.append(f"the program ends with exit status {reference.exit_status}")
    if reference.children_cpu_ns > _CHILDREN_SHARE * reference.cpu_ns:
        notices.append(
            "most CPU time was spent in child processes, but memory is that of the main process "
            "alone; validate the child's own command instead"
        )
    if not reference.peak_is_exact:
        notices.append("this machine forbids tracing: peaks are those of the samples, not exact")
    return notices


def _run_rounds(
    session: _Session, identifier: int, prepared: Sequence[Prepared], observer: Observer
) -> None:
    (record,) = (r for r in session.store.validations() if r.identifier == identifier)
    done = {(sample.round, sample.label) for sample in record.samples}
    rejected = {sample.label for sample in record.samples if sample.status is not Status.OK}
    labels = [entry.subject.label for entry in prepared]

    def left() -> int:
        rounds = range(session.options.rounds)
        return sum((n, x) not in done for n in rounds for x in labels if x not in rejected)

    observer.on_plan(left())
    for number in range(session.options.rounds):
        for position, index in enumerate(order(len(prepared), number, session.options.seed)):
            label = labels[index]
            if label in rejected or (number, label) in done:
                continue
            sample = _sample(session, prepared[index], number, position)
            session.store.add_validation_sample(identifier, sample)
            done.add((number, label))
            observer.on_sample(sample)
            if sample.status is not Status.OK:
                rejected.add(label)
                observer.on_plan(left())
            if label in rejected and index == 0:
                raise ProgramError(_not_repeatable(session, sample.reason))


def _sample(session: _Session, entry: Prepared, number: int, position: int) -> ValidationSample:
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
    run = _run_compared(session.runner, session.command, entry, session.options)
    status, reason = judge_run(run, session.reference, session.options.output)
    n_instructions = run.instructions if session.options.instrument == HARDWARE else None
    if session.counter and number == 0 and status is Status.OK:
        limit_s = max(_TIMEOUT_FLOOR_S, _COUNT_FACTOR * session.reference.wall_ns / _NS_PER_S)
        n_instructions = session.counter.count(session.command, entry.environment, limit_s)
    return replace(
        sample,
        status=status,
        reason=reason,
        exit_status=run.exit_status,
        signal=run.signal,
        output_sha256=None if session.options.output == IGNORED else run.output_sha256,
        peak_rss_bytes=run.peak_rss_bytes,
        peak_heap_bytes=run.peak_anon_bytes,
        mean_heap_bytes=run.mean_anon_bytes,
        faults=run.faults,
        user_ns=run.user_ns,
        system_ns=run.system_ns,
        cpu_ns=run.cpu_ns,
        wall_ns=run.wall_ns,
        instructions=n_instructions,
        curve=run.curve,
    )


def judge_run(run: ProgramRun, reference: ProgramRun, output: str) -> tuple[Status, str | None]:
    """Tell whether a run did the same as the baseline's, and if not, why.

    Args:
        run: of a subject.
        reference: of the baseline.
        output: what is compared, see `ValidationOptions`.
    """
    if run.timed_out:
        return Status.TIMED_OUT, run.ending
    if run.preload_mapped is False:  # None: this machine forbids to look, see _notices
        return Status.REFUSED, "the library was not loaded: is the program statically linked?"
    if (run.exit_status, run.signal) != (reference.exit_status, reference.signal):
        told = _quoted(run.stderr_tail)
        return Status.FAILED, f"{run.ending}, but {reference.ending} with the baseline{told}"
    if output != IGNORED and run.output_sha256 != reference.output_sha256:
        return Status.FAILED, f"its output ({output}) differs from the baseline's"
    return Status.OK, None


def _not_repeatable(session: _Session, reason: str | None) -> str:
    return (
        f"{session.command[0]}: two runs with the baseline differ: {reason}; a program "
        "whose output holds times or addresses needs --ignore-output or --output-file"
    )


def _quoted(text: str) -> str:
    lines = text.strip().splitlines()
    return f': "{lines[-1]}"' if lines else ""
