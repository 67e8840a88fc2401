"""Shares of the variance against functions whose shares are known."""

import numpy as np
import pytest

from tuner.explain import importance
from tuner.explain.importance import LEAST_FIT, Floats, importance_of

NAMES = ("one", "two", "three", "idle")


def places(n: int = 400) -> Floats:
    return np.random.default_rng(3).integers(0, 6, size=(n, len(NAMES))).astype(np.float64)


def test_shares_of_a_sum_are_those_of_its_terms():
    x = places()
    found = importance_of(NAMES, x, {"cost": 3.0 * x[:, 0] + 1.0 * x[:, 1]}, seed=1)

    # Variances of 9 and 1, and of nothing; what is clipped at the top takes from the larger.
    shares = {name: found.shares[name]["cost"].value for name in NAMES}
    assert shares["one"] == pytest.approx(0.9, abs=0.12)
    assert shares["two"] == pytest.approx(0.1, abs=0.05)
    assert shares["idle"] < 0.01
    assert found.fit["cost"] > 0.9
    assert found.pairs == ()


def test_settings_that_only_act_together_are_a_pair():
    x = places()
    found = importance_of(NAMES, x, {"cost": (x[:, 0] - 2.5) * (x[:, 1] - 2.5)}, seed=1)

    assert found.pairs[0].settings == ("one", "two")
    assert found.pairs[0].share.value > 0.4


def test_a_target_that_is_chance_has_no_shares():
    x = places()
    chance = np.random.default_rng(4).normal(size=len(x))

    found = importance_of(NAMES, x, {"cost": x[:, 0], "noise": chance}, seed=1)

    assert found.fit["noise"] < LEAST_FIT
    assert [*found.shares["one"]] == ["cost"]


def test_a_target_that_never_changes_is_not_explained():
    x = places(60)

    found = importance_of(NAMES, x, {"cost": x[:, 0], "peak": np.full(60, 0.1)}, seed=1)

    assert found.fit["peak"] == 0.0
    assert [*found.shares["one"]] == ["cost"]


def test_the_same_seed_gives_the_same_shares(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importance, "_TREES", 20)
    x = places(60)

    assert importance_of(NAMES, x, {"cost": x[:, 0]}, 5) == importance_of(
        NAMES, x, {"cost": x[:, 0]}, 5
    )
