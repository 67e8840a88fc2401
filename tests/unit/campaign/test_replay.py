"""Strategies on recorded points: the table, what is nearest, files, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doubles import synthetic
from tests.doubles.synthetic import SyntheticEvaluator
from tuner.campaign.progress import Listener
from tuner.campaign.replay import (
    Nearest,
    Points,
    read_points,
    recorded_points,
    replay,
    save_points,
)
from tuner.campaign.runner import Runner
from tuner.campaign.setup import make_spaces
from tuner.cli import main
from tuner.errors import SelectionError, SpecError, StoreError
from tuner.measure.executor import LocalExecutor
from tuner.records import Configuration, Status
from tuner.registry import STRATEGIES
from tuner.runs import load_run
from tuner.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded campaign of random search; some configurations fail."""
    made = tmp_path_factory.mktemp("replayed") / "run"
    genes = synthetic.space().parameters
    record = synthetic.record(strategy="random", budget=300, space=genes, seed=77)

    def fails(configuration: Configuration) -> Status | None:
        return Status.FAILED if configuration.as_dict.get("decay") == -1 else None

    with (
        Store.create(made, record) as store,
        LocalExecutor(SyntheticEvaluator(fails=fails), [0, 1]) as executor,
    ):
        spaces = make_spaces(synthetic.PARTS, record.search)
        Runner(store, spaces, executor, Listener()).run()
    return made


@pytest.fixture(scope="module")
def points(folder: Path) -> Points:
    return read_points(folder)


def test_the_space_is_that_of_the_campaign(points: Points) -> None:
    assert points.space == synthetic.space()
    assert len(points.genomes) == 300
    assert None in points.values


def test_a_recorded_genome_is_answered_by_its_own_trial(points: Points) -> None:
    nearest = Nearest(points)

    assert [nearest.find(genome) for genome in points.genomes[:20]] == [
        (place, True) for place in range(20)
    ]


def test_another_is_answered_by_the_nearest_of_its_allocator(points: Points) -> None:
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


def test_a_course_repeats_and_its_scores_grow(points: Points) -> None:
    course = replay(points, "nsga2", 3, 120)

    assert course == replay(points, "nsga2", 3, 120)
    assert list(course.scores) == [50, 100, 120]
    assert list(course.scores.values()) == sorted(course.scores.values())
    assert 0.0 < course.scores[120] <= 1.0
    assert 0.0 < course.exact < 1.0


def test_points_are_kept_compactly(points: Points, tmp_path: Path) -> None:
    file = tmp_path / "a.points.json.zst"

    save_points(points, file)

    assert read_points(file) == points
    assert file.stat().st_size < 60 * len(points.genomes)


def test_a_damaged_file_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "a.points.json.zst"
    file.write_bytes(b"nothing")

    with pytest.raises(StoreError, match="cannot be read as points"):
        read_points(file)


def test_a_seed_that_lies_off_the_levels_is_left_out(tmp_path: Path) -> None:
    off = Configuration.of("glibc", {"arenas": 3})
    record = synthetic.record(
        strategy="random", budget=20, space=synthetic.space().parameters, seed_configurations=(off,)
    )
    with (
        Store.create(tmp_path, record) as store,
        LocalExecutor(SyntheticEvaluator(), [0]) as executor,
    ):
        spaces = make_spaces(synthetic.PARTS, record.search)
        trials = Runner(store, spaces, executor, Listener()).run()

    found = read_points(tmp_path)

    assert trials[2].configuration == off
    assert len(found.genomes) == len(found.values) == 19


def test_a_run_without_its_space_is_refused(tmp_path: Path) -> None:
    from tests.doubles.runs import synthetic_run, write_run

    run = load_run(write_run(synthetic_run(tmp_path / "run", n_trials=8)))

    with pytest.raises(SelectionError, match="the space was not kept"):
        recorded_points(run)


def test_strategies_that_cannot_search_a_space_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they are named: then that is an error."""
    monkeypatch.setattr("tuner.search.exhaustive.MOST", 1)
    monkeypatch.setattr(
        "tuner.registry.STRATEGIES", {n: STRATEGIES[n] for n in ("random", "exhaustive")}
    )
    words = ["replay", str(folder), "--seeds", "1", "--evaluations", "20"]

    assert main.run(words) == 0
    shown = capsys.readouterr()
    assert "random" in shown.out
    assert "exhaustive" not in shown.out
    assert "left out: strategy exhaustive: the space has more than 1 " in shown.err
    assert main.run([*words, "--strategy", "exhaustive"]) == SpecError.exit_code


def test_saving_compares_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["replay", str(folder), "--save", "x.zst", "--seeds", "3"]) == 2
    assert "--seeds does not apply with --save" in capsys.readouterr().err


def test_the_command_compares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replay", str(folder), "--strategy", "nsga2,random", "--seeds", "2"]

    assert main.run([*words, "--evaluations", "60"]) == 0
    shown = capsys.readouterr().out
    assert main.run([*words, "--evaluations", "60", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert "nsga2" in shown
    assert "random" in shown
    assert [(c["strategy"], c["seed"]) for c in found["courses"]] == [
        ("nsga2", 0), ("nsga2", 1), ("random", 0), ("random", 1),
    ]  # fmt: skip
