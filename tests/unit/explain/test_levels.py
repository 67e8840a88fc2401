"""From which value on a setting harms."""

import numpy as np
import pytest

from tuner.explain.levels import Level, Setting, danger_of, levels_of, on_scale
from tuner.records import Value

SCALE = Setting("narenas", (None, 0, 1, 2, 4, 8), is_scale=True)


def level(value: Value | None, cost: float = 1.0, heap: float = 1.0, failed: int = 0) -> Level:
    return Level(value, 10, failed, {"cost": cost, "mean_heap": heap})


def harmful(*bad: Value, loss: float = 1.2) -> list[Level]:
    return [level(value, loss if value in bad else 1.0) for value in SCALE.values]


def test_a_tail_of_the_scale_is_told_by_its_end():
    upper, lower = danger_of(SCALE, harmful(4, 8)), danger_of(SCALE, harmful(1, 2))

    assert upper is not None
    assert (upper.above, upper.below) == (2, None)
    assert lower is not None
    assert (lower.above, lower.below) == (None, 4)


def test_what_lies_between_the_levels_has_its_place_on_the_scale():
    values = (None, *on_scale([1, 2, 4, 8, 16], [0, 3, 32]))
    setting = Setting("narenas", values, is_scale=True)

    found = danger_of(setting, [level(one, 1.2 if one in {8, 16, 32} else 1.0) for one in values])

    assert values == (None, 0, 1, 2, 3, 4, 8, 16, 32)
    assert found is not None
    assert found.above == 4


def test_other_values_are_listed():
    found = danger_of(SCALE, harmful(0, 4))

    assert found is not None
    assert (found.above, found.below) == (None, None)
    assert [one.value for one in found.levels] == [0, 4]


def test_a_loss_that_buys_something_is_no_danger():
    assert danger_of(SCALE, [level(None), level(8, cost=2.0, heap=0.9)]) is None
    assert danger_of(SCALE, harmful(8, loss=1.04)) is None


def test_values_of_which_most_fail_are_dangerous():
    found = danger_of(SCALE, [level(None), level(1, failed=6), level(8, failed=5)])

    assert found is not None
    assert [one.value for one in found.levels] == [1]


def test_little_tried_values_are_not_judged():
    assert danger_of(SCALE, [level(None), Level(8, 2, 2, {})]) is None


def test_the_effect_of_a_value_is_told_against_leaving_the_setting_alone():
    rng = np.random.default_rng(1)
    settings = [Setting("a", (None, 1, 2), is_scale=True), Setting("b", (None, "x"), False)]
    places = np.column_stack([rng.integers(0, 3, 300), rng.integers(0, 2, 300)]).astype(float)
    logs = np.log(1.5) * (places[:, 0] == 2) + np.log(0.8) * places[:, 1]

    a, b = levels_of(settings, places, {"cost": logs}, [[2, 0], [2, 1]], seed=1)

    assert [round(one.changes["cost"], 2) for one in a] == [1.0, 1.0, 1.5]
    assert [round(one.changes["cost"], 2) for one in b] == [1.0, 0.8]
    assert [one.n_failed for one in a] == [0, 0, 2]


def test_what_was_tried_alone_is_as_measured_and_a_change_beyond_doubt_acts():
    rng = np.random.default_rng(1)
    settings = [Setting(name, (None, 1, 2), is_scale=True) for name in "ab"]
    places = np.vstack([rng.integers(1, 3, (60, 2)), [[0, 0], [1, 0], [0, 1]]]).astype(float)
    logs = 0.6 * (places[:, 0] == 2) - 0.035 * (places[:, 1] == 2)
    logs[-2] = -0.2

    a, b = levels_of(settings, places, {"cost": logs}, [], seed=1)

    assert a[1].changes["cost"] == pytest.approx(np.exp(-0.2))
    assert [one.acts for one in b] == [False, False, True]


def test_what_is_nearly_always_set_is_not_compared_with_leaving_it_alone():
    rng = np.random.default_rng(1)
    settings = [Setting(name, (None, 1), is_scale=True) for name in "abc"]
    either = rng.integers(0, 2, 60)
    places = np.column_stack([np.ones(60), either, 1 - either]).astype(float)
    places[:2, 0] = 0

    a, b, c = levels_of(settings, places, {"cost": np.zeros(60)}, [], seed=1)

    assert not any(one.is_compared for one in a)
    assert all(one.is_compared for one in (*b, *c))
