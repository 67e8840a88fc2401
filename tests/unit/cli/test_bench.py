"""What `bench` says of its tables."""

from pathlib import Path

from tests.doubles.bench import ALICE, RING, FakeDriver
from tests.doubles.command_line import CommandLine
from tuner.bench.plan import BenchPlan
from tuner.bench.rounds import run_missing


def test_what_is_no_95_percent_interval_is_not_called_one(cli: CommandLine, tmp_path: Path):
    for rounds, said in ((1, "no interval; -:"), (3, "(of fewer than six rounds: of their range)")):
        run_missing(BenchPlan((RING,), 0.1, rounds), [ALICE], tmp_path, FakeDriver())

        assert said in cli.prints("bench", "--print", "--no-figures", "-o", tmp_path)
