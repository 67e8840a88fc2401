"""How often a validation shows a difference where there is none: simulated, and the real thing.

Simulated: validations of subjects that are all the same, their runs placed in time by the very
order of `malloc-tuner validate`, under noise of several shapes; 3 to 30 rounds, 1 to 40 claims.
Real: a small program under glibc's default, under several labels, once on the machine as it is
and once beside processes that come and go; every run is kept, and cut into validations of several
lengths.
Recommendations: how often `optimize` recommends a candidate whose truth is known, simulated.

A false alarm is a validation in which one claim or more is called anything but undecided or not
confirmed.  Validations of too few rounds for any verdict do not count.  Of each noise they must be
5 % at most by the upper end of their interval; of real runs, whose lengths share their rounds, the
shortest that counts is judged.  No cell alone may have more than 5 % beyond doubt: by an exact
binomial test at 1 % over all cells together (Bonferroni).
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from benchmarks import recommendations
from benchmarks.harness import Benchmark, Call, Target, checked, percent, table
from benchmarks.recommendations import Recommendations
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, n_rounds, run_rounds, share_target
from tuner.compare.plan import order
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.stats import FAMILY_ERROR, Estimate, fewest_pairs, paired_p_value
from tuner.validate.verdicts import Claim, Verdict, decide

SIMULATED: Final = "simulated"
RECOMMENDATIONS: Final = "recommendations"
ROUNDS: Final = (3, 5, 6, 8, 10, 12, 15, 20, 30)
CLAIMS: Final = (1, 4, 22, 40)
N_VALIDATIONS: Final = 400
"""Of each simulated cell."""

N_LABELS: Final = 11
"""Real subjects beside the baseline; with the metrics below, 22 claims."""
METRICS: Final = ("mean_heap", "cpu_ns")
REAL_LENGTHS: Final = (5, 10, 12, 15, 20, 30)
"""Rounds that the real runs are cut into."""
LOADS: Final = {"no load added": 0, "load added": 3}
"""Part -> processes that come and go beside the program."""

PROGRAM: Final = "x = [bytes(i % 700) for i in range(30000)]; y = sorted(map(len, x)); x = x[::3]"
_LOAD: Final = (
    "import random, time\n"
    "while True:\n"
    "    end = time.time() + random.expovariate(3.0)\n"
    "    while time.time() < end: sum(range(1000))\n"
    "    time.sleep(random.expovariate(3.0))\n"
)
_SEED: Final = 20261122
_DOUBT: Final = 0.01

Noise = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]


def _load(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Return runs beside a load that lasts: autocorrelation 0.95 from run to run, sd 10 %."""
    state, found = 0.0, np.empty(n)
    for index, shock in enumerate(rng.normal(0.0, 0.1 * math.sqrt(1.0 - 0.95**2), n)):
        state = found[index] = 0.95 * state + shock
    return np.exp(found)


def _drift(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Return runs of a machine that warms up, then gets slower by half."""
    at = np.arange(n)
    trend = 1.0 + 0.5 * at / n + 0.5 * np.exp(-at / 5.0)
    return trend * rng.normal(1.0, 0.01, n)


NOISES: Final[Mapping[str, Noise]] = {
    "normal, sd 3 %": lambda rng, n: rng.normal(1.0, 0.03, n),
    "heavy tails": lambda rng, n: np.exp(0.02 * rng.standard_t(1.5, n).clip(-50.0, 50.0)),
    "skewed": lambda rng, n: 1.0 + 0.1 * rng.exponential(1.0, n),
    "drifting": _drift,
    "load, autocorrelated": _load,
    "discrete, many ties": lambda rng, n: rng.integers(98, 102, n).astype(np.float64),
}
"""Values of runs in the order in which they are made."""


@dataclass(frozen=True)
class Cell:
    """False alarms of one kind of validation."""

    what: str
    n_rounds: int
    n_claims: int
    n_validations: int
    n_false: int
    """Validations with one false difference or more."""
    n_alone: int
    """The same if every claim were tested alone, at 5 %."""

    @property
    def p_value(self) -> float:
        """How probable so many are at 5 %."""
        test = binomtest(self.n_false, self.n_validations, FAMILY_ERROR, alternative="greater")
        return float(test.pvalue)


def measure(call: Call) -> None:
    """Simulate, and run the real thing without and with load."""
    parts = [SIMULATED, RECOMMENDATIONS, *LOADS]
    for part in call.choose(parts, parts):
        if part == SIMULATED:
            some = (
                ((5, 10), (1, 22), 10)
                if call.is_smoke
                else (ROUNDS, CLAIMS, call.options.validations)
            )
            call.keep(part, [vars(cell) for cell in _simulate(*some)])
        elif part == RECOMMENDATIONS:
            few = (2, 20) if call.is_smoke else (recommendations.N_CONFIRMATIONS,)
            call.keep(part, [vars(one) for one in recommendations.simulate(*few)])
        else:
            rounds = min(REAL_LENGTHS) if call.is_smoke else call.rounds
            call.keep(part, _run_real(call, part, rounds), rounds=rounds)


def by_noise(parts: Parts) -> dict[str, list[Cell]]:
    """Return by noise what is judged: cells with the rounds of a verdict, of real runs one."""
    found: dict[str, list[Cell]] = {}
    for cell in cells_of(parts):
        kept = found.setdefault(cell.what, [])
        if cell.n_rounds >= fewest_pairs(cell.n_claims) and (cell.what in NOISES or not kept):
            kept.append(cell)
    return {what: kept for what, kept in found.items() if kept}


def _counts(cells: Iterable[Cell]) -> tuple[int, int]:
    """Return how many validations are false, of how many."""
    counts = [(cell.n_false, cell.n_validations) for cell in cells]
    return sum(n for n, _ in counts), sum(n for _, n in counts)


def cells_of(parts: Parts) -> list[Cell]:
    """Return the cells of kept results, the simulated ones first."""
    simulated = [Cell(**row) for row in parts.get(SIMULATED, ())]
    return [*simulated, *(cell for part in LOADS for cell in _cells(part, parts.get(part, ())))]


# Simulated validations


def _simulate(rounds: Sequence[int], claims: Sequence[int], n_validations: int) -> list[Cell]:
    cells = []
    for (name, noise), n_claims in product(NOISES.items(), claims):
        for length in rounds:
            rng = np.random.default_rng((_SEED, length, n_claims))
            outcomes = [
                _simulated_outcome(noise, rng, length, n_claims, seed)
                for seed in range(n_validations)
            ]
            cells.append(_cell(name, length, n_claims, outcomes))
        print(f"{name}, {n_claims} claims", file=sys.stderr)
    return cells


def _simulated_outcome(
    noise: Noise, rng: np.random.Generator, n_rounds: int, n_claims: int, seed: int
) -> tuple[bool, bool]:
    """Return whether a validation of equal subjects shows a difference: together, and alone."""
    n_subjects = n_claims + 1
    made = noise(rng, n_rounds * n_subjects).reshape(n_rounds, n_subjects)
    values = np.empty_like(made)
    for number in range(n_rounds):
        values[number, order(n_subjects, number, seed)] = made[number]
    return outcome([(values[:, k].tolist(), values[:, 0].tolist()) for k in range(1, n_subjects)])


def outcome(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[bool, bool]:
    """Return whether claims without truth are called anything: decided together, and each alone.

    Args:
        pairs: of every claim, values of the subject and of the baseline by round.
    """
    needed = fewest_pairs(len(pairs))
    claims = []
    n_alone = 0
    for values, baselines in pairs:
        ratios = [value / base for value, base in zip(values, baselines, strict=True)]
        real = Estimate(statistics.median(ratios), None, len(ratios))
        p_value = paired_p_value(values, baselines)
        claim = Claim("cost", "cpu", 0.9, None, real, Verdict.UNDECIDED, p_value)
        n_alone += _is_false(claim.decided(p_value))
        is_testable = len(values) >= needed
        claims.append(claim if is_testable else claim.decided(None))
    return any(_is_false(claim) for claim in decide(claims, len(claims))), n_alone > 0


def _is_false(claim: Claim) -> bool:
    return claim.verdict not in (Verdict.UNDECIDED, Verdict.NOT_CONFIRMED)


def _cell(what: str, n_rounds: int, n_claims: int, outcomes: Sequence[tuple[bool, bool]]) -> Cell:
    n_false, n_alone = (sum(found[index] for found in outcomes) for index in (0, 1))
    return Cell(what, n_rounds, n_claims, len(outcomes), n_false, n_alone)


# Real runs


def _run_real(call: Call, part: str, rounds: int) -> list[Row]:
    """Run the program under every label, with the baseline's first."""
    runner = ProgramRunner()
    command = [sys.executable, "-E", "-S", "-c", PROGRAM]
    environment = {"PATH": os.environ["PATH"]}

    def run(_task: str, _subject: str) -> Figures:
        found = checked(runner.run(command, environment, Surroundings(timeout_s=60.0)))
        return Figures.succeeded(
            {"mean_heap": round(found.mean_anon_bytes), "cpu_ns": found.cpu_ns}
        )

    labels = [str(number) for number in range(N_LABELS + 1)]
    with ExitStack() as stack:
        for _ in range(LOADS[part]):
            busy = subprocess.Popen([sys.executable, "-E", "-S", "-c", _LOAD])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        return run_rounds(call, part, ["python"], labels, run, rounds=rounds)


def _cells(where: str, rows: Sequence[Row]) -> Iterator[Cell]:
    """Cut rounds into validations of several lengths."""
    labels = sorted({row["subject"] for row in rows}, key=int)
    values = {(x, m): column(rows, m, subject=x) for x in labels for m in METRICS}
    for length in REAL_LENGTHS:
        outcomes = []
        for first in range(0, n_rounds(rows) - length + 1, length):
            part = slice(first, first + length)
            outcomes.append(outcome([
                (values[label, metric][part], values[labels[0], metric][part])
                for label in labels[1:]
                for metric in METRICS
            ]))  # fmt: skip
        if outcomes:
            yield _cell(where, length, N_LABELS * len(METRICS), outcomes)


# What is shown


def lines(parts: Parts) -> Iterator[str]:
    """Yield the simulated and the real validations with a false difference."""
    cells = cells_of(parts)
    yield "Validations with one false difference or more; in brackets, had every claim been tested"
    yield "alone:"
    yield ""
    simulated = [cell for cell in cells if cell.what in NOISES]
    if simulated:
        yield from _simulated_table(simulated)
        yield ""
    rows = []
    for cell in cells:
        if cell.what in LOADS:
            bounds = binomtest(cell.n_false, cell.n_validations).proportion_ci()
            counts = map(str, (cell.n_claims, cell.n_rounds, cell.n_validations))
            interval = f"{percent(bounds.low)} .. {percent(bounds.high)}"
            rows.append([cell.what, *counts, _share(cell), interval])
    titles = ["the default against itself", "claims", "rounds", "validations", "false", "interval"]
    yield from table(titles, rows)
    yield ""
    yield from recommendation_lines(parts)


def recommendation_lines(parts: Parts) -> Iterator[str]:
    """Yield how often candidates of known truth are recommended."""
    yield (
        "Simulated confirmations that recommend a candidate, and the median of their rounds, with "
        f"noise of {percent(recommendations.NOISE, 0)} and time for {recommendations.N_ROUNDS} "
        "rounds, by when guards that vary are looked at:"
    )
    yield ""
    yield from recommendations.lines(_recommendations(parts))


def _recommendations(parts: Parts) -> list[Recommendations]:
    return [Recommendations(**row) for row in parts.get(RECOMMENDATIONS, ())]


def _simulated_table(cells: Sequence[Cell]) -> Iterator[str]:
    rounds = sorted({cell.n_rounds for cell in cells})
    rows = []
    for what, n_claims in dict.fromkeys((cell.what, cell.n_claims) for cell in cells):
        own = {c.n_rounds: c for c in cells if (c.what, c.n_claims) == (what, n_claims)}
        rows.append([what, str(n_claims), *(_share(own[n]) for n in rounds)])
    yield from table(["noise", "claims", *(f"{n} rounds" for n in rounds)], rows)


def _share(cell: Cell) -> str:
    alone = percent(cell.n_alone / cell.n_validations, 0)
    if cell.n_rounds < fewest_pairs(cell.n_claims):
        return f"undecided ({alone})"
    return f"{percent(cell.n_false / cell.n_validations)} ({alone})"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield false recommendations, false alarms, and the probability of the worst cell at 5 %.

    That is corrected for the number of cells.
    """
    yield from recommendations.targets(_recommendations(parts))
    noises = by_noise(parts)
    for what, own in noises.items():
        yield share_target(f"false alarms, {what}", *_counts(own), FAMILY_ERROR)
    cells = [cell for own in noises.values() for cell in own]
    if not cells:
        return
    worst = min(cells, key=lambda cell: cell.p_value)
    p_value = min(1.0, worst.p_value * len(cells))
    note = f"{worst.what}, {worst.n_claims} claims, {worst.n_rounds} rounds"
    what = "probability of the worst cell at 5 %"
    yield Target(what, p_value, _DOUBT, at_least=True, note=note, form=".2f")


def summary(parts: Parts, verdict: str) -> str:
    """Return the verdict, and the shares of simulated and real validations."""
    noises, words = by_noise(parts), []
    for kind, names in (("simulated", NOISES), ("real", LOADS)):
        n_false, n_all = _counts(c for name in names for c in noises.get(name, ()))
        if n_all:
            words.append(f"{n_false / n_all:.1%} of {n_all:,} {kind} validations")
    return f"{verdict}: {', '.join(words)} without any difference" if words else verdict


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--validations", type=int, default=N_VALIDATIONS, metavar="N",
                        help="of each simulated cell; default: %(default)s")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="false_alarms",
    about=__doc__,
    claim="At most 5 % of validations show a difference where there is none.",
    depends_on=(
        "rand_malloc/supervise",
        "tuner/stats.py",
        "tuner/validate",
        "tuner/optimize/proof/evidence.py",
        "tuner/optimize/proof/judgement.py",
        "tuner/optimize/confirming/race.py",
        "benchmarks/recommendations.py",
    ),
    measure=measure,
    needs=(SIMULATED, RECOMMENDATIONS, *LOADS),
    lines=lines,
    targets=targets,
    outcome=summary,
    options=_options,
    rounds=150,
    blocks={RECOMMENDATIONS: recommendation_lines},
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
