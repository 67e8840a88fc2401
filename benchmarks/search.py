"""Hypervolume per evaluation of every strategy, on invented tuning problems.

The score is the hypervolume of what was found, in logarithmic objectives with the reference of a
campaign, in percent of the union of all runs on that problem.  Evaluations are distinct
configurations; the defaults count.  The last column is the CPU time of a strategy for one
proposal.  The rounds are the seeds of the strategies.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.harness import Benchmark, Call, table
from benchmarks.results import Parts
from benchmarks.search_problem import Problem, make_problem
from tuner.front.dominance import hypervolume, non_dominated
from tuner.registry import STRATEGIES
from tuner.search import Told, make_strategy, population_for

PART: Final = "strategies"
TEXTBOOK: Final = 100
"""The population most papers use."""
_MARKS: Final = (50, 100, 200, 300, 500, 1000)
_SMOKE_BUDGET: Final = 60


def contenders(budget: int) -> dict[str, tuple[str, int]]:
    """Return title -> strategy and population."""
    fitting = population_for(budget)
    found = {f"{name}, population {fitting}": (name, fitting) for name in STRATEGIES}
    found.pop(f"random, population {fitting}")
    found |= {f"{n}, population {TEXTBOOK}": (n, TEXTBOOK) for n in STRATEGIES if n != "random"}
    return {"random": ("random", fitting), **found}


def search(
    problem: Problem, name: str, population: int, seed: int, budget: int
) -> tuple[np.ndarray, float]:
    """Run one strategy.

    Returns:
        Objectives in the order of evaluation, (n_evaluations, 2) float64, and CPU seconds of
        asking and telling.
    """
    space = problem.space
    strategy = make_strategy(
        name, space, 2, population=population, seed=seed, initial=list(space.defaults())
    )
    points: list[tuple[float, float]] = []
    cpu_s = 0.0
    while len(points) < budget:
        begun_s = time.process_time()
        genomes = strategy.ask()
        cpu_s += time.process_time() - begun_s
        if not genomes:
            break
        found = [problem.evaluate(space.decode(genome)) for genome in genomes]
        points += found
        told = [Told(genome, values, 0.0) for genome, values in zip(genomes, found, strict=True)]
        begun_s = time.process_time()
        strategy.tell(told)
        cpu_s += time.process_time() - begun_s
    return np.array(points[:budget]), cpu_s


def measure(call: Call) -> None:
    """Run every contender on every problem with every seed; keep the scores at the marks."""
    budget = _SMOKE_BUDGET if call.is_smoke else call.options.budget
    marks = [*(n for n in _MARKS if n < budget), budget]
    samples: list[dict[str, Any]] = []
    for number in range(1 if call.is_smoke else call.options.problems):
        samples += _solve(make_problem(number), number, call.rounds, budget, marks)
    call.keep(PART, samples, rounds=call.rounds)


def _solve(
    problem: Problem, number: int, n_seeds: int, budget: int, marks: Sequence[int]
) -> Iterator[dict[str, Any]]:
    runs = {
        (title, seed): search(problem, name, population, seed, budget)
        for title, (name, population) in contenders(budget).items()
        for seed in range(n_seeds)
    }
    reference = np.array([problem.evaluate(c) for c in problem.defaults()]).max(axis=0) * 1.1
    everything = np.concatenate([points for points, _ in runs.values()])
    best = hypervolume(everything[non_dominated(everything)], reference)
    for (title, seed), (points, cpu_s) in runs.items():
        scores = {str(n): 100.0 * hypervolume(points[:n], reference) / best for n in marks}
        yield {"strategy": title, "problem": number, "seed": seed, "evaluations": len(points),
               "cpu_s": cpu_s, "scores": scores}  # fmt: skip


def lines(parts: Parts) -> Iterator[str]:
    """Yield median and worst score of every contender."""
    samples = parts[PART]
    marks = list(samples[0]["scores"])
    rows = []
    for title, own in _by_strategy(samples).items():
        columns = [[sample["scores"][mark] for sample in own] for mark in marks]
        cost_ms = 1e3 * sum(s["cpu_s"] for s in own) / sum(s["evaluations"] for s in own)
        cells = [f"{median(values):.1f} ({min(values):.0f})" for values in columns]
        rows.append([title, *cells, f"{cost_ms:.2f}"])
    yield from table(["median (worst)", *marks, "ms each"], rows)


def _by_strategy(samples: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        found.setdefault(sample["strategy"], []).append(sample)
    return found


def outcome(parts: Parts) -> str:
    """Return the strategy that is best at the end."""
    last = list(parts[PART][0]["scores"])[-1]
    scores = {
        title: median(sample["scores"][last] for sample in own)
        for title, own in _by_strategy(parts[PART]).items()
    }
    best = max(scores, key=lambda title: scores[title])
    return f"{best}: {scores[best]:.1f} % of the best hypervolume after {last} evaluations"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problems", type=int, default=3, metavar="N")
    parser.add_argument("--budget", type=int, default=500, metavar="N", help="evaluations")


BENCHMARK: Final = Benchmark(
    name="search",
    about=__doc__,
    claim="How fast each search strategy reaches the front.",
    depends_on=("tuner/search", "tuner/front/dominance.py", "benchmarks/search_problem.py"),
    measure=measure,
    lines=lines,
    outcome=outcome,
    options=_options,
    rounds=10,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
