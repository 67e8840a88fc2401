"""What `malloc-tuner optimize` answers for gem5, on simulations that it never saw.

    benchmarks/gem5_answer.py --gem5 build/X86/gem5.fast --seconds 1200 --rounds 6

`optimize` is asked once for all simulations of the suite that are tuned on; half a per cent counts,
since the heap that malloc has a say in is half of the process.  gem5 then runs every
simulation held out, as it is and under the answer, in rounds.  What counts is the geometric mean
over the simulations: of gem5's mean heap over its CPU time, less what is not malloc's, and of that
time.  Where the answer is to keep what is there, no target is shown.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from benchmarks.gem5_traces import (
    built_gem5,
    gem5_option,
    heap_runner,
    lacks_gem5,
    of_one_simulation,
)
from benchmarks.harness import ALLOCATORS, Benchmark, Call, Target, installed, located, table
from benchmarks.results import Parts, read_results, results_path
from benchmarks.rounds import judged, run_rounds, values_of
from benchmarks.sources import EXGEN, GEM5, SEARCH
from tuner.config.gem5_suite import SimulationRole
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS
from tuner.records import Configuration
from tuner.stats import Estimate

PART: Final = "held-out"
LIMITS: Final = {"mean_heap": 0.95, "cpu_ns": 0.90}
"""Of the answer, relative to gem5 as it is."""
_LEAST: Final = 0.005
"""Least effect that counts, of the process."""
WORDS: Final = {"mean_heap": "mean heap", "cpu_ns": "CPU time"}


def measure(call: Call) -> None:
    """Ask for the answer, then judge it."""
    if call.is_smoke:  # that the last results are understood
        call.parts.update(read_results(results_path("gem5_answer"))["parts"])
        return
    if lacks_gem5(call, PART):
        return
    gem5 = built_gem5(call.options.gem5, call.folder)
    tuned = [gem5.command(one) for one in gem5.suite.choose([SimulationRole.TUNE.value])]
    first, *further = map(tuple, tuned)
    rules = Rules(least=_LEAST)
    request = Request(first, call.options.seconds, ALLOCATORS, rules, further=tuple(further))
    answer = Session(call.run_folder(PART, f"gem5-{call.options.seconds:g}"), request).answer()
    points = {AS_IS: Configuration("glibc")}
    if answer.configuration is not None:
        points["answer"] = answer.configuration
    everywhere = located(sorted({one.allocator for one in points.values()}))
    simulations = gem5.suite.choose([SimulationRole.HELD_OUT.value])
    rows = run_rounds(
        call, PART, [one.name for one in simulations], list(points),
        heap_runner(gem5, simulations, points, everywhere),
        same=[answer.sentence, {one.name: gem5.identity(one) for one in simulations}],
        baseline=AS_IS, shown="mean_heap",
    )  # fmt: skip
    rows = of_one_simulation(rows, AS_IS)
    found = {
        "sentence": answer.sentence,
        "seconds": call.options.seconds,
        "used_s": round(answer.seconds, 1),
        "rows": rows,
    }
    call.keep(PART, found, allocators=installed(everywhere), rounds=call.rounds)


def lines(parts: Parts) -> Iterator[str]:
    """Yield the answer, then what it changes on every simulation."""
    for kept in parts.values():
        yield f"{kept['sentence']} ({kept['used_s']:g} of {kept['seconds']:g} s)"
        values = {name: values_of(kept["rows"], name) for name in LIMITS}
        rows = [
            [task, *(_words(one.ratio(task, "answer", AS_IS)) for one in values.values())]
            for task in dict.fromkeys(row["task"] for row in kept["rows"])
        ]
        yield from table(["held out", *WORDS.values()], rows)


def _words(ratio: Estimate | None) -> str:
    return "-" if ratio is None else f"{ratio.median - 1.0:+.1%}"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what the answer needs over all simulations held out."""
    for kept in parts.values():
        tasks = list(dict.fromkeys(row["task"] for row in kept["rows"]))
        for name, limit in LIMITS.items():
            change = values_of(kept["rows"], name).change(tasks, "answer", AS_IS)
            yield from judged(f"{WORDS[name]} / gem5's as it is", change, limit)


def _options(parser: argparse.ArgumentParser) -> None:
    gem5_option(parser)
    parser.add_argument("--seconds", type=float, default=1200.0,
                        help="of the answer; default: %(default)g")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="gem5_answer",
    about=__doc__,
    claim="What `optimize` answers for gem5 holds on simulations that it never saw: at most 95 % "
    "of the mean heap in 90 % of the CPU time.",
    depends_on=(*EXGEN, *GEM5, *SEARCH, "rand_malloc", "tuner/measure", "tuner/optimize"),
    measure=measure,
    needs=(PART,),
    lines=lines,
    targets=targets,
    options=_options,
    rounds=6,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
