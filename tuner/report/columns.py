"""The columns of a measurement as people and files see them: name, label, unit, scale.

Files (JSON, CSV) carry base units: bytes, nanoseconds, counts.  Tables and plots
carry one scaled unit per column, chosen for all of its values, so that numbers
in a column can be compared at a glance.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.errors import SpecError
from tuner.objectives import OBJECTIVES
from tuner.records import Measurement


class Kind(enum.Enum):
    """What a column counts; the value is its base unit in files."""

    BYTES = "bytes"
    COUNT = "count"
    INSTRUCTIONS = "instructions"
    NANOSECONDS = "ns"
    RATIO = "ratio"


@dataclass(frozen=True)
class Column:
    """One number of a measurement."""

    name: str
    """As in objectives: ``mean_heap``."""
    field: str
    """Field of `Measurement`, and the column's name in CSV: it carries the unit."""
    label: str
    """For people: ``mean heap``."""
    kind: Kind
    """What it counts."""

    def value(self, measurement: Measurement | None) -> float | None:
        """Return the number in base units; None when it was not measured."""
        found = None if measurement is None else getattr(measurement, self.field)
        return None if found is None else float(found)


def _objective(name: str, field: str) -> Column:
    objective = OBJECTIVES[name]
    return Column(name, field, objective.label, Kind(objective.unit))


COLUMNS = (
    _objective("mean_heap", "mean_heap_bytes"),
    _objective("peak_heap", "peak_heap_bytes"),
    _objective("cost", "cost"),
    _objective("instructions", "instructions"),
    _objective("faults", "faults"),
    _objective("syscalls", "syscalls"),
    _objective("p99_latency", "p99_latency_ns"),
    Column(
        "process_instructions",
        "process_instructions",
        "instructions of the whole replay",
        Kind.INSTRUCTIONS,
    ),
    Column("wall", "wall_ns", "replay time", Kind.NANOSECONDS),
    Column("peak_live", "peak_live_bytes", "peak live bytes", Kind.BYTES),
    Column("fragmentation", "fragmentation_at_peak", "peak heap / peak live", Kind.RATIO),
)
"""Every number of a measurement, in the order of tables."""

_BY_NAME = {column.name: column for column in COLUMNS}

_STEPS: dict[Kind, tuple[tuple[str, float], ...]] = {
    Kind.BYTES: (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    Kind.COUNT: (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)),
    Kind.INSTRUCTIONS: (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)),
    Kind.NANOSECONDS: (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    Kind.RATIO: (("", 1.0),),
}
MINUS = "\N{MINUS SIGN}"
ALMOST = "\N{ALMOST EQUAL TO}"
MISSING = "\N{EN DASH}"
"""What tables show where nothing was measured: never a 0."""

_FACTOR_FROM = 10.0
"""Ratio from which a factor reads better than a percentage."""
_LEAST_CHANGE = 0.01
"""Smallest change, in percent, that is written as a number; below it is almost 0."""
_PLAIN_COUNT_LIMIT = 100_000.0
"""Counts below this are read more easily unscaled."""


@dataclass(frozen=True)
class Scale:
    """A unit for people, with the number of base units in it."""

    unit: str
    """``MiB``, ``million``, or empty."""
    divisor: float
    """Base units per unit."""
    decimals: int
    """Digits after the point that keep four significant ones."""

    def show(self, value: float | None) -> str:
        """Write a value without its unit; a dash when it is missing."""
        return MISSING if value is None else f"{value / self.divisor:,.{self.decimals}f}"

    def show_with_unit(self, value: float | None) -> str:
        """Write a value with its unit."""
        return f"{self.show(value)} {self.unit}".strip() if value is not None else MISSING


def column(name: str) -> Column:
    """Return the column of an objective or metric.

    Raises:
        SpecError: there is none of that name.
    """
    if name not in _BY_NAME:
        message = f"{name!r} is no metric; allowed: {', '.join(_BY_NAME)}"
        raise SpecError(message)
    return _BY_NAME[name]


def columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of several names.

    Raises:
        SpecError: one of them does not exist.
    """
    return tuple(column(name) for name in names)


def scale_for(kind: Kind, values: Iterable[float | None]) -> Scale:
    """Choose the unit in which the greatest value has one to three digits before the point."""
    greatest = max((abs(value) for value in values if value is not None), default=0.0)
    unit, divisor = _STEPS[kind][0]
    if kind not in (Kind.COUNT, Kind.INSTRUCTIONS) or greatest >= _PLAIN_COUNT_LIMIT:
        for unit_, divisor_ in _STEPS[kind]:
            if greatest >= divisor_:
                unit, divisor = unit_, divisor_
    if kind is Kind.RATIO:
        return Scale("", 1.0, 2)
    if divisor == 1.0:
        return Scale(unit, 1.0, 0)
    digits = len(str(int(greatest / divisor)))
    return Scale(unit, divisor, max(0, 4 - digits))


def scale_of(column: Column, measurements: Sequence[Measurement | None]) -> Scale:
    """Choose the unit of a column for the measurements of a table or plot."""
    return scale_for(column.kind, (column.value(measurement) for measurement in measurements))


def axis_title(column: Column, scale: Scale) -> str:
    """Write the title of an axis: ``mean heap (MiB)``, ``cost (million instructions)``."""
    unit = scale.unit
    if column.kind is Kind.INSTRUCTIONS and column.name != "instructions":
        unit = f"{unit} instructions".strip()
    return f"{column.label} ({unit})" if unit else column.label


def show_change(ratio: float | None) -> str:
    """Write a ratio to the baseline as a change, with a true minus sign: ``-12.3 %``.

    Ratios from 10 up are written as a factor.

    Args:
        ratio: value / value of the baseline, None when either is missing.
    """
    if ratio is None:
        return MISSING
    if ratio >= _FACTOR_FROM:
        return f"\N{MULTIPLICATION SIGN}{ratio:.3g}"
    change = (ratio - 1.0) * 100.0
    if change == 0.0:
        return "0 %"
    if abs(change) < _LEAST_CHANGE:
        return f"{ALMOST}0 %"
    sign = "+" if change > 0 else MINUS
    rounded = float(f"{abs(change):.3g}")
    return f"{sign}{rounded:.{max(0, 3 - len(str(int(rounded))))}f} %"


def ratio(value: float | None, baseline: float | None) -> float | None:
    """Return value / baseline; None when either is missing or the baseline is 0."""
    return None if value is None or not baseline else value / baseline
