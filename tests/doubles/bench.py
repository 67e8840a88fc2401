"""Made-up comparisons of allocators, and a driver that runs nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.bench.journal import Comparison, Place
from tuner.bench.plan import Task
from tuner.bench.subjects import BenchSubject
from tuner.measure.driver import DriverResult
from tuner.records import Outcome, Status

RING = Task("ring", 2)
LARSON = Task("larson", 16)
ALICE, BOB = BenchSubject("alice", None), BenchSubject("bob", None, (("B", "1"),))


def result(task: Task = RING, **changes: Any) -> DriverResult:
    times = {"n": 9, "p50_ns": 4.0, "p90_ns": 5.0, "p99_ns": 60.0, "p999_ns": 700.0, "max_ns": 8e3}
    fields = {
        "schema": "malloc-tuner.malloc_bench",
        "version": 1,
        "workload": task.workload,
        "threads": task.threads,
        "size": task.size,
        "seed": 1,
        "malloc_from": "/lib/libc.so.6",
        "operations": 1000,
        "wall_ns": 10**6,
        "cpu_ns": 2 * 10**6,
        "faults": 7,
        "peak_rss_bytes": 1 << 20,
        "end_rss_bytes": 1 << 19,
        "usable_bytes": None,
        "resident_bytes": None,
        "latency": {"clock_overhead_ns": 10.0, "malloc": times, "free": None},
        "curve": None,
    }
    return DriverResult.model_validate_json(json.dumps(fields | changes))


Placed = tuple[Place, Outcome[DriverResult]]


def sample(label: str, number: int, task: Task = RING, **changes: Any) -> Placed:
    return (number, task, label), Outcome.succeeded(result(task, **changes))


def stopped(label: str, number: int, task: Task = RING) -> Placed:
    return (number, task, label), Outcome.did_not_succeed(Status.TIMED_OUT, "stopped")


def comparison(*samples: Placed) -> Comparison:
    return Comparison((ALICE.label, BOB.label), dict(samples), 0.1)


class FakeDriver:
    """Answers every run from a table of endings; the rest succeeds."""

    def __init__(self, endings: Mapping[str, Outcome[DriverResult]] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.endings = endings or {}

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        library: Path | None,
        timeout_s: float,
    ) -> Outcome[DriverResult]:
        who = "bob" if "B" in environment else "alice"
        self.calls.append((words[0], who))
        self.environments.append(environment)
        return self.ending(environment)

    def ending(self, environment: Mapping[str, str]) -> Outcome[DriverResult]:
        """Return how a run under an environment ends."""
        who = "bob" if "B" in environment else "alice"
        return self.endings.get(who) or Outcome.succeeded(result())
