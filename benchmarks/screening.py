"""What screening on a shrunk profile gains in campaigns that cost the same processor time.

Each campaign is run twice with every seed: plainly, and with `[screening]`, where every
proposal is measured on a quarter of the workload first and the better half in full.  The
budget is counted in evaluations of the whole workload: one on the shrunk workload costs what
it needs of processor time beside one on the whole, which is measured first, under the
machine's allocator, with both of an evaluation's runs.  So the screened campaign gets fewer
trials, and a busy machine does not decide.

The score is the hypervolume over that of the union of all campaigns on that workload, both
in logarithmic objectives with the campaign's reference.

    benchmarks/screening.py                        clang-compile and python-threads
    benchmarks/screening.py clang-compile ...      these of configs/workloads
    benchmarks/screening.py --seeds 3 --evaluations 60
    benchmarks/screening.py --print                the table of the last results
    benchmarks/screening.py --write-docs           write it into docs/how-to/profiles.md
    benchmarks/screening.py --smoke                a quick look that it still runs

Campaigns stay in ``runs/screening`` and go on where they were; raw figures of every trial go
to ``benchmarks/results/screening.json``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.fidelity_tables import cells, write_between
from benchmarks.measured import emulation_seconds
from benchmarks.provenance import (
    installed,
    make_stamp,
    merge_stamps,
    provenance_lines,
    write_results,
)
from tuner.front.dominance import hypervolume
from tuner.measure.calibration import Calibration
from tuner.output import write_text
from tuner.profile.file import write_profile
from tuner.profile.variation import shrink
from tuner.resources import configs_dir
from tuner.runs import Run, load_run
from tuner.store import Store, store_path

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "runs" / "screening"
RESULTS: Final = ROOT / "benchmarks" / "results" / "screening.json"
HEAD: Final = {"schema": "malloc-tuner.benchmark.screening", "version": 2, "provenance": []}
WORKLOADS: Final = ("clang-compile", "python-threads")
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc")
OBJECTIVES: Final = ("peak_heap", "cost")
FIDELITY: Final = 0.25
KEEP: Final = 0.5
N_COSTS: Final = 7
"""Emulations timed; the median counts."""
MARKS: Final = (0.25, 0.5, 0.75, 1.0)
"""Shares of the budget at which campaigns are compared."""


def cost_ratio(whole: Path) -> float:
    """Return the processor time of evaluating the shrunk workload over that of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "shrunk.profile.json"
        write_profile(small, shrink(whole, FIDELITY))
        spent = [[emulation_seconds(path) for path in (whole, small)] for _ in range(N_COSTS)]
    full, low = np.median(np.array(spent), axis=0)
    return float(low / full)


def campaign_text(workload: Path, evaluations: int, seed: int, *, is_screened: bool) -> str:
    """Return the campaign file of one run."""
    lines = [
        f'name = "{workload.stem.partition(".")[0]}"',
        f"trace = {json.dumps(str(workload))}",
        f"allocators = {json.dumps(ALLOCATORS)}",
        f"objectives = {json.dumps(OBJECTIVES)}",
        f"evaluations = {evaluations}",
        f"seed = {seed}",
        "[recheck]",
        "share = 0.0",
        *(["[screening]", f"fidelity = {FIDELITY}", f"keep = {KEEP}"] if is_screened else []),
    ]
    return "\n".join(lines) + "\n"


def tune(workload: Path, evaluations: int, seed: int, *, is_screened: bool) -> Run:
    """Run one campaign, go on with it, or read it when it has all its trials."""
    arm = "screened" if is_screened else "plain"
    folder = workload.parent / f"{workload.name.partition('.')[0]}-{arm}-{seed}"
    if Store.exists(store_path(folder)) and len((run := load_run(folder)).trials) >= evaluations:
        return run
    file = folder.with_suffix(".toml")
    write_text(file, campaign_text(workload, evaluations, seed, is_screened=is_screened))
    print(f"{folder.name}: {evaluations} evaluations", file=sys.stderr, flush=True)
    words = ["tune", str(file), "-o", str(folder), "--quiet", "--force"]
    command = [sys.executable, "-m", "tuner.cli.main", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return load_run(folder)


def costs(run: Run, ratio: float) -> list[float]:
    """Return what was spent when each trial ended, in evaluations of the whole workload."""
    query = "SELECT ended_at, number FROM trial"
    if "screening" in run.campaign.workload:
        query += " UNION ALL SELECT ended_at, NULL FROM screening"
    connection = sqlite3.connect(f"file:{store_path(run.folder)}?mode=ro", uri=True)
    rows = connection.execute(query).fetchall()
    connection.close()
    spent, found = 0.0, {}
    for _, number in sorted(rows, key=lambda row: row[0]):
        spent += ratio if number is None else 1.0
        if number is not None:
            found[number] = spent
    return [found[trial.number] for trial in run.trials]


def points(run: Run, earlier: Sequence[Mapping[str, Any]]) -> list[list[float] | None]:
    """Return peak heap and cost of each trial, at the prices of the first campaign; None: failed.

    Prices are measured on the machine, and may have been measured anew between two campaigns.
    """
    record = earlier[0]["calibration"] if earlier else run.campaign.calibration
    prices = Calibration.from_record(record)
    found: list[list[float] | None] = []
    for trial in run.trials:
        one = trial.measurement if trial.is_feasible else None
        cost = one and prices.cost_of(one)
        found.append([one.value("peak_heap"), cost] if one and cost else None)
    return found


def measure(name: str, folder: Path, seeds: Sequence[int], evaluations: int) -> dict[str, Any]:
    """Return all trials of all campaigns on a workload."""
    workload = folder / f"{name}.profile.json.zst"
    if not workload.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shipped = next((configs_dir() / "workloads").glob(f"*/{workload.name}"))
        shutil.copyfile(shipped, workload)
    known = folder / f"{name}.ratio"
    ratio = float(known.read_text()) if known.exists() else cost_ratio(workload)
    write_text(known, f"{ratio}\n")
    campaigns: list[dict[str, Any]] = []
    for seed in seeds:
        for is_screened in (False, True):
            budget = round(evaluations / (1 + ratio / KEEP)) if is_screened else evaluations
            run = tune(workload, budget, seed, is_screened=is_screened)
            campaigns.append({
                "screened": "screening" in run.campaign.workload, "seed": seed,
                "calibration": dict(run.campaign.calibration), "cost": costs(run, ratio),
                "reference": run.campaign.reference, "points": points(run, campaigns),
            })  # fmt: skip
            if is_screened and not campaigns[-1]["screened"]:
                sys.exit(f"{name}: nothing was screened: {run.campaign.workload['notes']}")
    return {"evaluations": evaluations, "cost_ratio": ratio, "campaigns": campaigns}


def scores(found: Mapping[str, Any]) -> dict[bool, Any]:
    """Return shares of the union's hypervolume in percent, shape (n_seeds, n_marks), by arm."""
    campaigns = found["campaigns"]
    reference = campaigns[0]["reference"]

    def volume(points: list[Any]) -> float:
        good = [point for point in points if point is not None]
        return hypervolume(np.array(good, np.float64), reference) if good else 0.0

    best = volume([point for one in campaigns for point in one["points"]])
    rows: dict[bool, list[list[float]]] = {False: [], True: []}
    for one in campaigns:
        limits = [mark * found["evaluations"] for mark in MARKS]
        parts = [
            [p for p, spent in zip(one["points"], one["cost"], strict=True) if spent <= limit]
            for limit in limits
        ]
        rows[one["screened"]].append([100 * volume(part) / best for part in parts])
    return {arm: np.array(values) for arm, values in rows.items()}


def table(results: Mapping[str, Any]) -> list[str]:
    """Return a line for each workload, as Markdown."""
    rows = []
    for name, found in results["workloads"].items():
        by_arm = scores(found)
        gain = by_arm[True] - by_arm[False]
        trials = [len(one["points"]) for one in found["campaigns"] if one["screened"]]
        for at, mark in enumerate(MARKS):
            rows.append((
                name, f"{mark * found['evaluations']:.0f}",
                f"{np.median(by_arm[False][:, at]):.1f} %",
                f"{np.median(by_arm[True][:, at]):.1f} %",
                f"{np.median(gain[:, at]):+.1f}",
                f"{gain[:, at].min():+.1f} ... {gain[:, at].max():+.1f}",
                f"{(gain[:, at] > 0).sum()} of {len(gain)}",
                f"{found['cost_ratio']:.2f}", f"{np.median(trials):.0f}" if mark == 1 else "",
            ))  # fmt: skip
    titles = ("workload", "budget", "plain", "screened", "gain", "from ... to", "better",
              "cost of a screening", "trials when screened")  # fmt: skip
    return cells(titles, rows)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--evaluations", type=int, default=140, metavar="N")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory(prefix="screening-") as folder:
            found = measure("pigz-threads", Path(folder), [1], 12)
        print("\n".join(table({"workloads": {"pigz-threads": found}})))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"workloads": {}}
    results = {**HEAD, **results}
    if not options.only_prints and not options.write_docs:
        for name in options.names or WORKLOADS:
            seeds = range(1, options.seeds + 1)
            results["workloads"][name] = measure(name, RUNS, seeds, options.evaluations)
            stamp = make_stamp("screening", sys.argv, of=[name], allocators=installed(ALLOCATORS))
            results["provenance"] = merge_stamps(results["provenance"], stamp)
            write_results(RESULTS, results)
    lines = table(results)
    print("\n".join([*provenance_lines(results["provenance"]), *lines]))
    if options.write_docs:
        write_between(ROOT / "docs" / "how-to" / "profiles.md", "screening", lines)


if __name__ == "__main__":
    main()
