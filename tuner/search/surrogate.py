"""A Gaussian process over genomes: what each setting does, and what settings do together.

The covariance of two genomes is a sum of parts: one for each gene, which is an effect of that
gene alone, and one that falls with the distance of the genomes, for interactions.  Levels of a
scale are correlated by their distance; categories, unset and special values with themselves only.
A gene that is inactive in one of the two has no part; behind a closed switch that is no setting
itself it is at its resting level, since the switch opens when it is set.  So a setting that does
nothing gets no variance, and an allocator's settings say nothing about another's.

The variances are fitted by a few steps of the minorise-maximise algorithm for variance components,
which needs no gradient and never leaves the positive numbers, from where the last fit ended.

A run now and then is far from all that is like it, as where a collector of garbage comes a moment
sooner.  The process would take that for what its setting does, and the luckiest runs of many would
make the front.  So a single run counts as no better, against what the others predict, than most
are; unless few others are like it, as of an allocator that ran but once.

What a cheaper source expects may be the mean of the process: as far as the observations go with
it, it is trusted, and the process explains what is left.

Source: Duvenaud, Nickisch, Rasmussen, "Additive Gaussian Processes", NeurIPS 2011 (the sum of
parts).  Zhou, Hu, Zhou, Lange, "MM algorithms for variance components models", J. Comput. Graph.
Stat. 28(2), 2019, eq. (3) (the steps).  Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, eq. (2.25) and (2.26) (the predictions), (5.12) (what the others predict).
Kennedy, O'Hagan, "Predicting the output from a complex computer code when fast approximations are
available", Biometrika 87(1), 2000, eq. (1) (the mean).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from tuner.records import Value
from tuner.space import Genome, Parameter, Space
from tuner.stats import robust_sd

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_CORRELATION_LENGTH: Final = 0.3
"""Of levels along a scale, as a share of the scale."""
_STEPS: Final = 4
"""Of the variances, each time the process is fitted to few observations."""
_FEW: Final = 100
"""With more than these a fit takes the variances of the last one, and a step from there is what
the next one takes: one inverse instead of two."""
FITTING_STEPS: Final = 4
"""That suit a process which is fitted once: it has no fit before it to take the variances of."""
_DISTANCE: Final = 3.0
"""Of two genomes that differ in every active gene; the interactions fade as exp(-distance)."""
_LEAST: Final = 1e-6
"""The least variance, as a share of that of the observations: more would be lost to rounding."""
_LUCKIEST: Final = 3.0
"""Standard deviations of what most single runs are off by, that one may gain by luck."""
_ALIKE: Final = 0.5
"""Of the active genes of a genome, those that one like it has active, too."""
_FEW_ALIKE: Final = 10
"""With fewer that are like it, nothing says that a genome was lucky."""


class Features:
    """Turns genomes into numbers: products of these are the parts of the covariance."""

    def __init__(self, space: Space) -> None:
        """Prepare the levels of every gene."""
        self._space = space
        self._codes = [_codes(parameter) for parameter in space.parameters]
        sizes = [len(code) for code in self._codes]
        self._ends = np.cumsum(sizes).tolist()
        self.gene = np.repeat(np.arange(len(sizes)), sizes)
        """The gene of each feature, (n_features,) int64."""
        places = {parameter.name: place for place, parameter in enumerate(space.parameters)}
        gated = ((i, one.condition) for i, one in enumerate(space.parameters) if one.condition)
        gates = [(gene, places[condition.parameter]) for gene, condition in gated]
        self._unset_when_closed = [
            (gene, gate) for gene, gate in gates if space.parameters[gate].is_structural
        ]

    def of(self, genomes: Sequence[Genome]) -> tuple[Floats, Floats]:
        """Return features (n_genomes, n_features), and which genes are active (.., n_genes)."""
        active = np.array([self._space.active(genome) for genome in genomes], dtype=np.float64)
        for gene, gate in self._unset_when_closed:
            active[:, gene] = active[:, gate]
        levels = np.array(genomes, dtype=np.int64)
        features = np.zeros((len(genomes), len(self.gene)))
        genes, rows = active.T.nonzero()  # few: of one allocator only
        ends = np.searchsorted(genes, range(1, len(self._codes) + 1)).tolist()
        for gene, (begin, end) in enumerate(pairwise([0, *ends])):
            code, last = self._codes[gene], self._ends[gene]
            if begin < end:
                of_gene = rows[begin:end]
                features[of_gene, last - len(code) : last] = code[levels[of_gene, gene]]
        return features, active


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let linear algebra use one core: see `tuner.search.auto`."""
    with _libraries().limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the libraries of linear algebra, which are looked for among all that are loaded."""
    return ThreadpoolController()


@lru_cache(maxsize=8)
def features_of(space: Space) -> Features:
    """Return the features of a space, prepared once."""
    return Features(space)


def _codes(parameter: Parameter) -> Floats:
    """Return a row for each level; the products of rows are the correlations of levels."""
    n = parameter.n_levels
    correlation = np.eye(n)
    if parameter.ordered:
        places = np.array([i for i, level in enumerate(parameter.levels) if _is_on_scale(level)])
        if len(places) > 1:
            between = np.abs(np.subtract.outer(places, places)) / (len(places) - 1)
            correlation[np.ix_(places, places)] = np.exp(-between / _CORRELATION_LENGTH)
    return np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)


def _is_on_scale(level: Value | None) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool) and level > 0


class Surrogate:
    """Predicts one number of a genome from those of others."""

    def __init__(
        self, gene: npt.NDArray[np.int64], n_genes: int, prior: "Surrogate | None" = None
    ) -> None:
        """Start without observations; every gene is as likely to matter.

        Args:
            gene: the gene of each feature, of `Features`.
            n_genes: number of genes.
            prior: what a cheaper source expects, fitted, of the same genes; None: nothing is known.
        """
        self._gene = gene
        self._n_genes = n_genes
        self._prior = prior
        self._trust = 0.0
        self._variances = np.full(n_genes + 2, 1.0 / (n_genes + 2))
        self._improved = self._variances

    def fit(
        self,
        features: Floats,
        active: Floats,
        values: Floats,
        *,
        is_single: Mask | None = None,
        n_steps: int | None = None,
    ) -> Floats:
        """Learn from observations; return these as they count, (n,).

        Args:
            features: (n, n_features), of `Features.of`.
            active: (n, n_genes).
            values: (n,), finite.
            is_single: (n,), which of them may be lucky runs; None: none.
            n_steps: of the variances; None suits a process that is fitted again and again.
        """
        # Levels that nothing observed has are most of the features, and add only zeros.
        self._seen = np.flatnonzero(features.any(axis=0))
        self._features, self._active = features[:, self._seen], active
        expected = self._expected(features, active)
        self._trust = _slope(expected, values)
        left = values - self._trust * expected
        self._explain(left, n_steps)
        luck = self._luck(is_single)
        if luck.any():
            self._explain(left - luck, n_steps)
        return values - luck

    def _expected(self, features: Floats, active: Floats) -> Floats:
        """Return what the cheaper source expects, (n,); zeros where there is none."""
        return (
            np.zeros(len(features))
            if self._prior is None
            else self._prior.predict(features, active)[0]
        )

    def _luck(self, is_single: Mask | None) -> Floats:
        """Return by how much more single runs gain, against the others, than most do: (n,)."""
        if is_single is None or not is_single.any():
            return np.zeros_like(self._weights)
        residuals = np.asarray(self._scale * self._weights / np.diag(self._inverse))
        most = _LUCKIEST * robust_sd(residuals[is_single].tolist())
        return np.where(is_single & self._has_alike(), np.minimum(residuals + most, 0.0), 0.0)

    def _has_alike(self) -> Mask:
        """Return which observations have several others of the same active genes."""
        shared = self._active @ self._active.T
        is_alike = shared >= _ALIKE * np.diag(shared)[:, None]
        return np.asarray(is_alike.sum(axis=1) > _FEW_ALIKE)

    def _explain(self, values: Floats, n_steps: int | None) -> None:
        self._middle = float(np.mean(values))
        self._scale = float(np.std(values)) or 1.0
        centred = (values - self._middle) / self._scale
        self._take(self._improved, centred)
        for _ in range(n_steps or (_STEPS if len(values) <= _FEW else 0)):
            self._take(self._improved, centred)

    def _take(self, variances: Floats, centred: Floats) -> None:
        """Explain the observations by these variances, and look where a step from them leads."""
        self._variances = variances
        joint = self._joint(self._features, self._active)
        self._inverse: Floats = np.asarray(np.linalg.inv(self._covariance(joint)), dtype=np.float64)
        self._weights: Floats = self._inverse @ centred
        improved = variances * np.sqrt(self._ratios(joint))
        self._improved = np.maximum(improved, _LEAST)

    @property
    def noise(self) -> float:
        """Standard deviation of what genes do not explain of the observations, above 0."""
        return self._scale * math.sqrt(float(self._variances[-1]))

    def predict(self, features: Floats, active: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of genomes, each (n,)."""
        seen = features[:, self._seen]
        joint = self._joint(seen, active)
        across = (seen * self._variances_of_seen) @ self._features.T + self._variances[-2] * joint
        mean = across @ self._weights
        own = (features**2) @ self._variances[self._gene] + self._variances[-2]
        variance = own - np.einsum("ij,ij->i", across @ self._inverse, across)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        before = self._trust * self._expected(features, active)
        return before + self._middle + self._scale * mean, self._scale * deviation

    @property
    def _variances_of_seen(self) -> Floats:
        """The variance of each feature that was observed."""
        return self._variances[self._gene[self._seen]]

    def _covariance(self, joint: Floats) -> Floats:
        found: Floats = np.asarray((self._features * self._variances_of_seen) @ self._features.T)
        found += self._variances[-2] * joint
        found[np.diag_indices_from(found)] += self._variances[-1]
        return found

    def _joint(self, features: Floats, active: Floats) -> Floats:
        """Return what falls with the distance to the observations, (n, n_observations)."""
        shares = np.sqrt(self._variances[: self._n_genes])
        shares = _DISTANCE * shares / shares.mean() / self._active.sum(axis=1).mean()
        # In place: making room for another matrix of this size takes longer than filling it.
        found: Floats = np.asarray((active * shares) @ self._active.T)
        found += (features * shares[self._gene[self._seen]]) @ self._features.T
        found -= (active @ shares)[:, None]
        found -= (self._active @ shares)[None, :]
        return np.exp(found, out=found)

    def _ratios(self, joint: Floats) -> Floats:
        """Return, for every variance, what the observations show of it over what is expected."""
        inverse, weights = self._inverse, self._weights
        shown_parts = (self._features.T @ weights) ** 2
        expected_parts = np.einsum("ij,ij->j", inverse @ self._features, self._features)
        genes = self._gene[self._seen]
        shown = np.bincount(genes, shown_parts, self._n_genes)
        expected = np.bincount(genes, expected_parts, self._n_genes)
        shown = np.append(shown, [weights @ joint @ weights, weights @ weights])
        expected = np.append(expected, [np.sum(inverse * joint), np.trace(inverse)])
        return np.asarray((shown + 1e-12) / (expected + 1e-12))


def _slope(expected: Floats, values: Floats) -> float:
    """Return by how much values grow with what is expected of them, 0 .. 1."""
    centred = expected - expected.mean()
    square = float(centred @ centred)
    return min(max(float(centred @ values) / square, 0.0), 1.0) if square > 0.0 else 0.0
