"""A command that only starts others, such as gcc: which of its processes does the work.

All its processes are recorded once, and the one that allocates most is the candidate.  Whether it
can stand for the command is tried by whoever asks: run alone, it must end likewise and take most
of the CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.errors import TunerError
from tuner.output import scratch_folder
from tuner.recording import record
from tuner.units import show_percent

_MOST = 0.5
"""Of all events: a process with fewer does not stand for the command."""


def heaviest_child(command: Sequence[str]) -> tuple[str, ...] | None:
    """Return the arguments of the child that makes most events.

    Returns:
        None when none makes most of them, or nothing could be recorded.
    """
    try:
        with scratch_folder() as folder:
            found = record(command, folder / "all.trace", follow=True, is_silent=True).processes
    except TunerError:
        return None
    heaviest = max(found, key=lambda process: process.totals.n_events)
    n_events = sum(process.totals.n_events for process in found)
    if heaviest.argv == tuple(command) or heaviest.totals.n_events < _MOST * n_events:
        return None
    return heaviest.argv or None


def followed_words(command: Sequence[str], child: Sequence[str], share: float) -> str:
    """Return what is said of a command that its child stands for.

    Example:
        >>> followed_words(("g++", "a.cc"), ("/usr/libexec/cc1plus",), 1.06)[:47]
        "100 % of the CPU time of g++ is its child's, cc"
    """
    # Both ran, one after the other: the share may exceed 1 by their noise.
    return (
        f"{show_percent(min(share, 1.0), 0)} of the CPU time of {Path(command[0]).name} is its "
        f"child's, {Path(child[0]).name}: figures are of that child, run alone."
    )


def unfollowed_words(share: float) -> str:
    """Return what is said where no child can stand for a command."""
    return (
        f"{show_percent(share, 0)} of the CPU time is that of child processes, whose memory this "
        "does not see, and none of which could be run alone; give the command of the child itself."
    )
