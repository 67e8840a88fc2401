"""What `auto` adds to NSGA-II; the contract of all strategies is in test_strategies.py."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from threadpoolctl import threadpool_info

from tests.doubles import synthetic
from tuner.front.dominance import hypervolume
from tuner.search import Told, make_strategy
from tuner.search.auto import Models, beyond
from tuner.search.surrogate import Surrogate
from tuner.space import Genome

REFERENCE = (60.0 * (1 << 20), 1.5e8)


def told(genome: Genome) -> Told:
    numbers = synthetic.measure(synthetic.space().decode(genome))
    return Told(genome, (numbers.value("mean_heap"), numbers.value("cost") or 1.0), 0.0)


def volume(name: str, seed: int, n_batches: int) -> float:
    space = synthetic.space()
    strategy = make_strategy(
        name, space, 2, population=16, seed=seed, initial=list(space.defaults())
    )
    found: list[Told] = []
    for _ in range(n_batches):
        results = [told(genome) for genome in strategy.ask()]
        strategy.tell(results)
        found += results
    return hypervolume(np.array([result.objectives for result in found]), REFERENCE)


@pytest.mark.slow
def test_sifted_children_are_ahead_of_those_that_are_not():
    sifted = [volume("auto", seed, 5) for seed in range(5)]
    plain = [volume("nsga2", seed, 5) for seed in range(5)]

    assert np.median(sifted) > np.median(plain)


def test_it_starts_around_the_initial_genomes():
    space = synthetic.space()
    default = next(space.defaults())
    strategy = make_strategy("auto", space, 2, population=40, seed=1, initial=[default])

    batch = strategy.ask()

    changes = [sum(a != b for a, b in zip(genome, default, strict=True)) for genome in batch]
    assert changes[0] == 0
    assert np.median(changes) < np.median([
        sum(a != b for a, b in zip(space.random(np.random.default_rng(s)), default, strict=True))
        for s in range(40)
    ])  # fmt: skip


def test_what_is_expected_to_break_a_constraint_is_not_chosen():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    known = [space.random(rng) for _ in range(80)]
    models = Models(space, 2)
    models.learn([
        Told(g, (1.0, 1.0), 0.0) if g[0] == 1 else Told(g, (0.5, 0.5), 5.0) for g in known
    ])  # fmt: skip
    asked = [space.random(rng) for _ in range(60)]

    chosen = models.choose(asked, 5, rng)

    assert {asked[index][0] for index in chosen} == {1}


def test_how_near_a_constraint_is_is_learnt_from_what_keeps_it():
    """Two settings are each too near for both together, which did not run."""
    space = synthetic.space()
    rng = np.random.default_rng(1)

    def n_near(genome: Genome) -> int:
        settings = space.decode(genome).as_dict
        return ("fit" in settings) + ("cache" in settings)

    known = [one for one in (space.random(rng) for _ in range(160)) if n_near(one) < 2]
    models = Models(space, 2)
    models.learn([
        Told(g, (1.0 - 0.1 * n_near(g),) * 2, 0.0, excess=(0.3 * n_near(g) - 0.4,)) for g in known
    ])  # fmt: skip
    asked = [space.random(rng) for _ in range(100)]

    chosen = models.choose(asked, 5, rng)

    assert 2 in map(n_near, asked)
    assert all(n_near(asked[index]) < 2 for index in chosen)


def test_what_loses_more_beyond_the_limits_than_it_gains_is_not_chosen():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    default = next(space.defaults())
    known = [genome for genome in (space.random(rng) for _ in range(80)) if genome != default]
    models = Models(space, 2, [default])
    models.learn([Told(default, (100.0, 100.0), 0.0)])
    models.learn([Told(g, (400.0, 50.0) if g[0] == 1 else (100.0, 99.0), 0.0) for g in known])
    asked = [space.random(rng) for _ in range(60)]

    chosen = models.choose(asked, 5, rng)

    assert 1 not in {asked[index][0] for index in chosen}
    assert {genome[0] for alike in models.front() for genome in alike}.isdisjoint({1})


def test_beyond_the_limits_all_objectives_grow():
    genome = next(synthetic.space().defaults())
    models = Models(synthetic.space(), 2, [genome])
    models.learn([Told(genome, (100.0, 0.0), 0.0)])

    assert models.as_ranked(Told(genome, (110.0, 7.0), 0.0)).objectives == (110.0, 7.0)
    beyond_them = models.as_ranked(Told(genome, (220.0, 7.0), 0.0)).objectives
    assert beyond_them == pytest.approx((440.0, 14.0))
    failed = Told(genome, None, 1.0)
    assert models.as_ranked(failed) == failed


def test_a_point_of_the_front_counts_once_however_many_genomes_give_it():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    one, two, three, worse = (space.random(rng) for _ in range(4))
    models = Models(space, 2)
    models.learn([
        Told(one, (1.0, 3.0), 0.0), Told(two, (2.0, 1.0), 0.0),
        Told(three, (1.0, 3.0), 0.0), Told(worse, (2.0, 2.0), 0.0),
    ])  # fmt: skip

    assert models.front() == [[one, three], [two]]


@pytest.mark.parametrize("noise", [(0.1, 0.1), ()])
def test_the_luckiest_of_noisy_results_is_not_the_front(noise: tuple[float, ...]):
    """One of a hundred settings of the first allocator ran far better than all that are like it."""
    space = synthetic.space()
    rng = np.random.default_rng(1)
    known = list(dict.fromkeys(space.random(rng) for _ in range(200)))
    lucky = next(genome for genome in known if genome[0] == 1)
    values = {genome: 1.0 + (genome[0] == 1) + rng.normal(0.0, 0.1) for genome in known}
    values[lucky] = 0.6
    models = Models(space, 2)
    models.learn([Told(g, (v, v), 0.0, noise=noise) for g, v in values.items()])

    models.choose([space.random(rng) for _ in range(10)], 5, rng)

    front = {genome for alike in models.front() for genome in alike}
    assert (lucky in front) is not bool(noise)
    assert bool(models.likely_front) is bool(noise)


def test_what_is_best_of_the_last_noisy_results_has_children_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    """Of the first results none is as good as any of the last ones."""
    space = synthetic.space()
    initial = list(space.defaults())
    strategy = make_strategy("auto", space, 2, population=8, seed=1, initial=initial)
    seen: list[set[Genome]] = []
    front = Models.front

    def watched(models: Models) -> list[list[Genome]]:
        found = front(models)
        seen.append({genome for alike in found for genome in alike})
        return found

    monkeypatch.setattr(Models, "front", watched)
    last: set[Genome] = set()
    for value in (3.0, 2.0, 1.0, 0.5):
        last = set(strategy.ask())
        strategy.tell([Told(one, (value, value), 0.0, noise=(0.01, 0.01)) for one in last])
    strategy.ask()

    assert seen[-1] <= last


def test_what_is_noise_alone_is_likely_as_predicted_to_the_last_digit():
    """Else chance would say which of two that are predicted alike dominates the other one."""
    space = synthetic.space()
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0.0, 0.1, (50, 1)))
    known = [Told(space.random(rng), tuple(one), 0.0, noise=(9.0,)) for one in values.tolist()]
    models = Models(space, 1)
    models.learn(known)
    models.look()
    seen = models._features.of([one.genome for one in known])  # noqa: SLF001

    likely = models._likely(known, seen, np.log(values))  # noqa: SLF001

    assert likely.tolist() == models._means(seen).tolist()  # noqa: SLF001


@pytest.mark.slow
def test_a_search_of_noisy_results_finds_more_when_it_knows_that_they_are():
    def found(seed: int, known: tuple[float, ...]) -> float:
        space, rng = synthetic.space(), np.random.default_rng(seed)
        strategy = make_strategy(
            "auto", space, 2, population=8, seed=seed, initial=list(space.defaults())
        )
        true = []
        for _ in range(20):
            results = [told(genome) for genome in strategy.ask()]
            true += [one.objectives for one in results]
            errors = np.exp(rng.normal(0.0, 0.1, (len(results), 2)))
            strategy.tell([
                Told(one.genome, tuple(np.array(one.objectives) * by), 0.0, noise=known)
                for one, by in zip(results, errors, strict=True)
            ])  # fmt: skip
        return hypervolume(np.array(true), REFERENCE)

    knowing = [found(seed, (0.1, 0.1)) for seed in range(8)]
    unaware = [found(seed, ()) for seed in range(8)]

    assert np.mean(knowing) > np.mean(unaware)


def test_more_results_than_are_fitted_are_survived():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    models = Models(space, 2)
    models.learn([told(space.random(rng)) for _ in range(500)])

    assert len(set(models.choose([space.random(rng) for _ in range(30)], 4, rng))) == 4


def test_an_objective_that_is_zero_is_survived():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    models = Models(space, 1)
    models.learn([Told(space.random(rng), (float(n % 3),), 0.0) for n in range(20)])

    assert len(models.choose([space.random(rng) for _ in range(10)], 3, rng)) == 3


def test_how_far_a_point_is_beyond_a_front():
    front = np.array([[0.0, 2.0], [2.0, 0.0]])
    points = np.array([[0.0, 2.0], [-1.0, 2.5], [0.5, 0.5], [1.0, 3.0], [3.0, 3.0]])

    assert beyond(front, points).tolist() == [0.0, 1.0, 1.5, -1.0, -1.0]


def test_the_models_use_one_core(monkeypatch: pytest.MonkeyPatch):
    """Sums over several threads depend on how many there are; proposals shall not."""
    space = synthetic.space()
    rng = np.random.default_rng(1)
    models = Models(space, 2)
    models.learn([told(space.random(rng)) for _ in range(20)])
    seen: list[int] = []
    fit = Surrogate.fit

    def watched(
        self: Surrogate, *data: npt.NDArray[np.float64], **options: Any
    ) -> npt.NDArray[np.float64]:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return fit(self, *data, **options)

    monkeypatch.setattr(Surrogate, "fit", watched)
    models.choose([space.random(rng) for _ in range(10)], 4, rng)

    assert seen
    assert set(seen) == {1}
