"""The recommendation, and the words and rows it is shown with."""

from __future__ import annotations

import enum
import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.front.kept import ANSWER_SCHEMA, ANSWER_VERSION
from tuner.metrics import SERVICE
from tuner.optimize.answering.table import (
    TABLE_WIDTH,
    AnswerRow,
    as_is_words,
    gain_words,
    limit_words,
    loss_words,
    rows_table,
)
from tuner.optimize.answering.turned_down import TurnedDown
from tuner.optimize.proof.judgement import LEAST_BYTES, Gain, Rules, Standing, State
from tuner.optimize.proof.noise import RUNS_TO_KNOW
from tuner.optimize.quantities import CPU, LATENCIES, MEAN, PEAK, TABLE, key_of
from tuner.optimize.tuned import AS_IS, allocator_of
from tuner.output import write_text
from tuner.page import series, wrapped
from tuner.records import Configuration
from tuner.runs import ANSWER_FILE
from tuner.service.figures import LEAST_WINDOW_FOR_GROWTH_S
from tuner.units import show_duration, show_percent, signed_percent

_MOST_ROWS = 8
EARLY = 0.8
"""Of the time that was given: an answer before it needed no more."""
_NEAREST = 2
"""Settings shown that ran only once, where there is no candidate."""

_MOST_WITHOUT_GROWTH = 3
"""Subjects that are named where their growth is not known."""

_NOTHING_ALONE = "alone nothing that these runs show"

_HARD_SPACE = "\N{NO-BREAK SPACE}"

_NEXT_TO_NOTHING = 0.25
"""Of the least effect: a smaller change by one setting is not shown."""

_MINUTES_S = 7200.0
"""More is said in hours."""

MOST_ADVISED_S = 3 * 86400.0
"""More time than a weekend is not advised."""

MORE_RAN = " more ran"
"""End of the line that says how many rows a table leaves out."""

_LEAST_NOISE = 0.0005
"""Less is no reason for an open question, or not known: of one run, it is 0."""


_AS_SHOWN = 0.0005
"""Less beyond a limit does not show in the figures."""


class Decision(enum.StrEnum):
    """How an optimisation ends."""

    DEPLOY = "deploy"
    KEEP = "keep"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Answer:
    """What to do, and why."""

    decision: Decision
    configuration: Configuration | None
    """What to deploy; None where nothing is."""
    label: str
    as_is: str
    """Allocator of the program as it is: ``glibc``, or its own."""
    baseline: Mapping[str, float]
    """Quantity -> middle of the runs of the program as it is; see `quantities.TABLE`."""
    rules: Rules
    standing: Standing | None
    """What confirms `configuration`."""
    rows: tuple[AnswerRow, ...]
    """The recommended one first, then defaults, then others."""
    n_runs: int
    seconds: float
    """Time that it took, of all calls."""
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
    left_out: tuple[str, ...] = ()
    """Settings of the winner without which new runs confirmed it; needless unless `traded`."""
    dropped: tuple[str, ...] = ()
    """Settings of `trial` that the winner never had."""
    traded: Mapping[str, Gain] = field(default_factory=dict)
    """What it gained with them, more of some or a little more in all; empty where it does as well
    without."""
    counted: Mapping[str, float] = field(default_factory=dict)
    """Changes of instructions, page faults and system calls of the program, counted once; without
    those that were not."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Quantity -> standard deviation of the logarithm of a run of the program as it is."""
    n_duets: int = 0
    """Rounds of the confirmation whose runs were made at once."""
    given_s: float = 0.0
    """Time that earlier calls used, and what this one was given."""
    n_untried: int = 0
    """Promising settings that there was no time to run."""
    held_out: Mapping[str, Gain] | None = None
    """Changes on what was not tuned on; None when there was none."""
    given: str = "input"
    """What that is; see `Request.given`."""
    reasons: tuple[str, ...] = ()
    """What a reader should know of the answer."""
    turned_down: tuple[TurnedDown, ...] = ()
    """Settings with a greater gain that a guard turned down."""
    growth: Mapping[str, float] = field(default_factory=dict)
    """Of a service, `AS_IS` or label -> median growth under load, in bytes per minute."""
    rounds_of: Mapping[str, int] = field(default_factory=dict)
    """Journal -> rounds that it knows."""
    not_run: tuple[str, ...] = ()
    """Allocators whose default did not run."""

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.decision is Decision.DEPLOY:
            return f"Deploy {with_words(self.label)}."
        if self.decision is Decision.KEEP:
            return f"Keep {self.as_is} as it is."
        return f"Not decided in {show_duration(self.seconds)}: {self.missing}."

    @property
    def n_more(self) -> int:
        """How many ran that the table does not show."""
        return len(self.rows) - len(_shown(self))

    @property
    def may_be_settled(self) -> bool:
        """Whether more time may decide it."""
        is_any = self.more_seconds >= 1.0 or self.standing is None or not self.standing.n_rounds
        return is_any and self.more_seconds <= MOST_ADVISED_S

    @property
    def _gains_nothing_so_far(self) -> bool:
        """Whether rounds of the nearest candidate show no gain in any goal."""
        one = self.standing
        if one is None or not one.n_rounds or one.better or self.held_out is not None:
            return False
        return all(one.gains[goal].middle <= 0.0 for goal in self.rules.goals if goal in one.gains)

    @property
    def _open(self) -> set[str]:
        """What the rounds of the nearest candidate leave open."""
        if self.standing is None:
            return set()
        return {*self.standing.unsure, *(() if self.standing.better else self.rules.goals)}

    @property
    def _is_early(self) -> bool:
        return self.seconds < EARLY * self.given_s

    def lines(self, columns: int = TABLE_WIDTH) -> Iterator[str]:
        """Yield what is printed: the sentence, what it gains or what came near, the table.

        Args:
            columns: of the page.
        """
        yield from _wrapped(self.sentence, columns)
        yield from self._details(columns)

    def _details(self, columns: int = TABLE_WIDTH) -> Iterator[str]:
        for text in self._paragraphs():
            yield from _wrapped(text, columns)
        if self.rows:
            yield ""
            yield from _table_lines(self, columns)
        if self.growth:
            yield ""
            yield from self._growth_lines(columns)

    def _paragraphs(self) -> Iterator[str]:
        if self.decision is Decision.DEPLOY and self.standing is not None:
            yield from _gain_lines(self.standing.gains, self.rules)
            for what, change in self.counted.items():
                yield f"  {what:<12} {signed_percent(change):>8}   counted"
            yield from self._held_out_lines()
            yield from self._effect_lines()
        elif self.decision is Decision.KEEP:
            yield from self._keep_lines()
        else:
            yield from self._open_lines()
        notes = (*self._limit_words(), *(one.words for one in self.turned_down), *self.reasons)
        if notes:
            yield ""
        yield from notes

    def _limit_words(self) -> Iterator[str]:
        """Say within which limits of the user the answer is."""
        if self.rules.strict:
            margin = self.rules.margin
            limits = (f"{n}{limit_words(math.expm1(margin(n)))}" for n in self.rules.strict)
            yield f"By --constraint: {series(limits)}."

    def _held_out_lines(self) -> Iterator[str]:
        if self.held_out is not None:
            gains = (self.held_out[goal] for goal in self.rules.goals if goal in self.held_out)
            is_sure = any(one.low > 0.0 and _is_seen(one, self.rules) for one in gains)
            words = "" if is_sure else ", where no gain that counts is proven"
            if self.decision is Decision.DEPLOY and not all(
                gain.bounds for gain in self.held_out.values()
            ):
                words = ", where nothing beyond its limit was seen, in too few rounds for bounds"
            yield f"On the {self.given} that was not tuned on{words}:"
            yield from _gain_lines(self.held_out, _with_guards_of(self.held_out, self.rules))
            if LATENCIES.intersection(self.rules.guards) and not LATENCIES & self.held_out.keys():
                yield "  No latency was judged there: the output of that load does not say it."
            if self.standing is not None and self.decision is Decision.DEPLOY:
                yield from self._wider_lines(self.standing, self.held_out)

    def _wider_lines(self, standing: Standing, held_out: Mapping[str, Gain]) -> Iterator[str]:
        """Say which guards the held-out runs leave open: what they do not speak against passes.

        Of one with a wider limit, what the tuned runs leave open is said elsewhere.
        """
        for name in self.rules.guards:
            least = held_out[name].low if name in held_out else -math.inf
            limit = -self.rules.margin(name) - _AS_SHOWN
            if name in standing.scaled:
                limit = min(limit, standing.gains[name].low)
            if -math.inf < least < limit:
                most = show_percent(math.expm1(-least))
                start = f"  {name[0].upper()}{name[1:]} may be up to {most} worse there"
                yield f"{start}, though nothing says that it is."

    def _growth_lines(self, columns: int) -> Iterator[str]:
        yield "Growth in the second half of the load, median of the runs; shown, not judged:"
        names = {AS_IS: as_is_words(self.as_is)}
        labels = [AS_IS, *(row.label for row in _shown(self) if row.changes)]
        for label in labels:
            if label in self.growth:
                value = round(self.growth[label])
                text = f"{'+' if value > 0 else ''}{SERVICE['growth'].show(value)}"
                yield from textwrap.wrap(
                    f"{text:>14}  {names.get(label, label)}",
                    columns,
                    initial_indent="  ",
                    subsequent_indent=" " * 20,
                )
        without = [label for label in labels if label not in self.growth]
        if without:
            named = [names.get(label, label) for label in without[:_MOST_WITHOUT_GROWTH]]
            if without[_MOST_WITHOUT_GROWTH:]:
                named.append(f"{len(without) - _MOST_WITHOUT_GROWTH} more")
            least = f"{LEAST_WINDOW_FOR_GROWTH_S:.0f} s"
            yield from wrapped(
                f"  Not known of {series(named)}: under load for less than {least} in most runs.",
                columns,
                others="  ",
            )

    def _effect_lines(self) -> Iterator[str]:
        effects = self.effects
        if not effects and self.label.count("=") > 1:
            yield "What each setting does was not tried; a longer --time shows whether fewer do."
        if len(effects) == 1 and not (
            allocator_of(self.label) != self.as_is and is_shown(effects[0][1], self.rules)
        ):
            effects = ()  # of the same allocator, it does what the answer itself gains
        if effects:
            yield "What each setting does:"
        together = []
        for setting, gains, is_needless in effects:
            if not (is_needless or is_shown(gains, self.rules)):
                together.append(setting)
                continue
            changes = [
                f"{name} {gain_words(gain, with_bounds=True)}"
                for name, gain in gains.items()
                if _is_seen(gain, self.rules)
            ]
            seen = _unbroken(changes) or _unproven_words(gains, self.rules)
            words = "; there was no time to prove it needless" if is_needless else ""
            yield f"  {setting}: {seen}{words}"
        if together:
            kept = "kept, since the program is not proven to do as well without"
            yield f"  {series(together)}: {_NOTHING_ALONE}; {kept}"
        if self.left_out:
            yield self._left_out_words()
        if self.dropped:
            why = "since too little is expected of it"
            dropped = " ".join(self.dropped)
            yield f"Left out before its rounds, {why}: {dropped}."

    def _left_out_words(self) -> str:
        settings = " ".join(self.left_out)
        if not self.traded or self.standing is None:
            return f"Left out, since the program does as well without: {settings}."
        gains, goals = self.standing.gains, self.rules.goals
        gained = {n: gains[n].middle - self.traded[n].middle for n in goals if n in self.traded}
        is_trade = sum(gained.values()) > 0.0
        more = [f"less {name}" for name, gain in gained.items() if gain > 0.0]
        they, them = ("together they save", "them") if self.left_out[1:] else ("it saves", "it")
        why = f" for {series(more)}" if is_trade else f", since {they} little"
        with_it = ", ".join(f"{n} {signed_percent(self.traded[n].change)}" for n in self.traded)
        return f"Left out{why}: {settings} (with {them}: {with_it})."

    def _keep_lines(self) -> Iterator[str]:
        # What is confirmed is kept back by the held-out input, of which a reason speaks.
        if self.standing is None or self.standing.state is not State.CONFIRMED:
            yield f"  No setting tried is proven to save {_goal_words(self.rules)}."
        best = _best_words(self.standing, self.rules) if self.standing else ""
        if best and self.label not in {one.label for one in self.turned_down}:
            yield f"  Nearest: {self.label}, {best}."
            yield from self._peak_lines()
        is_done = self._is_early and not self.n_untried
        unused = "; no candidate was left to confirm" if is_done else ""
        yield f"  {self.n_runs} runs in {show_duration(self.seconds)}{unused}."

    def _peak_lines(self) -> Iterator[str]:
        """Say that what was asked for is not what the nearest setting is proven to gain."""
        if self.standing is None or self.standing.better or self.standing.likely_worse:
            return  # with the peak as goal, too, it would be turned down
        gain = self.standing.gains.get(PEAK)
        is_programs = set(self.rules.goals) <= {MEAN, CPU}
        if gain is not None and is_programs and gain.low > math.log1p(self.rules.least):
            yield (
                "  It is proven to hold less at the peak, which was not asked for: "
                "`--goals peak_memory` with another -o asks for it."
            )

    def _open_lines(self) -> Iterator[str]:
        if self.standing is not None and not self.standing.n_rounds:
            yield f"  Most promising: {self.label}."
        elif self.standing is not None:
            n_rounds = self.standing.n_rounds
            yield f"  Nearest, after {n_rounds} round{'s'[: n_rounds != 1]}: {self.label}:"
            changes = [
                f"{name} {gain_words(gain, with_bounds=True)}"
                for name, gain in self.standing.gains.items()
            ]
            changes += [f"{what} {signed_percent(x)}" for what, x in self.counted.items()]
            yield f"    {_unbroken(changes)}"
            yield from self._floor_lines(self.standing)
            yield from self._range_lines(self.standing)
            yield from self._held_out_lines()
            if self.may_be_settled and self._gains_nothing_so_far:
                yield "  It gains nothing so far; once that is settled, others are tried."
            if not self.may_be_settled:
                yield from self._peak_lines()
        if self._is_early and self.standing and self.standing.state is State.OUT_OF_REACH:
            yield "  What was left of the time would not have shown a gain."
        words = "It is at its limit, so more time may not settle it."
        if self.more_seconds > MOST_ADVISED_S:
            words = "To settle it takes more than three days, so it cannot be shown here."
        if self.may_be_settled:
            minutes = minutes_words(self.more_seconds)
            words = f"About {minutes} more may settle it."
            if self.standing is not None and 0 < self.standing.n_rounds < RUNS_TO_KNOW:
                words = f"It takes {minutes} more at least."  # what rounds differ by is not known
        noise = {n: spread for n, spread in self.noise.items() if n in self._open} or self.noise
        name, spread = max(noise.items(), key=lambda pair: pair[1], default=("", 0.0))
        if spread >= _LEAST_NOISE and self.held_out is None:  # it is that of the tuned input
            words = f"{name} varies by {show_percent(spread)} from run to run here. {words}"
        yield f"  {words[0].upper()}{words[1:]}"

    def _range_lines(self, standing: Standing) -> Iterator[str]:
        """Say why a range that excludes no gain is no proof."""
        gains = {n: standing.gains[n] for n in self.rules.goals if n in standing.gains}
        if not standing.better and any(
            not gain.is_exact and gain.bounds and gain.low > self.rules.threshold(name)
            for name, gain in gains.items()
        ):
            yield (
                "  A range is that of one change alone; a proof, which holds for all candidates "
                "together, takes more rounds."
            )

    def _floor_lines(self, standing: Standing) -> Iterator[str]:
        """Say from where on a gain in memory counts, if that is more than the least effect."""
        by_share: dict[str, list[str]] = {}
        for goal, share in self.rules.floors:
            if (
                not standing.better
                and standing.gains[goal].middle > 0.0
                and share > self.rules.least
            ):
                by_share.setdefault(show_percent(share), []).append(goal)
        for least, goals in by_share.items():
            floor = f"{LEAST_BYTES >> 10} KiB on, {least} here"
            yield f"  A gain in {series(goals)} counts from {floor}."

    def as_record(self) -> dict[str, Any]:
        """Return it for a file, and for ``--json``."""
        return {
            "schema": ANSWER_SCHEMA,
            "version": ANSWER_VERSION,
            "decision": str(self.decision),
            "sentence": self.sentence,
            "text": [self.sentence, *self._details()],
            "configuration": self.configuration.key if self.configuration else None,
            "trial": self.trial,
            "label": self.label,
            "command": list(self.command),
            "date": self.date,
            "as_is": {"allocator": self.as_is, **{key_of(n): v for n, v in self.baseline.items()}},
            "changes": _changes(self.standing.gains) if self.standing else None,
            "held_out": _changes(self.held_out) if self.held_out else None,
            "subjects": [
                {
                    "label": row.label,
                    "changes": _changes(row.changes),
                    "in_rounds": row.is_candidate,
                    "note": row.note,
                    "is_open": row.is_open,
                }
                for row in self.rows
            ],
            "instructions": self.counted.get("instructions"),
            "counted": {key_of(what): change for what, change in self.counted.items()},
            "proven_by_count": list(map(key_of, self.standing.by_count if self.standing else ())),
            "settings": [
                {"setting": setting, "changes": _changes(gains), "may_be_left_out": is_needless}
                for setting, gains, is_needless in self.effects
            ],
            "left_out": [*self.left_out, *self.dropped],
            "traded": _changes(self.traded) if self.traded else None,
            "turned_down": [
                {
                    "label": one.label,
                    "changes": _changes(one.gains),
                    "broken": [key_of(name) for name in one.broken],
                    "in_rounds": one.in_rounds,
                    "constraints": list(one.constraints),
                }
                for one in self.turned_down
            ],
            "missing": self.missing or None,
            "more_seconds": round(self.more_seconds, 1) if self.missing else None,
            "reasons": list(self.reasons),
            "noise": {key_of(name): spread for name, spread in self.noise.items()},
            "growth_bytes_per_min": dict(self.growth),
            "least_effect": self.rules.least,
            "error": self.rules.error,
            "runs": self.n_runs,
            "rounds": self.standing.n_rounds if self.standing else None,
            "rounds_of": dict(self.rounds_of),
            "duets": self.n_duets,
            "seconds": round(self.seconds, 1),
        }


def write_answer(run: Path, answer: Answer) -> None:
    """Write the answer into a run folder.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(run / ANSWER_FILE, json.dumps(answer.as_record(), indent=1) + "\n")


def with_words(label: str) -> str:
    """Return a label as a sentence has it.

    Example:
        >>> with_words("glibc"), with_words("jemalloc narenas=2 tcache=false")
        ('glibc with its default settings', 'jemalloc with narenas=2 tcache=false')
    """
    allocator, _, settings = label.partition(" ")
    return f"{allocator} with {settings or 'its default settings'}"


def _unbroken(changes: Sequence[str]) -> str:
    """Return changes in a row, in none of which a line breaks."""
    return ", ".join(change.replace(" ", _HARD_SPACE) for change in changes)


def _wrapped(text: str, columns: int) -> list[str]:
    """Return a paragraph as lines: all but the first go in by two columns more than that."""
    indent = len(text) - len(text.lstrip())
    return wrapped(text, columns, others=" " * (indent + 2)) or [""]


def _table_lines(answer: Answer, columns: int) -> Iterator[str]:
    """Yield the table: at most eight subjects, each change with its bounds."""
    rows = _shown(answer)
    yield from rows_table(answer.as_is, answer.baseline, rows, columns)
    if answer.n_more:
        yield f"{answer.n_more}{MORE_RAN}"
    if answer.not_run:
        plural = "s" if len(answer.not_run) > 1 else ""
        yield f"the default{plural} of {series(answer.not_run)} did not run"


def _shown(answer: Answer) -> list[AnswerRow]:
    """Return what helps to decide: candidates, defaults, or what came nearest in one run."""
    rules = answer.rules
    named = {one.label for one in answer.turned_down}
    first = [row for row in answer.rows if row.is_candidate]
    first += [row for row in answer.rows if row.label in named and row not in first]
    defaults = [row for row in answer.rows if " " not in row.label and row not in first]
    rest = [row for row in answer.rows if row not in (*first, *defaults) and row.changes]
    rest.sort(key=lambda row: -sum(row.changes[goal].likely for goal in rules.goals))
    nearest = [] if first else rest[:_NEAREST]
    room = max(1, _MOST_ROWS - len(defaults))
    return [*first[:room], *defaults, *nearest][:_MOST_ROWS]


def _gain_lines(gains: Mapping[str, Gain], rules: Rules) -> Iterator[str]:
    """Yield a line for every guard that was measured."""
    for name in rules.guards:
        if name in gains:
            gain = gains[name]
            yield f"  {name:<12} {signed_percent(gain.change):>8}{_bound_words(gain)}"


def _with_guards_of(held_out: Mapping[str, Gain], rules: Rules) -> Rules:
    """Return rules with what was judged on the held-out input alone, such as its p95, too."""
    judged = (name for name, gain in held_out.items() if gain.limit is not None)
    return replace(rules, guards=tuple(dict.fromkeys((*rules.guards, *judged))))


def _bound_words(gain: Gain) -> str:
    """Return the end of the interval that counts: the one that is worse."""
    if gain.is_exact:
        return ""
    if gain.bounds is None:
        return "   too few rounds for bounds"
    low, high = gain.bounds
    if gain.is_more_better:
        return f"   at least {signed_percent(low):>7}"
    most = signed_percent(high)
    return f"   {'at least' if most.startswith('-') else 'at most'} {most:>7}"


def _is_seen(gain: Gain, rules: Rules) -> bool:
    """Return whether a change is proven, and not next to nothing."""
    is_sure = gain.low > 0.0 or gain.high < 0.0
    return is_sure and abs(gain.middle) >= _NEXT_TO_NOTHING * rules.least


def is_shown(gains: Mapping[str, Gain], rules: Rules) -> bool:
    """Return whether a setting has a change that is shown: proven, or seen in too few runs.

    Args:
        gains: quantity -> what is gained by it.
        rules: say what counts.
    """
    is_any = any(_is_seen(gain, rules) for gain in gains.values())
    return is_any or bool(_seen_in_few_runs(gains, rules))


def _seen_in_few_runs(gains: Mapping[str, Gain], rules: Rules) -> dict[str, Gain]:
    """Return the changes of memory that too few runs for bounds show, all in one direction."""
    few = {n: gain for n, gain in gains.items() if gain.bounds is None and not gain.is_mixed}
    return {
        name: gain
        for name, gain in few.items()
        if TABLE[name].is_memory and abs(gain.likely) >= rules.least
    }


def _unproven_words(gains: Mapping[str, Gain], rules: Rules) -> str:
    few = _seen_in_few_runs(gains, rules)
    found = [f"{name} about {signed_percent(gain.change)}" for name, gain in few.items()]
    if not found:
        return _NOTHING_ALONE
    return f"{', '.join(found)}, in too few runs to prove it"


def _best_words(standing: Standing, rules: Rules) -> str:
    """Return the goal that changes most for the better, and what is bad; empty if none does."""
    gains = standing.gains
    name = max(rules.goals, key=lambda goal: gains[goal].middle)
    if gains[name].middle < _NEXT_TO_NOTHING * rules.least:
        return ""
    bad = standing.worse or standing.likely_worse
    found = [loss_words(other, gains[other]) for other in bad]
    if standing.state is State.FAILED:
        found.append(f"it failed: {standing.reason}")
    words = f", but {', '.join(found)}" if found else ""
    return f"{name} {signed_percent(gains[name].change)}{words}"


def _changes(gains: Mapping[str, Gain]) -> dict[str, Any]:
    return {
        key_of(name): {
            "change": gain.seen_change,
            "bounds": gain.bounds,
            "exact": gain.is_exact,
            "smoothed": gain.smoothed_change,
            "limit": gain.limit,
        }
        for name, gain in gains.items()
    }


def _goal_words(rules: Rules) -> str:
    """Return what was to be proven, with the floor of memory in words."""

    def share(goal: str) -> str:
        return f"{100 * math.expm1(replace(rules, floors=()).threshold(goal)):.3g} %"

    memory = [name for name in rules.goals if TABLE[name].is_memory]
    floor = f" (at least {LEAST_BYTES >> 10} KiB)" if rules.floors else ""
    what = PEAK if memory == [PEAK] else "memory"
    wanted = [f"{share(memory[0])} of {what}{floor}"] if memory else []
    if len(memory) < len(rules.goals):
        wanted.append(f"{share(CPU)} of {CPU}")
    where = "in the other" if len(wanted) > 1 else "elsewhere"
    return f"{' or '.join(wanted)} without a loss {where}"


def open_words(standing: Standing) -> str:
    """Return what is open of the best candidate.

    Example:
        >>> open_words(Standing("x", 9, State.OPEN, {}, ("mean memory",), (), ("CPU time",)))
        'whether CPU time is no worse'
        >>> open_words(Standing("x", 9, State.OPEN, {}, (), (), ("CPU time",)))
        '9 rounds prove no gain that counts yet, nor that CPU time is no worse'
        >>> open_words(Standing("x", 0, State.OPEN, {}, (), (), ("CPU time", "peak memory")))
        'no time was left to run the best candidate'
    """
    if not standing.n_rounds:
        return "no time was left to run the best candidate"
    rounds = "1 round proves" if standing.n_rounds == 1 else f"{standing.n_rounds} rounds prove"
    if not standing.better and len(standing.unsure) == len(standing.gains):
        return f"{rounds} too little of the best candidate yet"
    kept = no_worse_words(standing.unsure) if standing.unsure else ""
    if standing.better:
        return f"whether {kept}"
    nor = f", nor that {kept}" if kept else ""
    return f"{rounds} no gain that counts yet{nor}"


def no_worse_words(names: Sequence[str]) -> str:
    """Return what has to be shown of guards.

    Example:
        >>> no_worse_words(["CPU time"]), no_worse_words(["CPU time", "peak memory"])
        ('CPU time is no worse', 'CPU time and peak memory are no worse')
    """
    return f"{series(names)} {'are' if len(names) > 1 else 'is'} no worse"


def rows_of(
    winner: str, standings: Sequence[Standing], others: Mapping[str, Mapping[str, Gain]],
    notes: Mapping[str, str], goals: Sequence[str],
) -> tuple[AnswerRow, ...]:  # fmt: skip
    """Return the rows: the winner, those of the confirmation, then those that only ran once."""
    first = sorted(standings, key=lambda one: (one.label != winner, one.state is State.FAILED))
    rows = [
        AnswerRow(s.label, _seen(s, others), is_candidate=True, note=_left_words(s, goals))
        for s in first
    ]
    known = {row.label for row in rows}
    defaults_first = sorted(
        (label for label in others if label not in known), key=lambda text: " " in text
    )
    rows += [AnswerRow(label, others[label], note=notes.get(label, "")) for label in defaults_first]
    return tuple(rows)


def _seen(standing: Standing, others: Mapping[str, Mapping[str, Gain]]) -> Mapping[str, Gain]:
    """Return what rounds show, and what few runs showed of what no round does."""
    if not standing.n_rounds:
        return {}
    few = others.get(standing.label, {})
    return {
        name: few[name] if name in standing.unseen else gain
        for name, gain in standing.gains.items()
        if name not in standing.unseen or name in few
    }


def _left_words(standing: Standing, goals: Sequence[str]) -> str:
    if standing.state is State.FAILED:
        return standing.reason
    if standing.state is State.WORSE:
        return f"worse: {_limited(standing, standing.worse)}"
    if standing.state is State.HOPELESS:
        worse = _limited(standing, standing.likely_worse)
        gains_any = any(standing.gains[goal].middle > 0.0 for goal in goals)
        too_little = "likely gains too little" if gains_any else "likely gains nothing"
        return f"likely worse: {worse}" if worse else too_little
    if standing.state is State.OUT_OF_REACH:
        return "no gain large enough to prove so far"
    if not standing.n_rounds:
        return "no time was left to run it"
    return ""


def _limited(standing: Standing, names: Sequence[str]) -> str:
    """Return quantities, each with its limit."""
    gains = {name: standing.gains[name] for name in names}
    return ", ".join(n + limit_words(g.limit, is_halved=g.is_halved) for n, g in gains.items())


def minutes_words(seconds: float) -> str:
    """Return an estimate of time that is still needed, rounded up.

    Example:
        >>> minutes_words(40.0), minutes_words(200.0), minutes_words(1e5)
        ('40 s', '4 min', '27.8 h')
    """
    if seconds < 60:  # noqa: PLR2004
        return f"{max(seconds, 1):.0f} s"
    is_long = seconds > _MINUTES_S
    return f"{math.ceil(seconds / 360) / 10:g} h" if is_long else f"{math.ceil(seconds / 60)} min"
