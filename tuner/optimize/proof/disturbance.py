"""What else the machine did while the program ran: other programs, and a host that took its time.

The tests hold under any load; it costs rounds.  So it is said, for a quiet machine decides sooner.
Threads that never run at once do not contend: of a program that has some, load hides what that
costs.
"""

from typing import Final

from tuner.measure.clocks import Snapshot
from tuner.units import show_percent

_MUCH_OTHERS, _MUCH_STOLEN = 0.2, 0.02
"""Cores that others used, and share of all time that was stolen, from which it is said."""

_LEAST_S: Final = 1.0
"""Ticks of a shorter time say nothing."""


def disturbance_words(
    before: Snapshot | None,
    after: Snapshot | None,
    n_cores: int,
    n_threads: int | None = None,
    *,
    by_clock: str = "",
) -> str | None:
    """Return what else the machine did between two moments; None where that is little.

    Args:
        before: the first moment.
        after: the second one.
        n_cores: of the machine.
        n_threads: of the program; None: unknown.
        by_clock: allocator that is deployed and gives freed memory back by the clock; empty: none.

    Example:
        >>> disturbance_words(Snapshot(0, 0, 0, 0), Snapshot(100, 190, 8, 90), 2)
        'Meanwhile other programs used 1.0 of 2 cores and the host took 4 % of their time; on a \
quiet machine CPU time is decided sooner.'
    """
    if before is None or after is None or after.elapsed_s - before.elapsed_s < _LEAST_S:
        return None
    elapsed_s = after.elapsed_s - before.elapsed_s
    others = (after.busy_s - before.busy_s - (after.own_s - before.own_s)) / elapsed_s
    stolen = (after.stolen_s - before.stolen_s) / (elapsed_s * n_cores)
    found = []
    if others >= _MUCH_OTHERS:
        found.append(f"other programs used {others:.1f} of {n_cores} cores")
    if stolen >= _MUCH_STOLEN:
        found.append(
            f"the host took {show_percent(stolen, 0)} of {'their' if found else 'its'} time"
        )
    if not found:
        return None
    meanwhile = f"Meanwhile {' and '.join(found)}"
    if (n_threads or 1) > 1:
        return (
            f"{meanwhile}, so the program's threads met less often than on a quiet machine, where "
            "the change of CPU time may differ."
        )
    sooner = f"{meanwhile}; on a quiet machine CPU time is decided sooner"
    if by_clock:
        return (
            f"{sooner}, and {by_clock}, which gives freed memory back after a time, may hold more, "
            "since the same work takes less of it."
        )
    return f"{sooner}."
