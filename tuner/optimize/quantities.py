"""What is measured of a program: the one table; a row here, and tables and files have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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

    @property
    def is_memory(self) -> bool:
        """Memory repeats itself well: no floor of noise, half the least effect is a gain."""
        return self.unit == "bytes"


TABLE: Final = {
    row.name: row
    for row in (
        Quantity(MEAN, "bytes", "mean_heap"),
        Quantity(PEAK, "bytes", "peak_heap"),
        Quantity(CPU, "ns", "cost"),
    )
}
"""All quantities by name."""
