"""A verdict about a profile, as text."""

import pytest

from tuner.cli.fidelity_tables import print_fidelity
from tuner.profile.fidelity import Fidelity, MetricFidelity


def test_one_seed_shows_no_spread_between_seeds(capsys: pytest.CaptureFixture[str]):
    metrics = {"peak_heap": MetricFidelity(0.011, 0.012, 0.013, 0.014, regret=0.015)}

    print_fidelity(Fidelity(configurations=2, seeds=(1,), metrics=metrics))
    one = capsys.readouterr().out
    print_fidelity(Fidelity(configurations=2, seeds=(1, 2), metrics=metrics))
    two = capsys.readouterr().out

    assert "0.00 %" not in one
    assert "0.00 %" in two
