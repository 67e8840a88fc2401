"""The program that a trace was recorded of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Final

from tuner.trace.file import Trace

_SHELLS: Final = ("sh", "bash", "dash")
_OPERATORS: Final = frozenset("();<>|&")


@dataclass(frozen=True)
class Recorded:
    """The program as it was recorded."""

    command: tuple[str, ...]
    """Program and arguments; empty where the trace does not say."""
    exit_status: int | None
    """None where the trace does not say, or a signal ended it."""

    def is_run_by(self, command: Sequence[str]) -> bool | None:
        """Return whether a command runs the same program; None where that is not known."""
        if not self.command or not command:
            return None
        mine, other = behind_shell(self.command), behind_shell(command)
        return PurePath(other[0]).name == PurePath(mine[0]).name

    def differs_from(self, command: Sequence[str]) -> str:
        """Say in what a command is another than the recorded one; empty if it is the same."""
        if not self.command:
            return ""
        if not self.is_run_by(command):
            return f"another program than the recorded one ({shlex.join(self.command)})"
        if behind_shell(command)[1:] != behind_shell(self.command)[1:]:
            return f"other arguments than recorded ({shlex.join(self.command)})"
        return ""


def behind_shell(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command, or what a shell that it starts becomes in the end.

    Example:
        >>> behind_shell(("sh", "-c", "rm -f out; exec ./app -v=1,2 2>log"))
        ('./app', '-v=1,2')
        >>> behind_shell(("./app", "-v"))
        ('./app', '-v')
    """
    if PurePath(command[0]).name in _SHELLS and [*command[1:2]] == ["-c"] and command[2:]:
        lexer = shlex.shlex(command[2], posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote is open
            words = []
        if "exec" in words:
            last = words[len(words) - words[::-1].index("exec") :]
            return tuple(_own_words(last, command[2]) or command)
    return tuple(command)


def _own_words(words: Sequence[str], text: str) -> list[str]:
    """Return the words before the first operator, without a descriptor that it redirects.

    Args:
        words: of a command of a shell.
        text: what they are of; of ``2 >log`` and ``2>log`` the words are the same.
    """
    own = [*takewhile(lambda word: not word or not _OPERATORS.issuperset(word), words)]
    operator = "".join(words[len(own) : len(own) + 1])
    if own and own[-1].isdecimal() and operator.startswith(("<", ">")):
        is_apart = re.search(rf"(?<!\S){own[-1]}{re.escape(operator)}", text) is None
        return own if is_apart else own[:-1]
    return own


def recorded_in(trace: Path) -> Recorded:
    """Return what a trace knows of its program.

    Raises:
        TraceError: it cannot be read.
    """
    with Trace(trace) as opened:
        known = opened.metadata
    # Older traces and those of children have the arguments alone.
    command, status = known.get("command") or known.get("argv"), known.get("exit_status")
    return Recorded(
        tuple(map(str, command)) if isinstance(command, list) else (),
        status if isinstance(status, int) else None,
    )
