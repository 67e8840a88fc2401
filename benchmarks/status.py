"""Which results are older than what they measure, and what pages say about them.

    benchmarks/status.py              a line for each part of every results file: fresh or stale
    benchmarks/status.py NAME...      only these results files
    benchmarks/status.py --table      README's table of claims and outcomes
    benchmarks/status.py --write      write the table, and where figures come from, into the pages
    benchmarks/status.py --check      exit status 1 when a page disagrees with the results

A page has ``<!-- provenance:NAME: begin -->`` and its end where it shows figures of NAME; README
has ``<!-- figures: begin -->``.  What stands between is of the results file, so it changes when
results do and not with every commit.  What has become newer than the results is added when the
page is written, and not compared: this command tells what it is today.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.outcomes import CLAIMS, block_lines, table_lines, without_age
from benchmarks.provenance import (
    DEPENDS_ON,
    ROOT,
    changes_since,
    provenance_lines,
    results_path,
    stamps_of,
)
from tuner.output import write_text

FIGURES: Final = "figures"
"""Marker of the table of claims."""
_BLOCK: Final = re.compile(
    r"<!-- (?P<name>figures|provenance:\w+): begin -->\n(?P<text>.*?)<!-- (?P=name): end -->",
    re.DOTALL,
)


def pages() -> list[Path]:
    """Return every page that people read."""
    found = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "allocator" / "README.md")
    return sorted(found)


@cache
def block_text(name: str) -> str:
    """Return what belongs between the markers of a name.

    Raises:
        KeyError: no results file has the name.
    """
    if name == FIGURES:
        lines = table_lines()
    else:
        results = name.partition(":")[2]
        if results not in DEPENDS_ON:
            raise KeyError(results)
        told = f"`benchmarks/status.py {results}` tells what has changed since."
        lines = [*block_lines(results), "", told]
    return "\n".join(lines) + "\n"


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


def status_lines(name: str) -> Iterator[str]:
    """Yield a line for each stamp of a results file: what, when, and what changed since."""
    stamps = stamps_of(results_path(name))
    if not stamps:
        yield f"{name}: no results yet"
    for stamp in stamps:
        (line,) = provenance_lines([stamp])
        changed = changes_since(name, stamp)
        if changed is None:
            verdict = "UNKNOWN: neither its commit nor its sources are known here"
        elif changed:
            verdict = f"STALE: {', '.join(changed)} changed since"
        else:
            verdict = "fresh"
            if not stamp.get("commit"):
                verdict = (
                    "nothing changed since it was kept; measured earlier, at an unknown commit"
                )
        what = ", ".join(stamp["of"][:4]) + (", ..." if len(stamp["of"]) > 4 else "")
        yield f"{name} ({what}): {verdict}\n    {line}"


def main() -> int:
    """Do what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--table", action="store_true", help="print README's table")
    parser.add_argument("--write", action="store_true", help="write the pages' blocks")
    parser.add_argument("--check", action="store_true", help="compare the pages' blocks")
    parser.add_argument("--smoke", action="store_true", help="as without an option")
    options = parser.parse_args()
    if unknown := set(options.names) - set(DEPENDS_ON):
        parser.error(f"{', '.join(unknown)}: there are {', '.join(DEPENDS_ON)}")
    if options.table:
        print("\n".join(table_lines()))
        return 0
    if options.write:
        for page in pages():
            write_blocks(page)
        return 0
    if options.check:
        wrong = [f"{page.relative_to(ROOT)}: {n}" for page in pages() for n in disagreements(page)]
        for line in wrong:
            print(f"{line} is not what the results say; run benchmarks/status.py --write")
        return 1 if wrong else 0
    for name in options.names or [claim.name for claim in CLAIMS]:
        print("\n".join(status_lines(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
