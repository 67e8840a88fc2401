"""Results files say what they measured, and which of them are old."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.results import (
    RESULTS,
    changes_since,
    make_stamp,
    merge_stamps,
    read_results,
    results_path,
    source_digests,
    stamp_lines,
    write_results,
)
from benchmarks.status import BENCHMARKS
from tuner import zstd
from tuner.errors import SpecError

PLACES = ("source", "other.py")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with one source, which the results file `one` depends on."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.c").write_text("int a;\n")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "other.py").write_text("pass\n")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *own, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def committed(folder: Path) -> str:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return git(folder, "rev-parse", "HEAD")


def stamp(**members: Any) -> dict[str, Any]:
    return {"of": ["a"], "commit": None, "date": None, "rounds": None, "allocators": {}, **members}


@pytest.mark.parametrize("path", sorted(RESULTS.iterdir()), ids=lambda path: path.name)
def test_every_results_file_has_stamps_of_all_its_parts_and_a_benchmark(path: Path):
    found = read_results(path)

    assert path == results_path(path.name.partition(".")[0])
    assert path.name.partition(".")[0] in BENCHMARKS
    assert sorted(name for one in found["provenance"] for name in one["of"]) == sorted(
        found["parts"]
    )
    known = {"of", "commit", "machine", "rounds", "allocators"}
    assert all(known <= set(one) for one in found["provenance"])
    assert " /" not in "".join(one.get("command") or "" for one in found["provenance"])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_figures_depend_on_is_there(name: str):
    missing = [p for p in BENCHMARKS[name].depends_on if not (results.ROOT / p).exists()]

    assert missing == []


def test_a_stamp_names_commit_binaries_sources_and_machine(checkout: Path):
    commit = committed(checkout)

    found = make_stamp(["benchmarks/one.py", "--rounds", "3"], PLACES, of=["a"])

    assert found["commit"] == commit
    assert set(found["sources"]) == set(PLACES)
    assert found["native"]["libexgen.so"]
    assert found["machine"]["n_cpus"] >= 1
    assert found["command"] == "benchmarks/one.py --rounds 3"


def test_nothing_is_kept_without_a_commit(checkout: Path):
    with pytest.raises(SpecError, match="no git checkout"):
        make_stamp(["x"], PLACES, of=["a"])


def test_a_changed_source_is_marked_but_written_results_are_not(checkout: Path):
    commit = committed(checkout)
    (checkout / "benchmarks" / "results").mkdir(parents=True)
    (checkout / "benchmarks" / "results" / "one.json.zst").write_bytes(b"")

    assert results.commit() == commit

    (checkout / "other.py").write_text("changed\n")

    assert results.commit() == f"{commit}+"


def test_results_are_fresh_until_a_source_changes(checkout: Path):
    measured = {"sources": source_digests(PLACES)}

    assert changes_since(PLACES, measured) == []

    (checkout / "source" / "a.c").write_text("int b;\n")

    assert changes_since(PLACES, measured) == ["source"]


def test_a_new_file_of_a_folder_makes_results_old(checkout: Path):
    measured = {"sources": source_digests(PLACES)}
    (checkout / "source" / "b.c").write_text("")
    (checkout / "source" / "a.pyc").write_text("compiled")

    assert changes_since(PLACES, measured) == ["source"]


def test_a_stamp_without_digests_is_judged_by_its_commit(checkout: Path):
    first = committed(checkout)
    (checkout / "other.py").write_text("changed\n")
    git(checkout, "commit", "-qam", "second")

    assert changes_since(PLACES, stamp(commit=first)) == ["other.py"]
    assert changes_since(PLACES, stamp(kept_in=git(checkout, "rev-parse", "HEAD"))) == []


def test_a_place_that_a_stamp_has_no_digest_of_is_judged_by_its_commit(checkout: Path):
    known = {"sources": source_digests(PLACES[:1]), "commit": committed(checkout)}

    assert changes_since(PLACES, known) == []

    (checkout / "other.py").write_text("changed\n")

    assert changes_since(PLACES, known) == ["other.py"]
    assert changes_since(PLACES, {**known, "commit": "0" * 40}) == ["other.py"]


def test_figures_without_provenance_are_unknown_and_not_fresh(checkout: Path):
    assert changes_since(PLACES, stamp()) is None
    assert changes_since(PLACES, stamp(commit="0" * 40)) is None


def test_a_part_measured_anew_leaves_the_stamp_it_had():
    old = stamp(of=["a", "b"], commit="1" * 40)
    new = stamp(of=["b"], commit="2" * 40)

    assert merge_stamps([old], new) == [{**old, "of": ["a"]}, new]
    assert merge_stamps([new], new) == [new]


def test_parts_of_several_commits_are_listed_one_by_one():
    lines = list(stamp_lines([
        stamp(of=["a"], commit="1" * 40, date="2026-01-02 03:04", rounds=1),
        stamp(of=["b", "c"], commit="2" * 40 + "+", date="2026-01-03 03:04", rounds=6),
    ]))  # fmt: skip

    assert lines == [
        "a: measured at commit 1111111 (2026-01-02 03:04); one round",
        "b, c: measured at commit 2222222 with changes (2026-01-03 03:04); medians of 6 rounds",
    ]


def test_an_unknown_commit_and_version_are_said():
    compared = {"mine": {"version": None, "sha256": "0123456789abcdef"}}
    (line,) = stamp_lines([stamp(kept_in="3" * 40, kept_on="2026-01-04", allocators=compared)])

    assert line == (
        "measured at an unknown commit (day unknown, kept in 3333333 of 2026-01-04); "
        "mine (version unknown) [01234567]"
    )


def test_parts_of_one_call_have_one_stamp():
    first, second = stamp(of=["a"], commit="1" * 40), stamp(of=["b"], commit="1" * 40)

    assert merge_stamps([first], second) == [stamp(of=["a", "b"], commit="1" * 40)]


def test_results_are_read_as_written_without_folders_and_needless_digits(tmp_path: Path):
    path = tmp_path / "x.json.zst"
    measured = {"s": 0.12345678, "ns": 1_234_567, "is_due": True}
    samples = [{"library": "/opt/a/lib.so", "n": n, **measured} for n in range(200)]
    write_results(path, "x", {"a": samples}, [stamp(command="x.py --keep /opt/b/x --peer=/opt/c")])

    found = read_results(path)

    kept = {"s": 0.12346, "ns": 1_234_600, "is_due": True}
    assert found["parts"]["a"][7] == {"library": "lib.so", "n": 7, **kept}
    assert found["provenance"] == [stamp(command="x.py --keep x --peer=c")]
    assert path.stat().st_size < 1000


@pytest.mark.parametrize(
    "value",
    [
        [{"n": n, "of": [{"a": n + 0.5}] * n} for n in range(9)],
        [{"n": 1}, {"n": None, "why": "x"}, {"why": "y", "n": 3}, {"n": 4}],
        [None, {"n": 1}, None, {"n": 2}, {"n": 3}, {"n": 4}],
        [f'{{"a": {n}, "b": [1.5, null]}}' for n in range(4)],
        ['{"a":1}', "{"],
        [{}] * 4,
        [[], "", {"a": [{"b": True}] * 4}],
    ],
    ids=[
        "rows of rows",
        "other members",
        "missing rows",
        "journal",
        "no journal",
        "empty",
        "no rows",
    ],
)
def test_rows_lie_by_column_only_in_the_file(tmp_path: Path, value: object):
    path = tmp_path / "x.json.zst"
    write_results(path, "x", {"a": value}, [])

    assert json.dumps(read_results(path)["parts"]["a"]) == json.dumps(value)


def test_results_that_are_there_stay_whole_while_others_are_written(tmp_path: Path):
    path = tmp_path / "x.json.zst"
    write_results(path, "x", {"a": [1]}, [])
    with path.open("rb") as before:
        write_results(path, "x", {"a": [2] * 1000}, [])

        assert zstd.decompress(before.read()).endswith(b'"parts":{"a":[1]}}')


def test_a_benchmark_without_results_has_none(tmp_path: Path):
    assert read_results(tmp_path / "none.json.zst") == {"provenance": [], "parts": {}}
