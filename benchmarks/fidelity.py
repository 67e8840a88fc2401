"""How well workload profiles stand for the shipped traces, beside models that know less.

Each trace of ``configs/workloads`` is fitted twice: as `malloc-tuner fit` does, and with
nothing fixed and windows only where threads, bursts and pauses ask for them.  Beside them
stand the naive models of `naive_models`.  All are judged on one panel of configurations of
all allocators (see `tuner.fidelity`), without counting instructions unless asked.

    benchmarks/fidelity.py                  measure, print, write benchmarks/results
    benchmarks/fidelity.py --instructions   count instructions too; takes several times as long
    benchmarks/fidelity.py --seeds 5        workloads generated from each profile; 3 if not given
    benchmarks/fidelity.py --print          print the last results
    benchmarks/fidelity.py --smoke          a quick look that it still runs
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import naive_models
from tuner.allocators import get_allocator
from tuner.fidelity import Panel, draw_panel, judge, measure_panel
from tuner.machine import read_machine
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import EmulationOptions
from tuner.output import write_text
from tuner.records import Measurement
from tuner.resources import configs_dir
from tuner.workload.fit import FitOptions, fit
from tuner.workload.info import describe
from tuner.workload.profile import write_profile
from tuner.workload.trace import Trace

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "fidelity.json"
FITTED: Final = {
    "windowed hybrid": FitOptions(),
    "no windows, nothing fixed": FitOptions(even_windows=1, most_windows=1, most_fixed=0),
}
MODELS: Final = (*FITTED, *naive_models.MODELS)
N_CONFIGURATIONS: Final = 30
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
"""Those that serve any program; exgen-st refuses threads."""


def make_workloads(trace: Path, model: str, seeds: Iterable[int], folder: Path) -> dict[int, Path]:
    """Return a workload for each seed: one profile for all, or a naive model's trace each."""
    if model in FITTED:
        path = folder / "model.profile.json"
        with Trace(trace) as opened:
            write_profile(path, fit(opened, FITTED[model]))
        return dict.fromkeys(seeds, path)
    paths = {seed: folder / f"{seed}.trace" for seed in seeds}
    for seed, path in paths.items():
        naive_models.write_naive(model, trace, path, seed)
    return paths


def judge_model(
    trace: Path, model: str, setup: tuple[Any, ...], truth: list[Measurement | None]
) -> dict[str, Any]:
    """Make, measure and judge one model of one trace."""
    panel, located, prices, instrument, seeds = setup
    with tempfile.TemporaryDirectory() as folder:
        paths = make_workloads(trace, model, seeds, Path(folder))
        measured = {
            seed: measure_panel(
                path, panel, located, prices, EmulationOptions(instrument=instrument, seed=seed)
            )
            for seed, path in paths.items()
        }
        first = paths[min(paths)]
        with Trace(trace) as opened, Trace(first) as generated:
            verdict = judge(Panel(panel, truth, measured), describe(opened), describe(generated))
        sizes = {"profile_bytes": first.stat().st_size, "trace_bytes": trace.stat().st_size}
    peaks = peak_errors(truth, measured)
    return {**sizes, "peak_errors": peaks, "verdict": verdict}


def peak_errors(
    truth: list[Measurement | None], measured: dict[int, list[Measurement | None]]
) -> list[float]:
    """Return the absolute relative error of each configuration's peak heap."""
    errors = []
    for index, true in enumerate(truth):
        models = [row[index] for row in measured.values()]
        peaks = [model.peak_heap_bytes for model in models if model is not None]
        if true is not None and len(peaks) == len(models):
            errors.append(abs(float(np.median(peaks)) / true.peak_heap_bytes - 1))
    return errors


def measure(*, instrument: str, n_seeds: int, is_smoke: bool) -> dict[str, Any]:
    """Judge every model on every trace."""
    traces = sorted((configs_dir() / "workloads").glob("*/*.trace"))
    adapters = map(get_allocator, ALLOCATORS)
    located = {adapter.name: (adapter, adapter.locate()) for adapter in adapters}
    if is_smoke:
        traces = [trace for trace in traces if trace.stem.startswith("ghostscript")]
        located = {"glibc": located["glibc"]}
    prices = load_calibration()
    rows = []
    for trace in traces:
        panel = draw_panel(trace, located, 3 if is_smoke else N_CONFIGURATIONS)
        emulation = EmulationOptions(instrument=instrument)
        truth = measure_panel(trace, panel, located, prices, emulation)
        setup = (panel, located, prices, instrument, range(1, n_seeds + 1))
        for name in MODELS:
            print(f"{trace.stem}: {name}", file=sys.stderr)
            options = asdict(FITTED[name]) if name in FITTED else None
            found = judge_model(trace, name, setup, truth)
            rows.append({"workload": trace.stem, "model": name, "fit": options, **found})
    return {
        "seeds": n_seeds,
        "machine": asdict(read_machine()),
        "allocators": {name: found.version for name, (_, found) in located.items()},
        "rows": rows,
    }


def show(results: dict[str, Any]) -> None:
    """Print one line for each model and workload, and the pooled errors."""
    print(f"{results['seeds']} seeds")
    head = ("peak med", "p90", "worst", "mean med", "p90", "faults med", "seeds", "regret", "tau")
    print(f"{'workload':<18} {'model':<26}" + "".join(f"{name:>11}" for name in head))
    for row in results["rows"]:
        metrics = row["verdict"]["metrics"]
        peak, mean, faults = (metrics[name] for name in ("peak_heap", "mean_heap", "faults"))
        shares = (
            peak["median_error"], peak["p90_error"], peak["worst_error"], mean["median_error"],
            mean["p90_error"], faults["median_error"], peak["seed_spread"],
            max(family["regret"] for family in peak["families"].values()),
        )  # fmt: skip
        tau = peak["tau"]
        cells = [f"{100 * share:>9.2f} %" for share in shares]
        cells.append(f"{tau:>11.2f}" if tau is not None else f"{'-':>11}")
        print(f"{row['workload']:<18} {row['model']:<26}" + "".join(cells))
    for name in MODELS:
        rows = [row for row in results["rows"] if row["model"] == name]
        if not rows:
            continue
        errors = [error for row in rows for error in row["peak_errors"]]
        taus = [
            family["tau_differing"]
            for row in rows
            for family in row["verdict"]["metrics"]["peak_heap"]["families"].values()
            if family["tau_differing"] is not None and family["true_spread"] > 0.01
        ]
        good = sum(tau >= 0.9 for tau in taus)
        print(
            f"{name}: peak heap off by {100 * np.median(errors):.2f} % in the median, "
            f"{100 * np.percentile(errors, 90):.2f} % at p90; tau over differing pairs at least "
            f"0.9 in {good} of {len(taus)} families"
        )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instructions", action="store_true", help="count instructions too")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.only_prints and not RESULTS.exists():
        sys.exit(f"{RESULTS}: no results yet; run benchmarks/fidelity.py first")
    if options.only_prints:
        show(json.loads(RESULTS.read_text()))
        return
    instrument = "auto" if options.instructions else "none"
    n_seeds = 1 if options.smoke else options.seeds
    results = measure(instrument=instrument, n_seeds=n_seeds, is_smoke=options.smoke)
    if not options.smoke:
        write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    show(results)


if __name__ == "__main__":
    main()
