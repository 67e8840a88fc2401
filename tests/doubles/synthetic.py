"""Two invented allocators whose settings interact, and an evaluator that computes them.

The structure is that of the real problem: two allocators with different settings,
scales with special values, a mode that gates other settings, plateaus, settings
that only pay together, a little ruggedness.  No number means anything for a real
allocator.  Everything is deterministic; the optimum is not known in closed form
but every configuration can be computed, so the space is small enough to walk.
"""

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.doubles.machine import MACHINE
from tuner.campaign.progress import Listener
from tuner.campaign.runner import Runner
from tuner.campaign.setup import make_spaces
from tuner.emulation import EmulationOptions
from tuner.errors import ProgramError
from tuner.measure.evaluation import Evaluation
from tuner.measure.executor import LocalExecutor
from tuner.records import Configuration, CurvePoint, Measurement, Outcome, Status, Trial, Value
from tuner.space import Condition, Parameter, Space, joint_space
from tuner.store import AllocatorRecord, CampaignRecord, Store

_POWERS = tuple(1 << exponent for exponent in range(10, 24, 2))

PARTS: Mapping[str, tuple[Parameter, ...]] = {
    "glibc": (
        Parameter("glibc.cache_count", (None, 0, 1, 4, 16, 64, 256), ordered=True),
        Parameter("glibc.cache_max", (None, 0, *_POWERS), ordered=True),
        Parameter("glibc.mode", ("dynamic", "static"), ordered=False, is_structural=True),
        Parameter(
            "glibc.trim",
            (None, *_POWERS),
            ordered=True,
            condition=Condition("glibc.mode", ("static",)),
        ),
        Parameter(
            "glibc.pad",
            (None, 0, *_POWERS),
            ordered=True,
            condition=Condition("glibc.mode", ("static",)),
        ),
        Parameter("glibc.arenas", (None, 1, 2, 4, 8), ordered=True),
    ),
    "jemalloc": (
        Parameter("jemalloc.decay", (None, -1, 0, 1, 10, 100, 1000), ordered=True),
        Parameter("jemalloc.fit", (None, "first", "next"), ordered=False),
        Parameter("jemalloc.cache", (None, False), ordered=False),
        Parameter(
            "jemalloc.cache_max",
            (None, *_POWERS),
            ordered=True,
            condition=Condition("jemalloc.cache", (None,)),
        ),
        Parameter("jemalloc.slack", (None, 0, 1, 2, 4, 8), ordered=True),
    ),
}
"""Parameters of both allocators."""


def space() -> Space:
    return joint_space(PARTS)


def measure(configuration: Configuration) -> Measurement:
    settings = configuration.as_dict
    model = _glibc if configuration.allocator == "glibc" else _jemalloc
    heap_mib, work_m, faults = model(settings)
    rugged = zlib.crc32(configuration.key.encode())
    heap = heap_mib * (1.0 + 0.004 * ((rugged & 0xFFFF) / 0xFFFF - 0.5)) * (1 << 20)
    instructions = int(work_m * 1e6 * (1.0 + 0.004 * ((rugged >> 16) / 0xFFFF - 0.5)))
    syscalls = faults // 40
    return Measurement(
        {
            "peak_heap": int(heap * 1.25) // 4096 * 4096,
            "mean_heap": heap,
            "faults": faults,
            "syscalls": syscalls,
            "instructions": instructions,
            "process_instructions": 3 * instructions,
            "cost": instructions + 1600.0 * faults + 700.0 * syscalls,
            "p99_latency": None,
            "wall": time.monotonic_ns() % 1_000_000,
            "peak_live": 20 << 20,
            "fragmentation": heap * 1.25 / (20 << 20),
        },
        tuple(CurvePoint(i, 1000 * i, int(heap * i / 10), 0) for i in range(11)),
    )


def _log(value: Value | None, default: float) -> float:
    return math.log2(default if value is None else float(value) + 1.0)


def _glibc(settings: Mapping[str, Value]) -> tuple[float, float, int]:
    count, largest = _log(settings.get("cache_count"), 8), _log(settings.get("cache_max"), 1033)
    reach = min(1.0, count / 5) * min(1.0, largest / 14)
    kept = 0.4 * count * max(0.0, largest - 8)
    trim, pad = _log(settings.get("trim"), 1 << 17), _log(settings.get("pad"), 1 << 17)
    arenas = float(settings.get("arenas", 4))
    # Padding without a late trim only makes the heap bounce.
    bounce = max(0.0, pad - trim)
    heap = 24 + kept + 0.09 * trim**1.5 + 0.05 * pad**1.4 + 0.7 * arenas
    work = 90 - 34 * reach + 1.5 * bounce + 14 / arenas
    faults = 3000 + int(9000 * math.exp(-trim / 8) + 700 * bounce + 2500 * math.exp(-pad / 7))
    return heap, work, faults


def _jemalloc(settings: Mapping[str, Value]) -> tuple[float, float, int]:
    decay = float(settings.get("decay", 100))
    kept = 12.0 if decay < 0 else 12.0 * (1 - math.exp(-decay / 40))
    largest = 0.0 if settings.get("cache") is False else _log(settings.get("cache_max"), 1 << 15)
    fit = {"best": (0.0, 9.0), "first": (2.5, 4.0), "next": (6.0, 0.0)}[
        str(settings.get("fit", "best"))
    ]
    slack = float(settings.get("slack", 2))
    # Slack pays only together with a cache that is large enough to use it.
    useful = slack * min(1.0, largest / 18)
    heap = 21 + kept + 0.03 * largest**2 + fit[0] + 1.1 * slack
    work = 71 + fit[1] - 1.4 * largest - 3.2 * useful + 6 * math.exp(-kept / 3)
    faults = 2500 + int(11000 * math.exp(-kept / 2.5))
    return heap, work, faults


@dataclass
class SyntheticEvaluator:
    """Evaluates by computing; can be slow, fail, or be interrupted."""

    delay_s: float = 0.0
    """How long an evaluation takes."""
    fails: Callable[[Configuration], Status | None] = lambda _: None
    """The status of configurations that do not succeed."""
    breaks: dict[str, int] = field(default_factory=dict)
    """Key of a configuration -> how many attempts the machine fails at it."""
    before: Callable[[Configuration], None] = lambda _: None
    """Called at the start of each evaluation, in its thread."""
    evaluated: list[Configuration] = field(default_factory=list)
    """What was evaluated, in the order begun."""

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        assert cpu is not None
        self.evaluated.append(configuration)
        self.before(configuration)
        if self.delay_s:
            time.sleep(self.delay_s)
        if self.breaks.get(configuration.key, 0) > 0:
            self.breaks[configuration.key] -= 1
            raise ProgramError("out of processes")
        status = self.fails(configuration)
        if status is not None:
            return Outcome.did_not_succeed(status, f"made to be {status.value}")
        return Outcome.succeeded(measure(configuration))


def store_in(folder: Path, record: CampaignRecord) -> Store:
    """Create the store of a campaign, or open the one that is there, with this budget."""
    if not Store.exists(folder):
        return Store.create(folder, record)
    store = Store.open(folder, writable=True)
    store.set_budget(record.budget)
    return store


def run(
    folder: Path,
    wanted: CampaignRecord | None = None,
    evaluator: SyntheticEvaluator | None = None,
    listener: Listener | None = None,
    cpus: Sequence[int] = (0, 1),
    *,
    kind: type[LocalExecutor] = LocalExecutor,
    parts: Mapping[str, Sequence[Parameter]] = PARTS,
) -> list[Trial]:
    """Run a campaign in a folder, or go on with the one that is there."""
    wanted = wanted or record()
    spaces = make_spaces(parts, wanted.search)
    with (
        store_in(folder, wanted) as store,
        kind(evaluator or SyntheticEvaluator(), cpus) as executor,
    ):
        return Runner(store, spaces, executor, listener or Listener()).run()


def record(**changes: object) -> CampaignRecord:
    """Return the record of a campaign on the synthetic allocators."""
    genes = space().parameters
    fields: dict[str, object] = {
        "name": "synthetic",
        "trace_path": "/nowhere/synthetic.trace",
        "trace_sha256": "5f" * 32,
        "objectives": ("mean_heap", "cost"),
        "constraints": (),
        "strategy": "nsga2",
        "population": 16,
        "seed": 1,
        "search": "joint",
        "budget": 60,
        "recheck_share": 0.15,
        "space": genes,
        "emulation": EmulationOptions(),
        "allocators": {
            "glibc": AllocatorRecord(None, "2.36"),
            "jemalloc": AllocatorRecord("/lib/libjemalloc.so.2", "5.3.0"),
        },
        "versions": {"python": "3.11", "rand_malloc": "0.1.0"},
        "machine": MACHINE,
    }
    return CampaignRecord(**{**fields, **changes})  # type: ignore[arg-type]
