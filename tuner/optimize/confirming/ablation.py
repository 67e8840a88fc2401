"""What each setting of the winner does, on the program: rounds of the winner with one setting less.

Every variant runs beside the winner in rounds of random order, at once on one core where that may
be (duets.py): noise that all share would make needless settings look like a gain or a loss.  A
setting without which nothing seems to become worse by the least effect and by a standard error goes
back to unset, once new runs of the program have confirmed what is left (reduced.py).  A winner that
fails here is turned down, as in the race (`failures`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.compare.journal import read_journal
from tuner.compare.plan import Course, Rounds, Step, ValuesT
from tuner.optimize.answering.answer import is_shown
from tuner.optimize.proof.duets import MOST_AT_ONCE, at_once
from tuner.optimize.proof.judgement import Gain, Rules, Standing, judge
from tuner.optimize.proof.noise import OF_MEDIANS, exact_of
from tuner.optimize.tuned import Logs, Reference, label_of, logs_of
from tuner.optimize.work import ABLATION_FILE, Work, duets_for
from tuner.records import Configuration
from tuner.stats import robust_sd

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 20
_SOON_S = 10.0
"""More rounds are made where they fit into this: runs of milliseconds vary by a fifth."""
_SHARE_OF_TIME = 0.4
"""Of what is left; the rest confirms what the settings are reduced to."""
_ERROR = 0.2
"""Of calling a setting needless where it is not: it stays in place anyway."""


@dataclass(frozen=True)
class SettingEffect:
    """What one setting does."""

    setting: str
    """``tcache_count=4096``."""
    gains: Mapping[str, Gain]
    """Quantity -> what the winner gains by it."""
    is_needless: bool
    """Without it, no guarded quantity is worse by the least effect: proven."""
    name: str = ""
    """``tcache_count``."""
    seems_needless: bool = False
    """The same, in the middle of the runs."""
    is_costly: bool = False
    """With it, a guarded quantity is worse by the least effect: proven."""
    loss: float = 0.0
    """What the goals lose without it, in logarithms: the sum of the middles, 0 where they gain."""
    is_shown: bool = True
    """The answer has a change to say of it."""


def effects_of(
    work: Work, reference: Reference, winner: Configuration
) -> tuple[SettingEffect, ...]:
    """Return what each setting of the winner does, as far as there is time to see it.

    Args:
        work: the optimisation.
        reference: the program as it is.
        winner: what is to be deployed.

    Returns:
        Nothing where the winner fails, too; see `failures`.
    """
    if winner.is_default:
        return ()
    variants = {f"without {name}": winner.without(name) for name, _ in winner.settings}
    if any(map(reference.is_of, variants.values())):
        return ()  # of one setting, beside which the program as it is ran before
    label = label_of(winner)
    subjects = (label, *variants)
    candidates = {label: winner, **variants}
    left_s = _SHARE_OF_TIME * work.watch.left_s
    round_s = len(subjects) * work.run_seconds(reference)
    n_rounds = int(left_s / round_s)
    if n_rounds < _FEWEST_ROUNDS and work.kept(ABLATION_FILE) != candidates:
        return ()
    n_rounds = min(max(_MOST_ROUNDS, int(_SOON_S / round_s)), max(n_rounds, 0))
    duets = None
    if len(subjects) <= MOST_AT_ONCE:
        duets = duets_for(work, ABLATION_FILE, candidates, reference)
    work.view.begin("one setting less", n_rounds * len(subjects))
    until_s = work.watch.used_s + left_s
    plan = _Rounds(
        subjects, (None,), n_rounds, work.request.seed,
        is_over=lambda: work.watch.used_s > until_s,
    )  # fmt: skip
    course = work.compare(ABLATION_FILE, at_once(plan, duets), candidates, reference, duets=duets)
    if (None, label) in course.out:
        return ()
    asked = work.request.rules
    rules = Rules(asked.least, asked.goals, asked.guards, _ERROR)
    exact = exact_of(course, rules, label)
    found = []
    for (name, _), variant in zip(winner.settings, variants, strict=True):
        lost = logs_of(course, variant, label)
        loss = judge(variant, lost, exact, rules, 1)
        gained = logs_of(course, label, variant)
        is_costly = bool(judge(label, gained, exact, rules, 1).worse)
        at_error = replace(rules, error=asked.error)
        gains = judge(label, gained, exact, at_error, len(variants)).gains
        seems_needless = bool(loss.n_rounds) and not _seems_worse(loss, lost, rules)
        is_needless = seems_needless and not loss.unsure
        text = setting_text(winner, name)
        all_lost = sum(max(0.0, -loss.gains[goal].middle) for goal in rules.goals)
        shown = is_shown(gains, asked)
        found.append(
            SettingEffect(
                text, gains, is_needless, name, seems_needless, is_costly, all_lost, shown
            )
        )
    return tuple(found)


class _Rounds(Rounds[None]):
    """End where the first subject, the winner, fails: nothing is left to compare with."""

    def blocks(self, course: Course[None, ValuesT]) -> Iterator[Sequence[Step[None]]]:
        """Yield a block for every round."""
        for block in super().blocks(course):
            if (None, self.subjects[0]) in course.out:
                return
            yield block


def failures(work: Work) -> dict[str, str]:
    """Return label -> reason of the winners that failed here, in earlier calls too."""
    found: dict[str, str] = {}
    for path in work.run.glob(f"{Path(ABLATION_FILE).stem}*.jsonl"):
        content = read_journal(path)
        if content is None:
            continue
        winner = next(iter(content.header["candidates"]))
        its_runs = {one["round"]: one for one in content.records if one["subject"] == winner}
        for one in its_runs.values():
            if one["reason"] is not None:
                found[winner] = one["reason"]
    return found


def setting_text(configuration: Configuration, name: str) -> str:
    """Return one of its settings as text, such as ``tcache_count=4096``."""
    value = configuration.as_dict[name]
    return str(Configuration.of(configuration.allocator, {name: value})).partition(" ")[2]


def _seems_worse(loss: Standing, lost: Logs, rules: Rules) -> bool:
    """Return whether the winner without a setting is worse in a guard, proven or in the middle.

    What the first rounds prove stays proven; the rest of them may say otherwise.

    Args:
        loss: what the winner gains without it.
        lost: the same of every round.
        rules: say what counts.
    """

    def seems_lost(name: str) -> bool:
        error = OF_MEDIANS * robust_sd(lost[name]) / math.sqrt(len(lost[name]))
        return loss.gains[name].middle < -max(rules.margin(name), error)

    return bool(loss.worse) or any(seems_lost(one) for one in rules.guards if one in loss.gains)
