"""The machines that ran the program: what they are, and what makes their samples comparable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from pydantic import TypeAdapter

from tuner.compare.apart import Handout
from tuner.compare.plan import Step
from tuner.errors import StoreError
from tuner.machine import Machine
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import Reference, Sample
from tuner.output import write_text
from tuner.records import Configuration, Outcome
from tuner.runs import MACHINES_FILE

MACHINE: Final = "machine"
"""Kept with what a run on another machine showed: the number of that, from 1.  Never judged."""


@dataclass(frozen=True)
class Scene:
    """What is compared, wherever it runs."""

    reference: Reference
    candidates: Mapping[str, Configuration]
    is_held_out: bool = False
    """It runs the input that was not tuned on."""
    is_proof: bool = False
    """It proves something, so candidates run as they will be deployed."""


@dataclass(frozen=True)
class ProgramMachine:
    """A machine that takes part."""

    name: str
    """Of its host."""
    facts: Machine
    values: Sample
    """Of the program as it is."""


class RoundExecutor(Protocol):
    """Makes rounds on several machines at once."""

    @property
    def known(self) -> Mapping[str, ProgramMachine]:
        """Every machine that took part, by its name."""

    @property
    def n_at_once(self) -> int:
        """Rounds that run at a time."""

    def wait(self) -> None:
        """Wait until a machine can be used, and none is about to be.

        Raises:
            MissingToolError: none can.
        """

    def make(
        self,
        handout: Handout[None, Sample],
        scene: Callable[[], Scene],
        note: Callable[[Step[None], str], None],
    ) -> None:
        """Make rounds until all have ended.

        Args:
            handout: of the rounds.
            scene: returns what is compared in the round that was handed out last.
            note: called with the machine of a sample before it is taken.

        Raises:
            MissingToolError: no machine can be used.
        """


_MACHINES: Final = TypeAdapter(list[ProgramMachine])


def load_machines(run: Path) -> list[ProgramMachine]:
    """Return the machines that a run folder knows.

    Raises:
        StoreError: what it says of them is damaged.
    """
    path = run / MACHINES_FILE
    try:
        return _MACHINES.validate_python(json.loads(path.read_bytes())["machines"])
    except FileNotFoundError:
        return []
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path}: damaged ({error!r}); remove it to run the program as it is there again"
        ) from error


def save_machines(run: Path, machines: Iterable[ProgramMachine]) -> None:
    """Write the machines of a run folder."""
    record = {
        "schema": "malloc-tuner.machines",
        "version": 1,
        "machines": [asdict(one) for one in machines],
    }
    write_text(run / MACHINES_FILE, json.dumps(record, indent=1) + "\n")


Relative = Callable[[str | None, Outcome[Sample]], Outcome[Sample]]
"""From the machine of a sample, None for this one, and the sample to what it would be here."""


def relative_to(reference: Reference, run: Path) -> Relative:
    """Return what makes samples of all machines of a run folder comparable.

    Times are multiplied by what the program as it is took here over what it took there; a ratio of
    two samples of one round stays what it is.  Nothing else differs between machines.

    Args:
        reference: the program as it is, on this machine.
        run: the run folder.
    """
    values = {one.name: one.values for one in load_machines(run)}

    def relative(machine: str | None, sample: Outcome[Sample]) -> Outcome[Sample]:
        if machine not in values:
            values.update((one.name, one.values) for one in load_machines(run))
        there = values.get(machine or "", {})
        if sample.good is None or not there:
            return sample
        found = {
            name: value * reference.values[name] / there[name]
            if name in TABLE and TABLE[name].unit == "ns" and name in reference.values
            else value
            for name, value in sample.good.items()
        }
        return replace(sample, values={**found, MACHINE: 1.0 + list(values).index(machine or "")})

    return relative
