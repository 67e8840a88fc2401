"""Sizes, intensity and threads of a profile scale as their factors promise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.doubles.traces import TraceMaker, write_mixed_trace
from tests.doubles.varied import fitted, read, varied
from tuner.trace.file import Op
from tuner.trace.lives import Lives


def curve(lives: Lives) -> Any:
    places = np.linspace(0, len(lives.live_bytes) - 1, 200).astype(int)
    return lives.live_bytes[places]


def test_size_scales_the_live_curve(server: Path):
    _, lives = read(server)
    _, new = varied(server, size=2.5)
    off = np.abs(curve(new) - 2.5 * curve(lives))
    assert off.max() < 0.005 * new.live_bytes.max()


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 5.5])
def test_intensity_scales_the_live_curve_and_the_allocations(server: Path, factor: float):
    _, lives = read(server)
    _, new = varied(server, intensity=factor)
    assert len(new.births) == pytest.approx(factor * len(lives.births), rel=0.01)
    off = np.abs(curve(new) - factor * curve(lives))
    assert off.max() < 0.045 * factor * lives.live_bytes.max()


def test_intensity_scales_a_few_large_blocks_in_size(tmp_path: Path):
    maker = TraceMaker()
    maker.allocate(10_000_000)
    for _ in range(500):
        maker.free(maker.allocate(100))
    events, _ = varied(fitted(maker.write(tmp_path / "giant.trace")), intensity=0.5)
    assert events["size"].max() == 5_000_000


def test_added_threads_do_what_the_workers_do(tmp_path: Path):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 3, 6000))
    events, _ = read(profile)
    made, _ = varied(profile, threads=7)
    births = np.bincount(events["thread"][events["op"] <= Op.ALIGNED])
    found = np.bincount(made["thread"][made["op"] <= Op.ALIGNED])
    assert found[0] == births[0]
    assert sorted(found[1:].tolist()) == sorted([*births[1:].tolist()] * 3)


def test_threads_of_a_program_without_repeat_the_first(server: Path):
    _, lives = read(server)
    made, new = varied(server, threads=3)
    assert len(new.births) == 3 * len(lives.births)
    assert new.live_bytes.max() == pytest.approx(3 * lives.live_bytes.max(), rel=0.02)
    frees = made[made["op"] == Op.FREE]
    assert (frees["owner"] == frees["thread"]).all(), "each stays with its own"


def test_fewer_threads_leave_out_what_they_allocated(tmp_path: Path):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 4, 4000))
    events, _ = read(profile)
    made, new = varied(profile, threads=2)
    is_kept = (events["op"] <= Op.ALIGNED) & (events["thread"] < 2)
    assert len(new.births) == is_kept.sum()
    assert made["thread"].max() == 1


def test_what_stays_untouched_grows_with_the_blocks(tmp_path: Path):
    maker = TraceMaker()
    grown = maker.allocate(40960, untouched=4)
    maker.reallocate(grown, 81920, untouched=0)
    maker.allocate(40960, untouched=10)
    maker.allocate(40960)
    profile = fitted(maker.write(tmp_path / "parts.trace"))
    assert varied(profile, size=2.5)[0]["touch"].tolist() == [11, 1, 26, 0]
    # Never more than fit into the smaller block.
    assert varied(profile, size=0.33)[0]["touch"].tolist() == [2, 1, 4, 0]
    assert varied(profile, intensity=2.0)[0]["touch"].max() <= 21
