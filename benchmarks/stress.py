"""An hour of random operations on exgen with its checks on, in all its corners.

Builds the allocator's random tests (assertions, or walkers at every refill) and runs them
with one seed after the other, in turn under every group of settings below, for the time
asked for.  Each run checks contents, alignment, validity and that nothing leaks.

    python benchmarks/stress.py                  one hour
    python benchmarks/stress.py --seconds 600 --seed 1000
    python benchmarks/stress.py --smoke          each test once

Exit status 1, with the command that repeats it, when a run fails.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

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
    parser.add_argument("--smoke", action="store_true", help="each test once")
    arguments = parser.parse_args()
    _build()
    end = time.monotonic() + (0 if arguments.smoke else arguments.seconds)
    n_runs = 0
    for seed in itertools.count(arguments.seed):
        configuration = CONFIGURATIONS[(seed - 1) % len(CONFIGURATIONS)]
        for name, operations in TESTS:
            if not _run(name, operations, seed, configuration):
                return 1
            n_runs += 1
        if time.monotonic() >= end:
            break
    print(f"{n_runs} runs of {N_THREADS} threads, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
