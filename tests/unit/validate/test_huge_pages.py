"""A validation with other huge pages than its campaign says so."""

from dataclasses import replace
from typing import Literal

import pytest

from tests.doubles import synthetic
from tests.doubles.machine import MACHINE
from tuner.emulation import EmulationOptions
from tuner.machine import Machine
from tuner.store import CampaignRecord, RecordedSurroundings, ValidationConditions, ValidationRecord
from tuner.validate.huge_pages import huge_page_notices


def on(thp: str | None = None, thp_defrag: str | None = None) -> Machine:
    return replace(MACHINE, thp=thp, thp_defrag=thp_defrag)


def campaign(option: Literal["keep", "never"], **machine: str | None) -> CampaignRecord:
    return synthetic.record(emulation=EmulationOptions(thp=option), machine=on(**machine))


def validation(option: str | None, **machine: str | None) -> ValidationRecord:
    conditions = ValidationConditions(surroundings=RecordedSurroundings(thp=option))
    return ValidationRecord(
        ("app",), 5, "glibc-default", conditions=conditions, machine=on(**machine)
    )


@pytest.mark.parametrize(
    ("emulated", "validated"),
    [
        (campaign("keep", thp="madvise"), validation("keep", thp="madvise")),
        (campaign("never", thp="always"), validation("never", thp="madvise")),
        (campaign("never", thp="always"), validation("keep", thp="never")),
        (campaign("keep", thp="madvise"), validation("keep", thp="madvise", thp_defrag="never")),
        (campaign("keep", thp="always"), validation(None)),
        (campaign("keep", thp=None), validation("keep", thp="always")),
    ],
)
def test_equal_or_unknown_huge_pages_are_not_worth_a_word(
    emulated: CampaignRecord, validated: ValidationRecord
):
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
):
    (notice,) = huge_page_notices(emulated, validated)
    assert words in notice
