"""What is measured of a program: the one table; a row here, and tables and files have it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from tuner.metrics import SERVICE, Metric

MEAN, PEAK, CPU = "mean memory", "peak memory", "CPU time"
QUANTITIES = (MEAN, PEAK, CPU)
"""Of a program that ends, in the order of tables."""


@dataclass(frozen=True)
class Quantity:
    """One thing that is measured of every run; above 0."""

    name: str
    """As tables have it."""
    unit: Literal["bytes", "ns", "1/s"]
    emulated: str | None
    """Metric of emulation whose change is expected of it; None: emulation says nothing of it."""
    is_more_better: bool = False
    is_per_request: bool = False
    """True for what emulation knows of a whole recording only."""

    @property
    def is_memory(self) -> bool:
        """Memory repeats itself well: no floor of noise, half the least effect is a gain."""
        return self.unit == "bytes"


def _of_service(metric: Metric) -> Quantity:
    unit = cast("Literal['bytes', 'ns', '1/s']", metric.unit)
    is_per_request = metric.name == "cpu"
    return Quantity(metric.label, unit, metric.emulated, metric.is_more_better, is_per_request)


SERVICE_NAMES: Final = {m.name: m.label for m in SERVICE.values() if m.name != "growth"}
"""Metric of a service that is judged -> quantity."""

GROWTH: Final = SERVICE["growth"].label
"""Kept with the quantities of a service and shown, but never judged: it may be 0 or below."""

TABLE: Final = {
    row.name: row
    for row in (
        Quantity(MEAN, "bytes", "mean_heap"),
        Quantity(PEAK, "bytes", "peak_heap"),
        Quantity(CPU, "ns", "cost"),
        *(_of_service(SERVICE[name]) for name in SERVICE_NAMES if name not in ("mean", "peak")),
    )
}
"""All quantities by name."""

LATENCIES: Final = frozenset(
    row.name for row in TABLE.values() if row.unit == "ns" and row.emulated is None
)
"""Those of requests to a service, as far as its load prints them."""


def key_of(name: str) -> str:
    """Return a quantity as files and options name it: ``mean_memory``."""
    return name.lower().replace(" ", "_")


def emulated_values(values: Mapping[str, float]) -> dict[str, float]:
    """Return values of the program by the metric of emulation that is a part of them.

    Example:
        >>> emulated_values({CPU: 4e8, MEAN: 1e6})
        {'cost': 400000000.0, 'mean_heap': 1000000.0}
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        metric = TABLE[name].emulated
        if metric is not None:
            found.setdefault(metric, value)
    return found
