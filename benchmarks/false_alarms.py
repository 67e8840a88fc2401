"""How often a validation shows a difference where there is none: simulated, and the real thing.

    benchmarks/false_alarms.py                    everything, kept in benchmarks/results
    benchmarks/false_alarms.py --print            the tables of the last results
    benchmarks/false_alarms.py --smoke            a little of everything, nothing kept

Simulated: validations of subjects that are all the same, their runs placed in time by the very
order of `malloc-tuner validate`, under noise of several shapes; 3 to 30 rounds, 1 to 40 claims.
Real: a small program under glibc's default, under several labels, once on the machine as it is
and once beside processes that come and go; every run is kept, and cut into validations of several
lengths.

A false alarm is a validation in which one claim or more is called anything but undecided or not
confirmed.  Exit status 1 when they are more than 5 % beyond doubt: by an exact binomial test at
1 % over all cells together (Bonferroni).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from benchmarks.provenance import RESULTS as FOLDER
from benchmarks.provenance import make_stamp, provenance_lines, write_results
from tuner.compare.plan import order
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.stats import FAMILY_ERROR, Estimate, fewest_pairs, paired_p_value
from tuner.validate.verdicts import Claim, Verdict, decide

RESULTS: Final = FOLDER / "false_alarms.json"

ROUNDS: Final = (3, 5, 6, 8, 10, 12, 15, 20, 30)
CLAIMS: Final = (1, 4, 22, 40)
N_VALIDATIONS: Final = 400
"""Of each simulated cell."""

N_LABELS: Final = 11
"""Real subjects beside the baseline; with the metrics below, 22 claims."""
METRICS: Final = ("mean_heap", "cpu_ns")
N_REAL_ROUNDS: Final = 150
REAL_LENGTHS: Final = (5, 10, 12, 15, 20, 30)
"""Rounds that the real runs are cut into."""
N_LOAD: Final = 3
"""Processes that come and go beside the program."""

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
    def is_too_many(self) -> bool:
        """True when there are more than 5 % beyond doubt, on its own."""
        return self.p_value < _DOUBT

    @property
    def p_value(self) -> float:
        """How probable so many are at 5 %."""
        test = binomtest(self.n_false, self.n_validations, FAMILY_ERROR, alternative="greater")
        return float(test.pvalue)


def main() -> int:
    """Measure, print the tables and return the exit status."""
    parser = argparse.ArgumentParser(description="False alarms of malloc-tuner validate.")
    parser.add_argument("--print", action="store_true", help="the last results; nothing is run")
    parser.add_argument("--smoke", action="store_true", help="a little of all; nothing is kept")
    parser.add_argument(
        "--real-rounds", type=int, default=N_REAL_ROUNDS, metavar="N", help="of each kind"
    )
    parser.add_argument("--validations", type=int, default=N_VALIDATIONS, metavar="N")
    options = parser.parse_args()
    if options.print:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    elif options.smoke:
        results = _results(_simulate((5, 10), (1, 22), 10), n_rounds=5)
    else:
        simulated = _simulate(ROUNDS, CLAIMS, options.validations)
        results = _results(simulated, options.real_rounds)
        write_results(RESULTS, results)
    cells = cells_of(results)
    simulated, real = cells[: len(results["simulated"])], cells[len(results["simulated"]) :]
    for line in (
        *provenance_lines(results["provenance"]),
        "",
        *_simulated_table(simulated),
        *_real_table(real),
    ):
        print(line)
    print(_worst(cells))
    return 1 if are_too_many(cells) and not options.smoke else 0


def cells_of(results: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of kept results, the simulated ones first."""
    real = [cell for where, runs in results["real"].items() for cell in _cells(where, runs)]
    return [*(Cell(**row) for row in results["simulated"]), *real]


def are_too_many(cells: Sequence[Cell]) -> bool:
    """Tell whether false alarms are more than 5 % beyond doubt, over all cells together."""
    return min(cell.p_value for cell in cells) * len(cells) < _DOUBT


def _results(simulated: Sequence[Cell], n_rounds: int) -> dict[str, Any]:
    parts = ("simulated", "real")
    return {
        "schema": "malloc-tuner.benchmark.false-alarms",
        "version": 1,
        "provenance": [make_stamp("false_alarms", sys.argv, of=parts, rounds=n_rounds)],
        "load_average": os.getloadavg()[2],
        "program": PROGRAM,
        "columns": ["round", "position", "label", *METRICS],
        "simulated": [vars(cell) for cell in simulated],
        "real": {
            "no load added": _run_real(n_rounds, 0),
            "load added": _run_real(n_rounds, N_LOAD),
        },
    }


# Simulated validations


def _simulate(rounds: Sequence[int], claims: Sequence[int], n_validations: int) -> list[Cell]:
    cells = []
    for (name, noise), n_claims in product(NOISES.items(), claims):
        began = time.monotonic()
        for n_rounds in rounds:
            rng = np.random.default_rng((_SEED, n_rounds, n_claims))
            outcomes = [
                _simulated_outcome(noise, rng, n_rounds, n_claims, seed)
                for seed in range(n_validations)
            ]
            cells.append(_cell(name, n_rounds, n_claims, outcomes))
        took = time.monotonic() - began
        print(f"{name}, {n_claims} claims: {took:.0f} s", file=sys.stderr)
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
        claim = Claim("cost", "cpu", 1.0, 0.9, None, real, Verdict.UNDECIDED, p_value)
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


def _run_real(n_rounds: int, n_load: int) -> list[list[float]]:
    """Return a row for every run: round, position, label, heap and CPU time."""
    runner = ProgramRunner()
    command = [sys.executable, "-E", "-S", "-c", PROGRAM]
    environment = {"PATH": os.environ["PATH"]}
    rows: list[list[float]] = []
    with ExitStack() as stack:
        for _ in range(n_load):
            busy = subprocess.Popen([sys.executable, "-E", "-S", "-c", _LOAD])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        for number in range(n_rounds):
            for position, label in enumerate(order(N_LABELS + 1, number, _SEED)):
                run = runner.run(command, environment, Surroundings(timeout_s=60.0))
                heap = round(run.mean_anon_bytes or 0.0)
                rows.append([number, position, label, heap, run.cpu_ns])
    return rows


def _cells(where: str, rows: Sequence[Sequence[float]]) -> Iterator[Cell]:
    """Cut rounds into validations of several lengths."""
    by_run = {(int(row[0]), int(row[2])): row[3:] for row in rows}
    n_rounds = 1 + max(number for number, _ in by_run)
    n_labels = max(label for _, label in by_run)
    for length in REAL_LENGTHS:
        outcomes = []
        for first in range(0, n_rounds - length + 1, length):
            rounds = range(first, first + length)
            pairs = [
                ([by_run[r, label][m] for r in rounds], [by_run[r, 0][m] for r in rounds])
                for label in range(1, n_labels + 1)
                for m in range(len(METRICS))
            ]
            outcomes.append(outcome(pairs))
        if outcomes:
            yield _cell(where, length, n_labels * len(METRICS), outcomes)


# Tables


def _simulated_table(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield validations with a false difference, per noise and claims, by rounds."""
    rounds = sorted({cell.n_rounds for cell in cells})
    yield "### Simulated: validations with one false difference or more"
    yield ""
    yield f"{cells[0].n_validations} of each; in brackets: if every claim were tested alone."
    yield ""
    yield "| noise | claims | " + " | ".join(f"{n} rounds" for n in rounds) + " |"
    yield "|---|---|" + "---|" * len(rounds)
    for what, n_claims in dict.fromkeys((cell.what, cell.n_claims) for cell in cells):
        own = {c.n_rounds: c for c in cells if (c.what, c.n_claims) == (what, n_claims)}
        yield f"| {what} | {n_claims} | " + " | ".join(_share(own[n]) for n in rounds) + " |"
    yield ""


def _real_table(cells: Sequence[Cell]) -> Iterator[str]:
    yield "### Real: the default against itself"
    yield ""
    yield "| machine | claims | rounds | validations | with a false difference | 95 % interval |"
    yield "|---|---|---|---|---|---|"
    for cell in cells:
        bounds = binomtest(cell.n_false, cell.n_validations).proportion_ci()
        row = [cell.what, cell.n_claims, cell.n_rounds, cell.n_validations, _share(cell)]
        interval = f"{bounds.low:.1%} .. {bounds.high:.1%}"
        yield "| " + " | ".join(map(str, [*row, interval])) + " |"
    yield ""


def _share(cell: Cell) -> str:
    needed = fewest_pairs(cell.n_claims)
    alone = cell.n_alone / cell.n_validations
    together = "undecided" if cell.n_rounds < needed else f"{cell.n_false / cell.n_validations:.1%}"
    return f"{together} ({alone:.0%})"


def _worst(cells: Sequence[Cell]) -> str:
    worst = max(cells, key=lambda cell: cell.n_false / cell.n_validations)
    return (
        f"At most {worst.n_false / worst.n_validations:.1%} of {worst.n_validations} validations "
        f"({worst.what}, {worst.n_claims} claims, {worst.n_rounds} rounds); "
        f"{sum(cell.is_too_many for cell in cells)} of {len(cells)} cells are above 5 % by an "
        "exact test at 1 %, where 1 % of them would be by chance."
    )


if __name__ == "__main__":
    sys.exit(main())
