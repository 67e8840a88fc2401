"""What a run of a real program is said to have shown."""

from dataclasses import replace
from typing import Self

from tuner.measure.program import ProgramRun
from tuner.records import CurvePoint


class AsDeployed:
    """Something that is tuned, whose runs are always as when deployed."""

    def as_deployed(self, _candidates: object) -> Self:
        return self


GOOD = ProgramRun(
    exit_status=0,
    signal=None,
    timed_out=False,
    peak_rss_bytes=3000,
    peak_anon_bytes=2000,
    mean_anon_bytes=1500.5,
    mean_anon_cpu_bytes=1500.5,
    lazy_free_bytes=0,
    n_samples=9,
    n_threads=1,
    faults=10,
    user_ns=700,
    system_ns=300,
    children_cpu_ns=0,
    wall_ns=1100,
    instructions=77,
    syscalls=None,
    peak_is_exact=True,
    preload_mapped=None,
    malloc_libraries=(),
    changed_variables=(),
    curve=(CurvePoint(0, 5, 100, 0),),
    output_sha256="aa",
    stderr_tail="",
)
CRASHED = replace(GOOD, exit_status=None, signal=11, stderr_tail="oh\n")
