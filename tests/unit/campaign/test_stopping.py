"""Rules that end a campaign early: each alone, together, and in a campaign."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.synthetic import SyntheticEvaluator, measure, record, space, store_in
from tests.unit.campaign.test_runner import InterruptAfter
from tuner.campaign.progress import Listener
from tuner.campaign.recheck import n_missing
from tuner.campaign.runner import Runner
from tuner.campaign.stopping import Stopping, StopRules
from tuner.config import campaign_from_options
from tuner.errors import InterruptedCampaign
from tuner.measure.executor import LocalExecutor
from tuner.objectives import parse_constraint
from tuner.records import Configuration, Origin, Outcome, Trial
from tuner.store import FINISHED, Store

REFERENCE = (100.0, 100.0)


def trial(number: int, heap: float, cost: float) -> Trial:
    configuration = Configuration.of("glibc", {"pad": number} if number else {})
    measured = measure(Configuration("glibc")).with_values(mean_heap=heap, cost=cost)
    outcome = Outcome.succeeded(measured)
    return Trial(number, configuration, Origin.SEARCH, outcome, (heap, cost), 0.0)


def reason(rules: StopRules, trials: list[Trial], now_s: float = 0.0) -> str | None:
    times = iter([0.0, now_s])
    stopping = Stopping(rules, lambda: next(times))
    return stopping.reason(trials, REFERENCE, {"glibc": trials[0].measured}, "glibc")


def test_without_rules_nothing_stops():
    assert reason(StopRules(), [trial(0, 50.0, 50.0)], 1e9) is None


def test_time_is_that_of_the_call():
    rules = StopRules(time_ns=60 * 10**9)
    assert reason(rules, [trial(0, 50.0, 50.0)], 59.9) is None
    assert reason(rules, [trial(0, 50.0, 50.0)], 60.0) == "the time is over (1 min)"


def test_plateau_is_evaluations_without_gain():
    found = [trial(0, 50.0, 50.0), trial(1, 40.0, 50.0)]
    found += [trial(n, 60.0, 60.0) for n in range(2, 6)]
    rules = StopRules(plateau=4)
    assert reason(rules, found[:5]) is None
    stopped = reason(rules, found)
    assert stopped == "the last 4 evaluations gained less than 0.1% of hypervolume"
    assert reason(rules, [*found, trial(6, 39.0, 49.0)]) is None
    assert reason(rules, [*found, trial(6, 39.99, 50.0)]) is not None, "less than 0.1 %"
    assert reason(StopRules(plateau=1), [trial(0, 50.0, 50.0), trial(1, 60.0, 60.0)]) is None


def test_target_is_one_trial_with_all_limits():
    limits = tuple(map(parse_constraint, ("mean_heap <= 40", "cost <= default - 20 %")))
    rules = StopRules(target=limits)
    found = [trial(0, 50.0, 50.0), trial(1, 39.0, 50.0), trial(2, 50.0, 30.0)]
    assert reason(rules, found) is None
    stopped = reason(rules, [*found, trial(3, 40.0, 40.0)])
    assert stopped is not None
    assert stopped.startswith("the target is reached: trial 3 has mean_heap <= 40 and cost <=")


def test_a_target_that_hangs_on_a_failed_default_is_not_reached():
    rules = StopRules(target=(parse_constraint("cost <= own_default - 20 %"),))
    other = replace(trial(1, 39.0, 50.0), configuration=Configuration.of("jemalloc", {"pad": 1}))

    assert reason(rules, [trial(0, 50.0, 50.0), other]) is None
    assert reason(rules, [trial(0, 50.0, 50.0), other, trial(2, 50.0, 30.0)]) is not None


def run(
    folder: Path,
    rules: StopRules,
    listener: Listener | None = None,
    *,
    budget: int = 200,
    kind: type[LocalExecutor] = LocalExecutor,
) -> tuple[list[Trial], str | None]:
    with (
        store_in(folder, record(budget=budget)) as store,
        kind(SyntheticEvaluator(), [0]) as executor,
    ):
        runner = Runner(store, [space()], executor, listener or Listener(), stop=rules)
        trials = runner.run()
        assert store.campaign().status == FINISHED
        return trials, runner.stopped_because


def test_a_stopped_campaign_is_whole_and_goes_on_under_other_rules(tmp_path: Path):
    stopped, why = run(tmp_path / "run", StopRules(target=(parse_constraint("faults <= 1e9"),)))
    again, same = run(tmp_path / "run", StopRules(target=(parse_constraint("faults <= 1e9"),)))
    assert why == same
    assert why is not None
    assert [t.configuration for t in again] == [t.configuration for t in stopped]
    assert len(stopped) < 40
    whole, none = run(tmp_path / "run", StopRules())
    assert (len(whole), none) == (200, None)
    at_once, _ = run(tmp_path / "other", StopRules())
    assert [t.configuration for t in whole] == [t.configuration for t in at_once]


def test_a_rule_that_stops_earlier_than_before_leaves_out_nothing_that_was_measured(tmp_path: Path):
    whole, _ = run(tmp_path / "run", StopRules())
    everything, why = run(tmp_path / "run", StopRules(target=(parse_constraint("faults <= 1e9"),)))
    assert why is not None
    assert everything == whole


def test_a_rule_that_stops_earlier_than_an_interrupt_has_the_whole_front_measured_again(
    tmp_path: Path,
):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path / "run", StopRules(), InterruptAfter(150))

    trials, why = run(tmp_path / "run", StopRules(target=(parse_constraint("faults <= 1e9"),)))

    with Store.open(tmp_path / "run") as store:
        again = store.rechecks()
    assert why is not None
    assert len(trials) >= 150
    assert n_missing(record(budget=200), trials, again) == 0


def test_a_time_shorter_than_the_replay_gets_further_all_the_same(tmp_path: Path):
    rules = StopRules(time_ns=1)

    lengths = [len(run(tmp_path / "run", rules)[0]) for _ in range(3)]

    assert lengths[0] < lengths[1] < lengths[2]


def test_a_rule_that_holds_when_all_was_proposed_stopped_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ahead, one more is drawn while the last ones are evaluated."""

    class Ahead(LocalExecutor):
        runs_ahead = True

    def reason(_: Stopping, trials: Sequence[Trial], *__: object, **___: object) -> str | None:
        return "no gain" if len(trials) >= 39 else None

    monkeypatch.setattr(Stopping, "reason", reason)

    trials, why = run(tmp_path, StopRules(plateau=1), budget=40, kind=Ahead)

    assert (len(trials), why) == (40, None)


def test_campaign_files_name_the_rules():
    stop = {"time": "10 min", "plateau": 60, "target": ["cost <= default * 0.8"]}
    spec = campaign_from_options(trace="a.trace", allocators=["glibc"], stop=stop)
    assert (spec.stop.time_ns, spec.stop.plateau) == (600 * 10**9, 60)
    with pytest.raises(Exception, match="target"):
        campaign_from_options(trace="a.trace", allocators=["glibc"], stop={"target": ["fast"]})
