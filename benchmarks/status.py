"""Which results are older than what they measure, and what pages say about them.

    benchmarks/status.py              a line for each part of every results file: fresh or stale
    benchmarks/status.py NAME...      only these results files
    benchmarks/status.py --raw NAME   the whole results file, as JSON
    benchmarks/status.py --write      write claims, origins of figures and tables into the pages
    benchmarks/status.py --check      exit status 1 when a page disagrees with the results

docs/claims.md has ``<!-- figures: begin -->`` and its end around the table of claims, a page that
shows figures of NAME has ``<!-- provenance:NAME: begin -->``, and ``<!-- NAME:BLOCK: begin -->``
around a benchmark's tables.  What stands between is of the results file, so it changes when results
do and not with every commit.  What has become newer than the results is added when the page is
written, and not compared: this command shows what it is today.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks import (
    allocators,
    answers,
    calibration,
    false_alarms,
    fidelity,
    gem5_answer,
    gem5_case,
    gem5_inside,
    gem5_scaling,
    gem5_traces,
    heap_curves,
    mimalloc_bench,
    noise,
    overhead,
    record,
    scale,
    search,
    service_emulation,
    service_recording,
    services,
)
from benchmarks.harness import Benchmark
from benchmarks.results import ROOT, Stamp, changes_since, read_results, results_path, stamp_lines
from tuner.output import write_text

BENCHMARKS: Final[dict[str, Benchmark]] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        record, overhead, calibration, search, fidelity, heap_curves,
        false_alarms, noise, answers, services, service_recording, service_emulation,
        scale, allocators, mimalloc_bench,
        gem5_answer, gem5_case, gem5_traces, gem5_inside, gem5_scaling,
    )
}  # fmt: skip
"""In the order of the table of claims."""
FIGURES: Final = "figures"
MOST_ROWS: Final = 10
"""Of a table in a page that people read."""
_HEAD_ROWS: Final = 2
"""Titles and the rule below them."""
_BLOCK: Final = re.compile(
    r"<!-- (?P<name>figures|\w+:[\w-]+): begin -->\n(?P<text>.*?)<!-- (?P=name): end -->", re.DOTALL
)


def pages() -> list[Path]:
    """Return every page that people read."""
    found = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "allocator" / "README.md")
    return sorted(found)


# Blocks


@cache
def block_text(name: str) -> str:
    """Return what belongs between the markers of a name.

    Raises:
        KeyError: there is no such benchmark or block.
    """
    if name == FIGURES:
        return "\n".join(claims_table()) + "\n"
    first, _, second = name.partition(":")
    if first == "provenance":
        lines = [origin_line(BENCHMARKS[second])]
    else:
        parts = read_results(results_path(first))["parts"]
        lines = [narrow(x) for x in shortened(list(BENCHMARKS[first].blocks[second](parts)), first)]
    return "\n".join(lines) + "\n"


def claims_table() -> Iterator[str]:
    """Yield the table of all claims as Markdown."""
    yield "| What is claimed | Outcome of the last run | Measured at | Command |"
    yield "|---|---|---|---|"
    for name, benchmark in BENCHMARKS.items():
        found = read_results(results_path(name))
        outcome = benchmark.outcome_text(found["parts"])
        commits = _commits(benchmark, found["provenance"])
        yield f"| {benchmark.claim} | {outcome} | {commits} | `benchmarks/{name}.py` |"


def _commits(benchmark: Benchmark, stamps: Sequence[Stamp]) -> str:
    """Return the commits of results, and what is newer than they are."""
    if not stamps:
        return "-"
    shown = list(dict.fromkeys(short_commit(one["commit"]) for one in stamps))
    words = shown[0] if len(shown) == 1 else f"{len(shown)} commits: {', '.join(shown)}"
    changed = [p for one in stamps for p in changes_since(benchmark.depends_on, one) or ()]
    return words + age_words(changed)


def short_commit(commit: str | None) -> str:
    """Return a commit for a page, with a plus where the tree had other changes.

    Example:
        >>> short_commit("755bd8b1f5e712ac+"), short_commit(None)
        ('755bd8b+', 'unknown commit')
    """
    return commit[:7] + "+" * commit.endswith("+") if commit else "unknown commit"


def origin_line(benchmark: Benchmark) -> str:
    """Return what a page that shows figures says about where they come from."""
    stamps = read_results(results_path(benchmark.name))["provenance"]
    more = (
        f"`benchmarks/status.py {benchmark.name}` shows when, on what machine, in how many rounds"
    )
    return f"Measured at {_commits(benchmark, stamps)}. {more}."


def age_words(changed: Sequence[str] | None) -> str:
    """Return what makes results old, for a page: nothing where they are not, or it is unknown."""
    parts = dict.fromkeys(place.partition("/")[0] for place in changed or ())
    return f"; **older than {', '.join(parts)} of this tree**" if parts else ""


def without_age(text: str) -> str:
    """Return a page's text without what `age_words` added when it was written.

    That changes with the tree; the rest only with the results.
    """
    return re.sub(r"; \*\*older than [^*]* of this tree\*\*", "", text)


def shortened(lines: Sequence[str], name: str) -> list[str]:
    """Return Markdown without the rows of long tables beyond the tenth, and where they are.

    Args:
        lines: Markdown; the rows that matter most stand first in their table.
        name: of the benchmark that prints them all.
    """
    found: list[str] = []
    n_rows = 0
    for line in [*lines, ""]:
        if line.startswith("|"):
            n_rows += 1
            if n_rows - _HEAD_ROWS <= MOST_ROWS:
                found.append(line)
            continue
        if n_rows - _HEAD_ROWS > MOST_ROWS:
            rest = n_rows - _HEAD_ROWS - MOST_ROWS
            found += ["", f"and {rest} more: `benchmarks/{name}.py --print`"]
        n_rows = 0
        found.append(line)
    return found[:-1]


def narrow(line: str) -> str:
    """Return a row of a table without what makes its columns even, which no page shows.

    Example:
        >>> narrow("| glibc  |   1.000 |"), narrow("| ------ | ------: |")
        ('| glibc | 1.000 |', '| --- | ---: |')
    """
    return re.sub(r"-{4,}", "---", re.sub(r" {2,}", " ", line)) if line[:1] == "|" else line


# Pages


def disagreements(page: Path) -> Iterator[str]:
    """Yield the names of the blocks of a page that are not what the results say."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if without_age(block["text"]) != without_age(block_text(block["name"])):
            yield block["name"]


def write_blocks(page: Path) -> None:
    """Put into a page what the results say.

    Raises:
        OutputError: it cannot be written.
    """
    text = page.read_text(encoding="utf-8")
    anew = _BLOCK.sub(
        lambda b: f"<!-- {b['name']}: begin -->\n{block_text(b['name'])}<!-- {b['name']}: end -->",
        text,
    )
    if anew != text:
        write_text(page, anew)


def status_lines(benchmark: Benchmark) -> Iterator[str]:
    """Yield a line for each stamp of a results file: what, when, what changed since; what lacks."""
    found = read_results(results_path(benchmark.name))
    stamps = found["provenance"]
    if not stamps:
        yield f"{benchmark.name}: no results yet"
    elif lacking := benchmark.lacking(found["parts"]):
        yield f"{benchmark.name}: {lacking}"
    for stamp, line in zip(stamps, stamp_lines(stamps), strict=True):
        changed = changes_since(benchmark.depends_on, stamp)
        if changed is None:
            verdict = "UNKNOWN: neither its commit nor its sources are known here"
        elif changed:
            verdict = f"STALE: {', '.join(changed)} changed since"
        elif stamp.get("commit"):
            verdict = "fresh"
        else:
            verdict = "nothing changed since it was kept; measured earlier, at an unknown commit"
        what = ", ".join(stamp["of"][:4]) + (", ..." if len(stamp["of"]) > 4 else "")
        yield f"{benchmark.name} ({what}): {verdict}\n    {line}"


def main() -> int:
    """Do what the command line says; return the exit status."""
    title, _, text = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=title, epilog=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--raw", action="store_true", help="print whole results files")
    parser.add_argument("--write", action="store_true", help="write the pages' blocks")
    parser.add_argument("--check", action="store_true", help="compare the pages' blocks")
    parser.add_argument("--smoke", action="store_true", help="as without an option")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"{', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    if options.check:
        wrong = [f"{page.relative_to(ROOT)}: {n}" for page in pages() for n in disagreements(page)]
        for line in wrong:
            print(f"{line} is not what the results say; run benchmarks/status.py --write")
        return 1 if wrong else 0
    for page in pages() if options.write else ():
        write_blocks(page)
    for name in () if options.write else options.names or BENCHMARKS:
        if options.raw:
            print(json.dumps(read_results(results_path(name))))
        else:
            print("\n".join(status_lines(BENCHMARKS[name])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
