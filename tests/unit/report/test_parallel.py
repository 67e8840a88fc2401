"""Axes and lines of parallel coordinates."""

from tests.doubles.runs import MIB, synthetic_run, trial
from tests.doubles.small_runs import BETTER, RUN, SMALL, run_of
from tuner.records import Configuration
from tuner.report.parallel import parallel_plots


def test_axes_are_the_settings_in_use_then_the_objectives():
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


def test_lines_stay_in_the_band_of_their_value():
    for plot in parallel_plots(synthetic_run(n_trials=200)):
        for index, axis in enumerate(plot.axes):
            for line in plot.lines:
                place = line.positions[index]
                inside = [low <= place <= high for low, high in axis.bands]
                assert axis.is_objective or sum(inside) == 1
                assert 0.0 <= place <= 1.0


def test_values_of_an_axis_are_ordered_unset_numbers_names():
    values = ("never", -1, None, 10, 9)
    trials = [
        trial(n, Configuration.of("glibc", {"thp": value}), (90.0 - n) * MIB, 1e8 + n)
        for n, value in enumerate(values)
    ]

    (plot,) = parallel_plots(run_of(*trials))

    assert [text for _, text in plot.axes[0].ticks] == ["unset", "-1", "9", "10", "never"]


def test_a_plot_of_many_settings_is_no_wider_than_a_page():
    many = {f"s{n:02}": 1 for n in range(30)}
    trials = [
        trial(n, Configuration.of("glibc", {**some, "z": n}), (90.0 - n) * MIB, 1e8 + n)
        for n, some in enumerate((many, {"s29": 2}))
    ]

    (plot,) = parallel_plots(run_of(*trials))

    titles = [axis.title for axis in plot.axes]
    assert len(titles) == 12
    assert {"s29", "z"} <= set(titles)


def test_ticks_of_an_objective_differ_where_its_values_hardly_do():
    heaps = (14.474, 14.466)
    trials = [
        trial(n, Configuration.of("glibc", {"top_pad": n}), heap * MIB, 1e8 + n)
        for n, heap in enumerate(heaps)
    ]

    (plot,) = parallel_plots(run_of(*trials))

    assert [text for _, text in plot.axes[1].ticks] == ["14.466", "14.470", "14.474"]
