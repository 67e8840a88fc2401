"""How far the price of a page fault is moved by load."""

import pytest

from benchmarks.calibration import PART, targets


@pytest.mark.parametrize(
    ("loops", "interval"),
    [([1.0, 1.3], (0.0, 0.3)), ([0.8, 0.9], (0.1, 0.2)), ([1.0], (0.0, float("inf")))],
)
def test_a_change_is_as_sure_as_its_rounds(loops: list[float], interval: tuple[float, float]):
    rows = [
        {"round": number, "subject": subject, "status": "ok", "c_fault": price}
        for number, ratio in enumerate(loops)
        for subject, price in (("alone", 5.0), ("loops", 5.0 * ratio))
    ]

    (target,) = targets({PART: rows})

    assert target.interval is not None
    assert (target.interval.low, target.interval.high) == pytest.approx(interval)
    assert not target.is_met
