"""Constraints against what runs as it is: ``p99 <= default * 1.05``, ``rate >= default - 2 %``."""

import re
from collections.abc import Mapping
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
    judged = {name: one.is_more_better for name, one in SERVICE.items() if name != "growth"}
    return parse_limit(text, judged, "'p99 <= default * 1.05' or 'rate >= default - 2 %'")


def parse_limit(text: str, judged: Mapping[str, bool], example: str) -> tuple[str, float]:
    """Return what a constraint names, and the share by which it may become worse.

    Args:
        text: of the constraint.
        judged: names that there are -> whether more is better.
        example: of constraints, for the message.

    Raises:
        SpecError: it is not understood, or allows nothing.
    """
    match = _CONSTRAINT.fullmatch(text)
    if match is None or match["name"] not in judged:
        raise SpecError(
            f"constraint {text!r}: not understood; write it like {example}, with one of "
            f"{', '.join(judged)}"
        )
    name = match["name"]
    is_more_better = judged[name]
    wanted = ">=" if is_more_better else "<="
    if match["sign"] != wanted:
        raise SpecError(f"constraint {text!r}: {name} is limited with {wanted}")
    change = (match["change"] or "0").replace(" ", "")
    ratio = float(match["factor"]) if match["factor"] else 1.0 + float(change) / 100.0
    worse = 1.0 / ratio if is_more_better and ratio > 0.0 else ratio
    if worse <= 1.0:
        raise SpecError(
            f"constraint {text!r}: must allow more than nothing, such as 'default * "
            f"{0.98 if is_more_better else 1.02}': no two runs are equal"
        )
    return name, worse - 1.0
