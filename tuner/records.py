"""The plain values that travel between the layers: configurations, outcomes, trials.

A `Configuration` is canonical by construction: settings that are unset or
inactive are absent, the rest is sorted by name.  Two configurations that put
the same variables into the environment are therefore equal, and
`Configuration.key` is the cache key of a campaign.

Every run and evaluation has one `Outcome`, on its way from the process to the
store and in a `Trial`.  One that did not succeed carries its status and reason
instead of numbers: missing is None, never 0, NaN or something huge.
"""

from __future__ import annotations

import enum
import json
import math
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Generic, NamedTuple, Never, TypeVar

from tuner.errors import MissingToolError, SelectionError
from tuner.metrics import METRICS, find_metric

_COUNTED_UNDER_BATON = (
    "this campaign ran its threads freely, or this machine forbids ptrace (`malloc-tuner doctor`); "
    'instructions are counted only with threads = "baton", system calls only with ptrace as well'
)

Value = int | float | str | bool
"""A setting as the allocator understands it; unset is expressed by absence."""


def value_text(value: Value) -> str:
    """Write a setting's value as users write it: ``true``, ``1048576``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def signal_name(number: int) -> str:
    """Return what a signal is called; most real-time ones have a number only.

    Example:
        >>> signal_name(9), signal_name(35)
        ('SIGKILL', 'signal 35')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Configuration:
    """One allocator with the settings that differ from "unset".

    Example:
        >>> Configuration.of("jemalloc", {"dirty_decay_ms": 0}).key
        '["jemalloc",{"dirty_decay_ms":0}]'
    """

    allocator: str
    """Name of the adapter: glibc, tcmalloc, jemalloc, mimalloc, exgen, exgen-st."""

    settings: tuple[tuple[str, Value], ...] = ()
    """Pairs of setting name and value, sorted by name; unset settings are absent."""

    @classmethod
    def of(cls, allocator: str, settings: Mapping[str, Value | None]) -> Configuration:
        """Build the canonical configuration; a value of None means unset."""
        pairs = ((name, value) for name, value in settings.items() if value is not None)
        return cls(allocator, tuple(sorted(pairs)))

    def without(self, name: str) -> Configuration:
        """Return a configuration with one setting less.

        Example:
            >>> Configuration.of("glibc", {"mxfast": 0, "arena_max": 2}).without("mxfast").settings
            (('arena_max', 2),)
        """
        return Configuration(self.allocator, tuple(s for s in self.settings if s[0] != name))

    def is_part_of(self, other: Configuration) -> bool:
        """Return whether the other one has all of these settings, and more."""
        mine, theirs = self.as_dict.items(), other.as_dict.items()
        return self.allocator == other.allocator and mine < theirs

    @property
    def as_dict(self) -> dict[str, Value]:
        """The settings as a dictionary."""
        return dict(self.settings)

    @property
    def is_default(self) -> bool:
        """True when nothing is set: the allocator as shipped."""
        return not self.settings

    @property
    def key(self) -> str:
        """Canonical JSON text, equal for equal configurations only."""
        return json.dumps([self.allocator, self.as_dict], sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_key(cls, key: str) -> Configuration:
        """Rebuild a configuration from its `key`."""
        allocator, settings = json.loads(key)
        return cls.of(allocator, settings)

    def __str__(self) -> str:
        """Short text for tables: ``jemalloc dirty_decay_ms=0``.

        >>> str(Configuration.of("jemalloc", {"tcache": False}))
        'jemalloc tcache=false'
        """
        words = (f"{name}={value_text(value)}" for name, value in self.settings)
        return f"{self.allocator} {' '.join(words) or 'default'}"


class CurvePoint(NamedTuple):
    """One sample of the heap over the run; a tuple, for there are hundreds in each measurement."""

    event: int
    """Number of trace events replayed so far."""
    time_ns: int
    """Virtual time since the start of the trace."""
    heap_bytes: int
    """Resident anonymous memory above the harness's own."""
    live_bytes: int
    """Bytes requested by the program and not yet freed."""


def curve_points(*columns: Iterable[int]) -> tuple[CurvePoint, ...]:
    """Return points of columns in the order of the fields; unequal ones are a ValueError."""
    # Past the constructor of a named tuple, which takes most of the time.
    return tuple(map(tuple.__new__, repeat(CurvePoint), zip(*columns, strict=True)))


@dataclass(frozen=True)
class Measurement:
    """What one evaluation measured."""

    values: Mapping[str, float | None]
    """Numbers in base units by the name of their metric in `METRICS`, counts as integers; what
    was not measured may be absent or None, which is the same."""
    curve: tuple[CurvePoint, ...] = field(default=(), compare=False)
    """Heap and live bytes over the run, at most a few hundred points."""

    def __post_init__(self) -> None:
        """Leave out what was not measured, and refuse names that are no metric."""
        known = {find_metric(n).name: v for n, v in self.values.items() if v is not None}
        object.__setattr__(self, "values", known)

    def __getitem__(self, name: str, /) -> float | None:
        """Return the number of a metric; None when it was not measured."""
        return self.values.get(name)

    def value(self, name: str) -> float:
        """Return the number of a metric that has to be there.

        Raises:
            SpecError: there is no metric of that name.
            MissingToolError: it was not measured; says what to do.
        """
        metric = find_metric(name)
        value = self[name]
        if value is None or not math.isfinite(value):
            why = metric.missing or "it was not measured"
            if metric.is_counted and self["syscalls"] is None:  # which baton always counts
                why = _COUNTED_UNDER_BATON
            raise MissingToolError(f"{name}: {why}")
        return float(value)

    def with_values(self, **changes: float | None) -> Measurement:
        """Return it with other numbers, by the names of their metrics."""
        return replace(self, values={**self.values, **changes})

    @classmethod
    def of_fields(
        cls, fields: Mapping[str, Any], curve: tuple[CurvePoint, ...] = ()
    ) -> Measurement:
        """Return the measurement whose numbers stand under `Metric.field` in `fields`."""
        return cls({m.name: fields.get(m.field) for m in METRICS.values()}, curve)

    @property
    def fields(self) -> dict[str, float | None]:
        """All numbers by `Metric.field`, as files have them; None where not measured."""
        return {metric.field: self[metric.name] for metric in METRICS.values()}


class Status(enum.StrEnum):
    """How a run or an evaluation ended."""

    OK = "ok"
    REFUSED = "refused"
    """The allocator did not take the setting: infeasible."""
    FAILED = "failed"
    """The setting killed the program or exhausted memory: infeasible."""
    TIMED_OUT = "timed_out"
    """Still running at the limit: censored."""
    UNCOUNTED = "uncounted"
    """Memory was measured and instructions were not: it is dominated however few they are."""


_T = TypeVar("_T")
ValuesT_co = TypeVar("ValuesT_co", covariant=True)


@dataclass(frozen=True)
class Outcome(Generic[ValuesT_co]):
    """How one run or evaluation ended, and what it gave.

    Raises:
        ValueError: a success without values or with a reason, or a failure without a reason.
    """

    status: Status
    reason: str | None
    """Why it did not succeed; None exactly when `status` is OK."""
    values: ValuesT_co | None
    """What was measured; always there when `status` is OK.  Of a run of a real program that did
    not succeed it is what was measured nevertheless: for readers, and never compared.  Of an
    uncounted evaluation it is all but what takes a count of instructions."""
    incidents: tuple[str, ...] = field(default=(), compare=False)
    """What the machine did that may have moved the values; a sentence each."""
    bound: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Of an uncounted evaluation: the least that the metrics that were not measured are expected
    to be, by name."""

    def __post_init__(self) -> None:
        """Refuse combinations that would need a guess later."""
        is_ok = self.status is Status.OK
        if is_ok != (self.reason is None) or (is_ok and self.values is None):
            raise ValueError(
                f"status {self.status.value} does not fit {self.reason=} {self.values=}"
            )

    @staticmethod
    def succeeded(values: _T, incidents: tuple[str, ...] = ()) -> Outcome[_T]:
        """Return a success."""
        return Outcome(Status.OK, None, values, incidents)

    @staticmethod
    def did_not_succeed(status: Status, reason: str) -> Outcome[Never]:
        """Return a failure of the given kind."""
        return Outcome(status, reason, None)

    @property
    def good(self) -> ValuesT_co | None:
        """The values of a success; None of anything else."""
        return self.values if self.status is Status.OK else None


class Evaluated:
    """Anything with the outcome of an evaluation; its parts by short names."""

    outcome: Outcome[Measurement]

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.outcome.status

    @property
    def reason(self) -> str | None:
        """Why it did not succeed; None when it did."""
        return self.outcome.reason

    @property
    def has_failed(self) -> bool:
        """True when it has no numbers, for whatever reason."""
        return self.status not in (Status.OK, Status.UNCOUNTED)

    @property
    def measurement(self) -> Measurement | None:
        """What was measured; None unless `status` is OK."""
        return self.outcome.good

    @property
    def known(self) -> Measurement | None:
        """The same, and of an uncounted evaluation all but what takes a count of instructions."""
        return None if self.has_failed else self.outcome.values


class Origin(enum.StrEnum):
    """Why a trial was made."""

    DEFAULT = "default"
    SEED = "seed"
    SEARCH = "search"


@dataclass(frozen=True)
class Trial(Evaluated):
    """One evaluated configuration of a campaign."""

    number: int
    """0-based position in the campaign; the order in which the strategy learns."""
    configuration: Configuration
    origin: Origin
    outcome: Outcome[Measurement]
    objectives: tuple[float, ...] | None
    """Objective values, minimised, in campaign order; None unless the outcome is OK."""
    violation: float
    """Sum of relative constraint violations, 0.0 when all hold; 1.0 if it failed."""
    resolution: tuple[tuple[str, float], ...] = ()
    """Metric and the relative difference below which two of its values are equal; none
    when every difference counts.  `objectives` are rounded to it, the measurement is not."""
    bound: tuple[float, ...] | None = None
    """The least that the objectives of an uncounted trial are expected to be; None of others."""

    @property
    def measured(self) -> Measurement:
        """The measurement of a trial that must have one; without it a SelectionError."""
        if self.measurement is None:
            raise self.without_numbers()
        return self.measurement

    def without_numbers(self) -> SelectionError:
        """Return the error that says why a trial without a measurement cannot be chosen."""
        if self.status is Status.UNCOUNTED:
            return SelectionError(
                f"trial {self.number} cannot be chosen: its instructions were not counted "
                f'({self.reason}); in a campaign with count = "all" under [emulation] all are'
            )
        return SelectionError(f"trial {self.number} has no numbers: {self.reason}")

    @property
    def is_feasible(self) -> bool:
        """True when the trial succeeded and violates no constraint."""
        return self.status is Status.OK and self.violation <= 0.0


def unique_configurations(configurations: Iterable[Configuration]) -> list[Configuration]:
    """Return the configurations without repeats, first come first kept."""
    return list(dict.fromkeys(configurations))


def baseline_of(allocators: Iterable[str]) -> str:
    """Return the allocator whose default everything is compared with: glibc, else the first.

    Example:
        >>> baseline_of(["jemalloc", "glibc"]), baseline_of(["jemalloc", "mimalloc"])
        ('glibc', 'jemalloc')
    """
    first, *others = allocators
    return "glibc" if "glibc" in others else first
