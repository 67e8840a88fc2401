"""Crossover and mutation of genomes, aware of scales, categories and conditions.

Stock operators of the libraries treat every gene alike: an inactive gene of one
parent overwrites an active one of the other, categories mutate ten times as
often as integers, and polynomial mutation of a small integer mostly rounds back
to where it was.  These operators work on level indices and are shared by all
evolutionary strategies.

All chance comes from the generator that is passed in.
"""

import numpy as np

from tuner.space import Genome, Space

JUMP_PROBABILITY = 0.25
"""Share of mutations of an ordered gene that go to any level instead of a neighbour,
so that special values at the ends of a scale stay within reach."""


def crossover(
    space: Space, mother: Genome, father: Genome, rng: np.random.Generator
) -> tuple[Genome, Genome]:
    """Exchange genes uniformly, and return both children in canonical form.

    A gene that is inactive in one parent is taken from the other in both
    children: it means nothing there, and it would reset the setting.  Parents
    with different allocators therefore exchange no settings.
    """
    daughter, son = list(mother), list(father)
    swap = (rng.random(len(mother)) < 0.5).tolist()  # noqa: PLR2004 - uniform crossover
    in_mother, in_father = space.acting(mother), space.acting(father)
    for index in in_mother.genes:
        if not in_father.active[index]:
            son[index] = mother[index]
        elif swap[index]:
            daughter[index], son[index] = father[index], mother[index]
    for index in in_father.genes:
        if not in_mother.active[index]:
            daughter[index] = father[index]
    return space.canonical(tuple(daughter)), space.canonical(tuple(son))


def mutate(space: Space, genome: Genome, rng: np.random.Generator) -> Genome:
    """Change each active gene with probability 1 / n_active, at least one in all.

    An ordered gene moves one level up or down, or now and then to any level; a
    category goes to any other.  Genes that a change switches on start at their
    resting level.

    Args:
        space: the space of the genome.
        genome: canonical.
        rng: source of chance.

    Returns:
        A canonical genome.
    """
    genes = space.acting(genome).free
    if not genes:
        return genome
    share = 1.0 / len(genes)
    draws = rng.random(len(genes)).tolist()
    chosen = [index for index, draw in zip(genes, draws, strict=True) if draw < share]
    mutant = genome
    for index in chosen or [genes[int(rng.integers(len(genes)))]]:
        mutant = _changed(space, mutant, index, rng)
    return space.canonical(mutant)


def change_one(space: Space, genome: Genome, rng: np.random.Generator) -> Genome:
    """Change one active gene, as `mutate` changes each of those it takes."""
    genes = space.acting(genome).free
    if not genes:
        return genome
    index = genes[int(rng.integers(len(genes)))]
    return space.canonical(_changed(space, genome, index, rng))


def _changed(space: Space, genome: Genome, index: int, rng: np.random.Generator) -> Genome:
    """Change a gene; with a switch that would rest again at once, one of the genes it wakes too."""
    gene = space.parameters[index]
    level = _other_level(genome[index], gene.n_levels, rng, is_ordered=gene.ordered)
    mutant = (*genome[:index], level, *genome[index + 1 :])
    if not gene.is_structural or space.canonical(mutant)[index] == level:
        return mutant
    before = space.active(genome)
    awake = [one for one in space.acting(mutant).free if not before[one]]
    return _changed(space, mutant, awake[int(rng.integers(len(awake)))], rng) if awake else mutant


def _other_level(level: int, n_levels: int, rng: np.random.Generator, *, is_ordered: bool) -> int:
    if not is_ordered or rng.random() < JUMP_PROBABILITY:
        other = int(rng.integers(n_levels - 1))
        return other if other < level else other + 1
    neighbours = [other for other in (level - 1, level + 1) if 0 <= other < n_levels]
    return neighbours[int(rng.integers(len(neighbours)))]
