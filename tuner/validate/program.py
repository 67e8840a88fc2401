"""A real program in interleaved rounds: what is run, and whether it did what the baseline does.

Before the first round the baseline runs twice unrecorded: it warms the caches, its exit status and
output are what all others must equal, and a program that does not even repeat itself is noticed
before any subject is blamed.  A program that ends otherwise than when it was recorded is another
one, or fails: nothing is compared then.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.compare.loop import Observer, compare, interruptible
from tuner.compare.plan import Rounds, Step
from tuner.errors import ProgramError, ProgramTimeoutError, SpecError
from tuner.machine import Machine
from tuner.measure.preloads import exports_malloc, staying
from tuner.measure.program import ProgramRun, RunsPrograms, Surroundings, digest
from tuner.records import Outcome, Status
from tuner.store import RealMeasurement, Store, ValidationConditions
from tuner.trace.program import Recorded
from tuner.validate.session import (
    CACHEGRIND,
    IGNORED,
    STDOUT,
    Counting,
    CountsInstructions,
    StoreKeeper,
    ValidationOptions,
    brought_allocators,
    find_unfinished,
    measured,
    new_record,
    quoted_tail,
)
from tuner.validate.setup import Prepared, with_libc_malloc

_TIMEOUT_FLOOR_S = 30.0
_CHILDREN_SHARE = 0.5
_ITS_OUTPUT = "its output"


@dataclass(frozen=True)
class ProgramRounds:
    """Runs the program under a subject: the runner of these rounds."""

    command: Sequence[str]
    entries: Mapping[str, Prepared]
    """By label, the baseline first."""
    options: ValidationOptions
    runner: RunsPrograms
    counting: Counting
    reference: ProgramRun
    """The unrecorded run of the baseline."""

    def __call__(self, step: Step[None]) -> Outcome[RealMeasurement]:
        """Run it once."""
        entry = self.entries[step.subject]
        if entry.refusal is not None:
            return Outcome.did_not_succeed(Status.REFUSED, entry.refusal)
        run = _run_compared(self.runner, self.command, entry, self.options)
        has_own = entry.subject.is_as_it_is or step.subject == next(iter(self.entries))
        allocator = None if has_own else entry.subject.configuration.allocator
        status, reason = judge_run(run, self.reference, self.options.output, allocator)
        is_wanted = step.round == 0 and status is Status.OK
        values = measured(
            run,
            output_sha256=_compared(run, self.options.output),
            instructions=self.counting.instructions(
                run, self.command, entry.environment, is_wanted=is_wanted
            ),
        )
        return Outcome(status, reason, values)


def validate(
    store: Store,
    command: Sequence[str],
    prepared: Sequence[Prepared],
    *,
    options: ValidationOptions,
    machine: Machine,
    runner: RunsPrograms,
    counter: CountsInstructions | None,
    recorded: Recorded | None = None,
    as_it_is: Callable[[Path, Sequence[Prepared]], Sequence[Prepared]] | None = None,
    observer: Observer[None, RealMeasurement] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
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
        recorded: how the program ended when it was recorded; where that is not known, 0 is
            expected.
        as_it_is: adds the program as it is to the subjects, given the allocator it brings.
        observer: is called at every run.
        on_notice: is called with what is said once, beside what the record keeps.

    Raises:
        SpecError: what is to be compared is a folder.
        ProgramError: the program crashes with the baseline, does not load what is preloaded, ends
            otherwise than is expected, or does not repeat its output.
        ProgramTimeoutError: it does not end in time with the baseline.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    options = options.as_deployed(prepared)
    compared = _file(options.output)
    if compared and compared.is_dir():
        raise SpecError(f"{compared}: is a folder; name the file that {command[0]} writes")
    with interruptible():
        reference = _reference(runner, command, prepared[0], options, recorded)
        notices = []
        brought = brought_allocators(reference, prepared[0])
        if brought:
            prepared = with_libc_malloc(prepared)
            if as_it_is is not None:
                prepared = as_it_is(brought[0], prepared)
            reference = _reference(runner, command, prepared[0], options, recorded)
            notices.append(_brought_notice(brought, prepared))
        options = replace(
            options, surroundings=options.limited(reference.wall_ns, _TIMEOUT_FLOOR_S, None)
        )
        _check_repeats(runner, command, prepared[0], options, reference)
    program = _program(command, prepared[0])
    notices += _notices(reference, command, recorded, program)
    notices += _about_addresses(reference, options.surroundings)
    wanted = new_record(command, prepared, options, machine, notices=notices)
    wanted = replace(
        wanted,
        conditions=_of_this_program(wanted.conditions, program, reference, prepared[0]),
        brought_allocators=tuple(path.name for path in brought),
        is_recorded_program=None if recorded is None else recorded.is_run_by(command),
        is_shuffled=True,
    )
    identifier = find_unfinished(store.validations(), wanted)
    if identifier is not None:
        on_notice(f"continuing validation {identifier} of this campaign")
    else:
        identifier = store.begin_validation(wanted)
    labels = tuple(entry.subject.label for entry in prepared)
    counting = Counting(options.instrument, counter if options.instrument == CACHEGRIND else None)
    entries = dict(zip(labels, prepared, strict=True))
    course = compare(
        Rounds(labels, (None,), options.rounds, options.seed),
        ProgramRounds(command, entries, options, runner, counting, reference),
        StoreKeeper(store, {None: identifier}, prepared),
        observer,
        baseline=labels[0],
    )
    if course.is_over(None):
        raise ProgramError(_not_repeatable(command, course.out[None, labels[0]]))
    return identifier


def judge_run(
    run: ProgramRun, reference: ProgramRun, output: str, allocator: str | None = None
) -> tuple[Status, str | None]:
    """Return whether a run did the same as the baseline's, and if not, why.

    Args:
        run: of a subject.
        reference: of the baseline.
        output: what is compared, see `ValidationOptions`.
        allocator: see `ProgramRun.lost_settings`; None for the baseline, too.
    """
    if run.timed_out:
        return Status.TIMED_OUT, run.ending
    if (lost := run.lost_settings(allocator)) is not None:
        return Status.REFUSED, lost
    if (run.exit_status, run.signal) != (reference.exit_status, reference.signal):
        tail = quoted_tail(run)
        return Status.FAILED, f"{run.ending}, but {reference.ending} with the baseline{tail}"
    if _file(output) and not run.output_sha256:
        return Status.FAILED, f"{output} was not written"
    if output != IGNORED and run.output_sha256 != reference.output_sha256:
        return Status.FAILED, f"{_ITS_OUTPUT} ({output}) differs from the baseline's"
    return Status.OK, None


def _reference(
    runner: RunsPrograms,
    command: Sequence[str],
    baseline: Prepared,
    options: ValidationOptions,
    recorded: Recorded | None,
) -> ProgramRun:
    run = _run_baseline(runner, command, baseline, options)
    name = command[0]
    if run.timed_out:
        limit = options.surroundings.timeout_s
        raise ProgramTimeoutError(
            f"{name}: still running after {limit:g} s with the baseline; raise --timeout"
        )
    if run.signal is not None:
        raise ProgramError(f"{name}: {run.ending} with the baseline{quoted_tail(run)}")
    if (lost := run.lost_settings(None)) is not None:
        raise ProgramError(f"{name}: {lost}")
    expected = recorded.exit_status or 0 if recorded else 0
    if run.exit_status != expected:
        raise ProgramError(
            f"{name}: ends with exit status {run.exit_status}, but {expected} is "
            f"expected{quoted_tail(run)}; check the command, or give "
            f"--expect-status {run.exit_status}"
        )
    return run


def _check_repeats(
    runner: RunsPrograms,
    command: Sequence[str],
    baseline: Prepared,
    options: ValidationOptions,
    reference: ProgramRun,
) -> None:
    """Run the baseline once more.

    Raises:
        ProgramError: it did not do the same again.
    """
    run = _run_baseline(runner, command, baseline, options)
    status, reason = judge_run(run, reference, options.output)
    if status is not Status.OK:
        raise ProgramError(_not_repeatable(command, reason))


def _run_baseline(
    runner: RunsPrograms, command: Sequence[str], baseline: Prepared, options: ValidationOptions
) -> ProgramRun:
    """Run the program as `_run_compared`.

    Raises:
        ProgramError: it ended without writing the file to be compared.
    """
    run = _run_compared(runner, command, baseline, options)
    if run.signal is None and not run.timed_out and not run.output_sha256:
        what = f"not written by {command[0]} ({run.ending})"
        raise ProgramError(f"{options.output}: {what}; check --output-file")
    return run


def _run_compared(
    runner: RunsPrograms, command: Sequence[str], subject: Prepared, options: ValidationOptions
) -> ProgramRun:
    """Run the program; `output_sha256` is then that of the output to be compared.

    It is empty where the program did not write the file.
    """
    path = _file(options.output)
    before = _stamp(path)
    run = runner.run(command, subject.environment, options.surroundings)
    if path is None:
        return run
    is_written = _stamp(path) not in (None, before)
    return replace(run, output_sha256=digest(path) if is_written else "")


def _file(output: str) -> Path | None:
    """Return the file that is compared; None where it is none."""
    return None if output in (STDOUT, IGNORED) else Path(output)


def _compared(run: ProgramRun, output: str | None) -> str | None:
    """Return the digest of what was compared; None where nothing was, or nothing was written."""
    return None if output == IGNORED else run.output_sha256 or None


def _program(command: Sequence[str], baseline: Prepared) -> Path | None:
    """Return the file of a program; None where it is not found."""
    found = shutil.which(command[0], path=baseline.environment.get("PATH"))
    return Path(found) if found else None


def _of_this_program(
    conditions: ValidationConditions,
    program: Path | None,
    reference: ProgramRun,
    baseline: Prepared,
) -> ValidationConditions:
    """Return conditions that no other program has, nor this one elsewhere, or beside others."""
    program_sha256 = None
    with contextlib.suppress(OSError):
        program_sha256 = digest(program) if program else None
    return replace(
        conditions,
        folder=str(Path.cwd()),
        program_sha256=program_sha256,
        output_sha256=_compared(reference, conditions.output),
        beside=staying(baseline.environment),
    )


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Return what writing a file changes; its time of modification may be set back to another's."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns) if found else None


def _brought_notice(brought: Sequence[Path], prepared: Sequence[Prepared]) -> str:
    names = ", ".join(path.name for path in brought)
    baseline = prepared[0].subject
    role = " and the baseline" if baseline.is_as_it_is else ""
    return (
        f"the program brings {names} of its own: as it is, it is a subject{role}; under glibc, "
        "libc's malloc is put in front of it with LD_PRELOAD"
    )


def _notices(
    reference: ProgramRun, command: Sequence[str], recorded: Recorded | None, program: Path | None
) -> list[str]:
    notices = []
    if reference.program:
        program = Path(reference.program)
    if program and exports_malloc(program):
        notices.append(
            "the program has a malloc of its own, which comes before those of libraries: what is "
            "compared may not act on it"
        )
    if words := reference.changes:
        notices.append(words)
    if reference.leaves_others:
        notices.append(
            "processes that the program left behind were ended with it and not measured: if one of "
            "them does the work, keep it in the foreground"
        )
    if reference.exit_status:
        notices.append(f"the program ends with exit status {reference.exit_status}")
    if recorded is not None and (differs := recorded.differs_from(command)):
        shown = ": report and export show a validation of that one, if there is any"
        notices.append(differs if recorded.is_run_by(command) else differs + shown)
    if reference.children_cpu_ns > _CHILDREN_SHARE * reference.cpu_ns:
        notices.append(
            "most CPU time was spent in child processes, but memory is that of the main process "
            "alone; validate the child's own command instead"
        )
    if not reference.peak_is_exact:
        notices.append(
            "peaks are those of the samples, not exact: this machine forbids tracing, or the first "
            "thread ended before the others"
        )
    return notices


def _about_addresses(reference: ProgramRun, surroundings: Surroundings) -> list[str]:
    """Return why addresses are random, where they are."""
    if reference.has_fixed_addresses:
        return []
    why = "this machine forbids to fix them, as containers do"
    if surroundings.aslr == "on":
        why = "a subject asks for huge pages for all of its memory: how many it has depends on them"
    return [f"addresses are random, since {why}; runs scatter more"]


def _not_repeatable(command: Sequence[str], reason: str | None) -> str:
    found = f"{command[0]}: two runs with the baseline differ: {reason}"
    if not (reason or "").startswith(_ITS_OUTPUT):
        return found
    advice = (
        "a program whose output holds times or addresses needs --ignore-output or --output-file"
    )
    return f"{found}; {advice}"
