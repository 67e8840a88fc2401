"""What recording costs services under load: CPU time per request and requests per second.

Each service of `configs/services` runs under the load of its file, plainly and with the recorder in
all its processes, in interleaved rounds.  Traces are not built: that comes after the service.

Loads have a fixed rate below what the services can do, so the rate shows no more than that they
keep up.  What the recorder takes shows in the CPU time per request: a service that is busy all the
time would serve as many requests less.

Targets: in the median over the services, a request takes at most 1.1 times the CPU time under the
recorder; none serves fewer than 0.9 of the requests per second; and every run has a result.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from benchmarks.harness import Benchmark, Call, Target, table
from benchmarks.results import Parts
from benchmarks.rounds import (
    Change,
    Figures,
    changes_of,
    column,
    failed,
    failed_target,
    failures,
    n_failed,
    run_rounds,
)
from benchmarks.services import SERVICES, file_of, short_load
from tuner.cli.services import service_of_file
from tuner.errors import MissingToolError, SpecError
from tuner.measure.program import Surroundings, clean_environment
from tuner.records import Outcome
from tuner.service.lifecycle import begun_run
from tuner.service.plan import ServicePlan
from tuner.service.recording import preload_recorder
from tuner.stats import Interval

PLAIN, RECORDED = "plain", "recorded"
RATE, CPU, LATENCY = "rate", "cpu", "p99"
BYTES: Final = "spool_bytes_per_request"
_LEAST_RATE: Final = 0.9
_MOST_CPU: Final = 1.1


def measure(call: Call) -> None:
    """Measure one service after the other."""
    for name in call.choose(SERVICES, ["redis"]):
        plan = replace(service_of_file(file_of(name)[0]), warm_ups=0, idle_s=0.0)
        if call.is_smoke:
            plan = replace(plan, load=short_load(plan.load))
        try:
            rows = run_rounds(
                call, name, [name], [PLAIN, RECORDED], _runner(plan),
                same=plan.load, baseline=PLAIN, shown=RATE,
            )  # fmt: skip
        except (MissingToolError, SpecError) as error:  # such as a service that needs root
            call.leave_out(name, error)
            continue
        call.keep(name, {"rows": rows}, rounds=call.rounds)


def _runner(plan: ServicePlan) -> Callable[[str, str], Figures]:
    def run_once(_service: str, subject: str) -> Figures:
        with begun_run(plan, clean_environment(os.environ), Surroundings()) as run:
            spool = preload_recorder(run) if subject == RECORDED else None
            done = run.once(is_recording=True)
            if done.good is None:
                return failed(str(done.reason))
            figures = {n: v for n, v in done.good.values.items() if n in (RATE, CPU, LATENCY)}
            if spool is not None:
                n_bytes = sum(path.stat().st_size for path in spool.iterdir())
                figures[BYTES] = n_bytes / done.good.requests
            return Outcome.succeeded(figures)

    return run_once


def lines(parts: Parts) -> Iterator[str]:
    """Yield what the recorder changes of each service."""
    rows = []
    for name in SERVICES:
        if name in parts:
            kept = parts[name]["rows"]
            found = changes_of(kept, RECORDED, PLAIN, (RATE, CPU, LATENCY))
            cells = [str(found.get(one) or "-") for one in (RATE, CPU, LATENCY)]
            spools = column(kept, BYTES, subject=RECORDED)
            rows.append([name, *cells, f"{median(spools):.0f}" if spools else "-"])
    titles = ["under the recorder", "requests/s", "CPU/request", "p99", "spool, bytes/request"]
    yield from table(titles, rows)
    for part in parts.values():
        yield from failures(part["rows"])


def changes(parts: Parts, name: str) -> list[Change]:
    """Return what the recorder changes of a figure, by service."""
    found = [changes_of(parts[n]["rows"], RECORDED, PLAIN, (name,)) for n in SERVICES if n in parts]
    return [one[name] for one in found if name in one]


def _over(changes: Sequence[Change], choose: Callable[[Iterable[float]], float]) -> Interval:
    """Return where a median or least ratio lies: it grows with each of those it is chosen from."""
    lows = (-1.0 if one.low is None else one.low for one in changes)
    highs = (math.inf if one.high is None else one.high for one in changes)
    return Interval(1.0 + choose(lows), 1.0 + choose(highs))


def targets(parts: Parts) -> Iterator[Target]:
    """Yield CPU time in the median over the services, and the least rate."""
    if found := changes(parts, CPU):
        middles = [1.0 + one.median for one in found]
        note = f"{len(found)} services, the most {max(middles):.3f}"
        yield Target("CPU time per request under the recorder", median(middles), _MOST_CPU,
                     note=note, interval=_over(found, median))  # fmt: skip
    if found := changes(parts, RATE):
        what = "least requests per second of a service under it"
        yield Target(what, 1.0 + min(one.median for one in found), _LEAST_RATE, at_least=True,
                     interval=_over(found, min))  # fmt: skip
    yield from failed_target(sum(n_failed(kept["rows"]) for kept in parts.values()))


BENCHMARK: Final = Benchmark(
    name="service_recording",
    about=__doc__,
    claim="Services under the recorder take at most 1.1 times the CPU time per request, and keep "
    "up with their load.",
    depends_on=("rand_malloc/recorder", "tuner/service", "configs/services"),
    measure=measure,
    needs=SERVICES,
    lines=lines,
    targets=targets,
    rounds=8,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
