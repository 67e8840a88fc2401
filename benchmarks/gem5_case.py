"""gem5 as the program whose allocator is tuned: campaigns, and gem5 under their points.

    benchmarks/gem5_case.py --gem5 build/X86/gem5.fast           everything that is missing
    benchmarks/gem5_case.py validate --rounds 9                  only this step

Steps, each a part of the results:

    tune       the campaigns configs/campaigns/gem5-*.toml, into runs/
    choose     defaults and picks on the simulations tuned on, in interleaved rounds
    rank       the heap of further points on these simulations, once: it repeats, busy or not
    held-out   defaults and the best picks of these on the simulations held out
    zeros      pages that hold only zeros, under glibc's default and the best picks
    count      instructions of defaults and picks on one very short simulation, by cachegrind
    speed      CPU time of an evaluation beside that of the simulations its traces stand for
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.gem5_case_figures import Results, finalists, picks, rows_of, targets, view
from benchmarks.gem5_case_plots import draw
from benchmarks.gem5_case_runs import (
    BASELINE,
    COUNTED,
    RUNS,
    Point,
    count,
    evaluation_cost,
    load_campaigns,
    look_at_zeros,
    on_known_malloc,
    points_of,
    simulate,
    tune,
)
from benchmarks.gem5_case_tables import ENOUGH_ROUNDS, document, greenmalloc_table, origins
from benchmarks.gem5_traces import built_gem5, gem5_option, lacks_gem5
from benchmarks.harness import ALLOCATORS, Benchmark, Call, installed
from benchmarks.results import Parts, read_results, results_path
from benchmarks.rounds import n_rounds
from benchmarks.sources import EMULATOR, EXGEN, GEM5, SEARCH, VALIDATE
from tuner.config.gem5_suite import Simulation, SimulationRole
from tuner.errors import SpecError
from tuner.measure.gem5 import Gem5
from tuner.resources import configs_dir
from tuner.runs import Run
from tuner.trace.file import Op, Trace

TUNED_ON: Final = "tree-o3"
SUITE_TRACES: Final = "gem5-suite"
"""Folder of the traces of all simulations that campaigns tune on."""
STEPS: Final = ("tune", "choose", "rank", "held-out", "zeros", "count", "speed")
_EMULATED: Final = ("mean_heap", "peak_heap", "cost", "instructions", "faults", "syscalls")
"""Metrics of a point that the results keep."""
ABOUT: Final = "about"
"""Part with what all steps share: campaigns, points, suite."""


@dataclass(frozen=True)
class Case:
    """What all steps share."""

    call: Call
    gem5: Gem5
    points: Sequence[Point]

    @property
    def tuned_on(self) -> Sequence[Simulation]:
        """The simulations that campaigns tune on."""
        return list(self.gem5.suite.choose([SimulationRole.TUNE.value]))

    @property
    def candidates(self) -> list[Point]:
        """Defaults and picks; the others check the ranking."""
        return [point for point in self.points if point.is_candidate]

    @property
    def results(self) -> Results:
        """What is known so far."""
        return view(self.call.parts)


def measure(call: Call) -> None:
    """Run the steps."""
    steps = call.choose(STEPS, [])
    if call.is_smoke:  # that the last results are understood
        call.parts.update(read_results(results_path("gem5_case"))["parts"])
        return
    if lacks_gem5(call, *steps):
        return
    if "tune" in steps:
        tune(ALLOCATORS)
    runs = load_campaigns(ALLOCATORS)
    gem5 = built_gem5(call.options.gem5, RUNS / "gem5-case")
    case = Case(call, gem5, on_known_malloc(gem5, points_of(runs)))
    check_points(call.parts, case.points, map(part_of, steps))
    compared = installed(runs)
    for step in steps:
        if step in _STEPS and not call.is_done(part_of(step)):
            rows = _STEPS[step](case)
            call.keep(part_of(step), rows, allocators=compared, rounds=n_rounds(rows))
        call.keep(ABOUT, _about(case, runs), allocators=compared)


def part_of(step: str) -> str:
    """Return under which name the rows of a step are kept."""
    return {"choose": "tune"}.get(step, step)


def check_points(parts: Parts, points: Iterable[Point], anew: Iterable[str]) -> None:
    """See that a label means in every part what it means in the others.

    Args:
        parts: that are kept.
        points: of the campaigns as they are now.
        anew: parts that are measured on these.

    Raises:
        SpecError: a kept part is of other settings, and would be shown as if it were of these.
    """
    known = parts.get(ABOUT, {}).get("points", {})
    now = {point.label: _point(point)["settings"] for point in points}
    others = set(parts) - {ABOUT, *anew}
    changed = [name for name, one in known.items() if one["settings"] != now.get(name)]
    shown = sorted({row["subject"] for name in others for row in parts[name]} & {*changed})
    if shown:
        raise SpecError(
            f"{', '.join(shown)}: set otherwise now than in the kept results of "
            f"{', '.join(sorted(others))}; measure these steps too, or --keep another FILE"
        )


def _choose(case: Case) -> list[Any]:
    return simulate(case.call, "tune", case.gem5, case.tuned_on, case.candidates)


def _rank(case: Case) -> list[Any]:
    further = [case.points[0], *(point for point in case.points if not point.is_candidate)]
    return simulate(case.call, "rank", case.gem5, case.tuned_on, further, rounds=1)


def _hold_out(case: Case) -> list[Any]:
    labels = finalists(case.results)
    shown = [point for point in case.candidates if point.label in labels]
    simulations = list(case.gem5.suite.choose([SimulationRole.HELD_OUT.value]))
    return simulate(case.call, "held-out", case.gem5, simulations, shown)


def _zeros(case: Case) -> list[Any]:
    chosen = [BASELINE, *picks(case.results).values()]
    shown = [point for point in case.candidates if point.label in chosen]
    (simulation,) = case.gem5.suite.choose([TUNED_ON])
    return look_at_zeros(case.call, case.gem5, simulation, shown)


def _count(case: Case) -> list[Any]:
    chosen = list(picks(case.results).values())
    shown = [p for p in case.candidates if p.is_default or p.label in chosen]
    (simulation,) = case.gem5.suite.choose([TUNED_ON])
    brief = simulation.model_copy(update={"arguments": (COUNTED,)})
    return count(case.call, case.gem5, brief, shown)


def _speed(case: Case) -> list[Any]:
    """Compare one evaluation on all traces of the suite with the simulations they stand for."""
    names = [simulation.name for simulation in case.tuned_on]
    found = [rows_of(case.results, part="tune", simulation=n, label=BASELINE) for n in names]
    seconds = sum(statistics.median(r["cpu_ns"] for r in rows) for rows in found) / 1e9
    evaluation_s = sum(evaluation_cost("glibc", path) for path in suite_traces())
    place = {
        "task": "all tuned on",
        "subject": BASELINE,
        "round": 0,
        "status": "ok",
        "reason": None,
    }
    row = {"trace": SUITE_TRACES, "gem5_cpu_s": seconds, "evaluation_cpu_s": evaluation_s}
    return [{**place, **row}]


_STEPS: Final = {"choose": _choose, "rank": _rank, "held-out": _hold_out, "zeros": _zeros,
                 "count": _count, "speed": _speed}  # fmt: skip


def suite_traces() -> list[Path]:
    """Return the shipped traces of the simulations that are tuned on."""
    return sorted((configs_dir() / "workloads" / SUITE_TRACES / "traces").glob("*.trace"))


# What all steps share


def _about(case: Case, runs: Mapping[str, Run]) -> dict[str, Any]:
    suite = case.gem5.suite
    files = case.gem5.outputs.glob("*/result.json")
    versions = (json.loads(path.read_text(encoding="utf-8"))["gem5"] for path in files)
    return {
        "gem5": next(versions, "unknown"),
        "campaigns": {name: _campaign(run) for name, run in runs.items()},
        "suite": {
            s.name: {
                "role": s.role.value,
                "what": " ".join([s.guest or "traffic", *s.arguments])
                + f" on {suite.machine_file(s).stem}",
            }
            for s in suite.simulations
        },
        "points": {point.label: _point(point) for point in case.points},
        "floor": _floor(case.points[0]),
    }


def _campaign(run: Run) -> dict[str, Any]:
    (version,) = (record.version for record in run.campaign.allocators.values())
    further = run.campaign.workload.further
    return {
        "evaluations": len(run.trials),
        "version": version,
        "traces_sha256": [run.campaign.trace_sha256, *(trace.sha256 for trace in further)],
    }


def _point(point: Point) -> dict[str, Any]:
    found = point.measurement
    settings = str(point.prepared.subject.configuration).partition(" ")[2]
    emulated = found and {name: found[name] for name in _EMULATED}
    return {"settings": settings, "refusal": point.prepared.refusal, "emulated": emulated}


def _floor(baseline: Point) -> dict[str, float]:
    """Return mean bytes: asked for, in multiples of 16, held by glibc's default.

    Each is over the life of the process, and the geometric mean over the traces tuned on.
    """
    found = [least_bytes(path) for path in suite_traces()]
    means = {key: statistics.geometric_mean(one[key] for one in found) for key in found[0]}
    measured = baseline.measurement
    return {**means, "glibc": measured.value("mean_heap") if measured else 0.0}


def least_bytes(path: Path) -> dict[str, float]:
    """Return the mean live bytes of a trace, as asked for and in multiples of 16."""
    with Trace(path) as trace:
        events, totals = trace.read_all(), trace.totals
    events = events[events["op"] < Op.THREAD_START]
    order = np.argsort(events["slot"], kind="stable")
    size = events["size"][order].astype(np.int64)
    aligned = -(-size // 16) * 16
    is_birth = events["op"][order] <= Op.ALIGNED
    end_ns = totals.duration_ns if totals.end_ns is None else totals.end_ns
    held_ns = np.diff(events["time_ns"].astype(np.int64), append=end_ns)
    found = {}
    for name, sizes in (("live", size), ("aligned", aligned)):
        delta = np.empty(len(events), np.int64)
        delta[order] = sizes - np.where(is_birth, 0, np.concatenate([[0], sizes[:-1]]))
        found[name] = float((np.cumsum(delta) * held_ns).sum() / totals.life_ns)
    return found


# Showing


def lines(parts: Parts) -> Iterator[str]:
    """Yield where the settings come from, and all tables."""
    yield from origin_lines(parts)
    yield from document(view(parts))


def origin_lines(parts: Parts) -> Iterator[str]:
    """Yield which settings the search found, and which a hand wrote."""
    yield ""
    yield origins(view(parts))
    yield ""


def held_out_lines(parts: Parts) -> Iterator[str]:
    """Yield default against tuned on the simulations held out."""
    yield from greenmalloc_table(view(parts), "held-out")


def _draw(call: Call) -> None:
    for path in draw(view(call.parts), call.options.figures):
        print(f"drawn: {path}", file=sys.stderr)


def _options(parser: argparse.ArgumentParser) -> None:
    gem5_option(parser)
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the pictures")


BENCHMARK: Final = Benchmark(
    name="gem5_case",
    about=__doc__,
    claim="What tuning the malloc of gem5 brings, per allocator, on simulations no campaign has "
    "seen: [case study](case-study-gem5.md).",
    depends_on=(*EXGEN, *EMULATOR, *SEARCH, *VALIDATE, *GEM5, "configs/allocators"),
    measure=measure,
    needs=[part_of(step) for step in _STEPS],
    lines=lines,
    targets=lambda parts: targets(view(parts)),
    options=_options,
    draw=_draw,
    rounds=ENOUGH_ROUNDS,
    blocks={"origins": origin_lines, "held-out": held_out_lines},
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
