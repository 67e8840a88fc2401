"""Figures of configurations on workloads, kept on disk; what is there is not measured again.

A file for each workload, named by its digest, holds a line of JSON for each measurement:
what was measured (the library's version and digest, seed, settings) and all figures.  A
library is known by its content, so after a change of one allocator only its configurations
are measured again; so is what failed, since that may be the machine's doing.  The emulator is
not part of what names a measurement: after a change of it that changes figures, remove the
folder.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tuner.fidelity import measure_panel
from tuner.fidelity.panel import Located
from tuner.measure.calibration import Calibration
from tuner.measure.emulator import EmulationOptions
from tuner.output import write_text
from tuner.provenance import digest
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.resources import native_file

Row = list[Measurement | None]


@dataclass(frozen=True)
class Measured:
    """What was measured so far, and what the rest is measured with."""

    folder: Path
    located: Located
    prices: Calibration
    timeout_s: float
    """Limit of one replay."""

    def identity(self, allocator: str) -> str:
        """Return what an allocator's measurements hang on: its version, its library's digest."""
        _, installation = self.located[allocator]
        library = installation.library
        return f"{installation.version} {digest(library) if library else 'libc'}"

    def measure(self, workload: Path, panel: Sequence[Configuration], seed: int | None) -> Row:
        """Return the figures of a panel on a trace, seed None, or on what a model made of it.

        Raises:
            TunerError: the set-up is broken, so that nothing can be measured.
        """
        path = self.folder / f"{digest(workload)}.jsonl"
        known = _read(path)
        identities = {name: self.identity(name) for name in self.located}
        keys = [f"{identities[c.allocator]} {seed} {c.key}" for c in panel]
        missing = [index for index, key in enumerate(keys) if key not in known]
        if missing:
            options = EmulationOptions(instrument="none", seed=seed or 1, timeout_s=self.timeout_s)
            found = measure_panel(
                workload, [panel[index] for index in missing], self.located, self.prices, options,
                reads_back=seed is None,
            )  # fmt: skip
            pairs = zip(missing, found, strict=True)
            known |= {keys[index]: one for index, one in pairs if one is not None}
            _write(path, known)
        return [known.get(key) for key in keys]


def emulation_seconds(workload: Path, *options: str) -> float:
    """Return the processor time of emulating a workload once, under the machine's allocator.

    Args:
        workload: a trace or a profile.
        options: of rand_malloc; without any, both runs of an evaluation.
    """
    command = [str(native_file("rand_malloc")), *options, str(workload)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _read(path: Path) -> dict[str, Measurement]:
    """Return the measurements of a file, none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {one["key"]: _measurement(one["figures"]) for one in map(json.loads, lines)}


def _measurement(figures: dict[str, Any]) -> Measurement:
    return Measurement.of_fields(figures, tuple(CurvePoint(*p) for p in figures["curve"]))


def _write(path: Path, known: Mapping[str, Measurement]) -> None:
    lines = []
    for key, one in known.items():
        figures = {**one.fields, "curve": [astuple(point) for point in one.curve]}
        lines.append(json.dumps({"key": key, "figures": figures}) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(lines))
