"""Hypervolume per evaluation of every strategy, on invented tuning problems.

    python benchmarks/search.py                          table for 3 problems, 10 seeds
    python benchmarks/search.py --csv results.csv        every point found as well
    python benchmarks/search.py --print                  the table of the last results
    python benchmarks/search.py --smoke                  seconds; shows that it still runs

The score is the hypervolume of what was found, in logarithmic objectives with the
reference of a campaign, in percent of the union of all runs on that problem.
Evaluations are distinct configurations; the defaults count.  The last column is
the CPU time of a strategy for one proposal.  The score of every run at every mark goes to
``benchmarks/results/search.json``.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.provenance import RESULTS as RESULTS_FOLDER
from benchmarks.provenance import make_stamp, provenance_lines, write_results
from benchmarks.search_problem import Problem, make_problem
from tuner.front.dominance import hypervolume, non_dominated
from tuner.search import STRATEGIES, Told, make_strategy, population_for

RESULTS: Final = RESULTS_FOLDER / "search.json"
SCHEMA: Final = "malloc-tuner.benchmark.search"
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


def samples_of(runs: Sequence[Run], marks: Sequence[int]) -> list[dict[str, Any]]:
    """Return what is kept of every run: its scores at the marks, in percent, and its CPU time."""
    by_title = {title: iter(found) for title, found in scores(runs, marks).items()}
    return [
        {
            "strategy": run.title,
            "problem": run.problem,
            "seed": run.seed,
            "evaluations": len(run.points),
            "cpu_s": run.cpu_s,
            "scores": {str(mark): score for mark, score in next(by_title[run.title]).items()},
        }
        for run in runs
    ]


def print_table(samples: Sequence[Mapping[str, Any]]) -> None:
    """Print median and worst score of every contender."""
    marks = list(samples[0]["scores"])
    print(f"{'median (worst)':32}" + "".join(f"{n:>15}" for n in marks) + f"{'ms each':>10}")
    for title in dict.fromkeys(sample["strategy"] for sample in samples):
        own = [sample for sample in samples if sample["strategy"] == title]
        cells = []
        for mark in marks:
            values = [sample["scores"][mark] for sample in own]
            cells.append(f"{statistics.median(values):8.1f} ({min(values):4.0f})")
        cost_ms = 1e3 * sum(s["cpu_s"] for s in own) / sum(s["evaluations"] for s in own)
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
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="one problem, two seeds, 60 each")
    options = parser.parse_args()
    if options.print:
        document = json.loads(RESULTS.read_text())
        print("\n".join(provenance_lines(document["provenance"])))
        print_table(document["samples"])
        return 0
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
    samples = samples_of(runs, marks)
    if not options.smoke:
        stamp = make_stamp("search", sys.argv, of=["strategies"], rounds=options.seeds)
        head = {"schema": SCHEMA, "version": 2, "provenance": [stamp]}
        write_results(RESULTS, {**head, "samples": samples})
    print_table(samples)
    if options.csv:
        write_csv(options.csv, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
