"""gem5 as the program whose allocator is tuned: campaigns, gem5 under their points, tables.

    benchmarks/gem5_case.py --gem5 build/X86/gem5.fast           everything that is missing
    benchmarks/gem5_case.py --steps validate --rounds 9          only these steps
    benchmarks/gem5_case.py --print                              the tables of the last results
    benchmarks/gem5_case.py --print --write                      and into docs/case-study-gem5.md
    benchmarks/gem5_case.py --smoke                              the last results are understood

Steps, each of which goes on where it stopped:

    tune       the campaigns configs/campaigns/gem5-*.toml, into runs/
    choose     defaults and picks on the simulations tuned on, in interleaved rounds
    rank       the heap of further points on these simulations, once: it repeats, busy or not
    validate   defaults and the best picks of these on the simulations held out
    zeros      pages that hold only zeros, under glibc's default and the best picks
    count      instructions of defaults and picks on one very short simulation, by cachegrind
    speed      CPU time of an evaluation beside that of the simulation its trace stands for

Raw results are kept in ``benchmarks/results/gem5_case.json``.  Exit status 1 when a figure
that was aimed at is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.gem5_case_figures import finalists, picks
from benchmarks.gem5_case_judgements import judgements
from benchmarks.gem5_case_plots import draw
from benchmarks.gem5_case_runs import (
    ALLOCATORS,
    BASELINE,
    COUNTED,
    ROOT,
    RUNS,
    Journal,
    Point,
    count,
    evaluation_cost,
    load_campaigns,
    look_at_zeros,
    points_of,
    simulate,
    tune,
)
from benchmarks.gem5_case_tables import document, greenmalloc_table, origins
from benchmarks.provenance import installed, make_stamp, n_rounds, provenance_lines, write_results
from tuner.config.gem5_suite import Role, Simulation, Suite, load_suite
from tuner.measure.gem5 import Gem5, build_guests, find_gem5
from tuner.measure.program import ProgramRunner
from tuner.measure.warm import warm_memory
from tuner.resources import configs_dir, gem5_dir
from tuner.runs import Run
from tuner.trace.file import Op, Trace

RESULTS: Final = ROOT / "benchmarks/results/gem5_case.json"
PAGE: Final = ROOT / "docs/case-study-gem5.md"
IMAGES: Final = ROOT / "docs/images"
BEGIN: Final = "<!-- written by benchmarks/gem5_case.py --write -->"
BEGIN_ORIGINS: Final = "<!-- origins: written by benchmarks/gem5_case.py --write -->"
END: Final = "<!-- end -->"
TUNED_ON: Final = "tree-o3"
SUITE_TRACES: Final = "gem5-suite"
"""Folder of the traces of all simulations that campaigns tune on."""

STEPS: Final = ("tune", "choose", "rank", "validate", "zeros", "count", "speed")
_SCHEMA: Final = "malloc-tuner.benchmark.gem5-case"

_EMULATED: Final = ("mean_heap", "peak_heap", "cost", "instructions", "faults", "syscalls")
"""Metrics of a point that the results keep."""


def main() -> int:
    """Run what was asked for, print the tables and return the exit status."""
    options = _parse(sys.argv[1:])
    if not (options.print or options.smoke):
        _measure(options)
    if not RESULTS.is_file():
        print(f"{RESULTS}: nothing has been measured yet", file=sys.stderr)
        return 0 if options.smoke else 1
    results = _last_results()
    text = document(results)
    head = [*provenance_lines(results["provenance"]), "", origins(results), ""]
    print("\n".join([*head, text]))
    if options.write:
        _write(origins(results), BEGIN_ORIGINS)
        pictures = [f"![{path.stem}](images/{path.name})" for path in draw(results, IMAGES)]
        _write("\n\n".join([*pictures, "\n".join(greenmalloc_table(results, "held-out"))]))
    return 0 if options.smoke or all(j.is_met for j in judgements(results)) else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="gem5 as the program whose allocator is tuned.")
    parser.add_argument("--gem5", type=Path, default=os.environ.get("GEM5", "gem5.opt"))
    parser.add_argument("--suite", type=Path, help="if not the shipped one")
    parser.add_argument("--steps", default=",".join(STEPS), help="default: all")
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), help="default: all")
    parser.add_argument("--rounds", type=int, default=6, help="rounds on simulations held out")
    parser.add_argument("--tune-rounds", type=int, default=6, help="rounds on those tuned on")
    parser.add_argument("--write", action="store_true", help="write the page and its pictures")
    parser.add_argument("--print", action="store_true", help="the last results; nothing is run")
    parser.add_argument("--smoke", action="store_true", help="as --print, without a judgement")
    options = parser.parse_args(arguments)
    options.steps = options.steps.split(",")
    options.allocators = options.allocators.split(",")
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"--steps: {', '.join(unknown)}: choose among {', '.join(STEPS)}")
    return options


def _measure(options: argparse.Namespace) -> None:
    """Run the steps; the results are written after each."""
    if "tune" in options.steps:
        tune(options.allocators)
    runs = load_campaigns(options.allocators)
    journal = Journal(RUNS / "gem5-case/journal.jsonl")
    suite = load_suite(options.suite or gem5_dir() / "suite.toml")
    folder = (RUNS / "gem5-case").resolve()
    build_guests(suite, folder / "guests")
    program = find_gem5(options.gem5)
    gem5 = Gem5(program, suite, folder / "guests", folder / "outputs", ProgramRunner())
    points = points_of(runs)
    warm_memory()
    try:
        _keep(journal, runs, gem5, points)
        for step in options.steps:
            _step(step, options, journal, gem5, points)
            _keep(journal, runs, gem5, points)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
    _keep(journal, runs, gem5, points)


def _step(
    step: str,
    options: argparse.Namespace,
    journal: Journal,
    gem5: Gem5,
    points: Sequence[Point],
) -> None:
    (counted,) = gem5.suite.choose([TUNED_ON])
    tuned_on = list(gem5.suite.choose([Role.TUNE.value]))
    candidates = [point for point in points if point.is_candidate]
    if step == "choose":
        simulate(journal, "tune", gem5, tuned_on, candidates, rounds=options.tune_rounds)
    elif step == "rank":
        further = [point for point in points if not point.is_candidate]
        simulate(journal, "rank", gem5, tuned_on, [points[0], *further], rounds=1)
    elif step == "validate":
        simulations = list(gem5.suite.choose([Role.HELD_OUT.value]))
        labels = finalists(_last_results())
        shown = [point for point in candidates if point.label in labels]
        simulate(journal, "held-out", gem5, simulations, shown, rounds=options.rounds)
    elif step == "zeros":
        chosen = [BASELINE, *picks(_last_results()).values()]
        shown = [point for point in candidates if point.label in chosen]
        look_at_zeros(journal, gem5, counted, shown)
    elif step == "count":
        chosen = list(picks(_last_results()).values())
        shown = [p for p in candidates if p.is_default or p.label in chosen]
        shown.sort(key=lambda p: (p.label != points[0].label, p.label not in chosen))
        count(journal, gem5, _scaled(counted, COUNTED), shown)
    elif step == "speed":
        _time_suite(journal, tuned_on)


def _last_results() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def _scaled(simulation: Simulation, argument: str) -> Simulation:
    return simulation.model_copy(update={"arguments": (argument,)})


def _time_suite(journal: Journal, simulations: Sequence[Simulation]) -> None:
    """Compare one evaluation on all traces of the suite with the simulations they stand for."""
    place = {"part": "speed", "trace": SUITE_TRACES}
    if journal.find(**place):
        return
    found = [journal.find(part="tune", simulation=s.name, label=BASELINE) for s in simulations]
    gem5_cpu_s = sum(statistics.median(r["cpu_ns"] for r in rows) for rows in found) / 1e9
    evaluation_cpu_s = sum(evaluation_cost("glibc", path) for path in suite_traces())
    row = {"gem5_cpu_s": gem5_cpu_s, "evaluation_cpu_s": evaluation_cpu_s}
    journal.add({**place, "simulation": "all tuned on", "status": "ok", **row})


def suite_traces() -> list[Path]:
    """Return the shipped traces of the simulations that are tuned on."""
    return sorted((configs_dir() / "workloads" / SUITE_TRACES / "traces").glob("*.trace"))


def _keep(journal: Journal, runs: Mapping[str, Run], gem5: Gem5, points: Sequence[Point]) -> None:
    """Write what there is so far."""
    results: dict[str, Any] = {
        "schema": _SCHEMA,
        "version": 2,
        "provenance": [_stamp(journal, runs)],
        "gem5": _version(gem5),
        "campaigns": {name: _campaign(run) for name, run in runs.items()},
        "suite": {s.name: _simulation(gem5.suite, s) for s in gem5.suite.simulations},
        "points": {point.label: _point(point) for point in points},
        "floor": _floor(points[0]),
        "speed": journal.find(part="speed"),
    }
    rows = [{k: v for k, v in row.items() if k != "digest"} for row in journal.rows]
    write_results(RESULTS, {**results, "rows": rows})


def _version(gem5: Gem5) -> str:
    files = gem5.outputs.glob("*/result.json")
    found = (json.loads(path.read_text(encoding="utf-8"))["gem5"] for path in files)
    return next(found, "unknown")


def _stamp(journal: Journal, runs: Mapping[str, Run]) -> dict[str, Any]:
    held_out = journal.find(part="held-out")
    rounds = n_rounds(held_out) if held_out else None
    return make_stamp("gem5_case", sys.argv, of=["gem5"], allocators=installed(runs), rounds=rounds)


def _campaign(run: Run) -> dict[str, Any]:
    (version,) = (record.version for record in run.campaign.allocators.values())
    further = run.campaign.workload.get("further", ())
    return {
        "evaluations": len(run.trials),
        "version": version,
        "traces_sha256": [run.campaign.trace_sha256, *(trace["sha256"] for trace in further)],
    }


def _simulation(suite: Suite, simulation: Simulation) -> dict[str, str]:
    machine = suite.machine_file(simulation).stem
    guest = " ".join([simulation.guest or "traffic", *simulation.arguments])
    return {"role": simulation.role.value, "what": f"{guest} on {machine}"}


def _point(point: Point) -> dict[str, Any]:
    found = point.measurement
    configuration = point.prepared.subject.configuration
    emulated = found and {name: found[name] for name in _EMULATED}
    settings = str(configuration).partition(" ")[2]
    return {"settings": settings, "refusal": point.prepared.refusal, "emulated": emulated}


def _floor(baseline: Point) -> dict[str, float]:
    """Return mean bytes: asked for, in multiples of 16, held by glibc's default.

    Each is the geometric mean over the traces tuned on.
    """
    found = [_least(path) for path in suite_traces()]
    means = {key: statistics.geometric_mean(one[key] for one in found) for key in found[0]}
    measured = baseline.measurement
    return {**means, "glibc": measured.value("mean_heap") if measured else 0.0}


def _least(path: Path) -> dict[str, float]:
    with Trace(path) as trace:
        events = trace.read_all()
    order = np.argsort(events["slot"], kind="stable")
    size = events["size"][order].astype(np.int64)
    aligned = -(-size // 16) * 16
    is_birth = events["op"][order] <= Op.ALIGNED
    seconds = np.append(np.diff(events["time_ns"].astype(np.int64)), 0)
    found = {}
    for name, sizes in (("live", size), ("aligned", aligned)):
        delta = np.empty(len(events), np.int64)
        delta[order] = sizes - np.where(is_birth, 0, np.concatenate([[0], sizes[:-1]]))
        found[name] = float((np.cumsum(delta) * seconds).sum() / seconds.sum())
    return found


def _write(text: str, begin: str = BEGIN) -> None:
    """Put a text between its markers in the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
