"""An hour of random operations on exgen with its checks on, in all its corners.

Builds the allocator's random tests (assertions, or walkers at every refill) and runs them
with one seed after the other, in turn under every group of settings below, for the time
asked for.  Each run checks contents, alignment, validity and that nothing leaks.

    python benchmarks/stress.py                  one hour
    python benchmarks/stress.py --seconds 600 --seed 1000
    python benchmarks/stress.py --print          the last results
    python benchmarks/stress.py --smoke          each test once

How often each test ran under each group of settings, and with which seeds, goes to
``benchmarks/results/stress.json``, with the run that failed, if one did.  Exit status 1, with
the command that repeats it, when a run fails.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.provenance import RESULTS as RESULTS_FOLDER
from benchmarks.provenance import make_stamp, provenance_lines, write_results

ROOT = Path(__file__).resolve().parent.parent

RESULTS: Final = RESULTS_FOLDER / "stress.json"
SCHEMA: Final = "malloc-tuner.benchmark.stress"
BUILD = ROOT / "build" / "stress"

CONFIGURATIONS = (
    "",
    "check:true",
    "junk:true",
    "secure:true",
    "purge_delay:0",
    "superblock_size:16384",
    "remote_batch:1,empty_superblocks:0,pool_superblocks:0",
    "adopt:thread,merge_percent:30",
    "slab_start_units:0,slab_units_max:32,purge_delay:1",
)

TESTS = (("test_random_checked", "2000"), ("test_random", "40000"))
"""Program and number of operations of each thread."""

N_THREADS = "4"


def _build() -> None:
    for command in (
        ["cmake", "-S", str(ROOT / "allocator"), "-B", str(BUILD), "-G", "Ninja"],
        ["ninja", "-C", str(BUILD), *(name for name, _ in TESTS)],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _run(name: str, operations: str, seed: int, configuration: str) -> bool:
    settings = ",".join(filter(None, ("abort_conf:true", configuration)))
    command = [str(BUILD / "test" / name), operations, N_THREADS, str(seed)]
    environment = {**os.environ, "EXGEN_CONF": settings}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return True
    print(f"EXGEN_CONF={settings} {' '.join(command)}: status {done.returncode}", file=sys.stderr)
    print(done.stderr, file=sys.stderr)
    return False


def main() -> int:
    """Run until the time is over; print the number of runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long (default: 3600)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="each test once")
    arguments = parser.parse_args()
    if arguments.print:
        return _show(json.loads(RESULTS.read_text()))
    _build()
    end = time.monotonic() + (0 if arguments.smoke else arguments.seconds)
    seeds = itertools.count(arguments.seed)
    samples: dict[tuple[str, str], dict[str, Any]] = {}
    for seed in itertools.chain([next(seeds)], _until(end, seeds)):
        configuration = CONFIGURATIONS[(seed - 1) % len(CONFIGURATIONS)]
        for name, operations in TESTS:
            passed = _run(name, operations, seed, configuration)
            add_run(samples, name, configuration, seed, passed=passed)
            if not passed:
                return _finish(list(samples.values()), is_kept=not arguments.smoke)
    return _finish(list(samples.values()), is_kept=not arguments.smoke)


def _until(end: float, seeds: Iterator[int]) -> Iterator[int]:
    while time.monotonic() < end:
        yield next(seeds)


def add_run(
    samples: dict[tuple[str, str], dict[str, Any]],
    name: str,
    configuration: str,
    seed: int,
    *,
    passed: bool,
) -> None:
    """Count a run of a test under a group of settings."""
    empty = {"test": name, "configuration": configuration, "n_runs": 0, "first_seed": seed,
             "failed_seed": None}  # fmt: skip
    row = samples.setdefault((name, configuration), empty)
    row["n_runs"] += 1
    row["last_seed"] = seed
    row["failed_seed"] = None if passed else seed


def _finish(samples: Sequence[Mapping[str, Any]], *, is_kept: bool) -> int:
    stamp = make_stamp("stress", sys.argv, of=["random operations"])
    document = {"schema": SCHEMA, "version": 2, "provenance": [stamp], "samples": samples}
    if is_kept:
        write_results(RESULTS, document)
    return _show(document)


def _show(document: Mapping[str, Any]) -> int:
    """Print how many runs there were and what failed; return the exit status."""
    print("\n".join(provenance_lines(document["provenance"])))
    n_runs = sum(sample["n_runs"] for sample in document["samples"])
    failed = [sample for sample in document["samples"] if sample["failed_seed"] is not None]
    for sample in failed:
        print(f"failed: {sample['test']} with seed {sample['failed_seed']} under "
              f"{sample['configuration'] or 'the default'}")  # fmt: skip
    print(f"{n_runs} runs of {N_THREADS} threads, {len(failed) or 'nothing'} found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
