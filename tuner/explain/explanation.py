"""What matters in a run: importance, dangers and a point, for every allocator with enough trials.

The distance to the front is how far a trial has to improve in all objectives to reach the front
of the run, in logarithms of objectives; a setting helps the front if it shortens it.

Source: the additive epsilon indicator of Zitzler et al., "Performance assessment of multiobjective
optimizers", IEEE Trans. Evol. Comput. 7(2), 2003, of the front against one point.
"""

from __future__ import annotations

import enum
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tuner.errors import SelectionError
from tuner.explain.importance import FEWEST_TRIALS, FRONT, Floats, Importance, importance_of
from tuner.explain.levels import Danger, Level, Setting, danger_of, levels_of, on_scale
from tuner.front.ablation import Ablation, Without
from tuner.front.dominance import front, points_of
from tuner.metrics import METRICS
from tuner.records import Status, Trial, Value
from tuner.runs import REQUEST_FILE, Run
from tuner.stats import TIE

Bools = npt.NDArray[np.bool_]

_CARRIES = 0.05
"""Share of the variance of a target from which a setting matters."""
_NOTHING = 0.01
"""Share below which it does nothing, if that is so for all targets and no value harms."""

_USUAL = 0.9
"""Share of the good trials from which a setting that they have is usual among them."""

_CLEAR = 0.01
"""Gain of a setting that matters which is said, whatever it costs."""


class Role(enum.StrEnum):
    """What a setting does."""

    CARRIES = "carries the gain"
    """It matters, or gains much for sure: a value makes an objective better and none worse."""
    TRADES = "trades"
    """It gains one objective and costs another: much of both, or of the gain, or it matters."""
    COSTS = "only costs"
    """It matters, and none of its values makes an objective better."""
    SMALL = "small or unsure"
    NOTHING = "does nothing"


@dataclass(frozen=True)
class SettingExplained:
    """One setting of an allocator."""

    name: str
    role: Role
    levels: tuple[Level, ...]
    """Every value that was tried, in the order of the scale."""
    best: Level | None
    """That of the point, if it gains, else the one that brings the objectives farthest down in sum;
    None where unset is best."""
    danger: Danger | None
    is_usual: bool = False
    """Nearly all good trials set it, so that no effect seen does not mean that it has none."""

    @property
    def is_compared(self) -> bool:
        """False where nearly all trials set it: what it does is not known then."""
        return not self.is_usual and all(level.is_compared for level in self.levels)


@dataclass(frozen=True)
class AllocatorExplained:
    """The settings of one allocator, those that matter most first."""

    allocator: str
    n_trials: int
    """With numbers."""
    importance: Importance
    settings: tuple[SettingExplained, ...]

    def of_role(self, role: Role) -> list[SettingExplained]:
        """Return the settings of one role."""
        return [setting for setting in self.settings if setting.role is role]


@dataclass(frozen=True)
class Explanation:
    """What matters in a run."""

    run: Run
    allocators: tuple[AllocatorExplained, ...]
    """In the order of the campaign; that of the point first."""
    left_out: Mapping[str, int]
    """Allocator -> trials with numbers, where these are too few."""
    by_allocator: Mapping[str, float]
    """Target -> share of its variance that the choice of the allocator decides."""
    ablation: Ablation | None
    """Of the point; None where no trial is feasible."""
    n_uncounted: int = 0
    """Trials among them whose instructions were not counted; where there are some, only objectives
    that need no count are explained."""
    n_passed_over: int = 0
    """Trials that are not among them, since their instructions were not counted."""


def explain_run(material: Material, ablation: Ablation | None, seed: int = 1) -> Explanation:
    """Explain a run.

    Args:
        material: of the run.
        ablation: of the point that is explained.
        seed: of the forests.
    """
    run = material.run
    seed %= 1 << 31  # forests take 32 bits, and a little more than the seed itself
    names = list(run.campaign.allocators)
    if ablation is not None:
        names.sort(key=lambda name: name != ablation.pick.trial.configuration.allocator)
    good, targets, left_out = material.trials, material.targets, material.left_out
    found = [name for name in names if name not in left_out]
    allocators = tuple(_explain(material, name, seed, ablation) for name in found)
    n_uncounted = sum(trial.status is Status.UNCOUNTED for trial in run.trials)
    return Explanation(
        run,
        allocators,
        left_out,
        _between(good, targets),
        ablation,
        material.n_uncounted,
        n_uncounted - material.n_uncounted,
    )


@dataclass(frozen=True)
class Material:
    """What a run has to explain settings by."""

    run: Run
    trials: Sequence[Trial]
    targets: Mapping[str, Floats]
    """Name -> its value of each trial, in logarithms."""
    left_out: Mapping[str, int]
    """See `Explanation.left_out`."""
    n_uncounted: int
    """See `Explanation.n_uncounted`."""


def material_of(run: Run, wanted: str | None = None) -> Material:
    """Return what a run is explained by.

    Args:
        run: any.
        wanted: the allocator that matters most: where too few of its trials were counted, those
            that were not are among them, and what needs a count is not explained.

    Raises:
        SelectionError: no allocator has enough trials.
    """
    names = list(run.campaign.allocators)
    good = [trial for trial in run.trials if trial.measurement is not None]
    few = _too_few(names, good)
    is_enough = len(few) < len(names)
    if is_enough and wanted not in few:
        return Material(run, good, _targets(run, good), few, 0)
    # Memory is known of trials whose instructions were not counted.
    uncounted = [trial for trial in run.trials if trial.status is Status.UNCOUNTED]
    every = good + uncounted
    targets = _shared_targets(run, every)
    left_out = _too_few(names, every if targets else good)
    if wanted not in left_out if is_enough else len(left_out) < len(names):
        return Material(run, every, targets, left_out, len(uncounted))
    if is_enough:
        return Material(run, good, _targets(run, good), few, 0)
    counts = ", ".join(f"{name} {n}" for name, n in left_out.items())
    most = max(left_out, key=lambda name: left_out[name])
    raise SelectionError(
        f"{run.folder}: too few trials to explain settings ({counts}; {FEWEST_TRIALS} of an "
        f"allocator are needed); {how_to_go_on(run, most, left_out[most])}"
    )


def how_to_go_on(run: Run, name: str, n_has: int) -> str:
    """Say which command makes enough trials of an allocator that has so many.

    The search of `optimize` ends once it gains nothing more, so it does not go on.
    """
    if (run.folder / REQUEST_FILE).exists():
        trace, other = shlex.quote(run.campaign.trace_path), shlex.quote(f"{run.folder}-{name}")
        command = f"malloc-tuner tune {trace} --allocators {name} -o {other}"
        return f"`{command}` searches {name} alone"
    n_trials = _trials_to_explain(len(run.trials), n_has)
    folder = shlex.quote(str(run.folder))
    return f"`malloc-tuner tune {folder} --evaluations {n_trials}` goes on with more"


def _trials_to_explain(n_trials: int, n_most: int) -> int:
    """Return about how many trials give one allocator enough, in tens.

    Args:
        n_trials: of the run.
        n_most: of the allocator that has the most, whose share of the next is the same.

    Example:
        >>> _trials_to_explain(18, 6), _trials_to_explain(36, 19), _trials_to_explain(5, 1)
        (80, 50, 130)
    """
    return 10 * math.ceil(n_trials * FEWEST_TRIALS / max(n_most, 1) / 10)


def _too_few(names: Sequence[str], trials: Sequence[Trial]) -> dict[str, int]:
    """Return the allocators without enough trials, and how many they have."""
    counts = {name: sum(t.configuration.allocator == name for t in trials) for name in names}
    return {name: n for name, n in counts.items() if n < FEWEST_TRIALS}


def _shared_targets(run: Run, trials: Sequence[Trial]) -> dict[str, Floats]:
    """Return the objectives that all trials have, even those that were not counted."""
    columns = {
        name: [METRICS[name].value(trial.outcome.values) for trial in trials]
        for name in run.campaign.objectives
    }
    return {
        name: np.log1p(np.array(column, dtype=np.float64))
        for name, column in columns.items()
        if None not in column
    }


def _targets(run: Run, good: Sequence[Trial]) -> dict[str, Floats]:
    logs = np.log1p(points_of(good))
    best = np.log1p(points_of(front(run.trials)))
    found = {FRONT: np.zeros(len(good))} if not len(best) else {FRONT: _distance(best, logs)}
    return found | dict(zip(run.campaign.objectives, logs.T, strict=True))


def _distance(best: Floats, points: Floats) -> Floats:
    """Return for each point the least over the front of its greatest loss in an objective."""
    losses = points[:, None, :] - best[None, :, :]
    return np.asarray(np.maximum(losses.max(axis=2).min(axis=1), 0.0))


def _between(good: Sequence[Trial], targets: Mapping[str, Floats]) -> dict[str, float]:
    """Return the variance between the allocators' means over the whole."""
    names = np.array([trial.configuration.allocator for trial in good])
    found = {}
    for target, values in targets.items():
        means = np.empty(len(values))
        for name in set(names.tolist()):
            means[names == name] = values[names == name].mean()
        is_constant = np.ptp(values) == 0.0  # its variance may be what rounding leaves
        found[target] = 0.0 if is_constant else float(means.var() / values.var())
    return found


def _explain(
    material: Material, allocator: str, seed: int, ablation: Ablation | None
) -> AllocatorExplained:
    run, good = material.run, material.trials
    own = np.array([trial.configuration.allocator == allocator for trial in good])
    trials = [trial for trial, is_own in zip(good, own, strict=True) if is_own]
    targets = {target: values[own] for target, values in material.targets.items()}
    lost = [
        trial
        for trial in run.trials
        if trial.configuration.allocator == allocator and trial.has_failed
    ]
    settings = settings_of(run, allocator, [*trials, *lost])
    places = np.array([_places(settings, trial) for trial in trials], dtype=np.float64)
    names = [setting.name for setting in settings]
    importance = importance_of(names, places, targets, seed)
    objectives = {name: values for name, values in targets.items() if name != FRONT}
    failed = [_places(settings, trial) for trial in lost]
    levels = levels_of(settings, places, objectives, failed, seed)
    own_point = ablation and ablation.pick.trial.configuration.allocator == allocator
    chosen = {row[0]: row[1:] for row in ablation.settings} if ablation and own_point else {}
    usual = _usual(places, targets)
    every = [
        explained(setting, found, importance, chosen.get(setting.name), is_usual=bool(is_usual))
        for setting, found, is_usual in zip(settings, levels, usual, strict=True)
    ]
    every.sort(key=lambda one: -_max_share(importance, one.name))
    return AllocatorExplained(allocator, len(trials), importance, tuple(every))


def _usual(places: Floats, targets: Mapping[str, Floats]) -> Bools:
    """Return which settings nearly all of the better half of the trials have.

    Args:
        places: (n_trials, n_settings), 0 for unset.
        targets: of an allocator; the better trials are nearer to the front, or where that is not
            known lower in sum.
    """
    worth = targets[FRONT] if FRONT in targets else np.sum([*targets.values()], axis=0)
    better = places[np.argsort(worth, kind="stable")[: len(places) // 2]]
    return np.asarray((better > 0).mean(axis=0) >= _USUAL)


def _at_point(levels: Sequence[Level], chosen: Value, without: Without) -> list[Level]:
    """Return the levels, that of the point with what it does there, if that was measured."""
    if without.changes is None:
        return [*levels]
    found = []
    for level in levels:
        if level.value != chosen:
            found.append(level)
            continue
        known = [name for name in level.changes if without.changes.get(name)]
        there = {name: 1.0 / without.changes[name] for name in known}
        changes = {**level.changes, **there}
        found.append(replace(level, changes=changes, doubt=TIE, is_compared=True))
    return found


def _max_share(importance: Importance, name: str) -> float:
    """Return the greatest share of a setting over all targets; 0 where none is predicted."""
    return max((share.value for share in importance.shares[name].values()), default=0.0)


def explained(
    setting: Setting,
    levels: Sequence[Level],
    importance: Importance,
    chosen: tuple[Value, Without] | None = None,
    *,
    is_usual: bool = False,
) -> SettingExplained:
    """Return what a setting does: its role follows from its shares and from what its values do.

    Args:
        setting: of an allocator.
        levels: what its values do over all trials.
        importance: the shares.
        chosen: its value in the point that is explained, and the point without it; what was
            measured there counts before `levels`.
        is_usual: nearly all good trials set it.
    """
    value, without = chosen or (None, None)
    is_measured = without is not None and without.is_known
    if value is not None and without is not None:
        levels = _at_point(levels, value, without)
    shares = importance.shares[setting.name].values()
    matters = any(share.value >= _CARRIES and share.is_sure for share in shares)
    gaining = [level for level in levels if level.gains and not level.harms]
    paying = [level for level in gaining if level.pays]
    clear = [one for one in gaining if min(one.changes.values()) <= 1.0 - _CLEAR]
    some = clear if matters else []
    own = [one for one in clear if value is not None and one.value == value]
    best = min(own or paying or some, key=lambda level: sum(level.changes.values()), default=None)
    danger = danger_of(setting, levels)
    is_known = len(shares) == len(importance.fit) and all(level.is_compared for level in levels)
    fails = without is not None and without.reason is not None
    acts = fails or danger is not None or any(level.acts for level in levels)
    matters = matters or (best is not None and best.is_sure)
    unseen = False
    if best is not None and (best.trades or (matters and (best.loses or not best.pays))):
        role = Role.TRADES
    elif matters:
        role = Role.CARRIES if best else Role.COSTS
    elif is_known and not acts and all(share.value < _NOTHING for share in shares):
        unseen = is_usual and not is_measured
        role, best = (Role.SMALL, None) if unseen else (Role.NOTHING, best)
    else:
        role = Role.SMALL
    return SettingExplained(setting.name, role, tuple(levels), best, danger, unseen)


def settings_of(run: Run, allocator: str, trials: Sequence[Trial]) -> list[Setting]:
    """Return the settings that the trials of an allocator vary, with the values they may have."""
    prefix = f"{allocator}."
    genes = {
        gene.name.removeprefix(prefix): gene
        for gene in run.campaign.space
        if gene.name.startswith(prefix)
    }
    seen: dict[str, list[Value]] = {}
    for trial in trials:
        for name, value in trial.configuration.settings:
            seen.setdefault(name, []).append(value)
    found = []
    for name in sorted(seen):
        gene = genes.get(name)
        listed = [level for level in gene.levels if level is not None] if gene else []
        further = sorted({v for v in seen[name] if v not in listed}, key=_order)
        is_scale = gene.ordered if gene else not any(isinstance(v, str) for v in further)
        known = on_scale(listed, further) if is_scale else [*listed, *further]
        found.append(Setting(name, (None, *known), is_scale))
    return found


def _places(settings: Sequence[Setting], trial: Trial) -> list[int]:
    values = trial.configuration.as_dict
    return [setting.values.index(values.get(setting.name)) for setting in settings]


def _order(value: Value) -> tuple[bool, float, str]:
    is_text = isinstance(value, str)
    return is_text, 0.0 if isinstance(value, str) else float(value), str(value)
