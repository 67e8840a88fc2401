"""What `bench` says of its tables."""

from pathlib import Path

import pytest

from tests.doubles.bench import ALICE, BOB, RING, FakeDriver
from tests.doubles.command_line import CommandLine
from tuner.bench.plan import BenchPlan
from tuner.bench.rounds import run_missing


@pytest.mark.parametrize(
    ("rounds", "said"),
    [(1, "One round: no interval; -:"), (3, "interval (of fewer than six rounds: of their range)")],
)
def test_what_is_no_95_percent_interval_is_not_called_one(
    cli: CommandLine, tmp_path: Path, rounds: int, said: str
):
    run_missing(BenchPlan((RING,), 0.1, rounds), [ALICE, BOB], tmp_path, FakeDriver())

    assert said in cli.prints("bench", "--print", "--no-figures", "-o", tmp_path)
