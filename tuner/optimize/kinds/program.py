"""The program as it is and under candidates: environments, runs, and what a run must equal.

The program as it is runs in the caller's own environment, with whatever allocator and settings
that gives it; candidates run in the same one without settings of allocators, and with what else is
preloaded behind theirs.  In a round all
environments have the same length, and every round another one, since the length alone moves the
stack and with it a program's speed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from tuner.allocators import Allocator, Installation, libc_malloc
from tuner.compare.plan import Step
from tuner.errors import ProgramError, ProgramTimeoutError, SettingError, TunerError
from tuner.link.elf import read_object
from tuner.measure.counting import InstructionCounter
from tuner.measure.preloads import PRELOAD, beside, staying
from tuner.measure.process import last_lines, printed_last
from tuner.measure.program import (
    LAYOUT,
    ProgramRun,
    RunsPrograms,
    Surroundings,
    environment_under,
    limit_after,
    padded,
    steering,
)
from tuner.optimize.kinds.counted import FAULTS, SYSCALLS, Counts
from tuner.optimize.kinds.driver import (
    children_words,
    followed_words,
    heaviest_child,
    unfollowed_words,
    workers_of,
)
from tuner.optimize.kinds.known import known_for_program
from tuner.optimize.quantities import CPU, MEAN, PEAK, QUANTITIES
from tuner.optimize.tuned import AS_IS, ProgramRecording, Reference, Runs, Sample
from tuner.page import series
from tuner.recording import RecordedTotals, record
from tuner.recording.explain import FEW_EVENTS, small_objects_words, switches_in
from tuner.recording.program import Ending
from tuner.records import Configuration, Outcome, Status
from tuner.registry import ALLOCATORS
from tuner.units import show_percent, show_size

_NEXT_TO_NOTHING_NS = 1e8
"""CPU time within which a program has hardly done the work that it is for."""

_LAYOUTS = 4096
"""Lengths of the environment that rounds draw from, in bytes; a page."""

_TIMEOUT_FLOOR_S = 30.0
"""Least limit of a candidate; see `limit_after`."""

_CHILDREN_SHARE = 0.5
"""Of the CPU time, above which the program is a driver of others."""

_CHILDREN_NAMED: Final = 0.1
"""Of the CPU time, from which on children are named."""

_COARSE_NS: Final = 200e6
"""CPU time below which the share of children, which the kernel counts in ticks, is not known."""

_CHILDREN_ALONE: Final = 0.75
"""Of the CPU time, above which nothing is answered where no child stands for the command: what is
recorded, and whose memory is measured, does next to nothing."""

_UNCOUNTED = 0.01
"""Of the CPU time, that children may take: the work of the main process alone is counted."""

_LITTLE = 0.25
"""Of the mean memory: where less was ever live in malloc, most memory is not malloc's."""

_MUCH_MORE = 1.5
"""Times the CPU time of the second run: a first run that takes more has set something up."""

_BUSY_SHARE = 0.5
"""Of the time that a core is to be had: a program with more CPU time computes rather than waits."""


_OF_JEMALLOC: Final = frozenset({"mallocx", "rallocx", "dallocx", "sdallocx"})
"""Names beyond the standard by which blocks are taken and given back, see jemalloc(3)."""

_PRINTS_ELSE: Final = "prints something else than the program as it is"
_PRINTS_ELSE_ITSELF: Final = (
    "prints something else than at first; if that is a time or a number of its own, have it print "
    "none, or drop its output, which is then not compared, with another -o: -- sh -c './app > "
    "/dev/null'"
)

_PRINTS_ANEW: Final = "It does not print the same each time, so its output was not compared."

_NO_INPUT: Final = (
    "Its standard input is empty in every run; if it reads that, let a shell open a file: -- sh -c "
    "'exec ./app < FILE'."
)
_NOTHING_SHA256: Final = hashlib.sha256().hexdigest()
"""Of what prints nothing."""

_SHORT_S: Final = 0.2
"""Of a run that takes less, memory is sampled each millisecond: a hundred samples, if it can be."""

_LEFT: Final = (
    "It leaves processes behind, which were ended with it and not measured: if one of them does "
    "the work, keep it in the foreground, or give --ready and --load if it is a service."
)

TOO_SHORT: Final = "give it the --time of a dozen runs at least"


@runtime_checkable
class _Stoppable(Protocol):
    """What runs programs, where it can end them."""

    def stop(self) -> None: ...


class Program:
    """Runs one command under many candidates."""

    def __init__(
        self,
        command: Sequence[str],
        runner: RunsPrograms,
        environment: Mapping[str, str],
        files: Mapping[str, tuple[Allocator, Installation]],
        surroundings: Surroundings | None = None,
        *,
        patience_s: float | None = None,
        expect_status: int = 0,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            command: program and arguments.
            runner: runs it.
            environment: the caller's own.
            files: adapter and installation of every allocator.
            surroundings: core, limits and kernel settings of every run.
            patience_s: limit of the first runs where `surroundings` have none, and of recordings.
            expect_status: exit status with which it ends when it did its work.
        """
        self._expect_status = expect_status
        self._patience_s = patience_s
        self.command = tuple(command)
        self._runner = runner
        self._environment = dict(environment)
        self._files = files
        self._surroundings = surroundings or Surroundings()
        self._said = ""  # by the program as it is, last

    def examine(self) -> Reference:
        """Run the program as it is, twice: warms it up, and shows what it does.

        Where most CPU time is that of children, the child that does the work stands for the
        command if it can be run alone; `Reference.command` is then the child's.

        Raises:
            ProgramError: a signal ends it, or its exit status is not the same twice, or not the
                expected one, or children do nearly all of its work and none can stand for it.
            ProgramTimeoutError: it does not end in time.
        """
        whole, share = self._examined(self.command)
        is_own = share <= _CHILDREN_SHARE
        if is_own and whole.values[CPU] >= _COARSE_NS:
            named = [f"{children_words(share)}."] if share >= _CHILDREN_NAMED else []
            return replace(whole, notes=(*whole.notes, *named))
        workers = workers_of(self.command, self._recording_limit_s(whole))
        child = heaviest_child(workers)
        alone = self._alone(child) if child else None
        if child and alone and alone.values[CPU] > _CHILDREN_SHARE * whole.values[CPU]:
            words = followed_words(self.command, child, alone.values[CPU] / whole.values[CPU])
            return replace(alone, notes=(*alone.notes, words))
        if is_own:
            return whole
        unfit = child if alone is None else None
        said = unfollowed_words(self.command, share, workers, unfit)
        if share > _CHILDREN_ALONE:
            raise ProgramError(f"{self.command[0]}: " + "\n  ".join(said))
        return replace(whole, notes=(*whole.notes, f"{'; '.join(said)}."))

    def _alone(self, child: Sequence[str]) -> Reference | None:
        """Return what a child does when run alone; None where it fails, or others do its work."""
        try:
            alone, share = self._examined(child)
        except TunerError:
            return None
        return alone if share <= _CHILDREN_SHARE else None

    def _examined(self, command: Sequence[str]) -> tuple[Reference, float]:
        """Return what a command does as it is, and its children's share of the CPU time."""
        shares = [share_of_core()]
        runs = []
        limit_s = self._surroundings.timeout_s or self._patience_s
        surroundings = replace(self._surroundings, timeout_s=limit_s)
        for _ in range(2):
            runs.append(self._run(command, {**self._environment, LAYOUT: ""}, surroundings))
            shares.append(share_of_core())
            self._check_ended(runs[-1])
        first, second = runs
        if first.exit_status != second.exit_status:
            unlike = second if first.exit_status == self._expect_status else first
            raise ProgramError(
                f"{command[0]}: {first.ending}, then {second.ending}, as it is"
                f"{printed_last(unlike.stderr_tail)}\n"
                "  a program that does not do the same again cannot be compared; if it stumbles "
                "over its own files, remove them first: -- sh -c 'rm -f FILE; exec ./app'"
            )
        self._check_status(second)
        self._said = last_lines(second.stderr_tail)
        wall_s = second.wall_ns / 1e9
        is_busy = all(run.cpu_ns > _BUSY_SHARE * min(shares) * run.wall_ns for run in runs)
        used = runs if first.cpu_ns < _MUCH_MORE * second.cpu_ns else [second]
        found = [_values(run, is_busy=is_busy) for run in used]
        is_same = first.output_sha256 == second.output_sha256
        notes = [*steered_words(self._environment), *([_LEFT] if second.leaves_others else [])]
        notes += jemalloc_names_words([*second.malloc_libraries, *filter(None, [second.program])])
        notes += [] if is_same else [_PRINTS_ANEW]
        if _hardly_works(command, second):
            took = f"{second.cpu_ns / 1e6:.0f} ms of CPU time"
            notes.append(f"It prints nothing, and takes {took}. {_NO_INPUT}")
        if words := second.changes:
            notes.append(f"{words[0].upper()}{words[1:]}.")
        reference = Reference(
            command=tuple(command),
            values={name: statistics.fmean(one[name] for one in found) for name in QUANTITIES},
            is_busy=is_busy,
            n_threads=max(run.n_threads for run in runs),
            exit_status=self._expect_status,
            output_sha256=second.output_sha256 if is_same else None,
            brings=own_allocator(second.malloc_libraries),
            is_preloaded=brings_that(second.malloc_libraries, self._files),
            program=second.program,
            wall_s=wall_s,
            timeout_s=self._surroundings.timeout_s or limit_after(wall_s, _TIMEOUT_FLOOR_S),
            notes=tuple(notes),
            steered=steering(self._environment),
            beside=staying(self._environment),
        )
        return reference, second.children_cpu_ns / max(second.cpu_ns, 1)

    def on_core(self, core: int) -> Program:
        """Return the same with every run bound to a core."""
        return self._within(replace(self._surroundings, cpu=core))

    def as_deployed(self, candidates: Mapping[str, Configuration]) -> Program:
        """Return the same, run as these candidates will be, see `deployed_within`."""
        deployed = deployed_within(self._surroundings, candidates, self._files)
        return self if deployed is self._surroundings else self._within(deployed)

    def _within(self, surroundings: Surroundings) -> Program:
        return Program(self.command, self._runner, self._environment, self._files, surroundings)

    def stop(self) -> None:
        """End the runs that are under way, on any core, and every later one."""
        if isinstance(self._runner, _Stoppable):
            self._runner.stop()

    def refusal(self, configuration: Configuration) -> str | None:
        """Return why an allocator does not take a setting; None when it does."""
        allocator, installation = self._files[configuration.allocator]
        try:
            allocator.read_back(installation, configuration)
        except SettingError as error:
            return str(error)
        return None

    def known(self, reference: Reference) -> tuple[Configuration, ...]:
        """Return what is known to suit such a program."""
        return self.accepted(known_for_program(reference.n_threads))

    def accepted(self, wanted: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """Return the settings that an allocator is here for, and takes."""
        return tuple(
            one for one in wanted if one.allocator in self._files and self.refusal(one) is None
        )

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        """Record its allocations; see `Tuned`."""
        begun_s = time.monotonic()
        limit_s = self._recording_limit_s(reference)
        made = record(reference.command, trace, is_silent=True, timeout_s=limit_s)
        _check_whole(made.ending, trace, reference)
        first = made.processes[0].totals
        took_s = time.monotonic() - begun_s
        is_told = any(_NO_INPUT in note for note in reference.notes)
        program = reference.program or reference.command[0]
        keeps = small_objects_words(program, self._environment)
        return recorded_of(
            first, reference.values, took_s, self._said, keeps=keeps, is_told=is_told
        )

    def _recording_limit_s(self, reference: Reference) -> float:
        limit_s = limit_after(reference.wall_s, _TIMEOUT_FLOOR_S)
        return min(limit_s, self._patience_s or limit_s)

    def environments(
        self, candidates: Mapping[str, Configuration], reference: Reference
    ) -> dict[str, dict[str, str]]:
        """Return the environment of the program as it is and of every candidate, by label."""
        found = {AS_IS: self._environment}
        for label, configuration in candidates.items():
            allocator, installation = self._files[configuration.allocator]
            given = allocator.environment(installation, configuration)
            if reference.brings and PRELOAD not in given:
                # libc's malloc, put before the one that the program is linked with
                given = {PRELOAD: libc_malloc(), **given}
            found[label] = environment_under(given, self._environment)
        return found

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        """Return what makes one run of a round; see `Tuned`."""
        environments = self.environments(candidates, reference)
        labels = list(environments)
        surroundings = replace(self._surroundings, timeout_s=reference.timeout_s)
        if reference.wall_s < _SHORT_S:
            surroundings = replace(surroundings, sample_ms=1)

        @functools.cache
        def prints_addresses() -> bool:
            if surroundings.aslr == "off":
                return False  # as when the output was read
            run = self._run(reference.command, environments[AS_IS], surroundings)
            return run.output_sha256 != reference.output_sha256

        def measure(step: Step[None]) -> Outcome[Sample]:
            room = {LAYOUT: "x" * random.Random(step.round).randrange(_LAYOUTS)}  # noqa: S311
            filled = padded([{**environments[label], **room} for label in labels])
            own = filled[labels.index(step.subject)]
            run = self._run(reference.command, own, surroundings)
            found = _judged(run, reference, candidates.get(step.subject))
            if found.reason == _PRINTS_ELSE and prints_addresses():
                uncompared = replace(reference, output_sha256=None)
                found = _judged(run, uncompared, candidates.get(step.subject))
            is_own = step.subject == AS_IS and found.reason == _PRINTS_ELSE
            return replace(found, reason=_PRINTS_ELSE_ITSELF) if is_own else found

        return measure

    @property
    def can_count(self) -> bool:
        """See `tuner.optimize.kinds.counted.CountsWork`."""
        return InstructionCounter.is_installed()

    def count(
        self,
        candidates: Mapping[str, Configuration],
        reference: Reference,
        label: str,
        timeout_s: float,
    ) -> int | None:
        """Return the instructions of one run; see `tuner.optimize.kinds.counted.CountsWork`."""
        environment = self.environments(candidates, reference)[label]
        return InstructionCounter().count(
            reference.command, environment, timeout_s, reference.exit_status
        )

    def count_kernel(
        self, candidates: Mapping[str, Configuration], reference: Reference, label: str
    ) -> Counts:
        """Return page faults and system calls of one run; see `CountsWork`."""
        environments = self.environments(candidates, reference)
        labels = list(environments)
        own = padded(list(environments.values()))[labels.index(label)]
        surroundings = replace(
            self._surroundings, timeout_s=reference.timeout_s, counts_syscalls=True
        )
        run = self._run(reference.command, own, surroundings)
        has_children = run.children_cpu_ns > _UNCOUNTED * run.cpu_ns
        if has_children or _judged(run, reference, candidates.get(label)).good is None:
            return {}
        counts = {FAULTS: run.faults, SYSCALLS: run.syscalls}
        return {what: n for what, n in counts.items() if n}

    def _run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        return self._runner.run(command, environment, surroundings)

    def _check_ended(self, run: ProgramRun) -> None:
        if run.timed_out:
            limit_s = self._surroundings.timeout_s
            advice = "raise --timeout" if limit_s else TOO_SHORT
            after = f"{limit_s or self._patience_s:g} s"
            raise ProgramTimeoutError(
                f"{self.command[0]}: still running after {after}; {advice}; if it does not end by "
                "itself, it is a service: give --ready and --load"
            )
        if run.signal is not None:
            raise ProgramError(self._failure_words(run, "then repeat this command"))
        if (lost := run.lost_settings(None)) is not None:
            raise ProgramError(f"{self.command[0]}: {lost}")

    def _check_status(self, run: ProgramRun) -> None:
        if run.exit_status == self._expect_status:
            return
        advice = f"give --expect-status {run.exit_status}"
        if run.exit_status == 0:
            advice = "leave --expect-status out"
        advice = f"if it should end so, {advice}"
        raise ProgramError(self._failure_words(run, advice))

    def _failure_words(self, run: ProgramRun, advice: str) -> str:
        return (
            f"{self.command[0]}: {run.ending} before anything was changed"
            f"{printed_last(run.stderr_tail)}\n"
            "  run it once by hand in this folder, as here with no input or terminal "
            f"(</dev/null | cat); {advice}"
        )


def deployed_within(
    surroundings: Surroundings,
    candidates: Mapping[str, Configuration],
    files: Mapping[str, tuple[Allocator, Installation]],
) -> Surroundings:
    """Return surroundings in which candidates run as they will when deployed.

    Args:
        surroundings: as they are.
        candidates: label -> setting.
        files: adapter and installation of every allocator.
    """
    wanting = (files[one.allocator][0].wants_huge_pages(one) for one in candidates.values())
    return surroundings.as_deployed(is_at_random=any(wanting))


def steered_words(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Say what acts on malloc in the program's environment, and whether candidates have it."""
    words = []
    if found := steering(environment):
        names, kept = series(found), tuple(beside(environment).values())
        without = f"without, except for {series(kept)}" if kept else "without"
        measured = f"settings are measured, and exported, {without}"
        words.append(f"As it is, its environment has {names}; {measured}.")
    if switches := switches_in(environment):
        names = series([f"{name}={value}" for name, value in switches.items()])
        words.append(
            f"The program ran with {names}, as it was and under every setting: the gain is against "
            "that, and the exported file sets it too; compare with the program without it, which "
            "may do as well."
        )
    return tuple(words)


def share_of_core(load: str | None = None, n_cores: int | None = None) -> float:
    """Return how much of a core a program gets beside what else runs now, above 0 and at most 1.

    Args:
        load: content of /proc/loadavg; None reads it.  This process is among what runs now, in
            place of the program, for which it waits later.
        n_cores: that may be used; None: those of this process.

    Example:
        >>> share_of_core("0.1 0.2 0.3 1/90 17", 2), share_of_core("0.1 0.2 0.3 8/90 17", 2)
        (1.0, 0.25)
    """
    try:
        text = load or Path("/proc/loadavg").read_text(encoding="ascii")
        n_running = int(text.split()[3].partition("/")[0])
    except (OSError, IndexError, ValueError):
        return 1.0
    cores = n_cores or len(os.sched_getaffinity(0))
    return min(1.0, cores / max(1, n_running))


def _values(run: ProgramRun, *, is_busy: bool) -> dict[str, float]:
    return {
        MEAN: max(run.mean_anon_cpu_bytes if is_busy else run.mean_anon_bytes, 1.0),
        PEAK: float(max(run.peak_rss_bytes, 1)),
        CPU: float(max(run.cpu_ns, 1)),
    }


def _judged(run: ProgramRun, reference: Reference, of: Configuration | None) -> Outcome[Sample]:
    status, reason = Status.FAILED, None
    if run.timed_out:
        status, reason = Status.TIMED_OUT, f"still running after {reference.timeout_s:g} s"
    elif run.exit_status != reference.exit_status:
        reason = f"{run.ending} instead of exit status {reference.exit_status}"
    elif reference.output_sha256 and run.output_sha256 != reference.output_sha256:
        reason = _PRINTS_ELSE
    else:
        reason = run.lost_settings(of.allocator if of else None)
    if reason is not None:
        return Outcome.did_not_succeed(status, reason)
    return Outcome.succeeded(_values(run, is_busy=reference.is_busy))


def own_allocator(libraries: Sequence[str]) -> str | None:
    """Return which allocator a program brings, by the files mapped into it; None: libc's."""
    names = " ".join(Path(library).name for library in libraries)
    return next((name for name in ALLOCATORS if name in names), None)


def jemalloc_names_words(files: Sequence[str]) -> tuple[str, ...]:
    """Say that a program takes or gives back blocks by names that jemalloc and exgen alone have.

    Args:
        files: that are mapped into it; without jemalloc among them nothing is read.
    """
    if own_allocator(files) != "jemalloc":
        return ()
    found: set[str] = set()
    for file in files:
        with contextlib.suppress(TunerError):  # what is no ELF file calls nothing
            found |= read_object(Path(file)).names & _OF_JEMALLOC
    if not found:
        return ()
    names = series(sorted(found))
    words = (
        f"It calls jemalloc by its own names ({names}), which exgen has; it may crash under glibc, "
        "tcmalloc and mimalloc, which lack them."
    )
    return (words,)


def brings_that(
    libraries: Sequence[str], files: Mapping[str, tuple[Allocator, Installation]]
) -> bool:
    """Return whether the one allocator that a program brings is what its settings preload."""
    name = own_allocator(libraries)
    library = files[name][1].library if name is not None and name in files else None
    return library is not None and [Path(one).resolve() for one in libraries] == [library.resolve()]


def _check_whole(ending: Ending, trace: Path, reference: Reference) -> None:
    """Keep no trace of a run that did not end as the program does.

    Raises:
        ProgramError: it ended otherwise under the recorder.
    """
    if ending.exit_status == reference.exit_status:
        return
    trace.unlink(missing_ok=True)
    name = reference.command[0]
    raise ProgramError(
        f"{name}: {ending} while it was recorded, else with status {reference.exit_status}"
    )


def _hardly_works(command: Sequence[str], run: ProgramRun) -> bool:
    """Return whether a run showed next to nothing, of a command that names no file to read."""
    words = (word for text in command[1:] for word in (text, *text.split()))
    is_quiet = run.output_sha256 == _NOTHING_SHA256 and run.cpu_ns < _NEXT_TO_NOTHING_NS
    return is_quiet and not any(Path(word).is_file() for word in words)


def recorded_of(
    totals: RecordedTotals,
    values: Mapping[str, float],
    took_s: float,
    said: str = "",
    *,
    keeps: str | None = None,
    is_told: bool = False,
) -> ProgramRecording:
    """Return what was recorded of a program, and where that is little or malloc holds little.

    Args:
        totals: of its trace.
        values: what it uses as it is.
        took_s: time that the recording took.
        said: what the program printed last to standard error.
        keeps: see `small_objects_words`.
        is_told: a reader knows that its standard input is empty.
    """
    threads = f"{totals.n_threads} threads" if totals.n_threads > 1 else "1 thread"
    live = show_size(totals.peak_live_bytes)
    words = (
        f"{totals.n_events:,} events of malloc and free of {threads} in {took_s:.1f} s; "
        f"the program: {show_size(round(values[PEAK]))} peak, {show_size(round(values[MEAN]))} "
        f"mean, {values[CPU] / 1e9:.2f} s CPU"
    )
    notes = []
    if totals.n_events < FEW_EVENTS and values[CPU] < _NEXT_TO_NOTHING_NS:
        events = f"It has few events of malloc and free ({totals.n_events:,})."
        advice = "" if is_told else f" {_NO_INPUT}"
        notes.append(f"{events}{advice}{said and f' It printed last: {said}'}")
    if totals.peak_live_bytes < _LITTLE * values[MEAN]:
        share = show_percent(totals.peak_live_bytes / values[MEAN], 0)
        has = f"At most {live} of its memory ({share} of the mean) is in malloc"
        but = f", but {keeps}" if keeps else ""
        notes.append(f"{has}; no setting changes the rest{but}.")
    return ProgramRecording(words, tuple(notes))
