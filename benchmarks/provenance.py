"""Results files: written in one form, each part with what it was measured with and on.

Every benchmark keeps its results here.  A results file is one JSON object; its member
`provenance` is a list of stamps.  A stamp says of which parts of the file it is (`of`), and holds
what `tuner.provenance` tells, the commit, a digest of each source the figures depend on, the
allocators that were compared with their versions and digests, and the rounds.  Parts measured at
another time have another stamp.  Results older than this module have what was known: `commit`
may be null, and `kept_in` is the commit of `kept_on` that added them, later than the measurement.

Stale is a part whose sources have changed: by their digests, or, for a stamp without them, by
`git diff` from its commit.  A comment that changed counts; nobody can tell it from the rest.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.allocator_runs import without_folders
from tuner.bench.subjects import named_subject
from tuner.output import write_text
from tuner.provenance import DIGEST_CHARACTERS, digest, take_provenance

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"

Stamp = Mapping[str, Any]

_EXGEN: Final = ("allocator/include", "allocator/src")
_EMULATOR: Final = (
    *("rand_malloc/emulator", "rand_malloc/plugin", "rand_malloc/trace", "rand_malloc/profile"),
    *("tuner/measure", "tuner/objectives.py"),
)
MODEL_SOURCES: Final = (
    "tuner/trace/lives.py",
    *(
        f"tuner/profile/{name}.py"
        for name in ("fit", "model", "plateaus", "scaling", "variation", "windows")
    ),
)
"""What makes a workload of a trace."""
_SEARCH: Final = ("tuner/search", "tuner/campaign", "tuner/selection.py", "tuner/space.py")
_VALIDATE: Final = ("rand_malloc/supervise", "tuner/validate")
_GEM5: Final = ("gem5-validate/machines", "gem5-validate/guests", "gem5-validate/run.py")

DEPENDS_ON: Final[Mapping[str, Sequence[str]]] = {
    "allocators": (*_EXGEN, "rand_malloc/bench", "rand_malloc/emulator", "rand_malloc/supervise",
                   "benchmarks/allocator_programs.py"),
    "calibration": ("rand_malloc/emulator", "tuner/measure/instruments.py"),
    "campaigns": (*_EXGEN, *_EMULATOR, *_SEARCH, *_VALIDATE, "configs/allocators",
                  "configs/campaigns"),
    "false_alarms": ("rand_malloc/supervise", "tuner/stats.py", "tuner/validate"),
    "fidelity": (*_EXGEN, *_EMULATOR, *MODEL_SOURCES, "tuner/fidelity",
                 "benchmarks/naive_models.py"),
    "gem5_case": (*_EXGEN, *_EMULATOR, *_SEARCH, *_VALIDATE, *_GEM5, "configs/allocators"),
    "gem5_inside": (*_EXGEN, *_GEM5, "gem5-validate/inside.toml", "tuner/measure/gem5_inside.py"),
    "generator": ("rand_malloc/emulator", "rand_malloc/profile", "rand_malloc/trace"),
    "heap_curves": (*_EXGEN, *_EMULATOR, "rand_malloc/recorder", "rand_malloc/supervise",
                    "benchmarks/heap_curves.c"),
    "mimalloc_bench": (*_EXGEN, "rand_malloc/supervise", "benchmarks/mimalloc_bench.py"),
    "overhead": (*_EMULATOR, *_SEARCH, "tuner/store", "tuner/cli", "tuner/allocators"),
    "presets": (*_EXGEN, *_EMULATOR),
    "record": ("rand_malloc/recorder", "rand_malloc/trace", "tuner/recording"),
    "screening": (*_EMULATOR, *_SEARCH, "tuner/profile/variation.py"),
    "search": ("tuner/search", "tuner/objectives.py", "benchmarks/search_problem.py"),
    "stress": ("allocator/include", "allocator/src", "allocator/test"),
    "touching": (*_EXGEN, *_EMULATOR, "rand_malloc/recorder", "rand_malloc/supervise"),
}  # fmt: skip
"""Results file → files and folders whose change makes its figures old."""

_LINE_CHARACTERS: Final = 400
"""A value of a results file that is shorter stands on one line."""

UNKNOWN: Final = "unknown"


# Files


def results_path(name: str) -> Path:
    """Return the results file of a benchmark."""
    found = [path for suffix in (".json", ".jsonl") if (path := RESULTS / (name + suffix)).exists()]
    return found[0] if found else RESULTS / f"{name}.json"


def write_results(path: Path, document: Mapping[str, Any]) -> None:
    """Write a results file; folders of libraries and programs are left out of it.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(path, without_folders(_json(document)) + "\n")


def _json(value: object, indent: str = "") -> str:
    """Return JSON with a line for each member of whatever is too long for one line."""
    text = json.dumps(value)
    if len(text) <= _LINE_CHARACTERS or not isinstance(value, dict | list):
        return text
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_json(item, inner)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        items = [_json(item, inner) for item in value]
        opening, closing = "[", "]"
    joined = f",\n{inner}".join(items)
    return f"{opening}\n{inner}{joined}\n{indent}{closing}"


def stamps_of(path: Path) -> list[Stamp]:
    """Return the stamps of a results file; none if there is no such file."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(json.loads(text).get("provenance", []))
    sessions = [json.loads(line) for line in text.splitlines() if '"kind":"session"' in line]
    return [session["facts"]["provenance"] for session in sessions[-1:]]  # the last one is shown


# Stamps


def make_stamp(
    name: str,
    command: Sequence[str],
    *,
    of: Iterable[str],
    allocators: Mapping[str, Mapping[str, Any]] | None = None,
    rounds: int | None = None,
) -> dict[str, Any]:
    """Return the stamp of what was measured just now.

    Args:
        name: of the results file.
        command: the words that started it.
        of: the parts of the file that were measured.
        allocators: label → version and digest, see `identities_of`; None: nothing was compared.
        rounds: None where there are none.
    """
    return {
        "of": sorted(of),
        "commit": commit(),
        "sources": source_digests(name),
        "rounds": rounds,
        "allocators": dict(allocators or {}),
        **take_provenance(command).as_record(),
    }


def identities_of(subjects: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return version and digest of each subject.

    Args:
        subjects: what `Subject.identity` returns.
    """
    return {s["label"]: {"version": s["version"], "sha256": s["sha256"]} for s in subjects}


def installed(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return version and digest of allocators of this machine.

    Raises:
        MissingToolError: one is not there.
    """
    return identities_of(named_subject(name).identity() for name in names)


def n_rounds(samples: Iterable[Mapping[str, Any]]) -> int:
    """Return how many rounds samples are from."""
    return len({sample["round"] for sample in samples})


def merge_stamps(earlier: Iterable[Stamp], stamp: Stamp) -> list[Stamp]:
    """Return the stamps of a file after some of its parts were measured anew."""
    anew = set(stamp["of"])
    kept = [{**one, "of": [part for part in one["of"] if part not in anew]} for one in earlier]
    return [*(one for one in kept if one["of"]), stamp]


def commit() -> str | None:
    """Return the commit of this checkout, with a plus where files differ from it; None: no git."""
    found = _git("rev-parse", "HEAD")
    if found is None:
        return None
    return found.strip() + ("+" if _git("status", "--porcelain") else "")


def source_digests(name: str) -> dict[str, str]:
    """Return the digest of everything that the figures of a results file depend on."""
    return {place: _source_digest(ROOT / place) for place in DEPENDS_ON[name]}


def _source_digest(place: Path) -> str:
    if place.is_file():
        return digest(place)
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = "".join(f"{path.relative_to(place)} {digest(path)}\n" for path in files)
    return hashlib.sha256(found.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _git(*words: str) -> str | None:
    """Return what git prints about this checkout; None where it cannot tell."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.stdout if done.returncode == 0 else None


# Judging


def changes_since(name: str, stamp: Stamp) -> list[str] | None:
    """Return what changed since a measurement of what its figures depend on.

    None: it cannot be told, since neither digests nor the commit are known here.
    """
    if known := stamp.get("sources"):
        now = source_digests(name)
        return [place for place, value in now.items() if known.get(place) != value]
    since = (stamp.get("commit") or stamp.get("kept_in") or "").rstrip("+")
    places = DEPENDS_ON[name]
    changed = _git("diff", "--name-only", since, "--", *places) if since else None
    if changed is None:
        return None
    files = changed.split()
    return [place for place in places if any(_is_in(file, place) for file in files)]


def _is_in(file: str, place: str) -> bool:
    return file == place or file.startswith(f"{place}/")


def provenance_lines(stamps: Sequence[Stamp]) -> Iterator[str]:
    """Yield a line for each stamp: what, at which commit, when, rounds, versions."""
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
    version, sha256 = one.get("version"), one.get("sha256")
    told = version or "(version unknown)"
    return f"{told} [{sha256[:8]}]" if sha256 else told


def _enumerate(names: Sequence[str]) -> str:
    """Return at most four names, and how many there are beyond."""
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
