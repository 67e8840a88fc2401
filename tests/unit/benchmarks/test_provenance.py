"""Results files say what they measured, and which of them are old."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import provenance
from benchmarks.peers import peer_subject
from benchmarks.provenance import (
    DEPENDS_ON,
    RESULTS,
    changes_since,
    make_stamp,
    merge_stamps,
    provenance_lines,
    results_path,
    stamps_of,
    write_results,
)
from tuner.errors import SpecError

FILES = sorted(RESULTS.iterdir())


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with one source, which the results file `one` depends on."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.c").write_text("int a;\n")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "DEPENDS_ON", {"one": ("source", "other.py")})
    (tmp_path / "other.py").write_text("pass\n")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *own, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def stamp(**members: Any) -> dict[str, Any]:
    return {"of": ["a"], "commit": None, "date": None, "rounds": None, "allocators": {}, **members}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_results_file_has_stamps_of_all_its_parts_and_known_dependencies(path: Path) -> None:
    found = stamps_of(path)

    assert found
    assert path.stem in DEPENDS_ON
    assert all({"of", "commit", "machine", "rounds", "allocators"} <= set(one) for one in found)
    if path.suffix == ".json" and "parts" in (document := json.loads(path.read_text())):
        assert sorted(name for one in found for name in one["of"]) == sorted(document["parts"])


@pytest.mark.parametrize("place", sorted({p for ps in DEPENDS_ON.values() for p in ps}))
def test_what_figures_depend_on_is_there(place: str) -> None:
    assert (provenance.ROOT / place).exists()


def test_a_stamp_names_commit_binaries_sources_and_machine() -> None:
    found = make_stamp("search", ["benchmarks/search.py", "--seeds", "3"], of=["strategies"])

    assert set(found["sources"]) == set(DEPENDS_ON["search"])
    assert found["native"]["libexgen.so"]
    assert found["machine"]["n_cpus"] >= 1
    assert found["command"] == "benchmarks/search.py --seeds 3"


def test_results_are_fresh_until_a_source_changes(checkout: Path) -> None:
    measured = make_stamp("one", ["x"], of=["a"])

    assert changes_since("one", measured) == []

    (checkout / "source" / "a.c").write_text("int b;\n")

    assert changes_since("one", measured) == ["source"]


def test_a_new_file_of_a_folder_makes_results_old(checkout: Path) -> None:
    measured = make_stamp("one", ["x"], of=["a"])
    (checkout / "source" / "b.c").write_text("")
    (checkout / "source" / "a.pyc").write_text("compiled")

    assert changes_since("one", measured) == ["source"]


def test_a_stamp_without_digests_is_judged_by_its_commit(checkout: Path) -> None:
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "first")
    first = git(checkout, "rev-parse", "HEAD")
    (checkout / "other.py").write_text("changed\n")
    git(checkout, "commit", "-qam", "second")

    assert changes_since("one", stamp(commit=first)) == ["other.py"]
    assert changes_since("one", stamp(kept_in=git(checkout, "rev-parse", "HEAD"))) == []


def test_what_nothing_tells_is_unknown_and_not_fresh(checkout: Path) -> None:
    assert changes_since("one", stamp()) is None
    assert changes_since("one", stamp(commit="0" * 40)) is None


def test_a_part_measured_anew_leaves_the_stamp_it_had() -> None:
    old = stamp(of=["a", "b"], commit="1" * 40)
    new = stamp(of=["b"], commit="2" * 40)

    assert merge_stamps([old], new) == [{**old, "of": ["a"]}, new]
    assert merge_stamps([new], new) == [new]


def test_parts_of_several_commits_are_listed_one_by_one() -> None:
    lines = list(provenance_lines([
        stamp(of=["a"], commit="1" * 40, date="2026-01-02 03:04", rounds=1),
        stamp(of=["b", "c"], commit="2" * 40 + "+", date="2026-01-03 03:04", rounds=6),
    ]))  # fmt: skip

    assert lines == [
        "a: measured at commit 1111111 (2026-01-02 03:04); one round",
        "b, c: measured at commit 2222222 with changes (2026-01-03 03:04); medians of 6 rounds",
    ]


def test_an_unknown_commit_and_version_are_said() -> None:
    compared = {"mine": {"version": None, "sha256": "0123456789abcdef"}}
    (line,) = provenance_lines([stamp(kept_in="3" * 40, kept_on="2026-01-04", allocators=compared)])

    assert line == (
        "measured at an unknown commit (day unknown, kept in 3333333 of 2026-01-04); "
        "mine (version unknown) [01234567]"
    )


def test_results_are_read_as_written_without_folders_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    samples = [{"program": "p", "library": "/opt/a/lib.so", "n": n} for n in range(200)]
    write_results(path, {"provenance": [stamp()], "samples": samples})

    assert json.loads(path.read_text())["samples"][7] == {
        "program": "p",
        "library": "lib.so",
        "n": 7,
    }
    assert stamps_of(path) == [stamp()]
    assert max(map(len, path.read_text().splitlines())) < 500


def test_a_peer_without_a_version_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libpeer.so"
    library.write_bytes(b"")

    assert peer_subject(f"peer={library}@1.2").version == "1.2"
    with pytest.raises(SpecError, match=r"its version is not known.*@VERSION"):
        peer_subject(f"peer={library}")


def test_a_peer_in_its_own_checkout_has_the_version_git_describes(tmp_path: Path) -> None:
    library = tmp_path / "libpeer.so"
    library.write_bytes(b"")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "v7")

    assert peer_subject(f"peer={library}").version == "v7"


def test_a_file_name_with_the_sign_of_versions_is_a_path(tmp_path: Path) -> None:
    library = tmp_path / "lib@2.so"
    library.write_bytes(b"")

    assert peer_subject(f"peer={library}@3").library == library


def test_the_results_of_a_benchmark_without_any_yet_have_a_place() -> None:
    assert results_path("gem5_inside").suffix == ".jsonl"
    assert results_path("none") == RESULTS / "none.json"
