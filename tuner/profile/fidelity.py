"""How well a profile stands for its trace: what `malloc-tuner fidelity` writes into it.

Errors, spreads and regrets are ratios, not percents.  A family is the configurations of one
allocator.  The first four figures of a metric are over all configurations and relative to the
trace; the model's value is the median over seeds.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from tuner.errors import TraceError

SCHEMA: Final = "malloc-tuner.fidelity"
VERSION: Final = 1
"""Schema and version of a verdict."""


@dataclass(frozen=True)
class FamilyFidelity:
    """One metric within one allocator."""

    configurations: int = 0
    true_spread: float | None = None
    """Greatest over least value of the trace, less 1."""
    tau: float | None = None
    """Kendall's tau-b, differences below 0.5 % as ties; None where all are."""
    tau_differing: float | None = None
    """Tau over the `pairs` that truly differ by more than 1 %; None where there are none."""
    pairs: int = 0
    regret: float = 0.0
    """What the model's pick loses on the trace."""


@dataclass(frozen=True)
class MetricFidelity:
    """One metric over all configurations.  Errors are None where the two sides differ in unit."""

    median_error: float | None = None
    """Of absolute errors, as the two that follow."""
    p90_error: float | None = None
    worst_error: float | None = None
    bias: float | None = None
    """Mean of the signed errors."""
    resolution: float | None = None
    """Relative difference below which two configurations differ by the model's noise alone; None
    where it is not known."""
    seed_spread: float = 0.0
    """Greatest less least value of the seeds over that of the trace; median, then greatest."""
    worst_seed_spread: float = 0.0
    tau: float | None = None
    regret: float = 0.0
    families: Mapping[str, FamilyFidelity] = field(default_factory=dict)
    """By allocator."""


@dataclass(frozen=True)
class ShrunkMetric:
    """How a shrunk profile ranks one metric beside the whole one."""

    tau: float | None = None
    regret: float = 0.0
    families: Mapping[str, float | None] = field(default_factory=dict)
    """Allocator -> `FamilyFidelity.tau_differing`."""


@dataclass(frozen=True)
class ShrunkFidelity:
    """A shrunk profile beside the whole one, for screening."""

    fidelity: float
    """Its share of the allocations."""
    configurations: int = 0
    time_share: float | None = None
    """Of the time that the whole profile takes."""
    metrics: Mapping[str, ShrunkMetric | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramFidelity:
    """Profile and trace beside the program's median.

    Resident anonymous memory stands for the heap and CPU time for ``cost``.
    """

    command: tuple[str, ...]
    rounds: int
    configurations: int
    left_out: tuple[str, ...]
    spread: Mapping[str, float | None]
    """Metric -> median over configurations of the spread of the program's own runs."""
    metrics: Mapping[str, MetricFidelity | None]
    """Of the profile."""
    trace_metrics: Mapping[str, MetricFidelity | None]


@dataclass(frozen=True)
class Fidelity:
    """All that is known; without `metrics` the profile was not compared with its trace."""

    schema: str = SCHEMA
    version: int = VERSION
    configurations: int = 0
    """How many were compared."""
    left_out: tuple[str, ...] = ()
    """Configurations that failed or were refused."""
    seeds: tuple[int, ...] = ()
    """Of the workloads that were generated."""
    live_curve_distance: float | None = None
    """Mean distance of two curves over the mean of the trace's, as of the next two; these are
    medians over configurations."""
    heap_curve_distance: float | None = None
    fragmentation_curve_distance: float | None = None
    size_distance: float | None = None
    """Half the sum of differences of two histograms of sizes: 0 equal, 1 disjoint."""
    metrics: Mapping[str, MetricFidelity | None] = field(default_factory=dict)
    """By name; None: not measured, or 0 on the trace."""
    level: str | None = None
    """Of the profile."""
    caveat: str | None = None
    """What has to be said of a profile of low fidelity."""
    shrunk: tuple[ShrunkFidelity, ...] = ()
    program: ProgramFidelity | None = None
    """None where the program was not given."""
    allocators: Mapping[str, str] = field(default_factory=dict)
    """Name -> version."""
    trace_events: int | None = None
    """Of the trace; None where there was none."""
    incidents: tuple[str, ...] = ()
    """What the machine did that may have moved figures; a sentence each."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a profile and ``--json`` hold it."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return found


def fidelity_of(profile: Mapping[str, Any]) -> Fidelity:
    """Return the verdict in the members of a profile; an empty one where it has none.

    Raises:
        TraceError: it is malformed.
    """
    try:
        return _adapter().validate_python(profile.get("fidelity") or {})
    except ValidationError as error:
        where = ".".join(str(part) for part in ("fidelity", *error.errors()[0]["loc"]))
        raise TraceError(
            f"the profile is malformed at {where}; `malloc-tuner fidelity --trace` judges it anew"
        ) from error


@functools.cache
def _adapter() -> TypeAdapter[Fidelity]:
    return TypeAdapter(Fidelity)
