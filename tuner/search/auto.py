"""NSGA-II of pymoo whose children a model sifts: the default.

Six times as many children are born as there is room for, and twice as many genomes one change from
the front are looked at.  A model of each objective (`tuner.search.surrogate`), fitted to the
results so far, predicts all of them, and nine tenths of the generation are those that promise to go
farthest beyond the front; the rest are children as they come, in case the model is wrong.  The
search starts around the initial genomes, which are defaults and known-good settings, since most
random settings of an allocator are bad.

What is more than a tenth worse than the worst initial genome in an objective is of little use, and
adds nothing to the hypervolume of a campaign.  So all objectives of a point are multiplied by what
it exceeds these limits by, before points are compared: it counts only where it gains more in one
objective than it loses in another.

Where results are noisy the best of them were lucky.  There the front, and the parents of children,
are those by what is likely: of what a result differs by from its prediction, the share that is
noise does not count.

Predictions are rounded before they are compared, since libraries of linear algebra differ in the
last digits from machine to machine and a campaign is resumed by proposing again.  They use one
core: with more, sums are added in another order, and threads that wait take more CPU time than
matrices of this size are worth.

Source: Deb et al. 2002, as in `tuner.search.pymoo_nsga2`.  Sifting: Jin, "Surrogate-assisted
evolutionary computation", Swarm Evol. Comput. 1(2), 2011, section 4 (pre-selection).  Promise: the
additive epsilon indicator of Zitzler et al., IEEE Trans. Evol. Comput. 7(2), 2003, of one point
against the front.  A chosen child counts as measured for the next choice: the kriging believer of
Ginsbourger, Le Riche, Carraro 2010.  Shares and factors: `benchmarks/search.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from pymoo.core.selection import Selection
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

from tuner.search.base import Told
from tuner.search.novelty import Novelty
from tuner.search.operators import change_one, mutate
from tuner.search.pymoo_nsga2 import NewOffspring, PymooNsga2, Select
from tuner.search.surrogate import Floats, Surrogate, features_of, on_one_core
from tuner.space import Genome, Space

_BIRTHS: Final = 6
"""Children that are born for each one that is proposed."""
_BESIDE: Final = 12
"""Genomes one change from the front that are looked at for each one that is proposed."""
_SIFTED: Final = 0.9
"""Share of a generation that the model chooses."""
_MOST_CHANGES: Final = 8
"""Mutations between an initial genome and those that start around it."""
_PRICE_OF_VIOLATION: Final = 2.0
"""What a constraint that is broken by 100 % takes from a promise, in logarithms of objectives."""
_MOST_OBSERVATIONS: Final = 256
"""That the models are fitted to; the time of a fit grows with the cube."""
_BEYOND_WORST: Final = 1.1
"""Times the worst initial result of an objective: its limit, as of a campaign's hypervolume."""
_DIGITS: Final = 6
"""Of predictions, which are logarithms."""


class Auto(PymooNsga2):
    """One batch is one generation."""

    name = "auto"

    def __init__(
        self,
        space: Space,
        n_objectives: int,
        population: int,
        seed: int,
        initial: Sequence[Genome],
        *,
        priors: Sequence[Surrogate | None] = (),
    ) -> None:
        """See `tuner.search.make_strategy`."""
        self._models = Models(space, n_objectives, initial, priors)
        super().__init__(space, n_objectives, population, seed, initial)

    def _draw_start(self, rng: np.random.Generator, n: int) -> list[Genome]:
        near: list[Genome] = []
        for number in range(n if self._initial else 0):
            genome = self._initial[number % len(self._initial)]
            for _ in range(int(rng.integers(1, _MOST_CHANGES + 1))):
                genome = mutate(self._space, genome, rng)
            near += self._novelty.only_new([genome], self._initial + near)
        return near + self._novelty.draw(rng, n - len(near), self._initial + near)

    def _make_mating(self) -> NewOffspring:
        return _SiftedOffspring(self._space, self._novelty, self._make_selection(), self._models)

    def _learn(self, results: Sequence[Told]) -> None:
        self._models.learn(results)
        super()._learn([self._models.as_ranked(one) for one in results])


class _SiftedOffspring(NewOffspring):
    """Mating of which the models choose."""

    n_matings = 4
    """Near the end of a small space there are not as many children as are to be born."""

    def __init__(self, space: Space, novelty: Novelty, select: Selection, models: Models) -> None:
        super().__init__(space, novelty, select)
        self._models = models

    def _new(
        self, parents: Sequence[Genome], select: Select, n: int, rng: np.random.Generator
    ) -> list[Genome]:
        if not self._models.can_predict:
            return super()._new(parents, select, n, rng)
        likely = self._models.look()
        if len(likely) > 1:
            parents, select = likely, partial(_any_pairs, rng, len(likely))
        born = self._filled_up(self._born(parents, select, n * _BIRTHS, rng), n, rng)
        born += self._neighbours(born, n * _BESIDE, rng)
        if len(born) <= n:
            return born
        n_sifted = round(n * _SIFTED)
        chosen = self._models.choose(born, n_sifted, rng)
        others = sorted(set(range(len(born))) - set(chosen))
        return [born[index] for index in chosen + others[: n - n_sifted]]

    def _neighbours(self, born: Sequence[Genome], n: int, rng: np.random.Generator) -> list[Genome]:
        """Return up to `n` genomes that are new and one change from a point of the front."""
        front = self._models.front()
        if not front:
            return []
        points = [front[i] for i in rng.integers(len(front), size=n).tolist()]
        chosen = [alike[int(rng.integers(len(alike)))] for alike in points]
        return self._novelty.only_new((change_one(self._space, g, rng) for g in chosen), born)


def _any_pairs(rng: np.random.Generator, n_parents: int, n_pairs: int) -> list[list[int]]:
    found: list[list[int]] = rng.integers(n_parents, size=(n_pairs, 2)).tolist()
    return found


class Models:
    """What all results so far say about genomes that were not measured."""

    def __init__(
        self,
        space: Space,
        n_objectives: int,
        initial: Sequence[Genome] = (),
        priors: Sequence[Surrogate | None] = (),
    ) -> None:
        """Start without results; the worst of the initial genomes will set the limits."""
        self._initial = set(map(space.canonical, initial))
        self._features = features_of(space)
        self._n_genes = len(space.parameters)
        known = priors or [None] * n_objectives
        self._objectives = [self._surrogate(prior) for prior in known]
        self._constraints: list[Surrogate] = []
        self._results: list[Told] = []
        self.likely_front: list[Genome] = []
        """Of noisy results, those that are likely to be dominated by no other; else empty."""
        self._limits = np.full(n_objectives, np.inf)  # logarithms
        self._is_fitted = False
        """Whether a look fitted the models for the next choice."""
        self._front: Floats = np.empty((0, n_objectives))
        """Predicted logarithms of the best results, (n, n_objectives)."""

    def _surrogate(self, prior: Surrogate | None = None) -> Surrogate:
        return Surrogate(self._features.gene, self._n_genes, prior)

    @property
    def can_predict(self) -> bool:
        """True once there are two results with objectives."""
        return sum(map(_is_measured, self._results)) > 1

    def learn(self, results: Sequence[Told]) -> None:
        """Take in the results of a batch."""
        self._results += results
        self._is_fitted = False
        first = [one for one in self._results if _is_measured(one) and one.genome in self._initial]
        if first:
            worst = np.array([one.objectives for one in first], dtype=np.float64).max(axis=0)
            self._limits[worst > 0.0] = np.log(worst[worst > 0.0] * _BEYOND_WORST)

    def as_ranked(self, result: Told) -> Told:
        """Return a result as it is compared with others: beyond the limits all objectives grow."""
        if result.objectives is None:
            return result
        (ranked,) = self._as_ranked([result])
        return replace(result, objectives=tuple(ranked.tolist()))

    def _as_ranked(self, results: Sequence[Told]) -> Floats:
        values = np.array([one.objectives for one in results], dtype=np.float64)
        with np.errstate(divide="ignore"):  # zero exceeds nothing
            logarithms = np.log(values)
        return np.asarray(values * np.exp(_excess(logarithms, self._limits)))

    def front(self) -> list[list[Genome]]:
        """Return the genomes of each point that no other feasible result dominates.

        Of noisy results those that are likely to be so.
        """
        if self.likely_front:
            return [[genome] for genome in self.likely_front]
        good = [one for one in self._results if _is_measured(one) and one.violation == 0.0]
        if not good:
            return []
        points: dict[tuple[float, ...] | None, list[Genome]] = {}
        for index in _non_dominated(self._as_ranked(good)):
            points.setdefault(good[index].objectives, []).append(good[index].genome)
        return list(points.values())

    def choose(self, genomes: Sequence[Genome], n: int, rng: np.random.Generator) -> list[int]:
        """Return the indices of the `n` genomes that promise most, best first.

        How optimistic a choice is, is drawn anew each time: standard deviations below the mean,
        half-normal.
        """
        with on_one_core():
            return self._choose(genomes, n, rng)

    def look(self) -> list[Genome]:
        """Return the likely front of all results so far; empty where these are not noisy."""
        if any(any(one.noise) for one in self._results):
            with on_one_core():
                self._look()
        return self.likely_front

    def _look(self) -> None:
        """Fit the models to the results so far."""
        self._is_fitted = True
        known = self._worth_fitting()
        seen = self._features.of([result.genome for result in known])
        values = _logarithms(np.array([result.objectives for result in known], dtype=np.float64))
        values = self._fit(known, seen, values)
        best = self._best(known, seen, values)
        self._front = self._means((seen[0][best], seen[1][best]))

    def _choose(self, genomes: Sequence[Genome], n: int, rng: np.random.Generator) -> list[int]:
        if not self._is_fitted:
            self._look()
        self._is_fitted = False  # each fit goes on from the last one
        asked = self._features.of(genomes)
        predicted = np.round([model.predict(*asked) for model in self._objectives], _DIGITS)
        means, deviations = predicted.transpose(1, 2, 0)
        optimism = np.abs(rng.normal(size=n))
        penalties = self._penalties(asked)
        return _most_promising(self._front, (means, deviations), self._limits, penalties, optimism)

    def _fit(self, known: Sequence[Told], seen: tuple[Floats, Floats], values: Floats) -> Floats:
        """Fit the models; return the logarithms of results as they count."""
        features, active = seen
        believed = values.copy()
        for number, model in enumerate(self._objectives):
            rows = [i for i, result in enumerate(known) if number not in result.bounded]
            is_noisy = np.array([any(known[i].noise[number : number + 1]) for i in rows])
            believed[rows, number] = model.fit(
                features[rows], active[rows], values[rows, number], is_single=is_noisy
            )
        return believed

    def _means(self, asked: tuple[Floats, Floats]) -> Floats:
        """Return the predicted logarithms of objectives, (n_genomes, n_objectives)."""
        return np.round([model.predict(*asked)[0] for model in self._objectives], _DIGITS).T

    def _best(
        self, known: Sequence[Told], seen: tuple[Floats, Floats], values: Floats
    ) -> npt.NDArray[np.int64]:
        """Return the indices of those that no other dominates, or of noisy ones likely does."""
        measured = [index for index, result in enumerate(known) if _is_measured(result)]
        feasible = [index for index in measured if known[index].violation == 0.0]
        among = np.array(feasible or measured or range(len(known)))
        is_noisy = any(any(result.noise) for result in known)
        likely = self._likely(known, seen, values) if is_noisy else values
        best = among[_non_dominated(_ranked(likely[among], self._limits))]
        self.likely_front = [known[index].genome for index in best] if is_noisy else []
        return np.asarray(best)

    def _likely(self, known: Sequence[Told], seen: tuple[Floats, Floats], values: Floats) -> Floats:
        """Return logarithms of noisy results, nearer to their predictions."""
        exact = (0.0,) * len(self._objectives)
        noise = np.array([result.noise or exact for result in known], dtype=np.float64)
        unexplained = np.array([model.noise for model in self._objectives])
        shares = np.minimum(1.0, (noise / unexplained) ** 2)
        # Where noise explains all, those that are predicted alike are alike.
        likely = values - shares * (values - self._means(seen))
        return np.asarray(np.round(likely, _DIGITS))

    def _worth_fitting(self) -> list[Told]:
        """Return the results with objectives; of too many the non-dominated and the newest."""
        known = [result for result in self._results if result.objectives is not None]
        if len(known) <= _MOST_OBSERVATIONS:
            return known
        best = set(_non_dominated(np.array([result.objectives for result in known])).tolist())
        order = sorted(range(len(known)), key=lambda i: (i in best, _is_measured(known[i]), i))
        return [known[i] for i in sorted(order[-_MOST_OBSERVATIONS:])]

    def _penalties(self, asked: tuple[Floats, Floats]) -> Floats:
        """Return what the constraints that a genome is expected to break take from its promise.

        How near a constraint is, is learnt where that is known, from settings that keep it too.
        """
        recent = self._results[-_MOST_OBSERVATIONS:]
        near = [one for one in recent if one.excess]
        columns = list(np.array([one.excess for one in near], dtype=np.float64).T)
        seen = [(near, column) for column in columns]
        violations = np.array([0.0 if one.excess else one.violation for one in recent])
        if violations.any():
            seen.append((recent, np.log1p(violations)))
        self._constraints += (self._surrogate() for _ in range(len(seen) - len(self._constraints)))
        price = np.zeros(len(asked[0]))
        for model, (results, values) in zip(self._constraints, seen, strict=False):
            model.fit(*self._features.of([one.genome for one in results]), values)
            expected = np.round(model.predict(*asked)[0], _DIGITS)
            price += _PRICE_OF_VIOLATION * np.maximum(expected, 0.0)
        return price


def _is_measured(result: Told) -> bool:
    return result.objectives is not None and not result.bounded


def _non_dominated(values: Floats) -> npt.NDArray[np.int64]:
    """Return the indices of the non-dominated rows of (n, n_objectives)."""
    return np.asarray(NonDominatedSorting().do(values, only_non_dominated_front=True))


def _logarithms(values: Floats) -> Floats:
    """Return logarithms, (n, n_objectives); zero counts as the least positive number, at most 1."""
    least = [column[column > 0.0].min(initial=1.0) for column in values.T]
    return np.asarray(np.log(np.maximum(values, least)))


def _excess(logarithms: Floats, limits: Floats) -> Floats:
    """Return what points, (n, n_objectives), exceed all their limits by together, (n, 1)."""
    return np.asarray(np.maximum(logarithms - limits, 0.0).sum(axis=1, keepdims=True))


def _ranked(logarithms: Floats, limits: Floats) -> Floats:
    """Return logarithms, (n, n_objectives), as they are compared: see `Models.as_ranked`."""
    return np.asarray(logarithms + _excess(logarithms, limits))


def _most_promising(
    front: Floats,
    predicted: tuple[Floats, Floats],
    limits: Floats,
    penalties: Floats,
    optimism: Floats,
) -> list[int]:
    """Choose one for each degree of optimism; a chosen one counts as measured for the next.

    `predicted` are means and deviations.
    """
    chosen: list[int] = []
    means, deviations = predicted
    front = _ranked(front, limits)
    for degree in optimism:
        hoped = _ranked(means - degree * deviations, limits)
        promise = beyond(front, hoped) - penalties
        promise[chosen] = -np.inf
        chosen.append(int(np.argmax(promise)))
        front = np.vstack([front, _ranked(means[chosen[-1:]], limits)])
    return chosen


def beyond(front: Floats, points: Floats) -> Floats:
    """Return how far each point lies beyond a front: the least that all its objectives may lose.

    Args:
        front: (n_front, n_objectives), minimised, not empty.
        points: (n, n_objectives).

    Returns:
        (n,): negative for points that the front dominates.

    Example:
        >>> front = np.array([[0.0, 2.0], [2.0, 0.0]])
        >>> beyond(front, np.array([[0.5, 0.5], [1.0, 3.0], [0.0, 2.0], [-1.0, 2.5]])).tolist()
        [1.5, -1.0, 0.0, 1.0]
    """
    return np.asarray((front[None, :, :] - points[:, None, :]).max(axis=2).min(axis=1))
