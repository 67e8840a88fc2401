"""What a validation makes of the answer that `optimize` gave in the same run folder.

Both ran the same program under the same setting, so a reader of the one must know of the other.
Rounds confirm the answer where they recommend its setting, or where all gains that it proved are
confirmed; they contradict it where the setting failed, or where a change is for sure worse than the
worst that the answer leaves open, by more than the least effect that counts.  Else they do neither,
for most validations have fewer rounds than the answer had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tuner.metrics import REAL
from tuner.optimize.answering.recommendation import Recommendation
from tuner.optimize.tuned import label_of
from tuner.page import series
from tuner.stats import Interval
from tuner.units import signed_percent
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import SubjectSummary

_SEEN_IN: Final = {"mean_memory": "mean_heap", "peak_memory": "peak_rss", "cpu_time": "cpu"}
"""Quantity of an answer -> metric of the real program that shows it."""


def beside_answer(answer: Recommendation | None, summary: ValidationSummary) -> str | None:
    """Return what the rounds of a validation say of an answer, as a sentence.

    Args:
        answer: of the same run folder; None where there is none.
        summary: of the validation.

    Returns:
        None where the answer deploys nothing, or is of another command or another baseline.
    """
    if answer is None or answer.configuration is None or not _is_alike(answer, summary):
        return None
    label = label_of(answer.configuration)
    ran = [s for s in summary.subjects if s.subject.configuration == answer.configuration]
    found = next((one for one in ran if one.n_samples or one.reason), None)
    if found is None:
        return f"`optimize` deploys {label}, which this validation did not run."
    gains = dict(_proven(answer))
    what = f"{_changes(gains)} of {label}" if gains else f"that {label} gains"
    n_rounds = "" if answer.n_rounds is None else f" in {answer.n_rounds} rounds"
    here = f"{summary.n_rounds} round{'s'[: summary.n_rounds != 1]}"
    verdict = _verdict(answer, gains, found, summary)
    return f"`optimize` proved {what}{n_rounds}; this validation of {here} {verdict}."


def _is_alike(answer: Recommendation, summary: ValidationSummary) -> bool:
    """Return whether both ran one command, and compared with one allocator."""
    is_default = summary.baseline.configuration.is_default
    allocator = summary.baseline.configuration.allocator
    is_same = tuple(summary.record.command) == answer.command
    return is_same and is_default and allocator == answer.as_is


def _proven(answer: Recommendation) -> Iterator[tuple[str, tuple[float, tuple[float, float]]]]:
    """Yield the gains that count for sure: metric, change and its bounds."""
    for name, (change, bounds) in answer.changes.items():
        if name in _SEEN_IN and bounds is not None and bounds[1] <= -answer.least:
            yield _SEEN_IN[name], (change, bounds)


def _changes(gains: dict[str, tuple[float, tuple[float, float]]]) -> str:
    return series(
        f"{REAL[name].label} {signed_percent(change)} (at least {signed_percent(bounds[1])})"
        for name, (change, bounds) in gains.items()
    )


def _verdict(
    answer: Recommendation,
    gains: dict[str, tuple[float, tuple[float, float]]],
    found: SubjectSummary,
    summary: ValidationSummary,
) -> str:
    if found.reason is not None:
        return f"contradicts that: it is out, {found.reason}"
    if worse := list(_worse(answer, found)):
        return f"contradicts that: {series(worse)}"
    confirmed = {claim.metric for claim in found.confirmed}
    if summary.decision.label == found.subject.label or (gains and confirmed >= gains.keys()):
        return "confirms that"
    return "neither confirms nor refutes that"


def _worse(answer: Recommendation, found: SubjectSummary) -> Iterator[str]:
    """Yield what is worse for sure than the worst that an answer leaves open."""
    for name, (_, bounds) in answer.changes.items():
        metric = found.metric(_SEEN_IN[name]) if name in _SEEN_IN else None
        ratio = metric.ratio if metric else None
        if bounds is None or ratio is None or ratio.interval is None or ratio.is_range:
            continue
        if ratio.interval.low > 1.0 + bounds[1] + answer.least:
            label, median = REAL[_SEEN_IN[name]].label, signed_percent(ratio.median - 1.0)
            yield f"{label} {median} ({_ends(ratio.interval)})"


def _ends(interval: Interval) -> str:
    return f"{100 * (interval.low - 1.0):+.1f} .. {100 * (interval.high - 1.0):+.1f}"
