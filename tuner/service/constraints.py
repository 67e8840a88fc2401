"""Constraints in the terms of a service: ``p99 <= default * 1.05``, ``rate >= default - 2 %``."""

from __future__ import annotations

import re
from typing import Final

from tuner.errors import SpecError
from tuner.metrics import SERVICE

DEFAULTS: Final = {"cpu": 0.02, "rate": 0.02, "latency": 0.05, "p95": 0.05, "p99": 0.05}
"""Metric -> share by which it may become worse without a constraint of the user's."""

_CONSTRAINT = re.compile(
    r"\s*(?P<name>\w+)\s*(?P<sign><=|>=)\s*default"
    r"(?:\s*\*\s*(?P<factor>\d*\.?\d+)|\s*(?P<change>[+-]\s*\d*\.?\d+)\s*%)?\s*"
)


def parse_service_constraint(text: str) -> tuple[str, float]:
    """Return the metric of a constraint and the share by which it may become worse.

    Raises:
        SpecError: it is not understood, or allows nothing.

    Example:
        >>> name, share = parse_service_constraint("p99 <= default * 1.05")
        >>> name, round(share, 9)
        ('p99', 0.05)
        >>> parse_service_constraint("rate >= default - 20 %")[1]
        0.25
    """
    match = _CONSTRAINT.fullmatch(text)
    metric = SERVICE.get(match["name"]) if match else None
    judged = [name for name in SERVICE if name != "growth"]
    if match is None or metric is None or metric.name == "growth":
        message = (
            f"constraint {text!r}: not understood; write it like 'p99 <= default * 1.05' or "
            f"'rate >= default - 2 %', with one of {', '.join(judged)}"
        )
        raise SpecError(message)
    wanted = ">=" if metric.is_more_better else "<="
    if match["sign"] != wanted:
        message = f"constraint {text!r}: {metric.label} is limited with {wanted}"
        raise SpecError(message)
    change = (match["change"] or "0").replace(" ", "")
    ratio = float(match["factor"]) if match["factor"] else 1.0 + float(change) / 100.0
    worse = 1.0 / ratio if metric.is_more_better and ratio > 0.0 else ratio
    if worse <= 1.0:
        message = (
            f"constraint {text!r}: must allow more than nothing, such as 'default * "
            f"{0.98 if metric.is_more_better else 1.02}': no two runs are equal"
        )
        raise SpecError(message)
    return metric.name, worse - 1.0
