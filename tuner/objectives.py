"""What a campaign minimises, and which trials are allowed.

Objectives are read from a `Measurement`, constraints are inequalities over the
same names.  All objectives are minimised, with no sign trick anywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.errors import SpecError
from tuner.metrics import Kind, Metric, find_objective
from tuner.records import Measurement
from tuner.units import parse_duration, parse_percent, parse_size


def objective_values(measurement: Measurement, names: Sequence[str]) -> tuple[float, ...]:
    """Return the named objectives of a measurement, in order.

    Raises:
        SpecError: a name is unknown.
        MissingToolError: the measurement lacks one.
    """
    return tuple(measurement.value(name) for name in names)


def trial_values(
    measurement: Measurement, names: Sequence[str], resolution: Iterable[tuple[str, float]]
) -> tuple[float, ...]:
    """Return the named objectives, rounded to the resolution of the workload.

    Args:
        measurement: of one trial.
        names: the objectives.
        resolution: see `Trial.resolution`.

    Raises:
        SpecError: a name is unknown.
        MissingToolError: the measurement lacks one.
    """
    steps = dict(resolution)
    values = objective_values(measurement, names)
    return tuple(
        at_resolution(value, steps.get(name, 0.0))
        for name, value in zip(names, values, strict=True)
    )


def at_resolution(value: float, resolution: float) -> float:
    """Round a value to the nearest power of 1 + resolution, so that what is as good is equal.

    Equality stays transitive, which "less than a step apart" is not; dominance over rounded
    values is the epsilon-dominance of archives.  Two values within a step may still lie on
    both sides of an edge; noise then separates them.

    Args:
        value: any; those not above 0 stay.
        resolution: relative, from 0 up; 0 keeps every value.

    Source: Laumanns, Thiele, Deb, Zitzler, "Combining convergence and diversity in evolutionary
        multiobjective optimization", Evolutionary Computation 10(3), 2002.

    Example:
        >>> at_resolution(1000.0, 0.01) == at_resolution(1001.0, 0.01), at_resolution(7.0, 0.0)
        (True, 7.0)
    """
    if resolution <= 0.0 or value <= 0.0:
        return value
    step = math.log1p(resolution)
    return math.exp(round(math.log(value) / step) * step)


# Constraints

FAILED_VIOLATION: Final = 1.0
"""In place of `violation` for what did not succeed."""


@dataclass(frozen=True)
class Constraint:
    """An upper limit of one objective: absolute, or a multiple of a default's value.

    ``default`` is the shipped default of the campaign's baseline allocator
    (glibc where it takes part), ``own_default`` the shipped default of the
    allocator under trial.
    """

    text: str
    """As the user wrote it."""
    objective: str
    """Name of the limited objective."""
    anchor: str | None
    """``default``, ``own_default`` or None for an absolute limit."""
    factor: float
    """Multiple of the anchor's value; the limit itself, in objective units, if absolute."""

    def limit(self, baseline: Measurement | None, own: Measurement | None) -> float | None:
        """Return the greatest value allowed, in objective units.

        Args:
            baseline: measurement of the baseline's default; None when it failed.
            own: measurement of the same allocator's default; None when it failed.

        Returns:
            None when the limit hangs on a default that could not be measured.
        """
        if self.anchor is None:
            return self.factor
        anchor = baseline if self.anchor == "default" else own
        return None if anchor is None else self.factor * anchor.value(self.objective)


_CONSTRAINT = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign><=|>=|<|>|==|=)\s*(?P<limit>[^<>=\s].*?)\s*")
_RELATIVE = re.compile(
    r"(?P<anchor>own_default|default)"
    r"(?:\s*\*\s*(?P<factor>[0-9.eE+-]+)|\s*(?P<sign>[+-])\s*(?P<percent>[0-9.]+)\s*%)?"
)
_FORMS = "'peak_heap <= 2 GiB', 'cost <= default * 1.02' or 'mean_heap <= own_default - 5 %'"


def parse_constraint(text: str) -> Constraint:
    """Read one constraint.

    The grammar is ``<objective> <= <limit>`` where the limit is a quantity
    (``2 GiB``, ``5 ms``, ``120000``) or ``default`` or ``own_default``, either
    of them followed by ``* <factor>``, ``+ <percent> %`` or ``- <percent> %``.

    Raises:
        SpecError: the text is not of that form, or a number is negative.

    Example:
        >>> parse_constraint("cost <= default + 2 %").factor
        1.02
    """
    match = _CONSTRAINT.fullmatch(text)
    if not match:
        message = f"constraint {text!r}: not understood; write it like {_FORMS}"
        raise SpecError(message)
    if match["sign"] != "<=":
        message = f"constraint {text!r}: only <= is known; every objective has an upper limit"
        raise SpecError(message)
    objective = find_objective(match["name"])
    relative = _RELATIVE.fullmatch(match["limit"])
    if relative:
        factor = _factor(text, relative)
        return Constraint(text, objective.name, relative["anchor"], factor)
    return Constraint(text, objective.name, None, _quantity(text, match["limit"], objective))


def _factor(text: str, match: re.Match[str]) -> float:
    try:
        if match["percent"] is not None:
            factor = round(1.0 + parse_percent(f"{match['sign']}{match['percent']}%"), 12)
        else:
            factor = float(match["factor"] or "1")
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor > 0.0):
        message = f"constraint {text!r}: the factor must be a number above 0"
        raise SpecError(message)
    return factor


def _quantity(text: str, limit: str, objective: Metric) -> float:
    try:
        if objective.kind is Kind.BYTES:
            value = float(parse_size(limit))
        elif objective.kind is Kind.NANOSECONDS:
            value = float(parse_duration(limit))
        else:
            value = float(limit)
    except (ValueError, OverflowError, SpecError) as error:
        message = f"constraint {text!r}: {limit!r} is no limit in {objective.unit}; use {_FORMS}"
        raise SpecError(message) from error
    if not (math.isfinite(value) and value >= 0.0):
        message = f"constraint {text!r}: the limit must be a number from 0 up"
        raise SpecError(message)
    return value


def violation(
    constraints: Iterable[Constraint],
    measurement: Measurement,
    baseline: Measurement | None,
    own: Measurement | None,
) -> float:
    """Sum the relative excess over every limit; 0.0 when all hold.

    The excess over a limit L is ``value / L - 1``, or the value itself when L
    is 0.  A limit that hangs on a default which failed counts as kept: nothing
    can be said.

    Args:
        constraints: the campaign's.
        measurement: the trial's.
        baseline: of the baseline allocator's default, None when that failed.
        own: of the same allocator's default, None when that failed.

    Raises:
        MissingToolError: a limited objective was not measured.
    """
    total = 0.0
    for constraint in constraints:
        limit = constraint.limit(baseline, own)
        value = measurement.value(constraint.objective)
        if limit is not None and value > limit:
            total += value / limit - 1.0 if limit > 0.0 else value
    return total
