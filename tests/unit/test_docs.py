"""Documentation that can be checked: links lead somewhere, lists are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.spec import OBJECTIVES, STRATEGIES, CampaignSpec
from tuner.spec.campaign import EmulationSpec, RecheckSpec, ScreeningSpec

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]

    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\w+\.md)\)", (folder / "README.md").read_text()))

    assert listed == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_every_dependency_has_its_paragraph() -> None:
    decided = (ROOT / "docs" / "decisions" / "dependencies.md").read_text()
    project = (ROOT / "pyproject.toml").read_text().split("[project.scripts]")[0]
    names = re.findall(r'"([a-z0-9-]+)(?:>=[0-9.]+)?"', project.split("dependencies = [", 1)[1])

    assert [name for name in names if f"**{name}**" not in decided] == []


def test_every_key_of_a_campaign_file_is_explained() -> None:
    page = (ROOT / "docs" / "campaigns.md").read_text()
    models = (CampaignSpec, EmulationSpec, RecheckSpec, ScreeningSpec)
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    words = set(re.findall(r"\w[\w-]*", page))

    assert {*keys, *OBJECTIVES, *STRATEGIES} - words == set()
