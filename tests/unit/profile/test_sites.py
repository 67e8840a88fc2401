"""The call-site model keeps what a heap profile holds, and says that it is of low fidelity."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.heap_profiles import SAMPLES
from tests.doubles.runs import synthetic_run
from tests.doubles.traces import load
from tuner.importers import import_file
from tuner.profile.file import write_profile
from tuner.profile.sites import Layout, Sites, first_births, lay_out, make_profile
from tuner.profile.trust import caveat, choose_workload
from tuner.report import wording
from tuner.store import WorkloadRecord
from tuner.trace.file import Op, Trace

ON_FILES = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sites_of_a_program(
    seed: int, n_sites: int, n_blocks: int, lives: tuple[int, ...] = (50, 1000, 40_000)
) -> Sites:
    """Sum up a program of random blocks as DHAT would."""
    rng = np.random.default_rng(seed)
    site = np.concatenate([np.arange(n_sites), rng.integers(0, n_sites, n_blocks)])
    birth = np.sort(rng.integers(0, 100_000, len(site)))
    size = rng.integers(1, 5000, n_sites)[site] + rng.integers(0, 3, len(site))
    mean_life = rng.choice(lives, n_sites)[site]
    death = birth + 1 + rng.exponential(mean_life).astype(np.int64)
    end = 100_000
    times = np.unique(birth)
    live = [int(size[(birth <= time) & (death > time)].sum()) for time in times]
    peak = int(times[int(np.argmax(live))])
    at_peak, at_end = (birth <= peak) & (death > peak), death > end

    def count(chosen: Any, weights: Any = None) -> Any:
        weights = None if weights is None else weights[chosen]
        return np.bincount(site[chosen], weights, n_sites).astype(np.int64)

    most = np.zeros(n_sites, np.int64)
    for time in times:
        most = np.maximum(most, count((birth <= time) & (death > time)))
    every = np.ones(len(site), np.bool_)
    return Sites(
        count(every), count(every, size),
        np.bincount(site, np.minimum(death, end) - birth, n_sites).astype(np.float64), most,
        count(at_peak), count(at_peak, size), count(at_end), count(at_end, size),
        float(peak), float(end), 1.0, is_ordered=True,
    )  # fmt: skip


def by_site(sites: Sites, values: Any) -> list[int]:
    return [int(part.sum()) for part in np.split(values, np.cumsum(sites.blocks)[:-1])]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), n_sites=st.integers(1, 12), n_blocks=st.integers(0, 150))
def test_what_the_profile_holds_is_kept(seed: int, n_sites: int, n_blocks: int):
    sites = sites_of_a_program(seed, n_sites, n_blocks)
    assert sites.flaw() is None
    layout = lay_out(sites)
    alive = (layout.birth <= sites.peak_time) & (layout.death > sites.peak_time)

    assert by_site(sites, layout.size) == sites.total_bytes.tolist()
    assert by_site(sites, np.isinf(layout.death)) == sites.end_blocks.tolist()
    assert by_site(sites, alive) == sites.peak_blocks.tolist()
    assert by_site(sites, np.where(alive, layout.size, 0)) == sites.peak_bytes.tolist()
    assert (layout.death > layout.birth).all()
    assert (layout.birth >= 0).all()
    assert (layout.birth <= np.nextafter(sites.end_time, math.inf)).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_sites_begin_in_order_and_no_later_than_their_sums_allow(seed: int):
    sites = sites_of_a_program(seed, 10, 60)
    begins = first_births(sites)

    assert (np.diff(begins) >= 0).all()
    assert (begins <= sites.end_time - sites.lifetime / sites.most_blocks).all()
    assert (begins[sites.peak_blocks > 0] <= sites.peak_time).all()


@ON_FILES
@given(seed=st.integers(0, 2**32))
def test_a_generated_workload_frees_each_block_once(tmp_path: Path, seed: int):
    """The reader checks that every free frees a live block."""
    sites = sites_of_a_program(seed, 8, 200)
    path = tmp_path / "app.profile.json"
    write_profile(path, make_profile(sites, {}))
    events = load(path, seed % 1000)
    births = events[events["op"] == Op.MALLOC]

    assert len(births) == sites.blocks.sum()
    assert int(births["size"].sum()) == sites.total_bytes.sum()
    n_freed = np.count_nonzero(events["op"] == Op.FREE)
    assert n_freed == sites.blocks.sum() - sites.end_blocks.sum()
    assert np.array_equal(events, load(path, seed % 1000))


def test_the_peak_is_that_of_the_profile_where_there_is_room(tmp_path: Path):
    sites = sites_of_a_program(3, 12, 3000, (50, 1000, 10**7))
    path = tmp_path / "app.profile.json"
    profile = make_profile(sites, {})
    write_profile(path, profile)
    with Trace(path) as trace:
        peak = trace.totals.peak_live_bytes

    true = int(sites.peak_bytes.sum())
    assert profile["source"]["peak_live_bytes"] == true
    assert profile["source"]["model_peak_live_bytes"] == pytest.approx(true, rel=0.05)
    assert peak == pytest.approx(true, rel=0.1)


@pytest.mark.parametrize(("lifetime", "n_said"), [(400 * 3.1, 1), (400 * 0.2, 0)])
def test_a_peak_above_that_of_the_file_is_said(lifetime: float, n_said: int):
    one, most, at_peak, none = (np.array([n]) for n in (400, 5, 203, 0))
    sites = Sites(
        one, one * 1000, np.array([lifetime]), most, at_peak, at_peak * 1000, none, none,
        peak_time=10.7, end_time=12.1, ns_per_unit=1e6, is_ordered=True,
    )  # fmt: skip
    profile = make_profile(sites, {})

    said = [one for one in profile["source"]["assumed"] if one.startswith("peak: ")]
    assert len(said) == n_said
    assert all("which had 198.2 KiB" in one for one in said)


def test_peak_bytes_of_a_layout():
    layout = Layout(np.array([10, 20, 30]), np.array([0.0, 1, 2]), np.array([2.0, math.inf, 3]), 0)
    assert layout.peak_bytes() == 50
    assert layout.events(1)["op"].tolist() == [0, 0, 4, 0, 4]


def test_a_campaign_warns(tmp_path: Path):
    path = import_file(SAMPLES / "sample.dhat", tmp_path / "app.profile.json").path
    workload = choose_workload(path, ["glibc"], ["peak_heap"])

    assert workload.caveat is not None
    assert workload.notes[0] == workload.caveat


def test_a_report_says_so_too(tmp_path: Path):
    made = synthetic_run(tmp_path, n_trials=5)
    with Trace(import_file(SAMPLES / "sample.dhat", tmp_path / "a.json").path) as workload:
        said = caveat(workload)
    marked = replace(made, campaign=replace(made.campaign, workload=WorkloadRecord(caveat=said)))

    assert "low fidelity" not in wording.headline(made, (), {})
    assert wording.headline(marked, (), {}).endswith(f"The workload is of {said}.")
