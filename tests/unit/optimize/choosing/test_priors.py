"""What emulation expects of settings that it did not try."""

import pytest

from tuner.optimize.choosing.priors import priors_of
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.quantities import MEAN
from tuner.records import Configuration
from tuner.search.surrogate import features_of
from tuner.space import Parameter, Space, joint_space

SPACE = joint_space({
    "glibc": [Parameter("glibc.a", (None, 1, 2, 4, 8, 16), ordered=True)],
    "exgen": [Parameter("exgen.b", (None, 1, 2, 4, 8, 16), ordered=True)],
})  # fmt: skip
GLIBC = Configuration("glibc")


def expected(proposals: list[Proposal], asked: Configuration, space: Space = SPACE) -> float:
    prior = priors_of(space, proposals, GLIBC)[MEAN]
    genome = space.genome_of(asked)
    assert genome is not None
    return float(prior.predict(*features_of(space).of([genome]))[0][0])


def exgen(b: int) -> Configuration:
    return Configuration.of("exgen", {"b": b})


EMULATED = [
    *(Proposal(exgen(b), number, {MEAN: -0.02 * number}) for number, b in enumerate((1, 2, 8, 16))),
    Proposal(Configuration("exgen"), 4, {MEAN: -0.03}),
]


def test_a_setting_between_two_that_were_emulated_is_expected_between_them():
    assert -0.06 < expected(EMULATED, exgen(4)) < -0.01


def test_the_program_as_it_is_changes_nothing():
    assert expected(EMULATED, GLIBC) == pytest.approx(0.0, abs=0.01)


def test_what_emulation_did_not_try_is_no_part_of_it():
    known = Proposal(exgen(4), None, {MEAN: -5.0}, is_known=True)

    assert expected([*EMULATED, known], exgen(4)) == expected(EMULATED, exgen(4))
    assert priors_of(SPACE, [known], GLIBC) == {}
