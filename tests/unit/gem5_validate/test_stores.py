"""What killed simulations leave of simulated memory, and who removes it."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.doubles.places import ROOT, load_file


@pytest.fixture(scope="module")
def stores() -> ModuleType:
    return load_file(ROOT / "gem5-validate" / "stores.py")


@pytest.fixture
def dead() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        pass
    return process.pid


def put(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(b"simulated")
    return path


def test_of_dead_processes_nothing_is_left(stores: ModuleType, tmp_path: Path, dead: int):
    left = put(tmp_path, f"gem5-validate-{dead}")
    stores.remove_left(tmp_path)
    assert not left.exists()


def test_of_processes_that_run_all_stays(stores: ModuleType, tmp_path: Path):
    own = put(tmp_path, stores.own_name(tmp_path).name)
    first = put(tmp_path, "gem5-validate-1")
    stores.remove_left(tmp_path)
    assert own.exists()
    assert first.exists()


def test_other_names_stay(stores: ModuleType, tmp_path: Path, dead: int):
    names = ["gem5-validate-", "gem5-validate-new", f"gem5-other-{dead}"]
    paths = [put(tmp_path, name) for name in names]
    folder = tmp_path / f"gem5-validate-{dead}"
    folder.mkdir()
    stores.remove_left(tmp_path)
    assert all(path.exists() for path in [*paths, folder])


def test_what_other_users_left_stays(
    stores: ModuleType, tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
):
    left = put(tmp_path, f"gem5-validate-{dead}")
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
    stores.remove_left(tmp_path)
    assert left.exists()


def test_process_of_another_user_is_alive(
    stores: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(pid, signal)

    monkeypatch.setattr(os, "kill", refuse)
    left = put(tmp_path, "gem5-validate-1")
    stores.remove_left(tmp_path)
    assert left.exists()


def test_place_that_does_not_exist_is_no_error(stores: ModuleType, tmp_path: Path):
    stores.remove_left(tmp_path / "none")
