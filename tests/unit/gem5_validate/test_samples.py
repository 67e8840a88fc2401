"""Samples at fixed ticks, as the script that gem5 executes takes them."""

from __future__ import annotations

import importlib.util
import mmap
from itertools import count
from types import ModuleType

import pytest

from tests.doubles.places import ROOT

MIB = 1 << 20


@pytest.fixture(scope="module")
def samples() -> ModuleType:
    """Load it as gem5 does: by its path, beside no package."""
    path = ROOT / "gem5-validate" / "samples.py"
    spec = importlib.util.spec_from_file_location("samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n_intervals", [1, 127, 128, 129, 1000, 5000])
def test_samples_are_those_of_fixed_intervals_however_long_it_runs(
    samples: ModuleType, n_intervals: int
) -> None:
    """The clock is what is sampled, so each sample says when it was taken."""
    tick = 0
    taken = samples.Samples(lambda: tick)
    end = n_intervals * samples.FIRST_TICKS
    while taken.next_tick <= end:
        tick = taken.next_tick
        taken.add()
    distance = taken.interval_ticks
    assert taken.values == list(range(distance, len(taken.values) * distance + 1, distance))
    assert 0 <= end - taken.values[-1] < distance
    assert len(taken.values) < samples.CAPACITY


def test_few_samples_are_taken(samples: ModuleType) -> None:
    numbers = count()
    taken = samples.Samples(lambda: next(numbers))
    while taken.next_tick <= 10**6 * samples.FIRST_TICKS:
        taken.add()
    assert next(numbers) < 15 * samples.CAPACITY


def test_anonymous_memory_grows_by_what_is_written(samples: ModuleType) -> None:
    memory = samples.OwnMemory()
    memory.anonymous_bytes()  # the first call fills caches
    before = memory.anonymous_bytes()
    with mmap.mmap(-1, 8 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block[: 4 * MIB] = bytes(4 * MIB)
        grown = memory.anonymous_bytes() - before
        assert 4 * MIB <= grown <= 9 * MIB  # bytes() itself may stay with malloc
        block.madvise(mmap.MADV_FREE)
        assert memory.anonymous_bytes() - before == grown - 4 * MIB
