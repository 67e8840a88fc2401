"""A command that only starts others, such as gcc: which of its processes does the work.

All its processes are recorded once, and the one that uses most CPU time is the candidate.  Whether
it can stand for the command is tried by whoever asks: run alone, it must end likewise and take most
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
from tuner.recording import Recording, record
from tuner.recording.descendants import ProcessUse
from tuner.units import show_percent

_MOST = 0.5
"""Of the CPU time, or all events: a process with less does not stand for the command."""

_SEEN = 0.5
"""Of the CPU time of a recording, that of processes that were seen to use it: where it is less,
most end too soon to be seen, and events have to do."""

_NAMED = 3
"""Children that are named."""

_WIDTH = 50
"""Of the command of one, in characters."""

_ADVISED_WIDTH = 200
"""Of the command that is advised; one of a compiler has thousands."""


_UNSEEN: Final = ProcessUse(0, "")

RUN_ALONE: Final = "figures are of that child, run alone"
"""Part of what is said of a command that its child stands for."""


@dataclass(frozen=True)
class ChildWork:
    """A process of the command, by what it uses."""

    argv: tuple[str, ...]
    share: float
    """Of the CPU time of all processes, or of their events."""
    is_own: bool = False
    """It is the command itself, which may be another program by now, or a fork of it."""
    reads: str = ""
    """See `ProcessUse.reads`."""
    is_by_events: bool = False
    """What the share is of."""

    @property
    def has_input(self) -> bool:
        """Whether it reads what it does not have when run alone: a pipe, or a file."""
        return bool(self.reads) and not self.reads.startswith("/dev/")


def workers_of(command: Sequence[str], limit_s: float | None = None) -> list[ChildWork]:
    """Return the processes of a command, the heaviest first; none if none is recorded.

    Processes with the same arguments, such as forks, count as one.

    Args:
        command: it.
        limit_s: of the recording, in seconds; None for none.
    """
    try:
        with scratch_folder() as folder:
            trace = folder / "all.trace"
            made = record(
                command, trace, follow=True, is_silent=True, timeout_s=limit_s, is_watched=True
            )
    except TunerError:
        return []
    return _workers(command, made)


def _workers(command: Sequence[str], made: Recording) -> list[ChildWork]:
    """Return the processes of a recording, the heaviest first."""
    uses, ending = made.ending.uses, made.ending
    cpu_ns = sum(one.cpu_ns for one in uses.values())
    is_by_events = cpu_ns < _SEEN * 1e9 * ending.cpu_s or not cpu_ns
    own = {tuple(command), *(one.argv for one in made.processes if one.pid == ending.pid)}
    amounts, reads = Counter[tuple[str, ...]](), dict[tuple[str, ...], str]()
    for one in made.processes:
        use = uses.get(one.pid, _UNSEEN)
        amounts[one.argv] += one.totals.n_events if is_by_events else use.cpu_ns
        reads.setdefault(one.argv, use.reads)
    n_all = max(1, amounts.total() if is_by_events else cpu_ns)
    return [
        ChildWork(argv, n / n_all, argv in own, reads[argv], is_by_events)
        for argv, n in amounts.most_common()
    ]


def heaviest_child(workers: Sequence[ChildWork]) -> tuple[str, ...] | None:
    """Return the arguments of the child that does most of the work; None when none does."""
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
        unfit: arguments of a child that was tried, with no input, and cannot be tuned so.

    Example:
        >>> unfollowed_words(("./all",), 0.9, [ChildWork(("/bin/app", "a b"), 0.4)])[1]
        "the heaviest by CPU time: app 'a b' (40 %)"
    """
    children = [one for one in workers if one.argv and not one.is_own]
    what = children_words(share)
    said: tuple[str, ...] = (what,)
    if children:
        unit = "events of malloc and free" if children[0].is_by_events else "CPU time"
        named = [f"{_shown(one.argv)} ({show_percent(one.share, 0)})" for one in children[:_NAMED]]
        said = (what, f"the heaviest by {unit}: {', '.join(named)}")
    fit = next((one for one in children if one.argv != unfit or one.has_input), None)
    if fit is not None:
        return *said, _advice(fit)
    recording = f"malloc-tuner record --follow -o children.trace -- {shlex.join(command)}"
    advice = (
        "tune the program that does the work in its place; what does not run alone, by its trace: "
        f"`{recording}`"
    )
    return *said, advice


def _advice(child: ChildWork) -> str:
    """Return how a child is tuned in place of the command, with what it reads."""
    name, command = Path(child.argv[0]).name, _cut(child.argv, _ADVISED_WIDTH)
    alone = f"`malloc-tuner optimize -- {command}`"
    if not child.reads:
        piped = "malloc-tuner optimize -- sh -c 'exec ./app < FILE'"
        return (
            "tune one of them in its place; if it reads a pipe or a redirect, let a shell open a "
            f"file: `{piped}`; else {alone}"
        )
    if not child.has_input:
        return f"tune {name} in its place: {alone}"
    is_file = Path(child.reads).is_file()
    file = shlex.quote(child.reads) if is_file else "FILE"
    opened = shlex.join(["sh", "-c", f"exec {command} < {file}"])
    with_it = f"`malloc-tuner optimize -- {opened}`"
    if is_file:
        return f"tune {name} in its place, with the file that it reads: {with_it}"
    return f"{name} reads what another program writes: have that in a file, then {with_it}"


def _shown(argv: Sequence[str]) -> str:
    return _cut([Path(argv[0]).name, *argv[1:]], _WIDTH)


def _cut(argv: Sequence[str], width: int) -> str:
    text = shlex.join(argv)
    return text if len(text) <= width else f"{text[: width - 3]}..."
