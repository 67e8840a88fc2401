"""What the program itself measured in an optimisation: its front, as table, JSON, CSV and figure.

Every setting that ran is a row; those of the confirmation have bounds, the others ran once or three
times and hold that noise.  The front is that of the goals, the program as it is among them.  What
ran few times is shown as all runs together say of it: as seen, the front would be of the luckiest
runs.
"""

import csv
import io
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np

from tuner.drawing.figure import WIDTH, Figure, Spec, colours, label_layers, layer, quantity, shapes
from tuner.drawing.style import INK, MUTED
from tuner.errors import SelectionError, StoreError
from tuner.moocore import load_moocore
from tuner.optimize.answering.answer import Decision
from tuner.optimize.answering.recommendation import Recommendation, recommended
from tuner.optimize.answering.table import (
    FEW_RUNS,
    ROUNDS,
    TABLE_WIDTH,
    AnswerRow,
    as_is_words,
    rows_table,
    value_words,
)
from tuner.optimize.aside import run_of
from tuner.optimize.proof.judgement import Gain
from tuner.optimize.quantities import key_of
from tuner.optimize.request import Request, no_answer_yet
from tuner.optimize.tuned import AS_IS, allocator_of, label_of
from tuner.page import series, wrapped
from tuner.runs import REQUEST_FILE
from tuner.units import signed_percent

SCHEMA: Final = "malloc-tuner.measured"
VERSION: Final = 1
"""Schema and version of the JSON form; docs/formats.md describes it."""

_HEIGHT: Final = 400
_NEAR: Final = 30.0
"""Per cent more than the program as it is; what loses more lies outside of the figure, and so does
what ran once and loses more than these per cent and so many times the greatest gain."""
_NEAR_GAINS: Final = 5.0
_TIMES_GAINED: Final = 3.0

_ROOM: Final = 0.05
"""Of the width, beside the outermost points."""

_MANY: Final = 60
"""What ran few times is faint where there is more of it: it would hide what was proven."""


@dataclass(frozen=True)
class MeasuredFront:
    """What ran, and what of it no other dominates."""

    answer: Recommendation
    goals: tuple[str, ...]
    """Quantities of the front."""
    front: tuple[AnswerRow, ...]
    """By the first goal; `AS_IS` is among them where nothing dominates it."""
    others: tuple[AnswerRow, ...]
    """Dominated, by what they gain in sum; then failed."""
    n_commands: int = 1
    """That were tuned on together."""

    @property
    def is_smoothed(self) -> bool:
        """Whether some rows are shown as all runs together say."""
        return any(row.is_smoothed for row in self.rows)

    def shown_label(self, row: AnswerRow) -> str:
        """Return the label of a row as every table has it."""
        return as_is_words(self.answer.as_is) if row.label == AS_IS else row.label

    def is_of_rounds(self, row: AnswerRow) -> bool:
        """Return whether rounds of new runs compared a row; the program as it is where any had."""
        if row.label == AS_IS:
            return any(one.is_candidate for one in self.rows if one.label != AS_IS)
        return row.is_candidate

    def ran(self, row: AnswerRow) -> str:
        """Return how often a row ran, see `AnswerRow.ran`; the program as it is as often as any."""
        return row.ran if self.is_of_rounds(row) else FEW_RUNS

    def is_answer(self, row: AnswerRow) -> bool:
        """Return whether a row is what the answer says to deploy."""
        answer = self.answer
        return (
            answer.decision is Decision.DEPLOY
            and answer.configuration is not None
            and row.label == label_of(answer.configuration)
        )

    @property
    def has_line(self) -> bool:
        """Whether the front is a line in the plane of the figure, and not one point."""
        return len(_steps(self, *self.goals[:2])) > 1

    @property
    def front_words(self) -> str:
        """What the caption of the figure says of the front."""
        drawn, hidden = self.goals[:2], self.goals[2:]
        if not hidden:
            return "The dotted line is the front." if self.has_line else ""
        line = f"The dotted line is the front of {series(drawn)}. " if self.has_line else ""
        verb = "are" if len(hidden) > 1 else "is"
        whose = f"The rows marked front are those of {series(hidden)} as well"
        return f"{line}{whose}, which {verb} not drawn."

    @property
    def folded(self) -> frozenset[str]:
        """Labels of what a page shows on demand: of few runs, and off the front."""
        return frozenset(
            row.label for row in self.others if not (row.is_candidate or row.label == AS_IS)
        )

    @property
    def rows(self) -> tuple[AnswerRow, ...]:
        """All of them, what the answer says to deploy first."""
        return tuple(sorted((*self.front, *self.others), key=self.is_answer, reverse=True))


def measured_front(folder: Path) -> MeasuredFront:
    """Read what the program measured in a run folder of `optimize`, or the one of a comparison.

    Raises:
        SelectionError: there is no answer yet.
        StoreError: nothing was optimised here, or the answer is damaged.
    """
    answer = recommended(folder)
    if answer is None:
        if (folder / REQUEST_FILE).is_file():
            raise SelectionError(no_answer_yet(folder))
        begin = "begin with `malloc-tuner optimize -- COMMAND`"
        raise StoreError(f"{folder}: holds no optimisation; {begin}")
    request = Request.load(run_of(folder))
    goals = tuple(name for name in request.rules.goals if name in answer.baseline)
    zero = {name: Gain(0.0, 0.0, 0.0, is_exact=True) for name in answer.baseline}
    ran = [AnswerRow(AS_IS, zero, is_candidate=True), *(r for r in answer.rows if r.changes)]
    failed = [row for row in answer.rows if not row.changes]
    points = np.array([[-row.changes[goal].likely for goal in goals] for row in ran])
    is_front = load_moocore().is_nondominated(points, keep_weakly=True)
    front = [row for row, kept in zip(ran, is_front, strict=True) if kept]
    others = [row for row, kept in zip(ran, is_front, strict=True) if not kept]
    front.sort(key=lambda row: -row.changes[goals[0]].likely)
    others.sort(key=lambda row: -sum(row.changes[goal].likely for goal in goals))
    n_commands = 1 + len(request.further)
    return MeasuredFront(answer, goals, tuple(front), (*others, *failed), n_commands)


def measured_text(
    found: MeasuredFront, *, everything: bool = False, columns: int = TABLE_WIDTH
) -> str:
    """Write the front as a table; with `everything` what is dominated or failed, too.

    Args:
        found: what ran.
        everything: see above; what rounds compared is shown in any case.
        columns: of the page; a table that needs more is wider.
    """
    answer = found.answer
    kept = {row.label for row in found.front} | {r.label for r in found.rows if r.is_candidate}
    rows = [row for row in found.rows if everything or row.label in kept or found.is_answer(row)]
    marked = [
        AnswerRow(row.label, row.changes, is_candidate=row.is_candidate, note=_note(row, found))
        for row in rows
        if row.label != AS_IS
    ]
    goals = series(found.goals)
    title = f"Measured on the program itself, {shlex.join(answer.command)}: the front of {goals}."
    lines = [
        *wrapped(title, columns, others="  "),
        "",
        *rows_table(answer.as_is, answer.baseline, marked, columns),
        "",
        *(line for text in _footer(found, rows) for line in wrapped(text, columns, others="  ")),
    ]
    return "\n".join(lines) + "\n"


def _note(row: AnswerRow, found: MeasuredFront) -> str:
    words = [row.note] if row.note else []
    if found.is_answer(row):
        words.append("deploy")
    elif row not in found.front and row.changes:
        words.append("dominated")
    if row.changes and row.ran != ROUNDS:
        words.append(row.ran)
    return ", ".join(words)


def _footer(found: MeasuredFront, shown: Sequence[AnswerRow]) -> Iterator[str]:
    n_ran = sum(1 for row in found.rows if row.changes) - 1
    answer = found.answer
    yield f"{n_ran} settings ran, few times or in rounds: {answer.n_runs} runs; {answer.date}."
    if found.n_commands > 1:
        yield f"Values are geometric means over the {found.n_commands} commands."
    n_hidden = sum(row.label != AS_IS and row not in shown for row in found.others)
    if n_hidden:
        yield f"{n_hidden} more that are dominated or failed: --all"
    yield answer.sentence
    if answer.note:
        yield answer.note


def measured_json(found: MeasuredFront) -> str:
    """Write everything as one JSON object."""
    answer = found.answer
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "command": list(answer.command),
        "date": answer.date,
        "runs": answer.n_runs,
        "sentence": answer.sentence,
        "goals": [key_of(name) for name in found.goals],
        "as_is": {"allocator": answer.as_is, **_values(answer.baseline)},
        "rows": [_row(row, found) for row in found.rows],
    }
    return json.dumps(document, indent=2) + "\n"


def measured_csv(found: MeasuredFront) -> str:
    """Write the rows; changes are shares, empty where there is none."""
    names = [key_of(name) for name in found.answer.baseline]
    ends = [f"{name}_{end}" for name in names for end in ("change", "low", "high", "smoothed")]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["label", "state", "in_rounds", *ends, "note"])
    for row in found.rows:
        cells: list[Any] = []
        for name in found.answer.baseline:
            gain = row.changes.get(name)
            low, high = (gain.bounds if gain else None) or (None, None)
            cells += [gain and gain.seen_change, low, high, gain and gain.smoothed_change]
        in_rounds = str(row.is_candidate).lower()
        writer.writerow([row.label, _state(row, found), in_rounds, *cells, row.note])
    return text.getvalue()


def _values(values: Mapping[str, float]) -> dict[str, float]:
    return {key_of(name): value for name, value in values.items()}


def _row(row: AnswerRow, found: MeasuredFront) -> dict[str, Any]:
    return {
        "label": row.label,
        "state": _state(row, found),
        "in_rounds": row.is_candidate,
        "changes": {
            key_of(name): {
                "change": gain.seen_change,
                "bounds": gain.bounds,
                "smoothed": gain.smoothed_change,
            }
            for name, gain in row.changes.items()
        },
        "note": row.note or None,
    }


def _state(row: AnswerRow, found: MeasuredFront) -> str:
    if not row.changes:
        return "failed"
    return "front" if row in found.front else "dominated"


def measured_figure(found: MeasuredFront) -> Figure | None:
    """Draw what ran in the plane of the first two goals; None where there are fewer."""
    if len(found.goals) < 2 or len(found.rows) < 2:  # noqa: PLR2004 - a plane, and not one point
        return None
    x, y = found.goals[:2]
    rows = [row for row in found.rows if row.changes]
    names = list(dict.fromkeys(_allocator(row, found) for row in rows))
    position: Spec = {
        axis: quantity(axis, f"change of {name} in %", scale=_scale(rows, name))
        for axis, name in (("x", x), ("y", y))
    }
    looks: Spec = {"color": colours("allocator", names), "shape": shapes("allocator", names)}
    once = [_point(row, found) for row in rows if not row.is_candidate]
    proven = [_point(row, found) for row in rows if row.is_candidate]
    said = {"text": "deploy", "colour": INK}
    chosen = [_point(row, found) | said for row in rows if found.is_answer(row)]
    spans = [point for point in proven if "low" in point]
    faint: Spec = {"strokeOpacity": 0.45, "size": 45} if len(once) > _MANY else {}
    ends: Spec = {**position, "y": {**position["y"], "field": "low"}, "y2": {"field": "high"}}
    mark: Spec = {"type": "point", "clip": True}
    tip: Spec = {"tooltip": {"field": "tip"}}
    spec: Spec = {
        "width": WIDTH,
        "height": _HEIGHT,
        "layer": [
            layer([{"x": 0.0}], {"type": "rule", "color": MUTED}, x=position["x"]),
            layer([{"y": 0.0}], {"type": "rule", "color": MUTED}, y=position["y"]),
            layer(_steps(found, x, y), {
                "type": "line", "interpolate": "step-after", "color": INK, "strokeDash": [2, 3],
                "clip": True,
            }, **position, order={"field": "order"}),
            layer(once, {
                **mark, "filled": False, "size": 80, "strokeWidth": 1.2, **faint,
            }, **position, **looks, **tip),
            layer(spans, {"type": "rule", "clip": True}, **ends, color=colours("allocator", names)),
            layer(proven, {**mark, "filled": True, "size": 110}, **position, **looks, **tip),
            layer(chosen, {
                **mark, "filled": True, "opacity": 1, "size": 260, "stroke": INK,
            }, **position, **looks, **tip),
            *label_layers(chosen, position, {
                "align": "left", "dx": 11, "dy": -11, "fontWeight": "bold",
            }),
        ],
    }  # fmt: skip
    return Figure("measured", f"{y} against {x}, measured on the program", spec)


def _scale(rows: Sequence[AnswerRow], name: str) -> Spec:
    """Return a scale that holds all that gains or ran in rounds, and what else is near to it."""
    values = [100.0 * row.changes[name].change for row in rows]
    low = min(0.0, *values)
    compared = (value for row, value in zip(rows, values, strict=True) if row.is_candidate)
    near = min(_NEAR, max(_NEAR_GAINS, -_TIMES_GAINED * low, *compared))
    high = max(1.0, *(value for value in values if value <= near))
    room = _ROOM * (high - low)
    return {"domain": [low - room, high + room], "nice": False}


def _steps(found: MeasuredFront, x: str, y: str) -> list[dict[str, float]]:
    """Return the corners of the front in this plane; with more goals some points lie behind it."""
    points = sorted((row.changes[x].change, row.changes[y].change) for row in found.front)
    lowest = list(accumulate((b for _, b in points), min, initial=math.inf))
    corners = [(a, b) for (a, b), before in zip(points, lowest, strict=False) if b < before]
    return [{"x": 100.0 * a, "y": 100.0 * b, "order": i} for i, (a, b) in enumerate(corners)]


def _point(row: AnswerRow, found: MeasuredFront) -> dict[str, Any]:
    x, y = found.goals[:2]
    changes = [f"{name} {signed_percent(gain.change)}" for name, gain in row.changes.items()]
    tip = [row.label, *changes, *([] if row.ran == ROUNDS else [row.ran])]
    point = {
        "x": 100.0 * row.changes[x].change,
        "y": 100.0 * row.changes[y].change,
        "allocator": _allocator(row, found),
        "tip": "\n".join(tip),
    }
    bounds = row.changes[y].bounds
    if bounds is not None and row.label != AS_IS:
        point |= {"low": 100.0 * bounds[0], "high": 100.0 * bounds[1]}
    return point


def _allocator(row: AnswerRow, found: MeasuredFront) -> str:
    return found.answer.as_is if row.label == AS_IS else allocator_of(row.label)


def cells_of(row: AnswerRow, baseline: Mapping[str, float]) -> list[str]:
    """Return the changes of a row as a page shows them; of the program as it is, its values."""
    if row.label == AS_IS:
        return [value_words(name, value) for name, value in baseline.items()]
    return [
        signed_percent(row.changes[name].change) if name in row.changes else "-"
        for name in baseline
    ]
