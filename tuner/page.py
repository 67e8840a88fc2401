"""Words and lines of a page: text is broken at blanks, but not between a figure and its unit.

``-3.1 %`` and ``1.4 MiB`` stay whole, as does a change with its interval: ``-3 % (-4 .. -1)``.
"""

import re
import textwrap
from collections.abc import Iterable

_HARD_SPACE = "\N{NO-BREAK SPACE}"
_SIGN = "[-+±\N{MULTIPLICATION SIGN}]"
_UNBROKEN = re.compile(rf" (?=%|{_SIGN}\d|\({_SIGN}|\.\. |(?<=\d )(?:[KMGT]i?B|[nµum]?s|min)\b)")
"""Blanks where no line ends."""


def wrapped(text: str, width: int, others: str = "") -> list[str]:
    """Return a text as lines of a page.

    Args:
        text: one paragraph; its blanks are kept where it is not broken.
        width: columns of a line; a word that is longer has a line of its own.
        others: begins all but the first.

    Example:
        >>> wrapped("mean memory becomes less by 3.1 %", 32, others="  ")
        ['mean memory becomes less by', '  3.1 %']
    """
    lines = textwrap.wrap(
        _UNBROKEN.sub(_HARD_SPACE, text),
        width,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def series(words: Iterable[str], joint: str = "and") -> str:
    """Return words as a sentence lists them.

    Args:
        words: one at least.
        joint: stands before the last.

    Example:
        >>> series(["a"]), series(["a", "b"]), series(["a", "b", "c"], "or")
        ('a', 'a and b', 'a, b or c')
    """
    *first, last = words
    return f"{', '.join(first)} {joint} {last}" if first else last
