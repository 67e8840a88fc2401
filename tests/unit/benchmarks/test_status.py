"""Pages say what the results say: the table of claims, and where figures come from."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import results, status
from benchmarks.heap_curves import BENCHMARK
from benchmarks.results import source_digests
from benchmarks.sources import EXGEN, SEARCH
from benchmarks.status import (
    BENCHMARKS,
    age_words,
    block_text,
    disagreements,
    pages,
    shortened,
    status_lines,
    without_age,
    write_blocks,
)
from tests.doubles.places import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_disagrees_with_the_results(page: Path):
    assert list(disagreements(page)) == []


def test_a_page_has_the_table_of_all_claims():
    table = block_text("figures")

    assert without_age(table) in without_age((ROOT / "docs" / "claims.md").read_text())
    assert all(f"`benchmarks/{name}.py`" in table for name in BENCHMARKS)


def test_every_benchmark_of_the_folder_is_listed():
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")
             if "BENCHMARK: Final" in path.read_text()}  # fmt: skip

    assert files == set(BENCHMARKS)


def test_make_bench_measures_all_of_them_and_makes_nothing_that_ships():
    words = ["make", "--dry-run", "bench"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)

    loop = re.search(r"for benchmark in (.*); do", done.stdout)

    assert loop
    assert {Path(word).stem for word in loop[1].split()} == set(BENCHMARKS)


def test_figures_of_a_changed_tree_are_marked(monkeypatch: pytest.MonkeyPatch):
    stamps = [{"of": [name], "commit": commit} for name, commit in
              (("a", "1" * 40), ("b", f"{'1' * 40}+"), ("c", None))]  # fmt: skip
    monkeypatch.setattr(status, "read_results", lambda _: {"provenance": stamps, "parts": {}})
    monkeypatch.setattr(status, "changes_since", lambda *_: [])

    line = status.origin_line(BENCHMARK)

    assert line.startswith("Measured at 3 commits: 1111111, 1111111+, unknown commit. ")


@pytest.mark.parametrize("name", ["answers", "services", "gem5_answer"])
def test_answers_are_old_when_what_finds_and_measures_them_changed(name: str):
    needed = {*EXGEN, *SEARCH, "rand_malloc", "tuner/measure", "tuner/optimize"}

    assert needed - set(BENCHMARKS[name].depends_on) == set()


def test_figures_are_old_when_a_module_of_the_benchmark_that_makes_them_changed():
    assert "benchmarks/recommendations.py" in BENCHMARKS["false_alarms"].depends_on


def test_a_page_that_was_changed_by_hand_is_found_and_written_anew(tmp_path: Path):
    page = tmp_path / "page.md"
    block = "<!-- provenance:record: begin -->\n{}<!-- provenance:record: end -->\n"
    changed = block.format("- measured today\n")
    page.write_text(f"before\n{changed}after\n")

    assert list(disagreements(page)) == ["provenance:record"]

    write_blocks(page)

    assert list(disagreements(page)) == []
    assert page.read_text() == f"before\n{block.format(block_text('provenance:record'))}after\n"


def test_a_block_of_no_results_file_is_an_error(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("<!-- provenance:nothing: begin -->\n<!-- provenance:nothing: end -->\n")

    with pytest.raises(KeyError, match="nothing"):
        list(disagreements(page))


def test_what_is_newer_than_results_is_written_but_not_compared():
    words = age_words(["allocator/src", "allocator/include", "tuner/measure"])

    assert words == "; **older than allocator, tuner of this tree**"
    assert without_age(f"- measured{words}\n") == "- measured\n"
    assert age_words([]) == age_words(None) == ""


def test_the_list_says_what_is_stale_and_what_has_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stamp = {"of": ["a"], "commit": "1" * 40, "date": "2026-01-02", "sources": {"x.c": "old"}}
    kept = {"provenance": [stamp], "parts": {"a": []}}
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(status, "read_results", lambda _: kept)
    (tmp_path / "x.c").write_text("int x;\n")
    one = replace(BENCHMARK, name="one", depends_on=("x.c",), needs=())

    (line,) = status_lines(one)
    assert line.startswith("one (a): STALE: x.c changed since\n    measured at commit 1111111")

    stamp["sources"] = source_digests(("x.c",))
    (line,) = status_lines(one)
    assert line.startswith("one (a): fresh\n")

    first, _ = status_lines(replace(one, needs=("a", "b")))
    assert first == "one: not measured: b"

    kept["provenance"] = []
    assert list(status_lines(one)) == ["one: no results yet"]


def test_a_long_table_of_a_page_keeps_its_first_rows_and_says_where_the_others_are():
    head = ["text", "", "| a | b |", "|---|---|"]
    rows = [f"| {n} | 1 |" for n in range(13)]

    assert shortened([*head, *rows[:10], "", "end"], "x") == [*head, *rows[:10], "", "end"]
    assert shortened([*head, *rows], "x") == [
        *head,
        *rows[:10],
        "",
        "and 3 more: `benchmarks/x.py --print`",
    ]


def test_a_claim_without_results_says_so():
    assert all(one.outcome_text({}) == "not kept yet" for one in BENCHMARKS.values())
