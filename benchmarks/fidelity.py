"""How well the profiles of configs/workloads stand for the traces of their programs.

Each trace is fitted as `malloc-tuner fit` does it, and both are emulated under one panel of
configurations of all allocators (see `tuner.fidelity`).  Instructions are not counted; memory is
what models get wrong.  benchmarks/workload_profiles.py records the traces into
``runs/traces``; a part is a trace.  Profile and verdict are written into the shipped profile, but
with --keep.

A case is one allocator on one trace; errors are pooled over all configurations of all traces.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.harness import (
    ALLOCATORS,
    Benchmark,
    Call,
    Target,
    installed,
    located,
    percent,
    table,
)
from benchmarks.results import Parts
from benchmarks.sources import EMULATOR, EXGEN
from benchmarks.workload_profiles import START, find_programs
from tuner.allocators import Located
from tuner.emulation import EmulationOptions
from tuner.fidelity import Panel, draw_panel, judge, judge_shrunk, measure_panel
from tuner.fidelity.verdict import judge_values
from tuner.measure.calibration import load_calibration
from tuner.profile.fidelity import Fidelity, MetricFidelity
from tuner.profile.file import read_profile, write_profile
from tuner.profile.fit import fit
from tuner.profile.trust import weaknesses
from tuner.profile.variation import shrink
from tuner.records import Configuration, Measurement
from tuner.trace.file import Trace
from tuner.trace.info import describe

N_CONFIGURATIONS: Final = 25
SHRUNK: Final = 0.25
"""Share of a profile that campaigns may screen on; its ranking is part of the verdict."""
TIMEOUT_S: Final = 600.0
"""Limit of one replay: the greatest trace, on a machine that is busy."""

MEMORY: Final = {"peak": "peak_heap", "mean": "mean_heap"}
METRICS: Final = {"peak": "peak_heap_bytes", "mean": "mean_heap_bytes", "faults": "faults"}
"""Name -> field of the results; a measurement has it without its unit."""
GOOD_TAU: Final = 0.9
LEAST_GOOD: Final = 0.9
MOST_REGRET: Final = 0.02
LEAST_SPREAD: Final = 0.01
"""An allocator whose configurations spread less than this gives nothing to rank."""
_FITTED: Final = "fitted.profile.json"

Floats = npt.NDArray[np.float64]
Row = Sequence[Measurement | None]


# Measuring


def measure(call: Call) -> None:
    """Measure and judge the profile of every trace that is here, the smallest first.

    One that is not here is named: its profile keeps the figures of an earlier call, or has none.
    """
    programs = {name: program.trace for name, program in find_programs().items()}
    if call.is_smoke:
        programs = {START.parent.name: START}
    sizes = {name: trace.stat().st_size for name, trace in programs.items() if trace.exists()}
    everywhere = located(ALLOCATORS[:1] if call.is_smoke else ALLOCATORS)
    names = sorted(programs, key=lambda name: sizes.get(name, 0))
    for name in call.choose(names, names):
        if name not in sizes:
            call.leave_out(name, f"no trace; benchmarks/workload_profiles.py {name} records it")
            continue
        print(name, file=sys.stderr, flush=True)
        found, verdict = _measure(call, programs[name], everywhere)
        if not call.is_smoke and call.options.keep is None:
            _write_verdict(programs[name], call.scratch / _FITTED, verdict, everywhere)
        call.keep(name, found, allocators=installed(everywhere), rounds=call.rounds)


def _measure(call: Call, trace: Path, everywhere: Located) -> tuple[dict[str, Any], Fidelity]:
    """Fit, measure and judge the profile of one trace, with as many seeds as there are rounds."""
    panel = draw_panel(trace, everywhere, 3 if call.is_smoke else N_CONFIGURATIONS)
    fitted, small = call.scratch / _FITTED, call.scratch / "shrunk.profile.json"
    with Trace(trace) as opened:
        write_profile(fitted, fit(opened))
    with Trace(trace) as opened:
        info, totals = describe(opened), opened.totals
    write_profile(small, shrink(fitted, SHRUNK))
    truth = _run(trace, panel, everywhere, None)
    rows = {seed: _run(fitted, panel, everywhere, seed) for seed in range(1, call.rounds + 1)}
    with Trace(fitted, 1) as opened:
        verdict = judge(Panel(panel, truth, rows), info, describe(opened))
    shrunk = judge_shrunk(panel, rows[1], _run(small, panel, everywhere, 1), SHRUNK)
    windows = read_profile(fitted)["windows"]
    found = {
        "allocators": [configuration.allocator for configuration in panel],
        "events": totals.n_events,
        "threads": totals.n_threads,
        "bytes": fitted.stat().st_size,
        "kept_share": sum(len(w["fixed"]) for w in windows)
        / sum(w["allocations"] for w in windows),
        "live_curve_distance": verdict.live_curve_distance,
        "fragmentation_curve_distance": verdict.fragmentation_curve_distance,
        "trace": _samples(truth),
        "seeds": [_samples(row) for row in rows.values()],
    }
    return found, replace(verdict, shrunk=(shrunk,))


def _run(
    workload: Path, panel: Sequence[Configuration], everywhere: Located, seed: int | None
) -> Row:
    """Return the figures of a panel on a trace, seed None, or on what a profile makes of a seed."""
    options = EmulationOptions(instrument="none", seed=seed or 1, timeout_s=TIMEOUT_S)
    prices = load_calibration()
    return measure_panel(workload, panel, everywhere, prices, options, reads_back=seed is None)


def _samples(row: Row) -> dict[str, list[int | None]]:
    """Return the raw figures of one run of the panel, whole numbers."""
    return {
        field: [
            None if one is None else round(one.value(field.removesuffix("_bytes"))) for one in row
        ]
        for field in METRICS.values()
    }


def _write_verdict(trace: Path, fitted: Path, verdict: Fidelity, everywhere: Located) -> None:
    """Write the verdict, and the model it is about, into the shipped profile."""
    path = find_programs()[trace.stem].profile
    members = read_profile(fitted)
    if path.exists():
        members["metadata"] = read_profile(path)["metadata"]
    verdict = replace(
        verdict,
        allocators={name: found.version for name, (_, found) in everywhere.items()},
        trace_events=members["source"]["events"],
    )
    write_profile(path, {**members, "fidelity": verdict.as_json()})


# Judging


@dataclass(frozen=True)
class Judged:
    """The profile of one trace."""

    name: str
    known: Mapping[str, Any]
    """Its part of the results."""
    figures: Mapping[str, MetricFidelity]
    """Of each metric."""
    errors: Mapping[str, Floats]
    """Signed relative errors of each metric; shape (n_configurations,)."""

    def regrets(self) -> dict[str, float]:
        """Return what the profile's pick loses, of every allocator and metric of memory."""
        return {
            f"{self.name} ({name}, {metric})": family.regret
            for metric in MEMORY
            for name, family in self.figures[metric].families.items()
        }

    def taus(self) -> dict[str, float]:
        """Return the rank correlation of every case that is spread enough to rank."""
        return {
            f"{self.name}/{name}": family.tau_differing
            for name, family in self.figures["peak"].families.items()
            if family.tau_differing is not None and (family.true_spread or 0.0) > LEAST_SPREAD
        }

    @property
    def is_guarded(self) -> bool:
        """True when campaigns with all its allocators fall back to the trace."""
        metrics = {name: self.figures[metric] for metric, name in MEMORY.items()}
        allocators = list(self.figures["peak"].families)
        return any(weaknesses(Fidelity(metrics=metrics), allocators, list(metrics)))


def judged(parts: Parts) -> list[Judged]:
    """Return every profile that ships with its errors, the greatest first."""
    found = [_judge(name, parts[name]) for name in find_programs() if name in parts]
    return sorted(found, key=lambda one: -(one.figures["peak"].worst_error or 0.0))


def _judge(name: str, known: Mapping[str, Any]) -> Judged:
    runs = [known["trace"], *known["seeds"]]
    every = range(len(known["allocators"]))
    good = [
        i for i in every if all(run[f][i] is not None for run in runs for f in METRICS.values())
    ]
    families: dict[str, list[int]] = {}
    for place, index in enumerate(good):
        families.setdefault(known["allocators"][index], []).append(place)
    figures, errors = {}, {}
    for metric, field in METRICS.items():
        values = np.array([[run[field][i] for i in good] for run in runs], np.float64)
        figures[metric] = judge_values(values[0], values[1:], families)
        errors[metric] = np.median(values[1:], axis=0) / values[0] - 1
    return Judged(name, known, figures, errors)


def lines(parts: Parts) -> Iterator[str]:
    """Yield a row for each trace, the greatest error first."""
    titles = ("trace", "events", "threads", "size", "kept", "peak: median", "p90", "worst",
              "mean: median", "p90", "least tau", "worst regret", "live curve",
              "fragmentation")  # fmt: skip
    rows = []
    for one in judged(parts):
        known, peak, mean = one.known, one.figures["peak"], one.figures["mean"]
        errors = (peak.median_error, peak.p90_error, peak.worst_error,
                  mean.median_error, mean.p90_error)  # fmt: skip
        taus = one.taus().values()
        rows.append([
            one.name, f"{known['events']:,}", str(known["threads"]),
            f"{known['bytes'] / 1024:,.0f} KiB", percent(known["kept_share"], 0),
            *(percent(error or 0.0, 2) for error in errors), f"{min(taus):.2f}" if taus else "-",
            *(percent(value, 2) for value in (max(one.regrets().values()),
              known["live_curve_distance"], known["fragmentation_curve_distance"])),
        ])  # fmt: skip
    yield from table(titles, rows)
    yield ""
    weak = [f"{case} {tau:.2f}" for one in judged(parts) for case, tau in one.taus().items()
            if tau < GOOD_TAU]  # fmt: skip
    yield f"tau below {GOOD_TAU}: {', '.join(weak) or 'none'}"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield errors, ranks, and regrets that no campaign is guarded against."""
    found = judged(parts)
    peak, mean = (np.abs(np.concatenate([one.errors[m] for one in found])) for m in MEMORY)
    yield Target("peak heap, median error", float(np.median(peak)), 0.01, form=".2%")
    yield Target("peak heap, error at p90", float(np.percentile(peak, 90)), 0.05, form=".2%")
    yield Target("mean heap, median error", float(np.median(mean)), 0.01, form=".2%")
    taus = [tau for one in found for tau in one.taus().values()]
    good = sum(tau >= GOOD_TAU for tau in taus) / max(1, len(taus))
    what = f"tau at least {GOOD_TAU}, of {len(taus)} cases"
    yield Target(what, good, LEAST_GOOD, at_least=True, form=".1%")
    lossy = {w: r for one in found for w, r in one.regrets().items() if r > MOST_REGRET}
    unguarded = [w for one in found if not one.is_guarded for w in one.regrets() if w in lossy]
    note = ", ".join(f"{what} {percent(regret)}" for what, regret in lossy.items())
    what = f"regrets above {MOST_REGRET:.0%} that the verdict lets pass"
    yield Target(what, len(unguarded), 0, note=note, form=".0f")


BENCHMARK: Final = Benchmark(
    name="fidelity",
    about=__doc__,
    claim="[Profiles](how-to/profiles.md#how-far-to-trust-one) stand for the traces of the "
    "programs of `configs/workloads`.",
    depends_on=(
        *EXGEN,
        *EMULATOR,
        "tuner/fidelity",
        "tuner/trace/lives.py",
        *(
            f"tuner/profile/{name}.py"
            for name in ("fit", "model", "plateaus", "scaling", "variation", "windows")
        ),
    ),
    measure=measure,
    needs=list(find_programs()),
    lines=lines,
    targets=targets,
    rounds=3,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
