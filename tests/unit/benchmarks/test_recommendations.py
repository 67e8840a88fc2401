"""Simulated confirmations: the truth decides, and when guards are looked at."""

from dataclasses import replace

from benchmarks.recommendations import (
    AT_END,
    CANDIDATES,
    FROM_FIRST,
    FROM_HALF,
    LOOKS,
    NEVER_GOOD,
    Recommendations,
    lines,
    simulate,
    targets,
)

N = 4
GOOD = "10 % less memory"


def test_what_is_true_decides_and_the_sooner_the_earlier_guards_are_looked_at():
    found = {(one.candidate, one.looks): one for one in simulate(N, 80)}

    assert found.keys() == {(name, looks) for name in CANDIDATES for looks in LOOKS}
    assert all(found[GOOD, looks].n_recommended > N // 2 for looks in (FROM_HALF, FROM_FIRST))
    assert all(found[name, looks].n_recommended == 0 for name in NEVER_GOOD for looks in LOOKS)
    assert found[GOOD, FROM_FIRST].n_rounds < found[GOOD, FROM_HALF].n_rounds < 80
    assert found[GOOD, AT_END].n_rounds == 80


def test_a_false_recommendation_misses_its_target():
    one = Recommendations("no change", FROM_HALF, 100, 5, 20.0)

    counts = (0, 5, 20)
    (few, some, many) = targets([replace(one, n_recommended=n) for n in counts])
    assert (few.is_met, some.is_met, some.is_missed, many.is_missed) == (True, False, False, True)
    assert list(targets([replace(one, looks=AT_END), replace(one, candidate=GOOD)])) == []


def test_a_cell_has_the_share_and_the_rounds():
    table = "".join(lines([Recommendations(GOOD, looks, 8, 2, 31.5) for looks in LOOKS]))

    assert table.count("25 % (32 rounds)") == len(LOOKS)
