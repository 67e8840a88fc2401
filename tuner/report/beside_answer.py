"""What a validation makes of the answer that `optimize` gave in the same run folder.

Both ran the same program under the same setting, so a reader of the one must know of the other.
Rounds confirm the answer where they recommend its setting, or where all gains that it proved are
confirmed; they contradict it where the setting failed, or where a change is for sure worse than the
worst that the answer leaves open, by more than the least effect that counts.  Else they leave it
open, for most validations have fewer rounds than the answer had.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tuner.errors import StoreError
from tuner.metrics import REAL
from tuner.optimize.answering.recommendation import Recommendation, recommended_before
from tuner.optimize.proof.judgement import least_gain
from tuner.optimize.quantities import CPU, MEAN, PEAK, key_of
from tuner.optimize.tuned import Reference, label_of
from tuner.page import series
from tuner.runs import REFERENCE_FILE
from tuner.units import percent_range, signed_percent
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import SubjectSummary

_SEEN_IN: Final = {MEAN: "mean_heap", PEAK: "peak_rss", CPU: "cpu"}
"""Quantity of an answer -> metric of the real program that shows it."""


class Agreement(enum.StrEnum):
    """Whether a validation agrees with an answer."""

    CONFIRMS = "confirms"
    CONTRADICTS = "contradicts"
    OPEN = "leaves open"
    NOT_RUN = "did not run it"


class BesideAnswer(NamedTuple):
    """What the rounds of a validation say of an answer."""

    agreement: Agreement
    sentence: str


def beside_answer_in(folder: Path, summary: ValidationSummary) -> BesideAnswer | None:
    """Return what the rounds of a validation say of the answer of their run folder.

    Args:
        folder: it.
        summary: of the validation.

    Returns:
        None where there is nothing to say, see `beside_answer`; or where the program as it is had
        variables of allocators, without which a validation runs it.
    """
    path = folder / REFERENCE_FILE
    with contextlib.suppress(StoreError):
        if path.exists() and Reference.load(path).steered:
            return None
    return beside_answer(recommended_before(folder), summary)


def beside_answer(answer: Recommendation | None, summary: ValidationSummary) -> BesideAnswer | None:
    """Return what the rounds of a validation say of an answer.

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
        text = f"`optimize` deploys {label}, which this validation did not run."
        return BesideAnswer(Agreement.NOT_RUN, text)
    gains = {
        name: (change, most)
        for name, change, most in _known(answer)
        if most <= -least_gain(name, answer.least)
    }
    what = f"{_changes(gains)} of {label}" if gains else f"that {label} gains"
    n_rounds = "" if answer.n_rounds is None else f" in {answer.n_rounds} rounds"
    here = f"{summary.n_rounds} round{'s'[: summary.n_rounds != 1]}"
    agreement, verdict = _verdict(answer, gains, found, summary)
    text = f"`optimize` proved {what}{n_rounds}; this validation of {here} {verdict}."
    return BesideAnswer(agreement, text)


def _is_alike(answer: Recommendation, summary: ValidationSummary) -> bool:
    """Return whether both ran one command, and compared with one allocator."""
    is_default = summary.baseline.configuration.is_default
    allocator = summary.baseline.configuration.allocator
    is_same = tuple(summary.record.command) == answer.command
    return is_same and is_default and allocator == answer.as_is


def _known(answer: Recommendation) -> Iterator[tuple[str, float, float]]:
    """Yield what bounds say of quantities that a validation shows: it, its change, the worst."""
    for name in _SEEN_IN:
        change, bounds = answer.changes.get(key_of(name), (0.0, None))
        if bounds is not None:
            yield name, change, bounds[1]


def _changes(gains: Mapping[str, tuple[float, float]]) -> str:
    return series(
        f"{name} {signed_percent(change)} (at least {signed_percent(most)})"
        for name, (change, most) in gains.items()
    )


def _verdict(
    answer: Recommendation,
    gains: Mapping[str, tuple[float, float]],
    found: SubjectSummary,
    summary: ValidationSummary,
) -> tuple[Agreement, str]:
    if found.reason is not None:
        return Agreement.CONTRADICTS, f"contradicts that: it is out, {found.reason}"
    if worse := list(_worse(answer, found)):
        return Agreement.CONTRADICTS, f"contradicts that: {series(worse)}"
    confirmed = {claim.metric for claim in found.confirmed}
    if gains and confirmed >= {_SEEN_IN[name] for name in gains}:
        return Agreement.CONFIRMS, "confirms that"
    if summary.decision.label == found.subject.label:
        return Agreement.CONFIRMS, "recommends it, too"
    return Agreement.OPEN, "neither confirms nor refutes that"


def _worse(answer: Recommendation, found: SubjectSummary) -> Iterator[str]:
    """Yield what is worse for sure than the worst that an answer leaves open."""
    for name, _, most in _known(answer):
        metric = found.metric(_SEEN_IN[name])
        ratio = metric.ratio if metric else None
        if ratio is None or ratio.interval is None or ratio.is_range:
            continue
        low, high = (end - 1.0 for end in (ratio.interval.low, ratio.interval.high))
        if low > most + answer.least:
            median = signed_percent(ratio.median - 1.0)
            yield f"{REAL[_SEEN_IN[name]].label} {median} ({percent_range(low, high)})"
