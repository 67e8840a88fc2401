"""What recording costs services under load: requests per second and CPU time per request.

Each service of `configs/services` runs under the load of its file, plainly and with the recorder in
all its processes, in interleaved rounds.  Traces are not built: that comes after the service.

Target: in the median over the services, requests per second under the recorder are at least 0.9 of
those without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Final

from benchmarks.harness import Benchmark, Call, Target, table
from benchmarks.results import Parts
from benchmarks.rounds import Figures, changes_of, column, failed, run_rounds
from benchmarks.services import SERVICES, file_of, short_load
from tuner.cli.services import service_of_file
from tuner.errors import MissingToolError
from tuner.measure.program import Surroundings, clean_environment
from tuner.records import Outcome
from tuner.service.lifecycle import begun_run
from tuner.service.plan import ServicePlan
from tuner.service.recording import preload_recorder

PLAIN, RECORDED = "plain", "recorded"
RATE, CPU, LATENCY = "rate", "cpu", "p99"
BYTES: Final = "spool_bytes_per_request"
_LEAST_RATE: Final = 0.9


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
        except MissingToolError as error:
            print(f"service_recording: left out: {name}: {error}", file=sys.stderr)
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


def ratios(parts: Parts) -> list[float]:
    """Return requests per second under the recorder to those without it, by service."""
    found = [changes_of(parts[n]["rows"], RECORDED, PLAIN, (RATE,)) for n in SERVICES if n in parts]
    return [1.0 + one[RATE].median for one in found if RATE in one]


def targets(parts: Parts) -> Iterator[Target]:
    """Yield the median over the services."""
    found = ratios(parts)
    if found:
        note = f"{len(found)} services, the least {min(found):.3f}"
        what = "requests per second under the recorder"
        yield Target(what, median(found), _LEAST_RATE, at_least=True, note=note)


BENCHMARK: Final = Benchmark(
    name="service_recording",
    about=__doc__,
    claim="Services under the recorder serve at least 0.9 of the requests per second.",
    depends_on=("rand_malloc/recorder", "tuner/service", "configs/services"),
    measure=measure,
    lines=lines,
    targets=targets,
    rounds=8,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
