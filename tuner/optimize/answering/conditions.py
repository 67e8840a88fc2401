"""What a build asks of an answer: the language of ``optimize --fail-if``.

    deploy | keep | undecided                       the decision
    mean_memory > -5%                               what the answer changes in one quantity
    peak_memory, cpu_time  with  > >= < <=          the others

An answer that deploys nothing changes nothing, so its changes are 0.  What no run measures is an
error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tuner.errors import ConditionVerdict, SpecError
from tuner.optimize.answering.answer import Answer, Decision
from tuner.optimize.answering.recommendation import Recommendation
from tuner.optimize.quantities import TABLE, key_of
from tuner.units import parse_percent

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_COMPARISON: Final = re.compile(
    r"\s*(?P<name>[\w/.]+)\s*(?P<sign>[<>]=?)\s*(?P<share>[-+]?[\d.]+\s*%)\s*"
)


@dataclass(frozen=True)
class AnswerCondition:
    """What an answer may be like."""

    text: str
    """As it was given."""
    is_met: Callable[[Answer | Recommendation], bool]
    quantity: str | None = None
    """Whose change it is about; None: it is about the decision."""

    def check(self, measured: Collection[str]) -> None:
        """Refuse a condition on what is not measured.

        Args:
            measured: names of quantities.

        Raises:
            SpecError: the condition names none of them; says which there are.
        """
        if self.quantity is None or self.quantity in measured:
            return
        name = key_of(self.quantity)
        raise SpecError(
            f"--fail-if {self.text!r}: no run measures {name}; what they measure: {_keys(measured)}"
        )

    def __call__(self, answer: Answer | Recommendation) -> bool:
        """Return whether an answer is so.

        Raises:
            SpecError: it is about what was not measured.
        """
        self.check(answer.baseline)
        return self.is_met(answer)


def parse_condition(text: str, measured: Collection[str] = tuple(TABLE)) -> AnswerCondition:
    """Read a condition.

    Args:
        text: it.
        measured: names of the quantities that runs measure.

    Raises:
        SpecError: the text is no condition, says what is; or it is about another quantity.
    """
    if text.strip() in list(Decision):
        wanted = Decision(text.strip())
        return AnswerCondition(text, lambda answer: answer.decision is wanted)
    known = {key_of(name): name for name in TABLE}
    found = _COMPARISON.fullmatch(text)
    if found is None or found["name"] not in known:
        raise SpecError(
            f"--fail-if {text!r}: give deploy, keep, undecided, or a change such as "
            f'"mean_memory > -5%" (of {_keys(measured)})'
        )
    limit = parse_percent(found["share"])
    name, is_so = known[found["name"]], _COMPARISONS[found["sign"]]
    read = AnswerCondition(text, lambda answer: is_so(change_of(answer, name), limit), name)
    read.check(measured)
    return read


def _keys(measured: Collection[str]) -> str:
    return ", ".join(key_of(one) for one in TABLE if one in measured)


def refuse(conditions: Mapping[str, AnswerCondition], answer: Answer | Recommendation) -> None:
    """Refuse an answer that conditions describe.

    Args:
        conditions: by their texts.
        answer: what they are about.

    Raises:
        ConditionVerdict: names all that hold.
        SpecError: one is about what was not measured.
    """
    held = [f"--fail-if {text!r}" for text, is_so in conditions.items() if is_so(answer)]
    if held:
        verb = f"hold{'s'[: len(held) == 1]}"
        raise ConditionVerdict(f"{' and '.join(held)} {verb}: {answer.sentence}")


def change_of(answer: Answer | Recommendation, name: str) -> float:
    """Return what an answer changes in a quantity: 0 where it deploys nothing."""
    if answer.decision is not Decision.DEPLOY:
        return 0.0
    if isinstance(answer, Recommendation):
        return answer.changes[key_of(name)][0] if key_of(name) in answer.changes else 0.0
    if answer.standing is None:
        return 0.0
    gain = answer.standing.gains.get(name)
    return gain.change if gain else 0.0
