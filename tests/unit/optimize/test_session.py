"""What an optimisation needs before it makes runs."""

from __future__ import annotations

from tuner.optimize.outlook import FEWEST_RUNS
from tuner.optimize.session import fewest_runs


def test_a_search_that_nothing_guides_needs_more_runs() -> None:
    assert fewest_runs(is_blind=True) > 4 * FEWEST_RUNS
    assert fewest_runs(is_blind=False) == FEWEST_RUNS
