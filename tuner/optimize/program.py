"""The program as it is and under candidates: environments, runs, and what a run must equal.

The program as it is runs in the caller's own environment, with whatever allocator and settings
that gives it; candidates run in the same one without settings of allocators.  In a round all
environments have the same length, and every round another one, since the length alone moves the
stack and with it a program's speed.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tuner.allocators import Allocator, Installation, get_allocator
from tuner.compare.plan import Course, Step
from tuner.errors import ProgramError, ProgramTimeoutError, SettingError, StoreError
from tuner.measure.program import PRELOAD, ProgramRun, Surroundings, clean_environment, padded
from tuner.optimize.judgement import CPU, MEAN, PEAK, QUANTITIES, Logs
from tuner.records import Configuration, Status

AS_IS = "as it is"
"""Label of the program in its own environment: the baseline of everything."""

_LAYOUTS = 4096
"""Lengths of the environment that rounds draw from, in bytes; a page."""

_ROOM = "MALLOC_TUNER_LAYOUT"
"""Variable that only takes up room."""

_TIMEOUT_FACTOR = 10.0
_TIMEOUT_FLOOR_S = 30.0
"""A candidate may take max(floor, factor * time of the program as it is)."""

_OWN_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "exgen")
"""Names that stand in the file names of libraries a program may bring."""


class RunsProgram(Protocol):
    """Runs a program; `tuner.measure.program.ProgramRunner`, or a double."""

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        """Run a program to its end."""
        ...


@dataclass(frozen=True)
class Sample:
    """One run of the program."""

    status: Status
    reason: str | None
    """Why it does not count; None when it does."""
    values: Mapping[str, float]
    """Quantity -> bytes, bytes, ns; empty when it failed."""

    def as_record(self) -> dict[str, Any]:
        """Return it as a line of a journal holds it."""
        return {"status": str(self.status), "reason": self.reason, "values": dict(self.values)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Sample:
        """Rebuild it from `as_record`."""
        return cls(Status(record["status"]), record["reason"], record["values"])


@dataclass(frozen=True)
class Reference:
    """The program as it is: what every other run must equal."""

    command: tuple[str, ...]
    values: Mapping[str, float]
    """Median of its first runs: quantity -> value."""
    exit_status: int
    output_sha256: str | None
    """None when it does not print the same each time."""
    brings: str | None
    """Allocator of its own, such as ``jemalloc``; None: libc's."""
    wall_s: float
    timeout_s: float
    children_share: float = 0.0
    """Of the CPU time, that of child processes."""

    def as_record(self) -> dict[str, Any]:
        """Return it for a journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Reference:
        """Rebuild it from `as_record`."""
        return cls(**{**record, "command": tuple(record["command"])})

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Read it from a file of `as_record`.

        Raises:
            StoreError: the file is damaged.
        """
        try:
            return cls.from_record(json.loads(path.read_bytes()))
        except (OSError, KeyError, TypeError, ValueError) as error:
            message = f"{path}: damaged ({error!r}); remove it to examine the program again"
            raise StoreError(message) from error


class Program:
    """Runs one command under many candidates."""

    def __init__(
        self,
        command: Sequence[str],
        runner: RunsProgram,
        environment: Mapping[str, str],
        files: Mapping[str, tuple[Allocator, Installation]],
        surroundings: Surroundings | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            command: program and arguments.
            runner: runs it.
            environment: the caller's own.
            files: adapter and installation of every allocator.
            surroundings: core, limits and kernel settings of every run.
        """
        self.command = tuple(command)
        self._runner = runner
        self._environment = dict(environment)
        self._files = files
        self._surroundings = surroundings or Surroundings()

    def on(self, command: Sequence[str]) -> Program:
        """Return the same with another command."""
        return Program(command, self._runner, self._environment, self._files, self._surroundings)

    def examine(self) -> Reference:
        """Run the program as it is, twice: warms it up, and shows what it does.

        Raises:
            ProgramError: a signal ends it, or its exit status is not the same twice.
            ProgramTimeoutError: it does not end in time.
        """
        runs = [self._run(self._environment, self._surroundings) for _ in range(2)]
        for run in runs:
            self._check_ended(run)
        first, second = runs
        if first.exit_status != second.exit_status:
            message = (
                f"{self.command[0]}: {first.ending}, then {second.ending}, as it is; "
                "a program that does not do the same again cannot be compared"
            )
            raise ProgramError(message)
        values = {n: (v + _values(second)[n]) / 2.0 for n, v in _values(first).items()}
        wall_s = second.wall_ns / 1e9
        is_same = first.output_sha256 == second.output_sha256
        return Reference(
            self.command,
            values,
            second.exit_status or 0,
            second.output_sha256 if is_same else None,
            _own_allocator(second.malloc_libraries),
            wall_s,
            self._surroundings.timeout_s or max(_TIMEOUT_FLOOR_S, _TIMEOUT_FACTOR * wall_s),
            second.children_cpu_ns / max(second.cpu_ns, 1),
        )

    def refusal(self, configuration: Configuration) -> str | None:
        """Return why an allocator does not take a setting; None when it does."""
        allocator, installation = self._files[configuration.allocator]
        try:
            allocator.read_back(installation, configuration)
        except SettingError as error:
            return str(error)
        return None

    def environments(
        self, candidates: Mapping[str, Configuration], reference: Reference
    ) -> dict[str, dict[str, str]]:
        """Return the environment of the program as it is and of every candidate, by label."""
        plain = clean_environment(self._environment)
        found = {AS_IS: self._environment}
        for label, configuration in candidates.items():
            allocator, installation = self._files[configuration.allocator]
            given = allocator.environment(installation, configuration)
            if reference.brings and PRELOAD not in given:
                # libc's malloc, put before the one that the program is linked with
                given = {PRELOAD: str(get_allocator("glibc").observe({}).malloc_from), **given}
            found[label] = {**given, **plain}
        return found

    def runner(
        self, environments: Mapping[str, Mapping[str, str]], reference: Reference
    ) -> Callable[[Step[None]], Sample]:
        """Return what makes one run of a round.

        Args:
            environments: of all subjects, by label.
            reference: what a run must equal.
        """
        labels = list(environments)
        surroundings = replace(self._surroundings, timeout_s=reference.timeout_s)

        def measure(step: Step[None]) -> Sample:
            room = {_ROOM: "x" * random.Random(step.round).randrange(_LAYOUTS)}  # noqa: S311
            filled = padded([{**environments[label], **room} for label in labels])
            return _sample(self._run(filled[labels.index(step.subject)], surroundings), reference)

        return measure

    def _run(self, environment: Mapping[str, str], surroundings: Surroundings) -> ProgramRun:
        return self._runner.run(self.command, environment, surroundings)

    def _check_ended(self, run: ProgramRun) -> None:
        if run.timed_out:
            message = (
                f"{self.command[0]}: still running after {self._surroundings.timeout_s:g} s; "
                "raise --timeout"
            )
            raise ProgramTimeoutError(message)
        if run.signal is not None:
            last = run.stderr_tail.strip().splitlines()[-1:]
            words = f"\n  its last line: {last[0]}" if last else ""
            message = f"{self.command[0]}: {run.ending} before anything was changed{words}"
            raise ProgramError(message)


def logs_of(course: Course[None, Sample], label: str) -> Logs:
    """Return log(as it is / candidate) of every quantity, one a round that has both."""
    rounds = sorted(
        number
        for (number, _, subject), sample in course.samples.items()
        if subject == label and sample.status is Status.OK
    )
    pairs = [
        (course.samples[number, None, AS_IS].values, course.samples[number, None, label].values)
        for number in rounds
        if (number, None, AS_IS) in course.samples
    ]
    return {
        name: [math.log(base[name] / mine[name]) for base, mine in pairs] for name in QUANTITIES
    }


def values_of(course: Course[None, Sample], label: str) -> dict[str, list[float]]:
    """Return all values of a subject, by quantity."""
    good = [
        sample.values
        for (_, _, subject), sample in sorted(course.samples.items(), key=lambda pair: pair[0][0])
        if subject == label and sample.status is Status.OK
    ]
    return {name: [values[name] for values in good] for name in QUANTITIES}


def find_surroundings(timeout_s: float | None, cpu: int | None) -> Surroundings:
    """Return how every run is made: no randomised addresses, huge pages as the machine has them."""
    return Surroundings(cpu=cpu, timeout_s=timeout_s)


def _values(run: ProgramRun) -> dict[str, float]:
    return {
        MEAN: max(run.mean_anon_bytes, 1.0),
        PEAK: float(max(run.peak_rss_bytes, 1)),
        CPU: float(max(run.cpu_ns, 1)),
    }


def _sample(run: ProgramRun, reference: Reference) -> Sample:
    if run.timed_out:
        return Sample(Status.TIMED_OUT, f"still running after {reference.timeout_s:g} s", {})
    if run.exit_status != reference.exit_status:
        wanted = f"instead of exit status {reference.exit_status}"
        return Sample(Status.FAILED, f"{run.ending} {wanted}", {})
    if reference.output_sha256 and run.output_sha256 != reference.output_sha256:
        return Sample(Status.FAILED, "prints something else than the program as it is", {})
    if run.preload_mapped is False:
        return Sample(Status.FAILED, "the allocator was not loaded into the program", {})
    return Sample(Status.OK, None, _values(run))


def _own_allocator(libraries: Sequence[str]) -> str | None:
    names = " ".join(Path(library).name for library in libraries)
    return next((name for name in _OWN_ALLOCATORS if name in names), None)
