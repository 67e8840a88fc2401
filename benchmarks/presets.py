"""Find candidates for exgen's default, and for presets, over the shipped workloads.

1. A campaign on each workload of ``configs/campaigns`` searches exgen's settings for mean
   heap and cost.
2. The points of all fronts and the default are measured on every workload.
3. From the best of them a descent changes one setting at a time, on all workloads at once,
   for each aim; settings that gain nothing are dropped in the end.

An aim weighs the logarithm of memory (half mean, half peak heap) against that of cost.  The
*distance* of a configuration from a workload's own best is by how much its weighted product
is above the least one measured there with exgen.  The default is the configuration whose
greatest distance is least (minimax regret), with equal weights: no workload is far from its
own best.  The presets have the least mean distance, each for its weights.

What was found is a candidate: `benchmarks/allocators.py --parts candidates` with its settings
tells whether real programs gain by it and none loses.  No preset ships; the files of ``--write``
are for `malloc-tuner export --preset`.

Settings that emulation cannot judge are left alone, but for those that an aim names.  Transparent
huge pages are as the machine is set.  Gains are ratios to glibc's default.

    benchmarks/presets.py            search and print; results go to benchmarks/results
    benchmarks/presets.py --write    also write what was found to runs/presets/found
    benchmarks/presets.py --more     go on from the last results, without campaigns
    benchmarks/presets.py --judge    measure today's default against the last results
    benchmarks/presets.py --print    print the last results
    benchmarks/presets.py --smoke    a quick look that it still runs

The campaigns of a stopped search are not run again, as long as exgen is the same.  The same
budgets give the same result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.preset_table import ALLOCATOR, BASELINE, Aim, Numbers, Table
from benchmarks.provenance import installed, make_stamp, provenance_lines, write_results
from tuner.allocators import HostFacts, WorkloadFacts, get_allocator
from tuner.config import Narrowing, campaign_from_options, dump_campaign, load_campaign
from tuner.front.dominance import front_points
from tuner.output import write_text
from tuner.records import Configuration, Trial, Value
from tuner.resources import configs_dir, native_file
from tuner.runs import load_run
from tuner.space import Genome, Space, joint_space

ROOT: Final = Path(__file__).resolve().parent.parent
SCHEMA: Final = "malloc-tuner.benchmark.presets"
RESULTS: Final = ROOT / "benchmarks" / "results" / "presets.json"
METRICS: Final = ("mean_heap", "peak_heap", "cost")
NARROWED: Final = {
    "remote_batch": "unset",
    "exchange_bytes": "unset",
    "adopt": "unset",
    "purge_how": "unset",
}
"""What is not searched.  One thread at a time shows no contention; memory that is given back
lazily counts as given back, but no user sees it go before the machine runs short; and
memory that is never given back costs only where a program lives longer than these traces."""
TARGET: Final = 0.10
"""The default may be this far from any workload's own best."""
_N_ANEW: Final = 12
"""Of a search with another build of exgen, so many for each aim and workload are measured again."""
THP: Final = "keep"
"""Transparent huge pages of the emulator and of campaigns where nothing else is said."""
_LEAST_GAIN: Final = 1e-3
"""A setting that brings less than a thousandth is left out."""


AIMS: Final = (
    Aim("default", 0.5, is_worst_case=True, purpose="the built-in default: no workload is far off"),
    Aim(
        "memory",
        0.9,
        is_worst_case=False,
        purpose="the least memory, for some more work; for many processes, or little memory",
        beyond_emulation={"huge_pages": "never"},
    ),
    Aim(
        "speed",
        0.1,
        is_worst_case=False,
        purpose="the least work, where memory is plentiful",
    ),
    Aim(
        "balanced",
        0.5,
        is_worst_case=False,
        purpose="memory and work weigh the same, on average over programs of many kinds",
    ),
)


# The search


def own_campaign(
    workload: str, trace: Path, folder: Path, evaluations: int
) -> tuple[tuple[Trial, ...], list[Configuration]]:
    """Tune exgen for one workload; return the trials and the configurations of the front."""
    spec = campaign_from_options(
        name=f"{ALLOCATOR}-{workload}",
        trace=trace,
        allocators=[BASELINE, ALLOCATOR],
        evaluations=evaluations,
        recheck={"share": 0.0},
        space={ALLOCATOR: NARROWED},
    )
    file = folder / f"{workload}.toml"
    write_text(file, dump_campaign(spec))
    words = ["tune", file, "-o", folder / workload, "--workers", 1, "--quiet"]
    print("$ malloc-tuner", *words, file=sys.stderr)
    command = [sys.executable, "-m", "tuner.cli.main", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    run = load_run(folder / workload)
    points = front_points([t for t in run.trials if _is_exgen(t)], run.campaign.objectives)
    return run.trials, [point.trial.configuration for point in points]


def _is_exgen(trial: Trial) -> bool:
    return trial.configuration.allocator == ALLOCATOR


def search_space() -> Space:
    """Return exgen's space without the settings that emulation cannot judge."""
    adapter = get_allocator(ALLOCATOR)
    narrowed = {name: Narrowing.model_validate(wish) for name, wish in NARROWED.items()}
    workload = WorkloadFacts(2, 10**9)
    host = HostFacts("never", 1, HostFacts.detect().page_size_bytes)
    return joint_space({ALLOCATOR: adapter.parameters(adapter.locate(), host, workload, narrowed)})


def neighbours(space: Space, genome: Genome, rng: np.random.Generator) -> Iterator[Genome]:
    """Yield what differs by a step of one gene, in random order."""
    for index in rng.permutation(len(genome)):
        parameter = space.parameters[index]
        around = (genome[index] - 1, genome[index] + 1)
        levels = around if parameter.ordered else range(parameter.n_levels)
        for level in levels:
            if 0 <= level < parameter.n_levels and level != genome[index]:
                changed = (*genome[:index], int(level), *genome[index + 1 :])
                if space.canonical(changed) != genome:
                    yield space.canonical(changed)


def descend(
    table: Table, space: Space, aim: Aim, start: Configuration, budget: int
) -> Configuration:
    """Change one setting at a time while that is better, for so many measurements."""
    last = table.n_measured + budget
    rng = np.random.default_rng(1)
    best = start
    is_better = True
    while is_better and table.n_measured < last:
        is_better = False
        for genome in neighbours(space, space.encode(best), rng):
            if table.n_measured >= last:
                break
            score = table.score(best, aim)  # own bests may have moved
            other = space.decode(genome)
            if table.score(other, aim, score - _LEAST_GAIN) < score - _LEAST_GAIN:
                best, is_better = other, True
                break
    return _shortened(table, aim, best)


def _shortened(table: Table, aim: Aim, configuration: Configuration) -> Configuration:
    """Drop every setting without which the score is less than a thousandth worse."""
    for name, _ in configuration.settings:
        others = {key: value for key, value in configuration.settings if key != name}
        shorter = Configuration.of(ALLOCATOR, others)
        allowed = table.score(configuration, aim) + _LEAST_GAIN
        if table.score(shorter, aim, allowed) <= allowed:
            configuration = shorter
    return configuration


def search(
    table: Table, traces: Mapping[str, Path], folder: Path, evaluations: int, budget: int
) -> dict[str, Configuration]:
    """Return the best configuration found for every aim.

    Args:
        table: filled with all that is measured.
        traces: workload -> trace.
        folder: for the campaigns' run folders.
        evaluations: of each campaign.
        budget: measurements of the descent to each aim.
    """
    candidates = {Configuration(ALLOCATOR): None}
    for workload, trace in traces.items():
        trials, front = own_campaign(workload, trace, folder, evaluations)
        table.take(workload, trials)
        candidates |= dict.fromkeys(front)
    return improve(table, list(candidates), budget)


def improve(
    table: Table, candidates: Sequence[Configuration], budget: int
) -> dict[str, Configuration]:
    """Descend to every aim from the best of some candidates; return what was found.

    What one aim finds is a candidate for the others, before and after their own descent.
    """
    space = search_space()
    candidates = [_fitted(space, c) for c in candidates]
    found: list[Configuration] = []
    for aim in AIMS:
        start = _best(table, aim, [*candidates, *found])
        found.append(descend(table, space, aim, start, budget))
        print(f"{aim.name}: {found[-1]}", file=sys.stderr)
    return {aim.name: _best(table, aim, [Configuration(ALLOCATOR), *found]) for aim in AIMS}


def _is_in(space: Space, configuration: Configuration) -> bool:
    try:
        space.encode(configuration)
    except ValueError:
        return False
    return True


def _fitted(space: Space, configuration: Configuration) -> Configuration:
    """Drop settings that the search does not try, such as a default of former times."""
    if _is_in(space, configuration):
        return configuration
    settings = dict(configuration.settings)
    kept = {n: v for n, v in settings.items() if _is_in(space, Configuration.of(ALLOCATOR, {n: v}))}
    fitted = Configuration.of(ALLOCATOR, kept)
    return fitted if _is_in(space, fitted) else Configuration(ALLOCATOR)


def _best(table: Table, aim: Aim, candidates: Sequence[Configuration]) -> Configuration:
    best, least = candidates[0], math.inf
    for candidate in candidates:
        score = table.score(candidate, aim, least)
        if score < least:
            best, least = candidate, score
    return best


# Results


def remembered(document: Mapping[str, Any], table: Table) -> dict[str, Configuration]:
    """Fill a table with what a search measured, and return what it chose.

    A setting that was unset then had the default of then; where that has changed, it is named.
    What another build of exgen measured is no number of today's: of that, the best on each
    workload are measured anew.
    """
    then, now = document["exgen"]["defaults"], _defaults()
    changed = {name: value for name, value in then.items() if now.get(name, value) != value}
    is_same = document["exgen"]["sha256"] == library_digest()
    for workload, rows in document["measured"].items():
        found: dict[Configuration, Numbers | None] = {}
        for allocator, settings, numbers in rows:
            known = changed if allocator == ALLOCATOR else {}
            configuration = Configuration.of(allocator, {**known, **settings})
            found[configuration] = None if numbers is None else Numbers(*numbers)
        if is_same:
            table.rows[workload] = found
        else:
            _measure_best(table, workload, found)
    last = {row["aim"]: {**changed, **row["settings"]} for row in document["aims"]}
    return {aim: Configuration.of(ALLOCATOR, _without_defaults(s)) for aim, s in last.items()}


def _measure_best(
    table: Table, workload: str, former: Mapping[Configuration, Numbers | None]
) -> None:
    """Take over other allocators' numbers, and measure anew what was best of exgen's for an aim."""
    others = {c: n for c, n in former.items() if c.allocator != ALLOCATOR}
    table.rows[workload] = others
    known = {c: n for c, n in former.items() if n and c not in others}
    for aim in AIMS:
        for configuration in sorted(known, key=lambda c: known[c].loss(aim.memory))[:_N_ANEW]:
            table.measure(workload, configuration)


def _without_defaults(settings: Mapping[str, Value]) -> dict[str, Value]:
    now = _defaults()
    return {name: value for name, value in settings.items() if now[name] != value}


def _defaults() -> dict[str, Value]:
    listed = json.loads(native_file("exgen-options.json").read_text())["options"]
    return {option["name"]: option["default"] for option in listed}


def results(
    table: Table, chosen: Mapping[str, Configuration], command: Sequence[str]
) -> dict[str, Any]:
    """Return everything that is kept of a search."""
    default = Configuration(ALLOCATOR)
    return {
        "schema": SCHEMA,
        "version": 2,
        "provenance": [
            make_stamp("presets", command, of=["presets"], allocators=installed([ALLOCATOR]))
        ],
        "instrument": table.instrument,
        "exgen": {
            "version": get_allocator(ALLOCATOR).locate().version,
            "sha256": library_digest(),
            "defaults": _defaults(),
        },
        "aims": [
            _aim_row(table, aim, configuration)
            for aim in AIMS
            for configuration in dict.fromkeys((default, chosen[aim.name]))
        ],
        "measured": {
            workload: [
                [
                    c.allocator,
                    c.as_dict,
                    None if numbers is None else list(asdict(numbers).values()),
                ]
                for c, numbers in row.items()
            ]
            for workload, row in table.rows.items()
        },
    }


def _aim_row(table: Table, aim: Aim, configuration: Configuration) -> dict[str, Any]:
    gains = {}
    for workload in table.workloads:
        ours = table.measure(workload, configuration)
        base = table.measure(workload, Configuration(BASELINE))
        if ours and base:
            gains[workload] = {m: getattr(ours, m) / getattr(base, m) for m in METRICS}
    return {
        "aim": aim.name,
        "settings": configuration.as_dict,
        "distances": table.distances(configuration, aim),
        "gains": gains,
    }


def library_digest() -> str:
    """Return the digest of the library: another build has other numbers."""
    return hashlib.sha256(native_file("libexgen.so").read_bytes()).hexdigest()


def print_results(document: Mapping[str, Any]) -> None:
    """Print, for every aim, today's default and what was found."""
    for row in document["aims"]:
        settings = ",".join(
            f"{k}:{json.dumps(v).strip(chr(34))}" for k, v in row["settings"].items()
        )
        worst = math.expm1(max(row["distances"].values()))
        mean = math.expm1(float(np.mean(list(row["distances"].values()))))
        print(f"\n{row['aim']}: {settings or 'as shipped'}")
        print(f"  distance from the own best: mean {mean:.1%}, worst {worst:.1%}")
        print(f"  {'against glibc':14}" + "".join(f"{m:>12}" for m in METRICS))
        for workload, gains in row["gains"].items():
            cells = "".join(f"{gains[m] - 1.0:>+12.1%}" for m in METRICS)
            print(f"  {workload:14}{cells}")


def worst_distance(document: Mapping[str, Any]) -> float:
    """Return how far the default is from the workload's own best that is farthest from it."""
    shipped = next(row for row in document["aims"] if not row["settings"])
    return math.expm1(max(shipped["distances"].values()))


def write_presets(document: Mapping[str, Any], folder: Path) -> None:
    """Write a file for every aim."""
    aims = {aim.name: aim for aim in AIMS}
    rows = {row["aim"]: row for row in document["aims"]}  # the last of an aim is what was found
    shipped = next(row for row in document["aims"] if not row["settings"])
    for name, row in rows.items():
        head = {
            "schema": 1,
            "name": f"{ALLOCATOR}-{name}",
            "purpose": aims[name].purpose,
            "allocator": ALLOCATOR,
            "baseline": BASELINE,
            "found_on": document["provenance"][0]["date"][:10],
            "found_by": document["provenance"][0]["command"],
            "thp": THP,
        }
        text = "# Written by benchmarks/presets.py --write.\n"
        settings = dict(sorted({**row["settings"], **aims[name].beyond_emulation}.items()))
        text += _toml(head, {"settings": settings})
        text += _toml({}, _rounded("gains", row))
        text += _toml({}, _rounded("default_gains", shipped))
        write_text(folder / f"{ALLOCATOR}-{name}.toml", text)


def _rounded(title: str, row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {
        f"{title}.{workload}": {metric: round(value, 4) for metric, value in gain.items()}
        for workload, gain in row["gains"].items()
    }


def _toml(head: Mapping[str, Value], tables: Mapping[str, Mapping[str, Value]]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in head.items()]
    for title, table in tables.items():
        lines += ["", f"[{title}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _traces(names: Sequence[str]) -> dict[str, Path]:
    files = sorted((configs_dir() / "campaigns").glob("*.toml"))
    files = [file for file in files if not file.stem.startswith("gem5-")]  # of gem5_case.py
    traces = {file.stem: load_campaign(file).trace.resolve() for file in files}
    return {name: traces[name] for name in names or traces}


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find exgen's presets and its default.")
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help="default: all")
    parser.add_argument("--evaluations", type=int, default=60, help="of each campaign")
    parser.add_argument("--steps", type=int, default=250, help="measurements for each aim")
    parser.add_argument("--write", action="store_true", help="write runs/presets/found too")
    parser.add_argument("--more", action="store_true", help="go on from the last results")
    parser.add_argument("--judge", action="store_true", help="measure today's default only")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
    return parser.parse_args(arguments)


def main() -> int:
    """Search or read, print, and return the exit status."""
    options = _parse(sys.argv[1:])
    if options.print:
        document = json.loads(RESULTS.read_text())
    elif options.judge or options.more:
        document = json.loads(RESULTS.read_text())
        table = Table(_traces([]))
        chosen = remembered(document, table)
        if options.more:
            chosen = improve(table, list(chosen.values()), options.steps)
        document = _kept(table, chosen, is_preset=options.write)
    elif options.smoke:
        with tempfile.TemporaryDirectory() as name:
            traces = _traces(["document", "server"])
            table = Table(traces)
            document = results(table, search(table, traces, Path(name), 4, 0), ["smoke"])
            write_presets(document, Path(name))
    else:
        traces = _traces(options.names)
        table = Table(traces)
        folder = ROOT / "runs" / "presets" / library_digest()[:12]
        chosen = search(table, traces, folder, options.evaluations, options.steps)
        document = _kept(table, chosen, is_preset=options.write)
    print("\n".join(provenance_lines(document["provenance"])))
    print_results(document)
    worst = worst_distance(document)
    print(f"\nthe default is at most {worst:.1%} from a workload's own best; target: {TARGET:.0%}")
    return 0 if options.smoke or worst <= TARGET else 1


def _kept(table: Table, chosen: Mapping[str, Configuration], *, is_preset: bool) -> dict[str, Any]:
    """Write the results, and the presets if they are wanted; return the results."""
    document = results(table, chosen, sys.argv)
    write_results(RESULTS, document)
    if is_preset:
        write_presets(document, ROOT / "runs" / "presets" / "found")
    return document


if __name__ == "__main__":
    sys.exit(main())
