"""Calls and includes go down only.

test_layers.py NM SOURCES LAYERS OBJECTS...  LAYERS are folders of SOURCES, from the bottom up,
separated by commas.  A file includes
headers of its own or a lower layer; an object refers to symbols of its own or a lower layer only,
and no two objects need each other, also not by way of others.
"""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


def layer_of(name: str, layers: list[str]) -> int:
    return layers.index(name.split("/", maxsplit=1)[0])


def upward_includes(sources: Path, layers: list[str]) -> list[str]:
    """Return what includes something above itself, or a header without its layer."""
    wrong = []
    headers = {file.name for layer in layers for file in sources.glob(f"{layer}/*.h")}
    for file in sorted(sources.glob("*/*.[ch]")):
        name = f"{file.parent.name}/{file.name}"
        for included in re.findall(r'^#include "(.*)"', file.read_text(), re.MULTILINE):
            is_ours = (sources / included).exists()
            if not is_ours and included not in headers:
                continue  # of another library
            if not is_ours or layer_of(included, layers) > layer_of(name, layers):
                wrong.append(f"{name} includes {included}")
    return wrong


def symbols(nm: str, path: str) -> tuple[set[str], set[str]]:
    """Return the global symbols that an object defines, and those that it needs."""
    lines = subprocess.run([nm, "-g", path], check=True, capture_output=True, text=True).stdout
    defined, needed = set(), set()
    for line in lines.splitlines():
        *_, kind, symbol = line.split()
        (needed if kind in "Uwv" else defined).add(symbol)
    return defined, needed


def calls(nm: str, objects: list[str]) -> dict[tuple[str, str], set[str]]:
    """Return the symbols by which one object needs another, by the names of the two."""
    found = {}
    for path in objects:
        name = re.search(r"(\w+/\w+)\.c\b", path).group(1)
        found[name] = symbols(nm, path)
    home = {symbol: name for name, (defined, _) in found.items() for symbol in defined}
    edges: dict[tuple[str, str], set[str]] = {}
    for name, (_, needed) in found.items():
        for symbol in needed & home.keys():
            edges.setdefault((name, home[symbol]), set()).add(symbol)
    return edges


def wrong_calls(edges: dict[tuple[str, str], set[str]], layers: list[str]) -> list[str]:
    wrong = [
        f"{user} calls up to {used}: {', '.join(sorted(symbols))}"
        for (user, used), symbols in sorted(edges.items())
        if layer_of(used, layers) > layer_of(user, layers)
    ]
    graph = TopologicalSorter()
    for user, used in edges:
        graph.add(user, used)
    try:
        graph.prepare()
    except CycleError as error:
        wrong.append("a circle: " + " <- ".join(error.args[1]))
    return wrong


def main() -> int:
    nm, sources, names, *objects = sys.argv[1:]
    layers = names.split(",")
    edges = calls(nm, objects)
    assert len(edges) > len(objects) > len(layers), "objects without symbols"
    wrong = upward_includes(Path(sources), layers) + wrong_calls(edges, layers)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
