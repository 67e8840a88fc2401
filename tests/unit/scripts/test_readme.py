"""The answer in the README comes from a run folder."""

from pathlib import Path

import pytest

from tests.doubles.places import ROOT, load_file

readme = load_file(ROOT / "scripts" / "readme.py")


def test_the_answer_stands_between_the_markers_and_nothing_else_changes():
    answer = {"command": ["/src/run.sh", "a b"], "text": ["Keep glibc as it is.", "  43 runs"]}
    page = f"before\n{readme.BEGIN}old\n{readme.END}after\n"

    found = readme.with_answer(page, readme.shown(answer, Path("/src")))

    assert found == (
        f"before\n{readme.BEGIN}```console\n$ malloc-tuner optimize -- run.sh 'a b'\n"
        f"Keep glibc as it is.\n  43 runs\n```\n{readme.END}after\n"
    )


def test_a_page_without_markers_is_an_error():
    with pytest.raises(ValueError, match="answer: begin"):
        readme.with_answer("text\n", "new\n")


def test_the_readme_has_the_markers():
    page = (ROOT / "README.md").read_text()

    assert page.count(readme.BEGIN) == page.count(readme.END) == 1
