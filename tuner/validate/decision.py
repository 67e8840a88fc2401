"""What to deploy after a validation: one sentence, and the subject it names.

A subject is worth deploying when a gain it claimed is confirmed, nothing it claimed turned out
worse, and neither memory nor CPU time costs more than `GUARD`, clearly or in the median of the
rounds: what the rounds leave open is not settled.  The best one has the greatest confirmed gains,
or is at least as good as that one in all that is claimed or guarded.  Of all that gain as well,
the one with the fewest settings is named, so that a default is preferred to settings that add
nothing.  "Keep what you have" is an answer; "for now" where more rounds may show a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

from tuner.metrics import REAL
from tuner.stats import DIFFERENT, Estimate
from tuner.units import signed_percent
from tuner.validate.verdicts import Claim, SubjectSummary, Verdict

GUARD = DIFFERENT
"""Greatest share by which a guarded metric may grow beside a gain."""

GUARDED = ("mean_heap", "peak_rss", "cpu")
"""Metrics that a gain in another one must not cost: those of `optimize`, which holds the peak of
the whole process, for that is what a limit of memory is of."""

_FEW_SETTINGS = 3

_GREAT = 0.1
"""Changes from which whole percents say enough."""


@dataclass(frozen=True)
class ValidationDecision:
    """What a validation recommends."""

    label: str | None
    """Subject to deploy; None: keep the baseline."""
    sentence: str
    """One sentence, or two."""


def recommend(subjects: Sequence[SubjectSummary]) -> ValidationDecision:
    """Return what the subjects of a validation, the baseline among them, recommend."""
    baseline = next(found for found in subjects if found.is_baseline)
    gaining = [found for found in subjects if _has_gain(found)]
    free = [found for found in gaining if not _costs(found)]
    settled = [found for found in free if not _open(found)]
    if settled:
        return _deploy(settled)
    keep = f"Keep {_baseline_name(baseline)}"
    if free:
        best = max(free, key=_gain)
        seen = ", ".join(_open(best))
        return ValidationDecision(
            None,
            f"{keep} for now: {_name(best)} has {_gains(best)}, but {seen} is not settled: "
            "more --rounds may settle it.",
        )
    if gaining:
        best = max(gaining, key=_gain)
        change = f"{_gains(best)}, but costs {', '.join(_costs(best))}"
        return ValidationDecision(
            None, f"{keep}: nothing gains without a cost; {_name(best)} has {change}."
        )
    return ValidationDecision(None, f"{keep}{_why_kept(subjects)}")


def _why_kept(subjects: Sequence[SubjectSummary]) -> str:
    """Return the end of a sentence for where no gain is confirmed."""
    others = (found for found in subjects if not found.is_baseline)
    if not any(found.n_samples or found.reason for found in others):
        return " for now: nothing beside it was measured yet."
    claims = [claim for found in subjects for claim in found.claims]
    verdicts = {claim.verdict for claim in [c for c in claims if c.is_gain] or claims}
    if verdicts and verdicts <= {Verdict.UNDECIDED}:
        return " for now: too few rounds to decide anything."
    unsettled = [(found, claim) for found in subjects for claim in _unsettled(found)]
    if unsettled:
        found, claim = min(unsettled, key=lambda pair: _seen(pair[1]))
        return (
            f" for now: no gain is confirmed, but whether {_name(found)} gains in "
            f"{REAL[claim.metric].label} is not settled: more --rounds may settle it."
        )
    return ": nothing gains on the program."


def _deploy(free: Sequence[SubjectSummary]) -> ValidationDecision:
    first = max(free, key=_gain)
    best = max((one for one in free if _dominates(one, first)), key=_sum, default=first)
    equals = [found for found in free if _does_as_well(found, best)]
    chosen = min(equals, key=lambda found: (_n_settings(found), -_gain(found)))
    if chosen is best:
        return ValidationDecision(
            chosen.subject.label, f"Deploy {_name(chosen)}: {_gains(chosen)}."
        )
    sentence = (
        f"Deploy {_name(chosen)}: {_gains(chosen)}. {_name(best)} has more settings and is not "
        "shown to gain more."
    )
    return ValidationDecision(chosen.subject.label, sentence)


def _has_gain(found: SubjectSummary) -> bool:
    is_out = found.is_baseline or found.reason is not None
    return not is_out and any(claim.verdict.is_confirmed for claim in found.claims)


def _unsettled(found: SubjectSummary) -> list[Claim]:
    """Return the claimed gains that the rounds neither show nor exclude."""
    if found.is_baseline or found.reason is not None:
        return []
    return [c for c in found.claims if c.is_gain and c.verdict.is_open and not _is_excluded(c)]


def _is_excluded(claim: Claim) -> bool:
    """Return whether the rounds leave room for no gain that counts."""
    interval = claim.real_ratio.interval if claim.real_ratio else None
    return interval is not None and interval.low > 1.0 - DIFFERENT


def _seen(claim: Claim) -> float:
    return claim.real_ratio.median if claim.real_ratio else inf


def _costs(found: SubjectSummary) -> list[str]:
    """Return in words what a subject costs: what is worse than claimed, and what is guarded."""
    bad = {c.metric for c in found.claims if c.verdict in (Verdict.WORSE, Verdict.COSTS)}
    for name in GUARDED:
        metric = found.metric(name)
        interval = metric.ratio.interval if metric and metric.ratio else None
        if interval and interval.low > 1.0 + GUARD:
            bad.add(name)
    shown = ((name, _median(found, name)) for name in REAL if name in bad)
    return [f"{REAL[name].label} {_change(median)}" for name, median in shown if median is not None]


def _open(found: SubjectSummary) -> list[str]:
    """Return the guarded metrics that look worse, though the rounds do not show it for sure."""
    seen = ((name, _median(found, name)) for name in GUARDED)
    return [
        f"{REAL[name].label} {_change(median)}"
        for name, median in seen
        if median and median > 1.0 + GUARD
    ]


def _confirmed(found: SubjectSummary) -> list[tuple[Claim, Estimate]]:
    return [(c, c.real_ratio) for c in found.claims if c.verdict.is_confirmed and c.real_ratio]


def _gain(found: SubjectSummary) -> float:
    """Return the sum of the confirmed gains, as logarithms of ratios."""
    return -sum(log(real.median) for _, real in _confirmed(found) if real.median > 0.0)


def _dominates(other: SubjectSummary, first: SubjectSummary) -> bool:
    """Return whether no median is worse than the first one's, and one is clearly better."""
    pairs = [(_median(other, name), _median(first, name)) for name in _compared(first)]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    is_clear = any(mine < theirs - DIFFERENT for mine, theirs in known)
    return is_clear and all(mine <= theirs for mine, theirs in known)


def _compared(found: SubjectSummary) -> set[str]:
    return {*GUARDED, *(claim.metric for claim in found.claims)}


def _sum(found: SubjectSummary) -> float:
    """Return the sum of all changes, gains positive, as logarithms of ratios."""
    medians = (_median(found, name) for name in _compared(found))
    return -sum(log(median) for median in medians if median)


def _median(found: SubjectSummary, name: str) -> float | None:
    metric = found.metric(name)
    return metric.ratio.median if metric and metric.ratio else None


def _does_as_well(other: SubjectSummary, best: SubjectSummary) -> bool:
    """Return whether the best one gains no more than the noise of a median or `DIFFERENT`."""
    for claim, real in _confirmed(best):
        median = _median(other, claim.metric)
        # Half an interval of 95 % is about two standard errors.
        error = (real.interval.high - real.median) / 2.0 if real.interval else 0.0
        worst = real.median + max(DIFFERENT, error)
        if median is None or median > worst:
            return False
    return True


def _n_settings(found: SubjectSummary) -> int:
    return len(found.subject.configuration.settings)


def _gains(found: SubjectSummary) -> str:
    words = []
    for claim, real in _confirmed(found):
        # The interval is wider than the test of the same rounds, and may hold no change.
        is_sure = real.interval is not None and real.interval.high < 1.0
        least = f" (at least {_change(real.interval.high)})" if real.interval and is_sure else ""
        words.append(f"{REAL[claim.metric].label} {_change(real.median)}{least}")
    return ", ".join(dict.fromkeys(words))


def _name(found: SubjectSummary) -> str:
    configuration = found.subject.configuration
    n_settings = len(configuration.settings)
    if not n_settings:
        return f"{configuration.allocator} as shipped"
    if n_settings > _FEW_SETTINGS:
        return f"{found.subject.label} ({configuration.allocator}, {n_settings} settings)"
    return f"{found.subject.label} ({configuration})"


def _baseline_name(found: SubjectSummary) -> str:
    if found.subject.is_as_it_is:
        return f"the program as it is ({found.subject.configuration.allocator})"
    return f"{found.subject.configuration.allocator}'s default"


def _change(ratio: float) -> str:
    change = ratio - 1.0
    return signed_percent(change, 0 if abs(change) >= _GREAT else 1)
