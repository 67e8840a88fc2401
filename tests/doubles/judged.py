"""A profile with a verdict on it."""

from pathlib import Path

from tests.doubles.traces import write_mixed_trace
from tuner.fidelity import Panel
from tuner.profile.file import write_profile
from tuner.profile.fit import fit
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.trace.file import Trace

ONE = Measurement(
    {
        "peak_heap": 1000,
        "mean_heap": 800.0,
        "faults": 10,
        "syscalls": 1,
        "instructions": None,
        "process_instructions": None,
        "cost": None,
        "p99_latency": None,
        "wall": 1,
        "peak_live": 500,
        "fragmentation": 2.0,
    },
    (CurvePoint(0, 0, 100, 50), CurvePoint(10, 9, 1000, 500)),
)


def with_peaks(*peaks: int) -> list[Measurement | None]:
    return [ONE.with_values(peak_heap=peak) for peak in peaks]


def panel(trace: list[Measurement | None], *seeds: list[Measurement | None]) -> Panel:
    names = ["glibc", "glibc", "jemalloc", "jemalloc"]
    configurations = [Configuration.of(name, {"a": i}) for i, name in enumerate(names)]
    return Panel(configurations, trace, dict(enumerate(seeds, start=1)))


def write_mixed_profile(folder: Path) -> Path:
    path = folder / "app.profile.json"
    with Trace(write_mixed_trace(folder / "mixed.trace", 1, 500)) as trace:
        write_profile(path, fit(trace))
    return path
