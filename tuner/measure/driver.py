"""One run of malloc_bench: a workload on one allocator, in a process of its own.

The driver (rand_malloc/bench) measures itself: throughput, single calls by the
processor's tick counter less the counter's own cost, and resident memory.  Here it
is started, bounded in time, and asked whose malloc it got.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.config.reading import first_problem
from tuner.errors import MissingToolError
from tuner.measure.process import Finished, Processes, last_line, tool_environment
from tuner.records import Outcome, Status
from tuner.resources import native_file


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


class CallTimes(_Report):
    """How long one kind of call took; the clock's own cost is subtracted.

    Percentiles are right to 1/32, as the histogram behind them.
    """

    n: int
    """Calls that were timed."""
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float


class Latency(_Report):
    """Times of single calls."""

    clock_overhead_ns: float
    """Median of an empty section; subtracted from every time."""
    malloc: CallTimes | None
    free: CallTimes | None
    """None when no such call was timed."""
    empty: CallTimes | None = None
    """Of an empty section behind each call: by how much the clock itself scatters.  None in
    samples of versions that did not measure it."""


class MemoryCurve(_Report):
    """Memory over time; lists of equal length."""

    time_ns: tuple[int, ...]
    live_bytes: tuple[int, ...]
    rss_bytes: tuple[int, ...]


class DriverResult(_Report):
    """What malloc_bench prints."""

    schema_name: Literal["malloc-tuner.malloc_bench"] = Field(alias="schema")
    version: Literal[1]
    workload: str
    threads: int
    size: int | None
    seed: int
    malloc_from: str | None
    """File whose malloc it was."""
    operations: int
    """In the counting phase; an operation is one malloc and one free."""
    wall_ns: int
    cpu_ns: int
    """Of the counting phase."""
    faults: int
    """Minor page faults of the whole run."""
    peak_rss_bytes: int
    """VmHWM of the whole run."""
    end_rss_bytes: int
    """After everything was freed."""
    usable_bytes: int | None
    """What malloc_usable_size says of a block of `size`; overhead only."""
    resident_bytes: int | None
    """Resident memory per block of `size`; overhead only."""
    latency: Latency | None
    curve: MemoryCurve | None


class BenchDriver:
    """Runs malloc_bench."""

    def __init__(self, program: Path | None = None) -> None:
        """Prepare.

        Args:
            program: path of malloc_bench; None for the installed one.

        Raises:
            MissingToolError: it is not installed.
        """
        self._program = program or native_file("malloc_bench")
        self._processes = Processes()

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        library: Path | None,
        timeout_s: float,
    ) -> Outcome[DriverResult]:
        """Run one workload to its end.

        Args:
            words: workload and options of malloc_bench.
            environment: variables of the allocator, ``LD_PRELOAD`` included.
            library: whose malloc it must be; None for libc's.
            timeout_s: elapsed seconds after which it is stopped.

        Returns:
            The result, or why there is none: a crash is a state, not an error.

        Raises:
            MissingToolError: malloc_bench cannot be started.
        """
        try:
            ended = self._processes.run(
                [self._program, *words],
                environment={**environment, **tool_environment(os.environ), **environment},
                timeout_s=timeout_s,
            )
        except OSError as error:
            raise MissingToolError(
                f"{self._program}: cannot be started: {error.strerror}"
            ) from error
        return _judge(ended, library, timeout_s)

    def stop(self) -> None:
        """End the run that is going on; for Ctrl-C."""
        self._processes.stop()


def _judge(ended: Finished, library: Path | None, timeout_s: float) -> Outcome[DriverResult]:
    if ended.timed_out:
        reason = f"stopped at the time limit of {timeout_s:g} s"
        return Outcome.did_not_succeed(Status.TIMED_OUT, reason)
    if ended.exit_status != 0:
        return Outcome.did_not_succeed(Status.FAILED, ended.ending)
    try:
        result = DriverResult.model_validate_json(ended.stdout)
    except ValidationError as error:
        reason = f"the report of malloc_bench is not understood: {first_problem(error)}"
        return Outcome.did_not_succeed(Status.FAILED, reason)
    if not _is_from(result.malloc_from, library):
        reason = f"malloc comes from {result.malloc_from}, not {library or 'libc'}"
        complaint = last_line(ended.stderr)
        return Outcome.did_not_succeed(
            Status.REFUSED, f"{reason}; {complaint}" if complaint else reason
        )
    return Outcome.succeeded(result)


def _is_from(malloc_from: str | None, library: Path | None) -> bool:
    if malloc_from is None:
        return False
    if library is None:
        return Path(malloc_from).name.startswith("libc.so")
    return Path(malloc_from).resolve() == library.resolve()
