"""The hypervolume over a campaign."""

from dataclasses import replace

import pytest

from tests.doubles.runs import synthetic_run
from tests.doubles.small_runs import RUN
from tuner.front.dominance import relative_hypervolume
from tuner.report.history import hypervolume_history


def test_history_starts_with_the_defaults_and_grows():
    run = synthetic_run(n_trials=120)

    history = hypervolume_history(run)

    assert history is not None
    assert history.evaluations[0] == history.n_defaults == 4
    assert history.evaluations[-1] == 120
    assert history.values[0] == pytest.approx(1.0)
    assert list(history.values) == sorted(history.values)
    assert run.campaign.reference is not None
    final = relative_hypervolume(run.trials, run.campaign.reference)
    assert history.values[-1] == pytest.approx(final)


def test_history_without_a_reference_is_absent():
    run = replace(RUN, campaign=replace(RUN.campaign, reference=None))

    assert hypervolume_history(run) is None
