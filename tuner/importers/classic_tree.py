"""Make the records of Langdon's rand_malloc (classic.py) of a DHAT profile, as his tools do.

His way: dh_view draws the call sites as a tree of their stacks, innermost call first, where
a node with one child is one with it and children stand by their blocks, then bytes, most
first; dhat_summary.awk walks it.  Each site becomes one record per block, all with the
site's mean size and its mean lifetime over 500 instructions.  Sites whose parents differ in
their last branch only take turns until they run out; then come the next such sites.

All records are of type 1, as his are (by a slip in `code()` of dhat_summary.awk, which
assigns where it means to compare).

Source: github.com/wblangdon/rand_malloc, dhat_summary.awk 1.40 and dh_view.js; written anew,
and compared with what they write of three recorded programs: the same records in the same order,
to the six digits that theirs keep of a mean.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tuner.importers.heap_profiles import read_stacks
from tuner.importers.records import MOST_RECORDS, RECORD
from tuner.importers.source import BadCallError, Source

TICK: Final = 500
"""Units of DHAT's time in a tick: instructions for one allocation."""

LOST: Final = (
    "order: call sites come in the order of their call tree, not of time",
    "sizes and lifetimes: all blocks of a site have its mean",
    "the peak and the end: what was alive then",
)

TreePath = tuple[int, ...]
"""Branches from the root of the call tree to a site."""


def tree_paths(
    stacks: Sequence[Sequence[int]], weights: Sequence[tuple[int, int]]
) -> list[tuple[TreePath, int]]:  # fmt: skip
    """Return the path of each call site and its number, in the order of the tree.

    Args:
        stacks: frames of each site, innermost first.
        weights: blocks and bytes of each site.

    Example: two sites share their first frame; together they have more blocks.
        >>> tree_paths([(7, 1), (5,), (7, 2, 3)], [(1, 9), (2, 8), (2, 7)])
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
        ordered = sorted(
            branches.values(),
            key=lambda sites: tuple(-sum(weights[site][i] for site in sites) for i in (0, 1)),
        )
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


def records_of(source: Source) -> np.ndarray:
    """Return the records of a DHAT profile.

    Returns:
        Shape (blocks,), dtype `RECORD`.

    Raises:
        BadCallError: the profile is malformed, or has more than `MOST_RECORDS` blocks.
        TraceError: the profile cannot be read.
    """
    sites, _, stacks = read_stacks(source)
    n_records = int(sites.blocks.sum())
    if n_records > MOST_RECORDS:
        raise BadCallError(f"{n_records:,} blocks; classic records are 1 to {MOST_RECORDS:,}")
    weights = list(zip(sites.blocks.tolist(), sites.total_bytes.tolist(), strict=True))
    order = []
    for group in take_turns(tree_paths(stacks, weights)):
        n_blocks = sites.blocks[group]
        which = np.repeat(np.arange(len(group)), n_blocks)
        turn = np.concatenate([np.arange(n) for n in n_blocks])
        order.append(np.array(group)[which[np.lexsort([which, turn])]])
    rows = np.empty(len(stacks), RECORD)
    rows["type"] = 1
    rows["size"] = np.maximum(sites.total_bytes / sites.blocks, 1.0)
    rows["life"] = sites.lifetime / sites.blocks / TICK
    found: np.ndarray = rows[np.concatenate(order)]
    return found
