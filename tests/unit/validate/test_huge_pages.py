"""A validation with other huge pages than its campaign says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import synthetic
from tuner.store import CampaignRecord, ValidationRecord
from tuner.validate.huge_pages import huge_page_notices


def campaign(option: str | None, **machine: str | None) -> CampaignRecord:
    emulation = {} if option is None else {"thp": option}
    return synthetic.record(emulation=emulation, machine=machine)


def validation(option: str | None, **machine: str | None) -> ValidationRecord:
    settings: dict[str, Any] = {"options": {"surroundings": {"thp": option}}} if option else {}
    return ValidationRecord(("app",), 5, "glibc-default", settings, machine)


@pytest.mark.parametrize(
    ("emulated", "validated"),
    [
        (campaign("keep", thp="madvise"), validation("keep", thp="madvise")),
        (campaign("never", thp="always"), validation("never", thp="madvise")),
        (campaign(None, thp="always"), validation("keep", thp="never")),
        (campaign("keep", thp="madvise"), validation("keep", thp="madvise", thp_defrag="never")),
        (campaign("keep", thp="always"), validation(None)),
        (campaign("keep", thp=None), validation("keep", thp="always")),
    ],
)
def test_equal_or_unknown_huge_pages_are_not_worth_a_word(
    emulated: CampaignRecord, validated: ValidationRecord
) -> None:
    assert huge_page_notices(emulated, validated) == []


@pytest.mark.parametrize(
    ("emulated", "validated", "words"),
    [
        (
            campaign("never", thp="madvise"),
            validation("keep", thp="madvise"),
            "mode never in emulation, mode madvise in this validation",
        ),
        (
            campaign(None, thp="always"),
            validation("keep", thp="always"),
            "mode never in emulation, mode always in this validation",
        ),
        (
            campaign("keep", thp="madvise"),
            validation("keep", thp="always"),
            "mode madvise in emulation, mode always in this validation",
        ),
        (
            campaign("keep", thp="always", thp_defrag="madvise"),
            validation("keep", thp="always", thp_defrag="never"),
            "defrag madvise in emulation, defrag never in this validation",
        ),
    ],
)
def test_difference_is_noted_from_both_sides(
    emulated: CampaignRecord, validated: ValidationRecord, words: str
) -> None:
    (notice,) = huge_page_notices(emulated, validated)
    assert words in notice
