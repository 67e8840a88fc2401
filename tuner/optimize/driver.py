"""A command that only starts others, such as gcc: which of its processes does the work.

All its processes are recorded once, and the one that allocates most is the candidate.  Whether it
can stand for the command is tried by whoever asks: run alone, it must end likewise and take most
of the CPU time.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import TunerError
from tuner.output import scratch_folder
from tuner.recording import record
from tuner.units import show_percent

_MOST = 0.5
"""Of all events: a process with fewer does not stand for the command."""

_NAMED = 3
"""Children that are named."""

_WIDTH = 50
"""Of the command of one, in characters."""

_UNSEEN = "of child processes, whose memory this does not see"


@dataclass(frozen=True)
class ChildWork:
    """A process of the command, by what it allocates."""

    argv: tuple[str, ...]
    share: float
    """Of the events of all processes."""


def workers_of(command: Sequence[str]) -> list[ChildWork]:
    """Return the processes of a command, those with most events first; none if none is recorded."""
    try:
        with scratch_folder() as folder:
            found = record(command, folder / "all.trace", follow=True, is_silent=True).processes
    except TunerError:
        return []
    n_events = max(1, sum(process.totals.n_events for process in found))
    workers = [ChildWork(one.argv, one.totals.n_events / n_events) for one in found]
    return sorted(workers, key=lambda worker: -worker.share)


def heaviest_child(command: Sequence[str], workers: Sequence[ChildWork]) -> tuple[str, ...] | None:
    """Return the arguments of the child that makes most events; None when none does."""
    heaviest = next(iter(workers), None)
    if heaviest is None or heaviest.argv == tuple(command) or heaviest.share < _MOST:
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


def unfollowed_words(command: Sequence[str], share: float, workers: Sequence[ChildWork]) -> str:
    """Return what is said where no child can stand for a command.

    Example:
        >>> unfollowed_words(("./all",), 0.9, [ChildWork(("app", "a b"), 0.4)])[-49:]
        "Tune one of them: app 'a b' (40 % of all events)."
    """
    children = [one for one in workers if one.argv and one.argv != tuple(command)]
    named = "; ".join(
        f"{_shown(one.argv)} ({show_percent(one.share, 0)} of all events)"
        for one in children[:_NAMED]
    )
    advice = f"Tune one of them: {named}." if named else "Give the command of one of them."
    return (
        f"{show_percent(share, 0)} of the CPU time is that {_UNSEEN}, "
        f"and none of which stands for all of it. {advice}"
    )


def _shown(argv: Sequence[str]) -> str:
    text = shlex.join(argv)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def is_unfollowed(notes: Sequence[str]) -> bool:
    """Return whether one of the notes is that of `unfollowed_words`."""
    return any(_UNSEEN in note for note in notes)
