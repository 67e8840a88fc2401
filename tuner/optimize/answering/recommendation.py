"""An answer as its file keeps it, read back."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.errors import StoreError
from tuner.front.kept import read_answer
from tuner.optimize.answering.answer import MORE_RAN, Decision
from tuner.optimize.answering.table import AnswerRow, limit_words
from tuner.optimize.aside import is_searched_on, last_before
from tuner.optimize.proof.judgement import Gain
from tuner.optimize.quantities import TABLE, key_of
from tuner.page import series
from tuner.records import Configuration
from tuner.runs import SELECTION_FILE
from tuner.units import signed_percent


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
    as_is: str = "glibc"
    """Allocator of the program as it is."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """Quantity -> value of the program as it is."""
    rows: tuple[AnswerRow, ...] = ()
    """All that ran, in the order of the answer."""
    seconds: float = 0.0
    """Time that it took, of all calls."""
    is_held_out: bool = False
    """Whether it was judged on input that it was not tuned on, too."""
    turned_down: Mapping[str, str] = field(default_factory=dict)
    """Label of what a guard turned down -> why."""
    n_rounds: int | None = None
    """Of `configuration` beside the program as it is; None of an earlier version."""
    is_held_out_bounded: bool = True
    """False where some change on that input has no bounds, for want of rounds."""
    note: str = ""
    """That another answer is being proven, which takes its place."""
    may_be_worse: Mapping[str, float] = field(default_factory=dict)
    """Guard -> by how much it may be worse on that input, where that is beyond its limit."""

    @property
    def has_more(self) -> bool:
        """Whether more ran than its table shows."""
        return any(line.endswith(MORE_RAN) for line in self.text)


def recommended(run: Path) -> Recommendation | None:
    """Return the answer of a run folder; None where there is none.

    Raises:
        StoreError: the file is damaged.
    """
    found = read_answer(run, _recommendation)
    if found is None or not is_searched_on(run):
        return found
    command = f"`malloc-tuner optimize {shlex.quote(str(run))}`"
    note = f"Since then more is tried: {command} goes on to the next answer."
    return replace(found, note=note, text=(*found.text, "", note))


def recommended_before(run: Path) -> Recommendation | None:
    """Return the answer of an earlier call, unless it cannot be read, or is searched on."""
    if is_searched_on(run):
        return None
    with contextlib.suppress(StoreError):
        return recommended(run)
    return None


def deployed_before(run: Path) -> tuple[Path, Recommendation] | None:
    """Return what was deployed before more was tried, and its folder; None where nothing was."""
    folder = last_before(run)
    if folder is None or (folder / SELECTION_FILE).exists():  # of other constraints
        return None
    before = recommended_before(folder)
    is_deployed = before is not None and before.decision is Decision.DEPLOY
    return (folder, before) if before and is_deployed else None


def _recommendation(record: Mapping[str, Any]) -> Recommendation:
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
        *_subjects(record),
        record.get("seconds", 0.0),
        record.get("held_out") is not None,
        {one["label"]: _worse_words(one) for one in record.get("turned_down", ())},
        record.get("rounds"),
        all(one["bounds"] for one in (record.get("held_out") or {}).values()),
        may_be_worse=_may_be_worse(record.get("held_out") or {}),
    )


def _may_be_worse(held_out: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return what may be worse on that input by more than its limit, and by how much."""
    names = {key_of(name): name for name in TABLE}
    found = {}
    for key, one in held_out.items():
        limit = one.get("limit")  # earlier versions have none
        low, high = one["bounds"] or (0.0, 0.0)
        worst = -low if TABLE[names[key]].is_more_better else high
        if limit is not None and worst > limit:
            found[names[key]] = worst
    return found


def _subjects(record: Mapping[str, Any]) -> tuple[str, dict[str, float], tuple[AnswerRow, ...]]:
    """Return what a record says of the program as it is, and of all that ran."""
    names = {key_of(name): name for name in TABLE}
    as_is = record["as_is"]
    baseline = {names[key]: value for key, value in as_is.items() if key in names}
    rows = [
        AnswerRow(
            one["label"],
            {names[key]: _gain(names[key], found) for key, found in one["changes"].items()},
            is_candidate=one.get("in_rounds", True),
            note=one["note"],
            is_open=one.get("is_open", False),
        )
        for one in record["subjects"]
    ]
    return as_is["allocator"], baseline, tuple(rows)


def _worse_words(record: Mapping[str, Any]) -> str:
    """Say what was worse than its limit of a setting that was turned down."""
    changes = record["changes"]
    worse = (
        key.replace("_", " ") + limit_words(changes.get(key, {}).get("limit"))
        for key in record["broken"]
    )
    return f"worse in {series(worse)}"


def _gain(name: str, record: Mapping[str, Any]) -> Gain:
    """Return what `_changes` wrote."""
    is_more = TABLE[name].is_more_better
    sign = 1.0 if is_more else -1.0
    bounds = record["bounds"]
    low, high = -math.inf, math.inf
    if bounds:
        low, high = sorted(sign * math.log1p(x) for x in bounds)
    middle = sign * math.log1p(record["change"])
    seen = record.get("smoothed")  # earlier versions have none
    smoothed = None if seen is None else sign * math.log1p(seen)
    return Gain(middle, low, high, record["exact"], is_more, smoothed, record.get("limit"))


def on_the_program(run: Path) -> str:
    """Return the answer of a run folder as one line; nothing where there is none.

    Raises:
        StoreError: the file is damaged.
    """
    answer = recommended(run)
    if answer is None:
        return ""
    words = f"On the program itself, in {answer.n_runs} runs: {answer.sentence}"
    if answer.decision is not Decision.DEPLOY or not answer.changes:
        return words
    names = {key_of(name): name for name in TABLE}
    changes = (f"{names[key]} {signed_percent(x)}" for key, (x, _) in answer.changes.items())
    return f"{words} Measured: {', '.join(changes)}."
