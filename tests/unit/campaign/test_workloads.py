"""The files that a campaign replays, and what they say of its workloads."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.doubles import synthetic
from tests.doubles.places import ROOT
from tuner.campaign.workloads import replay_files
from tuner.config import CampaignSpec
from tuner.config.campaign import campaign_from_options
from tuner.emulation import EmulationOptions
from tuner.errors import OutputError, TraceError
from tuner.store import Store
from tuner.trace.file import EVENT, Api, Trace, write_trace

PROFILE = ROOT / "configs/workloads/pigz-threads/pigz-threads.profile.json.zst"


def _spec(trace: Path, *further: Path) -> CampaignSpec:
    return campaign_from_options(
        trace=trace, further_traces=further, allocators=["glibc"], evaluations=1
    )


def _write(
    path: Path, *, is_fork: bool = False, n_events: int = 1, life_ns: int = 20 * 10**9
) -> Path:
    events = np.zeros(n_events, dtype=EVENT)
    events["size"], events["api"] = 100, Api.MALLOC
    write_trace(path, events, {"is_fork": is_fork}, life=(0, life_ns))
    return path


def test_a_profile_is_replayed_as_it_is(tmp_path: Path):
    """rand_malloc keeps the events that it generates for the first replay."""
    run = tmp_path / "run"
    with replay_files(_spec(PROFILE), EmulationOptions(), run) as found:
        files = found.keep(run)

    assert files == (PROFILE,)
    with Trace(PROFILE, EmulationOptions().seed) as trace:
        assert found.facts.duration_ns == trace.totals.life_ns
        assert found.facts.n_threads == trace.totals.n_threads


def test_each_seed_of_a_profile_is_a_file(tmp_path: Path):
    with replay_files(_spec(PROFILE), EmulationOptions(seeds=2), tmp_path) as found:
        files = found.keep(tmp_path)

    assert [file.name for file in files] == [PROFILE.name, "generated-0-1.trace"]


def test_a_trace_stays_where_it_is_and_the_facts_are_the_greatest(tmp_path: Path):
    """The recorder says of a trace that it is a forked worker's."""
    first = _write(tmp_path / "first.trace")
    worker = _write(tmp_path / "worker.trace", is_fork=True)
    with replay_files(_spec(first, worker), EmulationOptions(), tmp_path / "run") as both:
        assert both.keep(tmp_path / "run") == (first, worker)
    with replay_files(_spec(first), EmulationOptions(), tmp_path / "run") as alone:
        pass

    assert (alone.facts.is_fork, both.facts.is_fork) == (False, True)
    assert alone.facts.is_long_running


def test_a_trace_with_the_name_of_a_generated_one_stays_where_it_is(tmp_path: Path):
    own = _write(tmp_path / "generated-0.trace")
    run = tmp_path / "run"
    with replay_files(_spec(own), EmulationOptions(), run) as found:
        files = found.keep(run)

    assert files == (own,)
    assert own.is_file()


@pytest.mark.parametrize(
    ("allocators", "life_ns", "freed_bytes"),
    [(["tcmalloc"], 20 * 10**9, 100), (["tcmalloc"], 10**9, None), (["glibc"], 20 * 10**9, None)],
)
def test_events_are_looked_at_only_where_a_setting_depends_on_them(
    tmp_path: Path, allocators: list[str], life_ns: int, freed_bytes: int | None
):
    trace = _write(tmp_path / "a.trace", life_ns=life_ns)
    spec = campaign_from_options(trace=trace, allocators=allocators, evaluations=1)
    with replay_files(spec, EmulationOptions(), tmp_path / "run") as found:
        pass

    assert found.facts.freed_bytes == freed_bytes


def test_a_campaign_that_cannot_begin_leaves_nothing(tmp_path: Path):
    options = EmulationOptions(seeds=2)
    with replay_files(_spec(PROFILE), options, tmp_path / "run") as found:
        assert [path.is_file() for path in found.waiting.values()] == [True, True]

    assert not list(tmp_path.iterdir())  # nobody kept the files


def test_a_campaign_that_has_begun_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its folder may be one that can only be read."""
    Store.create(tmp_path, synthetic.record()).close()
    monkeypatch.setattr("tempfile.TemporaryDirectory", None)

    with replay_files(_spec(PROFILE), EmulationOptions(seeds=1), tmp_path) as found:
        assert found.keep(tmp_path) == (PROFILE,)


def test_what_a_killed_tool_generated_is_removed_and_what_is_held_stays(tmp_path: Path):
    with replay_files(_spec(PROFILE), EmulationOptions(), tmp_path) as held:
        (tmp_path / ".generated-left").mkdir()
        for folder in tmp_path.iterdir():
            os.utime(folder, (0, 0))
        with replay_files(_spec(PROFILE), EmulationOptions(), tmp_path) as found:
            assert {*tmp_path.iterdir()} == {held.room, found.room}


def test_a_trace_without_events_is_refused(tmp_path: Path):
    empty = _write(tmp_path / "empty.trace", n_events=0)

    with (
        pytest.raises(TraceError, match=r"empty.trace: holds no events"),
        replay_files(_spec(empty), EmulationOptions(), tmp_path / "run"),
    ):
        pass
    cut = _write(tmp_path / "cut.trace", n_events=1)
    cut.write_bytes(cut.read_bytes()[:-20])
    with (
        pytest.raises(TraceError, match=r"cut.trace: the file was cut off after"),
        replay_files(_spec(cut), EmulationOptions(), tmp_path / "run"),
    ):
        pass


def test_a_run_folder_that_cannot_be_made_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()

    with (
        pytest.raises(OutputError, match="choose another run folder"),
        replay_files(_spec(PROFILE), EmulationOptions(), tmp_path / "file" / "run"),
    ):
        pass
