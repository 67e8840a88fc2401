"""The time of all calls of an optimisation."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.doubles.clock import Clock
from tuner.optimize.used_time import TIME_FILE, UsedTime
from tuner.optimize.work import Watch
from tuner.runs import REQUEST_FILE


def begun(folder: Path) -> Path:
    (folder / REQUEST_FILE).write_text("{}")
    return folder


def seconds_in(folder: Path) -> float:
    return float(json.loads((folder / TIME_FILE).read_text())["seconds"])


@pytest.mark.parametrize("ends_by", [None, ValueError])
def test_the_time_of_a_call_is_kept_however_it_ends(
    tmp_path: Path, ends_by: type[Exception] | None
):
    for _ in range(2):
        clock = Clock()
        with contextlib.suppress(ValueError), UsedTime(begun(tmp_path), Watch(60.0, clock)):
            clock.now_s = 12.5
            if ends_by is not None:
                raise ends_by

    assert seconds_in(tmp_path) == 25.0


def test_a_kill_loses_a_few_seconds(tmp_path: Path):
    clock = Clock()
    used = UsedTime(begun(tmp_path), Watch(60.0, clock))
    kept = []
    for now_s in range(60):
        clock.now_s = float(now_s)
        used.keep()
        kept.append(seconds_in(tmp_path) if (tmp_path / TIME_FILE).exists() else 0.0)

    assert max(now_s - one for now_s, one in enumerate(kept)) < 6.0
    assert len(set(kept)) <= 1 + 60 / 5


def test_a_folder_that_was_not_begun_has_no_time(tmp_path: Path):
    with UsedTime(begun(tmp_path), Watch(60.0, Clock())):
        pass
    (tmp_path / TIME_FILE).write_text('{"seconds": 40.0}')
    (tmp_path / REQUEST_FILE).unlink()

    with UsedTime(tmp_path, Watch(60.0, Clock())) as used:
        assert used.before_s == 0.0
    assert seconds_in(tmp_path) == 40.0, "nor is it written"


@pytest.mark.parametrize("content", ["", "[]", '{"seconds": "x"}', '{"seconds": NaN}'])
def test_a_damaged_file_counts_for_nothing(tmp_path: Path, content: str):
    (begun(tmp_path) / TIME_FILE).write_text(content)

    assert UsedTime(tmp_path, Watch(60.0, Clock())).before_s == 0.0
