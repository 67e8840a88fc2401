"""What the report's plots show, as plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.runs import MIB, campaign_record, measurement, synthetic_run, trial
from tuner import objectives, selection
from tuner.errors import SpecError
from tuner.metrics import Kind, find_metric
from tuner.records import Configuration, CurvePoint, Status, Trial
from tuner.report.columns import ratio, scale_for, show_change
from tuner.report.effects import effects_of
from tuner.report.heap import heap_plot, pick_indices
from tuner.report.history import hypervolume_history
from tuner.report.labels import Box, place_labels
from tuner.report.parallel import parallel_plots
from tuner.report.pareto import Role, pareto_plots
from tuner.report.style import look, shade
from tuner.report.wording import headline, measured_facts, pick_cards
from tuner.runs import Run
from tuner.selection import Pick
from tuner.store import Recheck

MINUS = "\N{MINUS SIGN}"


def run_of(*trials: Trial, names: tuple[str, ...] = ("mean_heap", "cost")) -> Run:
    """Build a run of glibc and jemalloc with these trials."""
    record = campaign_record(("glibc", "jemalloc"), names, len(trials))
    defaults = [one for one in trials if one.configuration.is_default]
    record = replace(record, reference=objectives.reference_point(defaults))
    return replace(synthetic_run(n_trials=4), campaign=record, trials=trials, rechecks=())


def tried(number: int, heap_mib: float, cost: float, **settings: int) -> Trial:
    return trial(number, Configuration.of("glibc", settings), heap_mib * MIB, cost)


BASELINE = tried(0, 100.0, 1e8)
BETTER = tried(1, 80.0, 0.9e8, mxfast=0)
DOMINATED = tried(2, 120.0, 1.2e8, mxfast=32)
SMALL = tried(3, 50.0, 2e8, mxfast=0, top_pad=0)
RUN = run_of(BASELINE, BETTER, DOMINATED, SMALL)


# Numbers for people


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1.0, "0 %"),
        (0.877, f"{MINUS}12.3 %"),
        (0.9503, f"{MINUS}4.97 %"),
        (1.00002, "\N{ALMOST EQUAL TO}0 %"),
        (0.9, f"{MINUS}10.0 %"),
        (2.5, "+150 %"),
        (12.345, "\N{MULTIPLICATION SIGN}12.3"),
        (None, "\N{EN DASH}"),
    ],
)
def test_change_is_written_with_three_digits(found: float | None, expected: str) -> None:
    assert expected == show_change(found)


def test_ratio_to_nothing_is_missing_and_not_zero() -> None:
    assert [ratio(1.0, 0.0), ratio(None, 1.0), ratio(1.0, None), ratio(1.0, 2.0)] == [
        None,
        None,
        None,
        0.5,
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.BYTES, 72.5 * MIB, "72.50 MiB"),
        (Kind.BYTES, 999, "999 B"),
        (Kind.COUNT, 20650, "20,650"),
        (Kind.COUNT, 166818, "166.8 thousand"),
        (Kind.INSTRUCTIONS, 1.2e9, "1.200 billion"),
        (Kind.NANOSECONDS, 1.477e9, "1.477 s"),
        (Kind.RATIO, 1.337, "1.34"),
    ],
)
def test_scale_keeps_four_digits(kind: Kind, value: float, expected: str) -> None:
    assert expected == scale_for(kind, [value, None, 1.0]).show_with_unit(value)


def test_missing_number_is_a_dash_and_not_zero() -> None:
    scale = scale_for(Kind.BYTES, [MIB])

    assert (scale.show(None), scale.show_with_unit(None)) == ("\N{EN DASH}", "\N{EN DASH}")


def test_unknown_column_is_refused() -> None:
    with pytest.raises(SpecError, match="mean_heap"):
        find_metric("heap")


# Pareto


def test_points_get_their_role() -> None:
    (plot,) = pareto_plots(RUN, [])

    assert [point.role for point in plot.points] == [
        Role.DOMINATED,
        Role.FRONT,
        Role.DOMINATED,
        Role.FRONT,
    ]
    assert plot.baseline is not None
    assert plot.baseline.trial == BASELINE
    assert plot.overall == ((50.0 * MIB, 2e8), (80.0 * MIB, 0.9e8))


def test_infeasible_points_are_drawn_as_such_and_never_on_the_front() -> None:
    run = run_of(BASELINE, replace(BETTER, violation=0.5))

    (plot,) = pareto_plots(run, [])

    assert plot.points[1].role is Role.INFEASIBLE
    assert plot.overall == ((100.0 * MIB, 1e8),)


def test_names_of_one_point_share_a_label() -> None:
    picks = [Pick("knee", BETTER, ""), Pick("no-regret", BETTER, "")]

    (plot,) = pareto_plots(RUN, picks)

    assert [label.text for label in plot.labels] == ["glibc default", "knee, no-regret"]


def test_far_points_do_not_squeeze_the_view() -> None:
    far = tried(4, 9000.0, 9e9, mxfast=64)

    (plot,) = pareto_plots(run_of(BASELINE, BETTER, SMALL, far), [])

    assert plot.n_outside == 1
    assert not plot.x.contains(9000.0 * MIB)
    assert not plot.x.is_log


def test_a_front_over_decades_gets_a_logarithmic_axis() -> None:
    (plot,) = pareto_plots(run_of(BASELINE, tried(1, 90.0, 1e10, mxfast=0)), [])

    assert plot.y.is_log
    assert plot.y.share(1e8) == pytest.approx(1.0 - plot.y.share(1e10))


def test_rechecks_become_spans() -> None:
    again = measurement(81.0 * MIB, 0.9e8)
    run = replace(RUN, rechecks=(Recheck(1, 1, Status.OK, None, again),))

    (plot,) = pareto_plots(run, [])

    assert plot.points[1].x_span == (80.0 * MIB, 81.0 * MIB)
    assert plot.points[0].x_span is None


def test_three_objectives_give_three_plots_without_lines() -> None:
    run = synthetic_run(names=("mean_heap", "cost", "faults"), n_trials=40)

    plots = pareto_plots(run, [])

    assert [(plot.x.column.name, plot.y.column.name) for plot in plots] == [
        ("mean_heap", "cost"),
        ("mean_heap", "faults"),
        ("cost", "faults"),
    ]
    assert {plot.overall for plot in plots} == {()}


def test_one_objective_is_drawn_beside_another_metric() -> None:
    run = synthetic_run(names=("cost",), n_trials=20)

    (plot,) = pareto_plots(run, [])

    assert (plot.x.column.name, plot.y.column.name) == ("cost", "mean_heap")
    assert not plot.is_y_objective


def test_nothing_measured_gives_no_plot() -> None:
    run = synthetic_run(n_trials=4)
    failed = replace(run.trials[0], status=Status.FAILED, measurement=None, objectives=None)

    assert pareto_plots(replace(run, trials=(failed,)), []) == []


# Hypervolume


def test_history_starts_with_the_defaults_and_grows() -> None:
    run = synthetic_run(n_trials=120)

    history = hypervolume_history(run)

    assert history is not None
    assert history.evaluations[0] == history.n_defaults == 4
    assert history.evaluations[-1] == 120
    assert history.values[0] == pytest.approx(1.0)
    assert list(history.values) == sorted(history.values)
    assert run.campaign.reference is not None
    final = objectives.relative_hypervolume(run.trials, run.campaign.reference)
    assert history.values[-1] == pytest.approx(final)


def test_history_without_a_reference_is_absent() -> None:
    run = replace(RUN, campaign=replace(RUN.campaign, reference=None))

    assert hypervolume_history(run) is None


# Parallel coordinates


def test_axes_are_the_settings_in_use_then_the_objectives() -> None:
    (plot,) = parallel_plots(RUN)

    assert [axis.title.split(" (")[0] for axis in plot.axes] == [
        "mxfast",
        "top_pad",
        "mean heap",
        "cost",
    ]
    assert [text for _, text in plot.axes[1].ticks] == ["unset", "0"]
    assert [line.trial for line in plot.lines] == [SMALL, BETTER]
    assert [line.rank for line in plot.lines] == [0.0, 1.0]


def test_lines_stay_in_the_band_of_their_value() -> None:
    for plot in parallel_plots(synthetic_run(n_trials=200)):
        for index, axis in enumerate(plot.axes):
            for line in plot.lines:
                place = line.positions[index]
                inside = [low <= place <= high for low, high in axis.bands]
                assert axis.is_objective or sum(inside) == 1
                assert 0.0 <= place <= 1.0


def test_values_of_an_axis_are_ordered_unset_numbers_names() -> None:
    values = ("never", -1, None, 10, 9)
    trials = [
        trial(n, Configuration.of("glibc", {"thp": value}), (90.0 - n) * MIB, 1e8 + n)
        for n, value in enumerate(values)
    ]

    (plot,) = parallel_plots(run_of(*trials))

    assert [text for _, text in plot.axes[0].ticks] == ["unset", "-1", "9", "10", "never"]


# Heap over time


def test_heap_shows_defaults_first_and_each_pick_once() -> None:
    run = synthetic_run(n_trials=60)
    picks = selection.standard_picks(run.trials, run.campaign.objectives, "glibc")

    plot = heap_plot(run, picks)

    assert plot is not None
    assert [curve.title.partition(",")[0] for curve in plot.curves][:4] == [
        f"{name} default" for name in run.campaign.allocators
    ]
    assert len({curve.title for curve in plot.curves}) == len(plot.curves)
    assert plot.x_title == "trace time (s)"
    assert pick_indices(plot)[:4] == [None] * 4


def test_heap_of_a_picked_default_is_one_curve() -> None:
    run = synthetic_run(n_trials=4)

    plot = heap_plot(run, [Pick("knee", run.trials[0], "")])

    assert plot is not None
    assert plot.curves[0].title == "glibc default, knee"
    assert len(plot.curves) == 4


def test_heap_of_a_trace_without_time_runs_over_events() -> None:
    curve = tuple(CurvePoint(event, 0, 1000 * event, 900 * event) for event in range(1, 4))
    timeless = replace(BASELINE, measurement=replace(measurement(), curve=curve))

    plot = heap_plot(run_of(timeless), [])

    assert plot is not None
    assert plot.x_title == "events"
    assert plot.curves[0].xs == (1.0, 2.0, 3.0)


def test_heap_without_curves_is_absent() -> None:
    assert heap_plot(RUN, []) is None


# Effects


def test_effect_is_the_ratio_to_the_trial_without_the_setting() -> None:
    (effect,) = effects_of(SMALL, RUN.trials, ("mean_heap", "cost"))

    assert (effect.setting, effect.value, effect.without) == ("top_pad", 0, BETTER)
    assert effect.ratios == pytest.approx((0.625, 2.0 / 0.9))


# Labels


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.0, 800.0), st.floats(0.0, 400.0)), max_size=8))
def test_labels_stay_inside_the_plot(anchors: list[tuple[float, float]]) -> None:
    sizes = [(90.0, 16.0)] * len(anchors)

    places = place_labels(anchors, sizes, [], (800.0, 400.0))

    for (x, y), place in zip(anchors, places, strict=True):
        left, bottom = x + place.dx - 45.0, y + place.dy - 8.0
        assert Box(left, bottom, left + 90.0, bottom + 16.0).is_inside(800.0, 400.0)


def test_labels_of_neighbours_do_not_overlap() -> None:
    anchors = [(400.0, 200.0), (405.0, 200.0), (400.0, 205.0), (395.0, 195.0)]

    places = place_labels(anchors, [(90.0, 16.0)] * 4, [], (800.0, 400.0))

    boxes = [
        Box(x + p.dx - 45.0, y + p.dy - 8.0, x + p.dx + 45.0, y + p.dy + 8.0)
        for (x, y), p in zip(anchors, places, strict=True)
    ]
    overlaps = [a.overlap(b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert overlaps == [0.0] * 6


# Words


def test_headline_names_the_gains_of_the_best_compromise() -> None:
    picks = selection.standard_picks(RUN.trials, RUN.campaign.objectives, "glibc")

    assert headline(RUN, picks) == (
        "In emulation, glibc with 1 setting needs 20.0 % less mean heap and 10.0 % less cost "
        "than glibc's default."
    )


def test_headline_promises_nothing_when_every_point_trades() -> None:
    run = run_of(BASELINE, SMALL)
    picks = selection.standard_picks(run.trials, run.campaign.objectives, "glibc")

    assert headline(run, picks).startswith("No measured configuration is at least as good")


def test_headline_of_a_campaign_without_success() -> None:
    assert headline(RUN, []) == "No configuration succeeded and held every constraint."


def test_picks_of_one_trial_share_a_card() -> None:
    cards = pick_cards(RUN, [Pick("knee", BETTER, "a"), Pick("no-regret", BETTER, "b")])

    assert [card.names for card in cards] == [("knee", "no-regret")]
    assert cards[0].rule == "a; b"
    assert [change.direction for change in cards[0].changes] == ["better"] * 3


def test_facts_tell_how_often_the_front_was_measured_again() -> None:
    again = measurement(80.4 * MIB, 0.9e8)
    run = replace(RUN, rechecks=(Recheck(1, 1, Status.OK, None, again),))

    facts = dict(measured_facts(run))["Emulation"]

    assert dict(facts)["repeatability"] == (
        "1 re-measurements of 1 configurations; greatest difference: mean heap 0.50% and cost 0.00%"
    )


# Looks


def test_known_allocators_differ_in_colour_and_marker() -> None:
    looks = [look(name) for name in ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")]

    assert len({one.colour for one in looks}) == len({one.symbol for one in looks}) == 5
    assert look("snmalloc") == look("snmalloc")


def test_shades_are_colours() -> None:
    assert shade(0.0) == "#440154"
    assert shade(1.0) == "#5eb950"
