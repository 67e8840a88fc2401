"""Pages say what the results say: the table of claims, and where figures come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import outcomes, provenance, status
from benchmarks.fidelity_tables import shortened
from benchmarks.outcomes import CLAIMS, age_words, without_age
from benchmarks.provenance import DEPENDS_ON
from benchmarks.status import block_text, disagreements, pages, status_lines, write_blocks

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_disagrees_with_the_results(page: Path) -> None:
    assert list(disagreements(page)) == []


def test_readme_has_the_table_of_all_claims() -> None:
    table = block_text("figures")

    assert without_age(table) in without_age((ROOT / "README.md").read_text())
    assert {claim.name for claim in CLAIMS} == set(DEPENDS_ON)
    assert all(f"`benchmarks/{claim.name}.py`" in table for claim in CLAIMS)


def test_a_missed_target_is_in_the_table() -> None:
    """The generator's target is missed by the results that are kept, and said so."""
    (claim,) = (claim for claim in CLAIMS if claim.name == "generator")
    results = {"traces": {"a": {"seconds": {
        runs: {"trace": [1.0] * 3, "profile": [ratio] * 3}
        for runs, ratio in (("plan", 1.5), ("memory", 0.9), ("both", 0.9))
    }}}}  # fmt: skip

    assert claim.outcome(results).startswith("**missed**: ")
    results["traces"]["a"]["seconds"]["plan"]["profile"] = [0.9] * 3
    assert claim.outcome(results).startswith("reached: ")


def test_a_page_that_was_changed_by_hand_is_found_and_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = "<!-- provenance:record: begin -->\n{}<!-- provenance:record: end -->\n"
    changed = block.format("- measured today\n")
    page.write_text(f"before\n{changed}after\n")

    assert list(disagreements(page)) == ["provenance:record"]

    write_blocks(page)

    assert list(disagreements(page)) == []
    assert page.read_text() == f"before\n{block.format(block_text('provenance:record'))}after\n"


def test_a_block_of_no_results_file_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- provenance:nothing: begin -->\n<!-- provenance:nothing: end -->\n")

    with pytest.raises(KeyError, match="nothing"):
        list(disagreements(page))


def test_what_is_newer_than_results_is_written_but_not_compared() -> None:
    words = age_words(["allocator/src", "allocator/include", "tuner/measure"])

    assert words == "; **older than allocator, tuner of this tree**"
    assert without_age(f"- measured{words}\n") == "- measured\n"
    assert age_words([]) == age_words(None) == ""


def test_the_list_says_what_is_stale_and_what_has_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = {"of": ["a"], "commit": "1" * 40, "date": "2026-01-02", "sources": {"x.c": "old"}}
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "DEPENDS_ON", {"one": ("x.c",)})
    (tmp_path / "x.c").write_text("int x;\n")
    monkeypatch.setattr(status, "stamps_of", lambda path: [stamp] if path.stem == "one" else [])

    (line,) = status_lines("one")
    assert line.startswith("one (a): STALE: x.c changed since\n    measured at commit 1111111")
    assert list(status_lines("two")) == ["two: no results yet"]

    stamp["sources"] = provenance.source_digests("one")
    (line,) = status_lines("one")
    assert line.startswith("one (a): fresh\n")


def test_a_long_table_of_a_page_keeps_its_first_rows_and_says_where_the_others_are() -> None:
    head = ["text", "", "| a | b |", "|---|---|"]
    rows = [f"| {n} | 1 |" for n in range(13)]

    assert shortened([*head, *rows[:10], "", "end"], "x") == [*head, *rows[:10], "", "end"]
    assert shortened([*head, *rows], "x") == [
        *head,
        *rows[:10],
        "",
        "and 3 more: `benchmarks/x.py --print`",
    ]


def test_a_claim_without_results_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(outcomes, "results_path", lambda name: tmp_path / name)

    assert all(claim.text == "not kept yet" for claim in CLAIMS)
