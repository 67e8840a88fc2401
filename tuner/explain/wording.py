"""An explanation in words, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tuner.explain.explanation import (
    AllocatorExplained,
    Explanation,
    Role,
    SettingExplained,
    how_to_go_on,
)
from tuner.explain.importance import FEWEST_TRIALS, FRONT, LEAST_FIT
from tuner.explain.levels import Danger, Level
from tuner.front.ablation import Ablation, Without
from tuner.front.kept import RECOMMENDED
from tuner.metrics import METRICS
from tuner.page import series
from tuner.records import Value
from tuner.report.columns import show_change
from tuner.report.parallel import show_value
from tuner.stats import TIE
from tuner.units import show_percent

SCHEMA: Final = "malloc-tuner.explanation"
VERSION: Final = 1
"""Of the JSON; docs/formats.md describes it."""


_SHOWN: Final = 0.005
"""Share below which it is written as 0 %."""


def label(target: str) -> str:
    """Return the name of a target: ``mean heap``, ``distance to the front``."""
    return "distance to the front" if target == FRONT else METRICS[target].label


def sentences(explanation: Explanation) -> Iterator[str]:
    """Yield the lines that explain a run."""
    decides = ", ".join(_share_of(t, s) for t, s in explanation.by_allocator.items())
    yield f"In emulation, the allocator decides {decides} (variance over all trials)."
    yield (
        "What a value gives is against the setting left alone: as measured at the point below or "
        "where it was tried alone, else on average over the trials of its allocator; `front` "
        "compares whole settings with the baseline."
    )
    if explanation.n_uncounted:
        yield (
            f"Of these trials {explanation.n_uncounted} were dominated before their instructions "
            "were counted: what needs a count is not explained."
        )
    if explanation.n_passed_over:
        n_trials = len(explanation.run.trials)
        yield (
            f"Not among these: {explanation.n_passed_over} of {n_trials} trials, dominated before "
            "instructions were counted. So settings that are worse than others everywhere are "
            "mostly left out."
        )
    left_out = dict(explanation.left_out)
    if explanation.ablation:
        name = explanation.ablation.pick.trial.configuration.allocator
        if (n := left_out.pop(name, None)) is not None:
            yield (
                f"The settings of {name}, which {explanation.ablation.pick.name} is of, are not "
                f"explained: {FEWEST_TRIALS} trials are needed, it has {n}; "
                f"{how_to_go_on(explanation.run, name, n)}."
            )
    for allocator in explanation.allocators:
        yield ""
        yield from _allocator(allocator)
    if left_out:
        few = ", ".join(f"{name} ({n})" for name, n in left_out.items())
        yield ""
        yield f"Too few trials to explain: {few}."
    if explanation.ablation:
        yield ""
        yield from point_text(explanation.ablation)


def _allocator(found: AllocatorExplained) -> Iterator[str]:
    fit = found.importance.fit
    known = [_share_of(t, fit[t]) for t in fit if fit[t] >= LEAST_FIT]
    unknown = [label(t) for t in fit if fit[t] < LEAST_FIT]
    little = f"little of {', '.join(unknown)}" if unknown else ""
    says = "; ".join(filter(None, (", ".join(known), little)))
    yield f"{found.allocator}: {found.n_trials} trials; their settings explain {says}"
    for role, title in _TITLES.items():
        some = found.of_role(role)
        shown = [one for one in some if _has_line(one)]
        others = ", ".join(_named(one) for one in some if one not in shown)
        if shown:
            yield f"  {title}:"
            yield from (f"    {_named(one)}: {_effect(found, one)}" for one in shown)
        if others:
            yield f"    no gain seen: {others}" if shown else f"  {title}: {others}"
    dangers = [one.danger for one in found.settings if one.danger]
    if dangers:
        yield "  dangerous:"
        yield from (f"    {danger_text(danger)}" for danger in dangers)
    for pair in found.importance.pairs:
        both = " and ".join(pair.settings)
        yield f"  together: {both} ({_share_of(pair.target, pair.share.value)})"


_TITLES: Final = {
    Role.CARRIES: "these carry the gain",
    Role.TRADES: "these gain one thing and cost another",
    Role.COSTS: "these matter, and no value tried gains 1 % or more",
    Role.SMALL: "small or unsure",
    Role.NOTHING: "no effect seen",
}


def _named(one: SettingExplained) -> str:
    return one.name if one.is_compared else f"{one.name} (nearly always set)"


def _has_line(one: SettingExplained) -> bool:
    """Return whether a setting is more than named: it matters, or may gain."""
    if one.role is Role.SMALL:
        return one.best is not None
    return one.role is not Role.NOTHING


def _effect(found: AllocatorExplained, one: SettingExplained) -> str:
    shares = found.importance.shares[one.name]
    parts = [_share_of(target, share.value) for target, share in shares.items()]
    text = ", ".join(parts) or "share unknown"
    if one.best is None:
        return text
    is_seen = not shares or any(share.value >= _SHOWN for share in shares.values())
    return f"{text}; {_level(one.best)}" if is_seen else _level(one.best)


def _level(level: Level) -> str:
    return f"{show_value(level.value)} gives {_changes(level.changes)}"


def _changes(changes: Mapping[str, float]) -> str:
    return ", ".join(f"{label(name)} {show_change(ratio)}" for name, ratio in changes.items())


def danger_text(danger: Danger) -> str:
    """Return which values harm, and how: ``narenas above 8: mean heap +12 % at 64``."""
    worst = danger.worst
    if danger.above is not None:
        where = f"{danger.setting} above {show_value(danger.above)}"
    elif danger.below is not None:
        where = f"{danger.setting} below {show_value(danger.below)}"
    else:
        values = ", ".join(show_value(level.value) for level in danger.levels)
        where = f"{danger.setting} = {values}"
    if worst.mostly_fails:
        return f"{where}: {worst.n_failed} of {worst.n_trials} trials failed"
    at = f" at {show_value(worst.value)}" if len(danger.levels) > 1 else ""
    return f"{where}: {_changes(worst.changes)}{at}"


def point_text(found: Ablation) -> Iterator[str]:
    """Yield what each setting of a point does."""
    trial = found.pick.trial
    yield f"{found.pick.name}, trial {trial.number}: {trial.configuration}"
    if found.pick.name == RECOMMENDED:
        yield f"  what `optimize` deploys ({found.pick.rule})"
    if not found.settings:
        yield "  the default: it has no settings"
        return
    known = [row for row in _by_loss(found.settings) if row[2].is_known]
    if known:
        yield "  with one setting taken away, all others as they are:"
        rows = [(f"{n}={show_value(v)}", _without(one)) for n, v, one in known]
        width = max(len(setting) for setting, _ in rows)
        yield from (f"    without {setting:<{width}}  {words}" for setting, words in rows)
    yield from _unknown(found)
    if found.reduced is not None:
        yield f"  {reduced_text(found.reduced)}"


def _unknown(found: Ablation) -> Iterator[str]:
    """Yield a line for what is not known of the settings, if there is any."""
    names = [name for name, _, one in found.settings if not one.is_known]
    if len(names) == len(found.settings):
        yield "  what it does without each of these is not recorded; --measure emulates that"
    elif names:
        yield f"    not recorded without {series(names, 'or')}; --measure emulates that"


def reduced_text(reduced: Without) -> str:
    """Return what taking away all needless settings together does."""
    if reduced.is_needless:
        return f"enough is {reduced.configuration}: {_changes(reduced.changes or {})}"
    found = f"fails: {reduced.reason}" if reduced.reason else _changes(reduced.changes or {})
    return f"needless one by one, not together: {reduced.configuration}: {found}"


def _by_loss(settings: Sequence[tuple[str, Value, Without]]) -> list[tuple[str, Value, Without]]:
    return sorted(settings, key=lambda row: -max((row[2].changes or {}).values(), default=0.0))


def _without(one: Without) -> str:
    source = f" (trial {one.trial})" if one.trial is not None else ""
    if one.changes is None:
        return f"fails: {one.reason}{source}"
    is_better = min(one.changes.values(), default=1.0) < 1.0 - TIE
    words = "; better without" if is_better else "; needless"
    return f"{_changes(one.changes)}{words if one.is_needless else ''}{source}"


# JSON


def _share_of(target: str, share: float) -> str:
    return f"{show_percent(share, 0)} of {label(target)}"


def explanation_json(explanation: Explanation) -> str:
    """Write an explanation as JSON, with a line end."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "campaign": explanation.run.campaign.name,
        "objectives": list(explanation.run.campaign.objectives),
        "by_allocator": explanation.by_allocator,
        "allocators": [_allocator_document(one) for one in explanation.allocators],
        "left_out": explanation.left_out,
        "n_uncounted": explanation.n_uncounted,
        "n_passed_over": explanation.n_passed_over,
        "point": _point_document(explanation.ablation) if explanation.ablation else None,
    }
    return json.dumps(document, indent=2) + "\n"


def _allocator_document(found: AllocatorExplained) -> dict[str, Any]:
    return {
        "allocator": found.allocator,
        "n_trials": found.n_trials,
        "fit": found.importance.fit,
        "settings": [
            {
                "name": one.name,
                "role": one.role.value,
                "shares": {
                    target: {"value": share.value, "error": share.error}
                    for target, share in found.importance.shares[one.name].items()
                },
                "levels": [_level_document(level) for level in one.levels],
                "best": None if one.best is None else one.best.value,
                "dangerous": [level.value for level in one.danger.levels] if one.danger else [],
            }
            for one in found.settings
        ],
        "interactions": [
            {"settings": list(pair.settings), "target": pair.target, "share": pair.share.value}
            for pair in found.importance.pairs
        ],
    }


def _level_document(level: Level) -> dict[str, Any]:
    return {
        "value": level.value,
        "n_trials": level.n_trials,
        "n_failed": level.n_failed,
        "changes": dict(level.changes),
        "is_compared": level.is_compared,
    }


def _point_document(found: Ablation) -> dict[str, Any]:
    configuration = found.pick.trial.configuration
    return {
        "name": found.pick.name,
        "trial": found.pick.trial.number,
        "allocator": configuration.allocator,
        "settings": [
            {"name": name, "value": value, **_without_document(one)}
            for name, value, one in found.settings
        ],
        "enough": None
        if found.reduced is None
        else {"settings": found.reduced.configuration.as_dict, **_without_document(found.reduced)},
    }


def _without_document(one: Without) -> dict[str, Any]:
    changes = None if one.changes is None else dict(one.changes)
    return {"without": changes, "trial": one.trial, "reason": one.reason}
