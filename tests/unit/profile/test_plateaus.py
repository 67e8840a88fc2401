"""A longer profile repeats its level part, a shorter one leaves out of it."""

from pathlib import Path

import numpy as np
import pytest

from tests.doubles.traces import TraceMaker
from tests.doubles.varied import fitted, read, varied
from tuner.errors import SpecError
from tuner.profile.variation import Variation, vary


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_length_keeps_the_level_and_stretches_it(server: Path, factor: float):
    _, lives = read(server)
    _, new = varied(server, length=factor)
    assert len(new.births) == pytest.approx(factor * len(lives.births), rel=0.05)
    assert new.live_bytes.max() == pytest.approx(lives.live_bytes.max(), rel=0.02)
    middle = len(new.live_bytes) // 2
    level = lives.live_bytes[len(lives.live_bytes) // 2]
    assert np.abs(new.live_bytes[middle - 500 : middle + 500] - level).max() < 0.04 * level
    assert new.live_bytes[-1] == 0


def test_a_shorter_profile_keeps_its_level_and_its_end(server: Path):
    _, lives = read(server)
    _, new = varied(server, length=0.6)
    assert len(new.births) == pytest.approx(0.6 * len(lives.births), rel=0.08)
    assert new.live_bytes.max() == pytest.approx(lives.live_bytes.max(), rel=0.03)
    assert new.live_bytes[-1] == 0


def test_a_heap_that_is_never_level_cannot_be_longer(tmp_path: Path):
    maker = TraceMaker()
    for _ in range(2000):
        maker.allocate(100)
    profile = fitted(maker.write(tmp_path / "growing.trace"))
    with pytest.raises(SpecError, match=r"never level|as long"):
        vary(profile, Variation(length=0.2))
