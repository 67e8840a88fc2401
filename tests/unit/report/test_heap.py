"""Heap curves: defaults, picks, and traces without time."""

from dataclasses import replace

from tests.doubles.runs import MIB, measurement, synthetic_run
from tests.doubles.small_runs import BASELINE, RUN, run_of
from tuner.front.picks import Pick, standard_picks
from tuner.records import CurvePoint, Outcome
from tuner.report.heap import heap_figure, heap_plot


def test_heap_shows_defaults_first_and_each_pick_once():
    run = synthetic_run(n_trials=60)
    picks = standard_picks(run.trials, run.campaign.objectives, "glibc")

    plot = heap_plot(run, picks)

    assert plot is not None
    assert [curve.title.partition(",")[0] for curve in plot.curves][:4] == [
        f"{name} default" for name in run.campaign.allocators
    ]
    assert len({curve.title for curve in plot.curves}) == len(plot.curves)
    assert plot.x_title == "trace time (s)"
    assert [curve.is_default for curve in plot.curves][:4] == [True] * 4


def test_heap_of_a_picked_default_is_one_curve():
    run = synthetic_run(n_trials=4)

    plot = heap_plot(run, [Pick("knee", run.trials[0], "")])

    assert plot is not None
    assert plot.curves[0].title == "glibc default, knee"
    assert len(plot.curves) == 4


def test_heap_of_a_trace_without_time_runs_over_events():
    curve = tuple(CurvePoint(event, 0, 1000 * event, 900 * event) for event in range(1, 4))
    timeless = replace(BASELINE, outcome=Outcome.succeeded(replace(measurement(), curve=curve)))

    plot = heap_plot(run_of(timeless), [])

    assert plot is not None
    assert plot.x_title == "events"
    assert plot.curves[0].xs == (1.0, 2.0, 3.0)


def test_heap_without_curves_is_absent():
    assert heap_plot(RUN, []) is None


def test_live_bytes_that_were_never_touched_stay_within_the_axes():
    curve = tuple(CurvePoint(n, n * 10**8, 10 * MIB, 30 * MIB) for n in range(1, 4))
    untouched = replace(BASELINE, outcome=Outcome.succeeded(replace(measurement(), curve=curve)))

    plot = heap_plot(run_of(untouched), [])

    assert plot is not None
    area = heap_figure(plot).spec["layer"][0]
    assert area["data"]["values"][0]["y"] < area["encoding"]["y"]["scale"]["domain"][1]
