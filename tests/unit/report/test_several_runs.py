"""Runs on one front: what each found, what was missed, what half of the searches reach."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.runs import MIB, synthetic_run, trial, write_run
from tests.doubles.small_runs import BASELINE, run_of, tried
from tuner.cli.console import PAGE_WIDTH
from tuner.errors import SelectionError
from tuner.records import Configuration, Trial
from tuner.report.several_runs import join_runs, several_figure, several_json, several_text
from tuner.runs import Run


def run(name: str, *trials: Trial, seed: int = 1) -> Run:
    made = run_of(BASELINE, *trials)
    folder = Path("runs") / name
    return replace(made, folder=folder, campaign=replace(made.campaign, seed=seed))


LEAN = run("lean", tried(1, 60.0, 1.1e8, mxfast=0), tried(2, 90.0, 0.95e8, top_pad=0))
FAST = run("fast", tried(1, 90.1, 0.95e8, mxfast=0), tried(2, 98.0, 0.5e8, top_pad=1), seed=2)
POOR = run("poor", tried(1, 99.0, 0.99e8, mxfast=0), tried(2, 120.0, 1.2e8, top_pad=2), seed=3)


def test_what_others_missed_is_found_with_its_distance():
    lean, fast = join_runs([LEAN, FAST]).runs

    assert [one.trial.number for one in lean.finds] == [1]
    assert lean.finds[0].ratios == pytest.approx((0.6, 1.1))
    # The nearest of the other run is 90.1 MiB against 60; it loses nothing in cost.
    assert lean.finds[0].beyond == pytest.approx(90.1 / 60.0 - 1.0, rel=1e-3)
    assert [one.trial.number for one in fast.finds] == [2]


def test_what_lies_within_half_a_percent_was_not_missed():
    (lean, _) = join_runs([LEAN, FAST]).runs

    assert 2 not in [one.trial.number for one in lean.finds]
    assert lean.n_joint == 2


def test_gains_are_against_one_default_whatever_the_runs_compare_with():
    default = trial(0, Configuration("jemalloc"), 200.0 * MIB, 2e8)
    point = trial(1, Configuration.of("jemalloc", {"narenas": 1}), 50.0 * MIB, 1e8)
    made = run_of(default, point)
    allocators = {"jemalloc": made.campaign.allocators["jemalloc"]}
    other = replace(
        made, folder=Path("runs/other"), campaign=replace(made.campaign, allocators=allocators)
    )

    _, found = join_runs([POOR, other]).runs

    assert other.campaign.baseline == "jemalloc"
    assert found.finds[0].ratios == pytest.approx((0.5, 1.0))


def test_a_run_is_not_compared_with_itself():
    same = replace(LEAN, folder=Path("runs/../runs/lean"))

    with pytest.raises(SelectionError, match=r"runs/lean: given 2 times"):
        join_runs([LEAN, same, FAST])


def test_shares_are_of_all_runs_together():
    alone = join_runs([LEAN, replace(LEAN, folder=Path("runs/copy"))]).runs[0]
    lean, poor = join_runs([LEAN, POOR]).runs

    assert alone.share == pytest.approx(1.0)
    assert lean.share > poor.share > 0.0
    assert poor.n_joint == 0
    assert poor.finds == ()


def test_runs_that_differ_in_seeds_alone_are_a_group():
    found = join_runs([LEAN, FAST, POOR])

    (group,) = found.groups
    assert group.names == ("lean", "fast", "poor")
    assert group.shares[50] > group.shares[100] > 0.0
    # All three reach what the poorest of them reaches.
    heap, cost = group.attained[100][0]
    assert (heap / 2**20, cost / 1e8) == pytest.approx((99.0, 0.99), rel=0.02)


def test_two_runs_or_equal_seeds_are_no_group():
    assert join_runs([LEAN, FAST]).groups == ()
    assert join_runs([LEAN, FAST, replace(POOR, campaign=LEAN.campaign)]).groups == ()


def test_runs_that_begin_with_other_settings_are_no_group():
    seeded = replace(POOR.campaign, seed_configurations=(BASELINE.configuration,))

    assert join_runs([LEAN, FAST, replace(POOR, campaign=seeded)]).groups == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [({"trace_sha256": "00" * 32}, "workload"), ({"objectives": ("mean_heap", "faults")}, "objec")],
)
def test_what_cannot_be_compared_is_refused(change: dict[str, object], what: str):
    other = replace(FAST, campaign=replace(FAST.campaign, **change))  # type: ignore[arg-type]

    with pytest.raises(SelectionError, match=f"lean and runs/fast have different {what}"):
        join_runs([LEAN, other])


@pytest.mark.parametrize("name", ["rand_malloc", "jemalloc library"])
def test_other_builds_are_said(name: str):
    lean, fast = (
        replace(run, campaign=replace(run.campaign, versions={"python": build, name: build}))
        for run, build in ((LEAN, "a" * 12), (FAST, "b" * 12))
    )
    without = replace(FAST, campaign=replace(FAST.campaign, versions={"rand_malloc": "a" * 12}))

    (said,) = join_runs([lean, fast]).notes

    assert f"different builds of {name.removesuffix(' library')}" in said
    assert not any("jemalloc" in one for one in join_runs([lean, without]).notes)


def test_one_run_is_refused():
    with pytest.raises(SelectionError, match="give two or more runs"):
        join_runs([LEAN])


def test_words_json_and_picture_agree():
    found = join_runs([LEAN, FAST, POOR])

    text = "\n".join(several_text(found))
    document = json.loads(several_json(found))
    figure = several_figure(found)

    assert "lean: 1 point that the others missed" in text
    assert "poor: found nothing that the others missed" in text
    assert "against glibc's default" in text
    assert "half of these searches reach" in text
    assert [len(one["finds"]) for one in document["runs"]] == [1, 1, 0]
    assert len(figure.spec["layer"]) == 2 + 2


def test_fronts_of_three_objectives_are_no_lines_in_the_plane_of_two():
    names = ("mean_heap", "cost", "faults")
    made = [synthetic_run(Path(f"runs/{n}"), names=names, n_trials=60, seed=n) for n in (1, 2, 3)]
    runs = [replace(one, campaign=replace(one.campaign, seed=n)) for n, one in enumerate(made)]

    layers = several_figure(join_runs(runs)).spec["layer"]

    assert [one["mark"]["type"] for one in layers] == ["point"]


def test_one_run_is_nothing_to_compare(cli: CommandLine):
    assert "give two run folders or more" in cli.fails(2, "compare", "runs/app")


def test_the_command_prints_and_draws(tmp_path: Path, cli: CommandLine):
    folders = [write_run(replace(one, folder=tmp_path / one.folder.name)) for one in (LEAN, FAST)]

    shown, _ = cli.run("compare", *folders, "-o", tmp_path / "drawn")
    assert "of the joint hypervolume" in shown
    assert "\n\nFirst, by how much" in shown
    assert max(map(len, shown.splitlines())) <= PAGE_WIDTH
    assert (tmp_path / "drawn" / "runs.svg").exists()
