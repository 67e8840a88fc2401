"""What was proposed already, and the walk that finds what was not."""

import numpy as np
import pytest

from tuner.search import novelty
from tuner.search.novelty import Novelty
from tuner.space import Parameter, Space, joint_space


@pytest.fixture
def space() -> Space:
    """Return 64 genomes."""
    scales = [Parameter(f"glibc.{n}", (None, 1, 2, 4), ordered=True) for n in ("a", "b", "c")]
    return joint_space({"glibc": scales})


def test_what_the_walk_came_by_and_was_not_proposed_is_found_again(
    space: Space, monkeypatch: pytest.MonkeyPatch
):
    """`auto` draws more than it proposes; near the end of a large space chance finds nothing."""
    monkeypatch.setattr(novelty, "_MAX_DRAWS", 0)
    rng = np.random.default_rng(1)
    known = Novelty(space)
    drawn = known.draw(rng, 10)
    for genome in drawn[:4]:
        known.add(genome)

    left = known.draw(rng, 100, besides=drawn[4:6])

    assert drawn[6:] == left[:4]
    assert len({*drawn, *left}) == len(left) + 6 == 64
    assert len(known.draw(rng, 100)) == 60
