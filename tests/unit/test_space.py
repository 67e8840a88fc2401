"""The search space: canonical genomes, conditions, and the way to configurations and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.records import Configuration
from tuner.space import ALLOCATOR, Condition, Genome, Parameter, Space, joint_space

MODE = Parameter("glibc.mode", ("dynamic", "static"), ordered=False, is_structural=True)
TRIM = Parameter(
    "glibc.trim", (None, -1, 4096, 131072), True, Condition("glibc.mode", ("static",)), resting=3
)
PAD = Parameter("glibc.pad", (None, 0, 4096), True, Condition("glibc.mode", ("static",)))
COUNT = Parameter("glibc.count", (None, 0, 1, 2), ordered=True)
LIMIT = Parameter("glibc.limit", (None, 8, 16), True, Condition("glibc.count", (None, 1, 2)))
TCACHE = Parameter("jemalloc.tcache", (None, False), ordered=False)

SPACE = joint_space({"glibc": [MODE, TRIM, PAD, COUNT, LIMIT], "jemalloc": [TCACHE]})
GENOMES = st.tuples(*(st.integers(0, n - 1) for n in SPACE.n_levels))


def configured(**genes: int) -> Genome:
    """Return a genome with the named glibc genes at a level, all others at 0."""
    names = [p.name.split(".")[-1] for p in SPACE.parameters]
    return tuple(genes.get(name, 0) for name in names)


def test_the_allocator_is_the_first_gene():
    assert SPACE.parameters[0].name == ALLOCATOR
    assert SPACE.allocators == ("glibc", "jemalloc")


def test_settings_of_another_allocator_are_inactive():
    assert Configuration("jemalloc") == SPACE.decode(configured(allocator=1, count=2))


def test_a_child_acts_only_while_its_parent_allows_it():
    assert Configuration.of("glibc", {"count": 0}) == SPACE.decode(configured(count=1, limit=1))
    both = {"count": 1, "limit": 8}
    assert Configuration.of("glibc", both) == SPACE.decode(configured(count=2, limit=1))


def test_a_structural_gene_is_no_setting():
    genome = configured(mode=1, pad=1)
    assert Configuration.of("glibc", {"pad": 0}) == SPACE.decode(genome)


def test_a_mode_without_a_setting_of_that_mode_is_no_mode():
    assert SPACE.canonical(configured(mode=1, trim=0)) == SPACE.canonical(configured())


def test_a_gene_wakes_up_at_its_resting_level():
    default = next(iter(SPACE.defaults()))
    mode = [p.name for p in SPACE.parameters].index("glibc.mode")
    woken = SPACE.canonical((*default[:mode], 1, *default[mode + 1 :]))
    assert Configuration.of("glibc", {"trim": 131072}) == SPACE.decode(woken)


def test_every_default_has_a_genome():
    decoded = [SPACE.decode(genome) for genome in SPACE.defaults()]
    assert [Configuration("glibc"), Configuration("jemalloc")] == decoded


def test_a_default_that_must_be_set_has_none():
    always = Parameter("glibc.count", (1, 2), ordered=True)
    space = joint_space({"glibc": [always], "jemalloc": [TCACHE]})
    assert [Configuration("jemalloc")] == [space.decode(genome) for genome in space.defaults()]


@given(GENOMES)
def test_the_canonical_form_has_the_same_effect_and_is_stable(genome: Genome):
    canonical = SPACE.canonical(genome)
    assert SPACE.decode(genome) == SPACE.decode(canonical)
    assert canonical == SPACE.canonical(canonical)


@given(GENOMES, GENOMES)
def test_genomes_with_the_same_effect_have_one_canonical_form(a: Genome, b: Genome):
    same_effect = SPACE.decode(a) == SPACE.decode(b)
    assert same_effect == (SPACE.canonical(a) == SPACE.canonical(b))


@given(GENOMES)
def test_a_configuration_finds_its_genome(genome: Genome):
    assert SPACE.canonical(genome) == SPACE.encode(SPACE.decode(genome))


@pytest.mark.parametrize("settings", [{"count": 3}, {"unknown": 1}, {"count": True}])
def test_what_is_not_in_the_space_has_no_genome(settings: dict[str, int]):
    SPACE.encode(Configuration.of("glibc", {"count": 1}))  # what equals it is remembered

    with pytest.raises(ValueError, match=r"level|outside"):
        SPACE.encode(Configuration.of("glibc", settings))


def test_an_inactive_setting_has_no_genome():
    with pytest.raises(ValueError, match="outside"):
        SPACE.encode(Configuration.of("glibc", {"count": 0, "limit": 8}))


def test_the_same_generator_draws_the_same_genomes():
    drawn = [SPACE.random(np.random.default_rng(7)) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((COUNT,), "needs the gene"),
        ((Parameter(ALLOCATOR, ("glibc",), False), COUNT, COUNT), "twice"),
        ((Parameter(ALLOCATOR, ("glibc",), False), LIMIT), "not before it"),
        ((Parameter(ALLOCATOR, (), False),), "no level"),
    ],
)
def test_a_malformed_space_is_refused(parameters: tuple[Parameter, ...], message: str):
    with pytest.raises(ValueError, match=message):
        Space(parameters)
