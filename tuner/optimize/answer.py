"""The recommendation, and the words and rows it is shown with."""

from __future__ import annotations

import enum
import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import StoreError
from tuner.metrics import SERVICE
from tuner.optimize.judgement import Gain, Rules, Standing, State
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import AS_IS
from tuner.output import write_text
from tuner.records import Configuration
from tuner.units import show_size

ANSWER_FILE = "answer.json"
"""The recommendation, in a run folder."""

_SCHEMA = "malloc-tuner.answer"
_MOST_ROWS = 8
_NEAREST = 2
"""Settings shown that ran only once, where there is no candidate."""

_LABEL_WIDTH = 40
"""Of the first column; a longer label has lines of its own."""

_TABLE_WIDTH = 96

_MOST_WITH_BOUNDS = 4
"""Quantities of a table whose cells show bounds."""

_LEAST_MS = 0.1
"""Times below it are shown in us."""


class Decision(enum.StrEnum):
    """How an optimisation ends."""

    DEPLOY = "deploy"
    KEEP = "keep"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class AnswerRow:
    """A subject in the table: what it changes, as far as runs have shown it."""

    label: str
    changes: Mapping[str, Gain]
    """Empty when it did not run well."""
    is_candidate: bool = False
    """New runs compared it with the program as it is; else it ran once."""
    note: str = ""
    """Why it left: ``lost: CPU time``, or how it failed."""


@dataclass(frozen=True)
class Answer:
    """What to do, and why."""

    decision: Decision
    configuration: Configuration | None
    """What to deploy, or what is nearest to it; None when nothing came near."""
    label: str
    as_is: str
    """Allocator of the program as it is: ``glibc``, or its own."""
    baseline: Mapping[str, float]
    """Quantity -> value of the program as it is: bytes, bytes, ns."""
    rules: Rules
    standing: Standing | None
    """What confirms `configuration`."""
    rows: tuple[AnswerRow, ...]
    """The recommended one first, then defaults, then others."""
    n_runs: int
    seconds: float
    missing: str = ""
    """What is not decided."""
    more_seconds: float = 0.0
    """About how much more time would decide it."""
    trial: int | None = None
    """Trial of the campaign that `configuration` comes from; it may have more settings."""
    command: tuple[str, ...] = ()
    date: str = ""
    """Day, ISO 8601."""
    effects: Sequence[tuple[str, Mapping[str, Gain], bool]] = ()
    """Setting, what it gains, whether it may be left out; empty where there was no time."""
    counted: float | None = None
    """Change of the instructions of the program, counted once; None where they were not."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Quantity -> standard deviation of the logarithm of a run of the program as it is."""
    given_s: float = 0.0
    """Time that was given."""
    held_out: Mapping[str, Gain] | None = None
    """Changes on an input that was not tuned on; None when there was none."""
    reasons: tuple[str, ...] = ()
    """What a reader should know of the answer."""
    growth: Mapping[str, float] = field(default_factory=dict)
    """Of a service, `AS_IS` or label -> median growth under load, in bytes per minute."""

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.decision is Decision.DEPLOY:
            return f"Deploy {with_words(self.label)}."
        if self.decision is Decision.KEEP:
            return f"Keep {self.as_is} as it is."
        return f"Not decided in {minutes_words(self.given_s or self.seconds)}: {self.missing}."

    def lines(self) -> Iterator[str]:
        """Yield what is printed: the sentence, what it gains or what came near, the table."""
        yield self.sentence
        if self.decision is Decision.DEPLOY and self.standing is not None:
            yield from _gain_lines(self.standing.gains, self.rules)
            if self.counted is not None:
                yield f"  {'instructions':<12} {_percent(self.counted):>8}   counted"
            if self.held_out is not None:
                yield "On the input that was not tuned on:"
                yield from _gain_lines(self.held_out, self.rules)
            yield from self._effect_lines()
        elif self.decision is Decision.KEEP:
            yield (
                f"  No setting that was tried is proven to save {100 * self.rules.least:g} % of "
                "memory or CPU time at no loss in the other."
            )
            if self.standing is not None:
                best = _best_words(self.standing.gains, self.rules)
                yield from _wrapped(f"Nearest: {self.label}, {best}.")
            yield f"  {self.n_runs} runs in {minutes_words(self.seconds)}."
        else:
            yield from self._open_lines()
        for reason in self.reasons:
            yield from _wrapped(reason)
        if self.rows:
            yield ""
            yield from table_lines(self)
        if self.growth:
            yield ""
            yield from self._growth_lines()

    def _growth_lines(self) -> Iterator[str]:
        yield "Growth in the second half of the load, median of the runs; shown, not judged:"
        names = {AS_IS: f"program as it is ({self.as_is})"}
        for label in (AS_IS, *(row.label for row in _shown(self))):
            if label in self.growth:
                value = round(self.growth[label])
                text = f"{'+' if value > 0 else ''}{SERVICE['growth'].show(value)}"
                yield from textwrap.wrap(
                    f"{text:>14}  {names.get(label, label)}",
                    _TABLE_WIDTH,
                    initial_indent="  ",
                    subsequent_indent=" " * 20,
                )

    def _effect_lines(self) -> Iterator[str]:
        if self.effects:
            yield "What each setting does:"
        for setting, gains, is_needless in self.effects:
            changes = (
                f"{name} {gain_words(gain, with_bounds=True)}" for name, gain in gains.items()
            )
            words = "; it may be left out" if is_needless else ""
            yield f"  {setting}"
            yield from _wrapped(f"{', '.join(changes)}{words}", indent=4)

    def _open_lines(self) -> Iterator[str]:
        if self.standing is not None:
            yield from _wrapped(f"Nearest: {self.label}:")
            changes = (
                f"{name} {gain_words(gain, with_bounds=True)}"
                for name, gain in self.standing.gains.items()
            )
            counted = "" if self.counted is None else f", instructions {_percent(self.counted)}"
            yield from _wrapped(f"{', '.join(changes)}{counted}", indent=4)
        words = f"About {minutes_words(self.more_seconds)} more may settle it."
        if self.noise:
            name, spread = max(self.noise.items(), key=lambda pair: pair[1])
            words = f"{name} varies by {100.0 * spread:.1f} % from run to run here. {words}"
        yield f"  {words[0].upper()}{words[1:]}"

    def as_record(self) -> dict[str, Any]:
        """Return it for a file, and for ``--json``."""
        return {
            "schema": _SCHEMA,
            "version": 1,
            "decision": str(self.decision),
            "sentence": self.sentence,
            "text": list(self.lines()),
            "configuration": self.configuration.key if self.configuration else None,
            "trial": self.trial,
            "label": self.label,
            "command": list(self.command),
            "date": self.date,
            "as_is": {"allocator": self.as_is, **{key_of(n): v for n, v in self.baseline.items()}},
            "changes": _changes(self.standing.gains) if self.standing else None,
            "held_out": _changes(self.held_out) if self.held_out else None,
            "subjects": [
                {"label": row.label, "changes": _changes(row.changes), "note": row.note}
                for row in self.rows
            ],
            "instructions": self.counted,
            "settings": [
                {"setting": setting, "changes": _changes(gains), "may_be_left_out": is_needless}
                for setting, gains, is_needless in self.effects
            ],
            "missing": self.missing or None,
            "more_seconds": round(self.more_seconds, 1) if self.missing else None,
            "reasons": list(self.reasons),
            "noise": {key_of(name): spread for name, spread in self.noise.items()},
            "growth_bytes_per_min": dict(self.growth),
            "least_effect": self.rules.least,
            "error": self.rules.error,
            "runs": self.n_runs,
            "seconds": round(self.seconds, 1),
        }


def write_answer(run: Path, answer: Answer) -> None:
    """Write the answer into a run folder.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(run / ANSWER_FILE, json.dumps(answer.as_record(), indent=1) + "\n")


@dataclass(frozen=True)
class Recommendation:
    """An answer as read from its file."""

    decision: Decision
    sentence: str
    configuration: Configuration | None
    trial: int | None
    changes: Mapping[str, tuple[float, tuple[float, float] | None]]
    """``mean_memory``, ``peak_memory``, ``cpu_time`` -> change and its bounds."""
    command: tuple[str, ...]
    date: str
    n_runs: int
    least: float
    """Least effect that counts, a share."""
    text: tuple[str, ...] = ()
    """The lines that were printed, the sentence first."""


def recommended(run: Path) -> Recommendation | None:
    """Return the answer of a run folder; None where there is none.

    Raises:
        StoreError: the file is damaged.
    """
    path = run / ANSWER_FILE
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_bytes())
        key = record["configuration"]
        changes = record["changes"] or {}
        return Recommendation(
            Decision(record["decision"]),
            record["sentence"],
            Configuration.from_key(key) if key else None,
            record["trial"],
            {
                name: (one["change"], tuple(one["bounds"]) if one["bounds"] else None)
                for name, one in changes.items()
            },
            tuple(record["command"]),
            record["date"],
            record["runs"],
            record["least_effect"],
            tuple(record["text"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path}: damaged ({error!r}); repeat `malloc-tuner optimize {run}`"
        raise StoreError(message) from error


def label_of(configuration: Configuration) -> str:
    """Return the label of a configuration: ``mimalloc``, ``jemalloc narenas=2``.

    Example:
        >>> label_of(Configuration.of("glibc", {})), label_of(Configuration.of("exgen", {"a": 1}))
        ('glibc', 'exgen a=1')
    """
    return configuration.allocator if configuration.is_default else str(configuration)


def with_words(label: str) -> str:
    """Return a label as a sentence has it.

    Example:
        >>> with_words("glibc"), with_words("jemalloc narenas=2 tcache=false")
        ('glibc with its default settings', 'jemalloc with narenas=2 tcache=false')
    """
    allocator, _, settings = label.partition(" ")
    return f"{allocator} with {settings or 'its default settings'}"


def table_lines(answer: Answer) -> Iterator[str]:
    """Yield the table: at most eight subjects, each change with its bounds."""
    rows = _shown(answer)
    as_is = f"program as it is ({answer.as_is})"
    labels = [row.label for row in rows if len(row.label) <= _LABEL_WIDTH - 2]
    width = max(len(as_is), *map(len, labels), 0) + 2
    names = list(answer.baseline)
    has_bounds = len(names) <= _MOST_WITH_BOUNDS
    widths = {name: _column(name, has_bounds=has_bounds) for name in names}
    yield " " * width + "".join(f"{name:>{widths[name]}}" for name in names)
    values = (f"{_value(name, value):>{widths[name]}}" for name, value in answer.baseline.items())
    yield f"{as_is:<{width}}" + "".join(values)
    for row in rows:
        cells = (
            f" {_cell(row.changes.get(name), name, has_bounds=has_bounds):>{widths[name] - 1}}"
            for name in names
        )
        text = f"{''.join(cells)}  {row.note}" if row.changes else row.note
        if len(row.label) > width - 2:
            yield from textwrap.wrap(row.label, _TABLE_WIDTH, subsequent_indent="  ")
            yield f"{'':<{width}}{text}".rstrip()
        else:
            yield f"{row.label:<{width}}{text}".rstrip()
    n_more = len(answer.rows) - len(rows)
    if n_more:
        yield f"{n_more} more ran once"


def _shown(answer: Answer) -> list[AnswerRow]:
    """Return what helps to decide: candidates, defaults, or what came nearest in one run."""
    rules = answer.rules
    first = [row for row in answer.rows if row.is_candidate]
    defaults = [row for row in answer.rows if " " not in row.label and row not in first]
    rest = [row for row in answer.rows if row not in (*first, *defaults) and row.changes]
    rest.sort(key=lambda row: -sum(row.changes[goal].middle for goal in rules.goals))
    nearest = [] if first else rest[:_NEAREST]
    return [*first, *defaults, *nearest][:_MOST_ROWS]


def _gain_lines(gains: Mapping[str, Gain], rules: Rules) -> Iterator[str]:
    for name in rules.guards:
        gain = gains[name]
        bounds = gain.bounds
        line = f"  {name:<12} {_percent(gain.change):>8}"
        if bounds is not None and not gain.is_exact:
            word = "at least" if bounds[1] < 0.0 else "at most"
            line += f"   {word} {_percent(bounds[1]):>7}"
        yield line


def _best_words(gains: Mapping[str, Gain], rules: Rules) -> str:
    """Return the goal that changes most for the better, with its change."""
    name = max(rules.goals, key=lambda goal: gains[goal].middle)
    return f"{name} {_percent(gains[name].change)}"


def _cell(gain: Gain | None, name: str, *, has_bounds: bool) -> str:
    if gain is None:
        return "-"
    return gain_words(gain, with_bounds=has_bounds and not TABLE[name].is_memory)


def gain_words(gain: Gain, *, with_bounds: bool) -> str:
    """Return a change: ``-4.0 % (-7.1 .. -1.0)``; without bounds where it repeats itself.

    Example:
        >>> gain_words(Gain(0.0, -0.01, 0.01), with_bounds=True)
        '+0.0 % (-1.0 .. +1.0)'
    """
    text = _percent(gain.change)
    if with_bounds and gain.bounds is not None and not gain.is_exact:
        low, high = gain.bounds
        text += f" ({100 * low:+.1f} .. {100 * high:+.1f})"
    return text


def _column(name: str, *, has_bounds: bool) -> int:
    """Return the width of a column: those of times show bounds where there is room."""
    if not has_bounds:
        return max(11, len(name) + 2)
    return max(15, len(name) + 2) if TABLE[name].is_memory else 25


def _value(name: str, value: float) -> str:
    unit = TABLE[name].unit
    if unit == "bytes":
        return show_size(round(value))
    if unit == "1/s":
        return f"{value:,.0f}"
    return f"{value / 1e6:.4g} ms" if value >= _LEAST_MS * 1e6 else f"{value / 1e3:.4g} us"


def _percent(share: float) -> str:
    return f"{round(100.0 * share, 1) + 0.0:+.1f} %"  # never -0.0


def _changes(gains: Mapping[str, Gain]) -> dict[str, Any]:
    return {
        key_of(name): {"change": gain.change, "bounds": gain.bounds, "exact": gain.is_exact}
        for name, gain in gains.items()
    }


def key_of(name: str) -> str:
    """Return a quantity as files name it: ``mean_memory``."""
    return name.lower().replace(" ", "_")


def open_words(standing: Standing) -> str:
    """Return what is open of the best candidate.

    Example:
        >>> open_words(Standing("x", 9, State.OPEN, {}, (), (), ("CPU time", "peak memory")))
        'whether CPU time and peak memory are no worse'
    """
    if not standing.unsure:
        return "whether the best candidate gains enough"
    verb = "are" if len(standing.unsure) > 1 else "is"
    return f"whether {' and '.join(standing.unsure)} {verb} no worse"


def _wrapped(text: str, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        text,
        _TABLE_WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def rows_of(
    winner: str, standings: Sequence[Standing], others: Mapping[str, Mapping[str, Gain]],
    notes: Mapping[str, str],
) -> tuple[AnswerRow, ...]:  # fmt: skip
    """Return the rows: the winner, those of the confirmation, then those that only ran once."""
    first = sorted(standings, key=lambda one: (one.label != winner, one.state is State.FAILED))
    rows = [AnswerRow(s.label, s.gains, is_candidate=True, note=_left_words(s)) for s in first]
    known = {row.label for row in rows}
    defaults_first = sorted(
        (label for label in others if label not in known), key=lambda text: " " in text
    )
    rows += [AnswerRow(label, others[label], note=notes.get(label, "")) for label in defaults_first]
    return tuple(rows)


def _left_words(standing: Standing) -> str:
    if standing.state is State.FAILED:
        return standing.reason
    if standing.state is State.WORSE:
        return f"worse: {', '.join(standing.worse)}"
    return ""


def minutes_words(seconds: float) -> str:
    """Return a duration for a sentence.

    Example:
        >>> minutes_words(40.0), minutes_words(200.0)
        ('40 s', '4 min')
    """
    return f"{seconds:.0f} s" if seconds < 60.0 else f"{math.ceil(seconds / 60.0)} min"  # noqa: PLR2004
