"""Outcomes of mutants, kept in docs/decisions/mutants.jsonl.zst, and tables of them.

A line is one mutant, a killed one only its mark.  A survivor that no test can kill has a reason,
written by hand as "why".
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner import zstd

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "decisions" / "mutants.jsonl.zst"

KILLED, SURVIVED = "killed", "survived"
_MARK_DIGITS = 6


@dataclass(frozen=True)
class Record:
    """What became of one mutant; of a killed one only the first two are kept."""

    target: str
    mark: str
    """See `mark_of`."""
    path: str = ""
    """Of the file, relative to the root."""
    line: int = 0
    """From 1, when it was sampled."""
    operator: str = ""
    before: str = ""
    """The changed line, without its margins."""
    after: str = ""
    why: str = ""
    """Of a survivor: why no test can kill it."""

    @property
    def outcome(self) -> str:
        """KILLED or SURVIVED."""
        return SURVIVED if self.path else KILLED


def mark_of(path: str, before: str, after: str) -> str:
    """Return what stands for a mutant: two digests, of the changed line and of the new one."""
    return line_mark(path, before) + line_mark(path, after)


def line_mark(path: str, line: str) -> str:
    """Return the digest of a line of a file, without its margins."""
    return hashlib.sha256(f"{path}:{line.strip()}".encode()).hexdigest()[:_MARK_DIGITS]


def standing(target: str, paths: Iterable[Path]) -> list[Record]:
    """Return the records of a target whose changed lines still stand in its files."""
    marks = {
        line_mark(str(path.relative_to(ROOT)), line)
        for path in paths
        for line in path.read_text().split("\n")
    }
    return [one for one in read() if one.target == target and one.mark[:_MARK_DIGITS] in marks]


def read() -> list[Record]:
    """Return all records, of every target."""
    return [Record(**json.loads(line)) for line in zstd.decompress(FILE.read_bytes()).splitlines()]


def write(records: Iterable[Record]) -> None:
    """Replace the file; records of one target stand together."""
    lines = [
        json.dumps({name: value for name, value in asdict(one).items() if value})
        for one in sorted(records, key=lambda one: (one.target, one.outcome))
    ]
    FILE.write_bytes(zstd.compress("".join(f"{line}\n" for line in lines).encode(), level=19))


def table(records: Sequence[Record]) -> str:
    """Return how many mutants were killed, in all and of each target, as Markdown."""
    counts: dict[str, Counter[str]] = {}
    for one in records:
        outcome = "same" if one.why else one.outcome
        counts.setdefault(one.target, Counter())[outcome] += 1
    every = sum(counts.values(), Counter[str]())
    n_real = every[KILLED] + every[SURVIVED]
    share = f", {every[KILLED] / n_real:.1%}" if n_real else ""
    rows = [
        (
            f"{every.total()} sampled; of the {n_real} that change what a program does, "
            f"{every[KILLED]} killed{share}."
        ),
        "",
        "| Target | Sampled | Killed | Equivalent | Survived |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, count in counts.items():
        cells = (name, count.total(), count[KILLED], count["same"], count[SURVIVED])
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def survivors(records: Sequence[Record]) -> str:
    """Return the mutants that no test kills, with their reasons, as Markdown."""
    rows = ["| Where | Line | Mutant | Why no test kills it |", "|---|---|---|---|"]
    for one in records:
        if one.outcome == SURVIVED:
            row = (f"`{one.path}`", _code(one.before), _code(one.after), one.why or "**a gap**")
            rows.append(f"| {' | '.join(row)} |")
    return "\n".join(rows)


def _code(text: str) -> str:
    return f"`` {text} ``".replace("|", "\\|") if text else "(deleted)"
