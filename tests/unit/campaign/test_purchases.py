"""Evaluations whose instructions are not worth counting: the gate, and campaigns that use it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.doubles import synthetic
from tests.doubles.synthetic import SyntheticEvaluator, measure, record, space
from tests.unit.campaign.test_ahead import AheadExecutor, asks
from tuner.campaign.purchases import FrontGate, gate_for, told_of
from tuner.emulation import EmulationOptions
from tuner.front.dominance import front
from tuner.measure.evaluation import Evaluation, Gate, uncounted
from tuner.metrics import METRICS
from tuner.records import Configuration, Origin, Outcome, Status, Trial
from tuner.store import Store

COUNTED = [name for name, metric in METRICS.items() if metric.is_counted]


class Gated(SyntheticEvaluator):
    """Computes, and knows what it was asked to count."""

    def evaluate_gated(
        self, configuration: Configuration, cpu: int | None, gate: Gate
    ) -> Evaluation:
        whole = self.evaluate(configuration, cpu).good
        assert whole is not None
        known = whole.with_values(**dict.fromkeys(COUNTED))
        kernel_cost = whole.value("cost") - whole.value("instructions")
        refusal = gate.refusal(configuration, known, kernel_cost)
        return Outcome.succeeded(whole) if refusal is None else uncounted(known, refusal, ())


def run(
    folder: Path, count: Literal["all", "needed"], budget: int = 80, workers: int = 1
) -> list[Trial]:
    wanted = record(
        budget=budget, emulation=EmulationOptions(count=count), recheck_share=0.0, strategy="auto"
    )
    return synthetic.run(folder, wanted, Gated(), cpus=range(workers))


def trials(n: int) -> list[Trial]:
    """Return counted trials of random configurations."""
    import numpy as np

    rng = np.random.default_rng(3)
    found = dict.fromkeys(space().decode(space().random(rng)) for _ in range(n))
    return [
        Trial(
            number,
            one,
            Origin.SEARCH,
            Outcome.succeeded(measure(one)),
            (measure(one).value("mean_heap"), measure(one).value("cost")),
            0.0,
        )
        for number, one in enumerate(found)
    ]


def test_gate_refuses_only_what_the_front_dominates():
    one = Configuration("glibc")
    gate = FrontGate(("mean_heap", "cost"), (), ((7, (100.0, 50.0)),), {one: 40.7})
    known = measure(one)
    at = {
        h: known.with_values(mean_heap=h, cost=None, instructions=None)
        for h in (90.0, 99.7, 99.9, 110.0)
    }
    assert gate.refusal(one, at[90.0], 20.0) is None
    assert gate.refusal(one, at[110.0], 5.0) is None
    # To a fifth of a percent.
    assert gate.refusal(one, at[99.7], 20.0) is None
    assert gate.refusal(one, at[99.9], 20.0) is not None
    refusal = gate.refusal(one, at[110.0], 20.0)
    assert refusal is not None
    assert refusal.reason == "trial 7 is as good even if it takes 41 instructions only"
    assert refusal.bound == {"instructions": 40, "cost": 60.7}
    assert gate.refusal(Configuration("jemalloc"), at[110.0], 1e9) is None


def test_without_system_calls_there_is_no_bound_of_the_cost():
    one = Configuration("glibc")
    gate = FrontGate(("mean_heap", "instructions"), (), ((7, (100.0, 40.0)),), {one: 40.7})
    known = measure(one).with_values(mean_heap=110.0, cost=None, instructions=None, syscalls=None)

    refusal = gate.refusal(one, known, None)

    assert refusal is not None
    assert refusal.bound == {"instructions": 40}


def test_nothing_is_refused_before_enough_is_known():
    gated = replace(record(), emulation=EmulationOptions(count="needed"))
    assert gate_for(gated, space(), [Configuration("glibc")], trials(10)) is None
    assert gate_for(gated, space(), [Configuration("glibc")], trials(60)) is not None
    assert gate_for(record(), space(), [Configuration("glibc")], trials(60)) is None


def test_expected_least_is_rarely_above_the_truth():
    known = trials(150)
    gated = replace(record(), emulation=EmulationOptions(count="needed"))
    proposed = [trial.configuration for trial in known[60:]]
    gate = gate_for(gated, space(), proposed, known[:60])
    assert gate is not None
    above = sum(gate.least[one] > measure(one).value("instructions") for one in proposed)
    assert above <= len(proposed) // 10


def test_what_is_not_counted_adds_nothing_to_the_front(tmp_path: Path):
    everything = run(tmp_path / "all", "all")
    some = run(tmp_path / "needed", "needed")
    left_out = [trial for trial in some if trial.status is Status.UNCOUNTED]
    assert all(trial.status is Status.OK for trial in everything)
    assert left_out
    for trial in left_out:
        truth = measure(trial.configuration)
        values = (truth.value("mean_heap"), truth.value("cost"))
        assert any(
            all(p <= 1.01 * v for p, v in zip(point.objectives or (), values, strict=True))
            for point in front(some)
        )


def test_uncounted_trials_keep_what_is_known_and_are_never_on_the_front(tmp_path: Path):
    found = run(tmp_path / "run", "needed")
    with Store.open(tmp_path / "run") as store:
        kept = store.trials()
    assert [(t.status, t.reason, t.bound, t.violation) for t in kept] == [
        (t.status, t.reason, t.bound, t.violation) for t in found
    ]
    for trial in (t for t in kept if t.status is Status.UNCOUNTED):
        assert trial.outcome.values is not None
        assert trial.outcome.values["mean_heap"] == measure(trial.configuration)["mean_heap"]
        assert trial.outcome.values["cost"] is None
        assert (trial.measurement, trial.objectives, trial.is_feasible) == (None, None, False)
        assert not trial.has_failed
        assert trial.bound is not None


@pytest.mark.parametrize("workers", [1, 3])
def test_an_extended_campaign_equals_a_longer_one(tmp_path: Path, workers: int):
    """What was not counted is answered from the store, and the strategy learns the same."""
    run(tmp_path / "short", "needed", 52)  # ends in mid-batch
    extended = run(tmp_path / "short", "needed", 64, workers)
    at_once = run(tmp_path / "long", "needed", 64)
    assert [(t.configuration, t.status, t.bound) for t in extended] == [
        (t.configuration, t.status, t.bound) for t in at_once
    ]


def test_strategy_knows_which_objectives_are_bounds():
    genome = next(iter(space().defaults()))
    outcome = Outcome(Status.UNCOUNTED, "dominated", measure(Configuration("glibc")))
    one = Trial(9, Configuration("glibc"), Origin.SEARCH, outcome, None, 0.0, bound=(5.0, 6.0))
    told = told_of(record(), genome, one)
    assert (told.objectives, told.bounded) == ((5.0, 6.0), (1,))
    counted = replace(one, objectives=(5.0, 7.0), bound=None)
    assert told_of(record(), genome, counted).bounded == ()


def test_proposals_that_wait_for_nobody_are_gated_too(tmp_path: Path):
    """Counted or not, every trial is there; the front equals or beats the bound of the others.

    Which trials are gated together hangs on which thread ends first.
    """
    wanted = record(
        budget=160, emulation=EmulationOptions(count="needed"), recheck_share=0.0, strategy="auto"
    )
    found = synthetic.run(tmp_path, wanted, Gated(), kind=AheadExecutor)
    assert asks(tmp_path)

    left_out = [trial for trial in found if trial.status is Status.UNCOUNTED]
    assert list(range(160)) == [trial.number for trial in found]
    assert left_out
    points = [trial.objectives or () for trial in front(found)]
    for trial in left_out:
        bound = trial.bound or ()
        assert any(
            all(p <= 1.002 * b for p, b in zip(point, bound, strict=True)) for point in points
        )
