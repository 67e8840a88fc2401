"""The verdict in a profile."""

import pytest

from tuner.errors import TraceError
from tuner.profile.fidelity import (
    FamilyFidelity,
    Fidelity,
    MetricFidelity,
    ShrunkFidelity,
    fidelity_of,
)


def test_a_verdict_is_read_as_it_was_written():
    metric = MetricFidelity(0.1, 0.2, 0.3, -0.1, families={"glibc": FamilyFidelity(3, 0.5, 1.0)})
    verdict = Fidelity(seeds=(1, 2), metrics={"cost": None, "peak_heap": metric},
                      shrunk=(ShrunkFidelity(0.25),), allocators={"glibc": "2.36"})  # fmt: skip
    assert fidelity_of({"fidelity": verdict.as_json()}) == verdict


def test_a_profile_without_a_verdict_has_an_empty_one():
    assert fidelity_of({}) == fidelity_of({"fidelity": None}) == Fidelity()


def test_a_malformed_verdict_is_named():
    with pytest.raises(TraceError, match=r"malformed at fidelity\.metrics\.cost\.tau"):
        fidelity_of({"fidelity": {"metrics": {"cost": {"tau": "x"}}}})
