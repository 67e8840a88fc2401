"""The traces that benchmarks/fidelity.py judges profiles of, and which of them ship.

A profile in configs/workloads has the name of its trace.  Some traces ship beside it, the
others are in ``runs/traces``, where benchmarks/workload_profiles.py and
benchmarks/malloc_bench_traces.py put them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tuner.resources import configs_dir

TRACES: Final = Path(__file__).resolve().parent.parent / "runs" / "traces"


def shipped_profile(trace: Path) -> Path | None:
    """Return the shipped profile of a trace, if there is one."""
    found = sorted((configs_dir() / "workloads").glob(f"*/{trace.stem}.profile.json.zst"))
    return found[0] if found else None


def is_shipped(trace: Path) -> bool:
    """Tell whether the trace is of a program whose profile ships."""
    return shipped_profile(trace) is not None


def find_traces(folders: Sequence[Path], only: Sequence[str]) -> list[Path]:
    """Return the traces, the smallest first: most of them are done early."""
    shipped = (configs_dir() / "workloads").glob("*/*.trace")
    found = {path.stem: path for path in shipped if shipped_profile(path)}
    for folder in (TRACES, *folders):
        found |= {path.stem: path for path in folder.rglob("*.trace")}
    unknown = sorted(set(only) - set(found))
    if unknown:
        sys.exit(f"no trace of {', '.join(unknown)}; benchmarks/workload_profiles.py records them")
    chosen = [path for name, path in found.items() if not only or name in only]
    return sorted(chosen, key=lambda path: path.stat().st_size)
