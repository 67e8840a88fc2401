"""Counted work beside CPU time."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.unit.optimize.answering.test_answer import DEPLOY, OPEN
from tuner.emulation import Calibration
from tuner.errors import MissingToolError, StoreError
from tuner.optimize.kinds import counted
from tuner.optimize.kinds.counted import (
    COUNTED_FILE,
    changes_of_work,
    counted_words,
    disagreement,
    gains_of_work,
)
from tuner.optimize.proof.judgement import Gain, Rules, Standing, State
from tuner.optimize.quantities import CPU
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Tuned
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration

REFERENCE = Reference(("app",), {}, 0, None, None, wall_s=0.1, timeout_s=30.0)
COUNTED = {"instructions": -0.04, "page faults": 0.09}
SETTING = {"mimalloc": Configuration("mimalloc")}


class Counting:
    """Counts what it is given."""

    def __init__(
        self, counts: Mapping[str, int | None], more_each_time: int = 0, faults: int = 100
    ) -> None:
        self._counts = counts
        self._more_each_time = more_each_time
        self._faults = faults
        self.n_counts = self.n_kernel = 0

    @property
    def can_count(self) -> bool:
        return bool(self._counts)

    def count(
        self,
        candidates: Mapping[str, Configuration],
        reference: Reference,
        label: str,
        timeout_s: float,
    ) -> int | None:
        del candidates, reference, timeout_s
        self.n_counts += 1
        if not self._counts:
            raise MissingToolError("cachegrind: not installed")
        found = self._counts[label]
        return found + self.n_counts * self._more_each_time if found else None

    def count_kernel(
        self, candidates: Mapping[str, Configuration], reference: Reference, label: str
    ) -> Mapping[str, int]:
        del candidates, reference
        self.n_kernel += 1
        is_base = label == AS_IS
        faults = 100 if is_base else self._faults
        return {"page faults": faults, "system calls": 50 if is_base else 40}


def work(folder: Path, tuned: Counting, seconds: float = 600.0, used_s: float = 0.0) -> Work:
    request = Request(("app",), seconds, ("glibc",))
    times = itertools.chain([0.0], itertools.repeat(used_s))
    return Work(folder, request, cast("Tuned", tuned), Watch(seconds, lambda: next(times)))


def test_a_change_is_counted_once_and_kept(tmp_path: Path):
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    for _ in range(2):
        changes = changes_of_work(work(tmp_path, tuned), REFERENCE, "mimalloc", SETTING)
        assert changes == pytest.approx(
            {"instructions": -0.04, "page faults": 0.0, "system calls": -0.2}
        )
    assert (tuned.n_counts, tuned.n_kernel) == (2, 2)


@pytest.mark.parametrize("counts", [{}, {AS_IS: 1000, "mimalloc": None}])
def test_what_cannot_be_counted_is_not_known(tmp_path: Path, counts: Mapping[str, int | None]):
    changes = changes_of_work(work(tmp_path, Counting(counts)), REFERENCE, "mimalloc", SETTING)

    assert changes.keys() == {"page faults", "system calls"}


@pytest.mark.parametrize(
    "text", ['{"mimalloc": {"instr', "[]", '{"mimalloc": {"instructions": "x"}}']
)
def test_a_damaged_file_is_one_error(tmp_path: Path, text: str):
    (tmp_path / COUNTED_FILE).write_text(text)

    with pytest.raises(StoreError, match=r"counted\.json: damaged .*remove it to count again"):
        changes_of_work(work(tmp_path, Counting({AS_IS: 1000})), REFERENCE, "mimalloc", SETTING)


def test_counting_keeps_to_its_share_of_the_time(tmp_path: Path):
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    some = changes_of_work(work(tmp_path, tuned, 20.0), REFERENCE, "mimalloc", SETTING)
    none = changes_of_work(work(tmp_path / "none", tuned, 1.0), REFERENCE, "mimalloc", SETTING)

    assert some.keys() == {"page faults", "system calls"}
    assert (none, tuned.n_counts) == ({}, 0)


def test_what_candidates_save_is_proven_where_the_count_repeats_itself(tmp_path: Path):
    tuned = Counting({AS_IS: 1_000_000, "mimalloc": 960_000})

    for _ in range(2):
        gains = gains_of_work(work(tmp_path, tuned), REFERENCE, SETTING)
        assert gains == {"mimalloc": pytest.approx(-math.log(0.96), abs=0.005)}
    assert (tuned.n_counts, tuned.n_kernel) == (3, 2)


def test_the_work_of_threads_proves_nothing(tmp_path: Path):
    tuned = Counting({AS_IS: 1_000_000, "mimalloc": 960_000})

    assert gains_of_work(work(tmp_path, tuned), replace(REFERENCE, n_threads=2), SETTING) == {}
    assert tuned.n_counts == 0


def test_work_that_differs_from_run_to_run_proves_nothing(tmp_path: Path):
    tuned = Counting({AS_IS: 1_000_000, "mimalloc": 960_000}, more_each_time=10_000)

    assert gains_of_work(work(tmp_path, tuned), REFERENCE, SETTING) == {}
    assert tuned.n_counts == 2


def test_page_faults_take_back_what_instructions_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prices = Calibration(c_fault=10_000.0, c_syscall=0.0)
    monkeypatch.setattr(counted, "load_calibration", lambda: prices)
    tuned = Counting({AS_IS: 1_000_000, "mimalloc": 960_000}, faults=110)

    gains = gains_of_work(work(tmp_path, tuned), REFERENCE, SETTING)

    assert gains == {"mimalloc": pytest.approx(-math.log(2_060_000 / 2_000_000))}


def test_nothing_is_counted_in_another_environment(tmp_path: Path):
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})
    elsewhere = replace(work(tmp_path, tuned), environment="another")

    assert changes_of_work(elsewhere, REFERENCE, "mimalloc", SETTING) == {}
    assert (tuned.n_counts, tuned.n_kernel) == (0, 0)


def test_nothing_is_counted_without_time_for_three(tmp_path: Path):
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    assert gains_of_work(work(tmp_path, tuned, 60.0), REFERENCE, SETTING) == {}
    assert tuned.n_counts == 0


def test_nothing_more_is_counted_when_the_time_is_up(tmp_path: Path):
    tuned = Counting({AS_IS: 1_000_000, "mimalloc": 960_000})

    assert gains_of_work(work(tmp_path, tuned, used_s=590.0), REFERENCE, SETTING) == {}
    assert tuned.n_counts == 0
    for used_s in (0.0, 599.0):
        gains = gains_of_work(work(tmp_path, tuned, used_s=used_s), REFERENCE, SETTING)
        assert gains.keys() == {"mimalloc"}
    assert tuned.n_counts == 3


BOTH = {"mimalloc": Configuration("mimalloc"), "exgen": Configuration("exgen")}
COUNTS = {AS_IS: 1_000_000, "mimalloc": 960_000, "exgen": 950_000}


def test_what_was_counted_still_proves_it_in_a_call_with_less_time(tmp_path: Path):
    tuned = Counting(COUNTS)
    before = gains_of_work(work(tmp_path, tuned), REFERENCE, BOTH)
    n_counts = tuned.n_counts

    for seconds in (20.0, 1.0):
        assert gains_of_work(work(tmp_path, tuned, seconds), REFERENCE, BOTH) == before
    assert before.keys() == BOTH.keys()
    assert tuned.n_counts == n_counts


def test_what_there_is_no_time_to_count_takes_nothing_from_what_was_counted(tmp_path: Path):
    tuned = Counting(COUNTS)
    before = gains_of_work(work(tmp_path, tuned, 100.0), REFERENCE, BOTH)

    after = gains_of_work(work(tmp_path, tuned, used_s=599.0), REFERENCE, BOTH)

    assert before.keys() == {"mimalloc"}
    assert after == before


def test_the_share_of_the_time_is_that_of_all_candidates_one_after_the_other(tmp_path: Path):
    tuned = Counting(COUNTS)
    for label, one in BOTH.items():
        gains_of_work(work(tmp_path, tuned, 100.0), REFERENCE, {label: one})

    assert tuned.n_counts == 3


def test_it_is_said_where_work_and_time_disagree():
    faster = {CPU: Gain(0.04, 0.02, 0.06)}

    more = {"instructions": 0.03}

    assert "page faults or the kernel" in (disagreement(faster, more, Rules()) or "")
    assert disagreement(faster, {"instructions": -0.03}, Rules()) is None
    assert disagreement({CPU: Gain(0.04, -0.02, 0.06)}, more, Rules()) is None
    assert disagreement(faster, {}, Rules()) is None


def test_it_is_said_what_rests_on_counted_work():
    gains = {CPU: Gain(0.04, -0.05, 0.12)}
    gain = Standing("x", 9, State.CONFIRMED, gains, (CPU,), (), (), by_count={CPU: 0.04})
    guard = replace(gain, better=(), by_count={CPU: -0.002})

    said = " ".join(counted_words(gain))

    assert "proves a gain" in said
    assert "CPU time alone does not prove it: -3.9 % (-11.3 .. +5.1)." in said
    assert "proves that there is no loss that counts" in " ".join(counted_words(guard))
    assert counted_words(replace(gain, by_count={})) == ()


def test_cpu_time_whose_whole_range_is_a_gain_is_not_said_to_disagree():
    gains = {CPU: Gain(0.11, 0.03, 0.18)}
    gain = Standing("x", 9, State.CONFIRMED, gains, (CPU,), (), (), by_count={CPU: 0.12})

    (said,) = counted_words(gain)

    assert "CPU time agrees, in too few rounds to prove it alone: -10.4 % (-16.5 .. -3.0)." in said


def test_the_reason_is_looked_for_in_the_kernel():
    faster = {CPU: Gain(0.04, 0.02, 0.06)}
    more = {"instructions": 0.03, "page faults": -0.6, "system calls": 0.1}

    said = disagreement(faster, more, Rules())

    assert said is not None
    assert ": page faults change by -60.0 %, and caches may differ." in said
    same = {**more, "page faults": 0.001}
    assert "neither page faults nor system calls go with the time" in str(
        disagreement(faster, same, Rules())
    )


def test_an_answer_shows_what_was_counted():
    deploy = "\n".join(replace(DEPLOY, counted=COUNTED).lines())
    still_open = "\n".join(replace(OPEN, counted=COUNTED).lines())

    assert ["instructions", "-4.0", "%", "counted"] in [line.split() for line in deploy.split("\n")]
    assert ["page", "faults", "+9.0", "%", "counted"] in [
        line.split() for line in deploy.split("\n")
    ]
    assert ", instructions -4.0 %, page faults +9.0 %" in " ".join(still_open.split())
    assert replace(DEPLOY, counted=COUNTED).as_record()["counted"]["page_faults"] == 0.09


def test_a_count_that_failed_is_not_made_again_in_the_same_call(tmp_path: Path):
    tuned = Counting({AS_IS: None, "mimalloc": 960})
    counting = work(tmp_path, tuned)

    for _ in range(2):
        assert gains_of_work(counting, REFERENCE, SETTING) == {}

    assert tuned.n_counts == 1
