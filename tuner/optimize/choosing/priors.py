"""What emulation expects of settings that it did not try: the mean of what runs are fitted with.

Of few runs that vary, emulation knows better what a setting does; as far as the runs do not bear it
out, it is not trusted (`tuner.search.surrogate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tuner.optimize.choosing.proposals import Proposal
from tuner.records import Configuration
from tuner.search.surrogate import FITTING_STEPS, Surrogate, features_of
from tuner.space import Space

Priors: TypeAlias = Mapping[str, Surrogate]
"""Quantity -> what is expected of every genome, as `Proposal.expected`."""


def priors_of(
    space: Space, proposals: Sequence[Proposal], as_is: Configuration | None
) -> dict[str, Surrogate]:
    """Return what emulation expects of every genome; nothing where it tried no setting.

    Args:
        space: what can be set.
        proposals: what is expected of settings; those that emulation did not try are left out.
        as_is: what the program runs under, which changes nothing; None: a setting of its own.
    """
    points = [(one.configuration, one.expected) for one in proposals if one.trial is not None]
    if as_is is not None and points:
        points.append((as_is, dict.fromkeys(points[0][1], 0.0)))
    genomes = [(space.genome_of(configuration), expected) for configuration, expected in points]
    known = [(genome, expected) for genome, expected in genomes if genome is not None]
    if not known:
        return {}
    features = features_of(space)
    seen = features.of([genome for genome, _ in known])
    found = {}
    for name in known[0][1]:
        found[name] = Surrogate(features.gene, len(space.parameters))
        values = np.array([expected[name] for _, expected in known])
        found[name].fit(*seen, values, n_steps=FITTING_STEPS)
    return found
