"""The winner goes without the settings that do nothing, where new runs confirm it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.doubles.clock import Clock
from tests.doubles.program_runs import AsDeployed
from tuner.compare.journal import read_journal
from tuner.compare.plan import Step
from tuner.optimize.answering.answer import write_answer
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirming.confirmation import Confirmed, Confirming
from tuner.optimize.confirming.held_out import HeldOutInput
from tuner.optimize.confirming.reduced import reduced
from tuner.optimize.proof.judgement import Gain, Rules, Standing
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned, label_of
from tuner.optimize.work import ABLATION_FILE, FEWER_FILE, REDUCED_FILE, Watch, Work
from tuner.records import Configuration, Outcome
from tuner.runs import CONFIRMATION_FILE


def needs_all(settings: Mapping[str, Any]) -> float:
    return 0.8 if len(settings) == 3 else 1.0


WINNER = Configuration.of("jemalloc", {"narenas": 2, "tcache": False, "dirty_decay_ms": 0})
REFERENCE = Reference(("app",), {}, 0, None, None, wall_s=0.1, timeout_s=30.0)
OTHER_INPUT = replace(REFERENCE, values={MEAN: 1e6, PEAK: 2e6, CPU: 1e9})

RULES = Rules()

Share = Callable[[Mapping[str, Any]], float]
"""From settings to the memory that the program uses with them, as a share of that as it is."""


def only_narenas(settings: Mapping[str, Any]) -> float:
    return 0.8 if "narenas" in settings else 1.0


def narenas_and_another(settings: Mapping[str, Any]) -> float:
    """One of the two others has to be there."""
    return 0.8 if "narenas" in settings and len(settings) > 1 else 1.0


def less_alone(settings: Mapping[str, Any]) -> float:
    """Half of the gain is gone without either of the two others."""
    return 0.9 if len(settings) == 1 else narenas_and_another(settings)


def anything_set(settings: Mapping[str, Any]) -> float:
    return 0.8 if settings else 1.0


class App(AsDeployed):
    """Its memory follows from the settings."""

    def __init__(
        self, share: Share, command: str = "app", cpu: Share = lambda _: 1.0, spread: float = 0.001
    ) -> None:
        self.command = (command,)
        self._share = share
        self._cpu = cpu
        self._spread = spread
        self.n_runs = 0
        self.slow = ""
        """Label of what takes longer by a twentieth."""

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        del reference

        def run(step: Step[None]) -> Outcome[Sample]:
            self.n_runs += 1
            known = candidates.get(step.subject)
            share = self._share(known.as_dict) if known else 1.0
            # Equal CPU times but for noise that comes from the round and the place in it.
            noise = math.exp(Random(f"{step.round} {step.position}").gauss(0.0, self._spread))
            noise *= self._cpu(known.as_dict) if known else 1.0
            noise *= 1.05 if step.subject == self.slow else 1.0
            return Outcome.succeeded({MEAN: share * 1e6, PEAK: share * 2e6, CPU: noise * 1e9})

        return run


def confirmed(
    folder: Path,
    share: Share,
    held_out: Share | None = None,
    *,
    seconds: float = 100.0,
    winner: Configuration = WINNER,
    cpu: Share = lambda _: 1.0,
    spread: float = 0.001,
    rules: Rules = RULES,
    forms: Sequence[Configuration] = (),
) -> tuple[Confirmed, App]:
    """Confirm the winner, then reduce it."""
    app = App(share, cpu=cpu, spread=spread)
    work = work_of(folder, app, seconds, rules)
    work.trials[label_of(winner)] = 7
    other = HeldOutInput(cast("Tuned", App(held_out, "other")), OTHER_INPUT) if held_out else None
    confirming = Confirming(work, REFERENCE, other)
    first = confirming.confirm({label_of(winner): winner})
    found = reduced(work, REFERENCE, confirming, first, lambda _: forms)
    assert found.best is not None
    assert work.trials[found.best.label] == 7
    return found, app


def test_settings_that_do_nothing_are_not_deployed(tmp_path: Path):
    found, _ = confirmed(tmp_path, only_narenas)

    assert found.best is not None
    assert found.best.label == "jemalloc narenas=2"
    assert found.chosen["jemalloc narenas=2"] == Configuration.of("jemalloc", {"narenas": 2})
    assert found.best.n_rounds > 0
    assert set(found.left_out) == {"dirty_decay_ms=0", "tcache=false"}
    assert found.traded == {}
    assert [one.setting for one in found.effects] == ["narenas=2"]
    assert label_of(WINNER) in found.standings


@pytest.mark.parametrize(("spread", "keeps_all"), [(0.001, True), (0.05, False)])
def test_what_runs_do_not_tell_apart_keeps_no_setting(
    tmp_path: Path, spread: float, *, keeps_all: bool
):
    found, _ = confirmed(
        tmp_path,
        only_narenas,
        cpu=lambda settings: 0.985 if len(settings) == 3 else 1.0,
        spread=spread,
        seconds=20.0,
    )

    assert found.best is not None
    assert (found.chosen[found.best.label] == WINNER) is keeps_all


def test_what_may_become_worse_is_not_given_for_fewer_settings(tmp_path: Path):
    found, _ = confirmed(
        tmp_path,
        only_narenas,
        cpu=lambda settings: 1.0 if "tcache" in settings else 1.1,
        rules=Rules(limits=((CPU, 0.2),), strict=(CPU,)),
    )

    assert found.left_out == ["dirty_decay_ms=0"]


def work_of(folder: Path, app: App, seconds: float, rules: Rules = RULES) -> Work:
    request = Request(("app",), seconds, ("jemalloc",), rules)
    return Work(folder, request, cast("Tuned", app), Watch(seconds, Clock(step_s=0.05)))


def reduced_of_two(
    folder: Path, app: App, change: Callable[[Standing], Standing], seconds: float = 30.0
) -> Confirmed:
    """Reduce a winner of two settings, once what is proven of it was changed."""
    winner = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})
    work = work_of(folder, app, seconds)
    confirming = Confirming(work, REFERENCE, None)
    first = confirming.confirm({label_of(winner): winner})
    assert first.best is not None
    return reduced(work, REFERENCE, confirming, replace(first, best=change(first.best)))


def test_rounds_beside_the_winner_say_more_than_those_of_another_time(tmp_path: Path):

    def lucky(best: Standing) -> Standing:
        return replace(best, gains={**best.gains, CPU: replace(best.gains[CPU], middle=0.1)})

    found = reduced_of_two(tmp_path, App(only_narenas), lucky)

    assert found.left_out == ["tcache=false"]


def faster(best: Standing) -> Standing:
    """Return a winner of which twelve rounds prove a gain in CPU time, too."""
    gains = {**best.gains, CPU: Gain(0.045, 0.039, 0.05)}
    return replace(best, gains=gains, better=(MEAN, CPU), n_rounds=12)


@pytest.mark.parametrize(("cpu", "n_rounds"), [(1.0, 7), (0.99, 24)])
def test_what_will_not_be_proven_of_less_ends_long_before_the_time(
    tmp_path: Path, cpu: float, n_rounds: int
):
    app = App(only_narenas, cpu=lambda settings: cpu if settings else 1.0, spread=0.003)

    found = reduced_of_two(tmp_path, app, faster, 1000.0)

    content = read_journal(tmp_path / REDUCED_FILE)
    assert found.left_out == ()
    assert content is not None
    assert len(content.records) == 2 * n_rounds


@pytest.mark.parametrize(("cpu", "left_out"), [(0.96, ["tcache=false"]), (1.0, ())])
def test_what_is_proven_of_the_winner_is_proven_of_less_too_or_it_stays(
    tmp_path: Path, cpu: float, left_out: Sequence[str]
):
    app = App(only_narenas, cpu=lambda settings: cpu if settings else 1.0, spread=0.03)

    found = reduced_of_two(tmp_path, app, faster)

    assert found.best is not None
    assert (found.left_out, found.best.better) == (left_out, (MEAN, CPU))


@pytest.mark.parametrize("share", [narenas_and_another, less_alone])
def test_what_is_needless_alone_but_not_together_is_left_out_in_part(tmp_path: Path, share: Share):
    found, _ = confirmed(tmp_path, share)

    assert found.best is not None
    assert found.best.label in {
        "jemalloc dirty_decay_ms=0 narenas=2",
        "jemalloc narenas=2 tcache=false",
    }
    assert len(found.left_out) == 1
    assert len(found.effects) == 2


NARENAS = Configuration.of("jemalloc", {"narenas": 2})


def test_what_may_stand_for_the_winner_by_what_is_known_comes_first(tmp_path: Path):
    found, _ = confirmed(tmp_path, only_narenas, forms=[WINNER, NARENAS])
    again, same = confirmed(tmp_path, only_narenas, forms=[])

    assert found.best is not None
    assert found.chosen[found.best.label] == NARENAS
    assert set(found.left_out) == {"dirty_decay_ms=0", "tcache=false"}
    assert [one.setting for one in found.effects] == ["narenas=2"]
    assert candidates_in(tmp_path / FEWER_FILE) == ["jemalloc narenas=2"]
    assert not any("tcache" in one for one in candidates_in(tmp_path / ABLATION_FILE))
    assert again.chosen == found.chosen
    assert same.n_runs == 0


@pytest.mark.parametrize("forms", [[NARENAS], [Configuration("glibc")]], ids=["less", "another"])
def test_what_does_not_do_as_well_does_not_take_its_place(
    tmp_path: Path, forms: list[Configuration]
):
    found, _ = confirmed(tmp_path, less_alone, forms=forms)

    assert found.best is not None
    assert len(found.chosen[found.best.label].settings) == 2, "what its settings do counts then"


def test_several_steps_together_cost_no_more_than_one_may(tmp_path: Path):
    def share(settings: Mapping[str, Any]) -> float:
        without = {"tcache": 0.025, "dirty_decay_ms": 0.027} if "narenas" in settings else {}
        lost = sum(more for name, more in without.items() if name not in settings)
        return (0.8 if "narenas" in settings else 1.0) + lost

    part = WINNER.without("tcache")
    rules = Rules(least=0.035)

    found, _ = confirmed(tmp_path, share, forms=[part], rules=rules, seconds=300.0)

    assert found.best is not None
    assert found.chosen[found.best.label] == part, "a fifth of the gain is less than both"


@pytest.mark.parametrize(("saves", "is_left_out"), [(0.007, True), (0.015, False)])
def test_settings_that_save_less_than_counts_each_are_left_out_together(
    tmp_path: Path, saves: float, *, is_left_out: bool
):
    def share(settings: Mapping[str, Any]) -> float:
        return only_narenas(settings) * (1.0 + saves) ** (3 - len(settings))

    found, _ = confirmed(tmp_path, share)

    assert found.best is not None
    assert (found.best.label == "jemalloc narenas=2") is is_left_out
    if is_left_out:
        assert found.traded[MEAN].change == pytest.approx(-0.2, abs=0.001)


@pytest.mark.parametrize(("saves", "is_left_out"), [(0.03, True), (0.2, False)])
def test_a_setting_that_takes_back_what_another_one_gains_is_left_out(
    tmp_path: Path, saves: float, *, is_left_out: bool
):
    winner = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})

    def share(settings: Mapping[str, Any]) -> float:
        return (0.8 if "narenas" in settings else 1.0) - saves * ("tcache" in settings)

    def cpu(settings: Mapping[str, Any]) -> float:
        return (0.9 if "narenas" in settings else 1.0) + 0.1 * ("tcache" in settings)

    found, _ = confirmed(tmp_path, share, winner=winner, cpu=cpu)

    assert found.best is not None
    assert found.left_out == (["tcache=false"] if is_left_out else ())
    kept = {MEAN: -0.23, PEAK: -0.23, CPU: 0.0} if is_left_out else {}
    assert {name: gain.change for name, gain in found.traded.items()} == pytest.approx(
        kept, abs=0.002
    )


def test_the_one_setting_that_matters_most_is_tried_alone(tmp_path: Path):

    def share(settings: Mapping[str, Any]) -> float:
        return only_narenas(settings) + (0.1 if len(settings) == 2 else 0.0)

    found, _ = confirmed(tmp_path, share)

    assert found.best is not None
    assert found.best.label == "jemalloc narenas=2"
    content = read_journal(tmp_path / REDUCED_FILE)
    assert content is not None
    assert {one["subject"] for one in content.records} == {AS_IS, "jemalloc narenas=2"}


def test_what_gains_too_much_to_go_costs_no_rounds(tmp_path: Path):
    """One of two settings saves memory and costs time, the other one does nothing."""
    winner = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})

    found, _ = confirmed(
        tmp_path, only_narenas, winner=winner, cpu=lambda one: 0.93 if "narenas" in one else 0.9
    )

    assert found.left_out == ["tcache=false"]
    assert candidates_in(tmp_path / REDUCED_FILE) == ["jemalloc narenas=2"]


def test_a_time_in_doubt_does_not_put_off_what_saves_memory(tmp_path: Path):
    """A setting takes back memory, another one saves time, which varies by more than that."""

    def share(settings: Mapping[str, Any]) -> float:
        return only_narenas(settings) + (0.02 if "tcache" in settings else 0.0)

    def cpu(settings: Mapping[str, Any]) -> float:
        return 1.0 if "dirty_decay_ms" in settings else 1.1

    rules = Rules(guards=(MEAN, PEAK))
    confirmed(tmp_path, share, cpu=cpu, spread=0.1, rules=rules, seconds=30.0)

    content = read_journal(tmp_path / REDUCED_FILE)
    assert content is not None
    assert content.records[0]["subject"] in {AS_IS, "jemalloc narenas=2"}
    assert content.records[1]["subject"] in {AS_IS, "jemalloc narenas=2"}


def test_a_winner_that_needs_every_setting_stays(tmp_path: Path):
    found, _ = confirmed(tmp_path, needs_all)

    assert found.best is not None
    assert found.best.label == label_of(WINNER)
    assert found.left_out == ()
    assert len(found.effects) == 3


def test_the_program_as_it_is_is_not_run_as_a_setting(tmp_path: Path):
    winner = Configuration.of("glibc", {"tcache_max": 888, "arena_max": 1})

    found, _ = confirmed(tmp_path, anything_set, winner=winner)

    assert found.best is not None
    assert found.best.label in {"glibc tcache_max=888", "glibc arena_max=1"}
    assert "glibc" not in found.standings


def test_the_held_out_input_has_a_say(tmp_path: Path):
    def bad_without_all(settings: Mapping[str, Any]) -> float:
        return 1.5 if len(settings) < 3 else 0.8

    def bad_alone(settings: Mapping[str, Any]) -> float:
        return 1.5 if len(settings) == 1 else 0.8

    fair, _ = confirmed(tmp_path / "fair", only_narenas, bad_alone)
    bad, _ = confirmed(tmp_path / "bad", only_narenas, bad_without_all)

    assert fair.held_out is not None
    assert not fair.deployed, "it is judged itself"
    assert len(fair.effects) == 2, "the next larger one is held out, too"
    assert "jemalloc narenas=2" in fair.held_back.keys() & fair.standings.keys(), "it is shown"
    assert bad.best is not None
    assert bad.best.label == label_of(WINNER)
    assert len(bad.effects) == 3
    assert not any(one.is_needless for one in bad.effects), "they were said to be"


def test_what_was_deployed_is_judged_on_a_held_out_input_that_comes_later(tmp_path: Path):
    def bad_with_all(settings: Mapping[str, Any]) -> float:
        return 1.5 if len(settings) == 3 else 0.8

    before, app = confirmed(tmp_path, only_narenas)
    write_answer(
        tmp_path, Conclusion(work_of(tmp_path, app, 100.0), OTHER_INPUT).conclude(None, before)
    )

    found, _ = confirmed(tmp_path, only_narenas, bad_with_all)

    assert found.best is not None
    assert found.best.label == "jemalloc narenas=2"
    assert found.is_good
    assert found.held_out is not None
    assert found.held_out.standing.label == "jemalloc narenas=2"
    assert not found.held_back


def test_a_setting_that_rounds_show_to_be_needed_may_not_be_left_out(tmp_path: Path):
    """Beside the winner it seems needless, but without it the program is slower than as it is."""
    winner = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})
    app = App(only_narenas)
    work = work_of(tmp_path, app, 100.0)
    confirming = Confirming(work, REFERENCE, None)
    first = confirming.confirm({label_of(winner): winner})
    app.slow = label_of(NARENAS)

    found = reduced(work, REFERENCE, confirming, first)
    (tmp_path / REDUCED_FILE).unlink()
    work.watch.end()
    without_time = reduced(work, REFERENCE, confirming, first)

    assert found.best is without_time.best is first.best
    both = [{one.name: one.is_needless for one in each.effects} for each in (found, without_time)]
    assert [one["tcache"] for one in both] == [False, True]


def test_without_time_the_winner_stays(tmp_path: Path):
    found, app = confirmed(tmp_path, only_narenas, seconds=4.0)

    assert found.best is not None
    assert found.best.label == label_of(WINNER)
    assert found.left_out == ()
    assert not (tmp_path / REDUCED_FILE).exists()
    assert app.n_runs > 0


def test_what_was_run_is_not_run_again(tmp_path: Path):
    before, _ = confirmed(tmp_path, only_narenas)

    after, app = confirmed(tmp_path, only_narenas, seconds=0.1)

    assert (after.best, after.standings) == (before.best, before.standings)
    assert (after.effects, after.left_out) == (list(before.effects), list(before.left_out))
    assert app.n_runs == 0


def candidates_in(path: Path) -> list[str]:
    content = read_journal(path)
    assert content is not None
    return list(content.header["candidates"])


def test_another_winner_is_reduced_anew(tmp_path: Path):
    shared = ("narenas", "tcache", "dirty_decay_ms")
    other = Configuration.of("jemalloc", {"narenas": 2, "retain": False, "abort": True})
    confirmed(tmp_path, only_narenas, only_narenas)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    (tmp_path / CONFIRMATION_FILE).unlink()  # both were candidates of it

    found, _ = confirmed(tmp_path, only_narenas, only_narenas, winner=other)

    assert found.best is not None
    assert found.best.label == "jemalloc narenas=2"
    assert set(found.left_out) == {"abort=true", "retain=false"}
    for name in (ABLATION_FILE, REDUCED_FILE):
        assert (tmp_path / name.replace(".jsonl", "-1.jsonl")).read_bytes() == before[name]
    assert len(candidates_in(tmp_path / REDUCED_FILE)) > 1, "those that the one before left it, too"
    assert not any(name in " ".join(candidates_in(tmp_path / REDUCED_FILE)) for name in shared[1:])
