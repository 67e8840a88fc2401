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
    benchmarks/fidelity.py --prepare --allocators glibc,jemalloc
                                              measure these for a later run of all
    benchmarks/fidelity.py --cost             only: what gem5 costs, and emulating it
    benchmarks/fidelity.py --print            print the last results
    benchmarks/fidelity.py --write-docs       write their tables into docs/how-to/profiles.md
    benchmarks/fidelity.py --smoke            a quick look that it still runs

Every model of a trace is written to benchmarks/results/fidelity.json when it was measured,
with all its samples; where a shipped profile stands for the trace, profile and verdict are
written into it.  Measurements are kept in runs/fidelity: after a change of one allocator, or of
one model, only what depends on it is measured again.

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
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from benchmarks import fidelity_tables, naive_models
from benchmarks.fidelity_traces import find_traces, is_shipped, shipped_profile
from benchmarks.measured import Measured, Row, emulation_seconds
from benchmarks.provenance import (
    MODEL_SOURCES,
    installed,
    make_stamp,
    merge_stamps,
    provenance_lines,
    write_results,
)
from tuner.allocators import get_allocator
from tuner.fidelity import Panel, draw_panel, judge, judge_shrunk
from tuner.fidelity.panel import Located
from tuner.measure.calibration import load_calibration
from tuner.profile.file import read_profile, write_profile
from tuner.profile.fit import fit
from tuner.profile.variation import shrink
from tuner.provenance import digest
from tuner.records import Configuration
from tuner.resources import configs_dir
from tuner.trace.file import Trace
from tuner.trace.info import TraceInfo, describe

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "fidelity.json"
SCHEMA: Final = "malloc-tuner.benchmark.fidelity"
FITTED: Final = "windowed hybrid"
MODELS: Final = (FITTED, *naive_models.MODELS)
N_CONFIGURATIONS: Final = 25
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
"""Those that serve any program; exgen-st refuses threads."""
NAIVE_ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc")
"""Naive models are measured on those that do not change with this repository."""
N_NAIVE: Final = 3
"""Configurations of each of them, its default included."""
FIELDS: Final = ("peak_heap_bytes", "mean_heap_bytes", "faults")
SHRUNK: Final = 0.25
"""Share of a profile that campaigns may screen on; its ranking is part of the verdict."""
N_COSTS: Final = 5
"""Emulations timed; the median counts."""
TIMEOUT_S: Final = 600.0
"""Limit of one replay: the greatest trace, on a machine that is busy."""
KEPT: Final = ROOT / "runs" / "fidelity"
"""What was measured, and the workloads that the models made."""
CODE: Final = digest(*(ROOT / source for source in MODEL_SOURCES), Path(naive_models.__file__))
"""Of what makes workloads of traces."""


@dataclass(frozen=True)
class Setup:
    """What all traces are measured with."""

    measured: Measured
    seeds: Sequence[int]
    """Of the workloads made from a profile; naive models get the first."""
    n_configurations: int
    """Drawn for all allocators that are located."""
    allocators: Sequence[str]
    """Those that are measured."""

    def panel(self, trace: Path) -> list[Configuration]:
        """Return what a trace and all its models are measured with."""
        drawn = draw_panel(trace, self.measured.located, self.n_configurations)
        return [c for c in drawn if c.allocator in self.allocators]

    def identity(self, panel: Sequence[Configuration]) -> str:
        """Return what figures hang on beside the trace: panel, libraries, seeds, models."""
        names = [self.measured.identity(name) for name in self.measured.located]
        told = [*names, *(c.key for c in panel), str(list(self.seeds)), CODE]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def samples(row: Row) -> dict[str, list[int | None]]:
    """Return the raw figures of one run of the panel, whole numbers."""
    return {
        field: [None if one is None else round(getattr(one, field)) for one in row]
        for field in FIELDS
    }


def make_workload(trace: Path, model: str, seed: int, folder: Path) -> Path:
    """Return what a model makes of a trace: a profile, which serves any seed, or a trace."""
    name = f"{trace.stem}-{digest(trace)}-{CODE}-{model}"
    if model != FITTED:
        path = folder / f"{name}-{seed}.trace"
        if not path.exists():
            naive_models.write_naive(model, trace, path, seed)
        return path
    path = folder / f"{name}.profile.json"
    if not path.exists():
        with Trace(trace) as opened:
            write_profile(path, fit(opened))
    return path


def make_shrunk(profile: Path) -> Path:
    """Return a shrunk profile beside a profile."""
    path = profile.with_name(f"shrunk-{profile.name}")
    if not path.exists():
        write_profile(path, shrink(profile, SHRUNK))
    return path


@dataclass(frozen=True)
class Modelled:
    """One model of one trace, measured."""

    workload: Path
    rows: dict[int, Row]
    """By seed."""
    shrunk: Row | None
    """Of a shrunk profile, with the first seed."""


def measure_model(
    trace: Path, model: str, panel: Sequence[Configuration], setup: Setup
) -> Modelled:
    """Make and measure one model of one trace."""
    folder = setup.measured.folder / "workloads"
    folder.mkdir(parents=True, exist_ok=True)
    measure, first = setup.measured.measure, setup.seeds[0]
    workload = make_workload(trace, model, first, folder)
    if model == FITTED:
        rows = {seed: measure(workload, panel, seed) for seed in setup.seeds}
        return Modelled(workload, rows, measure(make_shrunk(workload), panel, first))
    chosen = naive_panel(panel)
    row: Row = [None] * len(panel)
    found = measure(workload, [panel[index] for index in chosen], first)
    for index, one in zip(chosen, found, strict=True):
        row[index] = one
    return Modelled(workload, {first: row}, None)


def naive_panel(panel: Sequence[Configuration]) -> list[int]:
    """Return which configurations naive models are measured with: a few of each allocator."""
    found: list[int] = []
    for name in NAIVE_ALLOCATORS:
        found += [index for index, c in enumerate(panel) if c.allocator == name][:N_NAIVE]
    return found


def judge_model(
    trace: Path, model: str, panel: Sequence[Configuration], truth: Row, setup: Setup
) -> dict[str, Any]:
    """Make, measure and judge one model of one trace."""
    made = measure_model(trace, model, panel, setup)
    first = setup.seeds[0]
    infos = described(trace, first), described(made.workload, first)
    verdict = judge(Panel(panel, truth, made.rows), *infos)
    if made.shrunk is not None:
        verdict["shrunk"] = [judge_shrunk(panel, made.rows[first], made.shrunk, SHRUNK)]
        write_verdict(trace, made.workload, verdict, setup.measured.located)
    return {
        "model": model,
        "bytes": made.workload.stat().st_size,
        "kept_share": kept_share(made.workload, model),
        **{name: verdict[name] for name in fidelity_tables.DISTANCES},
        "seeds": {str(seed): samples(row) for seed, row in made.rows.items()},
    }


@lru_cache(maxsize=2)
def described(workload: Path, seed: int) -> TraceInfo:
    """Return what is in a trace, or in what a profile makes of a seed."""
    with Trace(workload, seed) as opened:
        return describe(opened)


def kept_share(workload: Path, model: str) -> float:
    """Return the share of the lives that a profile keeps at their exact places."""
    if model != FITTED:
        return 0.0
    windows = read_profile(workload)["windows"]
    return float(sum(len(one["fixed"]) for one in windows) /
                 sum(one["allocations"] for one in windows))  # fmt: skip


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


def measure_trace(trace: Path, results: dict[str, Any], setup: Setup, model: str) -> None:
    """Measure what is missing of one model of one trace, and keep it."""
    panel = setup.panel(trace)
    identity = f"{digest(trace)} {setup.identity(panel)}"
    known = results["traces"].get(trace.stem, {})
    if known.get("identity") != identity:
        print(f"{trace.stem}: the trace", file=sys.stderr, flush=True)
        known = describe_trace(trace, panel, identity, setup)
        results["traces"][trace.stem] = known
    if model in {row["model"] for row in known["models"]}:
        return
    print(f"{trace.stem}: {model}", file=sys.stderr, flush=True)
    truth = setup.measured.measure(trace, panel, None)
    known["models"].append(judge_model(trace, model, panel, truth, setup))
    save(results, trace.stem, setup.measured.located)


def describe_trace(
    trace: Path, panel: Sequence[Configuration], identity: str, setup: Setup
) -> dict[str, Any]:
    """Return a trace's entry in the results, without a model."""
    truth = setup.measured.measure(trace, panel, None)
    with Trace(trace) as opened:
        return {
            "identity": identity,
            "kind": "shipped" if is_shipped(trace) else "other",
            "panel": [str(c) for c in panel],
            "allocators": [c.allocator for c in panel],
            "events": opened.totals.n_events,
            "threads": opened.totals.n_threads,
            "peak_live_bytes": opened.totals.peak_live_bytes,
            "bytes": trace.stat().st_size,
            "trace": samples(truth),
            "models": [],
        }


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
            "emulation_s": {
                runs: [emulation_seconds(trace, "--runs", runs) for _ in range(N_COSTS)]
                for runs in ("memory", "both")
            },
        })  # fmt: skip
    return rows


def save(results: dict[str, Any], part: str, allocators: Iterable[str]) -> None:
    """Write the results, of which a part was measured anew."""
    stamp = make_stamp("fidelity", sys.argv, of=[part], allocators=installed(allocators))
    results["provenance"] = merge_stamps(results["provenance"], stamp)
    write_results(RESULTS, {**results, "traces": dict(sorted(results["traces"].items()))})


def load() -> dict[str, Any]:
    """Return the results so far, or empty ones."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {"schema": SCHEMA, "version": 2, "provenance": [], "cost": [], "traces": {}, **found}


def in_order(traces: Sequence[Path], models: Sequence[str]) -> list[tuple[Path, str]]:
    """Return what to measure: the profiles of all traces, then all naive models of each."""
    naive = [model for model in models if model != FITTED]
    return [
        *((trace, FITTED) for trace in traces if FITTED in models),
        *((trace, model) for trace in traces for model in naive),
    ]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--models", default=",".join(MODELS), metavar="NAME,...")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), metavar="NAME,...")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def _smoke(setup: Setup) -> None:
    trace = next((configs_dir() / "workloads").glob("ghostscript*/*.trace"))
    panel = setup.panel(trace)
    known = describe_trace(trace, panel, "", setup)
    truth = setup.measured.measure(trace, panel, None)
    known["models"].append(judge_model(trace, "joint", panel, truth, setup))
    print("\n".join(fidelity_tables.table({"traces": {trace.stem: known}}, "joint")))


def _setup(options: argparse.Namespace, folder: Path) -> Setup:
    names = ("glibc",) if options.smoke else ALLOCATORS
    located = {name: (get_allocator(name), get_allocator(name).locate()) for name in names}
    measured = Measured(folder, located, load_calibration(), TIMEOUT_S)
    n_configurations = 3 if options.smoke else N_CONFIGURATIONS
    chosen = options.allocators.split(",")
    return Setup(measured, range(1, options.seeds + 1), n_configurations, chosen)


def _prepare(trace: Path, model: str, setup: Setup) -> None:
    """Measure one model of one trace, for a later run."""
    print(f"{trace.stem}: {model}", file=sys.stderr, flush=True)
    panel = setup.panel(trace)
    setup.measured.measure(trace, panel, None)
    measure_model(trace, model, panel, setup)


def main() -> None:
    """Run what the command line asks for."""
    options = _parse()
    if options.smoke:
        with tempfile.TemporaryDirectory(prefix="fidelity-") as folder:
            _smoke(_setup(options, Path(folder)))
        return
    if options.only_prints or options.write_docs:
        if not RESULTS.exists():
            sys.exit(f"{RESULTS}: no results yet; run benchmarks/fidelity.py first")
        results = json.loads(RESULTS.read_text())
    else:
        setup = _setup(options, KEPT)
        results = load()
        if options.cost:
            gem5 = sorted((configs_dir() / "workloads").glob("gem5-suite/traces/*.trace"))
            results["cost"] = measure_cost(gem5)
            save(results, "cost", [])
            fidelity_tables.show_cost(results)
            return
        traces = find_traces(options.traces, [n for n in options.only.split(",") if n])
        for trace, model in in_order(traces, options.models.split(",")):
            if options.prepare:
                _prepare(trace, model, setup)
            else:
                measure_trace(trace, results, setup, model)
        if options.prepare:
            return
    print("\n".join(provenance_lines(results["provenance"])))
    fidelity_tables.show(results, MODELS)
    if options.write_docs:
        fidelity_tables.write_docs(results, MODELS, ROOT / "docs" / "how-to" / "profiles.md")


if __name__ == "__main__":
    main()
