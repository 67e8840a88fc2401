"""What runs inside simulated machines: the shipped file, and what is said about wrong ones."""

import json
from pathlib import Path

import pytest

from tuner.config.gem5_inside import load_inside
from tuner.errors import SpecError
from tuner.resources import gem5_dir

GOOD = """
version = 1
machines = ["small.json", "large.json"]

[[programs]]
name = "tree"
guest = "tree"
arguments = ["10"]

[[programs]]
name = "shell"
command = ["sh", "-c", "true"]
cores = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("small.json", "large.json"):
        (tmp_path / name).write_text(json.dumps({"cpu": {"model": "atomic"}}))
    (tmp_path / "traffic.json").write_text(json.dumps({"traffic": {}}))
    (tmp_path / "guests").mkdir()
    (tmp_path / "guests" / "tree.c").touch()
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "inside.toml"
    path.write_text(text)
    return path


def test_shipped_file_has_two_machines_and_an_allocation_heavy_guest():
    inside = load_inside(gem5_dir() / "inside.toml")
    assert [path.stem for path in inside.machines] == ["desktop", "server"]
    assert "lists" in [program.name for program in inside.programs]
    assert any(program.cores == 2 for program in inside.programs)
    assert any(program.trace for program in inside.programs)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["all"], ["tree small", "tree large", "shell small", "shell large"]),
        (["tree"], ["tree small", "tree large"]),
        (["large"], ["tree large", "shell large"]),
        (["tree", "large"], ["tree large"]),
        (["all", "large"], ["tree large", "shell large"]),
    ],
)
def test_programs_and_machines_are_chosen_by_name(
    folder: Path, words: list[str], expected: list[str]
):
    chosen = load_inside(write(folder, GOOD)).choose(words)
    assert expected == [f"{program.name} {machine.stem}" for program, machine in chosen]


def test_unknown_word_is_an_error(folder: Path):
    with pytest.raises(SpecError, match="no program or machine 'tre'; did you mean 'tree'"):
        load_inside(write(folder, GOOD)).choose(["tre"])


def test_shipped_crews_grow_to_sixteen_threads():
    programs = load_inside(gem5_dir() / "scaling.toml").programs

    assert {program.cores for program in programs} == {1, 2, 4, 8, 16}
    assert all(program.start for program in programs)
    for program in programs:
        cores = str(program.cores)
        assert program.name == f"{program.guest}-{cores}"
        assert program.arguments[-1] == (program.start or ())[-1] == cores


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ('guest = "tree"', 'guest = "bush"', "there is no .*bush.c"),
        ('guest = "tree"', 'trace = "x.trace"', "arguments and start are a guest's"),
        ('arguments = ["10"]', "first = 5", "first is a trace's"),
        ('command = ["sh", "-c", "true"]', "", "exactly one of guest, trace and command"),
        ("cores = 2", 'start = ["1"]', "arguments and start are a guest's"),
        ("cores = 2", "threads = [1, 2]", "threads"),
        ("cores = 2", "cores = 0", "at least 1"),
        ('"large.json"', '"traffic.json"', "has no processor"),
        ('"large.json"', '"huge.json"', "cannot be read"),
        ('name = "shell"', 'name = "tree"', "programs.tree: given twice"),
        ('arguments = ["10"]', 'trace = "x.trace"', "exactly one of guest, trace and command"),
    ],
)
def test_mistake_is_an_error(folder: Path, wrong: str, right: str, message: str):
    with pytest.raises(SpecError, match=message):
        load_inside(write(folder, GOOD.replace(wrong, right)))


def test_missing_trace_is_an_error(folder: Path):
    text = GOOD.replace('guest = "tree"\narguments = ["10"]', 'trace = "x.trace"')
    with pytest.raises(SpecError, match=r"there is no .*x\.trace"):
        load_inside(write(folder, text))
