"""The clocks of the machine and of this process: what others did between two moments.

Source: proc_stat(5), whose first line counts clock ticks of all cores by what they did.
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE, _IO_WAIT, _STEAL, _N_KINDS = 3, 4, 7, 8
"""Columns: user nice system idle iowait irq softirq steal; guests are within user and nice."""


@dataclass(frozen=True)
class Snapshot:
    """The clocks at one moment, in seconds."""

    elapsed_s: float
    busy_s: float
    """Of all cores, stolen time apart."""
    stolen_s: float
    own_s: float
    """CPU time of this process and of all that it waited for."""

    @property
    def others_s(self) -> float:
        """Time that other programs and the host took of all cores."""
        return self.busy_s + self.stolen_s - self.own_s


def snapshot() -> Snapshot | None:
    """Read the clocks; None where the system has none."""
    try:
        words = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    return _snapshot(list(map(int, words)), time.monotonic(), _own_s())


def _snapshot(ticks: list[int], elapsed_s: float, own_s: float) -> Snapshot | None:
    if len(ticks) < _N_KINDS:
        return None
    second = os.sysconf("SC_CLK_TCK")
    idle = (_IDLE, _IO_WAIT, _STEAL)
    busy = sum(n for kind, n in enumerate(ticks[:_N_KINDS]) if kind not in idle)
    return Snapshot(elapsed_s, busy / second, ticks[_STEAL] / second, own_s)


def _own_s() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
