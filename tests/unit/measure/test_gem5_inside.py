"""What a simulated machine counted, from statistics a real gem5 wrote."""

from pathlib import Path

import pytest

from tests.doubles.places import FAKE_GEM5
from tests.doubles.simulated import STATISTICS_OF_TWO_CORES
from tuner.errors import ProgramError
from tuner.measure.gem5_inside import Gem5Inside, InsideTask, counts_of
from tuner.measure.gem5_stats import Statistics, parse_statistics
from tuner.measure.program import ProgramRunner

TRAFFIC = {
    "board.cache_hierarchy.l3bus.snoopTraffic": "640",
    "board.cache_hierarchy.l2buses0.snoopTraffic": "64000",
}
"""The bus of all cores, and one within a core."""


@pytest.fixture(scope="module")
def recorded() -> Statistics:
    return parse_statistics(STATISTICS_OF_TWO_CORES, "stats.txt")


def test_another_c_library_of_the_guests_makes_another_run(tmp_path: Path):
    gem5, libc = tmp_path / "gem5", tmp_path / "libc.so.6"
    gem5.touch()
    task = InsideTask("lists", gem5, 1, ("/guest",), None)

    def identity(content: str) -> str:
        libc.write_text(content)
        inside = Gem5Inside(gem5, tmp_path, tmp_path, ProgramRunner(), 1.0, (libc,))
        return inside.identity(task, {})

    assert identity("old") == identity("old") != identity("new")


def test_a_run_records_what_its_program_mapped_and_is_current_while_that_stays(tmp_path: Path):
    library = tmp_path / "libother.so"
    library.write_text("old")
    environment = {"LD_PRELOAD": str(library)}
    task = InsideTask("lists", tmp_path, 1, ("/guest",), None)

    def inside() -> Gem5Inside:
        return Gem5Inside(Path(FAKE_GEM5), tmp_path, tmp_path / "out", ProgramRunner(), 60.0)

    counted = inside().run(task, "label", environment).good

    assert counted is not None
    assert list(counted.files) == [str(library)]
    assert inside().is_current(counted)
    library.write_text("new")
    assert not inside().is_current(counted)
    library.unlink()
    assert not inside().is_current(counted)


def test_counts_are_summed_over_cores_and_requestors(recorded: Statistics):
    counts = counts_of(recorded)
    assert counts["instructions"] == 765881
    assert counts["cycles"] == 401775200 // 400
    assert counts["l1d_misses"] == 6394 + 4694
    assert counts["l1i_misses"] == 1552 + 261
    assert counts["l2_misses"] == 1493 + 4358 + 261 + 3167
    assert counts["l3_misses"] == 1457 + 1017 + 119 + 481
    assert counts["dram_bytes"] is not None
    assert counts["dram_bytes"] % 64 == 0


def test_lines_that_went_from_core_to_core_are_counted_on_the_shared_bus(recorded: Statistics):
    assert counts_of(Statistics({**recorded.values, **TRAFFIC}))["lines_moved"] == 10


def test_one_core_moves_no_lines(recorded: Statistics):
    alone = {n: v for n, v in recorded.values.items() if "cores1" not in n}
    assert counts_of(Statistics({**alone, **TRAFFIC}))["lines_moved"] is None


def test_prefetches_are_no_misses(recorded: Statistics):
    name = "board.cache_hierarchy.l2caches0.demandMshrMisses::cache_hierarchy.l1dcaches0.prefetcher"
    without = Statistics({n: v for n, v in recorded.values.items() if n != name})
    assert len(without.values) < len(recorded.values)
    assert counts_of(without) == counts_of(recorded)


def test_level_that_is_not_there_has_no_misses(recorded: Statistics):
    without = Statistics({n: v for n, v in recorded.values.items() if "l3cache" not in n})
    assert counts_of(without)["l3_misses"] is None


def test_level_that_misses_nothing_has_zero(recorded: Statistics):
    kept = {n: v for n, v in recorded.values.items() if "l3cache.demandMshr" not in n}
    assert counts_of(Statistics(kept))["l3_misses"] == 0


def test_statistics_without_instructions_are_an_error():
    with pytest.raises(ProgramError, match="no instructions or no time"):
        counts_of(Statistics({"simTicks": "100", "board.clk_domain.clock": "10"}))
