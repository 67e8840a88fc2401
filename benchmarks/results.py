"""Results files: packed, each part with a stamp of what it was measured with and on.

`benchmarks/results/NAME.json.zst` is one JSON object: `parts`, which a benchmark measures one by
one, and `provenance`, a list of stamps.  A stamp says of which parts it is (`of`), and holds what
`tuner.provenance` knows, the commit, a digest of each source that the figures depend on, the
allocators that were compared with their versions and digests, and the rounds.  Parts measured at
another time have another stamp.  Stamps of former times may lack the commit; their `kept_in` is
the commit of `kept_on` that added the results, later than the measurement.

In the file rows lie by column, which packs better: a list of objects is
`{"=rows": [order, table, ...]}`, a table for each set of members; `order` has the table of each
row, null for one that is missing, and is empty where one table has all.  A list of JSON texts, such
as a journal, is `{"=lines": rows}`.

Stale is a part whose sources have changed: by their digests, or, for a stamp without them, by
`git diff` from its commit.  A comment that changed counts like any other change.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuner import zstd
from tuner.errors import SpecError
from tuner.output import write_bytes
from tuner.provenance import DIGEST_CHARACTERS, digest, take_provenance

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"

Stamp = Mapping[str, Any]
Parts = Mapping[str, Any]
"""Name of a part -> what its benchmark keeps of it."""
Identities = Mapping[str, Mapping[str, Any]]
"""Label of an allocator -> its version and the digest of its library."""

VERSION: Final = 5
"""Since 4 by column, since 5 with missing rows too; older files are read."""
_LEVEL: Final = 19
"""Of zstd: written once, read often."""
_DIGITS: Final = 5
"""Significant digits that are kept of what was measured; no figure repeats to more."""
_ROWS: Final = "=rows"
_LINES: Final = "=lines"
_MANY: Final = 4
"""Rows that lie by column; fewer are smaller as they are."""
_FOLDERS: Final = re.compile(r'(?<=["= ])/(?:[^/"\s]+/)+')


def results_path(name: str) -> Path:
    """Return the results file of a benchmark."""
    return RESULTS / f"{name}.json.zst"


def read_results(path: Path) -> dict[str, Any]:
    """Return a results file; an empty one where there is none."""
    if not path.exists():
        return {"provenance": [], "parts": {}}
    text = zstd.decompress(path.read_bytes())
    found: dict[str, Any] = json.loads(text, object_hook=_by_row)
    return found


def write_results(path: Path, name: str, parts: Parts, stamps: Sequence[Stamp]) -> None:
    """Write a results file; folders of libraries and programs are left out of it.

    The one that is there stays as it is until the new one is whole.

    Raises:
        OutputError: there is no room.
    """
    head = {"schema": f"malloc-tuner.benchmark.{name}", "version": VERSION}
    document = {**head, "provenance": stamps, "parts": _rounded(parts)}
    text = json.dumps(_by_column(document), separators=(",", ":"))
    write_bytes(path, zstd.compress(_FOLDERS.sub("", text).encode(), _LEVEL))


def _rounded(value: object) -> object:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return type(value)(float(f"{value:.{_DIGITS}g}"))
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def _by_column(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _by_column(item) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    known = [row for row in value if row is not None]
    if len(known) >= _MANY and all(isinstance(row, Mapping) and row for row in known):
        return {_ROWS: _tables(value)}
    if (rows := _rows_of_lines(value)) is not None:
        return {_LINES: _by_column(rows)}
    return [_by_column(item) for item in value]


def _tables(rows: Sequence[Mapping[str, Any] | None]) -> list[object]:
    alike: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row is not None:
            alike.setdefault(tuple(row), []).append(row)
    kinds = list(alike)
    order = [None if row is None else kinds.index(tuple(row)) for row in rows]
    order = order if any(kind != 0 for kind in order) else []
    tables = [
        {name: _by_column([row[name] for row in some]) for name in kind}
        for kind, some in alike.items()
    ]
    return [order, *tables]


def _rows_of_lines(lines: Sequence[object]) -> list[object] | None:
    """Return the values of JSON texts; None where `json.dumps` writes others."""
    if not lines or not all(isinstance(line, str) for line in lines):
        return None
    try:
        rows = [json.loads(str(line)) for line in lines]
    except ValueError:
        return None
    return rows if [*map(json.dumps, rows)] == [*lines] else None


def _by_row(found: dict[str, Any]) -> object:
    """Return an object of a file as it was before `_by_column`; those within it are already."""
    if _LINES in found:
        return [json.dumps(row) for row in found[_LINES]]
    if _ROWS not in found:
        return found
    order, *tables = found[_ROWS]
    rows = [_rows(table) for table in tables]
    if not order:
        return list(rows[0])
    return [None if kind is None else next(rows[kind]) for kind in order]


def _rows(table: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    return (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))


# Stamps


def make_stamp(
    command: Sequence[str], depends_on: Sequence[str], *, of: Iterable[str]
) -> dict[str, Any]:
    """Return the stamp of what is measured now.

    Args:
        command: the words that started it.
        depends_on: files and folders whose change makes the figures old.
        of: the parts of the file.

    Raises:
        SpecError: this is no git checkout, so what was measured has no commit.
    """
    known = commit()
    if known is None:
        raise SpecError(
            f"{ROOT}: no git checkout; figures are kept with the commit they were measured at"
        )
    return {
        "of": sorted(of),
        "commit": known,
        "sources": source_digests(depends_on),
        "rounds": None,
        "allocators": {},
        **take_provenance(command).as_record(),
    }


def merge_stamps(earlier: Iterable[Stamp], stamp: Stamp) -> list[Stamp]:
    """Return the stamps of a file after some of its parts were measured anew.

    Stamps that differ only in their parts are one.
    """
    anew = set(stamp["of"])
    kept = [{**one, "of": [part for part in one["of"] if part not in anew]} for one in earlier]
    same = [one for one in kept if {**one, "of": ()} == {**stamp, "of": ()}]
    parts = sorted(anew.union(*(one["of"] for one in same)))
    return [*(one for one in kept if one["of"] and one not in same), {**stamp, "of": parts}]


def commit() -> str | None:
    """Return the commit of this checkout, with a plus where files differ from it; None: no git.

    Results are what a benchmark itself writes, and do not count.
    """
    found = _git("rev-parse", "HEAD")
    if found is None:
        return None
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return found.strip() + ("+" if changed else "")


def source_digests(places: Iterable[str]) -> dict[str, str]:
    """Return the digest of files and folders of this checkout."""
    return {place: _source_digest(ROOT / place) for place in places}


def _source_digest(place: Path) -> str:
    if place.is_file():
        return digest(place)
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = "".join(f"{path.relative_to(place)} {digest(path)}\n" for path in files)
    return hashlib.sha256(found.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _git(*words: str) -> str | None:
    """Return what git prints about this checkout; None where it cannot."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.stdout if done.returncode == 0 else None


# What stamps say


def changes_since(depends_on: Sequence[str], stamp: Stamp) -> list[str] | None:
    """Return which of the places that figures depend on changed since their measurement.

    None: not known, since neither digests nor the commit are known here.
    """
    known = stamp.get("sources") or {}
    now = source_digests(place for place in depends_on if place in known)
    found = [place for place, value in now.items() if known[place] != value]
    others = [place for place in depends_on if place not in known]
    if not others:
        return found
    since = (stamp.get("commit") or stamp.get("kept_in") or "").rstrip("+")
    changed = _git("diff", "--name-only", since, "--", *others) if since else None
    if changed is None:
        return [*found, *others] if known else None
    files = changed.split()
    return found + [p for p in others if any(f == p or f.startswith(f"{p}/") for f in files)]


def stamp_lines(stamps: Sequence[Stamp]) -> Iterator[str]:
    """Yield a line for each stamp: what, commit, when, rounds, machine, versions."""
    for stamp in stamps:
        what = f"{_enumerate(stamp['of'])}: " if len(stamps) > 1 else ""
        parts = [f"{what}measured at {_when(stamp)}"]
        if stamp.get("rounds"):
            parts.append(rounds_in_words(stamp["rounds"]))
        if stamp.get("machine"):
            parts.append(_machine(stamp["machine"]))
        if stamp.get("allocators"):
            known = stamp["allocators"].items()
            parts.append(", ".join(f"{label} {_version(one)}" for label, one in known))
        yield "; ".join(parts)


def rounds_in_words(rounds: int) -> str:
    """Return what the figures of so many rounds are."""
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _when(stamp: Stamp) -> str:
    known, day = stamp.get("commit"), stamp.get("date") or "day unknown"
    kept = f"{stamp['kept_in'][:7]} of {stamp['kept_on']}" if stamp.get("kept_in") else None
    if known:
        changed = " with changes" if known.endswith("+") else ""
        return f"commit {known[:7]}{changed} ({stamp.get('date') or f'kept in {kept}'})"
    return f"an unknown commit ({day}{f', kept in {kept}' if kept else ''})"


def _machine(machine: Mapping[str, Any] | str) -> str:
    if isinstance(machine, str):
        return machine
    return f"{machine['cpu_model']}, {machine['n_cpus']} cores, {machine['system']}"


def _version(one: Mapping[str, Any]) -> str:
    version, sha256 = one.get("version") or "(version unknown)", one.get("sha256")
    return f"{version} [{sha256[:8]}]" if sha256 else version


def _enumerate(names: Sequence[str]) -> str:
    """Return at most four names, and how many there are beyond."""
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
