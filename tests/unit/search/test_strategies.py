"""The contract of every strategy: add one to the registry and this suite runs on it."""

import functools
import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.doubles import synthetic
from tests.doubles.strategies import INSTALLED, LEARNERS
from tuner.errors import MissingToolError, SpecError
from tuner.limits import MOST_SEED
from tuner.registry import STRATEGIES, Entry
from tuner.search import Strategy, Told, make_strategy, population_for
from tuner.space import Condition, Genome, Parameter, Space, joint_space

POPULATION = 16

LEAST_SHARE = {"tpe": 0.6}
"""Of late proposals that are feasible, where it is not 0.7; half are by chance."""

N_BATCHES = 6
"""After which a strategy has learnt something."""

Judge = Callable[[Genome], Told]


def make(name: str, space: Space | None = None, seed: int = 1, **options: object) -> Strategy:
    space = space or synthetic.space()
    initial = options.get("initial", list(space.defaults()))
    return make_strategy(
        name,
        space,
        2,
        population=POPULATION,
        seed=seed,
        initial=initial,  # type: ignore[arg-type]
    )


def judge(genome: Genome) -> Told:
    """Score a genome of the synthetic space; some fail, some break a limit."""
    configuration = synthetic.space().decode(genome)
    if configuration.as_dict.get("slack") == 8:
        return Told(genome, None, 1.0)
    numbers = synthetic.measure(configuration)
    excess = max(0.0, numbers.value("mean_heap") / (40 << 20) - 1.0)
    return Told(genome, (numbers.value("mean_heap"), numbers.value("cost") or 0.0), excess)


def drive(strategy: Strategy, n_batches: int, judged: Judge = judge) -> list[Genome]:
    """Ask and tell a number of batches and return all genomes in order."""
    asked: list[Genome] = []
    for _ in range(n_batches):
        batch = strategy.ask()
        asked += batch
        strategy.tell([judged(genome) for genome in batch])
    return asked


@functools.cache
def undisturbed(name: str) -> tuple[Genome, ...]:
    """Return what a strategy asks of the synthetic space; TPE takes seconds of CPU time."""
    return tuple(drive(make(name, seed=3), N_BATCHES))


def only_jemalloc(genome: Genome) -> Told:
    """Score a genome; those of the other allocator break a limit."""
    told = judge(genome)
    return told if genome[0] == 1 else Told(genome, told.objectives, 1.0 + genome[1])


def tiny_space() -> Space:
    """Return 12 + 3 genomes, of which two and two decode to the same configuration."""
    parts = {
        "glibc": [
            Parameter("glibc.count", (None, 1, 2), ordered=True),
            Parameter("glibc.mode", ("dynamic", "static"), ordered=False, is_structural=True),
            Parameter(
                "glibc.pad",
                (None, 1, 2),
                ordered=True,
                condition=Condition("glibc.mode", ("static",)),
            ),
        ],
        "jemalloc": [Parameter("jemalloc.decay", (None, 0, 1), ordered=True)],
    }
    return joint_space(parts)


@pytest.fixture(params=INSTALLED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_genomes_are_canonical_tuples_of_python_integers_within_the_levels(name: str):
    space = synthetic.space()

    for genome in undisturbed(name):
        assert {type(level) for level in genome} == {int}
        assert all(0 <= level < n for level, n in zip(genome, space.n_levels, strict=True))
        assert space.canonical(genome) == genome


def test_the_greatest_seed_that_can_be_given_is_one(name: str):
    assert make(name, seed=MOST_SEED).ask()


def test_no_configuration_is_asked_twice(name: str):
    space = synthetic.space()

    configurations = [space.decode(genome) for genome in undisturbed(name)]

    assert len(set(configurations)) == len(configurations)


def test_initial_genomes_come_first_and_once(name: str):
    space = synthetic.space()
    defaults = list(space.defaults())
    seed = space.random(np.random.default_rng(5))

    batch = make(name, initial=[*defaults, seed, defaults[0]]).ask()

    assert [*defaults, seed] == batch[:3]
    assert len(batch) == POPULATION


def test_more_initial_genomes_than_a_population_are_all_asked_first(name: str):
    space = synthetic.space()
    rng = np.random.default_rng(5)
    initial = list(dict.fromkeys(space.random(rng) for _ in range(3 * POPULATION)))
    strategy = make(name, initial=initial)

    batch = strategy.ask()
    strategy.tell([judge(genome) for genome in batch])

    assert initial == batch
    assert len(strategy.ask()) == POPULATION


def test_a_batch_is_one_population(name: str):
    strategy = make(name)

    for _ in range(4):
        batch = strategy.ask()
        strategy.tell([judge(genome) for genome in batch])
        assert len(batch) == POPULATION


def test_a_small_space_is_asked_to_its_last_configuration_then_nothing(name: str):
    space = tiny_space()
    strategy = make(name, space)

    def flat(genome: Genome) -> Told:
        return Told(genome, (float(sum(genome)), 1.0), 0.0)

    asked = drive(strategy, 6, flat)

    # glibc: 3 counts x (dynamic + 2 pads), for static without a pad is dynamic; jemalloc: 3
    assert len({space.decode(genome) for genome in asked}) == len(asked) == 3 * 3 + 3
    assert strategy.ask() == []


def test_the_same_seed_and_results_give_the_same_genomes(name: str):
    assert drive(make(name, seed=3), 4) == list(undisturbed(name)[: 4 * POPULATION])


def test_another_seed_gives_other_genomes(name: str):
    assert drive(make(name, seed=7), 2) != drive(make(name, seed=8), 2)


_REPLAY = """
import json, sys
from tests.unit.search.test_strategies import drive, make
print(json.dumps(drive(make(sys.argv[1], seed=3), 4)))
"""


@pytest.mark.slow
def test_another_process_asks_the_same(name: str):
    command = [sys.executable, "-c", _REPLAY, name]

    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert [tuple(genome) for genome in json.loads(text)] == list(
        undisturbed(name)[: 4 * POPULATION]
    )


def test_the_global_generators_do_not_matter_and_are_left_alone(name: str):
    expected = list(undisturbed(name)[: 4 * POPULATION])

    def state() -> object:
        return random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002

    before = state()

    def disturbed(genome: Genome) -> Told:
        nonlocal before
        assert state() == before
        random.random()
        np.random.random()  # noqa: NPY002 - the very thing that must not matter
        before = state()
        return judge(genome)

    assert expected == drive(make(name, seed=3), 4, disturbed)
    assert state() == before


def test_two_strategies_of_one_kind_do_not_disturb_each_other(name: str):
    expected = list(undisturbed(name)[: 4 * POPULATION])
    one, other = make(name, seed=3), make(name, seed=4)

    asked = []
    for _ in range(4):
        asked += drive(one, 1)
        drive(other, 1)

    assert expected == asked


def test_a_batch_of_failures_is_survived(name: str):
    strategy = make(name)

    asked = drive(strategy, 3, lambda genome: Told(genome, None, 1.0))

    assert len(asked) == 3 * POPULATION
    assert len(drive(strategy, 3)) == 3 * POPULATION


def test_one_objective_or_three_work_as_well(name: str):
    space = synthetic.space()
    for n_objectives in (1, 3):
        strategy = make_strategy(
            name, space, n_objectives, population=POPULATION, seed=1, initial=[]
        )

        def scored(genome: Genome, n: int = n_objectives) -> Told:
            return Told(genome, tuple(float(level) for level in genome[1 : n + 1]), 0.0)

        assert len(drive(strategy, 4, scored)) == 4 * POPULATION


def test_what_was_not_asked_or_was_told_before_is_refused(name: str):
    strategy = make(name)
    first = strategy.ask()
    told = [judge(genome) for genome in first]
    other = synthetic.space().canonical(tuple(n - 1 for n in synthetic.space().n_levels))
    strategy.tell(told[:3])

    for wrong in ([judge(other)], told[2:4], [told[5], told[5]]):
        with pytest.raises(ValueError, match="not asked, or that was told before"):
            strategy.tell(wrong)
    strategy.tell(told[3:])


def overlapped(strategy: Strategy, n_batches: int) -> list[Genome]:
    """Ask for the next batches while results come in late, some of them out of order."""
    asked: list[Genome] = []
    waiting: list[Genome] = []
    for number in range(n_batches):
        batch = strategy.ask()
        asked += batch
        waiting += batch
        if number > 1:
            now, waiting = waiting[1::2] + waiting[:1], waiting[2::2]
            strategy.tell([judge(genome) for genome in now])
    return asked


def test_the_next_batch_does_not_wait_for_the_last(name: str):
    space = synthetic.space()

    asked = overlapped(make(name), 6)

    assert len(asked) == 6 * POPULATION
    assert len({space.decode(genome) for genome in asked}) == len(asked)
    assert asked == overlapped(make(name), 6)


@pytest.mark.parametrize("learner", LEARNERS)
def test_late_results_are_learnt_from(learner: str):
    """Results of one generation come after the next is asked; the search finds the allocator."""
    strategy = make(learner)

    batches = [strategy.ask()]
    for _ in range(2 * N_BATCHES - 1):
        batches.append(strategy.ask())
        strategy.tell([only_jemalloc(genome) for genome in reversed(batches[-2])])

    late = [genome for batch in batches[N_BATCHES:] for genome in batch]
    assert sum(genome[0] == 1 for genome in late) > LEAST_SHARE.get(learner, 0.7) * len(late)


def test_a_result_with_another_number_of_objectives_is_refused(name: str):
    strategy = make(name)

    results = [Told(genome, (1.0,), 0.0) for genome in strategy.ask()]

    with pytest.raises(ValueError, match="1 objectives, 2 expected"):
        strategy.tell(results)


@pytest.mark.parametrize("learner", LEARNERS)
def test_learners_prefer_the_feasible(learner: str):
    """Nothing but one allocator is feasible; its share of late proposals shows the learning."""
    asked = drive(make(learner), 2 * N_BATCHES, only_jemalloc)

    late = asked[N_BATCHES * POPULATION :]
    assert sum(genome[0] == 1 for genome in late) > LEAST_SHARE.get(learner, 0.7) * len(late)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_learners_beat_random_search(learner: str):
    def volume(strategy_name: str, seed: int) -> float:
        from tuner.front.dominance import hypervolume

        asked = drive(make(strategy_name, seed=seed), 12)
        good = [told for told in map(judge, asked) if told.objectives and told.violation == 0.0]
        return hypervolume(np.array([t.objectives for t in good]), (60.0 * (1 << 20), 1.5e8))

    seeds = range(1 if learner == "tpe" else 3)  # it takes seconds a seed
    assert all(volume(learner, seed) > volume("random", seed) for seed in seeds)


@pytest.mark.parametrize(
    ("objectives", "violation"),
    [
        ((float("nan"), 1.0), 0.0),
        ((float("inf"), 1.0), 0.0),
        ((1.0, 1.0), float("nan")),
        ((1.0, 1.0), -0.1),
        (None, 0.0),
    ],
)
def test_results_that_would_mislead_a_library_are_refused(
    objectives: tuple[float, ...] | None, violation: float
):
    with pytest.raises(ValueError, match="violation"):
        Told((0,), objectives, violation)


def test_an_unknown_strategy_is_an_error_that_lists_the_known():
    with pytest.raises(SpecError, match="'nsga4' is unknown; choose among auto, nsga2, nsga3"):
        make("nsga4")


def sizes(budgets: Sequence[int]) -> list[int]:
    return [population_for(budget) for budget in budgets]


def test_the_population_is_a_twentieth_of_the_budget_within_bounds():
    assert sizes([1, 320, 400, 500, 800, 10_000]) == [16, 16, 20, 24, 40, 40]


def test_the_default_strategy_imports_neither_scipy_nor_masked_arrays():
    """Scipy takes more time to import than pymoo and numpy together."""
    code = f"{_REPLAY}print({{'scipy', 'numpy.ma'}} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "auto"], check=True, capture_output=True, text=True
    )
    assert done.stderr == "set()\n"


def test_a_space_that_is_too_large_to_walk_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tuner.search.exhaustive.MOST", 100)
    with pytest.raises(SpecError, match="more than 100 combinations of levels; narrow it"):
        make("exhaustive")


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    entry = Entry("no_such_library.at_all:Thing", distribution="optuna")
    monkeypatch.setitem(STRATEGIES, "tpe", entry)
    with pytest.raises(MissingToolError, match=r"no_such_library.*'\.\[optuna\]'"):
        make("tpe")
