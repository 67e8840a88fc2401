"""Events are sorted by the life they belong to."""

from pathlib import Path

import numpy as np

from tests.doubles.traces import TraceMaker, load
from tuner.trace.file import EVENT
from tuner.trace.lives import find_lives


def test_a_slot_that_is_used_again_is_another_life(tmp_path: Path):
    maker = TraceMaker()
    first = maker.allocate(100)
    second = maker.allocate(50)
    maker.reallocate(first, 300)
    maker.free(first)
    assert maker.allocate(7) == first
    maker.free(second)
    found = find_lives(load(maker.write(tmp_path / "a.trace")))

    assert found.life.tolist() == [0, 1, 0, 0, 2, 1]
    assert found.tick.tolist() == [0, 1, 2, 2, 2, 3]
    assert found.births.tolist() == [0, 1, 4]
    assert [part.tolist() for part in np.split(found.steps, found.first_step[1:-1])] == [
        [2, 3], [5], [],
    ]  # fmt: skip
    assert found.largest.tolist() == [300, 50, 7]
    assert found.live_bytes.tolist() == [100, 150, 350, 50, 57, 7]


def test_no_events_are_no_lives():
    found = find_lives(np.empty(0, EVENT))

    assert len(found.births) == len(found.steps) == len(found.live_bytes) == 0
    assert found.first_step.tolist() == [0]
