"""Suites of gem5 simulations: the shipped one, and what is said about wrong ones."""

import json
from pathlib import Path

import pytest

from tuner.config.gem5_inside import load_inside
from tuner.config.gem5_suite import SimulationRole, load_suite
from tuner.errors import SpecError
from tuner.resources import gem5_dir

GOOD = """
version = 1

[[simulations]]
name = "one"
machine = "core.json"
guest = "tree"
arguments = ["10"]
role = "tune"

[[simulations]]
name = "two"
machine = "traffic.json"
role = "held-out"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "core.json").write_text(json.dumps({"cpu": {"model": "atomic"}}))
    (tmp_path / "traffic.json").write_text(json.dumps({"traffic": {}}))
    (tmp_path / "guests").mkdir()
    (tmp_path / "guests" / "tree.c").touch()
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(text)
    return path


def test_shipped_suite_tunes_on_some_simulations_and_holds_more_out():
    suite = load_suite(gem5_dir() / "suite.toml")
    held_out = [s for s in suite.simulations if s.is_held_out]
    assert len(suite.simulations) >= 8
    assert 3 <= len(suite.simulations) - len(held_out) < len(held_out)


def test_shipped_suite_has_every_kind_of_core_and_traffic():
    suite = load_suite(gem5_dir() / "suite.toml")
    machines = [json.loads(suite.machine_file(s).read_text()) for s in suite.simulations]
    models = {machine["cpu"]["model"] for machine in machines if "cpu" in machine}
    assert models == {"atomic", "timing", "minor", "o3"}
    assert len({m["traffic"]["pattern"] for m in machines if "traffic" in m}) >= 2
    assert len({m["memory"]["model"] for m in machines}) >= 5


def test_every_shipped_machine_and_guest_is_used_or_explained():
    suite = load_suite(gem5_dir() / "suite.toml")
    machines = {path.name for path in (gem5_dir() / "machines").glob("*.json")}
    guests = {path.stem for path in (gem5_dir() / "guests").glob("*.c")}
    inside = [load_inside(gem5_dir() / name) for name in ("inside.toml", "scaling.toml")]
    used = [Path(simulation.machine).name for simulation in suite.simulations]
    assert machines == {*used, *(path.name for one in inside for path in one.machines)}
    run = {simulation.guest for simulation in suite.simulations if simulation.guest}
    preloaded = {program.guest for one in inside for program in one.programs if program.guest}
    assert guests == run | preloaded | {"empty"}


def test_machines_after_a_model_name_their_source():
    for name in ("desktop", "server"):
        machine = json.loads((gem5_dir() / "machines" / f"{name}.json").read_text())
        assert len(machine["source"]) > 40


def test_simulations_are_chosen_by_name_and_role(folder: Path):
    suite = load_suite(write(folder, GOOD))
    assert [s.name for s in suite.choose(["held-out"])] == ["two"]
    assert [s.name for s in suite.choose(["two", "one"])] == ["one", "two"]
    assert [s.name for s in suite.choose(["all"])] == ["one", "two"]
    assert suite.simulations[0].role is SimulationRole.TUNE
    assert suite.machine_file(suite.simulations[0]) == folder / "core.json"


def test_unknown_simulation_is_an_error_with_a_hint(folder: Path):
    suite = load_suite(write(folder, GOOD))
    with pytest.raises(SpecError, match=r"has no simulation 'tow'; did you mean 'two'\?"):
        suite.choose(["tow"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('role = "tune"', 'role = "tuned"', r"simulations.one.role = \"tuned\": must be one of"),
        ('guest = "tree"', 'gest = "tree"', r"simulations.one.gest: unknown key; did you mean"),
        ('guest = "tree"', "", r"simulations.one.guest: this key is required, its machine has no"),
        ('guest = "tree"', 'guest = "bush"', r"simulations.one.guest = \"bush\": there is no "),
        (
            '"core.json"',
            '"missing.json"',
            r"one.machine: .*missing.json cannot be read: No such file",
        ),
        ('"core.json"', '"traffic.json"', r"simulations.one.guest: its machine has traffic"),
        ('name = "two"', 'name = "one"', r"simulations.one: given twice"),
        ("version = 1", "version = 2", r"version = 2: must be 1"),
        ('arguments = ["10"]', "arguments = [10]", r"simulations.one.arguments\[0\] = 10: must be"),
        ('arguments = ["10"]', "max_instructions = 0", r"max_instructions = 0: must be at least 1"),
    ],
)
def test_wrong_suite_is_an_error_that_names_the_key(folder: Path, old: str, new: str, message: str):
    assert old in GOOD
    with pytest.raises(SpecError, match=message):
        load_suite(write(folder, GOOD.replace(old, new)))
