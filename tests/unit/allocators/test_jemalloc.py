"""jemalloc: settings, slabs, and what mallctl says of them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.probes import HOST, SERVER, genes, installation, problems, recorded
from tuner.allocators import get_allocator
from tuner.allocators.jemalloc import expected_slab
from tuner.errors import SpecError
from tuner.records import Configuration, Value


def test_jemalloc_can_keep_lazily_freed_pages_for_good():
    assert -1 in genes("jemalloc")["muzzy_decay_ms"].levels


def test_a_forked_process_is_never_offered_a_background_thread():
    forked = replace(SERVER, is_fork=True)
    assert "background_thread" not in genes("jemalloc", workload=forked)
    assert "background_thread" in genes("jemalloc", workload=SERVER)
    left_out = get_allocator("jemalloc").left_out(installation("jemalloc"), HOST, forked)
    assert left_out["background_thread"] == "threads of an allocator do not survive a fork"


def test_an_exported_jemalloc_does_not_stop_a_service():
    jemalloc = get_allocator("jemalloc")
    configuration = Configuration.of("jemalloc", {"retain": False})
    assert jemalloc.render(Configuration("jemalloc"), for_export=True) == {}
    assert jemalloc.render(configuration, for_export=True) == {"MALLOC_CONF": "retain:false"}


@pytest.mark.parametrize(
    ("settings", "observed", "agrees"),
    [
        ({"dirty_decay_ms": -1}, {"opt.dirty_decay_ms": -1}, True),
        ({"tcache_max": 1 << 30}, {"opt.tcache_max": 8 << 20}, False),
        ({"retain": False}, {}, False),
        ({"thp": "always"}, {"opt.thp": "always"}, True),
        ({"slab_sizes": "1-14336:64"}, {}, False),
        ({"narenas": 99999999}, {"opt.narenas": 99999999, "arenas.narenas": 4095}, False),
        ({"narenas": 3}, {"opt.narenas": 3, "arenas.narenas": 4}, True),
        (
            {"narenas": 3},
            {"opt.narenas": 3, "arenas.narenas": 3, "opt.oversize_threshold": 0},
            True,
        ),
        ({"tcache_max": 4000}, {"arenas.tcache_max": 4096}, True),
        ({"tcache_max": 0}, {"arenas.tcache_max": 8}, False),
        ({"tcache_nslots_small_max": 7}, {"opt.tcache_nslots_small_max": 7}, False),
        ({"tcache_gc_delay_bytes": 4 << 20}, {"opt.tcache_gc_delay_bytes": 4 << 20}, False),
        ({"tcache_gc_delay_bytes": 2 << 20}, {"opt.tcache_gc_delay_bytes": 2 << 20}, True),
    ],
)
def test_jemalloc_settings_agree_only_when_mallctl_says_so(
    settings: dict[str, Value], observed: dict[str, Any], agrees: bool
):
    report = recorded("jemalloc", **observed)
    assert agrees == (problems(report, "jemalloc", **settings) == [])


def test_slabs_are_compared_bin_by_bin():
    blocks = recorded("jemalloc").of("jemalloc")["bin_block_bytes"]
    slabs = [expected_slab(block, 4, 4096) for block in blocks]
    report = recorded("jemalloc", bin_slab_bytes=slabs)
    assert problems(report, "jemalloc", slab_sizes="1-14336:4") == []
    assert problems(report, "jemalloc", slab_sizes="1-14336:8") != []
    assert get_allocator("jemalloc").effective(report)["slab_sizes"] == "1-14336:4"


def test_of_several_ranges_of_slabs_the_later_one_wins():
    blocks = recorded("jemalloc").of("jemalloc")["bin_block_bytes"]
    slabs = [expected_slab(block, 2 if block <= 4096 else 4, 4096) for block in blocks]
    report = recorded("jemalloc", bin_slab_bytes=slabs)
    assert problems(report, "jemalloc", slab_sizes="1-4096:2|4097-14336:4") == []
    assert problems(report, "jemalloc", slab_sizes="1-14336:4|1-4096:2") == []
    assert problems(report, "jemalloc", slab_sizes="1-4096:2|1-14336:4") != []
    assert problems(report, "jemalloc", slab_sizes="1-4096:2|") != []


@pytest.mark.parametrize(("version", "largest"), [("5.3.0", 8 << 20), ("5.3.1", 32 << 10)])
def test_jemalloc_5_3_1_caches_no_block_above_32_kib(version: str, largest: int):
    assert largest == genes("jemalloc", version)["tcache_max"].levels[-1]


def test_jemalloc_5_3_1_cleans_its_thread_cache_without_a_delay():
    assert "tcache_gc_delay_bytes" in genes("jemalloc", "5.3.0", tcache_gc_delay_bytes="all")
    with pytest.raises(SpecError, match=r"not offered for jemalloc 5\.3\.1; it is for >=5\.3,<"):
        genes("jemalloc", "5.3.1", tcache_gc_delay_bytes="all")


def test_a_number_of_pages_that_no_bin_can_have_is_refused():
    blocks = recorded("jemalloc").of("jemalloc")["bin_block_bytes"]
    report = recorded("jemalloc", bin_slab_bytes=[expected_slab(b, 0, 4096) for b in blocks])
    assert problems(report, "jemalloc", slab_sizes="1-14336:0") != []


@pytest.mark.parametrize(
    ("block", "pages", "expected"), [(8, 64, 4096), (16, 2, 8192), (14336, 1, 16384)]
)
def test_a_slab_holds_one_to_512_blocks(block: int, pages: int, expected: int):
    assert expected == expected_slab(block, pages, 4096)
