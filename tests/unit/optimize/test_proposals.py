"""What goes to the program: defaults, each allocator's best, a spread; and what is confirmed."""

from __future__ import annotations

import math

import pytest

from tests.doubles.runs import trial
from tuner.optimize.judgement import Rules
from tuner.optimize.proposals import Baseline, Proposal, finalists, propose, spread_of
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.records import Configuration

RULES = Rules()
MIB = 1 << 20


def proposal(
    mean: float, cpu: float, name: str = "exgen", peak: float = 0.0, **settings: int
) -> Proposal:
    expected = {MEAN: mean, PEAK: peak, CPU: cpu}
    return Proposal(Configuration.of(name, settings), 1, expected)


def test_what_a_setting_changes_is_added_to_the_whole_program() -> None:
    """The heap is 10 of 40 MiB: 20 % of it is 5 % of the program."""
    base = trial(0, Configuration("glibc"), 10.0 * MIB, 100e6)
    other = trial(1, Configuration("exgen"), 8.0 * MIB, 50e6)
    values = {MEAN: 40.0 * MIB, PEAK: 50.0 * MIB, CPU: 1e9}

    (found,) = propose([base, other], Baseline(values, base, 0.5))

    assert found.expected[MEAN] == pytest.approx(math.log(38.0 / 40.0))
    assert found.expected[CPU] == pytest.approx(math.log(0.975))


def test_defaults_come_first_and_hopeless_settings_stay_out() -> None:
    default = proposal(0.30, 0.30, "tcmalloc")
    hopeless = proposal(-0.30, 0.50, a=1)
    good = [proposal(-0.01 * i, -0.10 + 0.01 * i, a=i) for i in range(8)]

    found = spread_of([hopeless, *good, default], RULES, 6)

    assert found[0] == default
    assert hopeless not in found
    assert len(found) == 6
    assert good[0] in found
    assert good[7] in found, "the other end of the front"


def test_a_setting_may_break_a_guard_by_the_slack_of_emulation_and_no_more() -> None:
    limit = math.log1p(RULES.least) + math.log1p(0.05)
    at = proposal(-0.30, 0.0, peak=limit, a=1)
    beyond = proposal(-0.40, 0.0, peak=limit + 1e-9, a=2)

    assert spread_of([at, beyond], RULES, 5) == [at]


def test_a_spread_is_a_spread() -> None:
    """Of ten points close together and one far away, three hold the far one."""
    near = [proposal(-0.05 - i * 1e-5, i * 1e-5, a=i) for i in range(10)]
    far = proposal(0.0, -0.20, a=99)

    assert far in spread_of([*near, far], RULES, 3)


def finals(*proposals: Proposal, n: int = 3) -> list[Proposal]:
    rows = {q: [p.expected[q] for p in proposals] for q in (MEAN, PEAK, CPU)}
    return finalists(proposals, rows, RULES, n)


def test_only_what_gains_and_breaks_no_guard_is_confirmed() -> None:
    gains = proposal(-0.05, 0.0, a=1)

    found = finals(gains, proposal(0.0, 0.0, a=2), proposal(-0.20, 0.0, peak=0.10, a=3))

    assert found == [gains]


def test_settings_must_beat_their_default_to_be_worth_their_words() -> None:
    default = proposal(-0.050, 0.0)
    barely = proposal(-0.053, 0.0, a=1)
    clearly = proposal(-0.080, 0.0, a=2)

    assert finals(default, barely) == [default]
    assert finals(default, barely, clearly) == [clearly, default]


def test_no_more_than_asked_for_are_confirmed() -> None:
    many = [proposal(-0.05 - 0.01 * i, 0.0, a=i) for i in range(6)]

    assert len(finals(*many, n=2)) == 2
