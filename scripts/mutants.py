"""Break the code in small ways and see whether the tests notice: mutation testing by sample.

For each target: copies the checkout, runs the target's tests unchanged, then draws mutants with a
fixed seed, applies one at a time, and runs the tests again.  A mutant whose tests fail, hang
or crash is killed; one that does not compile, or that the compiler makes the same code of, is
replaced by another.  What survives is printed as a change of a line.

Outcomes are kept (scripts/mutant_records.py): a run goes on where the last one stopped, and one of
a changed line is forgotten.  Mutants come from scripts/mutate_python.py and scripts/mutate_c.py.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mutant_records
import mutate_c
import mutate_python
from mutant_records import KILLED, SURVIVED, Record

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"

SLOWER = 4.0
"""Tests that take this many times what they take unchanged, and half a minute, hang."""


@dataclass(frozen=True)
class Target:
    """What is broken, and what should notice."""

    sources: tuple[str, ...]
    """Patterns of files, relative to the root."""
    tests: tuple[tuple[str, ...], ...]
    """Commands, the fastest first; the first that fails ends a mutant."""
    build: tuple[tuple[str, ...], ...] = ()
    """Commands after each change; a failure means the mutant is no program."""
    configure: tuple[str, ...] = ()
    """Command before the first build."""
    built: tuple[str, ...] = ()
    """Patterns of what is built; mutants with the same code are the same program."""

    def paths(self) -> list[Path]:
        """Return the sources."""
        return sorted(path for pattern in self.sources for path in ROOT.glob(pattern))


def _pytest(*files: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist",
            *files)  # fmt: skip


def _unit(*names: str, doctests: str = "") -> tuple[str, ...]:
    examples = (f"tuner/{doctests}",) if doctests else ()
    return _pytest(*examples, *(f"tests/unit/{name}" for name in names))


def _end_to_end(*names: str) -> tuple[str, ...]:
    return _pytest(*(f"tests/end_to_end/test_{name}.py" for name in names))


def _ctest(tests: str) -> tuple[str, ...]:
    return ("ctest", "--test-dir", "build/develop", "--stop-on-failure", "-R", tests)


_BUILD = ("cmake", "--build", "build/develop", "--target")
_CHECKED_ALLOCATOR = (
    "test_size_class", "test_options", "test_effects", "test_exchange", "test_misuse", "test_oom",
    "test_limits", "test_random_checked", "test_random_st", "test_random", "test_threads",
    "test_second_thread", "test_fork", "test_fork_in_handler", "test_setuid", "test_early",
    "test_delay", "test_slack", "test_api_exgen-shared", "test_cxx_exgen-shared", "exgen-options",
)  # fmt: skip
_QUICK = (
    "options|early|size_class|misuse|effects|exchange|second_thread|limits|oom|delay|slack|random-st|"
    "api-exgen-shared|cxx-exgen-shared"
)
_EMULATOR_PARTS = (
    "content", "heap", "huge_pages", "latency", "options", "schedule", "workload", "calibrate",
)  # fmt: skip

TARGETS = {
    "objectives": Target(
        ("tuner/objectives.py",),
        (_unit("test_objectives.py", "front", doctests="objectives.py"),),
    ),
    "front": Target(
        ("tuner/front/*.py",),
        (_unit("front", doctests="front"), _unit("cli/test_report_commands.py")),
    ),
    "stats": Target(
        ("tuner/stats.py",),
        (_unit("test_stats.py", doctests="stats.py"), _unit("validate/test_summary.py")),
    ),
    "store": Target(("tuner/store/*.py",), (_unit("store", doctests="store"),)),
    "campaign": Target(
        ("tuner/campaign/*.py",),
        (
            _unit("campaign", doctests="campaign"),
            _unit("cli/test_tune.py"),
            _end_to_end("tune", "resume"),
        ),
    ),
    "search": Target(("tuner/search/*.py",), (_unit("search", doctests="search"),)),
    "adapters": Target(
        ("tuner/allocators/*.py",),
        (_unit("allocators", doctests="allocators"), _end_to_end("read_back")),
    ),
    "compare": Target(
        ("tuner/compare/*.py",),
        (_unit("compare", doctests="compare"), _unit("validate", "bench", "optimize")),
    ),
    "optimize": Target(
        ("tuner/optimize/**/*.py",),
        (_unit("optimize", doctests="optimize"), _end_to_end("optimize")),
    ),
    "validate": Target(
        ("tuner/validate/*.py",),
        (
            _unit("validate", doctests="validate"),
            _unit("cli/test_validate.py", "cli/test_validate_tables.py"),
            _end_to_end("validate"),
        ),
    ),
    "emulator": Target(
        ("rand_malloc/emulator/*.c",),
        (
            _ctest("emulator"),
            _end_to_end("emulator_plan", "emulate"),
            _end_to_end("emulator_figures"),
            _end_to_end("emulator_failures"),
            _end_to_end("emulator_repeatability"),
        ),
        (
            (*_BUILD, "rand_malloc", *(f"test_emulator_{part}" for part in _EMULATOR_PARTS)),
            ("cp", "build/develop/rand_malloc/emulator/rand_malloc", "tuner/native/"),
        ),
        ("cmake", "-S", ".", "-B", "build/develop", "-G", "Ninja", "-DMALLOC_TUNER_TESTS=ON"),
        ("build/develop/rand_malloc/emulator/rand_malloc",),
    ),
    "allocator": Target(
        ("allocator/src/**/*.c",),
        (
            _ctest(f"exgen-({_QUICK}|random-checked-[0-9]*[15])$"),
            _ctest("exgen-(threads|fork|fork_in_handler|random-checked-.*|random-.)$"),
        ),
        ((*_BUILD, *_CHECKED_ALLOCATOR),),
        ("cmake", "-S", "allocator", "-B", "build/develop", "-G", "Ninja"),
        ("build/develop/test/test_effects", "build/develop/test/test_api_exgen-shared",
         "build/develop/libexgen.so", "build/develop/exgen-options"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    line: int
    """From 1."""
    operator: str
    before: str
    """The changed line, without its margins."""
    after: str
    text: str
    """The whole file, changed."""

    @property
    def mark(self) -> str:
        """Two with this in common are the same mutant."""
        return mutant_records.mark_of(self.path, self.before, self.after)


def _mutant(path: str, text: str, changed: str, operator: str) -> Mutant | None:
    """Describe a change; None when nothing is changed."""
    old, new = text.split("\n"), changed.split("\n")
    at = next((i for i, pair in enumerate(zip(old, new, strict=False)) if len(set(pair)) > 1), None)
    if at is None:
        return None
    return Mutant(path, at + 1, operator, old[at].strip(), new[at].strip(), changed)


def _changes(path: str, text: str) -> list[tuple[str, object]]:
    found = mutate_c.changes(text) if path.endswith(".c") else mutate_python.changes(text)
    return [(path, change) for change in found]


def _apply(path: str, text: str, change: Any) -> Mutant | None:  # noqa: ANN401 - of two kinds
    if path.endswith(".c"):
        begin, end, new, operator = change
        return _mutant(path, text, text[:begin] + new + text[end:], operator)
    changed = mutate_python.apply(text, change)
    return _mutant(path, text, changed, change[0].removeprefix("core/")) if changed else None


def drawn(target: Target, seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a target in random order."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in target.paths()}
    every = [item for path, text in texts.items() for item in _changes(path, text)]
    random.Random(seed).shuffle(every)  # noqa: S311  (a sample, no secret)
    for path, change in every:
        mutant = _apply(path, texts[path], change)
        if mutant is not None:
            yield mutant


def _copy_checkout(folder: Path) -> bool:
    """Bring the copy up to date; return whether its programs or tests were not.

    Files that did not change keep their time for ninja.
    """
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    native = ROOT / "tuner" / "native"
    wanted = [*(ROOT / name for name in names.split("\0") if name), *native.rglob("*")]
    stale = False
    for path in wanted:
        copy = folder / path.relative_to(ROOT)
        is_built = copy.is_file() and native in path.parents
        if path.is_file() and not (copy.is_file() and copy.read_bytes() == path.read_bytes()):
            stale = stale or not (is_built or path.suffix == ".md" or path == mutant_records.FILE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
            copy.touch()
    for copy in [*folder.glob("tests/**/*.py"), *folder.glob("tuner/**/*.py")]:
        if not (ROOT / copy.relative_to(folder)).exists():  # else tests that are gone would kill
            copy.unlink()
            stale = True
    return stale


def _succeeds(
    command: tuple[str, ...], folder: Path, limit_s: float | None, *, keep_bytecode: bool = False
) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    if not keep_bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with (folder / "build" / "mutants.log").open("w") as log:
        started = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            return started.wait(limit_s) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


_CODE = (".text", ".rodata", ".data", ".data.rel.ro", ".init_array")


def _code_digest(program: Path) -> str:
    """Return what stands for the code of a program; lines and columns do not count."""
    sections = [f"--only-section={name}" for name in _CODE]
    with tempfile.NamedTemporaryFile() as bare:
        command = ["objcopy", "-O", "binary", *sections, program, bare.name]
        subprocess.run(command, check=True)
        return hashlib.sha256(Path(bare.name).read_bytes()).hexdigest()


class Bench:
    """A copy of the checkout in which one target is broken again and again."""

    def __init__(self, name: str) -> None:
        """Copy and, where anything has changed, build and run the tests unchanged."""
        self.target = TARGETS[name]
        self.folder = SCRATCH / name
        (self.folder / "build").mkdir(parents=True, exist_ok=True)
        unchanged = self.folder / "build" / "unchanged.json"
        if _copy_checkout(self.folder) or not unchanged.is_file():
            unchanged.unlink(missing_ok=True)
            unchanged.write_text(json.dumps(self._unchanged()))
        self.limits_s, self.code = json.loads(unchanged.read_text())

    def _unchanged(self) -> tuple[list[float], list[str]]:
        """Build; return time limits of the tests, and the code that was built."""
        first = (self.target.configure,) if self.target.configure else ()
        for command in (*first, *self.target.build):
            self._require(command)
        limits_s = []
        for command in self.target.tests:
            began = time.monotonic()
            self._require(command)
            limits_s.append(30.0 + SLOWER * (time.monotonic() - began))
        return limits_s, self._built()

    def _built(self) -> list[str]:
        return [_code_digest(self.folder / program) for program in self.target.built]

    def _require(self, command: tuple[str, ...]) -> None:
        if not _succeeds(command, self.folder, None, keep_bytecode=True):
            log = (self.folder / "build" / "mutants.log").read_text()
            sys.exit(f"mutants: unchanged, `{' '.join(command)}` fails:\n{log[-3000:]}")

    def _commands(self, path: str) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the tests with their limits, those of a Python file itself first."""
        mirror = Path("tests", "unit", *Path(path).parts[1:-1], f"test_{Path(path).name}")
        if (self.folder / mirror).is_file():
            yield _pytest(path, str(mirror)), self.limits_s[0]
        yield from zip(self.target.tests, self.limits_s, strict=True)

    def _passes(self, command: tuple[str, ...], limit_s: float) -> bool:
        """Run tests; those that hit the limit have another chance, as the machine may be busy."""
        for limit in (limit_s, 3 * limit_s):
            try:
                passed = _succeeds(command, self.folder, limit)
            except subprocess.TimeoutExpired:
                print(f"no end after {limit:.0f} s: {command[-1]}", flush=True)
                continue
            if not passed:
                print(self._failure(), flush=True)
            return passed
        return False

    def _failure(self) -> str:
        """Return the line of the tests' log that names what failed."""
        lines = (self.folder / "build" / "mutants.log").read_text(errors="replace").splitlines()
        named = (line for line in reversed(lines) if re.search("FAILED|ERROR|Failed", line))
        return next(named, "failed")

    def outcome(self, mutant: Mutant) -> str:
        """Return KILLED, SURVIVED, or what makes it no mutant."""
        path = self.folder / mutant.path
        original = path.read_text()
        path.write_text(mutant.text)
        try:
            if not all(_succeeds(command, self.folder, 600.0) for command in self.target.build):
                return "does not compile"
            if self.target.built and self._built() == self.code:
                return "the same code"
            for command, limit_s in self._commands(mutant.path):
                if not self._passes(command, limit_s):
                    return KILLED
            return SURVIVED
        finally:
            path.write_text(original)


def _tried(name: str, bench: Bench, mutant: Mutant) -> Record | None:
    """Try a mutant; return what became of it, None when it is no mutant."""
    began = time.monotonic()
    outcome = bench.outcome(mutant)
    took_s = time.monotonic() - began
    print(f"{name}: {outcome} in {took_s:.0f} s: {mutant.path}:{mutant.line}: {mutant.operator}\n"
          f"  - {mutant.before}\n  + {mutant.after}", flush=True)  # fmt: skip
    if outcome not in {KILLED, SURVIVED}:
        return None
    record = Record(name, mutant.mark)
    if outcome == KILLED:
        return record
    return replace(record, **{key: getattr(mutant, key) for key in _TOLD})


_TOLD = ("path", "line", "operator", "before", "after")
"""Of a survivor."""


def sample(name: str, n: int, seed: int) -> None:
    """Try mutants of a target until `n` are kept; go on behind those that are."""
    kept = mutant_records.standing(name, TARGETS[name].paths())
    passed = _Passed(SCRATCH / f"{name}.invalid")
    if len(kept) >= n:
        return
    bench = Bench(name)
    known = {one.mark for one in kept}
    for mutant in drawn(bench.target, seed):
        if len(kept) >= n:
            return
        if mutant.mark in known or mutant.mark in passed:
            continue
        record = _tried(name, bench, mutant)
        if record is None:
            passed.add(mutant.mark)
        else:
            kept.append(record)
            others = [one for one in mutant_records.read() if one.target != name]
            mutant_records.write([*others, *kept])


class _Passed:
    """What was found to be no mutant, so that the next run need not find out again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._path = path

    def __contains__(self, mark: str) -> bool:
        return mark in self._path.read_text().split()

    def add(self, mark: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{mark}\n")


def again(name: str, seed: int) -> None:
    """Try the survivors of a target once more, but for those that no test can kill."""
    open_ = {
        one.mark
        for one in mutant_records.read()
        if one.target == name and one.outcome == SURVIVED and not one.why
    }
    if not open_:
        return
    bench = Bench(name)
    for mutant in drawn(bench.target, seed):
        if mutant.mark not in open_:
            continue
        open_.discard(mutant.mark)
        record = _tried(name, bench, mutant)
        if record is not None and record.outcome == KILLED:
            records = mutant_records.read()
            mutant_records.write(record if one.mark == record.mark else one for one in records)


def missing_files() -> list[str]:
    """Return sources and tests that a target names and that are not there."""
    sources = [one for target in TARGETS.values() for one in target.sources]
    tests = [
        word
        for target in TARGETS.values()
        for command in target.tests
        for word in command
        if word.startswith(("tests/", "tuner/"))
    ]
    return [pattern for pattern in (*sources, *tests) if not any(ROOT.glob(pattern))]


def main() -> None:
    """Sample every target that is asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", help=", ".join(TARGETS))
    parser.add_argument("--sample", type=int, default=25, metavar="N", help="mutants per target")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--survivors", action="store_true", help="try only the survivors again")
    parser.add_argument("--table", action="store_true", help="only print what is kept")
    parser.add_argument("--check", action="store_true", help="only check the targets")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(
            f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}"
        )
    if options.table:
        records = mutant_records.read()
        print(mutant_records.table(records), mutant_records.survivors(records), sep="\n\n")
    elif options.check:
        if missing := missing_files():
            sys.exit(f"mutants: no such file: {', '.join(missing)}")
    else:
        for name in options.targets or TARGETS:
            if options.survivors:
                again(name, options.seed)
            else:
                sample(name, options.sample, options.seed)
        print(mutant_records.table(mutant_records.read()))


if __name__ == "__main__":
    main()
