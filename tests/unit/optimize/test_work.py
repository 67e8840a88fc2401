"""The time that an optimisation was given, and what runs in its comparisons."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from tuner.optimize.request import Request
from tuner.optimize.tuned import Tuned
from tuner.optimize.work import FIRST_RUNS, Watch, Work
from tuner.records import Configuration
from tuner.runs import CONFIRMATION_FILE, SELECTION_FILE


def test_a_watch_counts_from_its_start():
    now = [100.0]
    watch = Watch(60.0, lambda: now[0])
    now[0] = 145.0

    assert watch.used_s == 45.0
    assert watch.left_s == 15.0
    now[0] = 170.0
    assert watch.left_s == -10.0


class App:
    """Something whose runs may be as they are deployed."""

    is_deployed = False

    def as_deployed(self, _candidates: Mapping[str, Configuration]) -> Tuned:
        found = App()
        found.is_deployed = True
        return cast("Tuned", found)


@pytest.mark.parametrize("text", ["{}\n{}\n", "damaged\n", '{"schema": "x"}\n{"round": 1}\n'])
def test_what_is_no_journal_of_runs_counts_as_none(tmp_path: Path, text: str):
    (tmp_path / "other.jsonl").write_text(text)
    work = Work(tmp_path, Request(("app",), 60.0, ("glibc",)), cast("Tuned", App()), Watch(60.0))

    assert work.n_runs == FIRST_RUNS


@pytest.mark.parametrize(
    ("file", "is_deployed"),
    [(SELECTION_FILE, False), (CONFIRMATION_FILE, True), ("held-out.1.jsonl", True)],
)
def test_what_proves_something_runs_as_it_is_deployed(file: str, *, is_deployed: bool):
    app = cast("Tuned", App())
    work = Work(Path(), Request(("app",), 60.0, ("glibc",)), app, Watch(60.0))

    assert cast("App", work.tuned_in(file, {})).is_deployed is is_deployed
