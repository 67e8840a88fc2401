"""Record dense campaigns of real workloads: the table on which search strategies are compared.

Each campaign has all configurations of a narrowed space, two thousand, all of them counted, on a
shrunk workload of this repository, so that an evaluation takes a tenth of a second.  In a part of
them a search meets another problem than the real one: where a neighbour answers for a proposal, it
is most often one that lacks the change that was made.  What is not in a campaign yet is measured in
pieces, which can be stopped at any moment, and the trials are kept compactly in
``benchmarks/recorded``, where `benchmarks/search.py` finds them; the runs themselves stay below
``runs/dense``.

    benchmarks/dense.py                  record all, until every space is exhausted
    benchmarks/dense.py NAME...          only these
    benchmarks/dense.py --minutes N      for so long; the same command goes on
    benchmarks/dense.py --smoke          a quick look that it still runs
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tomli_w

from benchmarks.harness import located, malloc_tuner
from benchmarks.results import ROOT
from benchmarks.search_problem import RECORDED_FILES
from tuner.allocators import HostFacts, WorkloadFacts
from tuner.campaign.replay import Points, read_points, save_points
from tuner.profile.file import write_profile
from tuner.profile.generated import replayable
from tuner.profile.variation import shrink
from tuner.resources import configs_dir

WORKLOADS: Final = {
    "interpreter": ("perl-index", 0.006),
    "compiler": ("cxx-compile", 0.003),
    "database": ("redis-load", 0.008),
    "threads": ("python-threads", 0.004),
    "tasks": ("openmp-words", 0.01),
}
"""Name of a campaign -> its workload in ``configs/workloads``, and the share of its allocations
that is kept: some 5,000 events."""
_PIECE: Final = 400
"""Evaluations between two looks at the clock."""
_SMOKE_EVALUATIONS: Final = 8
_LOWEST_PRIORITY: Final = 19
_DIGITS: Final = 5
"""Of the objectives that are kept, as of all results."""

SPACE: Final[dict[str, dict[str, list[Any]]]] = {
    "glibc": {
        "trim_threshold": ["64 KiB", "64 MiB"],
        "mmap_threshold": ["32 KiB", "32 MiB"],
        "top_pad": [0, "64 KiB"],
        "mxfast": [0, 152],
        "tcache_count": [0, 2, 64, 1024],
        "tcache_unsorted_limit": [1],
    },
    "tcmalloc": {
        "max_total_thread_cache_bytes": ["512 KiB", "4 MiB", "64 MiB"],
        "aggressive_decommit": [True],
        "release_rate": [0.0, 100.0],
        "transfer_num_obj": [1, 8, 128, 1024],
        "skip_sbrk": [True],
    },
    "jemalloc": {
        "dirty_decay_ms": [0, -1],
        "tcache": [False],
        "tcache_max": [512, "4 KiB", "1 MiB"],
        "lg_tcache_nslots_mul": [-2, 3],
        "tcache_gc_incr_bytes": ["8 KiB"],
        "slab_sizes": ["1-14336:1", "1-14336:16"],
    },
    "mimalloc": {
        "decommit_delay": [0, 10, 1000],
        "segment_decommit_delay": [0, 10, 10000],
        "allow_decommit": [False],
    },
    "exgen": {
        "superblock_size": ["64 KiB", "4 MiB"],
        "class_steps": [1, 2, 8],
        "slab_units_max": [1, 16],
        "commit_step": ["8 KiB", "64 KiB"],
        "empty_slabs": [0, 16],
        "dirty_percent": [0],
        "realloc_slack": [0],
    },
}
"""Values beside unset; every other setting stays unset."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing of the campaigns that were named."""
    parser = argparse.ArgumentParser(
        prog="dense.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *WORKLOADS], metavar="NAME")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="N")
    parser.add_argument("--evaluations", type=int, default=20_000, metavar="N",
                        help="of a campaign, at most; default: %(default)s")  # fmt: skip
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            _record(next(iter(WORKLOADS)), _SMOKE_EVALUATIONS, Path(folder), Path(folder))
        return 0
    os.nice(_LOWEST_PRIORITY - os.nice(0))
    runs = ROOT / "runs" / "dense"
    end_s = time.monotonic() + 60.0 * options.minutes
    waiting = dict.fromkeys(options.names or WORKLOADS, 0)
    while waiting and time.monotonic() < end_s:
        for name in list(waiting):
            n_before = waiting[name]
            waiting[name] = _record(name, options.evaluations, runs, RECORDED_FILES)
            is_exhausted = waiting[name] in (n_before, options.evaluations)
            if is_exhausted or time.monotonic() >= end_s:
                waiting.pop(name)
    return 0


def _record(name: str, most: int, runs: Path, kept: Path) -> int:
    """Record one piece of a campaign below `runs`, and return how many trials it has.

    Its table goes to the folder `kept`.
    """
    runs.mkdir(parents=True, exist_ok=True)
    trace, campaign, run = (runs / f"{name}{end}" for end in (".trace", ".toml", ""))
    if not trace.exists():
        workload, share = WORKLOADS[name]
        profile = configs_dir() / "workloads" / workload / f"{workload}.profile.json.zst"
        write_profile(runs / f"{name}.profile.json", shrink(profile, share))
        replayable(runs / f"{name}.profile.json", 1, trace)
    campaign.write_text(tomli_w.dumps(campaign_of(name, trace)), encoding="utf-8")
    n_trials = len(read_points(run).genomes) if run.exists() else 0
    wanted = min(most, n_trials + _PIECE)
    malloc_tuner("tune", campaign, "-o", run, "--evaluations", wanted, "--quiet")
    points = read_points(run)
    kept.mkdir(exist_ok=True)
    save_points(_packed(points), kept / f"{name}.points.json.zst")
    print(f"{name}: {len(points.genomes)} trials", file=sys.stderr)
    return len(points.genomes)


def _packed(points: Points) -> Points:
    """Return the points in the order of their genomes and rounded, for fewer bytes."""
    rows = sorted(zip(points.genomes, points.values, points.violations, strict=True))
    genomes, values, violations = zip(*rows, strict=True)
    rounded = (v and tuple(float(f"{one:.{_DIGITS}g}") for one in v) for v in values)
    return replace(points, genomes=genomes, values=tuple(rounded), violations=violations)


def campaign_of(name: str, trace: Path) -> dict[str, Any]:
    """Return the campaign of a workload, as its file has it."""
    return {
        "name": name,
        "trace": str(trace),
        "allocators": list(SPACE),
        "objectives": ["mean_heap", "cost"],
        "strategy": "exhaustive",
        "emulation": {"count": "all", "thp": "never"},
        "recheck": {"share": 0.0},
        "space": {allocator: _narrowed(allocator) for allocator in SPACE},
    }


def _narrowed(allocator: str) -> dict[str, Any]:
    """Return what is kept of the settings of the version that is installed."""
    adapter, installation = located([allocator])[allocator]
    workload = WorkloadFacts(n_threads=64, duration_ns=1 << 40, freed_bytes=1 << 40)
    genes = adapter.parameters(installation, HostFacts.detect(), workload, None)
    others = (one.name.partition(".")[2] for one in genes if not one.is_structural)
    return {**dict.fromkeys(others, "unset"), **SPACE[allocator]}


if __name__ == "__main__":
    sys.exit(main())
