"""The guest programs, on this machine instead of a simulated one."""

import subprocess
from pathlib import Path

import pytest

from tuner.config.gem5_suite import load_suite
from tuner.errors import ProgramError
from tuner.measure.gem5 import make_guests
from tuner.resources import gem5_dir

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guests")
    make_guests(gem5_dir() / "guests", folder)
    return folder


def output(guest: Path, *arguments: str) -> str:
    ended = subprocess.run([guest, *arguments], check=True, capture_output=True, text=True)
    return ended.stdout


def test_every_simulation_has_a_guest_that_repeats_itself(guests: Path):
    for simulation in load_suite(gem5_dir() / "suite.toml").simulations:
        if simulation.guest:
            first = output(guests / simulation.guest, *simulation.arguments)
            assert first.startswith(f"{simulation.guest} ")
            assert output(guests / simulation.guest, *simulation.arguments) == first


def test_work_depends_on_the_scale(guests: Path):
    names = ("tree", "hash", "matrix", "sort", "text", "chase", "interpreter", "blocks")
    for name in names:
        assert output(guests / name, "20") != output(guests / name, "40")


def test_interpreter_computes_what_python_computes(guests: Path):
    n_steps = 0
    for start in range(1, 101):
        number = start
        while True:
            n_steps += 1
            number = 3 * number + 1 if number % 2 else number // 2
            if number <= 1:
                break
    assert output(guests / "interpreter", "100") == f"interpreter {n_steps:016x}\n"


def test_missing_scale_is_an_error(guests: Path):
    ended = subprocess.run([guests / "sort"], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "SCALE" in ended.stderr


def test_only_what_runs_is_built(tmp_path: Path):
    make_guests(gem5_dir() / "guests", tmp_path, names=["tree", "empty"])
    assert {path.name for path in tmp_path.iterdir()} == {"tree", "empty"}


def test_guest_that_does_not_compile_is_an_error(tmp_path: Path):
    (tmp_path / "Makefile").write_text("all:\n\t@echo broken.c:1: oh >&2; false\n")
    with pytest.raises(ProgramError, match=r"exit status 2: broken.c:1: oh"):
        make_guests(tmp_path, tmp_path / "out")
