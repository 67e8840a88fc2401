"""`scripts/packages` installs what is missing of a group, and knows which groups there are."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.doubles.places import ROOT


def packages(path: Path, *groups: str) -> subprocess.CompletedProcess[str]:
    """Run it with the programs of one folder alone."""
    return subprocess.run(
        [shutil.which("sh") or "sh", str(ROOT / "scripts" / "packages"), *groups],
        env={**os.environ, "PATH": str(path)},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder with the programs of a system without apt."""
    for name in ("awk", "dirname", "sed"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    return tmp_path


@pytest.mark.parametrize("groups", [("serv",), ("build", "serv")])
def test_a_group_that_does_not_exist_is_refused(tools: Path, groups: tuple[str, ...]):
    done = packages(tools, *groups)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "packages: packages.txt has no group serv\n"


def test_without_apt_it_lists_what_is_needed_and_goes_on(tools: Path):
    done = packages(tools, "build", "run")

    assert (done.returncode, done.stdout) == (0, "")
    assert "no apt on this system" in done.stderr
    assert "packages:   libjsmn-dev\n" in done.stderr
    assert "packages:   libmimalloc3 or libmimalloc2.0\n" in done.stderr
    assert "heaptrack" not in done.stderr
