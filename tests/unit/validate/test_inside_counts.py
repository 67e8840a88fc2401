"""What a simulated machine counted, from statistics a real gem5 wrote."""

from __future__ import annotations

import pytest

from tests.doubles.places import DATA
from tuner.errors import ProgramError, SpecError
from tuner.measure.gem5_stats import Statistics, parse_statistics
from tuner.validate.inside_counts import beyond, check_objectives, counts_of, metric_values

RECORDED = DATA / "gem5" / "inside-two-cores.txt"
"""Two threads on two out-of-order cores, each with L1 and L2, the L3 shared; gem5 24.0."""

NAMES = (
    "instructions", "cycles", "l1d_misses", "l1i_misses", "l2_misses", "l3_misses", "dtlb_misses",
    "itlb_misses", "dram_bytes",
)  # fmt: skip
WHOLE = dict(zip(NAMES, (3000, 5000, 60, 6, 12, None, 9, 3, 640), strict=True))
START = dict(zip(NAMES, (1000, 3000, 20, 4, 13, None, 3, 1, 128), strict=True))
TRAFFIC = {
    "board.cache_hierarchy.l3bus.snoopTraffic": "640",
    "board.cache_hierarchy.l2buses0.snoopTraffic": "64000",
}
"""The bus of all cores, and one within a core."""


@pytest.fixture(scope="module")
def recorded() -> Statistics:
    return parse_statistics(RECORDED.read_text(), str(RECORDED))


def test_counts_are_summed_over_cores_and_requestors(recorded: Statistics) -> None:
    counts = counts_of(recorded)
    assert counts["instructions"] == 765881
    assert counts["cycles"] == 401775200 // 400
    assert counts["l1d_misses"] == 6394 + 4694
    assert counts["l1i_misses"] == 1552 + 261
    assert counts["l2_misses"] == 1493 + 4358 + 261 + 3167
    assert counts["l3_misses"] == 1457 + 1017 + 119 + 481
    assert counts["dram_bytes"] is not None
    assert counts["dram_bytes"] % 64 == 0


def test_lines_that_went_from_core_to_core_are_counted_on_the_shared_bus(
    recorded: Statistics,
) -> None:
    assert counts_of(Statistics({**recorded.values, **TRAFFIC}))["lines_moved"] == 10


def test_one_core_moves_no_lines(recorded: Statistics) -> None:
    alone = {n: v for n, v in recorded.values.items() if "cores1" not in n}
    assert counts_of(Statistics({**alone, **TRAFFIC}))["lines_moved"] is None


def test_prefetches_are_no_misses(recorded: Statistics) -> None:
    name = "board.cache_hierarchy.l2caches0.demandMshrMisses::cache_hierarchy.l1dcaches0.prefetcher"
    without = Statistics({n: v for n, v in recorded.values.items() if n != name})
    assert len(without.values) < len(recorded.values)
    assert counts_of(without) == counts_of(recorded)


def test_level_that_is_not_there_has_no_misses(recorded: Statistics) -> None:
    without = Statistics({n: v for n, v in recorded.values.items() if "l3cache" not in n})
    assert counts_of(without)["l3_misses"] is None


def test_level_that_misses_nothing_has_zero(recorded: Statistics) -> None:
    kept = {n: v for n, v in recorded.values.items() if "l3cache.demandMshr" not in n}
    assert counts_of(Statistics(kept))["l3_misses"] == 0


def test_statistics_without_instructions_are_an_error() -> None:
    with pytest.raises(ProgramError, match="no instructions or no time"):
        counts_of(Statistics({"simTicks": "100", "board.clk_domain.clock": "10"}))


def test_start_is_subtracted() -> None:
    difference = beyond(WHOLE, START)
    assert tuple(difference.values()) == (2000, 2000, 40, 2, 0, None, 6, 2, 512)
    values = metric_values(difference, START)
    assert values["l1d_mpki"] == 20.0
    assert values["l3_mpki"] is None
    assert values["ipc"] == 1.0
    assert values["dram_bytes"] == 512
    assert values["lines_moved"] is None
    assert values["start"] == 1000


def test_start_longer_than_the_whole_is_an_error() -> None:
    with pytest.raises(ProgramError, match="give the program more to do"):
        beyond(START, {**START, "instructions": 2000})


def test_unknown_objective_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"'mpki' is no objective .* allowed: l1d_mpki"):
        check_objectives(["mpki"])
