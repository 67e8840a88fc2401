"""Every shipped profile can be generated, names its program, and is small enough to ship."""

import os
import subprocess
from pathlib import Path

import pytest

from tuner.profile.file import read_profile
from tuner.resources import configs_dir, native_file
from tuner.trace.file import Op, Trace

FOLDER = configs_dir() / "workloads"
PROFILES = sorted(FOLDER.glob("*/*.profile.json.zst"))
N_EVENTS = 3000
MOST_BYTES = 3 * 2**20


def name(path: Path) -> str:
    return path.name.removesuffix(".profile.json.zst")


@pytest.mark.slow
@pytest.mark.parametrize("path", PROFILES, ids=name)
def test_it_generates_events_of_its_program(path: Path):
    with Trace(path) as profile:
        events = next(profile.batches(N_EVENTS))
    assert (events["op"] <= Op.ALIGNED).any()


@pytest.mark.slow
@pytest.mark.parametrize("path", PROFILES, ids=name)
def test_rand_malloc_runs_its_beginning(path: Path):
    first = ["--runs", "memory", "--first", str(N_EVENTS)]
    command = [str(native_file("rand_malloc")), *first, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", PROFILES, ids=name)
def test_it_says_what_was_run(path: Path):
    metadata = read_profile(path)["metadata"]
    assert metadata["argv"]
    assert metadata["run"].startswith("run.sh")
    assert metadata["program_version"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PROFILES, ids=name)
def test_it_carries_its_verdict(path: Path):
    verdict = read_profile(path)["fidelity"]
    assert verdict["configurations"] >= 20
    assert verdict["metrics"]["peak_heap"]["families"]


def test_every_folder_can_be_recorded_again():
    scripts = sorted(FOLDER.glob("*/run.sh"))
    assert {path.parent for path in PROFILES} <= {script.parent for script in scripts}
    assert all(os.access(script, os.X_OK) for script in scripts)


def test_all_profiles_together_stay_small():
    assert 0 < sum(path.stat().st_size for path in PROFILES) < MOST_BYTES


def test_the_list_of_workloads_names_every_folder():
    text = (FOLDER / "README.md").read_text()
    missing = [s.parent.name for s in FOLDER.glob("*/run.sh") if f"`{s.parent.name}`" not in text]
    assert not missing
