"""Strategies on recorded points: the table, what is nearest, files, the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import synthetic
from tests.doubles.command_line import CommandLine
from tests.doubles.synthetic import SyntheticEvaluator
from tests.unit.campaign.test_purchases import Gated
from tuner.campaign.replay import Nearest, Points, read_points, recorded_points, replay, save_points
from tuner.cli import main
from tuner.emulation import EmulationOptions
from tuner.errors import SelectionError, SpecError, StoreError
from tuner.records import Configuration, Status
from tuner.registry import STRATEGIES
from tuner.runs import load_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded campaign of random search; some configurations fail."""
    made = tmp_path_factory.mktemp("replayed") / "run"
    genes = synthetic.space().parameters
    record = synthetic.record(strategy="random", budget=300, space=genes, seed=77)

    def fails(configuration: Configuration) -> Status | None:
        return Status.FAILED if configuration.as_dict.get("decay") == -1 else None

    synthetic.run(made, record, SyntheticEvaluator(fails=fails))
    return made


@pytest.fixture(scope="module")
def points(folder: Path) -> Points:
    return read_points(folder)


def test_the_space_is_that_of_the_campaign(points: Points):
    assert points.space == synthetic.space()
    assert len(points.genomes) == 300
    assert None in points.values


def test_a_recorded_genome_is_answered_by_its_own_trial(points: Points):
    nearest = Nearest(points)

    assert [nearest.find(genome) for genome in points.genomes[:20]] == [
        (place, True) for place in range(20)
    ]


def test_another_is_answered_by_the_nearest_of_its_allocator(points: Points):
    space = points.space
    near = Configuration.of("jemalloc", {"decay": 10, "fit": "next", "slack": 4})
    far = Configuration.of("jemalloc", {"decay": 1000, "cache": False})
    other = Configuration.of("glibc", {"arenas": 8})
    genomes = tuple(map(space.encode, (near, far, other)))
    few = Points("few", ("a",), space, genomes, ((1.0,), (2.0,), (3.0,)), (0.0,) * 3, (9.0,))
    nearest = Nearest(few)

    asked = Configuration.of("jemalloc", {"decay": 10, "fit": "next", "slack": 8})

    assert nearest.find(space.encode(asked)) == (0, False)
    assert nearest.find(space.encode(Configuration("glibc"))) == (2, False)


def test_a_course_repeats_and_its_scores_grow(points: Points):
    course = replay(points, "nsga2", 3, 120)

    assert course == replay(points, "nsga2", 3, 120)
    assert list(course.scores) == [50, 100, 120]
    assert list(course.scores.values()) == sorted(course.scores.values())
    assert 0.0 < course.scores[120] <= 1.0
    assert 0.0 < course.exact < 1.0


def test_points_are_kept_compactly(points: Points, tmp_path: Path):
    file = tmp_path / "a.points.json.zst"

    save_points(points, file)

    assert read_points(file) == points
    assert file.stat().st_size < 60 * len(points.genomes)


def test_a_damaged_file_is_one_error(tmp_path: Path):
    file = tmp_path / "a.points.json.zst"
    file.write_bytes(b"nothing")

    with pytest.raises(StoreError, match="cannot be read as points"):
        read_points(file)


def test_a_seed_that_lies_off_the_levels_is_left_out(tmp_path: Path):
    off = Configuration.of("glibc", {"arenas": 3})
    record = synthetic.record(
        strategy="random", budget=20, space=synthetic.space().parameters, seed_configurations=(off,)
    )
    trials = synthetic.run(tmp_path, record)

    found = read_points(tmp_path)

    assert trials[2].configuration == off
    assert len(found.genomes) == len(found.values) == 19
    assert (found.n_outside, found.n_uncounted) == (1, 0)


def test_what_was_not_counted_is_said_to_be_left_out(tmp_path: Path, cli: CommandLine):
    genes = synthetic.space().parameters
    options = EmulationOptions(count="needed")
    record = synthetic.record(strategy="auto", budget=80, space=genes, emulation=options)
    trials = synthetic.run(tmp_path / "run", record, Gated(), cpus=[0])
    n_left_out = sum(trial.status is Status.UNCOUNTED for trial in trials)
    words = ["--strategy", "random", "--seeds", "1", "--evaluations", "20"]

    of_run = cli.prints("replay", tmp_path / "run", *words)
    saved = cli.prints("replay", tmp_path / "run", "--save", tmp_path / "a.points")
    found = json.loads(cli.prints("replay", tmp_path / "a.points", *words, "--json"))

    assert n_left_out > 0
    said = f"left out: {n_left_out} of 80 trials, which were dominated before their"
    assert said in of_run
    assert said in saved
    assert (found["n_trials"], found["n_uncounted"]) == (80 - n_left_out, n_left_out)


def test_nothing_is_said_to_be_left_out_of_a_whole_run(folder: Path, cli: CommandLine):
    words = ["--strategy", "random", "--seeds", "1", "--evaluations", "20"]

    assert "left out" not in cli.prints("replay", folder, *words)


def test_points_of_which_none_is_feasible_are_refused(points: Points):
    broken = replace(points, violations=(1.0,) * len(points.genomes))

    with pytest.raises(SelectionError, match="no trial holds every constraint"):
        replay(broken, "random", 1, 20)


@pytest.mark.parametrize(
    "change",
    [
        {"genomes": ((99,) * 12,)}, {"genomes": ((0,),)}, {"genomes": ()}, {"violations": (-1.0,)},
        {"values": (None,), "violations": (0.0,)}, {"values": ((1.0,),)}, {"reference": (1.0,)},
    ],
)  # fmt: skip
def test_points_that_no_search_can_meet_are_one_error(
    change: dict[str, Any], points: Points, tmp_path: Path
):
    one = {"genomes": points.genomes[:1], "values": points.values[:1], "violations": (0.0,)}
    save_points(replace(points, **{**one, **change}), tmp_path / "a.zst")

    with pytest.raises(StoreError, match="cannot be read as points"):
        read_points(tmp_path / "a.zst")


def test_a_run_without_its_space_is_refused(tmp_path: Path):
    from tests.doubles.runs import synthetic_run, write_run

    run = load_run(write_run(synthetic_run(tmp_path / "run", n_trials=8)))

    with pytest.raises(SelectionError, match="the space was not kept"):
        recorded_points(run)


def test_strategies_that_cannot_search_a_space_are_left_out(
    folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    """Unless they are named: then that is an error."""
    monkeypatch.setattr("tuner.search.exhaustive.MOST", 1)
    monkeypatch.setattr(
        "tuner.registry.STRATEGIES", {n: STRATEGIES[n] for n in ("random", "exhaustive")}
    )
    words = ["replay", str(folder), "--seeds", "1", "--evaluations", "20"]

    out, err = cli.run(*words)
    assert "random" in out
    assert "exhaustive" not in out
    assert "left out: strategy exhaustive: the space has more than 1 " in err
    assert main.run([*words, "--strategy", "exhaustive"]) == SpecError.exit_code


def test_saving_compares_nothing(folder: Path, cli: CommandLine):
    assert "--seeds does not apply with --save" in cli.fails(
        2, "replay", folder, "--save", "x.zst", "--seeds", "3"
    )


def test_the_command_compares(folder: Path, cli: CommandLine):
    words = ["replay", str(folder), "--strategy", "nsga2,random", "--seeds", "2"]

    shown = cli.prints(*words, "--evaluations", "60")
    found = json.loads(cli.prints(*words, "--evaluations", "60", "--json"))

    assert "nsga2" in shown
    assert "random" in shown
    assert "left out" not in shown
    assert [(c["strategy"], c["seed"]) for c in found["courses"]] == [
        ("nsga2", 0), ("nsga2", 1), ("random", 0), ("random", 1),
    ]  # fmt: skip
