"""Whether emulation ranks settings as services do: memory under load, and when idle.

Each service of `configs/services` is recorded under the load of its file.  Settings drawn from the
search space of every allocator are emulated on its roles that matter, and run on the service
itself, in interleaved rounds.  Kendall's tau-b is between the emulated mean heap and real memory
under load, and between the emulated heap at the end and real idle memory, over the settings of one
allocator on one service; an allocator whose settings differ by less than 2 % on a service gives
nothing to rank.

Target: tau of at least 0.8 in the median over services and allocators, under load and when idle.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Final

from benchmarks.harness import ALLOCATORS, Benchmark, Call, Target, located, table
from benchmarks.results import Parts
from benchmarks.rounds import Figures, column, run_rounds, runner_of
from benchmarks.services import SERVICES, file_of, of_seconds, short_load
from benchmarks.sources import EXGEN
from tuner.allocators import Located
from tuner.cli.services import service_of_file
from tuner.emulation import EmulationOptions
from tuner.errors import MissingToolError, SpecError
from tuner.fidelity import draw_panel, measure_panel
from tuner.measure.calibration import load_calibration
from tuner.optimize.kinds.service import Service
from tuner.optimize.quantities import SERVICE_NAMES, TABLE
from tuner.optimize.tuned import label_of
from tuner.records import Configuration, Measurement
from tuner.service.plan import ServicePlan
from tuner.service.recording import record_service
from tuner.service.roles import roles_that_matter
from tuner.stats import kendall_tau

REAL: Final = {"under load": SERVICE_NAMES["mean"], "idle": SERVICE_NAMES["floor"]}
"""Phase -> quantity of the service, which `TABLE` has a metric of emulation for."""

_TIMEOUT_S: Final = 600.0
_LEAST_SPREAD: Final = 0.02
_FEWEST: Final = 3
"""Settings of an allocator, for a tau."""

_LEAST_TAU: Final = 0.8


def measure(call: Call) -> None:
    """Measure one service after the other."""
    everywhere = located(("glibc", "jemalloc") if call.is_smoke else ALLOCATORS)
    for name in call.choose(SERVICES, ["redis"]):
        # Without warm-ups, as services are recorded.
        plan = service_of_file(file_of(name)[0])
        load = of_seconds(plan.load, call.options.window)
        plan = replace(plan, load=load, idle_s=float(call.options.idle), warm_ups=0)
        if call.is_smoke:
            plan = replace(plan, load=short_load(plan.load), idle_s=0.2)
        try:
            call.keep(name, _measure(call, name, plan, everywhere), rounds=call.rounds)
        except (MissingToolError, SpecError) as error:  # such as a service that needs root
            call.leave_out(name, error)


def _measure(call: Call, name: str, plan: ServicePlan, everywhere: Located) -> Mapping[str, object]:
    traces = _traces(call, name, plan)
    n_each = 2 if call.is_smoke else int(call.options.settings)
    service = Service(plan, os.environ, everywhere)
    drawn = draw_panel(traces[0], everywhere, n_each * len(everywhere))
    panel = {label_of(one): one for one in drawn if service.refusal(one) is None}
    emulated = _emulated(traces, list(panel.values()), everywhere)
    rows = run_rounds(
        call, name, [name], list(panel), _runner(service, panel),
        same=[plan.load, plan.idle_s], shown=SERVICE_NAMES["mean"],
    )  # fmt: skip
    return {
        "allocators": {label: one.allocator for label, one in panel.items()},
        "emulated": {
            phase: dict(zip(panel, found, strict=True)) for phase, found in emulated.items()
        },
        "rows": rows,
    }


def _traces(call: Call, name: str, plan: ServicePlan) -> list[Path]:
    """Return a trace of each role that matters; what was recorded earlier is taken again."""
    folder = call.run_folder(name, f"{name}-traces")
    kept = sorted(folder.glob("role-*.trace"))
    if kept:
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    found = record_service(plan, os.environ, folder / "processes")
    for number, role in enumerate(roles_that_matter(found)):
        role.busiest.path.rename(folder / f"role-{number}.trace")
    return sorted(folder.glob("role-*.trace"))


def _emulated(
    traces: Sequence[Path], panel: Sequence[Configuration], everywhere: Located
) -> dict[str, list[float | None]]:
    """Return by phase the geometric mean over the traces of what every setting needs.

    None: an emulation failed.
    """
    options = EmulationOptions(instrument="none", timeout_s=_TIMEOUT_S)
    prices = load_calibration()
    by_trace = [measure_panel(one, panel, everywhere, prices, options) for one in traces]
    return {
        phase: [
            _over_traces(each, str(TABLE[name].emulated)) for each in zip(*by_trace, strict=True)
        ]
        for phase, name in REAL.items()
    }


def _over_traces(measurements: Sequence[Measurement | None], metric: str) -> float | None:
    values = [one[metric] if one is not None else None for one in measurements]
    good = [value for value in values if value]
    return geometric_mean(good) if len(good) == len(values) else None


def _runner(service: Service, panel: Mapping[str, Configuration]) -> Callable[[str, str], Figures]:
    return runner_of(service.runner(panel, service.examine()))


# What is shown


@dataclass(frozen=True)
class Ranked:
    """Settings of one allocator on one service."""

    service: str
    allocator: str
    phase: str
    n_settings: int
    spread: float
    """Greatest to least real memory, less 1."""
    tau: float | None
    """None: there is nothing to rank."""


def ranked_of(parts: Parts) -> Iterator[Ranked]:
    """Yield how emulation ranks the settings of each allocator on each service."""
    for service in SERVICES:
        if kept := parts.get(service):
            for allocator in dict.fromkeys(kept["allocators"].values()):
                for phase in REAL:
                    yield _ranked(service, allocator, phase, kept)


def _ranked(service: str, allocator: str, phase: str, kept: Mapping[str, Any]) -> Ranked:
    pairs = []
    for label, owner in kept["allocators"].items():
        real = column(kept["rows"], REAL[phase], subject=label)
        if owner == allocator and real and kept["emulated"][phase][label] is not None:
            pairs.append((kept["emulated"][phase][label], median(real)))
    spread = max(r for _, r in pairs) / min(r for _, r in pairs) - 1.0 if pairs else 0.0
    can_rank = len(pairs) >= _FEWEST and spread >= _LEAST_SPREAD
    tau = kendall_tau([e for e, _ in pairs], [r for _, r in pairs]) if can_rank else None
    return Ranked(service, allocator, phase, len(pairs), spread, tau)


def lines(parts: Parts) -> Iterator[str]:
    """Yield tau for each service and allocator."""
    rows: dict[tuple[str, str], dict[str, Ranked]] = {}
    for one in ranked_of(parts):
        rows.setdefault((one.service, one.allocator), {})[one.phase] = one
    titles = ["service", "allocator", "settings", *(f"tau {p}" for p in REAL), "spread idle"]
    cells = [
        [service, allocator, str(found["idle"].n_settings),
         *("-" if found[p].tau is None else f"{found[p].tau:.2f}" for p in REAL),
         f"{100 * found['idle'].spread:.0f} %"]
        for (service, allocator), found in rows.items()
    ]  # fmt: skip
    yield from table(titles, cells)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield the median tau of each phase."""
    for phase in REAL:
        taus = [one.tau for one in ranked_of(parts) if one.phase == phase and one.tau is not None]
        if taus:
            note = f"{len(taus)} allocators on services, the least {min(taus):.2f}"
            yield Target(f"tau {phase}", median(taus), _LEAST_TAU, at_least=True, note=note)


def _options(parser: argparse.ArgumentParser) -> None:
    for name, default, words in (
        ("--settings", 6, "of each allocator, its default among them"),
        ("--window", 30, "seconds of a load that says how long it is"),
        ("--idle", 12, "seconds without load after the window"),
    ):
        parser.add_argument(name, type=int, default=default, help=f"{words}; default: %(default)s")


BENCHMARK: Final = Benchmark(
    name="service_emulation",
    about=__doc__,
    claim="Emulation ranks the settings of an allocator as services do, under load and when idle.",
    depends_on=(*EXGEN, "rand_malloc", "tuner/service", "tuner/emulation.py", "configs/services"),
    measure=measure,
    needs=SERVICES,
    lines=lines,
    targets=targets,
    options=_options,
    rounds=3,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
