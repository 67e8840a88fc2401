"""What one evaluation yields, and the interface of everything that evaluates.

A campaign knows only `Evaluator`; the emulator, a test double and a replay of
recorded trials are all evaluators.  A configuration that fails is an ordinary
`Evaluation` with its status and reason.  Exceptions are kept for a broken
set-up (no library, no trace, no instrument), which no other configuration
could survive either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tuner.records import Configuration, Measurement, Status

MAY_NOT_REPEAT = "faults and memory may be those of a machine in this state"
"""How the text of an incident ends after which other numbers of the same input are no defect."""


@dataclass(frozen=True)
class Evaluation:
    """How one configuration fared.

    Raises:
        ValueError: a success without numbers, or a failure without a reason.
    """

    status: Status
    reason: str | None
    """Why there are no numbers; None exactly when `status` is OK."""
    measurement: Measurement | None
    """None unless `status` is OK."""
    incidents: tuple[str, ...] = ()
    """What the machine did that may have moved the numbers; a sentence each."""

    def __post_init__(self) -> None:
        """Refuse combinations that would need a guess later."""
        is_ok = self.status is Status.OK
        if is_ok != (self.measurement is not None) or is_ok != (self.reason is None):
            message = f"status {self.status.value} does not fit {self.reason=} {self.measurement=}"
            raise ValueError(message)

    @classmethod
    def succeeded(cls, measurement: Measurement, incidents: tuple[str, ...] = ()) -> Evaluation:
        """Wrap the numbers of a success."""
        return cls(Status.OK, None, measurement, incidents)

    @classmethod
    def did_not_succeed(cls, status: Status, reason: str) -> Evaluation:
        """Build a failure of the given kind."""
        return cls(status, reason, None)


class Evaluator(Protocol):
    """Evaluates one configuration; safe to call from several threads at once."""

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        """Measure one configuration on one core.

        Args:
            configuration: what to measure.
            cpu: number of the core to pin the run to, None for the first allowed one.

        Raises:
            TunerError: the set-up is broken, so that no configuration can be measured.
        """
        ...
