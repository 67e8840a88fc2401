"""One configuration through rand_malloc: read back, replay, parse.

rand_malloc does the measuring and prints one JSON object; this module starts
it with an environment of its own, knows what its exit codes mean, and turns
its answer into a `Measurement`.  Numbers of a schema or version that is not
known are refused, never guessed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuner.allocators import Allocator, Installation
from tuner.errors import (
    MissingToolError,
    ProgramError,
    ProgramTimeoutError,
    SettingError,
    TraceError,
)
from tuner.measure.answers import misunderstood
from tuner.measure.calibration import Calibration
from tuner.measure.evaluation import MAY_NOT_REPEAT, Evaluation
from tuner.measure.process import Finished, Processes, tool_environment
from tuner.metrics import COST, METRICS, Metric
from tuner.records import Configuration, CurvePoint, Measurement, Outcome, Status
from tuner.resources import native_file

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


@dataclass(frozen=True)
class EmulationOptions:
    """How every evaluation of a campaign is run; equal options give comparable numbers."""

    instrument: str = "auto"
    """auto, perf, qemu, cachegrind or none."""
    threads: Literal["baton", "free"] = "baton"
    """baton: deterministic; free: contention and latency, and no instruction count."""
    thp: Literal["never", "keep"] = "keep"
    """Transparent huge pages: as the machine is set, or off."""
    touch: Literal["recorded", "all", "ends", "none", "zeros"] = "recorded"
    """Which pages of a block are written; recorded: those the program touched, all where that is
    not known; zeros: all, every other block with zeros."""
    seed: int = 1
    """Seed of the contents of blocks."""
    timeout_s: float = 60.0
    """CPU seconds of one replay; one that hangs is stopped after ten times as much elapsed time."""
    curve_points: int = 200
    """Points of the heap's curve."""
    with_latency: bool = False
    """Under baton: add a free-running replay for the latency percentiles."""


class _Replayed(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    events: int = Field(ge=0)


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
        columns = (self.event, self.time_ns, self.heap_bytes, self.live_bytes)
        return tuple(CurvePoint(*row) for row in zip(*columns, strict=True))


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
        self.measurement()
        return self

    def measurement(self) -> Measurement:
        """Return all numbers that the emulator itself gives; what is wrong is a ValueError."""
        found = {m.name: self._number(m) for m in METRICS.values() if m.source is not None}
        return Measurement(found, self.curve.points())

    def _number(self, metric: Metric) -> float | None:
        """Return the number of a metric, which may lack only where the table says so."""
        members: Any = self.model_extra
        head, *rest = str(metric.source).split(".")
        if head not in members:
            message = f"{head} is missing"
            raise ValueError(message)
        found = members[head]
        for key in rest:
            found = found.get(key) if isinstance(found, dict) else found
        if found is None and metric.missing:
            return None
        allowed = int if metric.is_whole else int | float
        if isinstance(found, bool) or not isinstance(found, allowed) or not 0 <= found < math.inf:
            message = (
                f"{metric.source} = {found!r} is no {'count' if metric.is_whole else 'number'}"
            )
            raise ValueError(message)
        return found


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

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        """Read the settings back, then replay the trace under the configuration.

        Raises:
            MissingToolError: no such allocator here, no working instrument, or the
                library cannot be preloaded.
            TraceError: the trace cannot be read, or nothing of it is left.
            ProgramError: rand_malloc itself failed.
            ProgramTimeoutError: rand_malloc itself hangs.
        """
        allocator, installation = self._setup(configuration)
        if self._emulation.reads_back:
            try:
                allocator.read_back(installation, configuration)
            except SettingError as error:
                return Outcome.did_not_succeed(Status.REFUSED, str(error))
        replayed = self._replay(configuration, cpu, self._emulation.options)
        found = replayed.values
        if found is None:
            return Outcome(replayed.status, replayed.reason, None)
        if found.trace.events == 0:
            message = f"{self._emulation.trace}: holds no events; record it again"
            raise TraceError(message)
        measurement = self._measurement(found)
        incidents = found.huge_pages.incidents if found.huge_pages else ()
        if not self._emulation.options.with_latency or measurement[_LATENCY] is not None:
            return Outcome.succeeded(measurement, incidents)
        free = replace(self._emulation.options, threads="free", instrument="none")
        again = self._replay(configuration, cpu, free)
        if again.values is None:
            return Outcome(again.status, again.reason, None)
        latency = again.values.measurement()[_LATENCY]
        measurement = measurement.with_values(**{_LATENCY: latency})
        return Outcome.succeeded(measurement, incidents)

    def stop(self) -> None:
        """End the replays that are running; for Ctrl-C."""
        self._processes.stop()

    def _setup(self, configuration: Configuration) -> tuple[Allocator, Installation]:
        try:
            return self._emulation.allocators[configuration.allocator]
        except KeyError:
            names = ", ".join(self._emulation.allocators)
            message = f"{configuration.allocator}: not set up for this emulation; set up: {names}"
            raise MissingToolError(message) from None

    def _replay(
        self, configuration: Configuration, cpu: int | None, options: EmulationOptions
    ) -> Outcome[EmulatorResult]:
        command = self._command(configuration, cpu, options)
        # Two runs, each with its own limit.
        limit_s = 2.0 * _HANG_FACTOR * options.timeout_s + _GRACE_S
        environment = tool_environment(os.environ)
        try:
            ended = self._processes.run(command, environment=environment, timeout_s=limit_s)
        except OSError as error:
            message = f"{self._emulator}: cannot be started: {error.strerror}"
            raise MissingToolError(message) from error
        if ended.timed_out:
            message = f"rand_malloc hangs: stopped after {limit_s:g} s"
            raise ProgramTimeoutError(message)
        return self._understand(ended)

    def _command(
        self, configuration: Configuration, cpu: int | None, options: EmulationOptions
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
        }
        if options.threads == "baton" and options.instrument == "none":
            words["--runs"] = "memory"
        if cpu is not None:
            words["--cpu"] = str(cpu)
        if installation.library is not None:
            words["--preload"] = str(installation.library)
        command: list[str | Path] = [self._emulator]
        for option, word in words.items():
            command += [option, word]
        for name, value in allocator.render(configuration).items():
            command += ["--env", f"{name}={value}"]
        return [*command, self._emulation.trace]

    def _understand(self, ended: Finished) -> Outcome[EmulatorResult]:
        reason = _last_words(ended)
        if ended.exit_status == _TIMED_OUT:
            return Outcome.did_not_succeed(Status.TIMED_OUT, reason)
        if ended.exit_status == _REPLAY_FAILED:
            return Outcome.did_not_succeed(Status.FAILED, reason)
        if ended.exit_status == _TRACE_UNREADABLE:
            raise TraceError(reason)
        if ended.exit_status in (_NO_INSTRUMENT, _NO_PRELOAD):
            message = f"{reason}; `malloc-tuner doctor` checks this machine"
            raise MissingToolError(message)
        if ended.exit_status != 0:
            message = f"rand_malloc failed: {reason}"
            raise ProgramError(message)
        return Outcome.succeeded(parse_result(ended.stdout))

    def _measurement(self, result: EmulatorResult) -> Measurement:
        found = result.measurement()
        pages = result.huge_pages.pages if result.huge_pages else 0
        return found.with_values(**{COST: self._emulation.calibration.cost_of(found, pages)})


def parse_result(text: str) -> EmulatorResult:
    """Read what rand_malloc printed.

    Raises:
        ProgramError: it is not a result of the known schema and version.
    """
    try:
        return EmulatorResult.model_validate_json(text)
    except ValidationError as error:
        answer = "the result of rand_malloc"
        raise misunderstood(answer, error) from error


def options_record(options: EmulationOptions) -> dict[str, str | int | float | bool]:
    """Return the options for the record of a campaign."""
    return asdict(options)


def _last_words(ended: Finished) -> str:
    """Return the message of rand_malloc, without its name in front."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("rand_malloc: ")]
    text = (own or lines or [f"exit status {ended.exit_status}, without a message"])[-1]
    return text.removeprefix("rand_malloc: ")
