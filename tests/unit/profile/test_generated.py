"""A profile's events as a trace: what campaigns replay."""

from pathlib import Path

import numpy as np
import pytest

from tests.doubles.places import ROOT
from tuner.errors import OutputError, TraceError
from tuner.profile.file import read_profile, write_profile
from tuner.profile.generated import replayable, write_generated
from tuner.trace.file import Trace

PROFILE = ROOT / "configs/workloads/pigz-threads/pigz-threads.profile.json.zst"


@pytest.mark.parametrize("seed", [1, 7])
def test_a_profile_becomes_a_trace_of_the_same_events(tmp_path: Path, seed: int):
    found = replayable(PROFILE, seed, tmp_path / "generated.trace")

    assert found == tmp_path / "generated.trace"
    assert sorted(tmp_path.iterdir()) == [found]
    with Trace(PROFILE, seed) as profile, Trace(found) as trace:
        assert trace.level == "trace"
        assert trace.totals.n_slots == profile.totals.n_slots
        assert trace.totals.duration_ns == profile.totals.duration_ns
        assert np.array_equal(trace.read_all(), profile.read_all())


def test_a_trace_stays_where_it_is(tmp_path: Path):
    trace = ROOT / "configs/workloads/perl-index/perl-start.trace"

    assert replayable(trace, 1, tmp_path / "generated.trace") == trace
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(OutputError, match="nowhere"):
        replayable(PROFILE, 1, tmp_path / "nowhere" / "generated.trace")


def test_start_and_end_of_the_process_are_kept(tmp_path: Path):
    members = read_profile(PROFILE)
    members |= {"start_ns": 5, "end_ns": members["duration_ns"] + 5}
    write_profile(tmp_path / "life.json", members)
    found = replayable(tmp_path / "life.json", 1, tmp_path / "generated.trace")
    with Trace(found) as trace:
        assert (trace.totals.start_ns, trace.totals.end_ns) == (5, members["end_ns"])


def test_a_profile_that_cannot_be_generated_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "app.profile.json"
    members = read_profile(PROFILE)
    totals = write_generated(path, members)
    with Trace(path) as profile:
        assert profile.totals == totals
    old = path.read_bytes()
    members["windows"][0]["lives"].append([0])
    with pytest.raises(TraceError, match=rf"^{path}: "):
        write_generated(path, members)
    assert path.read_bytes() == old
