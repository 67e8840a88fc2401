"""What the real program says about claims, all claims of a validation together.

A claim is decided by one exact test of the ratios to the baseline of the same round
(`tuner.stats.paired_p_value`), and all of a validation by Holm's rule: the chance that one
difference or more is shown where there is none is 5 % at most, at every number of rounds and
claims.  Too few rounds for that many claims decide nothing.  A difference also counts only when
its median is larger than `MINIMAL_EFFECT`, since memory repeats so exactly that a meaningless
0.01 % would pass otherwise, and when the interval that is shown beside it excludes none.  No
difference shown is not the same as equality.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner import stats
from tuner.metrics import REAL
from tuner.records import CurvePoint
from tuner.stats import Estimate
from tuner.store.subject import Subject

MINIMAL_EFFECT = stats.TIE
"""Relative change below which a difference is not worth a verdict."""

_FAR = 2.0
"""A gain of more than this many times the claimed one has another reason than the claim's."""

SPARE_ROUNDS = 2
"""Rounds beside the fewest that can decide, where the user names no number.

With the fewest every round must agree; each one more allows for some that do not.
"""


class Verdict(enum.StrEnum):
    """What the real program says about a claim."""

    CONFIRMED = "confirmed"
    """Less was claimed, and less was used."""
    EXCEEDED = "gains more than claimed"
    """Less was claimed, and by far less was used: the claim is no proof of why."""
    NOT_CONFIRMED = "not confirmed"
    """No difference shown, though one was claimed."""
    COSTS = "costs as claimed"
    """More was claimed, and more was used."""
    WORSE = "worse"
    """More was used, though less or the same was claimed."""
    BETTER = "better than claimed"
    """Less was used, though more or the same was claimed."""
    AS_CLAIMED = "no difference shown, none claimed"
    UNDECIDED = "undecided"
    """Too few rounds for the number of claims."""
    REJECTED = "rejected"
    """The program crashed, hung or gave another output."""

    @property
    def is_confirmed(self) -> bool:
        """True when a gain was claimed and is shown."""
        return self in (Verdict.CONFIRMED, Verdict.EXCEEDED)

    @property
    def is_open(self) -> bool:
        """True when more rounds could still show what was claimed."""
        return self in (Verdict.UNDECIDED, Verdict.NOT_CONFIRMED)


@dataclass(frozen=True)
class Claim:
    """One objective of one subject, claimed and real."""

    objective: str
    metric: str
    """The metric it is checked with."""
    claimed_ratio: float
    """Emulated, relative to the emulated baseline; what runs of `optimize` showed of the program,
    where the claim is of them."""
    expected_ratio: float | None
    """What the claim means for the real program: the emulated difference to the baseline,
    added to the real baseline and divided by it; None when its price is not known, or when what
    was emulated is a mean over several workloads. Of runs of `optimize`, `claimed_ratio`."""
    real_ratio: Estimate | None
    """Real, relative to the real baseline, with the interval of this claim alone."""
    verdict: Verdict
    p_value: float | None = None
    """Of the difference to the real baseline, adjusted for all claims once `decide` has seen
    them; None when there are too few rounds."""
    is_emulated: bool = True
    """False where it is of runs of `optimize`: no trial stands behind the setting."""

    @property
    def check(self) -> tuple[str, str]:
        """Objective, and the metric it is checked with."""
        return self.objective, self.metric

    @property
    def is_gain(self) -> bool:
        """True when less than the baseline was claimed."""
        return _direction(self.expected) < 0

    @property
    def expected(self) -> float:
        """What is expected of the real program, or where that is not known, what is claimed."""
        return self.claimed_ratio if self.expected_ratio is None else self.expected_ratio

    def decided(self, p_value: float | None) -> Claim:
        """Return this claim with its verdict, given its adjusted p-value."""
        verdict = judge(self.expected, self.real_ratio, p_value)
        return replace(self, p_value=p_value, verdict=verdict)


@dataclass(frozen=True)
class MetricSummary:
    """One metric of one subject."""

    metric: str
    """Name in `REAL`."""
    estimate: Estimate
    """Median over the rounds, in the unit of the metric."""
    ratio: Estimate | None
    """Median of the ratios to the baseline of the same round; None for the baseline
    itself and where no ratio exists."""


@dataclass(frozen=True)
class SubjectSummary:
    """All about one subject."""

    subject: Subject
    is_baseline: bool
    n_samples: int
    """Number of good runs."""
    reason: str | None
    """Why it was rejected; None when it was not."""
    metrics: tuple[MetricSummary, ...]
    """In the order of `REAL`; empty when there is no good run."""
    claims: tuple[Claim, ...]
    """One per objective of the campaign that can be checked; empty for the baseline."""
    verdict: Verdict | None
    """Over the gains claimed, see `overall_verdict`; None for the baseline and without claims."""
    curve: tuple[CurvePoint, ...]
    """Heap over time in the first good run."""
    trial: int | None = None
    """Number of the trial that has its settings and no more; None when there is none."""

    def metric(self, name: str) -> MetricSummary | None:
        """Return the summary of a metric; None when it was not measured."""
        return next((found for found in self.metrics if found.metric == name), None)

    @property
    def confirmed(self) -> tuple[Claim, ...]:
        """The gains that the program confirms; none of what failed or is worse than claimed."""
        if self.verdict in (Verdict.REJECTED, Verdict.WORSE):
            return ()
        return tuple(claim for claim in self.claims if claim.verdict.is_confirmed)

    @property
    def verdict_words(self) -> str:
        """The verdict; which gains are confirmed, and what is worse, where that is not all."""
        gains = [REAL[claim.metric].label for claim in self.confirmed]
        costs = [REAL[c.metric].label for c in self.claims if c.verdict is Verdict.COSTS]
        if self.verdict is Verdict.NOT_CONFIRMED or (gains and costs):
            if gains:
                worse = f", {', '.join(costs)} {Verdict.WORSE}" if costs else ""
                return f"{', '.join(gains)} confirmed{worse}"
            if costs:
                return f"{Verdict.WORSE}: {', '.join(costs)}"
        return str(self.verdict or "")


def decide(claims: Sequence[Claim], n_planned: int) -> list[Claim]:
    """Return all claims of a validation with their verdicts.

    Args:
        claims: with the p-value of each alone, None for those that cannot be decided.
        n_planned: number of claims before anything was run; what failed since counts too.
    """
    known = [claim.p_value for claim in claims if claim.p_value is not None]
    adjusted = iter(stats.holm(known, max(n_planned, len(known))))
    return [claim.decided(None if claim.p_value is None else next(adjusted)) for claim in claims]


def judge(claimed_ratio: float, real: Estimate | None, p_value: float | None) -> Verdict:
    """Compare a claimed change with the real one.

    Args:
        claimed_ratio: what is expected of the real program, relative to its baseline.
        real: of the real program.
        p_value: adjusted for all claims; None when there are too few rounds.
    """
    if real is None or p_value is None:
        return Verdict.UNDECIDED
    claimed = _direction(claimed_ratio)
    is_shown = p_value <= stats.FAMILY_ERROR and (
        real.interval is None or real.interval.excludes(1.0)
    )
    shown = _direction(real.median) if is_shown else 0
    if shown == claimed == -1 and _is_far_beyond(claimed_ratio, real):
        return Verdict.EXCEEDED
    if shown == claimed:
        return {-1: Verdict.CONFIRMED, 0: Verdict.AS_CLAIMED, 1: Verdict.COSTS}[shown]
    if shown == 0:
        return Verdict.NOT_CONFIRMED
    return Verdict.WORSE if shown > 0 else Verdict.BETTER


def overall_verdict(claims: Sequence[Claim]) -> Verdict | None:
    """Return the verdict over several claims: the most sobering one.

    A subject stands for the gains it promises; a price it was expected to cost but does
    not show is no reason against it.  Anything worse than claimed is.

    Returns:
        None when there is no claim.
    """
    if any(claim.verdict is Verdict.WORSE for claim in claims):
        return Verdict.WORSE
    verdicts = [claim.verdict for claim in claims if claim.is_gain]
    verdicts = verdicts or [claim.verdict for claim in claims]
    return next((verdict for verdict in _SOBERING if verdict in verdicts), None)


_SOBERING = (
    Verdict.UNDECIDED,
    Verdict.NOT_CONFIRMED,
    Verdict.COSTS,
    Verdict.CONFIRMED,
    Verdict.EXCEEDED,
    Verdict.BETTER,
    Verdict.AS_CLAIMED,
)
"""The order in which a verdict stands for several."""


def _is_far_beyond(claimed_ratio: float, real: Estimate) -> bool:
    """Return whether even the least gain of the interval is more than twice the claimed one."""
    least = real.interval.high if real.interval else real.median
    return 1.0 - least > _FAR * (1.0 - claimed_ratio)


def _direction(ratio: float) -> int:
    """Return -1 for less, +1 for more, 0 for a change below `MINIMAL_EFFECT`."""
    if abs(ratio - 1.0) <= MINIMAL_EFFECT:
        return 0
    return -1 if ratio < 1.0 else 1


def default_rounds(n_claims: int) -> int:
    """Return the rounds of a validation whose user names none.

    Example:
        >>> default_rounds(1), default_rounds(22)
        (8, 12)
    """
    return stats.fewest_pairs(max(1, n_claims)) + SPARE_ROUNDS


def too_few(n_rounds: int, n_claims: int) -> str | None:
    """Say that rounds cannot decide so many claims; None when they can, or there is none."""
    needed = stats.fewest_pairs(max(1, n_claims))
    if not n_claims or n_rounds >= needed:
        return None
    claims = "1 claim" if n_claims == 1 else f"{n_claims} claims"
    return (
        f"undecided: {needed} rounds needed for {claims}, {n_rounds} cannot show a difference "
        f"with less than 5 % false alarms; use --rounds {needed} or more, or fewer --points"
    )
