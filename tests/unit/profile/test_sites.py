"""The call-site model keeps what a heap profile tells, and says that it is of low fidelity."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.places import DATA
from tests.doubles.runs import synthetic_run
from tuner.cli.main import run
from tuner.errors import TraceError
from tuner.importers import FORMATS, Imported, import_file
from tuner.profile.file import read_profile, write_profile
from tuner.profile.sites import SITES, Layout, Sites, first_births, lay_out, make_profile
from tuner.profile.trust import caveat, choose_workload
from tuner.report import wording
from tuner.trace.file import Events, Op, Trace

SAMPLES = DATA / "imports"
"""One program, recorded by valgrind 3.19, jemalloc 5.3 and gperftools 2.10."""

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


def read(path: Path, seed: int = 1) -> Events:
    with Trace(path, seed) as trace:
        return trace.read_all()


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), n_sites=st.integers(1, 12), n_blocks=st.integers(0, 150))
def test_what_the_profile_holds_is_kept(seed: int, n_sites: int, n_blocks: int) -> None:
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
def test_sites_begin_in_order_and_no_later_than_their_sums_allow(seed: int) -> None:
    sites = sites_of_a_program(seed, 10, 60)
    begins = first_births(sites)

    assert (np.diff(begins) >= 0).all()
    assert (begins <= sites.end_time - sites.lifetime / sites.most_blocks).all()
    assert (begins[sites.peak_blocks > 0] <= sites.peak_time).all()


@ON_FILES
@given(seed=st.integers(0, 2**32))
def test_a_generated_workload_frees_each_block_once(tmp_path: Path, seed: int) -> None:
    """The reader checks that every free frees a live block."""
    sites = sites_of_a_program(seed, 8, 200)
    path = tmp_path / "app.profile.json"
    write_profile(path, make_profile(sites, {}))
    events = read(path, seed % 1000)
    births = events[events["op"] == Op.MALLOC]

    assert len(births) == sites.blocks.sum()
    assert int(births["size"].sum()) == sites.total_bytes.sum()
    n_freed = np.count_nonzero(events["op"] == Op.FREE)
    assert n_freed == sites.blocks.sum() - sites.end_blocks.sum()
    assert np.array_equal(events, read(path, seed % 1000))


def test_the_peak_is_that_of_the_profile_where_there_is_room(tmp_path: Path) -> None:
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


def test_peak_bytes_of_a_layout() -> None:
    layout = Layout(np.array([10, 20, 30]), np.array([0.0, 1, 2]), np.array([2.0, math.inf, 3]), 0)
    assert layout.peak_bytes() == 50
    assert layout.events(1)["op"].tolist() == [0, 0, 4, 0, 4]


@pytest.mark.parametrize(
    ("sample", "name", "n_blocks", "peak"),
    [
        ("sample.dhat", "dhat", 654, 29_040),
        ("sample.gperftools-heap", "gperftools-heap", 654, 5344),
        ("sample.jemalloc-heap", "jemalloc-heap", None, None),
    ],
)
def test_recorded_samples(
    tmp_path: Path, sample: str, name: str, n_blocks: int | None, peak: int | None
) -> None:
    imported = import_file(SAMPLES / sample, tmp_path / "app.profile.json")
    profile = read_profile(imported.path)
    events = read(imported.path)

    assert imported.format == name
    assert imported.level == profile["level"] == SITES
    assert imported.caveat is not None
    assert profile["metadata"]["imported"]["lost"] == list(imported.lost)
    assert profile["source"]["assumed"] == list(imported.assumed)
    assert np.count_nonzero(events["op"] == Op.MALLOC) == profile["source"]["blocks"]
    if n_blocks is not None:
        assert profile["source"]["blocks"] == n_blocks
        assert profile["source"]["peak_live_bytes"] == peak


def test_no_code_address_is_kept(tmp_path: Path) -> None:
    for sample in ("sample.dhat", "sample.gperftools-heap", "sample.jemalloc-heap"):
        path = import_file(SAMPLES / sample, tmp_path / "app.profile.json").path
        assert "0x" not in path.read_text()


def test_a_sampled_profile_is_scaled_up(tmp_path: Path) -> None:
    text = "heap profile: 1: 1000 [ 1: 1000] @ heap_v2/1000\n 10: 10000 [ 10: 10000] @ 0x1\n"
    (tmp_path / "app.heap").write_text(text)
    profile = read_profile(import_file(tmp_path / "app.heap", tmp_path / "app.json").path)

    assert profile["source"]["blocks"] == round(10 / (1 - math.exp(-1)))


def dhat(**changes: Any) -> str:
    """Return a DHAT file of one site, with members changed, of the site or the file."""
    site = {
        "tb": 100,
        "tbk": 4,
        "tl": 40,
        "mb": 50,
        "mbk": 2,
        "gb": 25,
        "gbk": 1,
        "eb": 0,
        "ebk": 0,
    }
    document = {"dhatFileVersion": 2, "mode": "heap", "bklt": True, "tu": "instrs", "te": 100,
                "tg": 50, "cmd": "app"}  # fmt: skip
    site |= {name: value for name, value in changes.items() if name in site}
    document |= {name: value for name, value in changes.items() if name not in site}
    return json.dumps({**document, "pps": changes.get("pps", [site])})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (dhat(tb=-1), "pps.0.tb: Input should be greater than or equal to 0, not -1"),
        (dhat(tl=1.5), "pps.0.tl: Input should be a valid integer, not 1.5"),
        (dhat(tbk=True), "pps.0.tbk: Input should be a valid integer, not True"),
        (dhat(gbk=5), "more blocks alive than it ever allocated"),
        (dhat(eb=101), "more bytes alive than it ever allocated"),
        (dhat(tg=101), "a peak that is not between start and end"),
        (dhat(te=0, tg=0), "a peak that is not between start and end"),
        (dhat(pps=[]), "no call site that allocated"),
        (dhat(pps=[3]), "pps.0: Input should be an object, not 3"),
        (dhat(pps=4), "pps: Input should be a valid array, not 4"),
        (dhat(dhatFileVersion=3), "dhatFileVersion: Input should be 2, not 3"),
        (dhat(mode="copy"), "mode: Input should be 'heap', not 'copy'"),
        (dhat(tu="weeks"), "tu: Input should be 'instrs' or 'ms', not 'weeks'"),
        (dhat(tbk=10**9), "more than 100,000,000 blocks"),
        (dhat()[:-9], "not JSON"),
        ("heap_v2/x\n", ":1: heap_v2/BYTES was expected"),
        ("heap_v2/9\n@ 0x1\n t*: 1: 2\n", ":3: t*: blocks: bytes"),
        ("heap_v2/9\nnonsense\n", ":2: a stack @ or counts t"),
        ("heap_v2/9\n", "no call site that allocated"),
        ("heap profile: 1: 2 [3: 4] @ growthz\n", ":1: heap profile:"),
        ("heap profile: 1: 2 [3: 4] @ heapprofile\n1 2\n", ":2: blocks: bytes"),
    ],
)
def test_malformed_files_are_one_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad").write_text(text)
    with pytest.raises(TraceError) as error:
        import_file(tmp_path / "bad", tmp_path / "out.json")
    assert message in str(error.value)
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from([f.name for f in FORMATS.values() if f.read_sites]),
    seed=st.integers(0, 2**32),
)
def test_no_damage_crashes_the_readers(tmp_path: Path, name: str, seed: int) -> None:
    """Whatever is accepted makes a profile that can be read."""
    rng = random.Random(seed)
    content = bytearray((SAMPLES / f"sample.{name}").read_bytes())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content))
        damage: Callable[[], None] = rng.choice([
            lambda at=at: content.__setitem__(at, rng.choice(b'0129-{}[],:"@te \n')),
            lambda at=at: content.__delitem__(slice(at, at + rng.randrange(1, 30))),
            lambda at=at: content.__setitem__(slice(at, at), content[at : at + 40]),
        ])  # fmt: skip
        damage()
    (tmp_path / "damaged").write_bytes(content)
    with contextlib.suppress(TraceError):
        imported: Imported = import_file(tmp_path / "damaged", tmp_path / "out.json", name)
        assert len(read(imported.path)) > 0


def test_the_command_says_what_was_lost_and_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "app.profile.json"
    assert run(["import", str(SAMPLES / "sample.dhat"), "-o", str(output), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["level"] == SITES
    assert told["low_fidelity"] is True
    assert run(["import", str(SAMPLES / "sample.dhat"), "-o", str(output)]) == 0
    err = capsys.readouterr().err

    assert "lost: times" in err
    assert "assumed: lifetimes" in err
    assert "low fidelity (call sites)" in err


def test_a_campaign_warns_and_keeps_the_warning(tmp_path: Path) -> None:
    path = import_file(SAMPLES / "sample.dhat", tmp_path / "app.profile.json").path
    workload = choose_workload(path, ["glibc"], ["peak_heap"])

    assert workload.caveat is not None
    assert workload.notes[0] == workload.caveat
    assert workload.as_record()["caveat"] == workload.caveat


def test_a_report_says_so_too(tmp_path: Path) -> None:
    made = synthetic_run(tmp_path, n_trials=5)
    with Trace(import_file(SAMPLES / "sample.dhat", tmp_path / "a.json").path) as workload:
        said = caveat(workload)
    marked = replace(made, campaign=replace(made.campaign, workload={"caveat": said}))

    assert "low fidelity" not in wording.headline(made, ())
    assert wording.headline(marked, ()).endswith(f"The workload is of {said}.")
