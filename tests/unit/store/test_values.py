"""What a record of the store says about itself."""

from dataclasses import replace

import pytest

from tests.doubles import synthetic
from tuner.records import Configuration, Outcome, Status
from tuner.store import ValidationRecord, ValidationSample, WorkloadRecord
from tuner.store.values import RealMeasurement


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
):
    record = replace(synthetic.record(), workload=WorkloadRecord(recorded_with=library))

    assert record.brought_allocator == brought


def test_the_baseline_is_glibc_where_it_takes_part():
    record = synthetic.record()
    turned = replace(record, allocators=dict(reversed(list(record.allocators.items()))))
    alone = replace(record, allocators={"jemalloc": record.allocators["jemalloc"]})

    assert (record.baseline, turned.baseline, alone.baseline) == ("glibc", "glibc", "jemalloc")


def test_the_reason_of_a_failure_is_the_first_of_its_own_subject():
    def sample(label: str, reason: str | None) -> ValidationSample:
        outcome = (
            Outcome.did_not_succeed(Status.FAILED, reason)
            if reason
            else Outcome.succeeded(RealMeasurement())
        )
        return ValidationSample(0, 0, label, Configuration("glibc"), None, outcome)

    found = ValidationRecord(
        ("app",),
        1,
        "a",
        samples=(sample("b", "of b"), sample("a", None), sample("a", "1st"), sample("a", "2nd")),
    )

    assert (found.failure("a"), found.failure("b"), found.failure("c")) == ("1st", "of b", None)
