"""Rows of what the program itself measured, and the table they are shown in."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.optimize.proof.judgement import Gain
from tuner.optimize.quantities import MEAN, PEAK, TABLE
from tuner.optimize.tuned import AS_IS
from tuner.page import series
from tuner.units import percent_range, show_size, signed_percent

LABEL_WIDTH: Final = 40
"""Of the first column; a longer label has lines of its own."""

_NARROW_LABEL_WIDTH: Final = 20
"""The same where there are too many quantities for bounds."""

TABLE_WIDTH: Final = 96

_TIGHT: Final = 11
"""Columns of a figure without bounds, ``1023.9 MiB``, where a table is too wide otherwise."""
_GAP: Final = 2
"""Blanks between the heads of columns."""

_MOST_WITH_BOUNDS: Final = 4
"""Quantities of a table whose cells show bounds."""

_FAR_BELOW: Final = 0.5
"""Of the peak, a mean of which is said why, where the peak is below `_SMALL` bytes."""
_SMALL: Final = 32.0 * 2**20

ROUNDS: Final = "rounds"
FEW_RUNS: Final = "few runs"

_LEAST_MS: Final = 0.1
_WITHOUT_DECIMALS: Final = 1000.0
"""Times below it are shown in us."""

TURNED_DOWN: Final = "turned down by the held-out"
"""Begin of the note of a candidate that is worse on what was not tuned on."""


@dataclass(frozen=True)
class AnswerRow:
    """A subject in the table: what it changes, as far as runs have shown it."""

    label: str
    changes: Mapping[str, Gain]
    """Empty when it did not run well."""
    is_candidate: bool = False
    """Rounds of new runs compared it with the program as it is; else it ran once or three times."""
    note: str = ""
    """Why it left: ``worse: CPU time``, or how it failed."""
    is_open: bool = False
    """It gains more than what is deployed, and its rounds do not prove yet that its guards hold."""

    @property
    def ran(self) -> str:
        """How often it ran: ``few runs``, ``few rounds`` for bounds of all changes, ``rounds``."""
        if not self.is_candidate:
            return FEW_RUNS
        is_bound = all(gain.bounds is not None for gain in self.changes.values())
        return ROUNDS if is_bound else "few rounds"

    @property
    def is_smoothed(self) -> bool:
        """Whether it is shown as all runs together say, of which few are its own."""
        changes = self.changes.values()
        return not self.is_candidate and any(gain.smoothed is not None for gain in changes)


def rows_table(
    as_is: str,
    baseline: Mapping[str, float],
    rows: Sequence[AnswerRow],
    columns: int = TABLE_WIDTH,
) -> Iterator[str]:
    """Yield a table: the program as it is, then every row, each change with its bounds.

    Args:
        as_is: allocator of the program as it is.
        baseline: quantity -> its value; the columns.
        rows: in their order.
        columns: of the page; a table that needs more becomes several.
    """
    names = list(baseline)
    has_bounds = len(names) <= _MOST_WITH_BOUNDS
    head = as_is_words(as_is)
    most = (LABEL_WIDTH if has_bounds else _NARROW_LABEL_WIDTH) - (TABLE_WIDTH - columns)
    labels = [row.label for row in rows if len(row.label) <= most - 2]
    width = max(len(head), *map(len, labels), 0) + 2
    parts = _parts(names, columns - width, has_bounds=has_bounds)
    for widths in parts:
        is_last = widths is parts[-1]
        yield from (" " * width + line for line in _heads(widths))
        values = (f"{value_words(name, baseline[name]):>{widths[name]}}" for name in widths)
        yield f"{head:<{width}}" + "".join(values)
        for row in rows:
            if is_last or row.changes:
                cells = _cells(row, widths, has_bounds=has_bounds)
                yield from _row_lines(row, width, cells, row.note if is_last else "", columns)
        if not is_last:
            yield ""
    if has_bounds:
        yield from _hint(names, rows)
    if any(row.is_smoothed for row in rows):
        yield "what had few runs is shown as a model of all runs expects it"
    peak = baseline.get(PEAK, 0.0)
    if baseline.get(MEAN, peak) < _FAR_BELOW * peak <= _FAR_BELOW * _SMALL:
        yield "peak memory has mapped files in it, such as libraries; mean memory has not"


def _parts(names: Sequence[str], room: int, *, has_bounds: bool) -> list[dict[str, int]]:
    """Return the widths of columns: of one table, or of several where one needs more room."""
    roomy = {name: _column(name, has_bounds=has_bounds) for name in names}
    if sum(roomy.values()) <= room:
        return [roomy]
    tight = {name: _column(name, has_bounds=has_bounds, is_tight=True) for name in names}
    parts: list[dict[str, int]] = [{}]
    for name, width in tight.items():
        if parts[-1] and sum(parts[-1].values()) + width > room:
            parts.append({})
        parts[-1][name] = width
    return parts


def _heads(widths: Mapping[str, int]) -> Iterator[str]:
    """Yield the names of columns; those that are too long for theirs are broken at blanks."""
    heads = [n.split() if len(n) + _GAP > width else [n] for n, width in widths.items()]
    height = max(map(len, heads))
    for line in zip(*([""] * (height - len(head)) + head for head in heads), strict=True):
        yield "".join(f"{w:>{width}}" for w, width in zip(line, widths.values(), strict=True))


def _cells(row: AnswerRow, widths: Mapping[str, int], *, has_bounds: bool) -> str:
    if not row.changes:
        return ""
    return "".join(
        f" {_cell(row.changes.get(name), name, has_bounds=has_bounds):>{width - 1}}"
        for name, width in widths.items()
    )


def _row_lines(row: AnswerRow, width: int, cells: str, note: str, columns: int) -> Iterator[str]:
    """Yield a row: a long label stands above its figures, and a long note below them."""
    text = f"{cells}  {note}" if cells else note
    below = ""
    if cells and width + len(text.rstrip()) > columns:
        text, below = cells, note
    if len(row.label) > width - 2:
        yield from textwrap.wrap(row.label, columns, subsequent_indent="  ")
        yield f"{'':<{width}}{text}".rstrip()
    else:
        yield f"{row.label:<{width}}{text}".rstrip()
    if below:
        yield from textwrap.wrap(below, columns, initial_indent=" " * 4, subsequent_indent=" " * 4)


def _hint(names: Iterable[str], rows: Iterable[AnswerRow]) -> Iterator[str]:
    """Say so where changes of times have no bounds: few runs show little of memory either."""
    times = [name for name in names if not TABLE[name].is_memory]
    gains = [row.changes[name] for row in rows for name in times if name in row.changes]
    inexact = [gain.bounds for gain in gains if not gain.is_exact]
    if None in inexact:
        where = " without a range" if any(inexact) else ""
        too = ", and memory beside it" if any(TABLE[name].is_memory for name in names) else ""
        yield f"{series(times)}{where}{too}: few runs or rounds, no proof"


def as_is_words(allocator: str) -> str:
    """Return the label of the baseline: ``as it is (glibc)``."""
    return f"{AS_IS} ({allocator})"


def _cell(gain: Gain | None, name: str, *, has_bounds: bool) -> str:
    if gain is None:
        return "-"
    return gain_words(gain, with_bounds=has_bounds and not TABLE[name].is_memory)


def gain_words(gain: Gain, *, with_bounds: bool) -> str:
    """Return a change: ``-4.0 % (-7.1 .. -1.0)``; without bounds where it repeats itself.

    Example:
        >>> gain_words(Gain(0.0, -0.01, 0.01), with_bounds=True)
        '±0.0 % (-1.0 .. +1.0)'
    """
    text = signed_percent(gain.change)
    if with_bounds and gain.bounds is not None and not gain.is_exact:
        text += f" ({percent_range(*gain.bounds)})"
    return text


def loss_words(name: str, gain: Gain) -> str:
    """Return what became worse, by how much, and what was allowed of it.

    Example:
        >>> loss_words("peak memory", Gain(-0.06, -0.06, -0.06, limit=0.005, is_halved=True))
        'peak memory +6.2 % (limit 0.5 %, halved as it repeats itself)'
    """
    limit = limit_words(gain.limit, is_halved=gain.is_halved)
    return f"{name} {signed_percent(gain.change)}{limit}"


def limit_words(limit: float | None, *, is_halved: bool = False) -> str:
    """Return in brackets how much worse a guard may become; nothing of what is none."""
    why = ", halved as it repeats itself" if is_halved else ""
    return "" if limit is None else f" (limit {100.0 * limit:.3g} %{why})"


def _column(name: str, *, has_bounds: bool, is_tight: bool = False) -> int:
    """Return the width of a column: those of times show bounds where there is room."""
    if has_bounds and not TABLE[name].is_memory:
        return 25
    if is_tight:
        return max(_TIGHT, *(len(word) + _GAP for word in name.split()))
    return max(15 if has_bounds else 11, len(name) + _GAP)


def value_words(name: str, value: float) -> str:
    """Return a value of a quantity with its unit: ``13.5 MiB``, ``526 ms``."""
    unit = TABLE[name].unit
    if unit == "bytes":
        return show_size(round(value))
    if unit == "1/s":
        return f"{value:,.0f}"
    number, word = (value / 1e6, "ms") if value >= _LEAST_MS * 1e6 else (value / 1e3, "us")
    return f"{number:,.0f} {word}" if number >= _WITHOUT_DECIMALS else f"{number:.4g} {word}"
