"""What every Python test shares: a clean environment, and random input that repeats.

Random tests draw the same input in every run and know no time limit, so that a busy machine and
another day change nothing.  `pytest --hypothesis-profile explore` draws new input, and more of it;
`quick` draws less, for `make check`.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.doubles.command_line import CommandLine
from tuner.measure import warm
from tuner.measure.program import clean_environment

INPUT_OF_TESTS = ("MALLOC_TUNER_CLASSIC_RECORDS",)
"""Variables that a test reads itself."""

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
