"""Imports go down only: the layers of docs/architecture.md, walked with ast."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.doubles.places import ROOT

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "interrupts", "registry"),
    ("units", "page"),
    ("metrics", "limits"),
    ("records", "resources", "machine", "output", "zstd", "moocore"),
    ("emulation",),
    ("space",),
    ("provenance", "config", "store"),
    ("objectives", "stats", "drawing"),
    ("trace",),
    ("profile",),
    ("importers", "recording"),
    ("allocators",),
    ("measure",),
    ("compare",),
    ("search",),
    ("runs",),
    ("front",),
    ("campaign", "validate", "fidelity", "bench", "doctor", "link", "service"),
    ("optimize",),
    ("report", "export"),
    ("explain",),
    ("library",),
    ("cli",),
)
"""Modules and packages of tuner/, lowest first; one may import itself and what is below."""

LAYERS_OF_OPTIMIZE: tuple[tuple[str, ...], ...] = (
    ("quantities", "aside"),
    ("tuned",),
    ("proof",),
    ("request", "answering", "view"),
    ("work",),
    ("used_time",),
    ("kinds",),
    ("choosing",),
    ("confirming",),
    ("conclusion",),
    ("session", "comparison", "options"),
)
"""The same of tuner/optimize/, which has packages of its own."""

LAYERS_IN = {("tuner",): LAYERS, ("tuner", "optimize"): LAYERS_OF_OPTIMIZE}

WORLDS_WITHOUT_TUNER = ("allocator", "rand_malloc", "gem5-validate")
"""Folders that meet tuner/ only in files and streams."""


@dataclass(frozen=True)
class Import:
    """One imported name."""

    where: str
    """File and line."""
    module: str
    """Absolute dotted name of the module."""
    name: str | None
    """Name taken from it; None for ``import module``."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree: ast.Module, path: str, package: str) -> Iterator[Import]:
    """Yield the imports of a module; `package` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(f"{path}:{node.lineno}", alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            prefix = ".".join(base) if node.level else ""
            module = ".".join(part for part in (prefix, node.module) if part)
            for alias in node.names:
                yield Import(f"{path}:{node.lineno}", module, alias.name)


@cache
def imports_below(folder: Path) -> tuple[tuple[Path, Import], ...]:
    return tuple(
        (path, found)
        for path in sorted(folder.rglob("*.py"))
        for found in imports_of(
            tree_of(path),
            str(path.relative_to(ROOT)),
            ".".join(path.relative_to(ROOT).parent.parts),
        )
    )


def layer_of(part: str, package: tuple[str, ...]) -> int:
    for index, layer in enumerate(LAYERS_IN[package]):
        if part in layer:
            return index
    folder = "/".join(package)
    pytest.fail(f"{folder}/{part} has no layer: add it to {__name__} and to docs/architecture.md")


def part_of(words: tuple[str, ...], package: tuple[str, ...]) -> str | None:
    """Return the part of a package that a dotted name reaches, None for the package itself."""
    n = len(package)
    inside = words[:n] == package and len(words) > n
    return words[n] if inside and words[n] not in ("__init__", "__version__") else None


def violations(path: Path, found: Import, package: tuple[str, ...]) -> Iterator[str]:
    names = (*found.module.split("."), *([found.name] if found.name else []))
    target = part_of(names, package)
    own = part_of(path.relative_to(ROOT).with_suffix("").parts, package)
    if target is None or own is None or target == own:
        return
    if layer_of(target, package) >= layer_of(own, package):
        folder = "/".join(package)
        yield f"{found.where}: {folder}/{own} imports {folder}/{target}, which is not below it"


def private_names(found: Import) -> Iterator[str]:
    words = [*found.module.split("."), found.name or ""]
    if words[0] == "tuner" and any(w.startswith("_") and not w.startswith("__") for w in words):
        yield f"{found.where}: imports a private name of {found.module}"


@pytest.mark.parametrize("package", LAYERS_IN, ids="/".join)
def test_imports_go_down_only(package: tuple[str, ...]):
    wrong = [
        text
        for path, found in imports_below(ROOT / "tuner")
        for text in violations(path, found, package)
    ]

    assert wrong == []


def test_private_names_are_not_imported():
    folders = [ROOT / "tuner", ROOT / "tests", ROOT / "benchmarks"]
    wrong = [
        text for f in folders for _, found in imports_below(f) for text in private_names(found)
    ]

    assert wrong == []


def test_the_other_worlds_never_import_tuner():
    folders = [ROOT / world for world in WORLDS_WITHOUT_TUNER]
    wrong = [
        found.where
        for folder in folders
        for _, found in imports_below(folder)
        if found.module.split(".")[0] == "tuner"
    ]

    assert wrong == []


@pytest.mark.parametrize("package", LAYERS_IN, ids="/".join)
def test_every_layer_holds_modules_that_exist(package: tuple[str, ...]):
    folder = ROOT.joinpath(*package)
    present = {p.stem for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()}
    listed = {part for layer in LAYERS_IN[package] for part in layer}

    assert listed - present == set()


def drawn_rows() -> list[list[str]]:
    """Return the boxes of the picture in docs/architecture.md, the top row first."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = next(block for block in page.split("```")[1::2] if "cli, library" in block)
    return [line.strip(" │").split("│") for line in picture.splitlines() if "│" in line]


def test_the_picture_of_the_architecture_is_true():
    """It has ten boxes at most, and no part imports one that is drawn above it."""
    rows = drawn_rows()
    known = {part for layer in LAYERS for part in layer}
    row_of = {
        part: place
        for place, boxes in enumerate(rows)
        for part in known & {word.strip("(),") for box in boxes for word in box.split()}
    }
    wrong = [
        found.where
        for path, found in imports_below(ROOT / "tuner")
        if (target := part_of((*found.module.split("."), str(found.name)), ("tuner",))) in row_of
        and (own := path.relative_to(ROOT / "tuner").with_suffix("").parts[0]) in row_of
        and row_of[own] > row_of[target]
    ]

    assert sum(map(len, rows)) <= 10
    assert len(row_of) > 20
    assert wrong == []


PART_OF = {
    "dask_jobqueue": "dask-jobqueue",
    "elftools": "pyelftools",
    "sklearn": "scikit-learn",
    "tomli_w": "tomli-w",
    "vl_convert": "vl-convert-python",
    "pydantic_core": "pydantic",
    "backports": "backports.zstd",
    "compression": "backports.zstd",  # until it is the standard library's everywhere
}
"""Modules that a dependency of another name brings along."""


def test_every_import_of_the_package_is_declared():
    """What tuner/ imports is in the standard library or a dependency of pyproject.toml."""
    project = (ROOT / "pyproject.toml").read_text()
    extras = (project.split(f"{extra} = [")[1].split("]")[0] for extra in ("cluster", "optuna"))
    declared = project.split("dependencies = [")[1].split("]")[0] + "".join(extras)
    wrong = [
        found.where
        for _, found in imports_below(ROOT / "tuner")
        if (top := found.module.split(".")[0]) not in {*sys.stdlib_module_names, "tuner"}
        and f'"{PART_OF.get(top, top)}>=' not in declared
    ]

    assert wrong == []


def test_the_walker_sees_relative_and_private_imports():
    source = "from . import store\nfrom ..space import _hidden\nimport tuner.cli.main\n"

    found = list(imports_of(ast.parse(source), "x.py", "tuner.search"))

    assert [(i.module, i.name) for i in found] == [
        ("tuner.search", "store"),
        ("tuner.space", "_hidden"),
        ("tuner.cli.main", None),
    ]
    assert [text for i in found for text in private_names(i)] == [
        "x.py:2: imports a private name of tuner.space"
    ]


def test_the_walker_sees_an_import_that_goes_up():
    path = ROOT / "tuner" / "space.py"

    found = list(violations(path, Import("tuner/space.py:1", "tuner", "search"), ("tuner",)))

    assert found == ["tuner/space.py:1: tuner/space imports tuner/search, which is not below it"]


def test_the_walker_sees_an_import_that_goes_up_in_a_package():
    package = ("tuner", "optimize")
    path = ROOT.joinpath(*package, "proof", "noise.py")

    found = list(violations(path, Import("noise.py:1", "tuner.optimize.work", "Work"), package))

    assert found == [
        "noise.py:1: tuner/optimize/proof imports tuner/optimize/work, which is not below it"
    ]


def test_no_two_public_classes_share_a_name():
    """A name has one meaning: who reads it need not ask which package it is of."""
    modules: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tuner").rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(str(path.relative_to(ROOT)))

    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_a_package_that_lists_its_modules_lists_each():
    wrong: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tuner").rglob("__init__.py")):
        listed = {*re.findall(r"\b\w+\.py\b", ast.get_docstring(tree_of(path)) or "")}
        there = {module.name for module in path.parent.glob("*.py")} - {"__init__.py"}
        if listed and listed != there:
            wrong[path.parent.name] = sorted(listed ^ there)

    assert wrong == {}
