"""What a record of the store says about itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doubles import synthetic
from tuner.store import WorkloadRecord


@pytest.mark.parametrize(
    ("library", "brought"),
    [
        (None, None),
        ("", None),
        ("/lib/x86_64-linux-gnu/libc.so.6", None),
        ("/lib/libc-2.31.so", None),
        ("/lib/ld-musl-x86_64.so.1", None),
        ("/opt/redis/libjemalloc.so.2", "libjemalloc.so.2"),
        ("/opt/libcollector/libcmalloc.so", "libcmalloc.so"),
    ],
)
def test_an_allocator_is_brought_unless_it_is_the_c_librarys(
    library: str | None, brought: str | None
) -> None:
    record = replace(synthetic.record(), workload=WorkloadRecord(recorded_with=library))

    assert record.brought_allocator == brought


def test_the_baseline_is_glibc_where_it_takes_part() -> None:
    record = synthetic.record()
    turned = replace(record, allocators=dict(reversed(list(record.allocators.items()))))
    alone = replace(record, allocators={"jemalloc": record.allocators["jemalloc"]})

    assert (record.baseline, turned.baseline, alone.baseline) == ("glibc", "glibc", "jemalloc")


def test_a_campaign_from_before_the_option_had_no_huge_pages() -> None:
    assert replace(synthetic.record(), emulation={}).huge_pages == "never"
    assert replace(synthetic.record(), emulation={"thp": "keep"}).huge_pages == "keep"
