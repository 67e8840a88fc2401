"""Cache misses of allocators inside simulated machines: gem5 as the instrument.

An allocation-heavy guest, the emulator on a trace and a guest of two threads run in gem5's
system-call emulation on a desktop-like and a server-like machine, under every allocator as
shipped: misses per thousand instructions in each cache and TLB, DRAM traffic, instructions per
cycle.  Starts are subtracted.  A simulation repeats itself to the last count, so each is run
once, and the load of this computer does not matter; it is repeated only when gem5, machine,
program, library, libc or settings have changed.  Needs GEM5, or --gem5.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.allocator_targets import OURS, best_of
from benchmarks.gem5_traces import gem5_option, lacks_gem5
from benchmarks.harness import (
    PEERS,
    Benchmark,
    Call,
    Target,
    allocator_options,
    chosen_subjects,
    identities,
    table,
)
from benchmarks.results import Parts
from benchmarks.rounds import failed_target
from benchmarks.sources import EXGEN, GEM5
from tuner.allocators.libraries import find_library
from tuner.bench.subjects import BenchSubject
from tuner.compare.loop import Observer
from tuner.compare.plan import Step
from tuner.config.gem5_inside import Inside, InsideProgram, load_inside
from tuner.errors import SpecError
from tuner.measure.gem5 import find_gem5
from tuner.measure.gem5_inside import Counted, Gem5Inside, InsideTask, prepare_tasks
from tuner.measure.program import ProgramRunner
from tuner.metrics import INSIDE
from tuner.provenance import digest
from tuner.records import Configuration, Outcome
from tuner.report.gem5 import inside_grids, out_lines
from tuner.resources import gem5_dir
from tuner.store.subject import DEFAULT, Subject
from tuner.validate.gem5_summary import Change, Gem5Summary
from tuner.validate.inside import run_inside
from tuner.validate.inside_summary import summarize_inside
from tuner.validate.setup import Prepared

PART: Final = "runs"
HEAVY: Final = "lists"
"""The allocation-heavy program, which is judged."""
PROGRAMS: Final = (HEAVY, "replay", "pair")
JUDGED: Final = ("l1d_mpki", "l2_mpki", "l1d_misses", "l2_misses", "cycles")
"""What is judged on it.  Misses per thousand instructions flatter an allocator that executes more
instructions, hence misses as such, and cycles."""
_SMOKE_SCALE: Final = ("50",)
_LIBC: Final = "libc.so.6"


def measure(call: Call) -> None:
    """Run what is missing; the lines of the journal are what is kept."""
    inside = load_inside(gem5_dir() / "inside.toml")
    chosen = inside.choose(words_of(call, PROGRAMS))
    if call.is_smoke:
        brief = {"arguments": _SMOKE_SCALE}
        chosen = [(p.model_copy(update=brief), m) for p, m in chosen if p.name == HEAVY][:1]
    simulate(call, inside, chosen, ("glibc", "exgen") if call.is_smoke else (*PEERS, *OURS), JUDGED)


def simulate(
    call: Call,
    inside: Inside,
    chosen: Sequence[tuple[InsideProgram, Path]],
    names: Sequence[str],
    objectives: Sequence[str],
    *,
    counts: Collection[str] | None = None,
) -> None:
    """Run programs on machines under allocators as shipped and keep the lines of the journal.

    Args:
        call: of a benchmark with `gem5_options`.
        inside: where the programs come from.
        chosen: programs with machines.
        names: allocators, unless the call names others.
        objectives: of `INSIDE`, those that are judged.
        counts: those that are kept of every run; None: all.
    """
    if not call.choose([PART], [PART]) or lacks_gem5(call, PART):
        return
    program = find_gem5(call.options.gem5)
    subjects = chosen_subjects(call, names)
    known = identities(subjects)
    libc = digest(find_library(_LIBC) or Path(_LIBC))
    journal = call.journal(PART, ["inside", libc])
    _write_lines(journal, lines_under(libc, call.parts.get(PART, [])))

    def on_run(step: Step[InsideTask], run: Outcome[Counted]) -> None:
        counted = f"{run.values.counts['instructions']} instructions" if run.values else ""
        print(f"{step.task}, {step.subject}: {run.reason or counted}", file=sys.stderr)

    run_inside(
        journal,
        prepare_tasks(inside, chosen, call.folder),
        [_prepared(subject) for subject in subjects],
        gem5=Gem5Inside(program, gem5_dir(), call.folder / "outputs", ProgramRunner(), 3600.0),
        facts={"objectives": list(objectives), "libc": libc},
        n_workers=call.options.workers,
        observer=Observer(on_run),
    )
    kept = shown_lines(journal.read_text(encoding="utf-8"), counts)
    call.keep(PART, kept, allocators=known)


def words_of(call: Call, default: Sequence[str]) -> list[str]:
    """Return the programs and machines that were asked for, else the default.

    Raises:
        SpecError: others would take the place of the default in the results.
    """
    asked: str | None = call.options.programs
    if asked is None:
        return [*default]
    words = asked.split(",")
    if set(words) != set(default) and not call.is_smoke and call.options.keep is None:
        named = ",".join(default)
        raise SpecError(f"--programs {asked}: results are of {named}; keep others with --keep FILE")
    return words


def shown_lines(journal: str, counts: Collection[str] | None = None) -> list[str]:
    """Return of a journal the header, the last session, and the runs that it shows.

    Args:
        journal: its text.
        counts: those that stay of every run; None: all.
    """
    found = {}
    for record in map(json.loads, journal.splitlines()):
        if counts is not None and record.get("counts"):
            record["counts"] = {n: v for n, v in record["counts"].items() if n in counts}
        found[record.get("identity", record["kind"])] = record
    shown = {name for row in found["session"]["shown"] for name in row[3:]}
    return [json.dumps(one) for name, one in found.items() if one["kind"] != "run" or name in shown]


def lines_under(libc: str, kept: list[str]) -> list[str]:
    """Return the lines of the last results, if guests had this libc; nothing where that is unknown.

    It is in every guest, and in no digest of a run.

    Args:
        libc: digest of the library.
        kept: lines of a journal.
    """
    records = [record for record in map(json.loads, kept) if record["kind"] == "session"]
    return kept if records and records[-1]["facts"].get("libc") == libc else []


def _write_lines(journal: Path, lines: list[str]) -> None:
    """Begin where the last results ended, unless a run was stopped since they were kept."""
    if not journal.exists():
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _prepared(one: BenchSubject) -> Prepared:
    subject = Subject(one.label, Configuration(one.label), None, (DEFAULT,))
    return Prepared(subject, one.environment, None)


# Showing


def summaries_of(parts: Parts) -> list[Gem5Summary]:
    """Return the last session of the kept journal, over all programs last.

    Raises:
        StoreError: it is damaged.
    """
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "inside.jsonl"
        _write_lines(journal, parts[PART])
        return summarize_inside(journal)


def lines(parts: Parts) -> Iterator[str]:
    """Yield the tables."""
    yield from page_lines(summaries_of(parts))


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what is judged."""
    summaries = summaries_of(parts)
    yield from judge(summaries)
    yield from without_result(summaries)


def without_result(summaries: Sequence[Gem5Summary]) -> Iterator[Target]:
    """Yield on how many of the simulations exgen has no result, where there are such."""
    rows = [row for summary in alone_of(summaries) for row in summary.subjects]
    ours = [row for row in rows if row.subject.label == OURS[0]]
    yield from failed_target(sum(row.change("cycles") is None for row in ours), OURS[0])


def alone_of(summaries: Sequence[Gem5Summary]) -> list[Gem5Summary]:
    """Return those of one program on one machine."""
    return [summary for summary in summaries if len(summary.simulations) == 1]


def page_lines(summaries: Sequence[Gem5Summary]) -> Iterator[str]:
    """Yield the tables as Markdown: one per program and machine, then the means."""
    alone, over_all = alone_of(summaries), summaries[-1]
    for summary, grid in zip(alone, inside_grids(alone), strict=True):
        yield f"**{summary.title}**"
        yield ""
        yield from table(["", *grid.heads], [[row.names[0], *row.values] for row in grid.rows])
        yield ""
    base = over_all.subjects[0].subject.label
    yield f"**Geometric means over all {len(alone)}, relative to {base}**"
    yield ""
    yield from table(["", *(metric.label for metric in INSIDE.values())], list(_means(over_all)))
    missing = list(out_lines(over_all))
    if missing:
        yield ""
    for line in missing:
        yield f"- no result: {line}"


def _means(summary: Gem5Summary) -> Iterator[list[str]]:
    for row in summary.subjects:
        changes = (row.change(name) for name in INSIDE)
        yield [row.subject.label, *(_mean(one, is_baseline=row.is_baseline) for one in changes)]


def _mean(change: Change | None, *, is_baseline: bool) -> str:
    """Return the ratio to the baseline; a dash where a count is 0, so that there is none."""
    if change is not None and is_baseline:
        return "1.000"
    return f"{change.ratio.median:.3f}" if change is not None and change.ratio else "-"


def judge(summaries: Sequence[Gem5Summary]) -> Iterator[Target]:
    """Yield the misses of the allocation-heavy program relative to the best of the others."""
    for summary in alone_of(summaries):
        if summary.simulations[0].program != HEAVY:
            continue
        for name in JUDGED:
            changes = {row.subject.label: row.change(name) for row in summary.subjects}
            values = {label: change.value for label, change in changes.items() if change}
            others = {label: v for label, v in values.items() if label not in OURS and v}
            for ours in OURS:
                mine = values.get(ours)
                if mine is not None and others:
                    best = min(others, key=lambda label: others[label])
                    what = f"{ours}: {summary.title}: {INSIDE[name].label} / {best_of(others)}"
                    yield Target(what, mine / others[best], 1.0, note=f"best is {best}")


def gem5_options(parser: argparse.ArgumentParser, programs: Sequence[str], file: str) -> None:
    """Add the options of benchmarks that simulate; `programs` are the default."""
    allocator_options(parser)
    gem5_option(parser)
    of = f"of gem5-validate/{file}; default: {','.join(programs)}; others need --keep"
    parser.add_argument("--programs", metavar="NAME,...", help=of)
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="simulations at once")


def _options(parser: argparse.ArgumentParser) -> None:
    gem5_options(parser, PROGRAMS, "inside.toml")


BENCHMARK: Final = Benchmark(
    name="gem5_inside",
    about=__doc__,
    claim="exgen has no more cache misses and cycles than others inside simulated machines.",
    depends_on=(
        *EXGEN,
        *GEM5,
        "gem5-validate/inside.toml",
        "tuner/measure/gem5_inside.py",
        *("rand_malloc/emulator", "rand_malloc/trace"),
        "configs/workloads/perl-index/perl-start.trace",
    ),
    measure=measure,
    needs=(PART,),
    lines=lines,
    targets=targets,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
