"""Which processes of a service are tuned: one of each role that matters.

Processes of one role call themselves alike but for numbers: ``puma: cluster worker 1: 4711`` and
``puma: cluster worker 0: 4711`` do the same.  The busiest stands for its role.  A role matters by
its share of the work, which is its own events, or of the memory, which is peak live bytes, of all
processes: checkpointers and masters that sleep are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.recording import RecordedProcess

_LEAST_SHARE = 0.1
"""Of work or memory, for a role that matters."""

_MOST_ROLES = 4
"""An evaluation in emulation takes as long as all of them."""

_WORDS = 3
"""Of a title that name a role; behind them stand users, addresses and states."""


@dataclass(frozen=True)
class ProcessRole:
    """Processes that do the same."""

    name: str
    processes: tuple[RecordedProcess, ...]
    """The one with the most events first."""
    work_share: float
    """Of the own events of all processes."""
    memory_share: float
    """Of the peak live bytes of all processes."""

    @property
    def busiest(self) -> RecordedProcess:
        """The process that stands for it."""
        return self.processes[0]

    @property
    def matters(self) -> bool:
        """Return whether it is tuned for."""
        return max(self.work_share, self.memory_share) >= _LEAST_SHARE


def role_name(process: RecordedProcess) -> str:
    """Return what a process calls itself without what differs within its role.

    Example:
        >>> from tests.doubles.recorded import recorded_process
        >>> role_name(recorded_process("postgres: user db 127.0.0.1(4711) idle"))
        'postgres: user db'
        >>> role_name(recorded_process("puma: cluster worker 1: 4711 [app]"))
        'puma: cluster worker'
    """
    words = process.title.split() or [Path(process.argv[0]).name if process.argv else "unknown"]
    plain = [word for word in words if not re.search(r"\d|^\[", word)] or words
    return " ".join(plain[:_WORDS])


def roles_of(processes: Sequence[RecordedProcess]) -> list[ProcessRole]:
    """Return the roles of a service, the one with the most work first.

    Args:
        processes: of one recording.
    """
    groups: dict[str, list[RecordedProcess]] = {}
    for process in sorted(processes, key=lambda one: -one.n_own_events):
        groups.setdefault(role_name(process), []).append(process)
    all_events = sum(one.n_own_events for one in processes) or 1
    all_bytes = sum(one.totals.peak_live_bytes for one in processes) or 1
    found = [
        ProcessRole(
            name,
            tuple(group),
            sum(one.n_own_events for one in group) / all_events,
            sum(one.totals.peak_live_bytes for one in group) / all_bytes,
        )
        for name, group in groups.items()
    ]
    return sorted(found, key=lambda role: -role.work_share)


def roles_that_matter(processes: Sequence[RecordedProcess]) -> list[ProcessRole]:
    """Return the roles that are tuned for, at least one, the one with the most work first."""
    found = roles_of(processes)
    return [role for role in found if role.matters][:_MOST_ROLES] or found[:1]
