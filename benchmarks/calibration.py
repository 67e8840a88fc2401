"""How far calibrations agree, with and without two busy loops beside them.

Draws are taken by turns, one without and one with loops; the table tells the median and the
range of each price over the draws, and the change by the loops with its interval.

    benchmarks/calibration.py                 6 draws of each
    benchmarks/calibration.py --draws 12
    benchmarks/calibration.py --print         the table of the last results
    benchmarks/calibration.py --smoke         a quick look that it still runs

Target: c_fault within 10 %; exit status 1 when it is missed.  Raw samples go to
``benchmarks/results/calibration.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.provenance import make_stamp, provenance_lines, stamps_of, write_results
from tuner.measure.instruments import ask_emulator
from tuner.stats import ratio_estimate

SCHEMA: Final = "malloc-tuner.benchmark.calibration"
RESULTS: Final = Path(__file__).resolve().parent / "results" / "calibration.json"
TARGET: Final = 0.10
PRICES: Final = ("c_fault", "c_page", "c_syscall", "ns_per_instruction")

Draws = list[dict[str, Any]]


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(n_draws: int) -> dict[str, Draws]:
    """Return the answers of rand_malloc without and with loops, pair by pair."""
    found: dict[str, Draws] = {"alone": [], "loops": []}
    for _ in range(n_draws):
        found["alone"].append(json.loads(ask_emulator("--calibrate")))
        with busy_loops(2):
            found["loops"].append(json.loads(ask_emulator("--calibrate")))
    return found


def change(draws: dict[str, Draws], price: str) -> float:
    """Return the relative change of a price's median by the loops."""
    alone, loops = (statistics.median(d[price] for d in draws[k]) for k in ("alone", "loops"))
    return float(loops / alone) - 1.0


def table(draws: dict[str, Draws]) -> list[str]:
    """Return a line for each price."""
    lines = [f"{'price':20} {'alone':>24} {'with two busy loops':>24} {'change':>8}"]
    for price in PRICES:
        cells = []
        for kind in ("alone", "loops"):
            values = [draw[price] for draw in draws[kind]]
            middle = statistics.median(values)
            cells.append(f"{middle:.4g} ({min(values):.4g} to {max(values):.4g})")
        line = f"{price:20} {cells[0]:>24} {cells[1]:>24} {change(draws, price):>+8.1%}"
        loops, alone = ([draw[price] for draw in draws[kind]] for kind in ("loops", "alone"))
        found = ratio_estimate(loops, alone)
        ends = found.interval if found else None
        interval = f" [{ends.low - 1.0:+.1%}, {ends.high - 1.0:+.1%}]" if ends else ""
        lines.append(line + interval)
    return lines


def main() -> int:
    """Measure or print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--print", action="store_true", dest="only_print")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.only_print:
        print("\n".join(provenance_lines(stamps_of(RESULTS))))
        draws = json.loads(RESULTS.read_text(encoding="utf-8"))["draws"]
    else:
        draws = measure(1 if options.smoke else options.draws)
    if not (options.only_print or options.smoke):
        stamp = make_stamp("calibration", sys.argv, of=["prices"], rounds=options.draws)
        head = {"schema": SCHEMA, "version": 1, "provenance": [stamp]}
        write_results(RESULTS, {**head, "draws": draws})
    print("\n".join(table(draws)))
    return 0 if options.smoke or abs(change(draws, "c_fault")) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
