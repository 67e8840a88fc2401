"""What a campaign picked, on workloads that it was not tuned for.

The picks and the baseline's default are measured on each held-out workload when the search is over.
Nothing of it reaches the strategies, the store or the picks; it stands in a file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuner.campaign.summary import Picked, summarise
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.metrics import METRICS
from tuner.output import write_text
from tuner.profile.file import workload_sha256
from tuner.records import Configuration
from tuner.runs import Run

HELD_OUT_FILE: Final = "held-out.json"
"""In a run folder; docs/formats.md describes it."""
SCHEMA: Final = "malloc-tuner.held-out"
VERSION: Final = 1

Row = Mapping[str, Any]


def measure_held_out(run: Run, workloads: Sequence[Path], emulations: Sequence[Emulation]) -> None:
    """Measure the picks of a run on held-out workloads, and write it into the run folder.

    What the file has of the same workload and configuration already is kept.

    Args:
        run: finished.
        workloads: the traces or profiles, as the campaign names them.
        emulations: of each, in their order.

    Raises:
        TunerError: as `EmulatorEvaluator.evaluate`.
        OutputError: the file cannot be written.
    """
    record = run.campaign
    picked = [one.trial.configuration for one in summarise(record, run.trials).picked]
    wanted = list(dict.fromkeys([Configuration(record.baseline), *picked]))
    known = {(row["sha256"], row["configuration"]): row for row in read_held_out(run.folder)}
    rows: list[Row] = []
    for workload, emulation in zip(workloads, emulations, strict=True):
        sha256, evaluator = workload_sha256(workload), EmulatorEvaluator(emulation)
        for configuration in wanted:
            row = known.get((sha256, configuration.key))
            if row is None:
                found = evaluator.evaluate(configuration)
                values = {n: found.good[n] if found.good else None for n in record.objectives}
                row = {
                    "workload": workload.name,
                    "sha256": sha256,
                    "configuration": configuration.key,
                    "reason": found.reason,
                    "values": values,
                }
            rows.append(row)
    document = {"schema": SCHEMA, "version": VERSION, "rows": rows}
    write_text(run.folder / HELD_OUT_FILE, json.dumps(document, indent=1) + "\n")


def read_held_out(folder: Path) -> list[Row]:
    """Return the rows of a run folder; none where nothing was held out."""
    try:
        document = json.loads((folder / HELD_OUT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    rows: list[Row] = document.get("rows", []) if document.get("version") == VERSION else []
    return rows


def held_out_lines(run: Run) -> Iterator[str]:
    """Yield what the picks gain on each held-out workload."""
    record, rows = run.campaign, read_held_out(run.folder)
    if not rows:
        return
    picked = summarise(record, run.trials).picked
    default = Configuration(record.baseline).key
    yield f"held out, not tuned for; changes are against the default of {record.baseline} there:"
    for sha256 in dict.fromkeys(row["sha256"] for row in rows):
        own = {row["configuration"]: row for row in rows if row["sha256"] == sha256}
        for pick in picked:
            row = own.get(pick.trial.configuration.key)
            if row is not None:
                yield f"  {row['workload']}, {_shown(pick, row, own[default])}"


def _shown(pick: Picked, row: Row, default: Row) -> str:
    names = ", ".join(pick.names)
    if row["reason"] is not None:
        return f"{names}: {row['reason']}"
    shown = [
        _figure(name, value, default["values"][name])
        for name, value in row["values"].items()
        if value is not None
    ]
    return f"{names}: {', '.join(shown)}"


def _figure(name: str, value: float, base: float | None) -> str:
    change = f" ({value / base - 1.0:+.1%})" if base else ""
    return f"{METRICS[name].label} {METRICS[name].show(value)}{change}"
