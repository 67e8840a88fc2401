"""Numbers as people see them: one scaled unit for all values of a column, and changes.

Files (JSON, CSV) carry base units: bytes, nanoseconds, counts.  Tables and plots
carry one scaled unit per column, chosen for all of its values, so that numbers
in a column can be compared at a glance.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.front.whole import expected_words
from tuner.metrics import Kind, Metric
from tuner.records import Measurement
from tuner.stats import Estimate
from tuner.units import FACTOR_FROM, show_factor, without_unit

_STEPS: dict[Kind, tuple[tuple[str, float], ...]] = {
    Kind.BYTES: (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    Kind.COUNT: (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)),
    Kind.INSTRUCTIONS: (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)),
    Kind.NANOSECONDS: (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    Kind.RATIO: (("", 1.0),),
}
ALMOST = "\N{ALMOST EQUAL TO}"
MISSING = "\N{EN DASH}"
"""What tables show where nothing was measured: never a 0."""

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


def scale_of(metric: Metric, measurements: Sequence[Measurement | None]) -> Scale:
    """Choose the unit of a metric for the measurements of a table or plot."""
    return scale_for(metric.kind, (metric.value(measurement) for measurement in measurements))


def axis_title(metric: Metric, scale: Scale) -> str:
    """Write the title of an axis: ``mean heap (MiB)``, ``cost (million instructions)``."""
    unit = " ".join(filter(None, [scale.unit, _counted(metric)]))
    return f"{metric.label} ({unit})" if unit else metric.label


def show_metric(metric: Metric, value: float | None) -> str:
    """Write one value with its unit, and what it counts: ``23.97 million instructions``."""
    shown = scale_for(metric.kind, [value]).show_with_unit(value)
    return shown if value is None else f"{shown} {_counted(metric)}".strip()


def _counted(metric: Metric) -> str:
    """Return what is counted, unless the label of the metric says it."""
    is_said = metric.kind is not Kind.INSTRUCTIONS or "instructions" in metric.label
    return "" if is_said else "instructions"


def show_expected(ratio: float | None) -> str:
    """Write an expected ratio as a change, see `expected_words`."""
    return MISSING if ratio is None else expected_words(ratio, show_change)


def show_change(ratio: float | None) -> str:
    """Write a ratio to the baseline as a change, with a true minus sign: ``-12.3 %``.

    Ratios from 10 up are written as a factor.

    Args:
        ratio: value / value of the baseline, None when either is missing.
    """
    if ratio is None:
        return MISSING
    if ratio >= FACTOR_FROM:
        return show_factor(ratio)
    change = (ratio - 1.0) * 100.0
    if change == 0.0:
        return "0 %"
    if abs(change) < _LEAST_CHANGE:
        return f"{ALMOST}0 %"
    sign = "+" if change > 0 else "-"
    rounded = float(f"{abs(change):.3g}")
    return f"{sign}{rounded:.{max(0, 3 - len(str(int(rounded))))}f} %"


def show_estimate(estimate: Estimate | None) -> str:
    """Write a ratio to the baseline as a change with its interval: ``-12.3 % [-13.0, -11.9]``."""
    if estimate is None or estimate.interval is None:
        return show_change(estimate.median if estimate else None)
    ends = (show_change(estimate.interval.low), show_change(estimate.interval.high))
    return f"{show_change(estimate.median)} [{', '.join(without_unit(ends))}]"


def ratio(value: float | None, baseline: float | None) -> float | None:
    """Return value / baseline; None when either is missing or the baseline is 0."""
    return None if value is None or not baseline else value / baseline
