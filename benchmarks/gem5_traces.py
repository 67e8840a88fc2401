"""Whether whole traces of gem5 rank settings as gem5 itself does, where thin ones do not.

    benchmarks/gem5_traces.py --gem5 build/X86/gem5.fast --rounds 2

Thin traces (`malloc-tuner trace thin`) drop most blocks that die young, and so what thread caches
keep of them.  `malloc-tuner optimize` emulates whole ones.  Here the settings of gem5_case.py's
last results are emulated on both, and run on the simulations that are tuned on.  The truth is the
mean of gem5's heap over its CPU time, less what is not malloc's.

Kendall's tau is over the clear pairs of an allocator: those whose geometric means over the
simulations differ by more than 1 % on gem5, the same way in every round.  Runs of gem5 repeat to
about 1 %, on a busy machine a few by much less.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import (
    ALLOCATORS,
    Benchmark,
    Call,
    Target,
    digits_of,
    installed,
    located,
    table,
)
from benchmarks.results import Parts, read_results, results_path
from benchmarks.rounds import Figures, Row, column, failed, run_rounds
from benchmarks.sources import EMULATOR, EXGEN, GEM5
from tuner.allocators import Located
from tuner.config.gem5_suite import Simulation, SimulationRole, load_suite
from tuner.emulation import EmulationOptions
from tuner.fidelity import environments_of, measure_panel
from tuner.measure.calibration import load_calibration
from tuner.measure.gem5 import (
    Gem5,
    digest_of,
    find_gem5,
    gem5_environment,
    judge_simulation,
    make_guests,
)
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.recording import record
from tuner.records import Configuration, Status
from tuner.resources import configs_dir, gem5_dir
from tuner.stats import DIFFERENT

WHOLE: Final = "whole"
THIN: Final = "thin"
JUDGED: Final = ("glibc", "jemalloc", "exgen")
"""Those whose clear pairs thin traces order badly."""
_ENOUGH: Final = 0.9
_TIMEOUT_S: Final = 600.0
_LEAST_POINTS: Final = 3


def measure(call: Call) -> None:
    """Record, emulate and run every simulation that was chosen."""
    if call.is_smoke:  # that the last results are understood
        call.parts.update(read_results(results_path("gem5_traces"))["parts"])
        return
    if lacks_gem5(call, *_simulations()):
        return
    gem5 = built_gem5(call.options.gem5, call.folder)
    simulations = _simulations()
    points = points_of(call.options.allocators)
    everywhere = located(sorted({point.allocator for point in points.values()}))
    for name in call.choose(list(simulations), []):
        found = {
            "emulated": _emulated(call, gem5, simulations[name], points, everywhere),
            "rows": _real(call, gem5, simulations[name], points, everywhere),
        }
        call.keep(name, found, allocators=installed(everywhere), rounds=call.rounds)


def _simulations() -> dict[str, Simulation]:
    suite = load_suite(gem5_dir() / "suite.toml")
    return {one.name: one for one in suite.choose([SimulationRole.TUNE.value])}


def gem5_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names gem5."""
    parser.add_argument("--gem5", type=Path, default=os.environ.get("GEM5") or None,
                        metavar="PROGRAM", help="default: $GEM5")  # fmt: skip


def lacks_gem5(call: Call, *parts: str) -> bool:
    """Return whether no gem5 is named; says which parts are left out."""
    if call.options.gem5 is not None:
        return False
    call.leave_out(", ".join(parts), "GEM5 does not name gem5.opt")
    return True


def built_gem5(program: Path, folder: Path) -> Gem5:
    """Return gem5 with the simulations of the suite, whose guests are built below a folder."""
    suite, place = load_suite(gem5_dir() / "suite.toml"), folder.resolve()
    make_guests(suite.folder / "guests", place / "guests")
    return Gem5(find_gem5(program), suite, place / "guests", place / "outputs", ProgramRunner())


def points_of(names: Sequence[str]) -> dict[str, Configuration]:
    """Return the settings of some allocators in the last results of gem5_case.py, by label."""
    known = read_results(results_path("gem5_case"))["parts"]["about"]["points"]
    found = {label: _configuration(label, one["settings"]) for label, one in known.items()}
    return {label: one for label, one in found.items() if one.allocator in names}


def _configuration(label: str, settings: str) -> Configuration:
    """Return what ``a=1 b=true c=free``, or ``default``, is of the allocator of a label."""
    pairs = (word.split("=", 1) for word in settings.split() if "=" in word)
    return Configuration.of(label.partition(" ")[0], {name: _value(text) for name, text in pairs})


def _value(text: str) -> Any:  # noqa: ANN401 - a number, a truth or a word
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text


def _emulated(
    call: Call,
    gem5: Gem5,
    simulation: Simulation,
    points: Mapping[str, Configuration],
    everywhere: Located,
) -> list[Row]:
    shipped = configs_dir() / "workloads" / "gem5-suite" / "traces" / f"{simulation.name}.trace"
    traces = {WHOLE: _recorded(call, gem5, simulation), THIN: shipped}
    if not traces[WHOLE].exists():
        gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
        record(gem5.command(simulation), traces[WHOLE], is_silent=True)
    prices = load_calibration()
    options = EmulationOptions(instrument="none", thp="keep", timeout_s=_TIMEOUT_S)

    def run(kind: str, label: str) -> Figures:
        one = measure_panel(traces[kind], [points[label]], everywhere, prices, options)[0]
        if one is None:
            return failed("not emulated")
        return Figures.succeeded({"mean_heap": round(one.value("mean_heap"))})

    same = ["emulated", _keys(points), traces[WHOLE].name]
    return run_rounds(
        call, simulation.name, list(traces), list(points), run, same=same, rounds=1,
        shown="mean_heap",
    )  # fmt: skip


def _recorded(call: Call, gem5: Gem5, simulation: Simulation) -> Path:
    """Return where the whole trace of a simulation is, or will be, as this gem5 runs it."""
    return call.folder / f"{simulation.name}-{digits_of(gem5.identity(simulation))}.trace"


def _keys(points: Mapping[str, Configuration]) -> dict[str, str]:
    """Return what labels mean: in later results of gem5_case.py another setting, maybe."""
    return {label: one.key for label, one in points.items()}


def _real(
    call: Call,
    gem5: Gem5,
    simulation: Simulation,
    points: Mapping[str, Configuration],
    everywhere: Located,
) -> list[Row]:
    rows = run_rounds(
        call, simulation.name, [simulation.name], list(points),
        heap_runner(gem5, [simulation], points, everywhere),
        same=[_keys(points), gem5.identity(simulation)], shown="mean_heap",
    )  # fmt: skip
    return of_one_simulation(rows, next(iter(points)))


def heap_runner(
    gem5: Gem5,
    simulations: Sequence[Simulation],
    points: Mapping[str, Configuration],
    everywhere: Located,
) -> Callable[[str, str], Figures]:
    """Return what runs a simulation under a setting, by name and label, for `run_rounds`.

    Its figures are the mean over CPU time of what malloc holds, in bytes, that time, in ns, and
    the digest of what it simulated, see `of_one_simulation`.
    """
    own = gem5_environment(os.environ)
    environments = environments_of(list(points.values()), everywhere, own)
    by_label = dict(zip(points, environments, strict=True))
    by_name = {one.name: one for one in simulations}

    def run(name: str, label: str) -> Figures:
        surroundings = Surroundings(timeout_s=_TIMEOUT_S)
        found = gem5.simulate(by_name[name], by_label[label], surroundings)
        status, reason = judge_simulation(found, None)
        if status is not Status.OK or found.result is None:
            return Figures.did_not_succeed(status, reason or status.value)
        kinds = found.result.memory_bytes
        mean = found.run.mean_anon_cpu_bytes - kinds.program - kinds.python
        figures = {"mean_heap": round(mean), "cpu_ns": found.run.cpu_ns}
        return Figures.succeeded({**figures, "digest": digest_of(found)})

    return run


def of_one_simulation(rows: Sequence[Row], baseline: str) -> list[Row]:
    """Return rows without digests; those that did not simulate what the baseline did failed."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    known = {task: column(rows, "digest", task=task, subject=baseline) for task in tasks}
    return [_judged(row, known[row["task"]]) for row in rows]


def _judged(row: Row, digests: Collection[str]) -> Row:
    kept = {name: value for name, value in row.items() if name != "digest"}
    if row["status"] == Status.OK.value and row["digest"] not in digests:
        return {**kept, "status": Status.FAILED.value, "reason": "simulated something else"}
    return kept


@dataclass(frozen=True)
class Ranks:
    """How a kind of trace orders the clear pairs of an allocator."""

    allocator: str
    kind: str
    n_points: int
    n_pairs: int
    tau: float
    """Of the clear pairs: -1 for all in the wrong order, 1 for all in gem5's."""


def ranks_of(parts: Parts) -> list[Ranks]:
    """Return the ranks of every allocator by both kinds of traces, over all simulations."""
    found = []
    for allocator in ALLOCATORS:
        real = {label: _rounds(parts, label) for label in _labels(parts, allocator)}
        for kind in (WHOLE, THIN):
            pairs = [
                (claimed, truth)
                for label, truth in real.items()
                if truth and (claimed := _mean(parts, "emulated", kind, label))
            ]
            agree = [
                (one < other) == is_less and one != other
                for (one, left), (other, right) in combinations(pairs, 2)
                if (is_less := _is_less(left, right)) is not None
            ]
            if agree and len(pairs) >= _LEAST_POINTS:
                tau = 2.0 * sum(agree) / len(agree) - 1.0
                found.append(Ranks(allocator, kind, len(pairs), len(agree), tau))
    return found


def _is_less(one: Sequence[float], other: Sequence[float]) -> bool | None:
    """Return whether one setting holds clearly less in every round; None where neither does."""
    ratios = [b / a for a, b in zip(one, other, strict=True)]
    if min(ratios) > 1.0 + DIFFERENT:
        return True
    return False if max(ratios) < 1.0 / (1.0 + DIFFERENT) else None


def _rounds(parts: Parts, label: str) -> list[float]:
    """Return the geometric mean over the simulations in each round; empty where one is missing."""
    numbers = {row["round"] for kept in parts.values() for row in kept["rows"]}
    found = [_mean(parts, "rows", None, label, number) for number in sorted(numbers)]
    return [one for one in found if one] if all(found) else []


def _labels(parts: Parts, allocator: str) -> list[str]:
    labels = {row["subject"] for kept in parts.values() for row in kept["rows"]}
    return sorted(label for label in labels if label.partition(" ")[0] == allocator)


def _mean(parts: Parts, what: str, kind: str | None, label: str, number: int = 0) -> float | None:
    """Return the geometric mean over the simulations of a label in a round."""
    means = []
    for kept in parts.values():
        rows = [row for row in kept[what] if row["status"] == Status.OK.value]
        where = {"subject": label, "round": number} | ({} if kind is None else {"task": kind})
        values = column(rows, "mean_heap", **where)
        if not values:
            return None
        means.append(values[0])
    return statistics.geometric_mean(means)


def lines(parts: Parts) -> Iterator[str]:
    """Yield a row for every allocator."""
    found = {(one.allocator, one.kind): one for one in ranks_of(parts)}
    rows = [
        [name, str(one.n_points), str(one.n_pairs), f"{one.tau:.2f}", f"{other.tau:.2f}"]
        for name in ALLOCATORS
        if (one := found.get((name, WHOLE))) and (other := found.get((name, THIN)))
    ]
    yield from table(["mean heap", "settings", "clear pairs", "tau, whole", "tau, thin"], rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield whether whole traces order the clear pairs of each allocator as gem5 does."""
    for one in ranks_of(parts):
        if one.kind == WHOLE:
            what = f"tau of {one.allocator}'s clear pairs by whole traces"
            note = f"{one.n_pairs} pairs of {one.n_points} settings"
            yield Target(what, one.tau, _ENOUGH, at_least=True, note=note)


def _options(parser: argparse.ArgumentParser) -> None:
    gem5_option(parser)
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=list(JUDGED),
                        help="whose settings; default: %(default)s")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="gem5_traces",
    about=__doc__,
    claim="Whole traces, which `optimize` emulates, rank settings by mean heap as gem5 does.",
    depends_on=(*EXGEN, *EMULATOR, *GEM5, "tuner/trace"),
    measure=measure,
    needs=list(_simulations()),
    lines=lines,
    targets=targets,
    options=_options,
    rounds=2,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
