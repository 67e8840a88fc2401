"""What one evaluation yields, and the interface of everything that evaluates.

A campaign knows only `Evaluator`; the emulator, a test double and a replay of
recorded trials are all evaluators.  A configuration that fails is an ordinary
outcome with its status and reason.  Exceptions are kept for a broken
set-up (no library, no trace, no instrument), which no other configuration
could survive either.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from tuner.records import Configuration, Measurement, Outcome

MAY_NOT_REPEAT = "faults and memory may be those of a machine in this state"
"""How the text of an incident ends after which other numbers of the same input are no defect."""


Evaluation: TypeAlias = Outcome[Measurement]
"""How one configuration fared."""


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
