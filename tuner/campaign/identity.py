"""Whether a store belongs to the campaign that wants to continue it.

Two campaigns are the same when they would measure the same numbers for the same
proposals.  The budget may grow; everything else has to be equal, and what is
not is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tuner.errors import StoreError
from tuner.space import ALLOCATOR
from tuner.store import AllocatorRecord, CampaignRecord

_FIELDS: Mapping[str, str] = {
    "trace_sha256": "content of the trace",
    "objectives": "objectives",
    "constraints": "constraints",
    "strategy": "strategy",
    "seed": "seed",
    "search": "search",
    "recheck_share": "recheck.share",
    "seed_configurations": "seed_configurations",
}
"""Fields that must be equal, with the words users know them by."""

_MACHINE = ("cpu_model", "kernel", "libc", "page_bytes")
"""Facts of the machine without which numbers are not comparable."""

_HUGE_PAGES = ("thp", "thp_defrag")
"""The same, for campaigns that run with the machine's huge pages."""

_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
"""SHA-256, and how much of it a message shows."""

_EMULATOR = "rand_malloc"
"""Key of the emulator in `CampaignRecord.versions`."""

LIBRARY = " library"
"""Ends the keys of allocators there; older stores have none."""


def differences(stored: CampaignRecord, wanted: CampaignRecord) -> list[str]:
    """Name what keeps two campaigns from being the same, one line each."""
    found = [
        _changed(words, getattr(stored, name), getattr(wanted, name))
        for name, words in _FIELDS.items()
        if getattr(stored, name) != getattr(wanted, name)
    ]
    old, new = (asdict(record.emulation) for record in (stored, wanted))
    found += _table_differences("emulation", old, new)
    found += _allocator_differences(stored, wanted)
    found += _space_differences(stored, wanted)
    facts = (*_MACHINE, *(_HUGE_PAGES if wanted.emulation.thp == "keep" else ()))
    old, new = ({k: getattr(r.machine, k, None) for k in facts} for r in (stored, wanted))
    found += _table_differences("machine", old, new)
    old, new = (_workload(record) for record in (stored, wanted))
    found += _table_differences("workload", old, new)
    old, new = builds(stored, wanted)
    return found + _table_differences("versions", old, new)


def builds(*records: CampaignRecord) -> list[dict[str, str | None]]:
    """Return what decides the numbers of each campaign: the emulator, libraries that all know."""
    known = set.intersection(*(set(record.versions) for record in records))
    names = (_EMULATOR, *sorted(name for name in known if name.endswith(LIBRARY)))
    return [{name: record.versions.get(name) for name in names} for record in records]


def _workload(record: CampaignRecord) -> dict[str, Any]:
    """Return what else decides the numbers: the screening, the content of further traces."""
    chosen, further = record.workload.screening, record.workload.further
    return {
        "screening": chosen and asdict(chosen),
        "further": [trace.sha256 for trace in further] or None,
    }


def check_same(stored: CampaignRecord, wanted: CampaignRecord, place: str) -> None:
    """Refuse to continue a store of another campaign.

    Args:
        stored: the record in the store.
        wanted: the record the campaign would have now.
        place: the run folder, for the message.

    Raises:
        StoreError: they differ, or the budget would shrink; says in what.
    """
    found = differences(stored, wanted)
    if wanted.budget < stored.budget:
        found.append(_changed("evaluations", stored.budget, wanted.budget) + " (it can only grow)")
    if found:
        lines = "".join(f"\n  {line}" for line in found)
        raise StoreError(
            f"{place}: holds another campaign; restore these, or choose a new run folder with "
            f"-o:{lines}"
        )


def _table_differences(
    table: str, old: Mapping[str, Any], new: Mapping[str, Any], dot: str = "."
) -> list[str]:
    names = dict.fromkeys([*old, *new])
    return [
        _changed(f"{table}{dot}{name}", old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _allocator_differences(stored: CampaignRecord, wanted: CampaignRecord) -> list[str]:
    old, new = stored.allocators, wanted.allocators
    shared = old.keys() & new.keys()
    lines = _table_differences(
        "allocators",
        {name: found for name, found in old.items() if name in shared},
        {name: found for name, found in new.items() if name in shared},
    )
    if [*old] != [*new]:
        words = "order of allocators" if len(shared) == len(old) == len(new) else "allocators"
        lines.append(_changed(words, [*old], [*new]))
    return lines


def _space_differences(stored: CampaignRecord, wanted: CampaignRecord) -> list[str]:
    apart = {*stored.allocators} ^ {*wanted.allocators}
    old, new = (
        {g.name: g.as_record() for g in r.space if g.name.split(".")[0] not in apart}
        for r in (stored, wanted)
    )
    # Of a separate search each allocator has a gene of that name, with nothing else in it.
    if apart or "separate" in (stored.search, wanted.search):
        old.pop(ALLOCATOR, None)
        new.pop(ALLOCATOR, None)
    lines = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            lines.append(f"space: {name} is gone")
        elif name not in old:
            lines.append(f"space: {name} is new")
        elif old[name] != new[name]:
            lines += _table_differences(f"space: {name}", old[name], new[name], ": ")
    if not lines and list(old) != list(new):
        lines.append("space: the parameters stand in another order")
    return lines


def _changed(what: str, old: object, new: object) -> str:
    return f"{what}: was {_show(old)}, is {_show(new)}"


def _show(value: object) -> str:
    if value is None:
        return "absent"
    if isinstance(value, AllocatorRecord):
        return f"{value.version} ({value.library or 'the C library'})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_show, value)) + "]"
    return _HASH.sub(r"\1...", str(value))
