"""Hypervolume per evaluation of every strategy, on invented tuning problems.

    python benchmarks/search.py                          table for 3 problems, 10 seeds
    python benchmarks/search.py --csv results.csv        every raw number as well
    python benchmarks/search.py --smoke                  seconds; shows that it still runs

The score is the hypervolume of what was found, in logarithmic objectives with the
reference of a campaign, in percent of the union of all runs on that problem.
Evaluations are distinct configurations; the defaults count.  The last column is
the CPU time of a strategy for one proposal.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.search_problem import Problem, make_problem
from tuner.objectives import hypervolume, non_dominated
from tuner.search import STRATEGIES, Told, make_strategy, population_for

TEXTBOOK = 100
"""The population most papers use."""


@dataclass(frozen=True)
class Run:
    """One strategy on one problem with one seed."""

    title: str
    problem: int
    seed: int
    points: np.ndarray
    """(n_evaluations, 2) objectives in the order of evaluation."""
    cpu_s: float
    """CPU time of asking and telling."""


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
    """Run one strategy and return its points and its CPU time."""
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


def scores(runs: Sequence[Run], marks: Sequence[int]) -> dict[str, list[dict[int, float]]]:
    """Return for every contender the score of each run at each mark, in percent."""
    found: dict[str, list[dict[int, float]]] = defaultdict(list)
    for number in sorted({run.problem for run in runs}):
        problem = make_problem(number)
        defaults = np.array([problem.evaluate(c) for c in problem.defaults()])
        reference = defaults.max(axis=0) * 1.1
        everything = np.concatenate([run.points for run in runs if run.problem == number])
        best = hypervolume(everything[non_dominated(everything)], reference)
        for run in runs:
            if run.problem == number:
                volumes = {n: hypervolume(run.points[:n], reference) / best for n in marks}
                found[run.title].append({n: 100.0 * v for n, v in volumes.items()})
    return found


def print_table(runs: Sequence[Run], marks: Sequence[int]) -> None:
    """Print median and worst score of every contender."""
    by_title = scores(runs, marks)
    print(f"{'median (worst)':32}" + "".join(f"{n:>15}" for n in marks) + f"{'ms each':>10}")
    for title, found in by_title.items():
        cells = []
        for mark in marks:
            values = [score[mark] for score in found]
            cells.append(f"{statistics.median(values):8.1f} ({min(values):4.0f})")
        own = [run for run in runs if run.title == title]
        cost_ms = 1e3 * sum(run.cpu_s for run in own) / sum(len(run.points) for run in own)
        print(f"{title:32}" + "".join(f"{cell:>15}" for cell in cells) + f"{cost_ms:10.2f}")


def write_csv(path: Path, runs: Sequence[Run]) -> None:
    """Write every evaluation of every run."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["command", " ".join(sys.argv)])
        writer.writerow(["strategy", "problem", "seed", "evaluation", "memory", "work"])
        for run in runs:
            for number, (memory, work) in enumerate(run.points.tolist()):
                writer.writerow([run.title, run.problem, run.seed, number, memory, work])


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--smoke", action="store_true", help="one problem, two seeds, 60 each")
    options = parser.parse_args()
    if options.smoke:
        options.problems, options.seeds, options.budget = 1, 2, 60
    marks = [n for n in (50, 100, 200, 300, 500, 1000) if n < options.budget] + [options.budget]
    runs = []
    for number in range(options.problems):
        problem = make_problem(number)
        for title, (name, population) in contenders(options.budget).items():
            for seed in range(options.seeds):
                points, cpu_s = search(problem, name, population, seed, options.budget)
                runs.append(Run(title, number, seed, points, cpu_s))
    print_table(runs, marks)
    if options.csv:
        write_csv(options.csv, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
