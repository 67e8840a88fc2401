"""Where shipped files are looked for."""

import os
from pathlib import Path

import pytest

from tuner import resources
from tuner.errors import MissingToolError
from tuner.resources import WORKLOADS_VARIABLE, cache_folder, workload_file


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workloads of an installed package: one."""
    package = tmp_path / "tuner"
    (package / "configs/allocators").mkdir(parents=True)
    folder = package / "configs/workloads"
    (folder / "small").mkdir(parents=True)
    (folder / "small/small.trace").touch()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    monkeypatch.delenv(WORKLOADS_VARIABLE, raising=False)
    return folder


def test_a_workload_of_the_package_is_found_there(installed: Path):
    path = installed / "../workloads/small/small.trace"
    assert workload_file(path) == path


def test_a_file_of_the_user_is_left_alone(installed: Path, tmp_path: Path):
    assert workload_file(tmp_path / "app.trace") == tmp_path / "app.trace"


def test_other_workloads_are_in_the_folder_of_the_variable(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository = tmp_path / "workloads"
    (repository / "large").mkdir(parents=True)
    (repository / "large/large.trace").touch()
    path = installed / "../workloads/large/large.trace"
    with pytest.raises(MissingToolError, match=f"set {WORKLOADS_VARIABLE} to"):
        workload_file(path)

    monkeypatch.setenv(WORKLOADS_VARIABLE, str(repository))

    assert workload_file(path) == repository / "large/large.trace"
    with pytest.raises(MissingToolError, match=str(repository / "none.trace")):
        workload_file(installed / "none.trace")


def test_a_user_without_a_home_has_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    assert cache_folder() == Path("/nonexistent/malloc-tuner")
