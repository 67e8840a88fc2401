"""The one table of metrics: what the emulator measures, and what a real program shows of it.

A metric is one entry of `METRICS`.  From the entry follow its place in a `Measurement`, how
it is read from the emulator's result, its column in the store, its columns in tables, JSON
and CSV, whether campaigns may minimise it, whether it is judged again, and the number of a
real program that stands against it.  A new metric is one more entry and the field in the
emulator's JSON.

All metrics are minimised.  `REAL` is the same table for runs of a real program, `SERVICE` for
services, `INSIDE` for programs inside simulated machines.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tuner.errors import SpecError
from tuner.units import show_size


class Kind(enum.Enum):
    """What a metric counts; the value is its base unit in files."""

    BYTES = "bytes"
    COUNT = "count"
    INSTRUCTIONS = "instructions"
    NANOSECONDS = "ns"
    RATIO = "ratio"
    PER_SECOND = "1/s"
    BYTES_PER_MINUTE = "bytes/min"


class MetricValues(Protocol):
    """Numbers by the name of their metric: a measurement, or a run of a real program."""

    def __getitem__(self, name: str, /) -> float | None:
        """Return one number in base units; None when it was not measured."""
        ...


@dataclass(frozen=True)
class Metric:
    """One number that is measured; less is better, but of services' requests per second."""

    name: str
    """As in campaign files and options: ``mean_heap``."""
    field: str
    """In the store, in JSON and in CSV, where it carries the unit: ``mean_heap_bytes``."""
    kind: Kind
    label: str
    """For axes and table heads: ``mean heap``."""
    source: str | None = None
    """Where the emulator's result has it: ``instructions.allocator``; None: it is computed."""
    is_whole: bool = True
    """True for counts, which are integers everywhere."""
    is_objective: bool = False
    """True when campaigns may minimise or bound it."""
    is_repeatable: bool = True
    """True when the same configuration must give the same number again."""
    is_counted: bool = False
    """True when it needs a count of instructions, which replays in baton mode alone give."""
    is_of_baton: bool = False
    """True when it takes no such count, and replays in baton mode alone give it."""
    missing: str = ""
    """What to do when it was not measured; empty when every measurement has it."""
    real: tuple[str, ...] = ()
    """Names in `REAL` of what confirms it on the real program, the best first.  Of one kind, both
    are expected to change by the same ratio; of different kinds, only in the same direction."""

    is_more_better: bool = False
    """True for what services do: requests per second."""
    emulated: str | None = None
    """Name in `METRICS` of what foretells it of a service; None: nothing does."""

    @property
    def unit(self) -> str:
        """The base unit, as in files."""
        return self.kind.value

    def value(self, values: MetricValues | None) -> float | None:
        """Return the number in base units; None when it was not measured."""
        return None if values is None else values[self.name]

    def show(self, value: float) -> str:
        """Return a value with its unit, rounded for people.

        Example:
            >>> METRICS["mean_heap"].show(1536.0), METRICS["cost"].show(95_812_345.0)
            ('1.5 KiB', '95.81 M')
        """
        if self.kind is Kind.BYTES:
            return show_size(value)
        if self.kind is Kind.BYTES_PER_MINUTE:
            return f"{'-' if value < 0 else ''}{show_size(abs(value))}/min"
        if self.kind is Kind.NANOSECONDS:
            return f"{value:.0f} ns"
        for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:.2f} {letter}"
        return f"{value:.0f}"


NO_COUNTER: Final = (
    "no instrument counted the allocator's instructions (perf counts only whole processes, none "
    "nothing); see `malloc-tuner doctor` for what is missing"
)

COST: Final = "cost"
"""Name of the metric that is computed of others, at prices that a machine is calibrated for."""

METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "mean_heap", "mean_heap_bytes", Kind.BYTES, "mean heap", "mean_heap_bytes",
            is_whole=False, is_objective=True, real=("mean_heap",),
        ),
        Metric(
            "peak_heap", "peak_heap_bytes", Kind.BYTES, "peak heap", "peak_heap_bytes",
            is_objective=True, real=("peak_heap",),
        ),
        Metric(
            COST, "cost", Kind.INSTRUCTIONS, "cost",
            is_whole=False, is_objective=True, is_counted=True, missing=NO_COUNTER, real=("cpu",),
        ),
        Metric(
            "instructions", "instructions", Kind.INSTRUCTIONS, "instructions",
            "instructions.allocator",
            is_objective=True, is_counted=True, missing=NO_COUNTER, real=("instructions", "cpu"),
        ),
        Metric(
            "faults", "faults", Kind.COUNT, "page faults", "faults",
            is_objective=True, real=("faults",),
        ),
        Metric(
            "syscalls", "syscalls", Kind.COUNT, "memory system calls", "syscalls.total",
            is_objective=True, is_of_baton=True,
            missing='system calls are counted only with threads = "baton", and where ptrace is '
            "allowed; see `malloc-tuner doctor`",
        ),
        Metric(
            "p99_latency", "p99_latency_ns", Kind.NANOSECONDS, "99th percentile latency",
            "latency_ns.all.p99", is_whole=False, is_objective=True, is_repeatable=False,
            missing="this campaign measured no latency; name p99_latency among its objectives, "
            'or set threads = "free" under [emulation]',
        ),
        Metric(
            "process_instructions", "process_instructions", Kind.INSTRUCTIONS,
            "instructions of the whole replay", "instructions.process",
            is_counted=True, missing="only `malloc-tuner emulate` counts them",
        ),
        Metric(
            "wall", "wall_ns", Kind.NANOSECONDS, "replay time", "wall_ns", is_repeatable=False
        ),
        Metric(
            "final_heap", "final_heap_bytes", Kind.BYTES, "heap at the end", "final_heap_bytes",
            is_whole=False,
        ),
        Metric("peak_live", "peak_live_bytes", Kind.BYTES, "peak live bytes", "peak_live_bytes"),
        Metric(
            "fragmentation", "fragmentation_at_peak", Kind.RATIO, "peak heap / peak live",
            "fragmentation_at_peak", is_whole=False, missing="nothing was allocated",
        ),
    )
}  # fmt: skip
"""Every metric of the emulator by name, in the order of tables and help texts."""

REAL: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("peak_heap", "peak_heap_bytes", Kind.BYTES, "peak heap"),
        Metric("mean_heap", "mean_heap_bytes", Kind.BYTES, "mean heap", is_whole=False),
        Metric("peak_rss", "peak_rss_bytes", Kind.BYTES, "peak RSS"),
        Metric("faults", "faults", Kind.COUNT, "page faults"),
        Metric("instructions", "instructions", Kind.COUNT, "instructions"),
        Metric("cpu", "cpu_ns", Kind.NANOSECONDS, "CPU time", is_repeatable=False),
        Metric("wall", "wall_ns", Kind.NANOSECONDS, "elapsed time", is_repeatable=False),
    )
}
"""Every metric of a run of the real program by name, in the order of tables."""


SERVICE: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "mean", "mean_bytes", Kind.BYTES, "mean memory", is_whole=False, emulated="mean_heap"
        ),
        Metric("peak", "peak_bytes", Kind.BYTES, "peak memory", emulated="peak_heap"),
        Metric("floor", "floor_bytes", Kind.BYTES, "idle memory", emulated="final_heap"),
        Metric("growth", "growth_bytes_per_min", Kind.BYTES_PER_MINUTE, "growth", is_whole=False),
        Metric(
            "cpu", "cpu_ns_per_request", Kind.NANOSECONDS, "CPU/request",
            is_whole=False, is_repeatable=False, emulated="cost",
        ),
        Metric(
            "rate", "requests_per_s", Kind.PER_SECOND, "requests/s",
            is_whole=False, is_repeatable=False, is_more_better=True,
        ),
        *(
            Metric(
                name, f"{name}_ns", Kind.NANOSECONDS, label, is_whole=False, is_repeatable=False
            )
            for name, label in (
                ("latency", "mean latency"),
                ("p50", "p50 latency"),
                ("p90", "p90 latency"),
                ("p95", "p95 latency"),
                ("p99", "p99 latency"),
                ("p999", "p99.9 latency"),
            )
        ),
    )
}  # fmt: skip
"""Every metric of a service under load by name, in the order of tables.  Memory is that of all its
processes, each shared page counted once: the sum of Pss_Anon less what was lazily freed."""


INSIDE: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        *(
            Metric(f"{cache}_mpki", f"{cache}_mpki", Kind.RATIO, f"{label} MPKI", is_whole=False)
            for cache, label in (
                ("l1d", "L1D"), ("l1i", "L1I"), ("l2", "L2"), ("l3", "L3"),
                ("dtlb", "DTLB"), ("itlb", "ITLB"),
            )
        ),
        Metric("l1d_misses", "l1d_misses", Kind.COUNT, "L1D misses"),
        Metric("l2_misses", "l2_misses", Kind.COUNT, "L2 misses"),
        Metric("dram_bytes", "dram_bytes", Kind.BYTES, "DRAM"),
        Metric("lines_moved", "lines_moved", Kind.COUNT, "lines moved"),
        Metric("ipc", "ipc", Kind.RATIO, "IPC", is_whole=False, is_more_better=True),
        Metric("instructions", "instructions", Kind.INSTRUCTIONS, "instructions"),
        Metric("cycles", "cycles", Kind.COUNT, "cycles"),
        Metric("start", "start_instructions", Kind.INSTRUCTIONS, "instructions of the start"),
    )
}  # fmt: skip
"""Every metric of a program inside a simulated machine by name, in the order of tables; MPKI are
misses per thousand instructions.  They repeat themselves to the last count."""


def find_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        SpecError: there is none.
    """
    found = METRICS.get(name)  # asked of each number of each measurement
    return found or find_metrics([name])[0]


OF_OPTIMIZE: Final = {"cpu_time": COST, "mean_memory": "mean_heap", "peak_memory": "peak_heap"}
"""Name in `optimize` -> objective."""


def find_objective(name: str) -> Metric:
    """Return the metric of that name, which campaigns may minimise.

    Raises:
        SpecError: there is none.
    """
    if name not in objective_names():
        other = OF_OPTIMIZE.get(name)
        meant = f"; did you mean {other!r}?" if other else ""
        raise SpecError(
            f"objective {name!r} is unknown{meant}; choose among {', '.join(objective_names())}"
        )
    return METRICS[name]


def find_metrics(
    names: Iterable[str], among: Mapping[str, Metric] = METRICS, what: str = "metric"
) -> tuple[Metric, ...]:
    """Return the metrics of several names.

    Args:
        names: of metrics.
        among: one of the tables.
        what: one of its entries is, for the message.

    Raises:
        SpecError: one of them does not exist.
    """
    found = []
    for name in names:
        if name not in among:
            raise SpecError(f"{name!r} is no {what}; allowed: {', '.join(among)}")
        found.append(among[name])
    return tuple(found)


def objective_names() -> tuple[str, ...]:
    """Return the names of all metrics that campaigns may minimise."""
    return tuple(name for name, metric in METRICS.items() if metric.is_objective)
