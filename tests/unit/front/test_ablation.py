"""A point with one setting put back at a time, recorded or measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.answers import write_record
from tests.doubles.runs import MIB, failed_trial, measurement, trial
from tests.doubles.small_runs import run_of
from tuner.errors import SelectionError, SpecError
from tuner.front.ablation import Without, ablate, point_of
from tuner.front.kept import first_name, pick_of_trial
from tuner.measure.evaluation import Evaluation
from tuner.records import Configuration, Outcome, Status
from tuner.runs import Run

POINT = Configuration.of("jemalloc", {"dirty_decay_ms": 0, "narenas": 1, "tcache": False})


def run() -> Run:
    return run_of(
        trial(0, Configuration("glibc")),
        trial(1, Configuration("jemalloc"), 60.0 * MIB, 2e8),
        trial(2, POINT, 40.0 * MIB, 1e8),
        trial(3, Configuration.of("jemalloc", {"dirty_decay_ms": 0, "narenas": 1}), 40.0 * MIB,
              1.001e8),
    )  # fmt: skip


class Measured:
    """Measures everything as 44 MiB and no more work; one setting fails."""

    def __init__(self) -> None:
        self.asked: list[Configuration] = []

    def __call__(self, configurations: Sequence[Configuration]) -> dict[Configuration, Evaluation]:
        self.asked += configurations
        return {one: self._outcome(one) for one in configurations}

    def _outcome(self, one: Configuration) -> Evaluation:
        if "dirty_decay_ms" not in one.as_dict:
            return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
        return Outcome.succeeded(measurement(44.0 * MIB, 1e8))


def test_what_is_recorded_is_not_measured():
    found = ablate(run(), pick_of_trial(run(), 2))

    known = {name: one for name, _, one in found.settings}
    assert known["tcache"].trial == 3
    assert known["tcache"].changes == pytest.approx({"mean_heap": 1.0, "cost": 1.001})
    assert known["tcache"].is_needless
    assert known["narenas"].changes is None
    assert sum(not one.is_known for _, _, one in found.settings) == 2


def test_what_was_tried_and_failed_is_recorded():
    tried = Configuration.of("jemalloc", {"dirty_decay_ms": 0, "tcache": False})
    failed = failed_trial(4, tried, Status.FAILED, "killed by SIGABRT")
    measure = Measured()

    found = ablate(run_of(*run().trials, failed), pick_of_trial(run(), 2), measure)

    known = {name: one for name, _, one in found.settings}
    assert (known["narenas"].trial, known["narenas"].changes) == (4, None)
    assert known["narenas"].reason == "killed by SIGABRT"
    assert tried not in measure.asked


def test_what_is_not_recorded_is_measured_once():
    measure = Measured()

    found = ablate(run(), pick_of_trial(run(), 2), measure)

    known = {name: one for name, _, one in found.settings}
    assert len(measure.asked) == len(set(measure.asked)) == 2
    assert known["narenas"].changes == pytest.approx({"mean_heap": 1.1, "cost": 1.0})
    assert known["narenas"].trial is None
    assert known["dirty_decay_ms"].reason == "killed by SIGSEGV"
    assert all(one.is_known for _, _, one in found.settings)


def test_needless_settings_are_left_out_together():
    found = ablate(run(), pick_of_trial(run(), 2), Measured())

    assert found.reduced is not None
    assert found.reduced.configuration.as_dict == {"dirty_decay_ms": 0, "narenas": 1}
    assert found.reduced.trial == 3


@pytest.mark.parametrize(
    ("changes", "is_needless"),
    [
        ({"mean_heap": 1.0014, "cost": 0.93}, True),
        ({"mean_heap": 0.9, "cost": 0.9}, True),
        ({"mean_heap": 1.006, "cost": 0.9}, False),
        (None, False),
    ],
)
def test_what_loses_nothing_when_taken_away_is_needless_whatever_it_gains(
    changes: Mapping[str, float] | None, *, is_needless: bool
):
    """A gain of 0.58 % was no less a change than a loss: two settings were kept for it."""
    assert Without(POINT, None, changes).is_needless is is_needless


def test_a_setting_that_keeps_an_objective_at_0_is_not_needless():
    names = ("mean_heap", "syscalls")
    none, many = (measurement(40.0 * MIB, syscalls=n) for n in (0, 5000))
    chosen = Configuration.of("jemalloc", {"tcache": False})
    run = run_of(
        trial(0, Configuration("glibc"), names=names),
        replace(trial(1, Configuration("jemalloc")), outcome=Outcome.succeeded(many)),
        replace(trial(2, chosen), outcome=Outcome.succeeded(none)),
        names=names,
    )

    found = ablate(run, pick_of_trial(run, 2))

    ((_, _, without),) = found.settings
    assert without.changes == {"mean_heap": 1.0, "syscalls": 5001.0}
    assert found.reduced is None


def test_a_point_is_a_pick_or_a_trial():
    assert point_of(run(), "2").trial.number == 2
    assert point_of(run(), "best-cost").trial.number == 3
    with pytest.raises(SelectionError, match="has no pick 'fastest'"):
        point_of(run(), "fastest")
    with pytest.raises(SpecError, match="pick name '\N{SUPERSCRIPT TWO}'"):
        point_of(run(), "\N{SUPERSCRIPT TWO}")
    with pytest.raises(SelectionError, match="has no trial of 5000 digits"):
        point_of(run(), "9" * 5000)


@pytest.mark.parametrize("point", [None, "recommended"])
def test_what_is_deployed_and_was_never_emulated_is_the_trial_with_more(
    tmp_path: Path, point: str | None
):
    untried = Configuration.of("jemalloc", {"narenas": 1, "tcache": False}).key
    write_record(tmp_path, decision="deploy", configuration=untried, trial=2)

    found = point_of(replace(run(), folder=tmp_path), point)

    assert (found.name, found.trial.number) == ("recommended", 2)
    assert found.rule.endswith(", without dirty_decay_ms=0")


@pytest.mark.parametrize("made_of", [None, 4])
def test_where_no_trial_with_numbers_is_behind_it_the_first_pick_is_the_point(
    tmp_path: Path, made_of: int | None
):
    untried = Configuration.of("jemalloc", {"narenas": 3}).key
    write_record(tmp_path, decision="deploy", configuration=untried, trial=made_of)
    more = Configuration.of("jemalloc", {"narenas": 3, "tcache": False})
    failed = failed_trial(4, more, Status.FAILED, "killed")
    found = replace(run(), folder=tmp_path, trials=(*run().trials, failed))

    assert point_of(found).name == first_name(found)
    with pytest.raises(SelectionError, match=r"no trial stands behind|trial 4 has no numbers"):
        point_of(found, "recommended")
