"""Fronts and picks at the ends of the interval of the prices."""

from dataclasses import replace
from typing import Any

import pytest

from tests.doubles import synthetic
from tests.doubles.runs import trial
from tuner.emulation import Calibration
from tuner.front.repricing import price_note, reprice
from tuner.records import Configuration, Outcome, Trial
from tuner.store import CampaignRecord

PRICES = Calibration(
    c_fault=2000.0,
    c_syscall=1000.0,
    c_page=400.0,
    c_fault_interval=(1000.0, 3000.0),
    c_page_interval=(200.0, 600.0),
    c_syscall_interval=(500.0, 1500.0),
)
LOW, HIGH = PRICES.ends()


def record(prices: Calibration = PRICES, **changes: Any) -> CampaignRecord:
    fields = {"allocators": {"glibc": synthetic.record().allocators.get("glibc")}, **changes}
    return synthetic.record(calibration=prices, **fields)


def tried(number: int, heap: int, counts: tuple[int, int, int, int]) -> Trial:
    """Return a trial; the counts are instructions, faults, system calls and pages."""
    instructions, faults, syscalls, pages = counts
    cost = PRICES.cost(instructions, faults, syscalls, pages)
    made = trial(
        number, Configuration.of("glibc", {"pad": number} if number else {}), float(heap), cost or 0
    )
    assert made.measurement is not None
    counted = made.measurement.with_values(
        instructions=instructions, faults=faults, syscalls=syscalls, cost=cost
    )
    return replace(made, outcome=Outcome.succeeded(counted))


FEW_FAULTS = [tried(0, 1000, (10**6, 300, 20, 0)), tried(1, 900, (10**6, 10, 5, 5110))]

OPPOSED = [
    tried(0, 1000, (5_000_000, 1000, 0, 0)),
    tried(1, 500, (1_000_000, 900, 0, 0)),
    tried(2, 500, (2_900_000, 0, 0, 0)),
]
"""Trial 1 has faults, trial 2 instructions; the price of a fault decides which is best."""


def costs(trials: list[Trial]) -> list[float | None]:
    return [trial.measurement["cost"] if trial.measurement else None for trial in trials]


def test_costs_are_what_the_other_prices_make_of_the_counts():
    assert costs(reprice(record(), FEW_FAULTS, HIGH)) == pytest.approx(
        [HIGH.cost(10**6, 300, 20, 0), HIGH.cost(10**6, 10, 5, 5110)]
    )


def test_own_prices_change_nothing():
    assert costs(reprice(record(), FEW_FAULTS, PRICES)) == pytest.approx(costs(FEW_FAULTS))


def test_limit_on_cost_moves_with_the_prices():
    limited = record(constraints=("cost <= default * 1.1",))
    trials = [tried(0, 1000, (2_000_000, 100, 0, 0)), tried(1, 900, (1_000_000, 700, 0, 0))]

    assert [t.is_feasible for t in reprice(limited, trials, LOW)] == [True, True]
    assert [t.is_feasible for t in reprice(limited, trials, HIGH)] == [True, False]


def test_what_would_change_is_listed():
    note = price_note(record(), OPPOSED)

    assert note is not None
    assert "a page fault takes, 1,000 to 3,000 instructions" in note
    assert "1 of the front's 1 points would leave it; another point would be on it" in note
    assert "picks balanced, no-regret, best-mean_heap and best-cost would change" in note


def test_picks_are_those_of_the_campaign_whatever_the_front_is_of():
    note = price_note(record(), OPPOSED, ("peak_heap", "cost"))

    assert note is not None
    assert "best-mean_heap" in note
    assert "best-peak_heap" not in note


def test_points_are_counted_and_not_their_trials():
    again = tried(3, 500, (1_000_000, 900, 0, 0))
    note = price_note(record(), [*OPPOSED, again])

    assert note is not None
    assert "1 of the front's 1 points would leave it; another point would be on it" in note


def test_nothing_is_said_where_nothing_changes():
    trials = [tried(0, 1000, (10**6, 300, 20, 0)), tried(1, 900, (10**5, 10, 5, 0))]

    assert price_note(record(), trials) is None


def test_nothing_is_said_where_nothing_is_known():
    assert price_note(record(Calibration(2000.0, 1000.0)), OPPOSED) is None
    assert price_note(record(), OPPOSED, ("mean_heap", "faults")) is None
    assert price_note(record(), OPPOSED[1:]) is None
