"""What a setting does, from measured trials."""

from __future__ import annotations

import pytest

from tests.doubles.small_runs import BETTER, RUN, SMALL
from tuner.report.effects import effects_of


def test_effect_is_the_ratio_to_the_trial_without_the_setting() -> None:
    (effect,) = effects_of(SMALL, RUN.trials, ("mean_heap", "cost"))

    assert (effect.setting, effect.value, effect.without) == ("top_pad", 0, BETTER)
    assert effect.ratios == pytest.approx((0.625, 2.0 / 0.9))
