"""glibc's malloc: settings, tunables that took effect, and those that were clipped."""

from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.probes import genes, problems, recorded
from tuner.allocators import get_allocator
from tuner.errors import SpecError
from tuner.records import Value


def test_glibc_behind_a_preloaded_library_has_no_version():
    assert get_allocator("glibc").version_of(recorded("jemalloc")) == ""


@pytest.mark.parametrize(
    ("version", "largest", "has_mxfast"),
    [("2.36", 1032, True), ("2.42", 2 << 20, True), ("2.43", 2 << 20, False)],
)
def test_the_glibc_version_decides_the_genes(version: str, largest: int, has_mxfast: bool):
    found = genes("glibc", version)
    assert largest == found["tcache_max"].levels[-1]
    assert has_mxfast == ("mxfast" in found)


@pytest.mark.parametrize(
    ("version", "largest", "has_hugetlb"), [("2.34", 32 << 20, False), ("2.35", 1 << 30, True)]
)
def test_glibc_2_35_takes_larger_mmap_thresholds_and_huge_pages(
    version: str, largest: int, *, has_hugetlb: bool
):
    found = genes("glibc", version)
    assert largest == found["mmap_threshold"].levels[-1]
    assert has_hugetlb == ("hugetlb" in found)


def test_static_thresholds_wake_up_at_the_default_trim_threshold():
    trim = genes("glibc")["trim_threshold"]
    assert trim.levels[trim.resting] == 131072


def test_glibc_is_not_named_with_a_path():
    with pytest.raises(SpecError, match="name it without a path"):
        get_allocator("glibc:/etc/passwd")


@pytest.mark.parametrize(
    ("settings", "observed"),
    [
        ({"tcache_count": 4096}, {"tcache_count": 4096}),
        ({"tcache_max": 1032}, {"tcache_max_bytes": 1032}),
        ({"tcache_max": 100}, {"tcache_max_bytes": 104}),
        ({"tcache_max": 9}, {"tcache_max_bytes": 24}),
        ({"mxfast": 0}, {"fast_chunk_max_bytes": 0}),
        ({"mxfast": 100}, {"fast_chunk_max_bytes": 96}),
        ({"trim_threshold": -1}, {"tunables": {"trim_threshold": 2**64 - 1}, "dynamic": False}),
        (
            {"mmap_threshold": 5000},
            {
                "tunables": {"mmap_threshold": 5000},
                "least_mmapped_power_of_two": 8192,
                "dynamic": False,
            },
        ),
        (
            {"mmap_threshold": 2 << 30},
            {
                "tunables": {"mmap_threshold": 2 << 30},
                "least_mmapped_power_of_two": None,
                "dynamic": False,
            },
        ),
        ({"top_pad": 0}, {"top_after_growth_bytes": 2128, "dynamic": False}),
        ({"hugetlb": 1}, {"tunables": {"hugetlb": 1}, "heap_end_is_huge_page_aligned": True}),
    ],
)
def test_glibc_settings_that_took_effect_agree(
    settings: dict[str, Value], observed: dict[str, Any]
):
    assert problems(recorded("glibc", **observed), "glibc", **settings) == []


@pytest.mark.parametrize(
    ("settings", "observed", "expected"),
    [
        (
            {"tcache_max": 5000},
            {"tunables": {"tcache_max": 5000}},
            "tcache_max = 5000 was not taken: 1032 is in effect",
        ),
        ({"tcache_count": 70000}, {}, "tcache_count = 70000 was not taken: 7 is in effect"),
        ({"mxfast": 200}, {}, "mxfast = 200 was not taken: 120 is in effect"),
        ({"arena_max": 0}, {}, "arena_max = 0 was not taken: 0 is in effect"),
        (
            {"mmap_threshold": 65536},
            {"tunables": {"mmap_threshold": 64}, "least_mmapped_power_of_two": 4096},
            "mmap_threshold = 65536 was not taken: 64 is in effect",
        ),
        (
            {"mmap_threshold": 65536},
            {
                "tunables": {"mmap_threshold": 65536},
                "least_mmapped_power_of_two": 65536,
                "dynamic": True,
            },
            "mmap_threshold = 65536 was not taken: 'the dynamic threshold' is in effect",
        ),
        (
            {"mmap_threshold": 64 << 20, "trim_threshold": 4096},
            {"tunables": {"mmap_threshold": 64 << 20, "trim_threshold": 4096}, "dynamic": False},
            "mmap_threshold = 67108864 was not taken: 131072 is in effect",
        ),
        ({"top_pad": 0}, {"dynamic": False}, "top_pad = 0 was not taken: 131072 is in effect"),
        (
            {"top_pad": 1 << 20},
            {"tunables": {"top_pad": 1 << 20}, "dynamic": False},
            "top_pad = 1048576 was not taken: 131072 is in effect",
        ),
        (
            {"hugetlb": 1},
            {"tunables": {"hugetlb": 1}, "heap_end_is_huge_page_aligned": False},
            "hugetlb = 1 was not taken: 0 is in effect",
        ),
    ],
)
def test_glibc_settings_that_were_clipped_or_dropped_are_reported(
    settings: dict[str, Value], observed: dict[str, Any], expected: str
):
    assert [expected] == problems(recorded("glibc", **observed), "glibc", **settings)


def test_a_switched_off_thread_cache_leaves_its_limit_to_the_range_check():
    report = recorded("glibc", tcache_count=0, tcache_max_bytes=0)
    assert problems(report, "glibc", tcache_count=0, tcache_max=512) == []
    assert problems(report, "glibc", tcache_count=0, tcache_max=5000) != []


def test_large_thread_cache_bins_are_believed_from_glibc_2_42_on():
    report = recorded("glibc", tcache_max_bytes=65536)
    new = replace(report, data={**report.data, "glibc_version": "2.42"})
    assert problems(new, "glibc", tcache_max=1 << 20) == []
    assert problems(report, "glibc", tcache_max=1 << 20) != []
