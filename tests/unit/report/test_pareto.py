"""Roles, lines and the view of the Pareto plot, as plain values."""

from dataclasses import replace

import pytest

from tests.doubles.runs import MIB, measurement, synthetic_run
from tests.doubles.small_runs import BASELINE, BETTER, RUN, SMALL, run_of, tried
from tuner.front.picks import Pick
from tuner.records import Outcome, Status
from tuner.report.pareto import PointRole, pareto_plots
from tuner.report.pareto_figure import pareto_figure
from tuner.store import Recheck


def test_points_get_their_role():
    (plot,) = pareto_plots(RUN, [])

    assert [point.role for point in plot.points] == [
        PointRole.DOMINATED,
        PointRole.FRONT,
        PointRole.DOMINATED,
        PointRole.FRONT,
    ]
    assert plot.baseline is not None
    assert plot.baseline.trial == BASELINE
    assert plot.overall == ((50.0 * MIB, 2e8), (80.0 * MIB, 0.9e8))


def test_infeasible_points_are_drawn_as_such_and_never_on_the_front():
    run = run_of(BASELINE, replace(BETTER, violation=0.5))

    (plot,) = pareto_plots(run, [])

    assert plot.points[1].role is PointRole.INFEASIBLE
    assert plot.overall == ((100.0 * MIB, 1e8),)


def test_names_of_one_point_share_a_label():
    picks = [Pick("knee", BETTER, ""), Pick("no-regret", BETTER, "")]

    (plot,) = pareto_plots(RUN, picks)

    assert [label.text for label in plot.labels] == ["glibc default", "knee, no-regret"]


def test_far_points_do_not_squeeze_the_view():
    far = tried(4, 9000.0, 9e9, mxfast=64)

    (plot,) = pareto_plots(run_of(BASELINE, BETTER, SMALL, far), [])

    assert plot.n_outside == 1
    assert not plot.x.contains(9000.0 * MIB)
    assert not plot.x.is_log


def test_a_front_over_decades_gets_a_logarithmic_axis():
    (plot,) = pareto_plots(run_of(BASELINE, tried(1, 90.0, 1e10, mxfast=0)), [])

    assert plot.y.is_log
    assert plot.y.share(1e8) == pytest.approx(1.0 - plot.y.share(1e10))


def test_rechecks_become_spans():
    again = measurement(81.0 * MIB, 0.9e8)
    run = replace(RUN, rechecks=(Recheck(1, 1, Outcome.succeeded(again)),))

    (plot,) = pareto_plots(run, [])

    assert plot.points[1].x_span == (80.0 * MIB, 81.0 * MIB)
    assert plot.points[0].x_span is None


def test_three_objectives_give_three_plots_without_lines():
    run = synthetic_run(names=("mean_heap", "cost", "faults"), n_trials=40)

    plots = pareto_plots(run, [])

    assert [(plot.x.column.name, plot.y.column.name) for plot in plots] == [
        ("mean_heap", "cost"),
        ("mean_heap", "faults"),
        ("cost", "faults"),
    ]
    assert {plot.overall for plot in plots} == {()}


def test_one_objective_is_drawn_beside_another_metric():
    run = synthetic_run(names=("cost",), n_trials=20)

    (plot,) = pareto_plots(run, [])

    assert (plot.x.column.name, plot.y.column.name) == ("cost", "mean_heap")
    assert not plot.is_y_objective


def test_nothing_measured_gives_no_plot():
    run = synthetic_run(n_trials=4)
    failed = replace(
        run.trials[0], outcome=Outcome.did_not_succeed(Status.FAILED, "killed"), objectives=None
    )

    assert pareto_plots(replace(run, trials=(failed,)), []) == []


def test_a_point_at_0_outside_of_the_view_has_a_place_on_the_axis():
    needs = ((BASELINE, 1000, 0.0), (BETTER, 100, 0.0), (SMALL, 0, 0.5))
    trials = [
        replace(one, outcome=Outcome.succeeded(measurement(syscalls=n)), violation=excess)
        for one, n, excess in needs
    ]

    (plot,) = pareto_plots(run_of(*trials, names=("mean_heap", "syscalls")), [])

    assert not plot.y.is_log
    assert pareto_figure(plot, "front").spec
