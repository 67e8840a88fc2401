"""kill -9 at any moment, run the same command again: the store equals an undisturbed run's.

A moment is a number of events: SQL statements in the writing process and starts
and ends of evaluations.  Kills therefore also fall between the statements of one
transaction and between an evaluation and its commit, and a failure can be
repeated from its number.  Each run is a process of its own that dies by SIGKILL.
"""

import itertools
import os
import random
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import synthetic
from tests.doubles.fork_server import FORK_SERVER
from tests.doubles.strategies import LEARNERS
from tuner.campaign.progress import Listener
from tuner.campaign.runner import Runner
from tuner.campaign.setup import make_spaces
from tuner.measure.executor import LocalExecutor
from tuner.records import Configuration
from tuner.store import STORE_NAME, Store

BUDGET = 70
N_KILLS = {"auto": 12}
"""By strategy, where it is not 3: the store is the same for all, a replay is each one's own."""
VOLATILE = {"ended_at", "created_at", "happened_at", "wall_ns"}
"""Columns of times."""


class Bomb:
    """Kills its process at the n-th event."""

    def __init__(self, n_events: int | None) -> None:
        self._limit = n_events
        self._count = itertools.count(1)
        self._lock = threading.Lock()
        self.n_events = 0

    def event(self, _what: object = None) -> None:
        with self._lock:
            self.n_events = next(self._count)
            if self.n_events == self._limit:
                os.kill(os.getpid(), signal.SIGKILL)


def run_campaign(folder: Path, strategy: str, kill_at: int | None, report: Path | None) -> None:
    """Run the campaign in this process, or go on with the one in the folder."""
    bomb = Bomb(kill_at)
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(bomb.event)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    evaluator = synthetic.SyntheticEvaluator(before=bomb.event)
    record = synthetic.record(strategy=strategy, budget=BUDGET, constraints=("cost <= default",))
    spaces = make_spaces(synthetic.PARTS, record.search)
    if Store.exists(folder):
        store = Store.open(folder, writable=True)
    else:
        store = Store.create(folder, record)
    with store, LocalExecutor(evaluator, [0, 1]) as executor:
        Runner(store, spaces, executor, Listener()).run()
    if report:
        report.write_text(str(bomb.n_events))


def in_a_process(
    folder: Path, strategy: str, kill_at: int | None = None, report: Path | None = None
) -> int | None:
    """Run the campaign in a process of its own and return its exit code."""
    process = FORK_SERVER.Process(target=run_campaign, args=(folder, strategy, kill_at, report))
    process.start()
    process.join()
    return process.exitcode


def content(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return every row of every table, without the columns of times."""
    connection = sqlite3.connect(folder / STORE_NAME)
    connection.row_factory = sqlite3.Row
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")
    ]
    found = {
        table: sorted(
            (
                {key: row[key] for key in row.keys() if key not in VOLATILE}  # noqa: SIM118
                for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608
            ),
            key=repr,
        )
        for table in tables
    }
    connection.close()
    return found


@pytest.fixture(scope="module", params=LEARNERS)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def undisturbed(
    strategy: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return the content of an undisturbed store, and how many events made it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_a_process(folder, strategy, report=folder / "n_events") == 0
    return content(folder), int((folder / "n_events").read_text())


def test_a_store_killed_at_random_moments_ends_like_an_undisturbed_one(
    strategy: str, undisturbed: tuple[dict[str, list[dict[str, Any]]], int], tmp_path: Path
):
    expected, n_events = undisturbed
    moments = random.Random(20).sample(range(1, n_events), N_KILLS.get(strategy, 3))

    for moment in moments:
        folder = tmp_path / str(moment)
        killed = in_a_process(folder, strategy, kill_at=moment)
        finished = in_a_process(folder, strategy)

        assert (killed, finished) == (-signal.SIGKILL, 0), f"killed at event {moment}"
        assert expected == content(folder), f"killed at event {moment} of {n_events}"


def test_a_store_killed_again_and_again_ends_like_an_undisturbed_one(
    strategy: str, undisturbed: tuple[dict[str, list[dict[str, Any]]], int], tmp_path: Path
):
    expected, n_events = undisturbed
    chance = random.Random(21)

    n_kills = 0
    while in_a_process(tmp_path, strategy, kill_at=chance.randrange(1, n_events // 4)) != 0:
        n_kills += 1

    assert n_kills >= 3
    assert expected == content(tmp_path)


def test_the_comparison_can_fail(
    undisturbed: tuple[dict[str, list[dict[str, Any]]], int], tmp_path: Path
):
    with Store.create(tmp_path, synthetic.record()):
        pass

    assert len(undisturbed[0]["trial"]) == BUDGET
    assert Configuration("glibc").key in {row["configuration"] for row in undisturbed[0]["trial"]}
    assert undisturbed[0] != content(tmp_path)
