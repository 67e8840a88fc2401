"""Whether a validation ran with the huge pages that its campaign was emulated with.

What is emulated is what will run: a claim about memory or faults made without transparent huge
pages says little about a program that has them, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.machine import Machine
from tuner.store import CampaignRecord, ValidationRecord


def huge_page_notices(campaign: CampaignRecord, record: ValidationRecord) -> list[str]:
    """Say in what the huge pages of a validation differ from those of its campaign.

    What was not recorded is not compared.
    """
    ran = record.conditions.surroundings.thp
    if ran is None:
        return []
    emulated = _state(campaign.emulation.thp, campaign.machine)
    validated = _state(ran, record.machine)
    pairs = {name: (emulated[name], validated[name]) for name in emulated if name in validated}
    differ = [name for name, pair in pairs.items() if None not in pair and len({*pair}) > 1]
    if not differ:
        return []
    notice = (
        f"transparent huge pages differ: {_words(emulated, differ)} in emulation, "
        f"{_words(validated, differ)} in this validation; memory and faults may differ for that "
        "reason alone"
    )
    return [notice]


def _state(option: str, machine: Machine | None) -> dict[str, str | None]:
    """Return the settings of huge pages: the mode, and where there are any, defragmentation."""
    mode, defrag = (machine.thp, machine.thp_defrag) if machine else (None, None)
    if option == "never" or mode == "never":
        return {"mode": "never"}
    return {"mode": mode, "defrag": defrag}


def _words(state: Mapping[str, str | None], names: list[str]) -> str:
    return ", ".join(f"{name} {state[name]}" for name in names)
