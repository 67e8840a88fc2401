"""The front as a table in a terminal."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from tuner.front.bounds import OWN
from tuner.front.kept import RECOMMENDED
from tuner.front.picks import BALANCED, KNEE, NO_REGRET
from tuner.metrics import METRICS, Metric, find_metrics
from tuner.page import series, wrapped
from tuner.records import Trial
from tuner.report.columns import scale_of, show_change, show_expected
from tuner.report.parallel import show_value
from tuner.report.table import DOMINATED, FRONT, INFEASIBLE, FrontTable, TrialRow
from tuner.stats import TIE

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH_OF_A_PIPE = 100
"""Columns when the output is no terminal."""

_SETTINGS_WIDTH = range(18, 32)
"""Columns that settings get at least, if they need them: the longest one is not broken in two
where that or the names of picks below the settings make all fit the terminal."""

_MARKS_WIDTH = 15
"""Columns that the names of picks are folded into."""

_NEAR = "near the front"

_Point: TypeAlias = tuple[float | None, ...]

MOST_POINTS = 12
"""Points of the front that are shown unless all are wanted."""


def width_for(table: Table | None = None) -> int:
    """Return how many columns to print with.

    As many as the terminal has, many in a pipe, and never fewer than `table`
    needs: a line that the terminal folds can be read, a number cut off cannot.
    """
    from rich.console import Console  # noqa: PLC0415 - not needed by --help

    width = shutil.get_terminal_size((_WIDTH_OF_A_PIPE, 24)).columns
    if table is None:
        return width
    console = Console(width=sys.maxsize, markup=False, emoji=False)
    return max(width, console.measure(table).maximum)


def table_text(table: FrontTable, *, color: bool = False, everything: bool = False) -> str:
    """Write the rows with their objectives, the change of each, and the settings.

    Args:
        table: the rows.
        color: True colours changes for a terminal.
        everything: True shows every row; else points with nearly equal figures are one, and
            a dozen are shown.
    """
    full, alike = table, dict[int, int]()
    if not everything:
        table, alike = condensed(table)
    from rich.console import Console  # noqa: PLC0415 - not needed by --help

    metrics = find_metrics(table.objectives)
    blocks = _blocks(table, alike, metrics, max(width_for(), _WIDTH_OF_A_PIPE))
    longest = _settings_width(table)
    layouts = ((longest, False), (longest, True), (_SETTINGS_WIDTH.start, True))
    widths = {
        (settings, is_below): max(
            width_for(_rich_table(table, alike, block, settings, has_marks_below=is_below))
            for block in blocks
        )
        for settings, is_below in layouts
    }
    chosen = next((one for one in layouts if widths[one] <= width_for()), layouts[1])
    width, (_, is_below) = widths[chosen], chosen
    text = io.StringIO()
    console = Console(
        file=text, width=width, force_terminal=color, color_system="standard" if color else None
    )
    for block in blocks:
        console.print(_rich_table(table, alike, block, has_marks_below=is_below))
    n_hidden = len(full.rows) - len(table.rows) - sum(alike.values())
    if n_hidden:
        console.print(f"{n_hidden} more points of the front: --all", highlight=False)
    for line in _footer(full):
        text.write("\n".join(wrapped(line, min(width, width_for()))) + "\n")
    return text.getvalue()


def condensed(table: FrontTable) -> tuple[FrontTable, dict[int, int]]:
    """Return the table with near points merged, and how many more each trial stands for.

    Points of the front within `TIE` of each other in every objective, as a share of the whole
    program where that is known, are one row: that of a pick, of a default, or of the fewest
    settings.  Of more than `MOST_POINTS` those are kept that are picks, and others evenly along
    the front.
    """
    front = [row for row in table.rows if row.state == FRONT]
    leaders: list[TrialRow] = []
    alike: dict[int, list[TrialRow]] = {}
    for row in sorted(front, key=_simplicity):
        leader = next((one for one in leaders if _is_alike(one, row, table)), None)
        if leader is None or row.picks:
            leaders.append(row)
        else:
            alike.setdefault(leader.trial.number, []).append(row)
    kept = {row.trial.number for row in leaders if row.picks or row.is_default}
    led = {row.trial.number for row in leaders} - kept
    others = [row for row in front if row.trial.number in led]
    room = max(0, MOST_POINTS - len(kept))
    step = max(1, -(-len(others) // room)) if room else len(others) + 1
    kept |= {row.trial.number for row in others[step // 2 :: step]}
    points = {row.trial.number: _values(row, table.objectives) for row in front}
    shown = [point for number, point in points.items() if number in kept]
    hidden = {number: point for number, point in points.items() if number not in kept}
    rows = tuple(
        _explained(row, shown, hidden, table.objectives) if row.state == DOMINATED else row
        for row in table.rows
        if row.trial.number not in hidden
    )
    counts = {number: len(found) for number, found in alike.items() if number in kept}
    return replace(table, rows=rows), counts


def _explained(
    row: TrialRow, shown: Sequence[_Point], hidden: Mapping[int, _Point], names: Sequence[str]
) -> TrialRow:
    """Return a dominated row with what dominates it, where that is not shown."""
    own = _values(row, names)

    def is_under(point: _Point) -> bool:
        pairs = zip(point, own, strict=True)
        return all(a is not None and b is not None and a <= b for a, b in pairs)

    if any(map(is_under, shown)):
        return row
    return replace(row, hidden_by=next((n for n, point in hidden.items() if is_under(point)), None))


def _values(row: TrialRow, names: Sequence[str]) -> _Point:
    return tuple(METRICS[name].value(row.trial.known) for name in names)


def _simplicity(row: TrialRow) -> tuple[bool, bool, int, int]:
    settings = len(row.trial.configuration.settings)
    return not row.picks, not row.is_default, settings, row.trial.number


def _is_alike(one: TrialRow, other: TrialRow, table: FrontTable) -> bool:
    """Return whether two points are within a tie, a share of the whole program if it is known."""
    for name in table.objectives:
        a, b = (row.trial.measured.value(name) for row in (one, other))
        if abs(a - b) > TIE * max(a, b, table.whole.get(name, 0.0)):
            return False
    return True


@dataclass(frozen=True)
class _Block:
    """What one table shows of all rows; several, one below the other, where one is too wide."""

    metrics: tuple[Metric, ...]
    has_settings: bool = True
    is_stacked: bool = False
    """True puts a change below its value instead of beside it."""


def _blocks(
    table: FrontTable, alike: Mapping[int, int], metrics: Sequence[Metric], limit: int
) -> list[_Block]:
    """Return the tables that show the rows within `limit` columns, as few as there can be."""

    def fits(block: _Block) -> bool:
        drawn = _rich_table(table, alike, block, settings)
        return Console(width=sys.maxsize).measure(drawn).maximum <= limit

    from rich.console import Console  # noqa: PLC0415 - not needed by --help

    settings = _settings_width(table)
    for is_stacked in (False, True):
        whole = _Block(tuple(metrics), is_stacked=is_stacked)
        if fits(whole):
            return [whole]
    blocks: list[_Block] = []
    rest = list(metrics)
    while rest:
        n = len(rest)
        while n > 1 and not fits(_Block(tuple(rest[:n]), has_settings=False)):
            n -= 1
        blocks.append(_Block(tuple(rest[:n]), has_settings=False))
        rest = rest[n:]
    return [*blocks, _Block(())]


def _rich_table(
    table: FrontTable,
    alike: Mapping[int, int],
    block: _Block,
    settings_width: int | None = None,
    *,
    has_marks_below: bool = False,
) -> Table:
    from rich import box  # noqa: PLC0415 - not needed by --help
    from rich.table import Table  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    measurements = [row.trial.known for row in table.rows]
    scales = [scale_of(metric, measurements) for metric in block.metrics]
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    drawn.add_column("trial", justify="right")
    for metric, scale in zip(block.metrics, scales, strict=True):
        about = "change of\nprogram" if metric.name in table.whole else "change"
        below = f"\n{about}" if block.is_stacked else ""
        head = f"{metric.label}\n{scale.unit}{below}".rstrip()
        drawn.add_column(head, justify="right", no_wrap=True)
        if not block.is_stacked:
            drawn.add_column(about, justify="right", no_wrap=True)
    drawn.add_column("allocator", no_wrap=True)
    if block.has_settings:
        drawn.add_column("settings", overflow="fold", ratio=1, max_width=settings_width)
        if not has_marks_below:
            drawn.add_column("", overflow="fold", max_width=_MARKS_WIDTH)
    for row in table.rows:
        cells: list[str | Text] = [str(row.trial.number)]
        for metric, scale in zip(block.metrics, scales, strict=True):
            ratio = row.change(metric.name)
            style = "" if ratio is None or ratio == 1.0 else "green" if ratio < 1.0 else "red"
            shown = scale.show(metric.value(row.trial.known))
            change = Text(show_expected(ratio), style=style)
            cells += [Text(f"{shown}\n") + change] if block.is_stacked else [shown, change]
        cells.append(row.trial.configuration.allocator)
        if block.has_settings:
            more = _more(alike.get(row.trial.number, 0))
            marked = ", ".join(filter(None, [marks(row), more]))
            if has_marks_below:
                below = f"\n({marked})" if marked else ""
                cells.append(Text(settings_text(row.trial) + below))
            else:
                cells += [Text(settings_text(row.trial)), Text(marked)]
        drawn.add_row(*cells, style="dim" if row.state != FRONT else "")
    return drawn


def _settings_width(table: FrontTable) -> int:
    words = (word for row in table.rows for word in settings_text(row.trial).split())
    longest = max(map(len, words), default=0)
    return min(max(longest, _SETTINGS_WIDTH.start), _SETTINGS_WIDTH.stop)


def _more(n: int) -> str:
    return f"and {n} more alike" if n else ""


def settings_text(trial: Trial) -> str:
    """Write the settings of a trial, or why it has no numbers."""
    pairs = trial.configuration.settings
    text = " ".join(f"{name}={show_value(value)}" for name, value in pairs) or "default"
    return f"{text} ({trial.reason})" if trial.reason else text


def marks(row: TrialRow) -> str:
    """Write what is special about a row: its picks and, off the front, its state."""
    words = list(row.picks)
    if row.is_near_front:
        words.append(_NEAR)
    elif row.state != FRONT and RECOMMENDED not in row.picks:  # the program has the last word
        by = "" if row.hidden_by is None else f" by {row.hidden_by}"
        words.append(row.state.replace("_", " ") + by)
    return ", ".join(words)


def _footer(table: FrontTable) -> list[str]:
    trials = [row for row in table.rows if row.state == FRONT]
    n_points = len({min((row.trial.number, *row.equals)) for row in trials})
    count = f"{n_points} point{'s'[: n_points != 1]}"
    if len(trials) > n_points:
        count += f" ({len(trials)} trials)"
    verb = "is" if n_points == 1 else "are"
    what = f"{count} {verb} on the front of {', '.join(table.objectives)}"
    relative_to = table.compared.relative_to
    whose = "the default of its own allocator" if relative_to == OWN else f"{relative_to}'s default"
    return [
        f"{what}; changes are against {whose}.",
        *whole_words(table, table.objectives),
        *_picks_explained(table, "its own default" if relative_to == OWN else whose),
        *table.notes,
        *filter(None, [table.price_note]),
    ]


def whole_words(table: FrontTable, names: Collection[str]) -> list[str]:
    """Return what the changes of some metrics are shares of."""
    if not table.whole:
        known = "what the whole program uses is not known of this recording"
        return [f"Changes are those of the allocator's own heap and work; {known}."]
    whole = [name for name in table.whole if name in names]
    if not whole:
        return ["Changes are those of the allocator's own heap and work."]
    recorded = [name for name in whole if name not in table.validated]
    numbers = {table.validated[name] for name in whole if name in table.validated}
    sources = [f"medians of validation {number}" for number in numbers]
    if recorded:
        which = f"{_labels(recorded)} " if sources else ""
        sources.append(f"{which}by few runs or under the recorder, which rather understates them")
    words = f"Changes of {_labels(whole)} are about those of the whole program, its memory"
    told = f"and CPU time ({'; '.join(sources)}); values are the allocator's own."
    return [f"{words} {told}"]


def _labels(names: Iterable[str]) -> str:
    return series([METRICS[name].label for name in names])


def _program_words(expected: float | None) -> str:
    return "" if expected is None else f"   of the program about {show_expected(expected)}"


def _picks_explained(table: FrontTable, whose: str) -> list[str]:
    """Return what the names of picks in the rows mean; those of METRIC say it themselves."""
    shown = {name for row in table.rows for name in row.picks}
    words = {
        RECOMMENDED: f"what `optimize` deploys ({table.rules.get(RECOMMENDED)})",
        BALANCED: "the least sum of all changes",
        KNEE: "balanced, and clearly better than the front's ends",
        NO_REGRET: f"balanced among the points that emulation finds worse than {whose} in nothing",
    }
    found = [f"{name}: {meaning}" for name, meaning in words.items() if name in shown]
    if any(row.is_near_front for row in table.rows):
        found.append(f"{_NEAR}: at most {100 * TIE:g} % above a point of it, and simpler")
    if table.constraints and any(row.state == INFEASIBLE for row in table.rows):
        found.append(f"{INFEASIBLE}: breaks {' or '.join(table.constraints)}")
    return ["; ".join(found) + "."] if found else []


def row_text(row: TrialRow, metrics: Sequence[Metric], relative_to: str) -> str:
    """Write one trial for people: settings, then each metric with its change."""
    whose = "its own default" if relative_to == OWN else f"{relative_to}'s default"
    configuration = row.trial.configuration
    lines = [f"trial {row.trial.number}: {configuration.allocator}"]
    lines += [f"  {name} = {show_value(value)}" for name, value in configuration.settings]
    if not configuration.settings:
        lines.append("  default, nothing set")
    lines.append(f"against {whose}:")
    for metric in metrics:
        value = metric.value(row.trial.measurement)
        if value is not None:
            shown = scale_of(metric, [row.trial.measurement]).show_with_unit(value)
            lines.append(
                f"  {metric.label:<20} {shown:>16}  {show_change(row.ratios[metric.name])}"
                f"{_program_words(row.expected.get(metric.name))}"
            )
    if row.state != FRONT:
        lines.append(_NEAR if row.is_near_front else f"not on the front: {row.state}")
    return "\n".join(lines)
