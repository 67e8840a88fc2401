"""How often a confirmation recommends a candidate whose truth is known: simulated.

The rounds are drawn; `tuner.optimize.confirming.race` hands them out and judges them: one candidate
beside the program as it is, memory that repeats itself, CPU time with normal noise, time for so
many rounds.  Guards that vary are looked at as `optimize` does, in the second half of the time,
and, to compare, from the first round on, or once, at the end; and as it does where counted work
says that nothing changes: what caches or locks cost is in no count.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from benchmarks.harness import Target, percent, table
from benchmarks.rounds import share_target
from tuner.compare.plan import Course, Step
from tuner.optimize.confirming.race import Race, standings
from tuner.optimize.proof.judgement import Rules, State
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Sample
from tuner.records import Outcome

N_ROUNDS: Final = 120
"""That there is time for."""
NOISE: Final = 0.03
"""Standard deviation of the logarithm of the CPU time of a run."""
N_CONFIRMATIONS: Final = 200
"""Of each cell."""

CANDIDATES: Final[Mapping[str, tuple[float, float]]] = {
    "10 % less memory": (0.9, 1.0),
    "10 % less memory, 1.5 % more CPU time": (0.9, 1.015),
    "10 % less memory, 2 % more CPU time": (0.9, 1.02),
    "10 % less memory, 3 % more CPU time": (0.9, 1.03),
    "10 % less memory, 5 % more CPU time": (0.9, 1.05),
    "no change": (1.0, 1.0),
}
"""True ratios of memory and of CPU time."""
NEVER_GOOD: Final = ("10 % less memory, 5 % more CPU time", "no change")
"""Beyond the widest limit of a guard, or without a gain: false at the error of the rules."""

FROM_HALF, FROM_FIRST, AT_END = "from half of the time on", "from the first round on", "at the end"
COUNTED: Final = "as the first, with counted work"
LOOKS: Final = (FROM_HALF, FROM_FIRST, AT_END, COUNTED)
"""When guards that vary are looked at; `optimize` does the first, and the last."""

_BYTES: Final = 1e8
_CPU_NS: Final = 1e9
_SEED: Final = 20261127


@dataclass(frozen=True)
class Recommendations:
    """Of all confirmations of one kind."""

    candidate: str
    looks: str
    n_confirmations: int
    n_recommended: int
    n_rounds: float
    """Median of the rounds until it was decided."""

    @property
    def share(self) -> float:
        """Of the confirmations, that recommend the candidate."""
        return self.n_recommended / self.n_confirmations


def simulate(n_confirmations: int, n_rounds: int = N_ROUNDS) -> list[Recommendations]:
    """Return the recommendations of every candidate and way to look, under the same noise."""
    found = []
    for candidate, looks in product(CANDIDATES, LOOKS):
        ends = [_confirm(candidate, looks, n_rounds, seed) for seed in range(n_confirmations)]
        n_recommended = sum(is_recommended for is_recommended, _ in ends)
        middle = statistics.median(rounds for _, rounds in ends)
        found.append(Recommendations(candidate, looks, n_confirmations, n_recommended, middle))
    return found


def _confirm(candidate: str, looks: str, n_rounds: int, seed: int) -> tuple[bool, int]:
    """Return whether a candidate is recommended, and after how many rounds."""
    rng = np.random.default_rng((_SEED, seed))
    course: Course[None, Sample] = Course(AS_IS)

    def done() -> int:
        return len(course.samples) // 2

    def left(_n_runs: int) -> int:
        return n_rounds - done()

    if looks == AT_END:
        for number, (at, label) in product(range(n_rounds), enumerate((AS_IS, candidate))):
            _run(course, Step(number, at, None, label), rng)
        standing = standings(course, [candidate], Rules(), gives_up=False)[candidate]
        return standing.state is State.CONFIRMED, done()
    rounds_left = (lambda _: math.inf) if looks == FROM_FIRST else left
    race = Race(
        [candidate], Rules(), lambda n_runs: left(n_runs) > 0, seed,
        most_rounds=n_rounds, rounds_left=rounds_left,
        counted={candidate: 0.0} if looks == COUNTED else None,
    )  # fmt: skip
    for block in race.blocks(course):
        for step in block:
            _run(course, step, rng)
    return race.standings(course)[candidate].state is State.CONFIRMED, done()


def _run(course: Course[None, Sample], step: Step[None], rng: np.random.Generator) -> None:
    memory, cpu = CANDIDATES.get(step.subject, (1.0, 1.0))
    cpu_ns = _CPU_NS * cpu * math.exp(rng.normal(0.0, NOISE))
    sample = {MEAN: _BYTES * memory, PEAK: _BYTES * memory, CPU: cpu_ns}
    course.add(step.key, Outcome.succeeded(sample))


def lines(found: Sequence[Recommendations]) -> Iterator[str]:
    """Yield how often each candidate is recommended, and after how many rounds."""
    cells = {(one.candidate, one.looks): one for one in found}
    rows = [
        [name, *(_cell(cells[name, looks]) for looks in LOOKS)]
        for name in dict.fromkeys(one.candidate for one in found)
    ]
    yield from table(["truth", *LOOKS], rows)


def _cell(one: Recommendations) -> str:
    return f"{percent(one.share, 0)} ({one.n_rounds:.0f} rounds)"


def targets(found: Sequence[Recommendations]) -> Iterator[Target]:
    """Yield how often `optimize` recommends what it never should, against the error it states."""
    for one in found:
        if one.looks in (FROM_HALF, COUNTED) and one.candidate in NEVER_GOOD:
            beside = " and equal counted work" if one.looks == COUNTED else ""
            what = f"recommended with {one.candidate}{beside}"
            yield share_target(what, one.n_recommended, one.n_confirmations, Rules().error)
