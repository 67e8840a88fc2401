"""How well the emulator ranks what was measured: over all allocators, and within each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tuner import stats
from tuner.records import Configuration, Trial
from tuner.stats import Concordance

_LEAST_RANKED = 3
"""Fewer of one allocator rank nothing; over all allocators two do."""


@dataclass(frozen=True)
class Ranking:
    """Values of one objective against what was measured."""

    objective: str
    """Emulated."""
    metric: str
    """Measured."""
    allocator: str | None
    """None for the ranking over all allocators."""
    n: int
    """Number of configurations ranked."""
    tau: float | None
    """Kendall's tau-b, near values tied; None when one side is all ties."""
    concordance: Concordance | None
    """Over the pairs that differ by more than 1 % in reality; None when none does."""


def rank(
    objective: str, metric: str, values: Iterable[tuple[str, float, float]]
) -> Iterator[Ranking]:
    """Yield the ranking over all allocators, then within each that has enough configurations.

    Args:
        objective: what was emulated.
        metric: what was measured.
        values: allocator, emulated and measured value of each configuration.
    """
    rows = list(values)
    for allocator in (None, *dict.fromkeys(name for name, _, _ in rows)):
        pairs = [(a, b) for name, a, b in rows if allocator in (None, name)]
        if len(pairs) >= (2 if allocator is None else _LEAST_RANKED):
            emulated, real = [a for a, _ in pairs], [b for _, b in pairs]
            tau, share = stats.kendall_tau(emulated, real), stats.concordance(emulated, real)
            yield Ranking(objective, metric, allocator, len(pairs), tau, share)


def rank_trials(
    objective: str,
    metric: str,
    trials: Iterable[Trial],
    measured: Iterable[tuple[Configuration, float]],
) -> Iterator[Ranking]:
    """Yield the rankings of what a campaign emulated.

    Args:
        objective: what was emulated.
        metric: what was measured.
        trials: of the campaign.
        measured: configurations with their values; those without a good trial are left out.
    """
    known = {trial.configuration: trial.measurement for trial in trials}
    values = [
        (configuration.allocator, emulated.value(objective), value)
        for configuration, value in measured
        if (emulated := known.get(configuration))
    ]
    yield from rank(objective, metric, values)
