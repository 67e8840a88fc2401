"""The model behind `auto`: what it learns of genes and of pairs of them."""

from collections.abc import Callable

import numpy as np
import pytest

from tuner.search.surrogate import Features, Surrogate
from tuner.space import Condition, Genome, Parameter, Space, joint_space

SCALE = (None, -1, 1, 2, 4, 8, 16, 32)


def space() -> Space:
    return joint_space({
        "one": [Parameter(f"one.{name}", SCALE, ordered=True) for name in ("a", "b", "dead")],
        "two": [
            Parameter("two.mode", ("off", "on"), ordered=False),
            Parameter("two.c", SCALE, ordered=True, condition=Condition("two.mode", ("on",))),
        ],
    })  # fmt: skip


def drawn(n: int, seed: int) -> list[Genome]:
    rng = np.random.default_rng(seed)
    return [space().random(rng) for _ in range(n)]


def truth(genome: Genome) -> float:
    """Return an effect of each allocator, of `a` and `c`, and of `a` and `b` together."""
    active = space().active(genome)
    allocator, a, b, _, _, c = (
        level if on else 0 for level, on in zip(genome, active, strict=True)
    )
    return 2.0 * allocator + 0.3 * a - 0.2 * c + 0.05 * a * b


def fitted(n: int) -> tuple[Features, Surrogate]:
    features = Features(space())
    model = Surrogate(features.gene, len(space().parameters))
    known = drawn(n, 1)
    for _ in range(4):
        model.fit(*features.of(known), np.array([truth(genome) for genome in known]))
    return features, model


def test_unseen_genomes_are_predicted():
    features, model = fitted(120)
    unseen = drawn(200, 2)
    values = np.array([truth(genome) for genome in unseen])

    means, deviations = model.predict(*features.of(unseen))

    assert np.mean((means - values) ** 2) < 0.1 * np.var(values)
    assert np.mean(np.abs(means - values) < 3.0 * deviations + 0.1) > 0.9


def test_what_was_seen_is_surer_than_what_was_not():
    features, model = fitted(40)
    seen = model.predict(*features.of(drawn(40, 1)))[1]
    unseen = model.predict(*features.of(drawn(40, 3)))[1]

    assert np.median(seen) < 0.7 * np.median(unseen)


def test_a_gene_without_effect_changes_no_prediction():
    features, model = fitted(120)
    genome = (0, 3, 4, 2, 0, 0)
    alike = [(*genome[:3], level, *genome[4:]) for level in range(len(SCALE))]
    other = [(0, level, *genome[2:]) for level in range(len(SCALE))]

    assert np.ptp(model.predict(*features.of(alike))[0]) < 0.2 * np.ptp(
        model.predict(*features.of(other))[0]
    )


def test_an_inactive_gene_has_no_feature():
    features = Features(space())
    found, active = features.of([(1, 0, 0, 0, 0, 0)])

    assert active.tolist() == [[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
    assert not found[0, np.isin(features.gene, [1, 2, 3, 5])].any()


def test_behind_a_switch_that_is_no_setting_genes_are_unset():
    switch = Parameter("one.mode", ("off", "on"), ordered=False, is_structural=True)
    behind = Parameter("one.a", SCALE, ordered=True, condition=Condition("one.mode", ("on",)))
    features = Features(joint_space({"one": [switch, behind]}))

    found, active = features.of([(0, 0, 0), (0, 1, 0)])

    assert active.tolist() == [[1.0, 1.0, 1.0]] * 2
    assert (
        np.flatnonzero(found[0] - found[1]).tolist() == np.flatnonzero(features.gene == 1).tolist()
    )


def test_neighbours_on_a_scale_are_alike_and_special_values_are_not():
    features = Features(space())
    rows, _ = features.of([(0, level, 0, 0, 0, 0) for level in range(len(SCALE))])
    own = rows[:, features.gene == 1]
    alike = own @ own.T

    assert np.diag(alike) == pytest.approx(1.0)
    assert alike[2, 3] > alike[2, 4] > alike[2, 7] > 0.0
    assert alike[2, 7] == pytest.approx(np.exp(-1.0 / 0.3))  # from end to end
    assert alike[0, 1:] == pytest.approx(0.0)
    assert alike[1, 2:] == pytest.approx(0.0)


def test_equal_values_are_predicted_as_they_are():
    features = Features(space())
    model = Surrogate(features.gene, len(space().parameters))
    model.fit(*features.of(drawn(20, 1)), np.full(20, 7.0))

    means, deviations = model.predict(*features.of(drawn(5, 2)))

    assert means == pytest.approx(7.0)
    assert np.isfinite(deviations).all()


def test_more_steps_make_a_fresh_model_surer():
    features = Features(space())
    known, unseen = drawn(40, 1), drawn(40, 3)
    values = np.array([truth(genome) for genome in known])
    deviations = []
    for n_steps in (1, 16):
        model = Surrogate(features.gene, len(space().parameters))
        model.fit(*features.of(known), values, n_steps=n_steps)
        deviations.append(np.median(model.predict(*features.of(unseen))[1]))

    assert deviations[1] < 0.8 * deviations[0]


def test_a_prediction_is_the_same_however_often_it_is_asked_for_and_whatever_beside_it():
    features, model = fitted(40)
    (genome,) = drawn(1, 5)

    once = model.predict(*features.of([genome]))
    often = model.predict(*features.of([genome] * 50))
    beside = model.predict(*features.of([genome, *drawn(50, 6)]))

    for one, many, first in zip(once, often, beside, strict=True):
        assert many == pytest.approx(one[0], abs=1e-3)
        assert first[0] == pytest.approx(one[0], abs=1e-3)


def test_a_level_that_was_never_seen_is_less_sure_than_one_that_was():
    features = Features(space())
    model = Surrogate(features.gene, len(space().parameters))
    known = [(0, a, b, 0, 0, 0) for a in (2, 3, 4) for b in (2, 3, 4)]
    model.fit(*features.of(known), np.array([truth(genome) for genome in known]))

    asked = [(0, 3, 3, 0, 0, 0), (0, 0, 3, 0, 0, 0), (0, 0, 0, 0, 0, 0)]
    _, (seen, one_unseen, both_unseen) = model.predict(*features.of(asked))

    assert both_unseen > one_unseen > 5.0 * seen


def error_with(guess: Callable[[Genome], float]) -> float:
    """Return the squared error of a model of few genomes whose prior guesses so, over without."""
    features = Features(space())
    emulated, known, unseen = drawn(150, 4), drawn(12, 1), drawn(200, 2)
    prior = Surrogate(features.gene, len(space().parameters))
    prior.fit(*features.of(emulated), np.array([guess(one) for one in emulated]), n_steps=8)
    errors = []
    for mean in (prior, None):
        model = Surrogate(features.gene, len(space().parameters), mean)
        model.fit(*features.of(known), np.array([truth(one) for one in known]))
        values = np.array([truth(one) for one in unseen])
        errors.append(np.mean((model.predict(*features.of(unseen))[0] - values) ** 2))
    return float(errors[0] / errors[1])


def test_a_cheaper_source_that_is_about_right_guides_a_model_of_few():
    assert error_with(lambda genome: 0.8 * truth(genome) + 5.0) < 0.3


def test_a_cheaper_source_that_is_wrong_is_not_trusted():
    assert error_with(lambda genome: -truth(genome)) == pytest.approx(1.0)


def test_what_counts_is_returned_with_what_was_expected():
    features = Features(space())
    known = drawn(12, 1)
    values = np.array([truth(one) for one in known])
    prior = Surrogate(features.gene, len(space().parameters))
    prior.fit(*features.of(known), values)
    model = Surrogate(features.gene, len(space().parameters), prior)

    assert model.fit(*features.of(known), values) == pytest.approx(values)
