"""What one evaluation yields, and the interface of everything that evaluates.

A campaign knows only `Evaluator`; the emulator, a test double and a replay of
recorded trials are all evaluators.  A configuration that fails is an ordinary
outcome with its status and reason.  Exceptions are kept for a broken
set-up (no library, no trace, no instrument), which no other configuration
could survive either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from tuner.records import Configuration, Measurement, Outcome, Status

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


@dataclass(frozen=True)
class Refusal:
    """Why an evaluation is not worth its second, longer run."""

    reason: str
    bound: Mapping[str, float]
    """The least that the metrics it would measure are expected to be, by name."""


def uncounted(known: Measurement, refusal: Refusal, incidents: tuple[str, ...]) -> Evaluation:
    """Return the outcome of an evaluation whose instructions were not counted."""
    return Outcome(Status.UNCOUNTED, refusal.reason, known, incidents, refusal.bound)


class Gate(Protocol):
    """Decides after the memory run whether instructions are counted."""

    def refusal(
        self, configuration: Configuration, known: Measurement, kernel_cost: float | None
    ) -> Refusal | None:
        """Return why they need not be counted; None when they are.

        Args:
            configuration: what is evaluated.
            known: what the memory run measured.
            kernel_cost: the part of its cost that is not instructions; None where it is not known.
        """
        ...


GateOf: TypeAlias = Callable[[Configuration], Gate | None]
"""The gate of a configuration; None: everything is counted."""


def evaluated(
    evaluator: Evaluator, configuration: Configuration, cpu: int | None, gate: Gate | None
) -> Evaluation:
    """Evaluate a configuration, with a gate where there is one and the evaluator knows gates.

    Raises:
        TunerError: as `Evaluator.evaluate`.
    """
    if gate is not None and isinstance(evaluator, GatedEvaluator):
        return evaluator.evaluate_gated(configuration, cpu, gate)
    return evaluator.evaluate(configuration, cpu)


@runtime_checkable
class GatedEvaluator(Evaluator, Protocol):
    """An evaluator whose evaluations are two runs, of which the second may be left out."""

    def evaluate_gated(
        self, configuration: Configuration, cpu: int | None, gate: Gate
    ) -> Evaluation:
        """Measure memory, and count instructions unless the gate refuses.

        Raises:
            TunerError: as `Evaluator.evaluate`.
        """
        ...
