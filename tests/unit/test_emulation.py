"""Prices: what they cost, their ends, and how people read them."""

from dataclasses import replace

from tests.doubles.runs import PRICES
from tuner.emulation import Calibration


def test_prices_have_two_ends():
    low, high = PRICES.ends()
    assert (low.c_fault, low.c_page, low.c_syscall) == (1900.0, 290.0, 380.0)
    assert (high.c_fault, high.c_page, high.c_syscall) == (2100.0, 310.0, 420.0)
    assert Calibration(c_fault=1.0, c_syscall=1.0).ends() == ()


def test_prices_are_shown_with_their_intervals():
    expected = (
        "a page fault costs 2,000 (1,900 to 2,100) instructions, a page that comes with a huge "
        "one 300 (290 to 310), a memory system call 400 (380 to 420) (median of 3 calibrations)"
    )
    assert PRICES.describe() == expected


def test_prices_of_a_busy_machine_are_said_to_be_so():
    words = replace(PRICES, n_busy=2).describe()
    assert words.endswith("(median of 3 calibrations, 2 of them on a busy machine)")


def test_pages_that_came_with_huge_ones_have_a_price_of_their_own():
    prices = Calibration(c_fault=1000.0, c_syscall=0.0, c_page=100.0)
    assert prices.cost(0, 1024, 0) == 1024 * 1000.0
    assert prices.cost(0, 2, 0, 1022) == 2 * 1000.0 + 1022 * 100.0
