"""The Makefile: a check that can check nothing fails, and says why."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.places import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make")

FILES = ("Makefile", "pyproject.toml", "packages.txt", "scripts/develop.py", "scripts/packages")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with what the Makefile depends on, packages being installed."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / ".packages-build").touch()
    return tmp_path


def plain_environment() -> dict[str, str]:
    """Return the environment without what a make or git around this one has set."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "GIT_"))}


def make(checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-C", checkout, *words],
        env={**plain_environment(), **variables},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("target", ["lint", "check"])
def test_lint_fails_where_git_lists_no_sources(checkout: Path, target: str):
    """So it is in a folder of somebody else, which git does not trust."""
    done = make(checkout, "-n", target)

    assert done.returncode == 2
    assert "git lists no C sources here" in done.stderr


@pytest.mark.parametrize(("value", "is_error"), [("true", "ON"), ("", "OFF")])
def test_warnings_are_errors_in_ci_alone(checkout: Path, value: str, is_error: str):
    """A folder that CI has built in forgets it."""
    done = make(checkout, "-n", "native", CI=value)

    assert f" -DCMAKE_COMPILE_WARNING_AS_ERROR={is_error} " in done.stdout


@pytest.fixture
def clone(checkout: Path) -> Path:
    """Return a checkout that git knows, with one C source."""
    (checkout / "allocator" / "src").mkdir(parents=True)
    (checkout / "allocator" / "src" / "a.c").touch()
    for words in (("init", "--quiet"), ("add", "allocator")):
        subprocess.run(["git", "-C", checkout, *words], env=plain_environment(), check=True)
    return checkout


def with_tools(clone: Path, scripts: dict[str, str], *stamps: str) -> str:
    """Return a PATH with these programs first, the packages of some stamps being installed."""
    tools = clone / "tools"
    tools.mkdir()
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    for stamp in stamps:
        (clone / "build" / f".packages-{stamp}").touch()
    return f"{tools}:{os.environ['PATH']}"


TOOLS = ("ruff", "mypy", "python", "clang-format", "cmake")


@pytest.mark.parametrize("failing", [None, *TOOLS])
def test_lint_runs_all_tools_and_fails_with_any(clone: Path, failing: str | None):
    """Two of them run at the same time."""
    scripts = {name: f'echo {name} "$@"; [ {name} != {failing} ]' for name in TOOLS}
    path = with_tools(clone, scripts, "lint", "test")
    done = make(clone, "-o", "develop", f"BIN={clone / 'tools'}", "lint", PATH=path)

    assert done.returncode == (0 if failing is None else 2), done.stderr
    if failing is None:
        assert "\nmypy\n" in done.stdout
        assert "\nclang-format --dry-run -Werror allocator/src/a.c\n" in done.stdout
        assert "\npython scripts/tidy.py build/lint allocator/src/a.c\n" in done.stdout


def test_check_runs_a_test_file_that_git_does_not_know_yet(clone: Path):
    path = with_tools(clone, {}, "lint", "test")
    new = clone / "tests" / "unit" / "test_new.py"
    new.parent.mkdir(parents=True)
    new.touch()

    done = make(clone, "-n", "-o", "develop", "check", PATH=path)

    assert " tests/unit/test_new.py" in done.stdout


@pytest.mark.parametrize(("status", "fails"), [(1, False), (70, True)])
def test_figures_take_a_missed_target_and_no_crash(clone: Path, status: int, *, fails: bool):
    script = f'if [ "$2" = --print ]; then echo half; exit {status}; fi'
    path = with_tools(clone, {"python": script})
    (clone / "benchmarks" / "results").mkdir(parents=True)
    (clone / "benchmarks" / "results" / "one.json.zst").touch()

    done = make(clone, "-o", ".venv/.test-dependencies", "-o", "native",
                f"BIN={clone / 'tools'}", "figures", PATH=path)  # fmt: skip

    assert bool(done.returncode) == fails, done.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_the_demo_says_how_long_and_builds_quietly_and_without_tests(clone: Path, *, fails: bool):
    path = with_tools(clone, {"cmake": f'echo "$@"; [ {fails} = False ]'}, "run", "demo")
    (clone / "scripts" / "demo").symlink_to("/bin/true")

    words = ("-o", ".venv/.dependencies", "--no-print-directory", "demo")
    done = make(clone, *words, PATH=path)

    assert bool(done.returncode) == fails
    assert re.search(r"^make demo: \d+ to \d+ minutes", done.stdout)
    assert ("-DMALLOC_TUNER_TESTS=OFF" in done.stdout) == fails


def test_an_old_python_is_refused_before_anything_is_installed(checkout: Path):
    old = checkout / "python"
    code = "import sys; sys.version_info = (3, 10, 12); exec(sys.argv[2])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    old.chmod(0o755)

    done = make(checkout, f"PYTHON={old}", ".venv/.dependencies")

    assert done.returncode == 2
    assert "make: Python 3.11 or newer is needed" in done.stderr
    assert not (checkout / ".venv").exists()
