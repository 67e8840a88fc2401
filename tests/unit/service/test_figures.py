"""From samples to metrics."""

import pytest

from tuner.service.figures import Phases, figures, growth_per_minute, mean_bytes
from tuner.service.guard import Use
from tuner.service.output import LoadReport

_S = 1_000_000_000


def use(at_s: float, anon_bytes: int, cpu_ns: int = 0) -> Use:
    return Use(int(at_s * _S), 1, anon_bytes, 0, 0, 0, 0, 1, cpu_ns)


def test_the_mean_is_over_time_and_not_over_samples():
    assert mean_bytes([use(0, 0), use(1, 100), use(9, 100), use(10, 100)]) == pytest.approx(95.0)
    assert mean_bytes([use(3, 7)]) == 7.0


def test_growth_is_that_of_the_last_half():
    window = [use(at, 1000 if at < 30 else 1000 + (at - 30) * 10) for at in range(61)]

    assert growth_per_minute(window) == pytest.approx(600.0)
    assert growth_per_minute(window[::30]) is None


def test_a_short_window_has_no_growth_per_minute():
    """Half a second of filling a cache was shown as hundreds of MiB a minute."""
    window = [use(0.1 * at, 1000 * at) for at in range(101)]

    assert growth_per_minute(window) == pytest.approx(600_000.0)
    assert growth_per_minute(window[:100]) is None


def test_window_and_floor_are_told_apart():
    uses = [use(0, 900), use(10, 100, 5), use(15, 300), use(20, 200, 4_000_005), use(22, 150)]
    uses += [use(28, 50), use(30, 70)]
    phases = Phases(uses[1], uses[3], uses[-1])

    found = figures(uses, phases, LoadReport(100.0, 2000.0, 0.0, {"p99": 5.0}))

    assert found["mean"] == pytest.approx(225.0)
    assert found["peak"] == 300.0
    assert found["floor"] == pytest.approx(60.0)
    assert found["cpu"] == pytest.approx(2000.0)
    assert found["rate"] == 100.0
    assert found["p99"] == 5.0


def test_requests_follow_from_rate_or_count():
    phases = Phases(use(0, 1), use(10, 1, 1_000_000), use(11, 1))
    uses = [phases.begin, phases.end, phases.idle_end]

    by_rate = figures(uses, phases, LoadReport(rate=100.0))
    by_count = figures(uses, phases, LoadReport(requests=500.0))
    neither = figures(uses, phases, LoadReport(latencies={"p99": 1.0}))

    assert by_rate["cpu"] == pytest.approx(1000.0)
    assert by_count["cpu"] == pytest.approx(2000.0)
    assert by_count["rate"] == pytest.approx(50.0)
    assert "cpu" not in neither
    assert phases.requests(LoadReport()) == 1.0
