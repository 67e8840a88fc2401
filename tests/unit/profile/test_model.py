"""A model is the profile it was taken from."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.varied import read
from tuner.profile.file import read_profile, write_profile
from tuner.profile.fit import age_bins
from tuner.profile.model import age_bin, bin_middle, take_apart
from tuner.trace.file import Op


def test_a_model_put_together_again_is_the_profile(server: Path):
    members = read_profile(server)
    write_profile(server.with_name("again.json"), take_apart(members).members())
    events, _ = read(server)
    again, _ = read(server.with_name("again.json"))
    assert sorted(events[events["op"] <= Op.ALIGNED]["size"]) == sorted(
        again[again["op"] <= Op.ALIGNED]["size"]
    )


@given(st.integers(0, 2**40), st.integers(0, 5))
def test_bins_are_those_of_the_fit_and_their_middle_lies_in_them(age: int, bins_log2: int):
    number = age_bin(age, bins_log2)
    assert number == age_bins(np.array([age]), bins_log2)[0]
    assert age_bin(bin_middle(number, bins_log2), bins_log2) == number
