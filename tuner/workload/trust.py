"""What a profile's own verdict allows: may a campaign tune with it?

The verdict is written into the profile by `malloc-tuner fidelity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tuner.workload.trace import Trace

LEAST_TAU: Final = 0.8
"""Rank correlation of the peak heap within an allocator below which it is not tuned for.

Over the pairs that truly differ by more than 1 %: nearer ones are ordered by noise.
"""


def weak_families(profile: Mapping[str, Any], allocators: Sequence[str]) -> dict[str, float]:
    """Return the allocators whose peak heap the profile does not rank well, with their tau.

    Args:
        profile: members of the profile; without a verdict nothing is known to be weak.
        allocators: names of those to be tuned.
    """
    verdict = profile.get("fidelity") or {}
    families = (verdict.get("metrics", {}).get("peak_heap") or {}).get("families", {})
    return {
        name: family["tau_differing"]
        for name, family in families.items()
        if name in allocators
        and family["tau_differing"] is not None
        and family["tau_differing"] < LEAST_TAU
    }


def caveat(workload: Trace) -> str | None:
    """Return the sentence that every output about a low-fidelity workload carries, else None."""
    if not workload.is_low_fidelity:
        return None
    return (
        f"low fidelity ({workload.level}): when the program allocated and freed is guessed, so "
        "peaks, means and ranks of memory may be far off; validate on the program"
    )


def summary(profile: Mapping[str, Any]) -> str:
    """Return one line on the verdict of a profile."""
    verdict = profile.get("fidelity")
    if not verdict:
        return "its fidelity is unknown; `malloc-tuner fidelity` measures it"
    parts = []
    for name in ("peak_heap", "mean_heap"):
        found = verdict["metrics"].get(name)
        if found:
            parts.append(
                f"{name} off by {100 * found['median_error']:.1f} % "
                f"(p90 {100 * found['p90_error']:.1f} %, seeds {100 * found['seed_spread']:.1f} %)"
            )
    return f"{'; '.join(parts)} over {verdict['configurations']} configurations"
