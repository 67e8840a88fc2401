"""Rank correlation over all allocators, and within each that has three configurations."""

import pytest

from tuner.validate.ranking import rank

VALUES = [
    ("glibc", 1.0, 10.0),
    ("glibc", 2.0, 20.0),
    ("exgen", 3.0, 60.0),
    ("exgen", 4.0, 50.0),
    ("exgen", 5.0, 40.0),
]


def test_all_come_first_then_each_with_three_or_more():
    overall, exgen = rank("cost", "cpu", VALUES)

    assert (overall.allocator, overall.n) == (None, 5)
    assert overall.tau == pytest.approx(0.4)
    assert (exgen.allocator, exgen.n, exgen.tau) == ("exgen", 3, -1.0)
    assert exgen.concordance is not None
    assert (exgen.concordance.share, exgen.concordance.n_pairs) == (0.0, 3)


@pytest.mark.parametrize(("n", "n_rankings"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_fewer_rank_nothing(n: int, n_rankings: int):
    assert len(list(rank("cost", "cpu", [("glibc", i, i) for i in range(1, n + 1)]))) == n_rankings
