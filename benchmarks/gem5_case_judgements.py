"""What was aimed at with gem5_case.py, what was found, and what explains a miss: measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.gem5_case_figures import (
    BASELINE,
    BLIND,
    METRICS,
    RANKED,
    SPREAD,
    Ranking,
    Results,
    allocators,
    best_of_all,
    instructions,
    labels,
    median_change,
    over_tuned,
    percent,
    picks,
    rankings,
    repeatability,
)
from tuner import stats

TARGET_TAU: Final = 0.9
TARGET_CHEAPER: Final = 100.0

GROUPS: Final[Mapping[str, Sequence[str]]] = {"held out": (), "never seen before": BLIND}
"""Simulations that a claim is over, all of those held out where none is named."""


Noise: TypeAlias = Mapping[str, float | None]
"""Metric -> what `repeatability` says."""


@dataclass(frozen=True)
class Judgement:
    """One figure against what it should be."""

    claim: str
    found: str
    is_met: bool
    reason: str = ""
    """What was measured that explains a miss."""

    @property
    def brief(self) -> str:
        """What was found."""
        return self.found

    def __str__(self) -> str:
        """Write it for people."""
        text = f"{'ok    ' if self.is_met else 'MISSED'} {self.claim}: {self.found}"
        return text if self.is_met else f"{text}; {self.reason}"


def targets(results: Results) -> list[Judgement]:
    """Return every figure that was aimed at, and whether it was reached."""
    found = []
    chosen = picks(results)
    best = best_of_all(results)
    noise = {metric: repeatability(results, metric) for metric in RANKED.values()}
    for where, only in GROUPS.items():
        if "glibc" in chosen:
            found.append(_judge_glibc(results, chosen["glibc"], where, only, noise))
        if best:
            found.append(_judge_best(results, best, where, only, noise))
    for ranking in rankings(results):
        if ranking.spread > SPREAD:
            tau = ranking.tau if ranking.tau is not None else 0.0
            claim = f"ranks of {ranking.allocator} by {METRICS[ranking.metric]}: tau >= 0.9"
            text = f"{tau:.2f} over {ranking.n} points that differ by {ranking.spread:.1%}"
            reason = _why_not_ranked(results, ranking, noise)
            found.append(Judgement(claim, text, tau >= TARGET_TAU, reason))
    for row in results["speed"]:
        times = row["gem5_cpu_s"] / row["evaluation_cpu_s"]
        claim = f"an evaluation of {row['trace']} is 100 times cheaper than its simulation"
        text = f"{times:.0f} times: {row['evaluation_cpu_s']:.2f} s for {row['gem5_cpu_s']:.1f} s"
        reason = "an evaluation costs the same however long the simulation of its trace is"
        found.append(Judgement(claim, text, times >= TARGET_CHEAPER, reason))
    return found


def _judge_glibc(
    results: Results, label: str, where: str, only: Sequence[str], noise: Noise
) -> Judgement:
    claim = (
        f"glibc tuned, {where}: mean heap -5 % at no more instructions, "
        "or CPU time -9 % at mean heap <= +2 %"
    )
    heap, cpu = (median_change(results, label, metric, only) for metric in ("mean_heap", "cpu_ns"))
    n = instructions(results, label)
    is_lean = heap is not None and n is not None and heap <= 0.95 and n <= 1.0
    is_fast = heap is not None and cpu is not None and cpu <= 0.91 and heap <= 1.02
    text = f"{label}: mean heap {percent(heap)}, CPU time {percent(cpu)}"
    return Judgement(claim, text, is_lean or is_fast, _why_not_lighter(results, label, noise))


def _judge_best(
    results: Results, label: str, where: str, only: Sequence[str], noise: Noise
) -> Judgement:
    heap, cpu = (median_change(results, label, metric, only) for metric in ("mean_heap", "cpu_ns"))
    is_met = heap is not None and cpu is not None and heap <= 0.95 and cpu <= 0.87
    text = f"{label}: mean heap {percent(heap)}, CPU time {percent(cpu)}"
    claim = f"best over all, {where}: mean heap -5 % and CPU time -13 % at once"
    reasons = [*_most_time_spared(results, only), _why_not_lighter(results, label, noise)]
    return Judgement(claim, text, is_met, "; ".join(reasons))


def _most_time_spared(results: Results, only: Sequence[str]) -> list[str]:
    """Return which default or pick spares most CPU time there, whatever it holds."""
    every = [label for name in allocators(results) for label in labels(results, name)]
    spared = {label: median_change(results, label, "cpu_ns", only) for label in every}
    known = {label: ratio for label, ratio in spared.items() if ratio is not None}
    if not known:
        return []
    label = min(known, key=lambda name: known[name])
    return [f"no default or pick spares more CPU time than {label}: {percent(known[label])}"]


def _why_not_ranked(results: Results, ranking: Ranking, noise: Noise) -> str:
    """Return how well the metric repeats on gem5, and how many clear pairs are ordered alike."""
    share = "none" if ranking.share is None else f"{ranking.share:.0%}"
    reasons = [f"of the pairs that differ by more than 1 % {share} are ordered alike"]
    if ranking.metric != "cpu_ns":
        reasons += _farthest_off(results, ranking)
        reasons += _without_split_pages(results, ranking)
    apart = noise[ranking.metric]
    if apart is not None:
        reasons.append(f"points that do the same in emulation differ by up to {apart:.1%} on gem5")
    return "; ".join(reasons)


def _pairs(results: Results, ranking: Ranking) -> dict[str, tuple[float, float]]:
    """Return what a metric of heap is in emulation and on gem5, over glibc's default, by label."""
    base, found = results["points"][BASELINE]["emulated"], {}
    real_base = over_tuned(results, BASELINE, ranking.metric)
    for label, point in results["points"].items():
        if not label.startswith(f"{ranking.allocator} ") or not point["emulated"]:
            continue
        real = over_tuned(results, label, ranking.metric)
        if real and real_base:
            emulated = point["emulated"][ranking.metric] / base[ranking.metric]
            found[label] = (emulated, real / real_base)
    return found


def _farthest_off(results: Results, ranking: Ranking) -> list[str]:
    pairs = _pairs(results, ranking)
    if not pairs:
        return []
    label = max(pairs, key=lambda name: abs(pairs[name][0] - pairs[name][1]))
    emulated, real = map(percent, pairs[label])
    return [f"farthest off is {label}: {emulated} in emulation, {real} on gem5"]


_GIVES_PARTS_BACK: Final = "purge_how=free"
"""Settings under which huge pages are split, and pages of zeros vanish."""


def _without_split_pages(results: Results, ranking: Ranking) -> list[str]:
    every = _pairs(results, ranking)
    settings = results["points"]
    kept = [p for n, p in every.items() if _GIVES_PARTS_BACK not in settings[n]["settings"]]
    n_left_out = len(every) - len(kept)
    if not n_left_out or len(kept) <= 2:
        return []
    tau = stats.kendall_tau([p[0] for p in kept], [p[1] for p in kept])
    text = "none" if tau is None else f"{tau:.2f}"
    return [f"without the {n_left_out} points that give parts of huge pages back tau is {text}"]


def _why_not_lighter(results: Results, label: str, noise: Noise) -> str:
    """Return what bounds a point: the least heap on the trace, the instructions it spares."""
    reasons = []
    floor = results.get("floor")
    if floor:
        least = percent(floor["aligned"] / floor["glibc"])
        text = f"in emulation, where every byte is written, no malloc can hold less than {least}"
        reasons.append(text)
    apart = noise["cpu_ns"]
    if apart is not None:
        reasons.append(f"CPU times of points that do the same differ by up to {apart:.0%}")
    n = instructions(results, label)
    if n is not None:
        reasons.append(f"{label} executes {percent(n)} instructions")
    return "; ".join(reasons)
