"""What a campaign picked, on workloads that it was not tuned for.

The picks and the baseline's default are measured on each held-out workload when the search is over.
Nothing of it reaches the strategies, the store or the picks; it stands in a file of its own.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuner.campaign.setup import recorded
from tuner.campaign.summary import summarise
from tuner.errors import InterruptedCampaign, StoreError, TunerError, what_is_wrong
from tuner.front.whole import expected_ratio, whole_of
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.evaluation import Evaluation
from tuner.measure.executor import LocalExecutor, measuring_cpus
from tuner.metrics import METRICS
from tuner.output import write_text
from tuner.profile.file import is_profile, workload_sha256
from tuner.records import Configuration, Measurement
from tuner.runs import Run
from tuner.units import signed_percent

HELD_OUT_FILE: Final = "held-out.json"
"""In a run folder; docs/formats.md describes it."""
SCHEMA: Final = "malloc-tuner.held-out"
VERSION: Final = 1

Row = Mapping[str, Any]

_ROW: Final = ("workload", "sha256", "configuration", "reason", "values")
"""Members that each has."""


def measure_held_out(run: Run, workloads: Sequence[Path], emulations: Sequence[Emulation]) -> None:
    """Measure the picks of a run on held-out workloads, and write it into the run folder.

    The file is written after each measurement.  Numbers that it has already stay, also of other
    workloads; what has none is measured again.

    Args:
        run: finished.
        workloads: the traces or profiles, as the campaign names them.
        emulations: of each, in their order.

    Raises:
        InterruptedCampaign: Ctrl-C; what was measured is kept.
        TunerError: the machine failed several times at one configuration.
        OutputError: the file cannot be written.
    """
    record = run.campaign
    picked = [one.trial.configuration for one in summarise(record, run.trials).picked]
    wanted = list(dict.fromkeys([Configuration(record.baseline), *picked]))
    rows = {(row["sha256"], row["configuration"]): row for row in read_held_out(run.folder)}
    try:
        for workload, emulation in zip(workloads, emulations, strict=True):
            sha256 = workload_sha256(workload)
            program = {} if is_profile(workload) else dict(recorded(workload)["program"])
            missing = [one for one in wanted if not _has_numbers(rows.get((sha256, one.key)))]
            with contextlib.closing(_evaluated(emulation, missing)) as found:
                for configuration, outcome in found:
                    rows[sha256, configuration.key] = {
                        "workload": workload.name,
                        "sha256": sha256,
                        "configuration": configuration.key,
                        "reason": outcome.reason,
                        "values": {n: outcome.good and outcome.good[n] for n in record.objectives},
                        "program": program,
                    }
                    _write(run.folder, list(rows.values()))
    except KeyboardInterrupt:
        raise InterruptedCampaign(
            "interrupted while held-out workloads were measured; the search is over "
            f"(`malloc-tuner front {shlex.quote(str(run.folder))}`), and the same command goes on"
        ) from None


def _has_numbers(row: Row | None) -> bool:
    return row is not None and row["reason"] is None


def _evaluated(
    emulation: Emulation, configurations: Sequence[Configuration]
) -> Generator[tuple[Configuration, Evaluation]]:
    """Yield how configurations fared, one at a time; what keeps one from it is raised last."""
    broken: TunerError | None = None
    with LocalExecutor(EmulatorEvaluator(emulation), measuring_cpus(1)) as executor:
        for ended in executor.run(configurations):
            if ended.outcome is not None:
                yield ended.configuration, ended.outcome
            else:
                broken = ended.error
                executor.stop()
    if broken is not None:
        raise broken


def _write(folder: Path, rows: Sequence[Row]) -> None:
    document = {"schema": SCHEMA, "version": VERSION, "rows": rows}
    write_text(folder / HELD_OUT_FILE, json.dumps(document, indent=1) + "\n")


def read_held_out(folder: Path) -> list[Row]:
    """Return the rows of a run folder; none where nothing was held out.

    Raises:
        StoreError: they are damaged, or of another version.
    """
    path = folder / HELD_OUT_FILE
    if not path.is_file():
        return []
    try:
        document = json.loads(path.read_bytes())
        if (document["schema"], document["version"]) != (SCHEMA, VERSION):
            raise StoreError(f"{path}: is not of version {VERSION}; `malloc-tuner tune` anew")
        return [{name: row[name] for name in _ROW} | row for row in document["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: damaged ({what_is_wrong(error)}); remove it, `malloc-tuner tune` makes it"
        ) from error


@dataclass(frozen=True)
class HeldOut:
    """A pick, or the baseline's default, on a held-out workload."""

    workload: str
    """Name of its file."""
    names: tuple[str, ...]
    """Of the picks; none of the default."""
    values: Mapping[str, float | None]
    """By objective."""
    ratios: Mapping[str, float | None]
    """To the default there, of the whole program where known; none of the default."""
    reason: str | None
    """Why it failed."""
    is_whole: bool
    """Whether the ratios are those expected of the whole program."""


def held_out_rows(run: Run) -> Iterator[HeldOut]:
    """Yield the default and then the picks of a run on each held-out workload."""
    rows = read_held_out(run.folder)
    if not rows:
        return
    picked = summarise(run.campaign, run.trials).picked
    default = Configuration(run.campaign.baseline).key
    for sha256 in dict.fromkeys(row["sha256"] for row in rows):
        own = {row["configuration"]: row for row in rows if row["sha256"] == sha256}
        base = own.get(default)
        if base is None:
            continue  # interrupted before anything was measured
        program = base.get("program", {}) if run.campaign.workload.program else {}
        values = {n: v for n, v in base["values"].items() if v}
        emulated = Measurement(values)
        whole = {**values, **whole_of(run.campaign, program, emulated, emulated)}
        is_whole = bool(program)
        yield HeldOut(base["workload"], (), base["values"], {}, base["reason"], is_whole)
        for pick in picked:
            row = own.get(pick.trial.configuration.key)
            if row is None:
                continue
            ratios = {
                name: expected_ratio(whole, name, value, base["values"][name])
                for name, value in row["values"].items()
            }
            yield HeldOut(
                row["workload"], pick.names, row["values"], ratios, row["reason"], is_whole
            )


def held_out_lines(run: Run) -> Iterator[str]:
    """Yield what the picks gain on each held-out workload."""
    rows = [row for row in held_out_rows(run) if row.names]
    for is_whole, what in ((True, "those expected of the whole program, "), (False, "")):
        alike = [row for row in rows if row.is_whole is is_whole]
        if alike:
            yield (
                f"held out, not tuned for; changes are {what}against the default of "
                f"{run.campaign.baseline} there:"
            )
        yield from map(_line, alike)


def _line(row: HeldOut) -> str:
    shown = row.reason or ", ".join(
        _figure(name, value, row.ratios[name])
        for name, value in row.values.items()
        if value is not None
    )
    return f"  {row.workload}, {', '.join(row.names)}: {shown}"


def _figure(name: str, value: float, ratio: float | None) -> str:
    shown = "" if ratio is None else f" ({signed_percent(ratio - 1.0)})"
    return f"{METRICS[name].label} {METRICS[name].show(value)}{shown}"
