"""Heap profiles of jemalloc, gperftools and DHAT."""

import contextlib
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.command_line import CommandLine
from tests.doubles.heap_profiles import SAMPLES, refuse_profile
from tests.doubles.traces import load
from tuner.errors import TraceError
from tuner.importers import FORMATS, Imported, import_file
from tuner.profile.file import read_profile
from tuner.profile.sites import SITES
from tuner.trace.file import Op


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
):
    imported = import_file(SAMPLES / sample, tmp_path / "app.profile.json")
    profile = read_profile(imported.path)
    events = load(imported.path)

    assert imported.format == name
    assert imported.level == profile["level"] == SITES
    assert imported.caveat is not None
    assert profile["metadata"]["imported"]["lost"] == list(imported.lost)
    assert profile["source"]["assumed"] == list(imported.assumed)
    assert np.count_nonzero(events["op"] == Op.MALLOC) == profile["source"]["blocks"]
    if n_blocks is not None:
        assert profile["source"]["blocks"] == n_blocks
        assert profile["source"]["peak_live_bytes"] == peak


def test_no_code_address_is_kept(tmp_path: Path):
    for sample in ("sample.dhat", "sample.gperftools-heap", "sample.jemalloc-heap"):
        path = import_file(SAMPLES / sample, tmp_path / "app.profile.json").path
        assert "0x" not in path.read_text()


def test_a_sampled_profile_is_scaled_up(tmp_path: Path):
    text = "heap profile: 1: 1000 [ 1: 1000] @ heap_v2/1000\n 10: 10000 [ 10: 10000] @ 0x1\n"
    (tmp_path / "app.heap").write_text(text)
    profile = read_profile(import_file(tmp_path / "app.heap", tmp_path / "app.json").path)

    assert profile["source"]["blocks"] == round(10 / (1 - math.exp(-1)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heap_v2/x\n", ":1: heap_v2/BYTES or heap profile: counts @ kind was expected"),
        ("heap_v2/9\n@ 0x1\n t*: 1: 2\n", ":3: a stack @ or counts blocks: bytes"),
        ("heap_v2/9\nnonsense\n", ":2: a stack @ or counts"),
        ("", "not a file this can import"),
        ("heap profile: 1: 2 [3: 4] @ heap_v2\n", ":1: heap_v2/BYTES or"),
        ("heap_v2/9\n", "no call site that allocated"),
        ("heap profile: 1: 2 [3: 4] @ growthz\n", ":1: heap_v2/BYTES or heap profile:"),
        ("heap profile: 1: 2 [3: 4] @ heapprofile\n1 2\n", ":2: a stack @ or counts"),
    ],
)
def test_malformed_heap_profiles_are_one_error(tmp_path: Path, text: str, message: str):
    refuse_profile(tmp_path, text, message)


def test_too_many_call_sites_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tuner.importers.heap_profiles._MOST_SITES", 2)
    refuse_profile(tmp_path, "heap_v2/9\n" + 4 * "t*: 1: 8 [1: 8]\n", ":5: more than 2 call")


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
        (dhat(mbk=5), "more blocks alive than it ever allocated"),
        (dhat(tl=401), "a call site whose blocks live longer than the run"),
        (dhat(eb=101), "more bytes alive than it ever allocated"),
        (dhat(tg=101), "a peak that is not between start and end"),
        (dhat(te=0, tg=0), "a peak that is not between start and end"),
        (dhat(pps=[]), "no call site that allocated"),
        (dhat(pps=[3]), "pps.0: Input should be an object, not 3"),
        (dhat(pps=4), "pps: Input should be a valid array, not 4"),
        (dhat(dhatFileVersion=3), "dhatFileVersion: Input should be 2, not 3"),
        (dhat(mode="copy"), "mode: Input should be 'heap', not 'copy'"),
        (dhat(tu="weeks"), "tu: Input should be 'instrs' or 'ms', not 'weeks'"),
        (dhat(tbk=10**9), "more than 10,000,000 blocks"),
        (dhat(pps=[json.loads(dhat(tbk=2**53 - 1))["pps"][0]] * 2048), "more than 10,000,000"),
        (dhat(tb=2**52), "/bad: a size is out of range"),
        (dhat(te=2**50, tu="ms"), "an end that no program reaches"),
        (dhat()[:-9], "not JSON"),
    ],
)
def test_malformed_profiles_of_dhat_are_one_error(tmp_path: Path, text: str, message: str):
    refuse_profile(tmp_path, text, message)


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from([f.name for f in FORMATS.values() if f.read_sites]),
    seed=st.integers(0, 2**32),
)
def test_no_damage_crashes_the_readers(tmp_path: Path, name: str, seed: int):
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
        assert len(load(imported.path)) > 0


def test_the_command_says_what_was_lost_and_assumed(tmp_path: Path, cli: CommandLine):
    output = tmp_path / "app.profile.json"
    told = json.loads(cli.prints("import", SAMPLES / "sample.dhat", "-o", output, "--json"))
    assert told["level"] == SITES
    assert told["low_fidelity"] is True
    err = " ".join(cli.run("import", SAMPLES / "sample.dhat", "-o", output)[1].split())

    assert "lost: times" in err
    assert "assumed: lifetimes" in err
    assert "low fidelity (call sites)" in err


def test_lifetimes_of_many_blocks_add_up_to_more_than_one_run(tmp_path: Path):
    """An hour under valgrind is 7e11 instructions: 20,000 blocks that live as long have 1.4e16."""
    n_blocks, end = 20_000, 7 * 10**11
    blocks = dict.fromkeys(("tbk", "mbk", "gbk", "ebk"), n_blocks)
    sizes = dict.fromkeys(("tb", "mb", "gb", "eb"), 16 * n_blocks)
    (tmp_path / "dhat.out.1").write_text(dhat(**blocks, **sizes, tl=n_blocks * end, te=end))
    imported = import_file(tmp_path / "dhat.out.1", tmp_path / "app.profile.json")

    assert imported.totals.peak_live_blocks == n_blocks
