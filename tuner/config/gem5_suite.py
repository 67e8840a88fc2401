"""Model of a suite of gem5 simulations: ``gem5-validate/suite.toml``, or one of the user's.

A simulation is a machine, described in JSON for ``gem5-validate/run.py``, and a guest program
with arguments, or traffic alone.  Paths are relative to the suite's file.  Each has a role:
campaigns tune on traces of some, the others are held out and decide what is claimed.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tuner.config.campaign import Name
from tuner.config.reading import StrictModel, closest, problems_error, read_toml, validate
from tuner.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALL = "all"
"""Word for every simulation of a suite, beside the roles."""


class SimulationRole(enum.StrEnum):
    """What a simulation is for."""

    TUNE = "tune"
    """Campaigns see its traces."""
    HELD_OUT = "held-out"
    """No campaign ever sees it."""


def _role(value: object) -> object:
    words = [role.value for role in SimulationRole]
    if value not in words:
        raise ValueError(f"must be one of {', '.join(words)}{closest(str(value), words)}")
    return value


class Simulation(StrictModel):
    """One simulation."""

    name: Name
    machine: str
    """File of the description, relative to the suite."""
    guest: Name | None = None
    """Program of ``guests/``; None for traffic."""
    arguments: tuple[str, ...] = ()
    """Of the guest."""
    role: Annotated[SimulationRole, BeforeValidator(_role)]
    max_instructions: Annotated[int, Field(ge=1)] | None = None
    """End after so many guest instructions; None runs the guest to its end."""

    @property
    def is_held_out(self) -> bool:
        """True when no campaign sees it."""
        return self.role is SimulationRole.HELD_OUT


class _SuiteFile(StrictModel):
    version: Literal[1]
    simulations: Annotated[tuple[Simulation, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Suite:
    """A suite that was read and checked."""

    path: Path
    """Its file."""
    simulations: tuple[Simulation, ...]
    """In the order of the file; names are distinct."""

    @property
    def folder(self) -> Path:
        """Where machines are relative to, and ``run.py`` and ``guests`` lie."""
        return self.path.resolve().parent

    def machine_file(self, simulation: Simulation) -> Path:
        """Return the description of a simulation's machine."""
        return self.folder / simulation.machine

    def choose(self, words: Sequence[str]) -> tuple[Simulation, ...]:
        """Return the simulations of names and roles, in the order of the file.

        Args:
            words: names, roles, or `ALL`.

        Raises:
            SpecError: a word is none of these.
        """
        names = [simulation.name for simulation in self.simulations]
        roles = [role.value for role in SimulationRole]
        check_known(self.path, words, [*names, *roles, ALL], "simulation")
        return tuple(s for s in self.simulations if {s.name, s.role.value, ALL} & set(words))


def load_suite(path: Path) -> Suite:
    """Read a suite and check that its machines and guests are there.

    Raises:
        SpecError: one line per problem: unknown key, bad value, a name given twice, a file
            that is missing, a guest without traffic's machine or the other way round.
    """
    content = validate(_SuiteFile, read_toml(path), str(path))
    suite = Suite(path, content.simulations)
    problems = repeated([s.name for s in suite.simulations], "simulations")
    problems += [problem for s in suite.simulations for problem in _problems(suite, s)]
    if problems:
        raise problems_error(str(path), problems)
    return suite


def check_known(path: Path, words: Sequence[str], allowed: Sequence[str], what: str) -> None:
    """Refuse a word that names nothing in a file.

    Raises:
        SpecError: a word is none of those that are allowed.
    """
    for word in words:
        if word not in allowed:
            hint = closest(word, allowed) or f"; allowed: {', '.join(allowed)}"
            raise SpecError(f"{path}: has no {what} {word!r}{hint}")


def repeated(names: Sequence[str], key: str) -> list[str]:
    """Return a problem for each name that stands twice under a key."""
    return [f"{key}.{name}: given twice" for name, count in Counter(names).items() if count > 1]


def machine_keys(path: Path) -> tuple[frozenset[str], str | None]:
    """Return the keys of a description of a machine, and what is wrong with it if anything is."""
    try:
        machine: Any = json.loads(path.read_text(encoding="utf-8"))
        return frozenset(machine), None
    except OSError as error:
        return frozenset(), f"{path} cannot be read: {error.strerror}"
    except (ValueError, TypeError) as error:
        return frozenset(), f"{path} is not a description: {error}"


def missing_file(where: str, named: str, path: Path) -> list[str]:
    """Return the problem that there is no such file, if so, of what is named under a key."""
    return [] if path.is_file() else [f'{where} = "{named}": there is no {path}']


def _problems(suite: Suite, simulation: Simulation) -> list[str]:
    where = f"simulations.{simulation.name}"
    keys, problem = machine_keys(suite.machine_file(simulation))
    if problem:
        return [f"{where}.machine: {problem}"]
    if "traffic" in keys and simulation.guest:
        return [f"{where}.guest: its machine has traffic, which needs no guest"]
    if "traffic" not in keys and not simulation.guest:
        return [f"{where}.guest: this key is required, its machine has no traffic"]
    if not simulation.guest:
        return []
    source = suite.folder / "guests" / f"{simulation.guest}.c"
    return missing_file(f"{where}.guest", simulation.guest, source)
