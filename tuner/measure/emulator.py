"""One configuration through rand_malloc: read back, replay, parse.

rand_malloc does the measuring and prints one JSON object; this module starts
it with an environment of its own, knows what its exit codes mean, and turns
its answer into a `Measurement`.  Numbers of a schema or version that is not
known are refused, never guessed.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuner.allocators import Allocator, Installation
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import (
    MissingToolError,
    ProgramError,
    ProgramTimeoutError,
    SettingError,
    TraceError,
)
from tuner.measure.answers import misunderstood
from tuner.measure.evaluation import MAY_NOT_REPEAT, Evaluation, Gate, uncounted
from tuner.measure.process import Finished, Processes, tool_environment
from tuner.metrics import COST, METRICS, Metric
from tuner.records import Configuration, CurvePoint, Measurement, Outcome, Status, curve_points
from tuner.resources import native_file

_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=BaseModel)

_LATENCY = "p99_latency"
"""The metric that a free-running replay gives."""

_HANG_FACTOR = 10.0
"""Elapsed time that rand_malloc gives a child, in limits of CPU time; its HANG_FACTOR."""

_GRACE_S = 600.0
"""Seconds beyond its own limits after which rand_malloc itself counts as hung."""

_REPLAY_FAILED = 1
_TRACE_UNREADABLE = 3
_TIMED_OUT = 4
_NO_INSTRUMENT = 5
_NO_PRELOAD = 6
"""Exit codes of rand_malloc."""


class _Replayed(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    events: int = Field(ge=0)
    complete: bool = True


class _HugePages(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    pages: int = Field(ge=0)
    fallbacks: int = Field(ge=0)
    collapses: int = Field(ge=0)

    @property
    def incidents(self) -> tuple[str, ...]:
        """Say what the kernel did in every attempt that other runs need not meet with."""
        words = []
        if self.fallbacks:
            words.append(f"was short of huge pages and gave small ones ({self.fallbacks} times)")
        if self.collapses:
            words.append(f"made huge pages out of small ones ({self.collapses} times)")
        if not words:
            return ()
        what = " and ".join(words)
        sentence = (
            f"during every attempt at the memory run the kernel {what}, perhaps for another "
            f"process; {MAY_NOT_REPEAT}"
        )
        return (sentence,)


class _Curve(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    event: tuple[int, ...]
    time_ns: tuple[int, ...]
    heap_bytes: tuple[int, ...]
    live_bytes: tuple[int, ...]

    def points(self) -> tuple[CurvePoint, ...]:
        """Return the curve point by point; unequal columns are a ValueError."""
        return curve_points(self.event, self.time_ns, self.heap_bytes, self.live_bytes)


class EmulatorResult(BaseModel):
    """What rand_malloc prints, as far as it is used here."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    schema_name: Literal["rand_malloc.result"] = Field(alias="schema")
    version: Literal[1]
    trace: _Replayed
    huge_pages: _HugePages | None = None
    checksum: str
    curve: _Curve

    @model_validator(mode="after")
    def _holds_every_metric(self) -> EmulatorResult:
        _ = self.measurement
        return self

    @cached_property
    def measurement(self) -> Measurement:
        """All numbers that the emulator itself gives; what is wrong is a ValueError."""
        found = {m.name: self._number(m) for m in METRICS.values() if m.source is not None}
        return Measurement(found, self.curve.points())

    def _number(self, metric: Metric) -> float | None:
        """Return the number of a metric, which may lack only where the table says so."""
        members: Any = self.model_extra
        head, *rest = str(metric.source).split(".")
        if head not in members:
            raise ValueError(f"{head} is missing")
        found = members[head]
        for key in rest:
            found = found.get(key) if isinstance(found, dict) else found
        if found is None and metric.missing:
            return None
        allowed = int if metric.is_whole else int | float
        if isinstance(found, bool) or not isinstance(found, allowed) or not 0 <= found < math.inf:
            raise ValueError(
                f"{metric.source} = {found!r} is no {'count' if metric.is_whole else 'number'}"
            )
        return found


class _Counted(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    allocator: int | None = Field(ge=0)


class CountResult(BaseModel):
    """What rand_malloc prints of a counted run alone, as far as it is used here."""

    model_config = ConfigDict(frozen=True, strict=True)

    schema_name: Literal["rand_malloc.result"] = Field(alias="schema")
    version: Literal[1]
    checksum: str
    instructions: _Counted


@dataclass(frozen=True)
class MemoryRun:
    """What the first run of an evaluation gave."""

    measurement: Measurement
    """Without what takes a count of instructions."""
    kernel_cost: float | None
    """The part of its cost that is not instructions; None where system calls were not counted."""
    checksum: str
    """Of the contents that were verified."""


@dataclass(frozen=True)
class Emulation:
    """What an `EmulatorEvaluator` measures with."""

    trace: Path
    allocators: Mapping[str, tuple[Allocator, Installation]]
    """Adapter and installation of every allocator, by name."""
    calibration: Calibration
    options: EmulationOptions = field(default_factory=EmulationOptions)
    emulator: Path | None = None
    """Path of rand_malloc; None for the installed one."""
    reads_back: bool = True
    """False only where the settings were read back before."""
    counts_process: bool = False
    """True to count the instructions of the whole replay as well, which takes longer."""


class EmulatorEvaluator:
    """Evaluates configurations with rand_malloc; safe to call from several threads."""

    def __init__(self, emulation: Emulation) -> None:
        """Prepare.

        Args:
            emulation: what to measure with.

        Raises:
            MissingToolError: rand_malloc is not installed.
        """
        self._emulation = emulation
        self._emulator = emulation.emulator or native_file("rand_malloc")
        self._processes = Processes()
        self._decoded: _Decoded | None = None
        self._lock = threading.Lock()

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        """Read the settings back, then replay the trace under the configuration.

        Raises:
            MissingToolError: no such allocator here, no working instrument, or the
                library cannot be preloaded.
            TraceError: the trace cannot be read, or nothing of it is left.
            ProgramError: rand_malloc itself failed.
            ProgramTimeoutError: rand_malloc itself hangs.
        """
        if refused := self._refusal(configuration):
            return Outcome.did_not_succeed(Status.REFUSED, refused)
        replayed = self._replay(configuration, cpu, self._emulation.options)
        found = replayed.values
        if found is None:
            return Outcome(replayed.status, replayed.reason, None)
        self._check_events(found)
        measurement = self._measurement(found)
        incidents = found.huge_pages.incidents if found.huge_pages else ()
        if not self._emulation.options.with_latency or measurement[_LATENCY] is not None:
            return Outcome.succeeded(measurement, incidents)
        free = replace(self._emulation.options, threads="free", instrument="none")
        again = self._replay(configuration, cpu, free)
        if again.values is None:
            return Outcome(again.status, again.reason, None)
        latency = again.values.measurement[_LATENCY]
        measurement = measurement.with_values(**{_LATENCY: latency})
        return Outcome.succeeded(measurement, incidents)

    def _refusal(self, configuration: Configuration) -> str | None:
        """Read the settings back, and return why the allocator refuses one."""
        allocator, installation = self._setup(configuration)
        try:
            if self._emulation.reads_back:
                allocator.read_back(installation, configuration)
        except SettingError as error:
            return str(error)
        return None

    def evaluate_gated(
        self, configuration: Configuration, cpu: int | None, gate: Gate
    ) -> Evaluation:
        """Read the settings back, measure memory, and count instructions unless the gate refuses.

        Raises:
            TunerError: as `evaluate`.
        """
        ran = self.measure_memory(configuration, cpu)
        if ran.good is None:
            return Outcome(ran.status, ran.reason, None)
        known = ran.good.measurement
        refusal = gate.refusal(configuration, known, ran.good.kernel_cost)
        if refusal is not None:
            return uncounted(known, refusal, ran.incidents)
        counted = self.count(configuration, cpu, ran.good)
        return replace(counted, incidents=ran.incidents)

    def measure_memory(self, configuration: Configuration, cpu: int | None) -> Outcome[MemoryRun]:
        """Make the first run of an evaluation; errors as of `evaluate`."""
        if refused := self._refusal(configuration):
            return Outcome.did_not_succeed(Status.REFUSED, refused)
        replayed = self._replay(configuration, cpu, self._emulation.options, "memory")
        found = replayed.values
        if found is None:
            return Outcome(replayed.status, replayed.reason, None)
        self._check_events(found)
        known = found.measurement.with_values(instructions=0)
        pages = found.huge_pages.pages if found.huge_pages else 0
        kernel_cost = self._emulation.calibration.cost_of(known, pages)
        incidents = found.huge_pages.incidents if found.huge_pages else ()
        known = known.with_values(instructions=None)
        return Outcome.succeeded(MemoryRun(known, kernel_cost, found.checksum), incidents)

    def count(
        self, configuration: Configuration, cpu: int | None, memory: MemoryRun
    ) -> Outcome[Measurement]:
        """Make the second run of an evaluation, and return what both measured."""
        command = self._command(configuration, cpu, self._emulation.options, "count")
        counted = self._understood(self._run(command), parse_count)
        if counted.values is None:
            return Outcome(counted.status, counted.reason, None)
        if counted.values.checksum != memory.checksum:
            reason = "the two runs verified different contents"
            return Outcome.did_not_succeed(Status.FAILED, reason)
        found = counted.values.instructions.allocator
        kernel_cost = memory.kernel_cost
        cost = None if found is None or kernel_cost is None else found + kernel_cost
        measured = memory.measurement.with_values(**{"instructions": found, COST: cost})
        return Outcome.succeeded(measured)

    def _check_events(self, found: EmulatorResult) -> None:
        if found.trace.events == 0:
            was_cut = "" if found.trace.complete else "was cut off and "
            raise TraceError(f"{self._emulation.trace}: {was_cut}holds no events; record it again")

    def stop(self) -> None:
        """End the replays that are running; for Ctrl-C."""
        self._processes.stop()

    def _setup(self, configuration: Configuration) -> tuple[Allocator, Installation]:
        try:
            return self._emulation.allocators[configuration.allocator]
        except KeyError:
            names = ", ".join(self._emulation.allocators)
            raise MissingToolError(
                f"{configuration.allocator}: not set up for this emulation; set up: {names}"
            ) from None

    def _replay(
        self,
        configuration: Configuration,
        cpu: int | None,
        options: EmulationOptions,
        runs: str | None = None,
    ) -> Outcome[EmulatorResult]:
        command = self._command(configuration, cpu, options, runs)
        return self._understood(self._run(command), parse_result)

    def _run(self, command: Sequence[str | Path]) -> Finished:
        options = self._emulation.options
        # Two runs, each with its own limit.
        limit_s = 2.0 * _HANG_FACTOR * options.timeout_s + _GRACE_S
        environment = tool_environment(os.environ)
        try:
            ended = self._processes.run(command, environment=environment, timeout_s=limit_s)
        except OSError as error:
            raise MissingToolError(
                f"{self._emulator}: cannot be started: {error.strerror}"
            ) from error
        if ended.timed_out:
            raise ProgramTimeoutError(f"rand_malloc hangs: stopped after {limit_s:g} s")
        return ended

    def _command(
        self,
        configuration: Configuration,
        cpu: int | None,
        options: EmulationOptions,
        runs: str | None,
    ) -> list[str | Path]:
        allocator, installation = self._setup(configuration)
        words = {
            "--threads": options.threads,
            "--runs": "both" if options.threads == "baton" else "memory",
            "--instrument": options.instrument,
            "--thp": options.thp,
            "--touch": options.touch,
            "--seed": str(options.seed),
            "--timeout": f"{options.timeout_s:g}",
            "--curve-points": str(options.curve_points),
            "--instructions": "all" if self._emulation.counts_process else "allocator",
            "--keep": self._kept(),
        }
        if options.threads == "baton" and options.instrument == "none":
            words["--runs"] = "memory"
        words["--runs"] = runs or words["--runs"]
        if cpu is not None and options.threads == "baton":
            words["--cpu"] = str(cpu)
        if installation.library is not None:
            words["--preload"] = str(installation.library)
        command: list[str | Path] = [self._emulator]
        for option, word in words.items():
            command += [option, word]
        for name, value in allocator.render(configuration).items():
            command += ["--env", f"{name}={value}"]
        return [*command, self._emulation.trace]

    def _kept(self) -> str:
        """Return the file in which the decoded workload is kept from one replay to the next."""
        with self._lock:
            self._decoded = self._decoded or _Decoded()
        return self._decoded.path

    def _understood(self, ended: Finished, parse: Callable[[str], _T]) -> Outcome[_T]:
        reason = _last_words(ended)
        if ended.exit_status == _TIMED_OUT:
            return Outcome.did_not_succeed(Status.TIMED_OUT, reason)
        if ended.exit_status == _REPLAY_FAILED:
            return Outcome.did_not_succeed(Status.FAILED, reason)
        if ended.exit_status == _TRACE_UNREADABLE:
            raise TraceError(reason)
        if ended.exit_status in (_NO_INSTRUMENT, _NO_PRELOAD):
            raise MissingToolError(f"{reason}; `malloc-tuner doctor` checks this machine")
        if ended.exit_status != 0:
            raise ProgramError(f"rand_malloc failed: {reason}")
        return Outcome.succeeded(parse(ended.stdout))

    def _measurement(self, result: EmulatorResult) -> Measurement:
        found = result.measurement
        pages = result.huge_pages.pages if result.huge_pages else 0
        return found.with_values(**{COST: self._emulation.calibration.cost_of(found, pages)})


class _Decoded:
    """A file in memory that goes with this process: what rand_malloc made of the workload."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("workload")
        weakref.finalize(self, os.close, descriptor)
        self.path = f"/proc/{os.getpid()}/fd/{descriptor}"


def parse_result(text: str) -> EmulatorResult:
    """Read what rand_malloc printed.

    Raises:
        ProgramError: it is not a result of the known schema and version.
    """
    return _parse(EmulatorResult, text)


def parse_count(text: str) -> CountResult:
    """Read what rand_malloc printed of a counted run alone; errors as of `parse_result`."""
    return _parse(CountResult, text)


def _parse(kind: type[_Model], text: str) -> _Model:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise misunderstood("the result of rand_malloc", error) from error


def _last_words(ended: Finished) -> str:
    """Return the message of rand_malloc, without its name in front."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("rand_malloc: ")]
    text = (own or lines or [f"exit status {ended.exit_status}, without a message"])[-1]
    return text.removeprefix("rand_malloc: ")
