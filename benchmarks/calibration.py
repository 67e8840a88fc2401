"""How far calibrations agree, with and without two busy loops beside them.

Every round calibrates once alone and once beside the loops; the table shows the median and the
range of each price, and the change by the loops with its interval.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from benchmarks.harness import Benchmark, Call, Target, relative, table
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, run_rounds, spread
from tuner.measure.instruments import ask_emulator
from tuner.stats import Estimate, Interval, median_estimate, ratio_estimate

PART: Final = "prices"
PRICES: Final = ("c_fault", "c_page", "c_syscall", "ns_per_instruction")
MOST_CHANGE: Final = 0.10
_LOOPS: Final = {"alone": 0, "loops": 2}


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


def _calibrate(_task: str, subject: str) -> Figures:
    with busy_loops(_LOOPS[subject]):
        found = json.loads(ask_emulator("--calibrate"))
    return Figures.succeeded({price: found[price] for price in PRICES})


def measure(call: Call) -> None:
    """Take draws by turns."""
    if not call.choose([PART], [PART]):
        return
    rows = run_rounds(call, PART, ["calibration"], list(_LOOPS), _calibrate, shown="c_fault")
    call.keep(PART, rows, rounds=call.rounds)


def change(rows: list[Row], price: str) -> Estimate | None:
    """Return the ratio of a price beside the loops to that alone."""
    return ratio_estimate(*(column(rows, price, subject=kind) for kind in ("loops", "alone")))


def lines(parts: Parts) -> Iterator[str]:
    """Yield a row for each price."""
    rows = []
    for price in PRICES:
        cells = []
        for kind in _LOOPS:
            values = column(parts[PART], price, subject=kind)
            middle = median_estimate(values)
            cells.append(
                f"{middle.median if middle else 0:.4g} ({min(values):.4g} to {max(values):.4g})"
            )
        found = change(parts[PART], price)
        ends = found.interval if found else None
        text = relative(found.median if found else None)
        interval = f" [{relative(ends.low)}, {relative(ends.high)}]" if ends else ""
        rows.append([price, *cells, text + interval])
    yield from table(["price", "alone", "with two busy loops", "change"], rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield by how much the loops move the price of a fault."""
    found = change(parts[PART], "c_fault")
    if found:
        less, more = 1.0 - spread(found).low, spread(found).high - 1.0
        yield Target("change of the price", abs(found.median - 1.0), MOST_CHANGE, form=".1%",
                     interval=Interval(max(0.0, -less, -more), max(less, more)))  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="calibration",
    about=__doc__,
    claim="The price of a page fault is within 10 % with two busy loops beside its calibration.",
    depends_on=("rand_malloc/emulator", "tuner/measure/instruments.py"),
    measure=measure,
    needs=(PART,),
    lines=lines,
    targets=targets,
    rounds=6,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
