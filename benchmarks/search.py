"""Hypervolume per evaluation of every search, on recorded campaigns and on invented problems.

The score is the hypervolume of what was found, in logarithmic objectives with the reference of a
campaign, in percent of the best known front: of all recorded points, or of all runs kept here.
Evaluations are distinct configurations; defaults count.  The rounds are the seeds.  A part is one
search on one kind of problems, such as ``auto@recorded``; `auto` goes first.

`benchmarks/search_problem.py` has the problems.  ``--problem FILE`` adds those of a Python file
that is not part of this repository; the figures kept here include the file ``alloc12``, two
invented problems with twelve settings.  `benchmarks/search_rivals.py` has the searches that are
compared and not offered.  The part ``cost`` is CPU time of proposals up to 2,000 points.

On an invented problem `auto` is held against the other searches only.  What its worst seed misses
of the best known front is shown and not aimed at: a part of the front of ``invented-0`` is reached
only by moving nine settings at once, each of which alone makes things worse, and now and then a
long run of one search does so by chance.
"""

import argparse
import hashlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.harness import Benchmark, Call, Target, table
from benchmarks.results import ROOT, Parts
from benchmarks.rounds import Figures, Row, run_rounds
from benchmarks.search_problem import (
    GROUPS,
    INVENTED,
    RECORDED_FILES,
    WRITTEN,
    Task,
    digest_of,
    make_task,
    task_names,
)
from tuner.front.dominance import hypervolume, non_dominated
from tuner.search import Strategy, make_strategy, population_for
from tuner.space import Genome

TEXTBOOK: Final = 100
"""The population most papers use."""
SMALL: Final = 20
MARKS: Final = (100, 200, 500, 1000)
COST: Final = "cost"
COST_MARKS: Final = (100, 200, 500, 1000, 2000)
MOST_MS: Final = 5.0
"""CPU time of a proposal."""
LEAST_AT_200: Final = 92.0
LEAST_AT_500: Final = 97.0
MOST_BEHIND: Final = 1.0
"""Points behind the best other search, of the medians."""
_PLAIN: Final = "pymoo_100"
_SMOKE_BUDGET: Final = 60

Make = Callable[..., Strategy]


@dataclass(frozen=True)
class Contender:
    """A search that takes part."""

    title: str
    make: Make
    """As `tuner.search.make_strategy` without the name."""
    population: int
    needs: str = "numpy"
    """Module without which it is left out."""
    budget: int = MARKS[-1]
    """Evaluations, less where a proposal takes too long."""


def _rival(name: str) -> Make:
    def make(*where: object, population: int, seed: int, initial: Sequence[Genome]) -> Strategy:
        from benchmarks import search_rivals  # noqa: PLC0415 - needs libraries that may be missing

        made: Strategy = getattr(search_rivals, name)(*where, population, seed, initial)
        return made

    return make


CONTENDERS: Final[Mapping[str, Contender]] = {
    "auto": Contender("auto", partial(make_strategy, "auto"), population_for(MARKS[-1], "auto")),
    "random": Contender("random", partial(make_strategy, "random"), SMALL),
    _PLAIN: Contender("pymoo NSGA-II 100, as it comes", _rival("StockPymoo"), TEXTBOOK, budget=500),
    "pymoo_20": Contender("nsga2 (pymoo), 20", partial(make_strategy, "nsga2"), SMALL),
    "deap_20": Contender("deap-nsga2, 20", partial(make_strategy, "deap-nsga2"), SMALL),
    "tpe": Contender("tpe (Optuna)", partial(make_strategy, "tpe"), SMALL, "optuna", 200),
    "optuna_nsga2": Contender("Optuna NSGA-II", _rival("OptunaNsga2"), SMALL, "optuna", 500),
    "corrected_100": Contender("nsga2 (pymoo), 100", partial(make_strategy, "nsga2"), TEXTBOOK),
    "smac": Contender("SMAC3", _rival("Smac"), 1, "smac", 200),
}
OTHERS: Final = ("random", "pymoo_20", "deap_20", "tpe", "optuna_nsga2", "smac")
"""That `auto` is held against."""


def search(
    task: Task, contender: Contender, seed: int, budget: int, marks: Sequence[int]
) -> dict[str, Any]:
    """Run one search.

    Returns:
        `volume` and `cpu_s` (of asking and telling) by mark, as text, and the `front` at the end.
    """
    strategy = contender.make(
        task.space, len(task.reference), population=contender.population, seed=seed,
        initial=list(task.initial),
    )  # fmt: skip
    points: list[tuple[float, ...] | None] = []
    cpu_s = 0.0
    spent_s: dict[str, float] = {}
    while len(points) < budget:
        begun_s = time.process_time()
        genomes = strategy.ask()
        cpu_s += time.process_time() - begun_s
        if not genomes:
            break
        told = [task.evaluate(genome) for genome in genomes]
        points += [one.objectives if one.violation <= 0.0 else None for one in told]
        begun_s = time.process_time()
        strategy.tell(told)
        cpu_s += time.process_time() - begun_s
        spent_s |= {str(n): cpu_s for n in marks if str(n) not in spent_s and n <= len(points)}
    volume = {str(n): hypervolume(_good(points[:n]), task.reference) for n in marks}
    found = _good(points[:budget])
    return {"volume": volume, "cpu_s": spent_s, "front": found[non_dominated(found)].tolist()}


def _good(points: Iterable[tuple[float, ...] | None]) -> np.ndarray:
    return np.array([point for point in points if point is not None], dtype=np.float64)


class _Left:
    """Says how long the rest takes, by what the runs of this call took."""

    def __init__(self, n_runs: int) -> None:
        self._n_left, self._begun_s, self._n_done = n_runs, time.monotonic(), 0

    def after(self, place: int) -> str:
        """Return what is left when the run of a place in the order has ended."""
        self._n_done += 1
        each_s = (time.monotonic() - self._begun_s) / self._n_done
        return f"{each_s * (self._n_left - place - 1) / 60:.0f} min left of this part"


def measure(call: Call) -> None:
    """Run the searches on every problem with every seed; keep their volumes at the marks."""
    parts = [f"{name}@{group}" for name in CONTENDERS for group in GROUPS]
    for part in call.choose([*parts, COST], [f"random@{INVENTED}", f"auto@{INVENTED}"]):
        if part == COST:
            _keep_cost(call)
        elif find_spec(needed := CONTENDERS[_contender(part)].needs) is None:
            call.leave_out(part, f"there is no {needed}")
        elif names := _tasks_of(call, part.partition("@")[2]):
            _keep_part(call, part, names)


def _contender(part: str) -> str:
    return part.partition("@")[0]


def _tasks_of(call: Call, group: str) -> list[str]:
    names = task_names(group, call.options.problem, call.options.invented)
    return names[:1] if call.is_smoke else names


def _keep_part(call: Call, part: str, names: Sequence[str]) -> None:
    contender = CONTENDERS[_contender(part)]
    budget = _SMOKE_BUDGET if call.is_smoke else contender.budget
    marks = [*(n for n in MARKS if n < budget), budget]
    rows = _runs(call, part, contender, names, n_seeds=call.rounds, marks=marks)
    fronts: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        fronts[row["task"].partition(" ")[0]] += row["front"]
    tasks = {name: make_task(name, call.options.problem) for name in fronts}
    kept = {
        "fronts": {name: _front(np.array(points)).tolist() for name, points in fronts.items()},
        "references": {name: task.reference for name, task in tasks.items()},
        "known": {name: _known_volume(task) for name, task in tasks.items()},
        "file": digest_of(call.options.problem) if part.endswith(WRITTEN) else None,
        "rows": [{key: row[key] for key in ("task", "volume", "cpu_s")} for row in rows],
    }
    call.keep(part, kept, rounds=call.rounds)


def _known_volume(task: Task) -> float:
    return hypervolume(task.known, task.reference)


def _keep_cost(call: Call) -> None:
    names = [name for group in GROUPS for name in _tasks_of(call, group)]
    rows = _runs(call, COST, CONTENDERS["auto"], names, n_seeds=1, marks=COST_MARKS)
    call.keep(COST, [{key: row[key] for key in ("task", "cpu_s")} for row in rows])


def _runs(
    call: Call,
    part: str,
    contender: Contender,
    names: Sequence[str],
    *,
    n_seeds: int,
    marks: Sequence[int],
) -> list[Row]:
    file: Path | None = call.options.problem
    tasks = [f"{name} {seed}" for seed in range(n_seeds) for name in names]
    left = _Left(len(tasks))

    def run(task: str, _subject: str) -> Figures:
        name, _, seed = task.partition(" ")
        found = search(make_task(name, file), contender, int(seed), marks[-1], marks)
        return Figures.succeeded({**found, "left": left.after(tasks.index(task))})

    same = [names, marks, contender.population, digest_of(file), _sources(part)]
    return run_rounds(call, part, tasks, [part], run, same=same, rounds=1, shown="left")


def _sources(part: str) -> str:
    """Return a digest of the searches, and of the recorded campaigns where they take part."""
    files = [*(ROOT / "tuner" / "search").glob("*.py")]
    files += [] if part.endswith((WRITTEN, INVENTED)) else RECORDED_FILES.glob("*.zst")
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


def _front(points: np.ndarray) -> np.ndarray:
    return points[non_dominated(points)]


# Scores


def scores_of(parts: Parts) -> dict[str, dict[str, dict[int, list[float]]]]:
    """Return problem -> part -> mark -> scores in percent, by seed."""
    searches = {part: kept for part, kept in parts.items() if _contender(part) in CONTENDERS}
    best = _best_volumes(searches)
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for part in sorted(searches, key=lambda one: [*CONTENDERS].index(_contender(one))):
        for row in searches[part]["rows"]:
            name = row["task"].partition(" ")[0]
            own = found.setdefault(name, {}).setdefault(_contender(part), {})
            for mark, volume in row["volume"].items():
                own.setdefault(int(mark), []).append(100.0 * volume / best[name])
    return found


def _best_volumes(searches: Mapping[str, Any]) -> dict[str, float]:
    """Return the volume of the best known front of every problem."""
    fronts: dict[str, list[Any]] = defaultdict(list)
    best: dict[str, float] = {}
    for kept in searches.values():
        for name, points in kept["fronts"].items():
            fronts[name] += points
            best[name] = kept["known"][name]
    for kept in searches.values():
        for name, reference in kept["references"].items():
            best[name] = max(best[name], hypervolume(_front(np.array(fronts[name])), reference))
    return best


def lines(parts: Parts) -> Iterator[str]:
    """Yield median and worst score of every search on every problem, then the cost of `auto`."""
    for name, searches in scores_of(parts).items():
        n_seeds = max(len(scores) for own in searches.values() for scores in own.values())
        rows = [
            [
                CONTENDERS[part].title,
                *(_cell(own.get(mark)) for mark in MARKS),
                _cost(parts, part, name),
            ]
            for part, own in searches.items()
        ]
        titles = [f"{name}, {n_seeds} seeds, median (worst)", *map(str, MARKS), "ms each"]
        yield from table(titles, rows)
        yield ""
    if COST in parts:
        rows = [
            [row["task"].partition(" ")[0], *(f"{ms:.1f}" for ms in _each_ms(row).values())]
            for row in parts[COST]
        ]
        yield from table(["auto, ms a proposal up to", *map(str, COST_MARKS)], rows)


def _cell(scores: Sequence[float] | None) -> str:
    return f"{median(scores):.1f} ({min(scores):.0f})" if scores else "-"


def _cost(parts: Parts, contender: str, name: str) -> str:
    """Return milliseconds a proposal of a search on a problem."""
    rows = [
        row for part, kept in parts.items() if _contender(part) == contender
        for row in kept["rows"] if row["task"].partition(" ")[0] == name
    ]  # fmt: skip
    spent = [max(row["cpu_s"].items(), key=lambda one: int(one[0])) for row in rows]
    return f"{median(1e3 * cpu_s / int(mark) for mark, cpu_s in spent):.1f}"


def _each_ms(row: Mapping[str, Any]) -> dict[int, float]:
    return {int(mark): 1e3 * cpu_s / int(mark) for mark, cpu_s in row["cpu_s"].items()}


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what `auto` is held to, on the worst problem for each."""
    found = {name: own for name, own in scores_of(parts).items() if "auto" in own}
    if not found:
        return
    if ahead := [
        (median(own["auto"][100]) - median(own[_PLAIN][500]), name)
        for name, own in found.items() if _PLAIN in own and 500 in own[_PLAIN]
    ]:  # fmt: skip
        value, name = min(ahead)
        yield Target("auto at 100 less plain NSGA-II at 500, points", value, 0.0, at_least=True,
                     note=name, form=".1f")  # fmt: skip
    for mark, least in ((200, LEAST_AT_200), (500, LEAST_AT_500)):
        if worst := [
            (min(own["auto"][mark]), name) for name, own in found.items()
            if mark in own["auto"] and not name.startswith(INVENTED)
        ]:  # fmt: skip
            value, name = min(worst)
            yield Target(f"worst seed at {mark}, %", value, least, at_least=True, note=name,
                         form=".1f")  # fmt: skip
    for mark in MARKS:
        if behind := list(_behind(found, mark)):
            value, name, part = max(behind)
            yield Target(f"points behind the best other at {mark}", value, MOST_BEHIND,
                         note=f"{name}, {part}", form=".1f")  # fmt: skip
    if COST in parts:
        most, name = max((max(_each_ms(row).values()), row["task"]) for row in parts[COST])
        yield Target("ms a proposal up to 2,000 points", most, MOST_MS, note=name, form=".1f")


def _behind(
    found: Mapping[str, Mapping[str, Mapping[int, list[float]]]], mark: int
) -> Iterator[tuple[float, str, str]]:
    for name, own in found.items():
        for part in OTHERS:
            if mark in own.get(part, {}) and mark in own["auto"]:
                yield median(own[part][mark]) - median(own["auto"][mark]), name, part


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--invented", type=int, default=2, metavar="N", help="problems")
    parser.add_argument("--problem", type=Path, metavar="FILE", help="a Python file with problems",
                        default=os.environ.get("MALLOC_TUNER_PROBLEM"))  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="search",
    about=__doc__,
    claim="The default search finds in 100 evaluations what textbook NSGA-II finds in 500, and is "
    "never far behind the best other.",
    depends_on=(
        "tuner/search",
        "tuner/front/dominance.py",
        "tuner/campaign/replay.py",
        "benchmarks/search_problem.py",
        "benchmarks/search_rivals.py",
        "benchmarks/recorded",
    ),
    measure=measure,
    needs=[*(f"{name}@{group}" for name in ("auto", _PLAIN, *OTHERS) for group in GROUPS), COST],
    lines=lines,
    targets=targets,
    options=_options,
    rounds=20,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
