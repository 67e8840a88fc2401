"""Cache misses of allocators inside simulated machines: gem5 as the instrument.

An allocation-heavy guest, the emulator on a trace and a guest of two threads run in gem5's
system-call emulation on a desktop-like and a server-like machine, under every allocator as
shipped: misses per thousand instructions in each cache and TLB, DRAM traffic, instructions per
cycle.  Starts are subtracted.  A simulation repeats itself to the last count, so each is run
once, and the load of this computer does not matter.

    benchmarks/gem5_inside.py                                   needs GEM5, or --gem5
    benchmarks/gem5_inside.py --peer snmalloc=/opt/sn.so@0.7.1  with a further peer; repeatable
    benchmarks/gem5_inside.py --programs perl,server            others of gem5-validate/inside.toml
    benchmarks/gem5_inside.py --workers 2                       simulations at once
    benchmarks/gem5_inside.py --print                           tables of the last results
    benchmarks/gem5_inside.py --smoke                           tiny runs, no judgement

Raw counts go to ``benchmarks/results/gem5_inside.jsonl`` as each run ends; a run is repeated
only when gem5, machine, program, library or settings have changed.  Exit status 1 when a
target is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.allocator_programs import ROOT
from benchmarks.allocator_runs import without_folders
from benchmarks.allocator_tables import OURS, Judgement, best_of
from benchmarks.peers import peer_subject
from benchmarks.provenance import identities_of, make_stamp, provenance_lines, stamps_of
from tuner.bench.subjects import Subject, named_subject
from tuner.compare.loop import Observer
from tuner.config.gem5_inside import load_inside
from tuner.errors import MissingToolError, TunerError
from tuner.measure.gem5 import find_gem5
from tuner.measure.gem5_inside import Gem5Inside, guest_environments, prepare_tasks
from tuner.measure.program import ProgramRunner
from tuner.resources import gem5_dir
from tuner.validate.inside import Guest, InsideJournal, InsideRecord, run_inside
from tuner.validate.inside_counts import INSIDE_OBJECTIVES
from tuner.validate.inside_summary import InsideSummary, InsideTable, failures, summarize_inside

RESULTS: Final = ROOT / "benchmarks" / "results" / "gem5_inside.jsonl"
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", *OURS)
HEAVY: Final = "lists"
"""The allocation-heavy program, which is judged."""
JUDGED: Final = ("l1d_mpki", "l2_mpki", "l1d_misses", "l2_misses", "cycles")
"""What is judged on it: misses per thousand instructions, which favour who needs many
instructions, hence misses as such, and what it all costs."""
_SMOKE_SCALE: Final = ("50",)


@dataclass(frozen=True)
class Folders:
    """Where things go."""

    journal: Path
    work: Path
    """Guests, plans and outputs of gem5."""


def main() -> int:
    """Run what is missing, print tables and judgements, return the exit status."""
    options = _parse()
    try:
        if options.smoke:
            with tempfile.TemporaryDirectory(prefix="gem5-inside-") as name:
                folders = Folders(Path(name) / "runs.jsonl", Path(name))
                return _measure(options, folders) and _show(folders.journal, is_judged=False)
        if not options.print:
            _measure(options, Folders(RESULTS, ROOT / "runs" / "gem5-inside"))
            RESULTS.write_text(without_folders(RESULTS.read_text()))
        return _show(RESULTS, is_judged=True)
    except TunerError as error:
        sys.exit(f"gem5_inside.py: {error}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gem5", type=Path, default=os.environ.get("GEM5"), metavar="PROGRAM")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH@VERSION")
    parser.add_argument("--only", metavar="NAME,...", help="only these allocators")
    parser.add_argument("--programs", default=f"{HEAVY},replay,pair", metavar="NAME,...")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
    return parser.parse_args()


def _measure(options: argparse.Namespace, folders: Folders) -> int:
    """Run what is missing; 0 when there is no gem5, else 1."""
    if options.gem5 is None:
        print("gem5_inside.py: left out: GEM5 does not name gem5.opt", file=sys.stderr)
        return 0
    program = find_gem5(Path(options.gem5))
    inside = load_inside(gem5_dir() / "inside.toml")
    chosen = inside.choose(options.programs.split(","))
    if options.smoke:
        brief = {"arguments": _SMOKE_SCALE}
        chosen = [(p.model_copy(update=brief), m) for p, m in chosen if p.name == HEAVY][-1:]
    subjects = _subjects(options)
    runner = ProgramRunner()
    started = time.monotonic()

    def on_run(_: object, run: InsideRecord) -> None:
        seconds = time.monotonic() - started
        told = run.reason or (f"{run.counts.instructions} instructions" if run.counts else "")
        print(f"{seconds:6.0f} s  {run.task}, {run.label}: {told}", file=sys.stderr)

    run_inside(
        InsideJournal(folders.journal),
        prepare_tasks(inside, chosen, folders.work),
        _guests(subjects),
        gem5=Gem5Inside(program, gem5_dir(), folders.work / "outputs", runner),
        facts=_facts(options, subjects),
        timeout_s=3600.0,
        n_workers=options.workers,
        stop=runner.stop,
        observer=Observer(on_run),
    )
    return 1


def _subjects(options: argparse.Namespace) -> list[Subject]:
    """Return the allocators of this machine and those by path, glibc's first."""
    subjects = []
    for name in ("glibc", "exgen") if options.smoke else ALLOCATORS:
        try:
            subjects.append(named_subject(name))
        except MissingToolError as error:
            print(f"gem5_inside.py: left out: {error}", file=sys.stderr)
    subjects += [peer_subject(text) for text in options.peer]
    wanted = options.only.split(",") if options.only else [s.label for s in subjects]
    if unknown := set(wanted) - {subject.label for subject in subjects}:
        sys.exit(f"gem5_inside.py: --only {unknown.pop()}: is not among the allocators")
    return [s for s in subjects if s.label in wanted or s.label == ALLOCATORS[0]]


def _guests(subjects: list[Subject]) -> list[Guest]:
    environments = guest_environments([subject.environment for subject in subjects])
    return [
        Guest(
            subject.label,
            environment,
            None,
            {**subject.identity(), "configuration": None, "roles": ["default"]},
        )
        for subject, environment in zip(subjects, environments, strict=True)
    ]


def _facts(options: argparse.Namespace, subjects: list[Subject]) -> dict[str, object]:
    compared = identities_of(subject.identity() for subject in subjects)
    programs = options.programs.split(",")
    return {
        "objectives": list(JUDGED),
        "provenance": make_stamp("gem5_inside", sys.argv, of=programs, allocators=compared),
        "programs": options.programs,
    }


# Printing


def _show(journal: Path, *, is_judged: bool) -> int:
    summary = summarize_inside(InsideJournal(journal))
    if summary is None:
        sys.exit(f"gem5_inside.py: {journal}: no results yet; run without --print")
    for line in (*provenance_lines(stamps_of(journal)), "", *page_lines(summary)):
        print(line)
    if not is_judged:
        return 0
    print("\nfigures against their targets")
    judgements = list(judge(summary))
    for judgement in judgements:
        print(judgement)
    n_met = sum(judgement.is_met for judgement in judgements)
    print(f"{n_met} of {len(judgements)} reached")
    return 0 if n_met == len(judgements) else 1


def page_lines(summary: InsideSummary) -> Iterator[str]:
    """Yield the tables as Markdown: one per program and machine, then the means."""
    for table in summary.tables:
        yield f"**{table.title}**"
        yield ""
        yield from _table_lines(table)
        yield ""
    base = summary.means[0].label
    yield f"**Geometric means over all {len(summary.tables)}, relative to {base}**"
    yield ""
    heads = (objective.label.removeprefix("k ") for objective in INSIDE_OBJECTIVES.values())
    yield from _head_lines("", *heads)
    for mean in summary.means:
        cells = (mean.ratios[name] for name in INSIDE_OBJECTIVES)
        yield _line(mean.label, *("-" if cell is None else f"{cell:.3f}" for cell in cells))
    missing = list(failures(summary))
    if missing:
        yield ""
    for line in missing:
        yield f"- no result: {line}"


def _table_lines(table: InsideTable) -> Iterator[str]:
    """Yield one program on one machine; columns that no cell has are left out."""
    known = [cell.counts for cell in table.cells if cell.counts is not None]
    shown = [o for o in INSIDE_OBJECTIVES.values() if any(o.extract(c) is not None for c in known)]
    instructions = INSIDE_OBJECTIVES["instructions"]
    yield from _head_lines("", *(o.label for o in shown), f"start, {instructions.label}")
    for cell in table.cells:
        values = (objective.show(cell.counts) if cell.counts else "-" for objective in shown)
        yield _line(cell.label, *values, instructions.show(cell.start) if cell.start else "-")


def _head_lines(*cells: str) -> Iterator[str]:
    yield _line(*cells)
    yield _line("---", *("--:" for _ in cells[1:]))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def judge(summary: InsideSummary) -> Iterator[Judgement]:
    """Yield the misses of the allocation-heavy program relative to the best of the others."""
    for table in summary.tables:
        if table.program != HEAVY:
            continue
        for name in JUDGED:
            objective = INSIDE_OBJECTIVES[name]
            values = {c.label: objective.extract(c.counts) for c in table.cells if c.counts}
            others = {label: v for label, v in values.items() if label not in OURS and v}
            for ours in OURS:
                mine = values.get(ours)
                if mine is not None and others:
                    best = min(others, key=lambda label: others[label])
                    label = objective.label.removeprefix("k ")
                    what = f"{ours}: {table.title}: {label} / {best_of(others)}"
                    yield Judgement(what, mine / others[best], 1.0, note=f"best is {best}")


if __name__ == "__main__":
    sys.exit(main())
