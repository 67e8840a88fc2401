"""What each value of a setting does on average, and from which value on it only harms.

The average is over all trials of the allocator, each with the setting changed to the value and
predicted by a forest that was fitted to all of them (partial dependence).  Where the value was
tried alone, and the default too, that is what counts.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
Statistics 29(5), 2001, section 8.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tuner.explain.importance import Floats, grown_forest
from tuner.records import Value
from tuner.stats import TIE

HARM: Final = 0.05
"""Loss in an objective from which a value that gains nothing is dangerous, and gain for which a
greater loss may be taken; a smaller change may be the forest's error."""
_ERRORS: Final = 2.0
"""Deviations between the trees within which a change is in doubt."""
_FEWEST: Final = 3
"""Trials with a value before anything is said of it."""
_MOST_FAILED: Final = 0.5
"""Share of trials that fail from which a value is dangerous."""


@dataclass(frozen=True)
class Setting:
    """One setting of an allocator, as far as its trials vary it."""

    name: str
    values: tuple[Value | None, ...]
    """All it can have; None for unset, which stands first."""
    is_scale: bool
    """True when neighbours among the values are alike."""


@dataclass(frozen=True)
class Level:
    """One value of a setting."""

    value: Value | None
    n_trials: int
    """With this value, those that failed included."""
    n_failed: int
    changes: Mapping[str, float]
    """Objective -> ratio to leaving the setting alone, all else as in the trials."""
    doubt: float = HARM
    """A smaller change may be the forest's error."""
    is_compared: bool = True
    """Whether enough trials leave the setting alone, or one has this value alone."""

    @property
    def is_known(self) -> bool:
        """True when it was tried often enough, or alone."""
        return self.n_trials >= _FEWEST or self.doubt < HARM

    @property
    def is_sure(self) -> bool:
        """True when an objective becomes better by `HARM` or more without doubt."""
        return self.doubt < HARM and min(self.changes.values(), default=1.0) <= 1.0 - HARM

    @property
    def gains(self) -> bool:
        """True when an objective becomes better by more than `TIE`."""
        return any(ratio < 1.0 - TIE for ratio in self.changes.values())

    @property
    def pays(self) -> bool:
        """True when it gains `HARM` or more in an objective, or in sum over all of them."""
        ratios = self.changes.values()
        return min(ratios, default=1.0) <= 1.0 - HARM or sum(ratios) < len(ratios)

    @property
    def trades(self) -> bool:
        """True when it gains `HARM` or more in an objective, and loses as much in another."""
        ratios = self.changes.values() if self.is_known else ()
        return min(ratios, default=1.0) <= 1.0 - HARM and max(ratios, default=1.0) >= 1.0 + HARM

    @property
    def loses(self) -> bool:
        """True when an objective becomes worse by more than `TIE`."""
        return self.is_known and max(self.changes.values(), default=1.0) > 1.0 + TIE

    @property
    def acts(self) -> bool:
        """True when an objective changes by `HARM` or more, either way, or beyond its doubt."""
        least = min(self.doubt, HARM)
        return any(abs(ratio - 1.0) >= least for ratio in self.changes.values())

    @property
    def harms(self) -> bool:
        """True when it fails mostly, or loses much and gains nothing."""
        if self.n_trials < _FEWEST:
            return False
        loses = any(ratio >= 1.0 + HARM for ratio in self.changes.values())
        return self.mostly_fails or (loses and not self.gains)

    @property
    def mostly_fails(self) -> bool:
        """True when more than half of its trials fail."""
        return self.n_failed > _MOST_FAILED * self.n_trials


@dataclass(frozen=True)
class Danger:
    """Values that harm."""

    setting: str
    levels: tuple[Level, ...]
    """In the order of the scale."""
    above: Value | None = None
    """All values of the scale above this one harm."""
    below: Value | None = None
    """All values of the scale below this one harm."""

    @property
    def worst(self) -> Level:
        """The value with the greatest loss; one that only fails has none."""
        return max(self.levels, key=lambda level: max(level.changes.values(), default=math.inf))


def on_scale(listed: Sequence[Value], further: Sequence[Value]) -> list[Value]:
    """Return the values of a scale in its order: further ones stand before what is greater.

    Special values, such as 0, stand before the scale.

    Args:
        listed: in order.
        further: what else was tried.

    Example:
        >>> on_scale([-1, 1, 2, 4], [0, 3, 8, "auto"])
        [-1, 0, 1, 2, 3, 4, 8, 'auto']
    """
    found = [*listed]
    for value in further:
        greater = (
            place
            for place, one in enumerate(found)
            if not isinstance(one, str) and not isinstance(value, str) and one > max(value, 0)
        )
        found.insert(next(greater, len(found)), value)
    return found


def levels_of(
    settings: Sequence[Setting],
    places: Floats,
    objectives: Mapping[str, Floats],
    failed: Sequence[Sequence[int]],
    seed: int,
) -> list[list[Level]]:
    """Return, for every setting, what each of its values does.

    Args:
        settings: of one allocator.
        places: (n_trials, n_settings), index of each value among `Setting.values`.
        objectives: name -> logarithms, (n_trials,).
        failed: the same indices of the trials without numbers.
        seed: of the forest.
    """
    values = np.column_stack(list(objectives.values()))
    forest = grown_forest(seed, places, values)
    n_set = (places > 0).sum(axis=1)
    plain, alone = np.flatnonzero(n_set == 0), n_set == 1
    found = []
    for column, setting in enumerate(settings):
        lost = [row[column] for row in failed]
        seen = places[:, column]
        n_unset = int((seen == 0).sum())
        unset = _averages(forest, places, column, 0, values.shape)
        levels = []
        for place, value in enumerate(setting.values):
            n_good, n_failed = int((seen == place).sum()), lost.count(place)
            if not n_good + n_failed:
                continue
            moved = _averages(forest, places, column, place, values.shape) - unset
            own = np.flatnonzero(alone & (seen == place)) if place else plain
            is_alone = bool(len(plain) and len(own))
            if is_alone:
                moved = values[own[:1]] - values[plain[:1]]
                doubt = TIE
            else:
                error = _ERRORS * float(moved.std(axis=0).max())
                doubt = max(TIE, error) if min(n_good, n_unset) >= _FEWEST else HARM
            ratios = np.exp(moved.mean(axis=0)).tolist() if n_good else []
            changes = dict(zip(objectives, ratios, strict=False))
            is_compared = is_alone or n_unset >= _FEWEST
            levels.append(Level(value, n_good + n_failed, n_failed, changes, doubt, is_compared))
        found.append(levels)
    return found


def _averages(
    forest: Any,  # noqa: ANN401 - no types
    places: Floats,
    column: int,
    place: int,
    shape: tuple[int, ...],
) -> Floats:
    changed = places.copy()
    changed[:, column] = place
    grown = (tree.predict(changed).reshape(shape) for tree in forest.estimators_)
    return np.array([guessed.mean(axis=0) for guessed in grown])


def danger_of(setting: Setting, levels: Sequence[Level]) -> Danger | None:
    """Return which values of a setting harm; None when none does."""
    bad = [level for level in levels if level.harms]
    if not bad:
        return None
    scale = [level for level in levels if _is_number(level.value)]
    if setting.is_scale and set(map(id, bad)) <= set(map(id, scale)):
        first = scale.index(bad[0])
        if bad == scale[first:] and first > 0:
            return Danger(setting.name, tuple(bad), above=scale[first - 1].value)
        if bad == scale[: len(bad)] and len(bad) < len(scale):
            return Danger(setting.name, tuple(bad), below=scale[len(bad)].value)
    return Danger(setting.name, tuple(bad))


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
