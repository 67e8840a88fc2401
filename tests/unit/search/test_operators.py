"""Crossover, mutation and novelty on level indices."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles import synthetic
from tuner.search.novelty import Novelty, every_genome
from tuner.search.operators import JUMP_PROBABILITY, change_one, crossover, mutate
from tuner.space import ALLOCATOR, Condition, Genome, Parameter, Space, joint_space

SPACE = synthetic.space()
WHEN_ON = Condition("x.mode", ("on",))


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(seed=st.integers(0, 2**32 - 1))
def test_children_and_mutants_are_canonical_genomes_of_the_space(seed: int):
    chance = rng(seed)
    mother, father = SPACE.random(chance), SPACE.random(chance)

    for genome in (*crossover(SPACE, mother, father, chance), mutate(SPACE, mother, chance)):
        assert SPACE.canonical(genome) == genome
        assert all(0 <= level < n for level, n in zip(genome, SPACE.n_levels, strict=True))


@given(seed=st.integers(0, 2**32 - 1))
def test_every_gene_of_a_child_comes_from_a_parent_in_which_it_was_active(seed: int):
    """But for the first level, to which the canonical form takes a mode without settings."""
    chance = rng(seed)
    parents = SPACE.random(chance), SPACE.random(chance)
    active = [SPACE.active(parent) for parent in parents]

    for child in crossover(SPACE, *parents, chance):
        for index, on in enumerate(SPACE.active(child)):
            if on:
                sources = {p[index] for p, a in zip(parents, active, strict=True) if a[index]}
                assert child[index] in sources | {0}


def test_parents_with_different_allocators_keep_their_settings():
    chance = rng()
    mother = next(g for g in iter(lambda: SPACE.random(chance), None) if g[0] == 0)
    father = next(g for g in iter(lambda: SPACE.random(chance), None) if g[0] == 1)

    for _ in range(20):
        assert {mother, father} >= set(crossover(SPACE, mother, father, chance))


def test_crossover_exchanges_about_half_of_the_genes():
    parameters = [Parameter(f"x.{index}", (0, 1), ordered=True) for index in range(400)]
    space = Space((Parameter(ALLOCATOR, ("x",), ordered=False), *parameters))
    mother: Genome = (0, *[0] * 400)
    father: Genome = (0, *[1] * 400)

    daughter, son = crossover(space, mother, father, rng())

    assert 160 < sum(daughter) < 240
    assert sum(daughter) + sum(son) == 400


def _mutants(n_levels: int, ordered: bool, start: int, n: int = 4000) -> Counter[int]:
    gene = Parameter("x.a", tuple(range(n_levels)), ordered=ordered)
    space = Space((Parameter(ALLOCATOR, ("x",), ordered=False), gene))
    chance = rng()
    return Counter(mutate(space, (0, start), chance)[1] for _ in range(n))


def test_an_ordered_gene_mostly_moves_by_one_and_sometimes_anywhere():
    found = _mutants(9, ordered=True, start=4)

    near = (found[3] + found[5]) / 4000
    assert near == pytest.approx(1 - JUMP_PROBABILITY * 6 / 8, abs=0.03)
    assert set(found) == {0, 1, 2, 3, 5, 6, 7, 8}


def test_a_category_goes_to_every_other_level_alike():
    found = _mutants(5, ordered=False, start=2)

    assert set(found) == {0, 1, 3, 4}
    assert all(count == pytest.approx(1000, abs=100) for count in found.values())


def test_the_end_of_a_scale_is_left_inwards():
    found = _mutants(9, ordered=True, start=0)

    assert found[1] / 4000 == pytest.approx(1 - JUMP_PROBABILITY * 7 / 8, abs=0.03)


def test_a_mutant_always_differs():
    genes = [Parameter(f"x.{index}", (0, 1, 2), ordered=True) for index in range(5)]
    space = Space((Parameter(ALLOCATOR, ("x",), ordered=False), *genes))
    chance = rng()

    assert all(mutate(space, (0,) * 6, chance) != (0,) * 6 for _ in range(500))


def test_one_gene_changes_on_average_whatever_its_kind():
    chance = rng()
    start = next(SPACE.defaults())
    changes = Counter[int]()
    for _ in range(3000):
        mutant = mutate(SPACE, start, chance)
        changes.update(i for i, (a, b) in enumerate(zip(start, mutant, strict=True)) if a != b)
    own = [changes[1], changes[2], changes[6]]  # independent ordered genes of glibc

    assert max(own) < 1.3 * min(own)


def test_a_switch_that_would_rest_again_takes_a_setting_along():
    start = next(SPACE.defaults())
    chance = rng()
    for vary in (change_one, mutate):
        mutants = [vary(SPACE, start, chance) for _ in range(300)]

        assert start not in mutants
        settings = {name for one in mutants for name in SPACE.decode(one).as_dict}
        assert {"trim", "pad"} <= settings  # both are behind the mode


def test_a_switch_that_wakes_a_setting_takes_no_other_along():
    genes = [
        Parameter("x.mode", ("off", "on"), ordered=False, is_structural=True),
        Parameter("x.a", (None, 1, 2), ordered=True, condition=WHEN_ON, resting=1),
        Parameter("x.b", (None, 1, 2), ordered=True, condition=WHEN_ON),
    ]
    space = joint_space({"x": genes})
    chance = rng()

    assert {change_one(space, (0, 0, 1, 0), chance) for _ in range(50)} == {(0, 1, 1, 0)}


def test_a_space_of_one_point_stays_where_it_is():
    space = Space((Parameter(ALLOCATOR, ("x",), ordered=False),))

    assert mutate(space, (0,), rng()) == (0,)


def test_every_genome_reaches_every_configuration():
    space = joint_space({"jemalloc": synthetic.PARTS["jemalloc"]})

    configurations = {space.decode(genome) for genome in every_genome(space)}

    assert {space.decode(genome) for genome in np.ndindex(*space.n_levels)} == configurations


def test_draw_finds_the_last_new_configuration_and_then_nothing():
    space = joint_space({"jemalloc": synthetic.PARTS["jemalloc"]})
    novelty = Novelty(space)
    everything = list(dict.fromkeys(map(space.decode, every_genome(space))))
    n_left = 30
    for configuration in everything[:-n_left]:
        novelty.add(space.encode(configuration))

    found = novelty.draw(rng(), n_left + 10)

    assert set(everything[-n_left:]) == {space.decode(genome) for genome in found}
    assert n_left == len(found)
    for genome in found:
        novelty.add(genome)
    assert novelty.draw(rng(), 1) == []


def test_only_new_drops_repeats_within_the_list_and_siblings():
    novelty = Novelty(SPACE)
    chance = rng()
    one, two, three = (novelty.draw(chance, 1)[0] for _ in range(3))
    novelty.add(one)

    assert novelty.only_new([one, two, two, three], besides=[three]) == [two]


def test_one_change_is_one_setting_and_what_hangs_on_it():
    space = synthetic.space()
    rng = np.random.default_rng(1)
    for _ in range(50):
        genome = space.random(rng)

        other = change_one(space, genome, rng)

        differing = [i for i, (a, b) in enumerate(zip(genome, other, strict=True)) if a != b]
        gates = {gene.condition.parameter for gene in space.parameters if gene.condition}
        assert space.canonical(other) == other
        assert len(differing) <= 1 or space.parameters[differing[0]].name in gates
