"""What it gains to count instructions only where they can matter, and only the allocator's.

Runs each shipped campaign twice a round, in random order: with ``count = "all"`` and with
``"needed"``, the default.  Both have the same number of evaluations and the same seed, which is the
number of the round: what one seed finds is chance.  Shown are the evaluations in a second of CPU
time, all of it counted, and what was lost of the front: after the run everything that it left out
is counted too, and the hypervolume of its front is compared with that of all its configurations.
The hypervolume over that of ``"all"`` stands beside it.  Both searches part with the first
evaluation that is left out, and two seeds differ by more than a tenth, so that a few rounds prove
nothing in this figure.

``alone`` is what the emulator takes for configurations of the campaign one by one, as campaigns
once evaluated them: each decodes the workload and counts all instructions, the emulator's own
included.  The gain is over that; nothing but the emulator is counted in it, so it is a little
less than the whole gain.  ``--before`` gives the emulator of an earlier commit for it, so that the
gain holds what made the emulator itself faster since; or the whole tree of an earlier commit, built
in place, whose ``tune`` then runs the campaign of the same name once a round, on its own file of
the same workload, as many evaluations with the same seed: the gain is what campaigns as a whole
have gained.  It should have calibrated before, by a short campaign.

The part ``large`` is the largest workload of this repository with the default of 300 evaluations:
elapsed time on this machine, which is to be under four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Final

import numpy as np

from benchmarks.accounting import CALIBRATION, tuned
from benchmarks.harness import Benchmark, Call, Target, children_s, located, table
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, failed, failures, run_rounds
from benchmarks.sources import EMULATOR, SEARCH
from tuner.config import dump_campaign, load_campaign
from tuner.front.dominance import hypervolume, points_of
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.process import tool_environment
from tuner.objectives import trial_values
from tuner.records import Status
from tuner.resources import configs_dir, native_file
from tuner.runs import Run, load_run

CAMPAIGNS: Final = ("demo", "compiler", "server", "threads", "document")
BOTH: Final = "campaigns"
LARGE: Final = "large"
LARGEST: Final = "gem5-timing-sort/gem5-timing-sort.profile.json.zst"
SUBJECTS: Final = ("all", "needed")
LEAST_GAIN: Final = 2.5
LEAST_VOLUME: Final = 0.995
MOST_LARGE_S: Final = 240.0
_SMOKE_EVALUATIONS: Final = 8
_N_ALONE: Final = 20
"""Configurations of a campaign that are evaluated one by one."""


def measure(call: Call) -> None:
    """Run every campaign both ways once a round, each in a folder that is thrown away."""
    parts = call.choose((BOTH, LARGE), (BOTH,))
    if BOTH in parts:
        evaluations = _SMOKE_EVALUATIONS if call.is_smoke else call.options.evaluations
        tasks = CAMPAIGNS[:1] if call.is_smoke else CAMPAIGNS

        def run(task: str, subject: str) -> Figures:
            name, _, seed = task.partition(" ")
            file = configs_dir() / "campaigns" / f"{name}.toml"
            return _tuned(file, subject, evaluations, int(seed), call.options.before)

        seeded = [f"{name} {seed}" for seed in range(1, call.rounds + 1) for name in tasks]
        same = [evaluations, seeded, call.options.before]
        rows = run_rounds(call, BOTH, seeded, SUBJECTS, run, same=same, rounds=1,
                          shown="each_s")  # fmt: skip
        call.keep(BOTH, [_with_its_seed(row) for row in rows], rounds=call.rounds)
    if LARGE in parts:

        def run_large(_task: str, subject: str) -> Figures:
            return _tuned(configs_dir() / "workloads" / LARGEST, subject, None)

        rows = run_rounds(call, LARGE, [LARGEST.partition("/")[0]], SUBJECTS[1:], run_large,
                          rounds=1, shown="wall_s")  # fmt: skip
        call.keep(LARGE, rows, rounds=1)


def _with_its_seed(row: Row) -> Row:
    name, _, seed = row["task"].partition(" ")
    return {**row, "task": name, "round": int(seed)}


def _tuned(
    source: Path,
    count: str,
    evaluations: int | None,
    seed: int = 1,
    before: Sequence[str] | None = None,
) -> Figures:
    """Run a campaign file, or one on a workload with every default."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        words: list[object] = [source]
        if source.suffix == ".toml":
            spec = load_campaign(source, {"emulation": {"count": count}, "seed": seed})
            words = [folder / "campaign.toml"]
            (folder / "campaign.toml").write_text(dump_campaign(spec), encoding="utf-8")
        if evaluations:
            words += ["--evaluations", evaluations]
        words += ["--output", folder / "run", "--quiet"]
        begun_s = time.monotonic()
        if status := tuned(folder / "accounts.json", words):
            return failed(f"tune: exit status {status}")
        wall_s = time.monotonic() - begun_s
        accounts = json.loads((folder / "accounts.json").read_text(encoding="utf-8"))
        run = load_run(folder / "run")
        alone: dict[str, Any] = {}
        if evaluations is not None and count != "all":
            commit, earlier = before or ("", str(native_file("rand_malloc")))
            is_tree = Path(earlier).is_dir()
            alone = {
                "alone_s": _before_s(Path(earlier), source, evaluations, seed)
                if is_tree
                else _alone_s(source, run, earlier),
                "alone_by": commit,
                "kept": _kept(source, run),
            }
        return Figures.succeeded({**_figures(run, accounts), **alone, "wall_s": wall_s})


def _before_s(tree: Path, source: Path, evaluations: int, seed: int) -> float:
    """Return CPU seconds that an earlier tree takes for an evaluation of its own campaign."""
    with tempfile.TemporaryDirectory() as folder:
        words = [tree / "configs" / "campaigns" / source.name, "--evaluations", evaluations]
        words += ["--trace", _in_tree(tree, load_campaign(source).trace)]
        words += ["--seed", seed, "--output", Path(folder) / "run", "--quiet"]
        command = [sys.executable, "-m", "tuner.cli.main", "tune", *map(str, words)]
        before_s = children_s()
        subprocess.run(command, cwd=tree, stdout=subprocess.DEVNULL, check=True)  # its `tuner`
        return (children_s() - before_s) / evaluations


def _in_tree(tree: Path, workload: Path) -> Path:
    """Return the file of a workload in an earlier tree, of the same kind but maybe not packed."""
    name, kind = workload.name.split(".")[:2]
    folder = tree / "configs" / "workloads" / workload.parent.name
    return min(folder.glob(f"{name}.{kind}*"))


def _alone_s(source: Path, run: Run, emulator: str) -> float:
    """Return CPU seconds of an emulator for a configuration of a campaign by itself."""
    trace = load_campaign(source).trace
    options = run.campaign.emulation
    allocators = located(run.campaign.allocators)
    good = [one.configuration for one in run.trials if not one.has_failed]
    chosen = good[:: -(-len(good) // _N_ALONE)]
    before_s = children_s()
    for configuration in chosen:
        allocator, installation = allocators[configuration.allocator]
        words: list[str | Path] = [emulator, "--thp", options.thp, "--touch", options.touch]
        if installation.library is not None:
            words += ["--preload", installation.library]
        for name, value in allocator.render(configuration).items():
            words += ["--env", f"{name}={value}"]
        environment = tool_environment(os.environ)
        subprocess.run([*words, trace], env=environment, stdout=subprocess.DEVNULL, check=True)
    return (children_s() - before_s) / len(chosen)


def _kept(source: Path, run: Run) -> float:
    """Return the hypervolume of the front over that with all that was left out."""
    campaign = run.campaign
    if campaign.reference is None:
        return 1.0
    emulation = Emulation(
        load_campaign(source).trace,
        located(campaign.allocators),
        campaign.prices,
        campaign.emulation,
        reads_back=False,
    )
    evaluator = EmulatorEvaluator(emulation)
    found = points_of([trial for trial in run.trials if trial.is_feasible])
    left_out = [
        trial_values(ended.values, campaign.objectives, campaign.resolution)
        for trial in run.trials
        if trial.status is Status.UNCOUNTED
        and (ended := evaluator.evaluate(trial.configuration)).values is not None
    ]
    every = np.vstack([found, *left_out])
    return hypervolume(found, campaign.reference) / hypervolume(every, campaign.reference)


def _figures(run: Run, accounts: dict[str, Any]) -> dict[str, Any]:
    reference = run.campaign.reference
    good = [trial for trial in run.trials if trial.is_feasible]
    used = {kind: cpu_s for kind, cpu_s in accounts["cpu_s"].items() if kind != CALIBRATION}
    total_s = sum(used.values())
    return {
        "evaluations": len(run.trials),
        "uncounted": sum(trial.status is Status.UNCOUNTED for trial in run.trials),
        "events": run.campaign.workload.n_events,
        "cpu_s": total_s,
        "each_s": total_s / len(run.trials),
        "volume": hypervolume(points_of(good), reference) if reference else 0.0,
    }


def lines(parts: Parts) -> Iterator[str]:
    """Yield seconds of CPU an evaluation in each way, the gains and the fronts."""
    if BOTH in parts:
        rows: list[Row] = parts[BOTH]
        found = [_cells(rows, task) for task in _tasks(rows)]
        yield from table(
            [
                "campaign",
                "events",
                "s each, alone",
                "all",
                "needed",
                "uncounted",
                "gain",
                "by leaving out",
                "front kept",
                "hypervolume",
            ],
            found,
        )
        yield from failures(rows)
        for commit in sorted({row.get("alone_by") or "" for row in rows} - {""}):
            yield f"Alone: by commit {commit}."
    for row in parts.get(LARGE, ()):
        if row["status"] == Status.OK.value:
            yield (
                f"{row['task']}: {row['events']:,} events, {row['evaluations']} evaluations in "
                f"{row['wall_s']:.0f} s ({row['cpu_s']:.0f} s of CPU time), "
                f"{row['uncounted']} uncounted"
            )


def _tasks(rows: list[Row]) -> list[str]:
    """Return the campaigns that ran both ways in some round."""
    return [task for task in dict.fromkeys(r["task"] for r in rows) if _ratios(rows, task, "cpu_s")]


def _cells(rows: list[Row], task: str) -> list[str]:
    every, needed = (
        {name: median(column(rows, name, task=task, subject=subject))
         for name in ("events", "each_s", "uncounted", "evaluations")}
        for subject in SUBJECTS
    )  # fmt: skip
    share = needed["uncounted"] / needed["evaluations"]
    kept = _kept_of(rows, task)
    return [
        task, f"{every['events']:,.0f}", f"{_alone(rows, task):.3f}", f"{every['each_s']:.3f}",
        f"{needed['each_s']:.3f}", f"{share:.0%}", f"{_alone(rows, task) / needed['each_s']:.2f}",
        f"{median(_ratios(rows, task, 'each_s')):.2f}", "-" if kept is None else f"{kept:.4f}",
        f"{1 / median(_ratios(rows, task, 'volume')):.4f}",
    ]  # fmt: skip


def _alone(rows: list[Row], task: str) -> float:
    return float(median(column(rows, "alone_s", task=task, subject=SUBJECTS[1])))


def _kept_of(rows: list[Row], task: str) -> float | None:
    """Return the least of all rounds; None of rows that are older than the figure."""
    return min(column(rows, "kept", task=task, subject=SUBJECTS[1]), default=None)


def _ratios(rows: list[Row], task: str, name: str) -> list[float]:
    """Return all over needed, of the rounds in which both ran."""
    every, needed = (
        {row["round"]: row[name] for row in rows
         if (row["task"], row["subject"], row["status"]) == (task, subject, "ok")}
        for subject in SUBJECTS
    )  # fmt: skip
    return [every[number] / needed[number] for number in every if number in needed]


def targets(parts: Parts) -> Iterator[Target]:
    """Yield the gain over all campaigns, the worst front, and the time of the largest."""
    rows: list[Row] = parts.get(BOTH, [])
    tasks = _tasks(rows)
    if tasks:
        gain = geometric_mean(
            _alone(rows, task) / median(column(rows, "each_s", task=task, subject=SUBJECTS[1]))
            for task in tasks
        )
        yield Target("evaluations in a second, in multiples", gain, LEAST_GAIN, at_least=True)
        kept = [one for task in tasks if (one := _kept_of(rows, task)) is not None]
        if kept:
            yield Target("least hypervolume of a front, of that with all counted", min(kept),
                         LEAST_VOLUME, at_least=True)  # fmt: skip
    for wall_s in column(parts.get(LARGE, ()), "wall_s"):
        yield Target("seconds for the largest workload", wall_s, MOST_LARGE_S, form=".0f")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--evaluations", type=int, default=120, metavar="N",
                        help="of each campaign; default: %(default)s")  # fmt: skip
    parser.add_argument("--before", nargs=2, metavar=("COMMIT", "PATH"),
                        help="rand_malloc, or the whole tree, of an earlier commit, which the "
                        "gain is over; default: the emulator of this one")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="purchases",
    about=__doc__,
    claim="What evaluations share, and counting only where it can matter, give 2.5 times the "
    "evaluations in the same time, and the same front.",
    depends_on=(*EMULATOR, *SEARCH, "configs/campaigns"),
    measure=measure,
    lines=lines,
    targets=targets,
    options=_options,
    rounds=3,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
