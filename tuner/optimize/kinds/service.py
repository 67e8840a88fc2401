"""A service under load: alone in a fresh folder for each run, memory of all its processes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tuner.allocators import Allocator, Installation
from tuner.compare.plan import Step
from tuner.errors import ProgramError, ProgramTimeoutError
from tuner.measure.preloads import staying
from tuner.measure.program import ProgramRunner, Surroundings, padded, steering
from tuner.optimize.kinds.known import known_for
from tuner.optimize.kinds.program import (
    Program,
    brings_that,
    deployed_within,
    jemalloc_names_words,
    own_allocator,
    steered_words,
)
from tuner.optimize.kinds.suite import further_trace
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import GROWTH, SERVICE_NAMES
from tuner.optimize.tuned import ProgramRecording, Reference, Runs, Sample
from tuner.output import writing
from tuner.records import Configuration, Outcome, Status
from tuner.service.constraints import DEFAULTS
from tuner.service.lifecycle import ServiceRun, run_service
from tuner.service.output import PERCENTILES
from tuner.service.plan import ServicePlan
from tuner.service.recording import record_service
from tuner.service.roles import roles_that_matter
from tuner.trace import place_while_written, put_in_place
from tuner.units import show_percent

PROCESSES: Final = "processes"
"""Folder of the traces of all processes, in a run folder."""

_GOALS = ("mean", "floor", "cpu")
_GUARDS = ("mean", "peak", "floor", "cpu", "rate")
_LATENCIES = ("p99", "p95", "latency")
"""The first of these that the load generator prints is a guard."""

_LEAST = 1e-9
"""In place of nothing at all, which has no logarithm."""

RunsService = Callable[[ServicePlan, Mapping[str, str], Surroundings], Outcome[ServiceRun]]


def service_rules(least: float, limits: Mapping[str, float]) -> Rules:
    """Return what counts for a service.

    Args:
        least: effect that counts, a share.
        limits: metric of `tuner.metrics.SERVICE` -> share by which it may become worse.
    """
    every = {**DEFAULTS, **limits}
    guards = dict.fromkeys((*_GUARDS, *limits, *_LATENCIES))
    return Rules(
        least=least,
        goals=tuple(SERVICE_NAMES[name] for name in _GOALS),
        guards=tuple(SERVICE_NAMES[name] for name in guards),
        limits=tuple((SERVICE_NAMES[name], share) for name, share in sorted(every.items())),
        strict=tuple(SERVICE_NAMES[name] for name in limits),
    )


class Service:
    """Runs one service under many candidates; see `tuned.Tuned`."""

    def __init__(
        self,
        plan: ServicePlan,
        environment: Mapping[str, str],
        files: Mapping[str, tuple[Allocator, Installation]],
        surroundings: Surroundings | None = None,
        *,
        limited: Sequence[str] = (),
        run: RunsService = run_service,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            plan: what is done to it in a run.
            environment: the caller's own.
            files: adapter and installation of every allocator.
            surroundings: core and kernel settings of every run.
            limited: metrics that a constraint names.
            run: makes a run, or a double.
        """
        self._plan = plan.checked()
        self._surroundings = surroundings or Surroundings()
        self._environment = dict(environment)
        self._files = files
        self._program = Program(plan.command, ProgramRunner(), environment, files)
        self._limited = tuple(limited)
        self._run = run

    @property
    def command(self) -> tuple[str, ...]:
        """The command of the service."""
        return self._plan.command

    def known(self, reference: Reference) -> tuple[Configuration, ...]:
        """Return what gives memory back, of the allocators that are here and take it."""
        return self.accepted(known_for(reference.n_threads))

    def accepted(self, wanted: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """Return the settings that an allocator is here for, and takes."""
        return self._program.accepted(wanted)

    def examine(self) -> Reference:
        """Run it as it is, twice."""
        runs = [self._run_as_it_is() for _ in range(2)]
        values = {
            SERVICE_NAMES[name]: max(median(run.values[name] for run in runs), _LEAST)
            for name in self._judged(set.intersection(*(set(run.values) for run in runs)))
        }
        return Reference(
            command=self.command,
            values=values,
            exit_status=0,
            output_sha256=None,
            brings=own_allocator(runs[1].libraries),
            is_preloaded=brings_that(runs[1].libraries, self._files),
            wall_s=runs[1].wall_s,
            timeout_s=self._plan.load_s,
            n_threads=max(run.n_threads or 0 for run in runs) or None,
            requests=runs[1].requests,
            notes=(
                *steered_words(self._environment),
                *jemalloc_names_words(runs[1].files),
                *_unshared_words(runs[1].n_unshared),
            ),
            steered=steering(self._environment),
            beside=staying(self._environment),
        )

    def _run_as_it_is(self) -> ServiceRun:
        run = self._run(self._plan, self._environment, self._surroundings)
        if run.good is None:
            message = f"{self.command[0]}: before anything was changed: {run.reason}"
            wrong = ProgramTimeoutError if run.status is Status.TIMED_OUT else ProgramError
            raise wrong(message)
        return run.good

    def _judged(self, measured: set[str]) -> list[str]:
        """Return the metrics that are judged: of latencies the limited ones, or the first.

        Raises:
            ProgramError: one that is limited was not measured.
        """
        lacking = [name for name in self._limited if name not in measured]
        if lacking:
            raise ProgramError(
                f"{', '.join(lacking)}: limited, but the output of the load does not say it; "
                f"it says {', '.join(name for name in SERVICE_NAMES if name in measured)}"
            )
        first = next((name for name in _LATENCIES if name in measured), None)
        has_limit = any(name in ("latency", *PERCENTILES.values()) for name in self._limited)
        wanted = {*_GUARDS, *self._limited} | (set() if has_limit else {first})
        return [name for name in SERVICE_NAMES if name in wanted & measured]

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        """Record it from its start to its stop; one process of each role that matters is emulated.

        Further traces stand beside the first, see `further_traces`; those of all processes are in
        the folder `PROCESSES`.

        Raises:
            ProgramError: it fails under the recorder, or nothing was recorded.
            OutputError: a trace cannot be written.
        """
        del reference
        begun_s = time.monotonic()
        found = record_service(self._plan, self._environment, trace.parent / PROCESSES)
        roles = roles_that_matter(found)
        # The first trace says that all are there, so it comes last, and whole.
        copy = place_while_written(trace)
        with writing(trace):
            for number in reversed(range(len(roles))):
                path = further_trace(trace, number + 1) if number else trace
                try:
                    shutil.copyfile(roles[number].busiest.path, copy)
                    put_in_place(copy, path)
                finally:
                    copy.unlink(missing_ok=True)
        n_events = sum(role.busiest.totals.n_events for role in roles)
        others = ""
        if len(found) > 1:
            names = ", ".join(
                f"{role.name} ({show_percent(role.work_share, 0)} of the work)" for role in roles
            )
            others = f" in {len(roles)} of {len(found)} processes, {names},"
        seconds = time.monotonic() - begun_s
        return ProgramRecording(
            f"{n_events:,} events of malloc and free{others} in {seconds:.1f} s"
        )

    def as_deployed(self, candidates: Mapping[str, Configuration]) -> Service:
        """Return the same, run as these candidates will be, see `deployed_within`."""
        surroundings = deployed_within(self._surroundings, candidates, self._files)
        return Service(
            self._plan, self._environment, self._files, surroundings,
            limited=self._limited, run=self._run,
        )  # fmt: skip

    def refusal(self, configuration: Configuration) -> str | None:
        """Return why an allocator does not take a setting."""
        return self._program.refusal(configuration)

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        """Return what makes one run of a round."""
        environments = self._program.environments(candidates, reference)
        labels = list(environments)
        filled = dict(zip(labels, padded(list(environments.values())), strict=True))

        def measure(step: Step[None]) -> Outcome[Sample]:
            run = self._run(self._plan, filled[step.subject], self._surroundings)
            return _sample(run, reference)

        return measure


def _unshared_words(n_processes: int) -> tuple[str, ...]:
    if not n_processes:
        return ()
    of = f"{n_processes} process{'es' * (n_processes > 1)}"
    words = f"Pages that processes share count in full for {of}: /proc/PID/smaps_rollup cannot be"
    return (f"{words} read.",)


def _sample(run: Outcome[ServiceRun], reference: Reference) -> Outcome[Sample]:
    if run.good is None:
        return Outcome(run.status, run.reason, None)
    found = run.good.values
    values = {
        SERVICE_NAMES[name]: max(value, _LEAST)
        for name, value in found.items()
        if name in SERVICE_NAMES and SERVICE_NAMES[name] in reference.values
    }
    lacking = reference.values.keys() - values.keys()
    if lacking:
        reason = f"nothing measured {', '.join(sorted(lacking))}"
        return Outcome.did_not_succeed(Status.FAILED, reason)
    growth = found.get("growth")
    return Outcome.succeeded(values if growth is None else {**values, GROWTH: growth})
