"""How a campaign's evaluations scale over workers: two against one, many, and beyond.

    two        a real trace on one worker of Dask and on two, in turns
    sleeping   tasks that sleep, with durations of a heavy tail, on the real scheduler and real
               workers, as many as this machine carries
    simulated  a thousand workers and more, by a simulation with figures of the part sleeping

Busy is the share of the workers' time, from when all have begun until the last task is handed out,
in which they have a task.  The simulation assumes: durations are lognormal as those slept; one
coordinator hands out tasks one after the other, each taking the CPU time that `sleeping` measured
for one; a result and a task take a millisecond each on the way; nothing fails.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.harness import Benchmark, Call, Target, percent, table
from benchmarks.results import ROOT, Parts
from benchmarks.rounds import spread
from benchmarks.sources import EMULATOR
from tuner.allocators import get_allocator, locate_all
from tuner.emulation import EmulationOptions
from tuner.errors import ProgramError
from tuner.measure.calibration import load_calibration
from tuner.measure.cluster import ClusterExecutor
from tuner.measure.emulator import Emulation
from tuner.measure.evaluation import Evaluation
from tuner.measure.executor import Attempts
from tuner.measure.remote import EmulationKit, Kit
from tuner.records import Configuration, Measurement, Outcome
from tuner.resources import configs_dir
from tuner.stats import ratio_estimate

TWO, SLEEPING, SIMULATED = PARTS = "two", "sleeping", "simulated"
LEAST_SPEEDUP, LEAST_BUSY = 1.9, 0.95
_TRACE: Final = "workloads/gem5-suite/traces/text-minor.trace"
_TAIL: Final = 1.0
"""Sigma of the lognormal durations: one in a hundred takes ten times the median."""
_SIMULATED_WORKERS: Final = (100, 1000, 4000)
_TRIP_S: Final = 0.001
_TASKS_PER_WORKER: Final = 20


@dataclass(frozen=True)
class SleepingKit:
    """Sleeps as long as a configuration says."""

    name: str
    most_per_machine: int = field(compare=False)

    def identity(self) -> Mapping[str, str]:
        """Return nothing: all workers are of this machine."""
        return {}

    def missing(self) -> list[str]:
        """Return nothing."""
        return []

    def content(self, sha256: str) -> bytes:
        """Never called."""
        raise ValueError(sha256)

    def evaluator(self) -> SleepingKit:
        """Return itself."""
        return self

    def evaluate(self, configuration: Configuration, _cpu: int | None = None) -> Evaluation:
        """Sleep, and return when that began and ended."""
        begun_s = time.monotonic()
        time.sleep(float(configuration.as_dict.get("sleep_s", 0.0)))
        found = {"mean_heap": begun_s, "cost": time.monotonic()}
        return Outcome.succeeded(Measurement(found))


@contextmanager
def cluster(folder: Path, threads: Sequence[int]) -> Iterator[str]:
    """Start a scheduler and workers, each with some threads; yield the address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    commands = [["scheduler", "--host", "127.0.0.1", "--port", str(port), *quiet]]
    for n in threads:
        options = ["--no-nanny", "--nthreads", str(n), "--local-directory", str(folder)]
        commands.append(["worker", address, *options, *quiet])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "dask.log").open("ab") as log:
        processes = [
            subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=log, stderr=log,
                             env=environment, start_new_session=True)
            for words in commands
        ]  # fmt: skip
    try:
        yield address
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def measure(call: Call) -> None:
    """Measure the parts that are asked for."""
    for part in sorted(call.choose(PARTS, (SLEEPING, SIMULATED)), key=PARTS.index):
        if part == TWO:
            call.keep(TWO, _two(call), rounds=call.rounds)
        elif part == SLEEPING:
            call.keep(SLEEPING, _sleeping(call))
        elif SLEEPING in call.parts:
            call.keep(SIMULATED, _simulated(call, call.parts[SLEEPING]["cpu_per_task_s"]))
        else:
            call.leave_out(SIMULATED, f"needs the coordinator's time of the part {SLEEPING}")


def _two(call: Call) -> list[dict[str, float]]:
    """Evaluate the same configurations on one worker and on two, in turns."""
    located = locate_all([get_allocator("glibc")])
    options = EmulationOptions(instrument="none")
    emulation = Emulation(configs_dir() / _TRACE, located, load_calibration(), options)
    configurations = [
        Configuration.of("glibc", {"top_pad": 4096 * n}) for n in range(1, call.options.tasks + 1)
    ]
    samples: list[dict[str, float]] = []
    for number in range(call.rounds):
        found = {}
        for n in (1, 2) if number % 2 == 0 else (2, 1):
            kit = EmulationKit.of([emulation], None)
            with cluster(call.scratch, [1] * n) as address:
                found[str(n)] = _elapsed_s(kit, address, configurations, n)
        samples.append(found)
    return samples


def _elapsed_s(
    kit: Kit, address: str, configurations: Sequence[Configuration], n_workers: int
) -> float:
    """Return how long the configurations take once all workers are in use."""
    default = Configuration("glibc")
    with ClusterExecutor(kit, address, default) as executor:
        list(executor.run([default]))
        while executor.n_workers < n_workers:
            list(executor.run([default]))
        begun_s = time.monotonic()
        ended = list(executor.run(configurations))
        took_s = time.monotonic() - begun_s
    good(ended)
    return took_s


def good(ended: Iterable[Attempts]) -> list[Measurement]:
    """Return what evaluations measured: time of those that failed is none of work.

    Raises:
        ProgramError: one failed.
    """
    found = []
    for one in ended:
        if one.outcome is None or one.outcome.good is None:
            reasons = one.failures if one.outcome is None else (str(one.outcome.reason),)
            raise ProgramError(f"{one.configuration}: {'; '.join(reasons)}")
        found.append(one.outcome.good)
    return found


def _sleeping(call: Call) -> dict[str, Any]:
    """Let the real scheduler hand out tasks that sleep."""
    n_workers = 8 if call.is_smoke else call.options.workers
    mean_s = 0.2 if call.is_smoke else call.options.mean
    durations = _durations(n_workers * (4 if call.is_smoke else _TASKS_PER_WORKER), mean_s, 1)
    kit = SleepingKit(uuid.uuid4().hex, n_workers)
    configurations = [
        Configuration.of("glibc", {"sleep_s": d, "number": i}) for i, d in enumerate(durations)
    ]
    per_process = 25
    threads = [per_process] * (n_workers // per_process)
    threads += [n_workers % per_process] if n_workers % per_process else []
    default = Configuration("glibc")
    with (
        cluster(call.scratch, threads) as address,
        ClusterExecutor(kit, address, default) as executor,
    ):
        while executor.n_workers < n_workers:
            list(executor.run([default]))
        begun_s = time.process_time()
        ended = list(executor.run(configurations))
        cpu_s = time.process_time() - begun_s
    spans = [(one.value("mean_heap"), one.value("cost")) for one in good(ended)]
    return {
        "workers": n_workers,
        "mean_s": mean_s,
        "tasks": len(spans),
        "busy": busy_share(spans, n_workers),
        "cpu_per_task_s": cpu_s / max(1, len(spans)),
    }


def _durations(n: int, mean_s: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    middle = math.log(mean_s) - _TAIL**2 / 2.0
    return [chance.lognormvariate(middle, _TAIL) for _ in range(n)]


def busy_share(spans: Sequence[tuple[float, float]], n_workers: int) -> float:
    """Return the share of the workers' time with a task, while there were tasks.

    Args:
        spans: begin and end of each task.
        n_workers: tasks at a time.
    """
    begins = sorted(begin for begin, _ in spans)
    first, last = begins[min(n_workers, len(begins)) - 1], begins[-1]
    used = sum(max(0.0, min(end, last) - max(begin, first)) for begin, end in spans)
    return used / (n_workers * (last - first)) if last > first else 0.0


def _simulated(call: Call, hand_out_s: float) -> list[dict[str, float]]:
    """Simulate more workers, with the coordinator's time for a task that was measured."""
    counts = _SIMULATED_WORKERS[:1] if call.is_smoke else _SIMULATED_WORKERS
    return [
        {
            "workers": n,
            "mean_s": call.options.simulated_mean,
            "hand_out_s": hand_out_s,
            "busy": simulate(n, call.options.simulated_mean, hand_out_s),
            "barrier": simulate(n, call.options.simulated_mean, hand_out_s, batch=n),
        }
        for n in counts
    ]


def simulate(n_workers: int, mean_s: float, hand_out_s: float, batch: int | None = None) -> float:
    """Return the share of time that simulated workers are busy.

    Args:
        n_workers: how many.
        mean_s: of the durations.
        hand_out_s: time that the coordinator needs for a task, one after the other.
        batch: tasks of which all must end before the next is handed out; None: nobody waits.
    """
    durations = _durations(n_workers * _TASKS_PER_WORKER, mean_s, 2)
    spans: list[tuple[float, float]] = []
    free = [(0.0, worker) for worker in range(n_workers)]
    clock = barrier = 0.0
    for number, duration in enumerate(durations):
        if batch and number and number % batch == 0:
            barrier = max(end for _, end in spans[-batch:])
        ready, worker = heapq.heappop(free)
        clock = max(clock, ready + _TRIP_S, barrier) + hand_out_s
        begin = clock + _TRIP_S
        spans.append((begin, begin + duration))
        heapq.heappush(free, (begin + duration, worker))
    return busy_share(spans, n_workers)


def lines(parts: Parts) -> Iterator[str]:
    """Yield what was found."""
    if samples := parts.get(TWO):
        speedups = sorted(sample["1"] / sample["2"] for sample in samples)
        yield f"two workers against one: {median(speedups):.2f} times ({speedups[0]:.2f} at least)"
    if one := parts.get(SLEEPING):
        yield (
            f"{one['workers']} workers, {one['tasks']} tasks of {one['mean_s']:g} s in the mean: "
            f"busy {percent(one['busy'])}; {1e3 * one['cpu_per_task_s']:.1f} ms of the "
            "coordinator's CPU time for a task"
        )
    if found := parts.get(SIMULATED):
        rows = [
            [f"{one['workers']}", f"{one['mean_s']:g}", percent(one["busy"]),
             percent(one["barrier"])]
            for one in found
        ]  # fmt: skip
        yield from table(["simulated workers", "mean s", "busy", "with batches"], rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what should be reached."""
    samples = parts.get(TWO, ())
    if found := ratio_estimate(*([sample[n] for sample in samples] for n in ("1", "2"))):
        yield Target("two workers against one", found.median, LEAST_SPEEDUP, at_least=True,
                     form=".2f", interval=spread(found))  # fmt: skip
    if one := parts.get(SLEEPING):
        what = f"busy, {one['workers']} workers"
        yield Target(what, one["busy"], LEAST_BUSY, at_least=True, form=".1%")
    for one in parts.get(SIMULATED, ()):
        if one["workers"] == 1000:
            what = f"busy, 1,000 simulated workers, evaluations of {one['mean_s']:g} s"
            yield Target(what, one["busy"], LEAST_BUSY, at_least=True, form=".1%")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=int, default=60, metavar="N", help="of part two")
    parser.add_argument("--workers", type=int, default=100, metavar="N", help="that sleep")
    parser.add_argument("--mean", type=float, default=2.0, metavar="S", help="of what they sleep")
    parser.add_argument("--simulated-mean", type=float, default=10.0, metavar="S",
                        help="of a simulated evaluation")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="scale",
    about=__doc__,
    claim="Two workers do 1.9 times the evaluations of one; a thousand, simulated, are busy 95 % "
    "of the time with evaluations of 10 s.",
    depends_on=(
        "tuner/measure/cluster.py",
        "tuner/measure/workers.py",
        "tuner/measure/remote.py",
        *EMULATOR,
    ),
    measure=measure,
    needs=PARTS,
    lines=lines,
    targets=targets,
    options=_options,
    rounds=5,
)

if __name__ == "__main__":
    from benchmarks import scale  # the kit travels by the name of its module

    sys.exit(scale.BENCHMARK.run())
