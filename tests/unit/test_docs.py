"""Documentation that can be checked: links lead somewhere, lists are complete."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.doubles.places import ROOT
from tuner.cli.app import COMMANDS
from tuner.config import CampaignSpec
from tuner.config.campaign import EmulationSpec, RecheckSpec, ScreeningSpec, StopSpec
from tuner.config.program_file import ProgramFile, ProgramTable, ServiceTable
from tuner.metrics import objective_names
from tuner.registry import STRATEGIES

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").rglob("*.md")]


LINKED = [*PAGES, *(ROOT / "allocator").glob("*.md"), *(ROOT / "gem5-validate").glob("*.md")]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]

    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_that_are_named_exist(page: Path):
    named = re.findall(r"`((?:benchmarks|scripts)/\w+\.py)", page.read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


def headings(page: Path) -> set[str]:
    """Return the ends of links to the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path):
    links = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text())

    wrong = [
        (name, end)
        for name, end in links
        if end not in headings(page.parent / name if name else page)
    ]
    assert wrong == []


def test_a_guide_shows_every_command():
    docs = ROOT / "docs"
    guides = [ROOT / "README.md", docs / "tutorial.md", docs / "allocators.md"]
    text = "".join(page.read_text() for page in (*guides, *(docs / "how-to").glob("*.md")))

    assert [n for n in COMMANDS if not re.search(rf"malloc-tuner {n}(?![\w-])", text)] == []


_NUMBER = re.compile(r"[\s*~<>=+-]*\d+([.,]\d+)*\s*(%|s|ms|ns|[kMG]i?B|times|of \d+)?[\s*]*")


def numeric_tables(text: str) -> list[list[str]]:
    """Return the rows of each table most of whose cells, but for the first column, are numbers."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = table.splitlines()[2:]
        cells = [cell for row in rows for cell in row.strip("|").split("|")[1:]]
        if 2 * sum(bool(_NUMBER.fullmatch(cell)) for cell in cells) > len(cells):
            found.append(rows)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_table_of_numbers_has_at_most_ten_rows(page: Path):
    assert [rows[0] for rows in numeric_tables(page.read_text()) if len(rows) > 10] == []


def test_a_table_of_numbers_is_known():
    words = "| a | b |\n|---|---|\n| x | see 3 |\n"
    numbers = "| a | b | c |\n|---|---:|---:|\n| x | **1.5 %** | +2 ms |\n| y | - | ~3,000 |\n"

    assert numeric_tables(f"{words}\n{numbers}") == [numbers.splitlines()[2:]]


_MORE = "(?:less|more|fewer|lower|higher|faster|slower|larger|smaller|longer|shorter)"
_SHARE = r"\d+ %|(?:half|third|quarter|fourth|fifth|sixth|eighth|tenth|twentieth|hundredth)s?"
_COMPARED = re.compile(rf"(?P<bound>at most (?:a )?)?\b(?P<figure>(?:{_SHARE}) {_MORE})\b")
_SHOWN = re.compile(r"<!-- (\S+): begin.*?<!-- \1: end -->", re.DOTALL)
_COMMAND = re.compile(r"(?:benchmarks|scripts)/\w+\.py|malloc-tuner \w+|\]\(https?:")


def figures_without_command(text: str) -> list[str]:
    """Return what is so much less or more, in paragraphs that name no command or source."""
    paragraphs = _SHOWN.sub("", text).splitlines()
    found = (m for x in paragraphs if not _COMMAND.search(x) for m in _COMPARED.finditer(x))
    return [one["figure"] for one in found if not one["bound"]]


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_names_what_prints_its_figures(page: Path):
    assert figures_without_command(page.read_text()) == []


def test_a_figure_without_its_command_is_known():
    by_hand = "It peaks 5 % lower, in a fifth less time.\n- Takes two fifths fewer and 3 % more.\n"
    shown = "<!-- a:b: begin -->\n5 % less\n<!-- a:b: end -->\nAt 5 %, at most a quarter longer.\n"
    named = "It peaks 5 % lower (`benchmarks/noise.py --print`).\n"

    assert figures_without_command(shown + named + by_hand) == [
        "5 % lower", "fifth less", "fifths fewer", "3 % more"
    ]  # fmt: skip


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\w+\.md)\)", (folder / "README.md").read_text()))

    assert listed == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_every_dependency_has_its_paragraph():
    decided = (ROOT / "docs" / "decisions" / "dependencies.md").read_text()
    project = (ROOT / "pyproject.toml").read_text().split("[project.scripts]")[0]
    names = re.findall(r'"([a-z0-9-]+)(?:>=[0-9.]+)?"', project.split("dependencies = [", 1)[1])

    assert [name for name in names if f"**{name}**" not in decided] == []


def test_every_source_of_exgen_has_its_place_in_the_table():
    text = (ROOT / "allocator" / "README.md").read_text()
    names = {path.stem for path in (ROOT / "allocator" / "src").glob("*/*.[ch]")}
    assert {name for name in names if not re.search(rf"`{name}(\.h)?`", text)} == set()


def test_every_key_of_a_campaign_file_is_explained():
    page = (ROOT / "docs" / "campaigns.md").read_text()
    models = (CampaignSpec, EmulationSpec, RecheckSpec, ScreeningSpec, StopSpec)
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    words = set(re.findall(r"\w[\w-]*", page))

    assert {*keys, *objective_names(), *STRATEGIES} - words == set()


def test_every_key_of_a_file_for_optimize_is_explained():
    docs = ROOT / "docs"
    text = (docs / "formats.md").read_text() + (docs / "how-to" / "services.md").read_text()
    models = (ProgramFile, ProgramTable, ServiceTable)

    keys = {name for model in models for name in model.model_fields}
    assert keys - set(re.findall(r"(?:^|[`\[])(\w+)(?: =|[`\]])", text, re.MULTILINE)) == set()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_tracked_files_together_stay_below_ten_megabytes():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < 10_000_000
