"""How well workload profiles stand for the traces of real programs, beside models that know less.

Each trace is fitted as `malloc-tuner fit` does it; beside the profile stand the naive models
of `naive_models`.  All are judged on one panel of configurations of all allocators (see
`tuner.fidelity`): the figures of every model are those of the same program on the same
configurations.  Instructions are not counted; memory is what models get wrong.

    benchmarks/fidelity.py                    the traces of configs/workloads and of runs/traces,
                                              where benchmarks/workload_profiles.py puts them
    benchmarks/fidelity.py --traces FOLDER    those of a folder too
    benchmarks/fidelity.py --only NAME,...    only these traces
    benchmarks/fidelity.py --seeds 5          workloads generated from a profile; 3 if not given
    benchmarks/fidelity.py --cost             only: what gem5 costs, and emulating it
    benchmarks/fidelity.py --print            print the last results
    benchmarks/fidelity.py --write-docs       write their tables into docs/profiles.md
    benchmarks/fidelity.py --smoke            a quick look that it still runs

Every model of a trace is written to benchmarks/results/fidelity.json when it was measured,
with all its samples; what is there already is not measured again, unless the trace changed.
Where a shipped profile stands for the trace, its verdict is written into it.

Targets, over the traces of real programs: error of the peak heap at most 1 % in the median and
5 % at p90; of the mean heap at most 1 % in the median; rank correlation within an allocator at
least 0.9 in 90 % of the cases that truly spread by more than 1 %; regret at most 2 %, or the
verdict sends campaigns to the trace.  Emulating gem5 once costs at most a hundredth of the
processor time that gem5 needed when its trace was recorded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import fidelity_tables, naive_models
from tuner.allocators import get_allocator
from tuner.fidelity import Panel, draw_panel, judge, judge_shrunk, measure_panel
from tuner.fidelity.panel import Located
from tuner.machine import read_machine
from tuner.measure.calibration import Calibration, load_calibration
from tuner.measure.emulator import EmulationOptions
from tuner.output import write_text
from tuner.records import Configuration, Measurement
from tuner.resources import configs_dir, native_file
from tuner.workload.fit import fit
from tuner.workload.info import describe
from tuner.workload.profile import read_profile, write_profile
from tuner.workload.trace import Trace
from tuner.workload.variation import shrink

ROOT: Final = Path(__file__).resolve().parent.parent
TRACES: Final = ROOT / "runs" / "traces"
RESULTS: Final = ROOT / "benchmarks" / "results" / "fidelity.json"
FITTED: Final = "windowed hybrid"
MODELS: Final = (FITTED, *naive_models.MODELS)
N_CONFIGURATIONS: Final = 25
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
"""Those that serve any program; exgen-st refuses threads."""
FIELDS: Final = ("peak_heap_bytes", "mean_heap_bytes", "faults")
SHRUNK: Final = 0.25
"""Share of a profile that campaigns may screen on; its ranking is part of the verdict."""
N_COSTS: Final = 5
"""Emulations timed; the median counts."""
TIMEOUT_S: Final = 600.0
"""Limit of one replay: the greatest trace, on a machine that is busy."""

Row = list[Measurement | None]


@dataclass(frozen=True)
class Setup:
    """What all traces are measured with."""

    located: Located
    prices: Calibration
    seeds: Sequence[int]
    """Of the workloads made from a profile; naive models get the first."""
    n_configurations: int

    def measure(self, workload: Path, panel: Sequence[Configuration], seed: int | None) -> Row:
        """Measure the panel on a trace, seed None, or on what a model made of it."""
        options = EmulationOptions(instrument="none", seed=seed or 1, timeout_s=TIMEOUT_S)
        return measure_panel(
            workload, panel, self.located, self.prices, options, reads_back=seed is None
        )


def digest(path: Path) -> str:
    """Return what tells one trace from another."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def samples(row: Row) -> dict[str, list[int | None]]:
    """Return the raw figures of one run of the panel, whole numbers."""
    return {
        field: [None if one is None else round(getattr(one, field)) for one in row]
        for field in FIELDS
    }


def make_workloads(trace: Path, model: str, seeds: Iterable[int], folder: Path) -> dict[int, Path]:
    """Return a workload for each seed: one profile for all, or a naive model's trace each."""
    if model == FITTED:
        path = folder / "model.profile.json"
        with Trace(trace) as opened:
            write_profile(path, fit(opened))
        return dict.fromkeys(seeds, path)
    paths = {seed: folder / f"{seed}.trace" for seed in seeds}
    for seed, path in paths.items():
        naive_models.write_naive(model, trace, path, seed)
    return paths


def judge_model(
    trace: Path, model: str, panel: Sequence[Configuration], truth: Row, setup: Setup
) -> dict[str, Any]:
    """Make, measure and judge one model of one trace."""
    seeds = setup.seeds if model == FITTED else setup.seeds[:1]
    with tempfile.TemporaryDirectory(prefix="fidelity-") as folder:
        paths = make_workloads(trace, model, seeds, Path(folder))
        measured = {seed: setup.measure(path, panel, seed) for seed, path in paths.items()}
        first = paths[min(paths)]
        with Trace(trace) as opened, Trace(first) as generated:
            verdict = judge(Panel(panel, truth, measured), describe(opened), describe(generated))
        if model == FITTED:
            small = Path(folder) / "shrunk.profile.json"
            write_profile(small, shrink(first, SHRUNK))
            row = setup.measure(small, panel, min(paths))
            verdict["shrunk"] = [judge_shrunk(panel, measured[min(paths)], row, SHRUNK)]
            write_verdict(trace, first, verdict, setup.located)
        sizes = {"bytes": first.stat().st_size, "kept_share": kept_share(first, model)}
    return {
        "model": model,
        **sizes,
        **{name: verdict[name] for name in fidelity_tables.DISTANCES},
        "seeds": {str(seed): samples(row) for seed, row in measured.items()},
    }


def kept_share(workload: Path, model: str) -> float:
    """Return the share of the lives that a profile keeps at their exact places."""
    if model != FITTED:
        return 0.0
    windows = read_profile(workload)["windows"]
    return float(sum(len(one["fixed"]) for one in windows) /
                 sum(one["allocations"] for one in windows))  # fmt: skip


def shipped_profile(trace: Path) -> Path | None:
    """Return the shipped profile of a trace, if there is one."""
    found = sorted((configs_dir() / "workloads").glob(f"*/{trace.stem}.profile.json"))
    return found[0] if found else None


def write_verdict(trace: Path, fitted: Path, verdict: dict[str, Any], located: Located) -> None:
    """Write the verdict, and the model it is about, into the shipped profile."""
    path = shipped_profile(trace)
    if path is None:
        return
    members = read_profile(fitted)
    members["metadata"] = read_profile(path)["metadata"]
    verdict["allocators"] = {name: found.version for name, (_, found) in located.items()}
    verdict["trace_events"] = members["source"]["events"]
    write_profile(path, {**members, "fidelity": verdict})


def measure_trace(
    trace: Path, results: dict[str, Any], setup: Setup, models: Sequence[str]
) -> None:
    """Measure what is missing of one trace, and keep every model when it is done."""
    name, marked = trace.stem, digest(trace)
    panel = draw_panel(trace, setup.located, setup.n_configurations)
    known = results["traces"].get(name)
    if known is None or known["digest"] != marked or known["panel"] != [str(c) for c in panel]:
        known = {"digest": marked, "panel": [str(c) for c in panel], "models": []}
    done = {row["model"] for row in known["models"]}
    missing = [model for model in models if model not in done]
    if not missing:
        return
    print(f"{name}: the trace", file=sys.stderr, flush=True)
    truth = setup.measure(trace, panel, None)
    with Trace(trace) as opened:
        known |= {
            "kind": "shipped" if is_shipped(trace) else "other",
            "allocators": [c.allocator for c in panel],
            "events": opened.totals.n_events,
            "threads": opened.totals.n_threads,
            "peak_live_bytes": opened.totals.peak_live_bytes,
            "bytes": trace.stat().st_size,
            "trace": samples(truth),
        }
    results["traces"][name] = known
    for model in missing:
        print(f"{name}: {model}", file=sys.stderr, flush=True)
        known["models"].append(judge_model(trace, model, panel, truth, setup))
        save(results)


def measure_cost(traces: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the processor time of each trace's program, and of emulating it once.

    Emulating is rand_malloc with all that it starts, under the allocator of the machine: for
    memory alone, and with the run that counts instructions.
    """
    rows = []
    for trace in traces:
        with Trace(trace) as opened:
            metadata = dict(opened.metadata)
        rows.append({
            "name": trace.stem, "program_s": metadata["cpu_s"],
            "recorded_events": metadata.get("thinned_from"),
            "emulation_s": {runs: emulation_seconds(trace, runs) for runs in ("memory", "both")},
        })  # fmt: skip
    return rows


def emulation_seconds(trace: Path, runs: str) -> list[float]:
    """Return the processor time of some emulations."""
    command = [str(native_file("rand_malloc")), "--runs", runs, str(trace)]
    spent = []
    for _ in range(N_COSTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent


def is_shipped(trace: Path) -> bool:
    """Tell whether the trace is of a program in configs/workloads."""
    return shipped_profile(trace) is not None or trace.is_relative_to(configs_dir())


def save(results: dict[str, Any]) -> None:
    """Write the results, a line for each model."""
    head = {name: value for name, value in results.items() if name != "traces"}
    traces = []
    for name, known in sorted(results["traces"].items()):
        rest = {key: value for key, value in known.items() if key != "models"}
        models = ",\n".join("   " + json.dumps(model) for model in known["models"])
        begin = json.dumps(rest)[:-1]
        traces.append(f'  {json.dumps(name)}: {begin}, "models": [\n{models}\n  ]}}')
    body = ",\n".join(traces)
    write_text(RESULTS, f'{json.dumps(head)[:-1]}, "traces": {{\n{body}\n}}}}\n')


def load(setup: Setup) -> dict[str, Any]:
    """Return the results so far, or empty ones."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"traces": {}}
    return {
        "machine": asdict(read_machine()),
        "allocators": {name: found.version for name, (_, found) in setup.located.items()},
        "cost": found.get("cost", []),
        "traces": found["traces"],
    }


def find_traces(folders: Sequence[Path], only: Sequence[str]) -> list[Path]:
    """Return the traces, the smallest first: most of them are done early."""
    found = {path.stem: path for path in (configs_dir() / "workloads").glob("*/*.trace")}
    for folder in (TRACES, *folders):
        found |= {path.stem: path for path in folder.rglob("*.trace")}
    unknown = sorted(set(only) - set(found))
    if unknown:
        sys.exit(f"no trace of {', '.join(unknown)}; benchmarks/workload_profiles.py records them")
    chosen = [path for name, path in found.items() if not only or name in only]
    return sorted(chosen, key=lambda path: path.stat().st_size)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--models", default=",".join(MODELS), metavar="NAME,...")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def _smoke(setup: Setup) -> None:
    trace = next((configs_dir() / "workloads").glob("ghostscript*/*.trace"))
    panel = draw_panel(trace, setup.located, setup.n_configurations)
    truth = setup.measure(trace, panel, None)
    known: dict[str, Any] = {
        "allocators": [c.allocator for c in panel], "kind": "shipped", "trace": samples(truth),
        "models": [judge_model(trace, "joint", panel, truth, setup)],
    }  # fmt: skip
    print("\n".join(fidelity_tables.table({"traces": {trace.stem: known}}, "joint")))


def main() -> None:
    """Run what the command line asks for."""
    options = _parse()
    if options.only_prints or options.write_docs:
        if not RESULTS.exists():
            sys.exit(f"{RESULTS}: no results yet; run benchmarks/fidelity.py first")
        results = json.loads(RESULTS.read_text())
    else:
        names = ("glibc",) if options.smoke else ALLOCATORS
        located = {name: (get_allocator(name), get_allocator(name).locate()) for name in names}
        n_configurations = 3 if options.smoke else N_CONFIGURATIONS
        setup = Setup(located, load_calibration(), range(1, options.seeds + 1), n_configurations)
        if options.smoke:
            _smoke(setup)
            return
        results = load(setup)
        if options.cost:
            gem5 = sorted((configs_dir() / "workloads").glob("gem5-*/gem5-*.trace"))
            results["cost"] = measure_cost(gem5)
            save(results)
            fidelity_tables.show_cost(results)
            return
        only = [name for name in options.only.split(",") if name]
        for trace in find_traces(options.traces, only):
            measure_trace(trace, results, setup, options.models.split(","))
    fidelity_tables.show(results, MODELS)
    if options.write_docs:
        fidelity_tables.write_docs(results, MODELS, ROOT / "docs" / "profiles.md")


if __name__ == "__main__":
    main()
