"""What runs on the real program in a validation: a configuration, and why it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.records import Configuration

DEFAULT = "default"
FRONT = "front"
DOMINATED = "dominated"
AS_IT_IS = "as it is"
"""Roles beside the names of picks."""


@dataclass(frozen=True)
class Subject:
    """One configuration to run, with why it was chosen."""

    label: str
    """Unique in a validation: ``glibc-default``, ``balanced``, ``trial-17``."""
    configuration: Configuration
    trial: int | None
    """Number of its trial; None when the campaign has none."""
    roles: tuple[str, ...]
    """Names of picks, `DEFAULT`, `FRONT`, `DOMINATED`, `AS_IT_IS`; at least one."""
    expected: tuple[tuple[str, float], ...] = ()
    """Objective, in the order of names, and the ratio to the baseline that runs of the program
    showed, where there is no trial to claim anything."""

    @property
    def is_pick(self) -> bool:
        """True when it may be deployed: a pick or a point of the front."""
        return any(role not in (DEFAULT, DOMINATED, AS_IT_IS) for role in self.roles)

    @property
    def is_as_it_is(self) -> bool:
        """True for the program as its user runs it, nothing preloaded."""
        return AS_IT_IS in self.roles

    @property
    def claims(self) -> bool:
        """True when its emulated values are claims; dominated points only check the ranking."""
        return DOMINATED not in self.roles

    def as_record(self) -> dict[str, Any]:
        """Return the JSON."""
        return {
            "label": self.label,
            "configuration": self.configuration.key,
            "trial": self.trial,
            "roles": list(self.roles),
            **({"expected": dict(self.expected)} if self.expected else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Subject:
        """Rebuild a subject from `as_record`."""
        configuration = Configuration.from_key(record["configuration"])
        expected = tuple(sorted(record.get("expected", {}).items()))
        roles = tuple(record["roles"])
        return cls(record["label"], configuration, record["trial"], roles, expected)
