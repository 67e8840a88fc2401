"""The tune loop on invented allocators: order, budget, resume, extension, trouble."""

import contextlib
import functools
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.doubles import synthetic
from tests.doubles.machine import MACHINE
from tests.doubles.strategies import IN_EITHER_SEARCH, INSTALLED
from tests.doubles.synthetic import SyntheticEvaluator, run
from tuner.campaign.identity import differences
from tuner.campaign.progress import Listener
from tuner.campaign.recheck import n_missing
from tuner.campaign.runner import Runner
from tuner.campaign.screening import Expected, carried_over, most_promising
from tuner.campaign.setup import make_spaces
from tuner.emulation import EmulationOptions
from tuner.errors import (
    InterruptedCampaign,
    MissingToolError,
    ProgramError,
    RepeatabilityError,
    SpecError,
    StoreError,
)
from tuner.front.dominance import front, hypervolume, points_of
from tuner.machine import Machine
from tuner.measure.evaluation import MAY_NOT_REPEAT, Evaluation
from tuner.measure.executor import Attempts, LocalExecutor
from tuner.objectives import FAILED_VIOLATION
from tuner.records import Configuration, Measurement, Origin, Outcome, Status, Trial
from tuner.store import (
    FINISHED,
    INTERRUPTED,
    CampaignRecord,
    ClusterMachine,
    Incident,
    Recheck,
    ScreeningRecord,
    Store,
    WorkloadRecord,
)

DEFAULTS = [Configuration("glibc"), Configuration("jemalloc")]


def comparable(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials without what may differ from run to run."""

    def plain(outcome: Outcome[Measurement]) -> Outcome[Measurement]:
        if outcome.values is None:
            return outcome
        return replace(outcome, values=outcome.values.with_values(wall=0))

    return [replace(trial, outcome=plain(trial.outcome)) for trial in trials]


def stored(folder: Path) -> tuple[list[Trial], list[Recheck], CampaignRecord]:
    with Store.open(folder) as store:
        return store.trials(), store.rechecks(), store.campaign()


def incidents_of(folder: Path) -> list[Incident]:
    with Store.open(folder) as store:
        return store.incidents()


Whole = Callable[..., list[Trial]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Return a function to what an undisturbed campaign of a strategy and a search finds."""

    @functools.cache
    def find(strategy: str, search: str = "joint") -> list[Trial]:
        record = synthetic.record(strategy=strategy, search=search)
        return comparable(run(tmp_path_factory.mktemp("whole"), record))

    return find


class InterruptAfter(Listener):
    """Presses Ctrl-C after some trials."""

    def __init__(self, n_trials: int, n_presses: int = 1) -> None:
        self.left = n_trials
        self.n_presses = n_presses
        self.n_stopping = 0

    def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
        self.left -= is_new
        if self.left == 0:
            for _ in range(self.n_presses):
                os.kill(os.getpid(), signal.SIGINT)

    def stopping(self) -> None:
        self.n_stopping += 1


# Order and budget


def test_defaults_come_first_the_baseline_before_all_then_seeds(tmp_path: Path):
    seeds = (Configuration.of("jemalloc", {"decay": 0}), Configuration.of("glibc", {"arenas": 1}))
    record = synthetic.record(seed_configurations=seeds)
    allocators = dict(reversed(list(record.allocators.items())))

    trials = run(tmp_path, replace(record, allocators=allocators))

    assert [*DEFAULTS, *seeds] == [trial.configuration for trial in trials[:4]]
    expected = [Origin.DEFAULT] * 2 + [Origin.SEED] * 2 + [Origin.SEARCH] * 56
    assert expected == [trial.origin for trial in trials]


@pytest.mark.parametrize(("strategy", "search"), IN_EITHER_SEARCH)
def test_the_budget_counts_distinct_configurations(tmp_path: Path, strategy: str, search: str):
    evaluator = SyntheticEvaluator()

    trials = run(tmp_path, synthetic.record(strategy=strategy, search=search), evaluator)

    assert list(range(60)) == [trial.number for trial in trials]
    assert len({trial.configuration for trial in trials}) == 60
    n_rechecks = len(stored(tmp_path)[1])
    assert 60 + n_rechecks == len(evaluator.evaluated)


def test_the_store_holds_what_the_run_returns(tmp_path: Path):
    trials = run(tmp_path)

    found, _, record = stored(tmp_path)
    assert trials == found
    assert record.status == FINISHED
    assert record.reference is not None


def test_separate_studies_share_the_budget(tmp_path: Path):
    trials = run(tmp_path, synthetic.record(search="separate", budget=100))

    n_glibc = sum(trial.configuration.allocator == "glibc" for trial in trials)
    assert 34 <= n_glibc <= 66


def test_the_number_of_workers_changes_nothing(tmp_path: Path):
    alone = run(tmp_path / "1", cpus=[0])
    together = run(tmp_path / "4", evaluator=SyntheticEvaluator(delay_s=0.001), cpus=[0, 1, 2, 3])

    assert comparable(alone) == comparable(together)


def test_an_exhausted_space_ends_the_campaign(tmp_path: Path):
    parts = {"glibc": synthetic.PARTS["glibc"][:1], "jemalloc": synthetic.PARTS["jemalloc"][:1]}

    trials = run(tmp_path, synthetic.record(budget=500), parts=parts)

    assert len(trials) == 7 + 7
    assert stored(tmp_path)[2].status == FINISHED


def test_an_exhausted_study_leaves_its_turns_to_the_others(tmp_path: Path):
    parts = {"glibc": synthetic.PARTS["glibc"][:1], "jemalloc": synthetic.PARTS["jemalloc"]}

    trials = run(tmp_path, synthetic.record(search="separate"), parts=parts)

    assert len(trials) == 60
    assert sum(trial.configuration.allocator == "glibc" for trial in trials) == 7


def test_a_budget_below_the_defaults_is_refused(tmp_path: Path):
    twice = tuple(DEFAULTS)
    with pytest.raises(SpecError, match=r"evaluations = 1: .* alone are 2"):
        run(tmp_path, synthetic.record(budget=1, seed_configurations=twice))


# Constraints and failures


def test_limits_relative_to_the_default_are_taken_from_the_baseline(tmp_path: Path):
    trials = run(tmp_path, synthetic.record(constraints=("cost <= default * 0.9",)))

    limit = 0.9 * (trials[0].objectives or ())[1]
    for trial in trials:
        cost = (trial.objectives or ())[1]
        assert trial.violation == pytest.approx(max(0.0, cost / limit - 1.0))
    assert not trials[0].is_feasible
    assert any(trial.is_feasible for trial in trials)


def test_limits_relative_to_the_own_default_differ_by_allocator(tmp_path: Path):
    trials = run(tmp_path, synthetic.record(constraints=("mean_heap <= own_default * 0.9",)))

    defaults = {t.configuration.allocator: t for t in trials if t.configuration.is_default}
    for trial in trials:
        limit = 0.9 * (defaults[trial.configuration.allocator].objectives or ())[0]
        heap = (trial.objectives or ())[0]
        assert trial.violation == pytest.approx(max(0.0, heap / limit - 1.0))


@pytest.mark.parametrize("status", [Status.REFUSED, Status.FAILED, Status.TIMED_OUT])
def test_a_failed_configuration_is_a_trial_with_its_reason(tmp_path: Path, status: Status):
    def fails(configuration: Configuration) -> Status | None:
        return status if configuration.as_dict.get("decay") == -1 else None

    trials = run(tmp_path, synthetic.record(budget=200), SyntheticEvaluator(fails=fails))

    failed = [trial for trial in trials if trial.status is status]
    assert failed
    for trial in failed:
        assert trial.configuration.as_dict["decay"] == -1
        assert trial.reason == f"made to be {status.value}"
        assert (trial.measurement, trial.objectives) == (None, None)
        assert trial.violation == FAILED_VIOLATION


def test_a_failing_baseline_stops_everything_and_is_measured_again(tmp_path: Path):
    def late(configuration: Configuration) -> Status | None:
        return Status.TIMED_OUT if configuration == DEFAULTS[0] else None

    with pytest.raises(ProgramError, match=r"the default of glibc timed out: made to be timed_out"):
        run(tmp_path, evaluator=SyntheticEvaluator(fails=late))
    assert stored(tmp_path)[2].status == INTERRUPTED

    trials = run(tmp_path)

    assert trials[0].status is Status.OK
    assert stored(tmp_path)[0][0] == trials[0]
    assert "made to be timed_out" in [incident.reason for incident in incidents_of(tmp_path)]


def test_another_failing_default_does_not(tmp_path: Path):
    def fails(configuration: Configuration) -> Status | None:
        return Status.FAILED if configuration == DEFAULTS[1] else None

    trials = run(
        tmp_path,
        synthetic.record(constraints=("mean_heap <= own_default",)),
        SyntheticEvaluator(fails=fails),
    )

    assert trials[1].status is Status.FAILED
    assert len(trials) == 60


def test_a_campaign_in_which_nearly_all_fails_stops(tmp_path: Path):
    def fails(configuration: Configuration) -> Status | None:
        return None if configuration.is_default else Status.REFUSED

    with pytest.raises(ProgramError, match=r"30 of 32 trials did not succeed, 30 of them with"):
        run(tmp_path, evaluator=SyntheticEvaluator(fails=fails))
    assert len(stored(tmp_path)[0]) == 32


def test_a_failure_of_the_machine_is_an_incident_and_not_a_trial(tmp_path: Path):
    evaluator = SyntheticEvaluator(breaks={DEFAULTS[1].key: 2})

    trials = run(tmp_path, evaluator=evaluator)

    assert all(trial.status is Status.OK for trial in trials)
    found = [(i.attempt, i.configuration) for i in incidents_of(tmp_path)]
    assert [(1, DEFAULTS[1]), (2, DEFAULTS[1])] == found


def test_a_machine_that_keeps_failing_stops_the_campaign_and_loses_nothing(tmp_path: Path):
    expected = run(tmp_path / "whole")
    broken = expected[40].configuration
    evaluator = SyntheticEvaluator(breaks={broken.key: 100})

    with pytest.raises(ProgramError, match=r"evaluating .*: out of processes"):
        run(tmp_path / "run", evaluator=evaluator)

    kept = stored(tmp_path / "run")[0]
    assert 32 <= len(kept) < 60
    assert broken not in [trial.configuration for trial in kept]
    assert comparable(expected) == comparable(run(tmp_path / "run"))


def test_an_objective_that_cannot_be_measured_stops_at_the_first_trial(tmp_path: Path):
    evaluator = SyntheticEvaluator()
    with pytest.raises(MissingToolError, match=r"p99_latency: .*measured no latency"):
        run(tmp_path, synthetic.record(objectives=("mean_heap", "p99_latency")), evaluator)

    assert DEFAULTS[:1] == evaluator.evaluated


# Resume and extension


@pytest.mark.parametrize(
    ("strategy", "n_before"),
    [("auto", n) for n in (1, 2, 3, 17, 55)] + [(strategy, 18) for strategy in INSTALLED],
)
def test_an_interrupted_campaign_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, whole: Whole, strategy: str, n_before: int
):
    record = synthetic.record(strategy=strategy)
    with pytest.raises(InterruptedCampaign, match="the same command goes on from there"):
        run(tmp_path, record, listener=InterruptAfter(n_before))
    kept, _, stopped = stored(tmp_path)
    evaluator = SyntheticEvaluator()

    again = run(tmp_path, record, evaluator)

    assert n_before <= len(kept) <= 60
    assert stopped.status == INTERRUPTED
    assert whole(strategy) == comparable(again)
    assert {t.configuration for t in kept}.isdisjoint(evaluator.evaluated[: 60 - len(kept)])
    assert stored(tmp_path)[2].status == FINISHED


def test_a_finished_campaign_measures_nothing_again(tmp_path: Path):
    first = run(tmp_path)
    evaluator = SyntheticEvaluator()

    assert first == run(tmp_path, evaluator=evaluator)
    assert evaluator.evaluated == []


@pytest.mark.parametrize(("strategy", "search"), IN_EITHER_SEARCH)
def test_extending_equals_a_larger_budget_from_the_start(
    tmp_path: Path, whole: Whole, strategy: str, search: str
):
    large = synthetic.record(strategy=strategy, search=search)
    run(tmp_path, replace(large, budget=30))

    assert whole(strategy, search) == comparable(run(tmp_path, large))


def test_a_search_that_replays_differently_is_not_mixed_with_the_old(tmp_path: Path):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path, listener=InterruptAfter(30))
    with Store.open(tmp_path, writable=True) as store:
        store._connection.execute("UPDATE campaign SET seed = 2")  # noqa: SLF001 - as a new library would

    with pytest.raises(StoreError, match=r"trial 2 is .* now proposes .*a library has changed"):
        run(tmp_path)
    assert len(stored(tmp_path)[0]) >= 30


# Interrupts


def test_the_first_ctrl_c_keeps_what_is_running(tmp_path: Path):
    listener = InterruptAfter(20)
    evaluator = SyntheticEvaluator(delay_s=0.002)

    with pytest.raises(InterruptedCampaign, match="every trial that ended is kept"):
        run(tmp_path, evaluator=evaluator, listener=listener)

    assert listener.n_stopping == 1
    assert len(evaluator.evaluated) == len(stored(tmp_path)[0])


def test_the_second_ctrl_c_ends_at_once(tmp_path: Path):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path, listener=InterruptAfter(20, n_presses=2))

    assert stored(tmp_path)[2].status == INTERRUPTED


def test_ctrl_c_works_as_usual_afterwards(tmp_path: Path):
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]

    run(tmp_path)

    assert before == [signal.getsignal(number) for number in numbers]


# Recheck


@dataclass
class Drifting(SyntheticEvaluator):
    """Counts one fault more whenever a configuration comes again, or always."""

    always: bool = False

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        more = int(self.always or configuration in self.evaluated)
        super().evaluate(configuration, cpu)
        numbers = synthetic.measure(configuration)
        return Outcome.succeeded(numbers.with_values(faults=numbers.value("faults") + more))


def test_baseline_and_front_are_measured_again(tmp_path: Path):
    trials = run(tmp_path, synthetic.record(recheck_share=0.5))

    rechecks = stored(tmp_path)[1]
    expected = {0, *(trial.number for trial in front(trials))}
    assert expected == {recheck.trial for recheck in rechecks}
    assert all(recheck.repeat == 1 for recheck in rechecks)


def test_the_quota_keeps_the_members_that_matter_most(tmp_path: Path):
    trials = run(tmp_path, synthetic.record(recheck_share=0.05))

    chosen = {recheck.trial for recheck in stored(tmp_path)[1]}
    assert len(front(trials)) > 3
    assert len(chosen) == 3
    assert chosen <= {0, *(trial.number for trial in front(trials))}


def test_one_objective_with_a_quota_for_the_baseline_alone(tmp_path: Path):
    run(tmp_path, synthetic.record(objectives=("mean_heap",), budget=10, recheck_share=0.1))

    assert {0} == {recheck.trial for recheck in stored(tmp_path)[1]}


def test_no_share_no_recheck(tmp_path: Path):
    run(tmp_path, synthetic.record(recheck_share=0.0))

    assert stored(tmp_path)[1] == []


def check_whole(folder: Path) -> None:
    trials, rechecks, record = stored(folder)
    assert n_missing(record, trials, rechecks) == 0


def check_drifted(folder: Path) -> None:
    trials, rechecks, record = stored(folder)
    assert record.status == FINISHED
    assert rechecks[0].measurement is not None
    assert trials[0].measurement is not None
    assert trials[0].measurement.value("faults") + 1 == rechecks[0].measurement.value("faults")


def test_other_numbers_for_the_same_input_are_a_defect_that_names_both(tmp_path: Path):
    with pytest.raises(RepeatabilityError, match=r"trial 0 \(glibc default\): faults was \d+, is"):
        run(tmp_path, evaluator=Drifting())

    check_drifted(tmp_path)


def test_other_numbers_at_random_addresses_are_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tuner.campaign.runner.can_fix_addresses", lambda: False)
    run(tmp_path, evaluator=Drifting())

    reasons = {incident.reason for incident in incidents_of(tmp_path)}
    assert len(reasons) == 1
    assert "its machine may not fix addresses" in reasons.pop()


@pytest.mark.parametrize("odd", [1, 2], ids=["the trial", "its re-measurement"])
def test_where_two_of_three_agree_the_third_is_an_incident(tmp_path: Path, odd: int):
    class OddOnce(SyntheticEvaluator):
        """The default of glibc has a fault more in one of its runs."""

        n_runs = 0

        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            found = super().evaluate(configuration, cpu)
            if configuration == Configuration("glibc"):
                self.n_runs += 1
                if self.n_runs == odd and found.values is not None:
                    more = found.values.with_values(faults=found.values.value("faults") + 1)
                    return replace(found, values=more)
            return found

    run(tmp_path, evaluator=OddOnce())
    run(tmp_path, evaluator=Drifting())  # nothing is left to measure

    (incident,) = incidents_of(tmp_path)
    assert "a third run agrees with one of them" in incident.reason
    assert "faults was" in incident.reason


def test_other_numbers_after_an_incident_of_the_kernel_are_no_defect(tmp_path: Path):
    class Short(Drifting):
        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            found = super().evaluate(configuration, cpu)
            return replace(found, incidents=(f"no huge pages; {MAY_NOT_REPEAT}",))

    run(tmp_path, evaluator=Short())

    check_drifted(tmp_path)


def test_free_running_numbers_may_scatter_and_are_repeated(tmp_path: Path):
    record = synthetic.record(emulation=EmulationOptions(threads="free"), recheck_share=0.5)

    run(tmp_path, record, Drifting())

    rechecks = stored(tmp_path)[1]
    assert len(rechecks) == 30
    assert max(recheck.repeat for recheck in rechecks) > 1


class OnTheSecond(LocalExecutor):
    """Says that the second of three machines evaluates."""

    machines: Mapping[str, ClusterMachine] = MappingProxyType(
        {
            name: ClusterMachine(name, MACHINE, synthetic.measure(DEFAULTS[0]))
            for name in ("first", "second", "third")
        }
    )

    def run(self, *words: Any) -> Iterator[Attempts]:
        for ended in super().run(*words):
            yield replace(ended, machine="second")


def drift_on(
    machine: Machine,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: Listener | None = None,
) -> set[str]:
    """Run on a machine that measures other numbers again; return the incidents' reasons."""
    second = replace(OnTheSecond.machines["second"], facts=machine)
    monkeypatch.setattr(OnTheSecond, "machines", {"second": second})
    run(folder, evaluator=Drifting(), kind=OnTheSecond, listener=listener)
    return {incident.reason for incident in incidents_of(folder)}


CONTAINER = replace(MACHINE, seccomp=2)


@pytest.mark.parametrize("machine", [CONTAINER, replace(MACHINE, fixes_addresses=False)])
def test_other_numbers_in_a_container_of_the_cluster_are_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine
):
    (reason,) = drift_on(machine, tmp_path, monkeypatch)
    assert "its machine may not fix addresses" in reason


def test_a_filter_that_lets_fix_addresses_excuses_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(RepeatabilityError):
        drift_on(replace(CONTAINER, fixes_addresses=True), tmp_path, monkeypatch)


def test_what_a_container_of_the_cluster_measured_is_judged_by_it_when_finished_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class InterruptAtThird(Listener):
        n_ended = 0

        def recheck_ended(self, recheck: Recheck) -> None:
            self.n_ended += 1
            if self.n_ended == 3:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedCampaign):
        drift_on(CONTAINER, tmp_path, monkeypatch, InterruptAtThird())
    monkeypatch.setattr("tuner.campaign.runner.can_fix_addresses", lambda: True)
    run(tmp_path)

    (reason,) = {incident.reason for incident in incidents_of(tmp_path)}
    assert "its machine may not fix addresses" in reason


def test_a_third_run_on_another_machine_proves_no_defect(tmp_path: Path):
    runs = Counter[Configuration]()

    class Growing(SyntheticEvaluator):
        """The default of glibc has a fault more in each of its runs."""

        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            runs[configuration] += 1
            found = super().evaluate(configuration, cpu)
            if configuration != DEFAULTS[0] or found.values is None:
                return found
            faults = found.values.value("faults") + runs[configuration]
            return replace(found, values=found.values.with_values(faults=faults))

    class ThirdElsewhere(OnTheSecond):
        def run(self, *words: Any) -> Iterator[Attempts]:
            for ended in super().run(*words):
                is_third = runs[ended.configuration] > 2
                yield replace(ended, machine="third") if is_third else ended

    run(tmp_path, evaluator=Growing(), kind=ThirdElsewhere)

    (incident,) = incidents_of(tmp_path)
    assert "a third run was made on another machine" in incident.reason


class InterruptRecheck(Listener):
    def recheck_ended(self, recheck: Recheck) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_machines_are_kept_in_the_order_in_which_they_came(tmp_path: Path):
    """Times are relative to the first, though the second made every trial."""
    run(tmp_path, synthetic.record(budget=20), kind=OnTheSecond)

    with Store.open(tmp_path) as store:
        assert [machine.name for machine in store.machines()] == ["first", "second"]


def test_other_numbers_on_this_machine_than_on_the_cluster_are_no_defect(tmp_path: Path):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path, listener=InterruptRecheck(), kind=OnTheSecond)

    run(tmp_path, evaluator=Drifting(always=True))

    check_whole(tmp_path)


class LateAtLast(SyntheticEvaluator):
    """Fails when a configuration is measured again: as on a machine that is busy by then."""

    def __init__(self, status: Status, n_failures: int = 1 << 30) -> None:
        super().__init__()
        self._status = status
        self._n_left = n_failures

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        if configuration in self.evaluated and self._n_left > 0:
            self._n_left -= 1
            return Outcome.did_not_succeed(self._status, "no end after 60 s")
        return super().evaluate(configuration, cpu)


def test_a_remeasurement_that_timed_out_is_repeated(tmp_path: Path):
    run(tmp_path, evaluator=LateAtLast(Status.TIMED_OUT, 1), cpus=(0,))

    check_whole(tmp_path)
    found = [(one.attempt, one.reason) for one in incidents_of(tmp_path)]
    assert found == [(1, "no end after 60 s")]


def test_remeasurements_that_only_time_out_are_incidents_and_heal(tmp_path: Path):
    run(tmp_path, evaluator=LateAtLast(Status.TIMED_OUT))

    trials, rechecks, record = stored(tmp_path)
    assert record.status == FINISHED
    assert rechecks == []
    n_planned = n_missing(record, trials, rechecks)
    assert n_planned > 1
    attempts = Counter(one.attempt for one in incidents_of(tmp_path))
    assert attempts == {1: n_planned, 2: n_planned}

    run(tmp_path)

    check_whole(tmp_path)


def test_a_remeasurement_that_crashed_is_reported_and_heals(tmp_path: Path):
    with pytest.raises(RepeatabilityError, match=r"trial 0 \(glibc default\): now no end after"):
        run(tmp_path, evaluator=LateAtLast(Status.FAILED))

    run(tmp_path)

    check_whole(tmp_path)


def test_a_crash_on_another_machine_than_the_trial_is_no_defect(tmp_path: Path):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path, listener=InterruptRecheck(), kind=OnTheSecond)

    busy = LateAtLast(Status.FAILED)
    busy.evaluated += [trial.configuration for trial in stored(tmp_path)[0]]
    run(tmp_path, evaluator=busy)

    assert {one.reason for one in incidents_of(tmp_path)} == {"no end after 60 s"}


def test_a_store_that_holds_a_failed_remeasurement_heals(tmp_path: Path):
    """Earlier versions kept them as if they were results."""
    run(tmp_path, synthetic.record(recheck_share=0.0))
    run_path = tmp_path / "store.sqlite"
    with contextlib.closing(sqlite3.connect(run_path)) as connection, connection:
        connection.execute("UPDATE campaign SET recheck_share = 0.15")
    with Store.open(tmp_path, writable=True) as store:
        store.add_recheck(
            Recheck(0, 1, Outcome.did_not_succeed(Status.TIMED_OUT, "still running after 60 s"))
        )

    run(tmp_path)

    check_whole(tmp_path)
    (incident,) = incidents_of(tmp_path)
    assert (incident.configuration, incident.reason) == (DEFAULTS[0], "still running after 60 s")


def test_an_interrupted_recheck_goes_on(tmp_path: Path):
    with pytest.raises(InterruptedCampaign):
        run(tmp_path, listener=InterruptRecheck())
    n_before = len(stored(tmp_path)[1])
    evaluator = SyntheticEvaluator()
    run(tmp_path, evaluator=evaluator)

    n_after = len(stored(tmp_path)[1])
    assert 1 <= n_before < n_after
    assert n_after - n_before == len(evaluator.evaluated)


# Screening


def screened(fidelity: float = 0.25, **changes: Any) -> CampaignRecord:
    workload = WorkloadRecord(screening=ScreeningRecord(fidelity, 0.5))
    return synthetic.record(workload=workload, **changes)


def run_screened(
    folder: Path, record: CampaignRecord, evaluator: SyntheticEvaluator, low: SyntheticEvaluator
) -> list[Trial]:
    spaces = make_spaces(synthetic.PARTS, record.search)
    with (
        synthetic.store_in(folder, record) as store,
        LocalExecutor(evaluator, (0, 1)) as executor,
        LocalExecutor(low, (0, 1)) as screener,
    ):
        return Runner(store, spaces, executor, Listener(), screener).run()


def test_only_promising_proposals_are_measured_in_full(tmp_path: Path):
    whole, low = SyntheticEvaluator(), SyntheticEvaluator()
    trials = run_screened(tmp_path, screened(), whole, low)

    assert len(trials) == 60, "the budget counts what was measured in full"
    with Store.open(tmp_path) as store:
        found = store.screenings()
    searched = {t.configuration for t in trials if t.origin is Origin.SEARCH}
    assert searched <= set(found)
    assert len(found) > 1.7 * len(searched)
    assert {m.configuration for m in front(trials)} <= {t.configuration for t in trials}


def test_screening_finds_more_for_as_many_measurements_in_full(tmp_path: Path):
    """The shrunk workload ranks perfectly here: nothing else could make it worse."""
    plain = run(tmp_path / "plain")
    with_it = run_screened(
        tmp_path / "with", screened(), SyntheticEvaluator(), SyntheticEvaluator()
    )
    with Store.open(tmp_path / "plain") as store:
        reference = store.campaign().reference or ()
    volumes = [hypervolume(points_of(front(found)), reference) for found in (plain, with_it)]

    assert volumes[1] > volumes[0]


def test_a_screened_campaign_goes_on_where_it_stopped(tmp_path: Path):
    record = screened()
    whole = run_screened(tmp_path / "whole", record, SyntheticEvaluator(), SyntheticEvaluator())
    short = replace(record, budget=30)
    run_screened(tmp_path / "parts", short, SyntheticEvaluator(), SyntheticEvaluator())
    low = SyntheticEvaluator()
    again = run_screened(tmp_path / "parts", record, SyntheticEvaluator(), low)

    assert comparable(again) == comparable(whole)
    with Store.open(tmp_path / "whole") as store:
        assert len(low.evaluated) < len(store.screenings())


def test_what_fails_on_the_shrunk_workload_is_left_out_and_learnt_as_failed():
    good, bad = Expected((1.0, 1.0), 0.0), Expected(None, 1.0)
    worse, broken = Expected((2.0, 2.0), 0.0), Expected((0.5, 0.5), 0.3)

    assert most_promising([bad, worse, good, broken], [], 0.25) == [2]
    assert most_promising([bad, worse, good, broken], [], 0.5) == [1, 2]
    assert most_promising([bad], [], 0.1) == [0], "one at least"
    assert bad.told((0,)).objectives is None


def test_estimates_are_scaled_by_what_the_default_has_on_both():
    whole = synthetic.measure(Configuration("glibc"))
    low = whole.with_values(peak_heap=1000, faults=0, cost=10.0, syscalls=None)
    tried = low.with_values(peak_heap=1500, faults=7, cost=5.0)
    found = carried_over(tried, low, whole)

    assert found.value("peak_heap") == round(1.5 * whole.value("peak_heap"))
    assert found.value("cost") == pytest.approx(0.5 * (whole.value("cost") or 0))
    assert found["faults"] == 7
    assert found["syscalls"] is None


def test_screening_cannot_change_in_a_campaign():
    lines = differences(screened(), screened(fidelity=0.5))
    assert any("workload.screening" in line for line in lines)
