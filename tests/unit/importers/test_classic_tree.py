"""Classic records of a DHAT profile are those that Langdon's tools write, in their order."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.places import DATA
from tests.doubles.traces import load
from tuner.cli.main import run
from tuner.errors import TraceError
from tuner.importers.classic_tree import records_of, take_turns, tree_paths
from tuner.importers.source import Source
from tuner.trace.file import Op, Trace

SAMPLE = DATA / "imports" / "sample.dhat"


def profile(path: Path, *sites: tuple[int, int, int, list[int]]) -> Path:
    """Write a DHAT profile of sites: blocks, bytes, lifetimes, stack."""
    names = ("tbk", "tb", "tl", "fs")
    rest = {"mb": 0, "mbk": 0, "gb": 0, "gbk": 0, "eb": 0, "ebk": 0}
    pps = [{**rest, **dict(zip(names, site, strict=True))} for site in sites]
    document = {"dhatFileVersion": 2, "mode": "heap", "bklt": True, "tu": "instrs", "te": 10**6,
                "tg": 0, "cmd": "app", "pps": pps}  # fmt: skip
    path.write_text(json.dumps(document))
    return path


def as_played(record: tuple[float, float]) -> tuple[int, int]:
    size, life = record
    return int(size + 0.5), int(life + 0.5)


def played(source: Path) -> Path:
    trace = source.with_name("a.trace")
    assert run(["import", "--format", "classic", str(source), "-o", str(trace)]) == 0
    return trace


def sizes(path: Path) -> list[int]:
    events = load(path)
    found: list[int] = events["size"][events["op"] == Op.MALLOC].tolist()
    return found


def test_siblings_take_turns_and_the_branch_of_most_blocks_comes_first(tmp_path: Path):
    source = profile(
        tmp_path / "dhat.out",
        (2, 20, 0, [1, 2, 3]),
        (3, 90, 0, [1, 2, 4]),
        (1, 1000, 0, [1, 5, 6, 7]),
        (2, 4000, 0, [1, 5, 6, 8]),
    )

    assert sizes(played(source)) == [30, 10, 2000, 1000, 30, 10, 2000, 30]


def test_sites_further_apart_wait_until_the_others_have_run_out(tmp_path: Path):
    source = profile(
        tmp_path / "dhat.out",
        (2, 20, 0, [1, 2, 3, 4]),
        (2, 40, 0, [1, 2, 3, 5]),
        (2, 60, 0, [1, 2, 6]),
        (2, 800, 0, [1, 7, 8, 9]),
        (2, 600, 0, [1, 7, 8, 10]),
        (1, 1, 0, [1, 7, 11]),
    )

    assert sizes(played(source)) == [20, 10, 30, 20, 10, 30, 400, 300, 1, 400, 300]


def test_size_and_life_are_means(tmp_path: Path):
    source = profile(tmp_path / "dhat.out", (2, 25, 5000, [1]))
    assert records_of(Source(source)).tolist() == [(1, 12.5, 5)] * 2
    with Trace(played(source)) as trace:
        assert trace.level == "classic"
        assert trace.read_all()["size"].tolist() == [13, 13, 0, 0]


def test_a_recorded_profile_keeps_its_blocks(tmp_path: Path, capsys: Any):
    output = tmp_path / "a.trace"
    command = ["import", "--format", "classic", str(SAMPLE), "-o", str(output), "--json"]
    assert run(command) == 0
    told = json.loads(capsys.readouterr().out)

    # What dh_view.js and dhat_summary.awk 1.40 themselves make of the sample: in one-block sites
    # they round the lifetime, which playing does with all.
    written = [(120, 0), (131.5, 121.797), (64, 4), (320, 0.8657), (20000, 12)]
    records = records_of(Source(SAMPLE))
    assert list(dict.fromkeys(map(as_played, records[["size", "life"]].tolist()))) == list(
        map(as_played, written)
    )
    assert pytest.approx(121.797) in records["life"].tolist()
    assert (told["level"], told["low_fidelity"]) == ("classic", True)
    assert any("call tree" in what for what in told["lost"])
    assert len(sizes(output)) == 654


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=5), st.integers(0, 99)), min_size=1))
def test_each_site_has_one_place_in_the_tree(sites: list[tuple[list[int], int]]):
    stacks = [stack for stack, _ in sites]
    paths = tree_paths(stacks, [(blocks, 8 * blocks) for _, blocks in sites])
    groups = list(take_turns(paths))

    assert sorted(site for _, site in paths) == list(range(len(sites)))
    assert [path for path, _ in paths] == sorted(path for path, _ in paths)
    assert [site for group in groups for site in group] == [site for _, site in paths]


def test_a_bad_profile_is_refused(tmp_path: Path):
    output = tmp_path / "a.trace"
    bad = profile(tmp_path / "bad", (1, 8, 0, [1]))
    bad.write_text(bad.read_text().replace("[1]", "7"))
    command = ["import", "--format", "classic", str(bad), "-o", str(output)]
    assert run(command) == TraceError.exit_code
    assert not output.exists()
