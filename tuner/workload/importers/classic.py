"""Make the records of Langdon's rand_malloc from a DHAT profile, as his own tools do.

His way: dh_view draws the call sites as a tree of their stacks, innermost call first, where
a node with one child is one with it and children stand by their bytes, most first;
dhat_summary.awk walks it.  Each site becomes one record per block, all with the site's mean
size and its mean lifetime over 500 instructions.  Sites whose parents differ in their last
branch only take turns until they run out; then come the next such sites.

All records are of type 1, as his are (by a slip in `code()` of dhat_summary.awk, which
assigns where it means to compare).

Source: github.com/wblangdon/rand_malloc, dhat_summary.awk 1.40 and dh_view.js; written anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import tuner
from tuner.errors import TraceError
from tuner.output import write_text
from tuner.workload.importers import dhat
from tuner.workload.importers.source import Source

TICK: Final = 500
"""Units of DHAT's time in a tick: instructions for one allocation."""

MOST_RECORDS: Final = 10_000_000
"""As many as rand_malloc reads."""

LOST: Final = (
    *dhat.LOST,
    "order: call sites come in the order of their call tree, not of time",
    "sizes and lifetimes: all blocks of a site have its mean",
    "the peak and the end: what was alive then",
)

_HEAD: Final = """\
// records for rand_malloc --classic, made by malloc-tuner {version} from {name}
#define norder {n}
const struct{{
int    type;
double size;
double life;
}} order[norder] = {{
"""

TreePath = tuple[int, ...]
"""Branches from the root of the call tree to a site."""


def tree_paths(
    stacks: Sequence[Sequence[int]], weights: Sequence[int]
) -> list[tuple[TreePath, int]]:  # fmt: skip
    """Return the path of each call site and its number, in the order of the tree.

    Args:
        stacks: frames of each site, innermost first.
        weights: bytes of each site.

    Example: two sites share their first frame; together they are heavier.
        >>> tree_paths([(7, 1), (5,), (7, 2, 3)], [10, 15, 20])
        [((1, 1, 1), 2), ((1, 1, 2), 0), ((1, 2), 1)]
    """
    found: list[tuple[TreePath, int]] = []
    work: list[tuple[TreePath, list[int], int]] = [((1,), list(range(len(stacks))), 0)]
    while work:
        path, members, depth = work.pop()
        if len(members) == 1:
            found.append((path, members[0]))
            continue
        branches: dict[int, list[int]] = {}
        for site in members:  # one that ends here is a branch of its own
            frame = stacks[site][depth] if depth < len(stacks[site]) else ~site
            branches.setdefault(frame, []).append(site)
        if len(branches) == 1:
            work.append((path, members, depth + 1))
            continue
        ordered = sorted(branches.values(), key=lambda sites: -sum(weights[s] for s in sites))
        children = [((*path, i), sites, depth + 1) for i, sites in enumerate(ordered, start=1)]
        work.extend(reversed(children))
    return found


def take_turns(paths: Sequence[tuple[TreePath, int]]) -> Iterator[list[int]]:
    """Yield groups of sites that take turns.

    A group lasts while the parents agree with its first one in all but the last branch.
    """
    group: list[int] = []
    first: TreePath = ()
    for path, site in paths:
        parent = path[:-1]
        n_compared = max(0, min(len(parent), len(first)) - 1)
        if group and parent[:n_compared] != first[:n_compared]:
            yield group
            group = []
        if not group:
            first = parent
        group.append(site)
    if group:
        yield group


def write_records(source: Source, output: Path) -> None:
    """Write the records of a DHAT profile, replacing a file that is there.

    Raises:
        TraceError: the profile is malformed, or has more than `MOST_RECORDS` blocks.
        OutputError: the records cannot be written.
    """
    sites, stacks = dhat.read_stacks(source)
    n_records = int(sites.blocks.sum())
    if not 0 < n_records <= MOST_RECORDS:
        message = f"{source.path}: {n_records:,} blocks; rand_malloc takes 1 to {MOST_RECORDS:,}"
        raise TraceError(message)
    size = np.maximum(sites.total_bytes / sites.blocks, 1)
    life = np.rint(sites.lifetime / sites.blocks / TICK).astype(np.int64)
    rows = [f"{{1,{one:.2f},{other}}},\n" for one, other in zip(size, life, strict=True)]
    order = []
    for group in take_turns(tree_paths(stacks, sites.total_bytes.tolist())):
        n_blocks = sites.blocks[group]
        which = np.repeat(np.arange(len(group)), n_blocks)
        turn = np.concatenate([np.arange(n) for n in n_blocks])
        order.append(np.array(group)[which[np.lexsort([which, turn])]])
    head = _HEAD.format(version=tuner.__version__, name=source.path.name, n=n_records)
    lines = map(rows.__getitem__, itertools.chain.from_iterable(part.tolist() for part in order))
    write_text(output, "".join([head, *lines, "};\n"]))
