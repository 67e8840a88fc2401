"""The studies of a campaign and whose turn it is.

A joint campaign is one study with the allocator as a gene.  A separate one has
a study per allocator; they take turns batch by batch, so that the order of
trials does not depend on the budget and a finished campaign can be extended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.records import Configuration
from tuner.search import Strategy, make_strategy
from tuner.space import Genome, Space
from tuner.store import CampaignRecord


@dataclass(frozen=True)
class Study:
    """One space and the strategy that searches it."""

    space: Space
    strategy: Strategy


def make_studies(
    record: CampaignRecord, spaces: Sequence[Space], initial: Sequence[Configuration]
) -> list[Study]:
    """Make the studies of a campaign; nothing is asked yet.

    Args:
        record: the campaign.
        spaces: one space of all allocators, or one for each.
        initial: defaults and seeds; each study starts with those that lie in its
            space, which a campaign may have narrowed.
    """
    return [
        Study(
            space,
            make_strategy(
                record.strategy,
                space,
                len(record.objectives),
                population=record.population,
                seed=_study_seed(record.seed, index),
                initial=space.genomes_of(initial),
            ),
        )
        for index, space in enumerate(spaces)
    ]


def batches(studies: Sequence[Study]) -> Iterator[tuple[Study, list[Genome]]]:
    """Yield the batches in turn until every space is exhausted.

    The caller reports a batch before it takes the next one.
    """
    waiting = list(studies)
    while waiting:
        for study in list(waiting):
            genomes = study.strategy.ask()
            if genomes:
                yield study, genomes
            else:
                waiting.remove(study)


def _study_seed(seed: int, index: int) -> int:
    """Return a seed of its own for each study; the first keeps the campaign's."""
    if index == 0:
        return seed
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
