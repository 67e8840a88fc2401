"""What each setting of the winner does."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.doubles.program_runs import AsDeployed
from tuner.compare.journal import read_journal
from tuner.compare.plan import Step
from tuner.optimize.confirming.ablation import effects_of
from tuner.optimize.proof.duets import AT_ONCE
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import Reference, Runs, Sample, Tuned
from tuner.optimize.work import ABLATION_FILE, Watch, Work
from tuner.records import Configuration, Outcome

WINNER = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})


class Tunable(AsDeployed):
    """A program on which ``narenas`` saves a fifth of the memory, and ``tcache`` does nothing."""

    command = ("app",)

    def __init__(self, n_equal: int = 1000) -> None:
        self.n_runs = 0
        self.n_equal = n_equal
        """Rounds after which ``tcache`` saves a tenth of the CPU time, for the program warms up."""

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        del reference

        def run(step: Step[None]) -> Outcome[Sample]:
            self.n_runs += 1
            settings = dict(candidates[step.subject].settings)
            share = 0.8 if "narenas" in settings else 1.0
            # Equal CPU times but for noise that comes from the round and the place in it.
            noise = 1.0 + 0.001 * ((7 * step.round + 3 * step.position) % 5)
            if step.round >= self.n_equal and "tcache" not in settings:
                noise *= 1.1
            return Outcome.succeeded({MEAN: share * 1e6, PEAK: share * 2e6, CPU: noise * 1e9})

        return run


def work(folder: Path, seconds: float, tuned: Tunable) -> Work:
    request = Request(("app",), seconds, ("jemalloc",))
    return Work(folder, request, cast("Tuned", tuned), Watch(seconds, lambda: 0.0))


REFERENCE = Reference(("app",), {}, 0, None, None, wall_s=0.1, timeout_s=30.0)


def test_each_setting_is_shown_with_what_it_does(tmp_path: Path):
    narenas, tcache = effects_of(work(tmp_path, 100.0, Tunable()), REFERENCE, WINNER)

    assert (narenas.setting, tcache.setting) == ("narenas=2", "tcache=false")
    assert round(narenas.gains[MEAN].change, 3) == -0.2
    assert not narenas.is_needless
    assert round(tcache.gains[MEAN].change, 3) == 0.0
    assert tcache.is_needless


def test_a_setting_that_later_rounds_need_may_not_be_left_out(tmp_path: Path):
    _, tcache = effects_of(work(tmp_path, 100.0, Tunable(n_equal=8)), REFERENCE, WINNER)

    assert tcache.gains[CPU].change < -0.05
    assert not tcache.is_needless


def test_what_noise_makes_of_a_setting_keeps_it_not(tmp_path: Path):

    class Noisy(Tunable):
        def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
            steady = super().runner(candidates, reference)

            def run(step: Step[None]) -> Outcome[Sample]:
                found = dict(steady(step).good or {})
                slower = 1.06 if step.subject == "without tcache" else 1.0
                found[CPU] *= slower * random.Random(str(step.key)).gauss(1.0, 0.2)
                return Outcome.succeeded(found)

            return run

    narenas, tcache = effects_of(work(tmp_path, 100.0, Noisy()), REFERENCE, WINNER)

    assert tcache.gains[CPU].change < -0.01
    assert (narenas.seems_needless, tcache.seems_needless) == (False, True)


def test_a_round_runs_at_once_where_it_may(tmp_path: Path):

    class OnCores(Tunable):
        def on_core(self, core: int) -> Tunable:
            del core
            return self

        def stop(self) -> None:
            """Nothing to end."""

    values = {MEAN: 1e6, PEAK: 2e6, CPU: 1e8}
    busy = replace(REFERENCE, values=values, is_busy=True, n_threads=1)

    effects_of(work(tmp_path, 100.0, OnCores()), busy, WINNER)
    records = getattr(read_journal(tmp_path / ABLATION_FILE), "records", ())

    assert {one["values"][AT_ONCE] for one in records} == {3.0}


def test_it_keeps_to_the_time_that_is_left(tmp_path: Path):
    tuned = Tunable()

    assert effects_of(work(tmp_path, 0.5, tuned), REFERENCE, WINNER) == ()
    assert tuned.n_runs == 0
    assert effects_of(work(tmp_path, 100.0, tuned), REFERENCE, Configuration("jemalloc")) == ()


def test_it_keeps_to_it_where_runs_take_longer_than_the_first(tmp_path: Path):
    tuned = Tunable()
    slow = work(tmp_path, 100.0, tuned)
    slow.watch = Watch(100.0, lambda: float(tuned.n_runs))

    assert effects_of(slow, REFERENCE, WINNER)

    assert 40 <= tuned.n_runs <= 44, "two fifths of the time, to the end of a round"


def test_what_the_confirmation_showed_is_not_run_again(tmp_path: Path):
    tuned, winner = Tunable(), Configuration.of("glibc", {"arena_max": 2})

    assert effects_of(work(tmp_path, 100.0, tuned), REFERENCE, winner) == ()
    assert tuned.n_runs == 0
    steered = replace(REFERENCE, steered=("MALLOC_ARENA_MAX",))
    assert len(effects_of(work(tmp_path, 100.0, tuned), steered, winner)) == 1


def test_what_was_run_of_another_winner_says_nothing_of_this_one(tmp_path: Path):
    effects_of(work(tmp_path, 100.0, Tunable()), REFERENCE, WINNER)
    before = (tmp_path / ABLATION_FILE).read_bytes()
    other = Configuration.of("jemalloc", {"narenas": 4, "tcache": False})

    assert effects_of(work(tmp_path, 0.1, Tunable()), REFERENCE, other) == ()
    assert (tmp_path / ABLATION_FILE).read_bytes() == before
    assert len(effects_of(work(tmp_path, 100.0, Tunable()), REFERENCE, other)) == 2
    assert (tmp_path / "ablation-1.jsonl").read_bytes() == before


def test_what_is_said_of_a_setting_has_the_error_of_the_answer(tmp_path: Path):
    narenas, _ = effects_of(work(tmp_path, 5.0, Tunable()), REFERENCE, WINNER)

    assert narenas.gains[MEAN].bounds is not None  # of what repeats itself
    assert narenas.gains[CPU].bounds is None
