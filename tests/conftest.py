"""What every Python test shares: a clean environment, and random input that repeats.

Random tests draw the same input in every run and know no time limit, so that a busy machine and
another day change nothing.  `pytest --hypothesis-profile explore` draws new input, and more of it;
`quick` draws less, for `make check`.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.doubles.command_line import CommandLine
from tuner.measure import warm
from tuner.measure.program import clean_environment

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

INPUT_OF_TESTS = ("MALLOC_TUNER_CLASSIC_RECORDS",)
"""Variables that a test reads itself."""

KNOWN_SKIPS = (
    # Data, libraries and a mode of the kernel that CI's machines lack.
    "MALLOC_TUNER_CLASSIC_RECORDS does not name",
    "needs gem5; set GEM5",
    "mimalloc ",
    "another version of the library",
    "transparent huge pages of this machine",
    "no kubectl",
    # Services, which `scripts/packages serve` may not find, and what a container or user may not.
    "needs root",
    "only root may",
    "redis is not installed",
    "PostgreSQL is not installed",
    "lacks ",
    "namespaces are not allowed",
    "nothing may be mounted",
)
"""Beginnings of the reasons to skip a test in CI, where any other fails it."""

settings.register_profile(
    "fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", settings.get_profile("fixed"), derandomize=False, max_examples=1000
)
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=20)
settings.load_profile("fixed")


def remove_allocator_settings() -> None:
    """Remove allocators' settings and our own debugging variables from the environment.

    The C tests' list of them is allocator/test/clean_environment.cmake.
    """
    clean = clean_environment(os.environ)
    for name in os.environ.keys() - clean.keys() - set(INPUT_OF_TESTS):
        del os.environ[name]


# Now, and not in a fixture: fixtures of modules and of the session start programs before one runs.
remove_allocator_settings()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for no known reason, where SKIPS says that they are known."""
    return checked_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a file."""
    return checked_skip((yield))


def checked_skip(report: Report) -> Report:
    """Return a report, as of a failure where its test is skipped and should not be."""
    if os.environ.get("SKIPS") == "known" and report.skipped and not hasattr(report, "wasxfail"):
        *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("",)
        if not reason.removeprefix("Skipped: ").startswith(KNOWN_SKIPS):
            report.outcome, report.longrepr = "failed", f"{reason}: see KNOWN_SKIPS"
    return report


@pytest.fixture(autouse=True)
def fixed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give tables the width that expected outputs have."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(autouse=True)
def cold_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Touch no gigabyte before what is timed: no test looks at how fast a program was."""
    monkeypatch.setattr(warm, "WARM_MIB", 0)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
