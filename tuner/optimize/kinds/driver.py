"""A command that only starts others, such as gcc: which of its processes does the work.

All its processes are recorded once, and the one that allocates most is the candidate.  Whether it
can stand for the command is tried by whoever asks: run alone, it must end likewise and take most
of the CPU time.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

_ADVISED_WIDTH = 200
"""Of the command that is advised; one of a compiler has thousands."""


RUN_ALONE: Final = "figures are of that child, run alone"
"""Part of what is said of a command that its child stands for."""


@dataclass(frozen=True)
class ChildWork:
    """A process of the command, by what it allocates."""

    argv: tuple[str, ...]
    share: float
    """Of the events of all processes."""
    is_own: bool = False
    """It is the command itself, which may be another program by now, or a fork of it."""


def workers_of(command: Sequence[str], limit_s: float | None = None) -> list[ChildWork]:
    """Return the processes of a command, those with most events first; none if none is recorded.

    Processes with the same arguments, such as forks, count as one.

    Args:
        command: it.
        limit_s: of the recording, in seconds; None for none.
    """
    try:
        with scratch_folder() as folder:
            trace = folder / "all.trace"
            made = record(command, trace, follow=True, is_silent=True, timeout_s=limit_s)
    except TunerError:
        return []
    own = {tuple(command), *(one.argv for one in made.processes if one.pid == made.ending.pid)}
    n_events = Counter[tuple[str, ...]]()
    for one in made.processes:
        n_events[one.argv] += one.totals.n_events
    n_all = max(1, n_events.total())
    return [ChildWork(argv, n / n_all, argv in own) for argv, n in n_events.most_common()]


def heaviest_child(workers: Sequence[ChildWork]) -> tuple[str, ...] | None:
    """Return the arguments of the child that makes most events; None when none does."""
    heaviest = next(iter(workers), None)
    if heaviest is None or heaviest.is_own or heaviest.share < _MOST:
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
        f"child's, {Path(child[0]).name}: {RUN_ALONE}."
    )


def children_words(share: float) -> str:
    """Return what is said of children that take a share of the CPU time."""
    cpu = show_percent(share, 0)
    return f"{cpu} of the CPU time is that of child processes, whose memory is not measured"


def unfollowed_words(
    command: Sequence[str],
    share: float,
    workers: Sequence[ChildWork],
    unfit: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Return what is said where no child can stand for a command: what is so, and what to do.

    Args:
        command: the command.
        share: of its CPU time, what its children take.
        workers: its processes.
        unfit: arguments of a child that was tried, and cannot be tuned in its place.

    Example:
        >>> unfollowed_words(("./all",), 0.9, [ChildWork(("/bin/app", "a b"), 0.4)])[1]
        "the heaviest: app 'a b' (40 % of all events of malloc and free)"
    """
    children = [one for one in workers if one.argv and not one.is_own]
    what = children_words(share)
    said: tuple[str, ...] = (what,)
    if children:
        shares = [f"{_shown(one.argv)} ({show_percent(one.share, 0)}" for one in children[:_NAMED]]
        said = (what, f"the heaviest: {'), '.join(shares)} of all events of malloc and free)")
    fit = next((one.argv for one in children if one.argv != unfit), None)
    if fit is not None:
        instead = f"malloc-tuner optimize -- {_cut(fit, _ADVISED_WIDTH)}"
        piped = "malloc-tuner optimize -- sh -c 'exec ./app < FILE'"
        return *said, (
            "tune one of them in its place; if it reads a pipe or a redirect, let a shell open a "
            f"file: `{piped}`; else `{instead}`"
        )
    recording = f"malloc-tuner record --follow -o children.trace -- {shlex.join(command)}"
    advice = (
        "tune the program that does the work in its place; what does not run alone, by its trace: "
        f"`{recording}`"
    )
    return *said, advice


def _shown(argv: Sequence[str]) -> str:
    return _cut([Path(argv[0]).name, *argv[1:]], _WIDTH)


def _cut(argv: Sequence[str], width: int) -> str:
    text = shlex.join(argv)
    return text if len(text) <= width else f"{text[: width - 3]}..."
