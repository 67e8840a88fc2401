"""Break the code in small ways and see whether the tests notice: mutation testing by sample.

For each target: copies the checkout, runs the target's tests unchanged, then draws mutants with a
fixed seed, applies one at a time, and runs the tests again.  A mutant whose tests fail, hang
or crash is killed; one that does not compile is replaced by another.  What survives is printed as a
change of a line; the survivors that no test can kill are listed in docs/decisions/mutants.md.

Mutants of Python come from cosmic-ray, those of C from scripts/mutate_c.py.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import mutate_c

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"

SLOWER = 10.0
"""Tests that take this many times what they take unchanged hang: a loop without an end."""


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


def _pytest(*files: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist",
            *files)  # fmt: skip


def _unit(*names: str, doctests: str = "") -> tuple[str, ...]:
    examples = (f"tuner/{doctests}",) if doctests else ()
    return _pytest(*examples, *(f"tests/unit/{name}" for name in names))


_BUILD = ("cmake", "--build", "build/develop")
_CHECKED_ALLOCATOR = (
    "test_size_class", "test_options", "test_effects", "test_exchange", "test_misuse", "test_oom",
    "test_limits", "test_random_checked", "test_random_st", "test_random", "test_threads",
    "test_second_thread", "test_fork", "test_fork_in_handler", "test_setuid", "test_early",
    "test_api_exgen-shared", "test_cxx_exgen-shared", "exgen-options",
)  # fmt: skip
_QUICK = (
    "options|early|size_class|misuse|effects|exchange|second_thread|limits|oom|random-st|"
    "api-exgen-shared|cxx-exgen-shared"
)

TARGETS = {
    "objectives": Target(
        ("tuner/objectives.py",),
        (_unit("test_objectives.py", "test_selection.py", doctests="objectives.py"),),
    ),
    "selection": Target(
        ("tuner/selection.py",),
        (_unit("test_selection.py", doctests="selection.py"), _unit("report/test_data.py")),
    ),
    "stats": Target(
        ("tuner/stats.py",),
        (_unit("test_stats.py", doctests="stats.py"), _unit("validate/test_summary.py")),
    ),
    "store": Target(("tuner/store/*.py",), (_unit("store", doctests="store"),)),
    "campaign": Target(
        ("tuner/campaign/*.py",),
        (_unit("campaign"), _unit("cli/test_tune.py")),
    ),
    "validate": Target(
        ("tuner/validate/*.py",),
        (
            _unit("validate"), _unit("cli/test_validate.py", "cli/test_validation_tables.py"),
        ),
    ),
    "emulator": Target(
        ("rand_malloc/emulator/*.c",),
        (
            ("ctest", "--test-dir", "build/develop", "--stop-on-failure", "-R", "emulator"),
            _pytest("tests/end_to_end/test_emulator_figures.py",
                    "tests/end_to_end/test_emulator_failures.py",
                    "tests/end_to_end/test_emulator_plan.py", "tests/end_to_end/test_emulate.py",
                    "tests/end_to_end/test_emulator_repeatability.py"),
        ),
        (_BUILD, ("cmake", "--install", "build/develop", "--prefix", ".")),
        ("cmake", "-S", ".", "-B", "build/develop", "-G", "Ninja", "-DMALLOC_TUNER_TESTS=ON"),
    ),
    "allocator": Target(
        ("allocator/src/**/*.c",),
        (
            ("ctest", "--test-dir", "build/develop", "--stop-on-failure", "-R",
             f"exgen-({_QUICK}|random-checked-[0-9]*[15])$"),
            ("ctest", "--test-dir", "build/develop", "--stop-on-failure", "-R",
             "exgen-(threads|fork|fork_in_handler|random-checked-.*|random-.)$"),
        ),
        ((*_BUILD, "--target", *_CHECKED_ALLOCATOR),),
        ("cmake", "-S", "allocator", "-B", "build/develop", "-G", "Ninja"),
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


def _mutant(path: str, text: str, changed: str, operator: str) -> Mutant | None:
    """Describe a change; None when nothing is changed."""
    old, new = text.split("\n"), changed.split("\n")
    at = next((i for i, pair in enumerate(zip(old, new, strict=False)) if len(set(pair)) > 1), None)
    if at is None:
        return None
    return Mutant(path, at + 1, operator, old[at].strip(), new[at].strip(), changed)


def _c_mutants(path: str, text: str) -> list[tuple[str, object]]:
    return [(path, change) for change in mutate_c.changes(text)]


def _python_mutants(path: str, text: str) -> list[tuple[str, object]]:
    import parso  # noqa: F401, PLC0415  (cosmic-ray's plugins import it the wrong way round)
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    tree = get_ast(text)
    found: list[tuple[str, object]] = []
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments():
            continue
        positions = [p for node in ast_nodes(tree) for p in operator().mutation_positions(node)]
        found += [(path, (name, occurrence)) for occurrence in range(len(positions))]
    return found


class _Behaviour(ast.NodeTransformer):
    """Leave out what is mypy's part.

    That is annotations, that a record is frozen, and that a parameter has to be named.
    """

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.posonlyargs, node.kwonlyargs = [], []
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)


def _behaviour(text: str) -> str | None:
    """Return what a program does, as text; None when it is no program."""
    try:
        return ast.dump(_Behaviour().visit(ast.parse(text)))
    except SyntaxError:
        return None


def _apply(path: str, text: str, change: object) -> Mutant | None:
    if path.endswith(".c"):
        begin, end, new, operator = change  # type: ignore[misc]
        return _mutant(path, text, text[:begin] + new + text[end:], operator)
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415

    name, occurrence = change  # type: ignore[misc]
    changed = mutate_code(text, get_operator(name)(), occurrence)
    if changed is None or _behaviour(changed) in (None, _behaviour(text)):
        return None
    return _mutant(path, text, changed, name.removeprefix("core/"))


def drawn(target: Target, seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a target in random order."""
    paths = sorted(p for pattern in target.sources for p in ROOT.glob(pattern))
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    every = [
        item
        for path, text in texts.items()
        for item in (_c_mutants if path.endswith(".c") else _python_mutants)(path, text)
    ]
    random.Random(seed).shuffle(every)  # noqa: S311  (a sample, no secret)
    for path, change in every:
        mutant = _apply(path, texts[path], change)
        if mutant is not None:
            yield mutant


def _copy_checkout(folder: Path) -> None:
    """Bring the copy up to date; files that did not change keep their time for ninja."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    native = ROOT / "tuner" / "native"
    for path in [*(ROOT / name for name in names.split("\0") if name), *native.rglob("*")]:
        copy = folder / path.relative_to(ROOT)
        if path.is_file() and not (copy.is_file() and copy.read_bytes() == path.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
            copy.touch()


def _succeeds(command: tuple[str, ...], folder: Path, limit_s: float | None) -> bool:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    with (folder / "build" / "mutants.log").open("w") as log:
        started = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            return started.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


class Bench:
    """A copy of the checkout in which one target is broken again and again."""

    def __init__(self, name: str) -> None:
        """Copy, build, and run the tests unchanged."""
        self.target = TARGETS[name]
        self.folder = SCRATCH / name
        (self.folder / "build").mkdir(parents=True, exist_ok=True)
        _copy_checkout(self.folder)
        first = (self.target.configure,) if self.target.configure else ()
        for command in (*first, *self.target.build):
            self._require(command)
        self.limits_s = []
        for command in self.target.tests:
            began = time.monotonic()
            self._require(command)
            self.limits_s.append(60.0 + SLOWER * (time.monotonic() - began))

    def _require(self, command: tuple[str, ...]) -> None:
        if not _succeeds(command, self.folder, None):
            log = (self.folder / "build" / "mutants.log").read_text()
            sys.exit(f"mutants: unchanged, `{' '.join(command)}` fails:\n{log[-3000:]}")

    def outcome(self, mutant: Mutant) -> str:
        """Return killed, survived, or invalid."""
        path = self.folder / mutant.path
        original = path.read_text()
        path.write_text(mutant.text)
        try:
            if not all(_succeeds(command, self.folder, 600.0) for command in self.target.build):
                return "invalid"
            for command, limit_s in zip(self.target.tests, self.limits_s, strict=True):
                if not _succeeds(command, self.folder, limit_s):
                    return "killed"
            return "survived"
        finally:
            path.write_text(original)


def sample(name: str, n: int, seed: int) -> tuple[int, int]:
    """Try mutants of a target until `n` were valid; return how many were, and were killed."""
    bench = Bench(name)
    results = (SCRATCH / f"{name}.jsonl").open("w")
    n_valid = n_killed = 0
    with results:
        for mutant in drawn(bench.target, seed):
            if n_valid == n:
                break
            outcome = bench.outcome(mutant)
            n_valid += outcome != "invalid"
            n_killed += outcome == "killed"
            record = {"outcome": outcome, **asdict(mutant)}
            del record["text"]
            print(json.dumps(record), file=results, flush=True)
            if outcome == "survived":
                print(f"{name}: survived: {mutant.path}:{mutant.line}: {mutant.operator}\n"
                      f"  - {mutant.before}\n  + {mutant.after}", flush=True)  # fmt: skip
    return n_valid, n_killed


def main() -> None:
    """Sample every target that is asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--sample", type=int, default=25, metavar="N", help="mutants per target")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(
            f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}"
        )
    lines = []
    for name in options.targets:
        n_valid, n_killed = sample(name, options.sample, options.seed)
        lines.append(
            f"{name:12} {n_valid:4} sampled {n_killed:4} killed {n_valid - n_killed:4} survived"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
