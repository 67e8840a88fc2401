"""What benchmarks/fidelity.py measured, as tables, and whether it reaches the targets.

All figures are worked out from the samples here, by `tuner.fidelity.verdict`.  A case is one
allocator on one trace; errors are pooled over all configurations of all traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tuner.fidelity.verdict import judge_values
from tuner.output import write_text
from tuner.profile.trust import weaknesses

DISTANCES: Final = (
    "live_curve_distance", "size_distance", "heap_curve_distance", "fragmentation_curve_distance",
)  # fmt: skip
MEMORY: Final = {"peak": "peak_heap", "mean": "mean_heap"}
METRICS: Final = {"peak": "peak_heap_bytes", "mean": "mean_heap_bytes", "faults": "faults"}
GOOD_TAU: Final = 0.9
GOOD_SHARE: Final = 0.9
MOST_REGRET: Final = 0.02
LITTLE_KEPT: Final = 0.5
"""A profile that keeps more lives at their places is near to an exact trace."""
LEAST_CHEAPER: Final = 100
MOST_ROWS: Final = 10
"""Of a table in a page that people read."""
_HEAD_ROWS: Final = 2
"""Titles and the rule below them."""
LEAST_SPREAD: Final = 0.01
"""An allocator whose configurations spread less than this gives nothing to rank."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """One model of one trace."""

    name: str
    known: Mapping[str, Any]
    """The trace's entry in the results."""
    row: Mapping[str, Any]
    """The model's entry there."""
    figures: Mapping[str, dict[str, Any]]
    """Of each metric; see docs/formats.md."""
    errors: Mapping[str, Floats]
    """Signed relative errors of each metric; shape (n_configurations,)."""

    def families(self, metric: str) -> dict[str, dict[str, Any]]:
        """Return the figures of each allocator."""
        found: dict[str, dict[str, Any]] = self.figures[metric]["families"]
        return found

    def regrets(self) -> dict[str, float]:
        """Return what the model's pick loses, of every allocator and metric of memory."""
        return {
            f"{name}, {metric}": family["regret"]
            for metric in MEMORY
            for name, family in self.families(metric).items()
        }

    def unguarded(self) -> list[str]:
        """Return what loses too much without a campaign falling back to the trace."""
        metrics = {name: self.figures[metric] for metric, name in MEMORY.items()}
        allocators = list(self.families("peak"))
        heeded = any(weaknesses({"fidelity": {"metrics": metrics}}, allocators, list(metrics)))
        found = [name for name, regret in self.regrets().items() if regret > MOST_REGRET]
        return [] if heeded else found


def judged(results: Mapping[str, Any], model: str) -> Iterator[Judged]:
    """Yield the traces that a model was measured on."""
    for name, known in results["traces"].items():
        for row in known["models"]:
            if row["model"] == model:
                yield _judge(name, known, row, _measured(known, row))


def _measured(known: Mapping[str, Any], row: Mapping[str, Any]) -> list[int]:
    """Return the configurations that succeeded on the trace and on what a model made of it."""
    runs = [known["trace"], *row["seeds"].values()]
    return [
        place
        for place in range(len(known["allocators"]))
        if all(run[field][place] is not None for run in runs for field in METRICS.values())
    ]


def _judge(
    name: str, known: Mapping[str, Any], row: Mapping[str, Any], good: Sequence[int]
) -> Judged:
    runs = [known["trace"], *row["seeds"].values()]
    families: dict[str, list[int]] = {}
    for place, index in enumerate(good):
        families.setdefault(known["allocators"][index], []).append(place)
    figures, errors = {}, {}
    for metric, field in METRICS.items():
        values = np.array([[run[field][i] for i in good] for run in runs], np.float64)
        figures[metric] = judge_values(values[0], values[1:], families)
        errors[metric] = np.median(values[1:], axis=0) / values[0] - 1
    return Judged(name, known, row, figures, errors)


def cells(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table with columns of even width."""
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
    lines = [
        "| " + " | ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                          for i, (cell, w) in enumerate(zip(row, widths, strict=True))) + " |"
        for row in [titles, *rows]
    ]  # fmt: skip
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":"
                          for i, w in enumerate(widths)) + "|"  # fmt: skip
    return [lines[0], rule, *lines[1:]]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def table(results: Mapping[str, Any], model: str) -> list[str]:
    """Return a line for each trace that a model was measured on, the greatest error first."""
    titles = (
        "trace", "events", "threads", "size", "kept", "peak: median", "p90", "worst", "bias",
        "seeds", "mean: median", "p90", "least tau", "regret", "live curve", "fragmentation",
        "sizes",
    )  # fmt: skip
    rows = []
    worst_first = sorted(
        judged(results, model), key=lambda one: -one.figures["peak"]["worst_error"]
    )
    for one in worst_first:
        peak, mean = one.figures["peak"], one.figures["mean"]
        taus = [tau for _, tau in _cases([one])]
        rows.append((
            one.name, f"{one.known.get('events', 0):,}", str(one.known.get("threads", "-")),
            f"{one.row['bytes'] / 1024:,.0f} KiB", f"{100 * one.row['kept_share']:.0f} %",
            *(_percent(peak[key]) for key in ("median_error", "p90_error", "worst_error", "bias",
                                              "seed_spread")),
            _percent(mean["median_error"]), _percent(mean["p90_error"]),
            f"{min(taus):.2f}" if taus else "-", _percent(max(one.regrets().values())),
            _percent(one.row["live_curve_distance"]),
            _percent(one.row["fragmentation_curve_distance"]), _percent(one.row["size_distance"]),
        ))  # fmt: skip
    return cells(titles, rows)


def _cases(found: Sequence[Judged]) -> list[tuple[str, float]]:
    """Return name and rank correlation of every case that is spread enough to rank."""
    return [
        (f"{one.name}/{name}", family["tau_differing"])
        for one in found
        for name, family in one.families("peak").items()
        if family["tau_differing"] is not None and family["true_spread"] > LEAST_SPREAD
    ]


def _errors(found: Sequence[Judged], metric: str) -> Floats:
    return np.concatenate([one.errors[metric] for one in found])


def comparison(results: Mapping[str, Any], models: Sequence[str]) -> list[str]:
    """Return a line for each model, over what all were measured on."""
    shared = _shared(results, models)
    titles = (
        "model", "peak: median", "p90", "worst", "bias", "mean: median", "p90",
        f"tau >= {GOOD_TAU}", "tau: median", "worst regret", "live curve", "fragmentation",
        "sizes",
    )  # fmt: skip
    rows = []
    for model in models if shared else ():
        found = [
            _judge(name, known, row, sorted(shared[name]))
            for name, known in results["traces"].items()
            for row in known["models"]
            if name in shared and row["model"] == model
        ]
        peak, mean = _errors(found, "peak"), np.abs(_errors(found, "mean"))
        taus = np.array([tau for _, tau in _cases(found)])
        rows.append((
            model, *map(_percent, (np.median(np.abs(peak)), np.percentile(np.abs(peak), 90),
                                   np.abs(peak).max(), peak.mean(), np.median(mean),
                                   np.percentile(mean, 90))),
            f"{(taus >= GOOD_TAU).sum()} of {len(taus)}", f"{np.median(taus):.2f}",
            _percent(max(f["regret"] for one in found for f in one.families("peak").values())),
            *(_percent(_median_of(found, f"{what}_distance"))
              for what in ("live_curve", "fragmentation_curve", "size")),
        ))  # fmt: skip
    each = sorted({len(places) for places in shared.values()})
    said = f"{each[0]} to {each[-1]}" if len(each) > 1 else f"{sum(each)}"
    title = f"Over {len(shared)} traces and {said} configurations of each, which all models share:"
    return [title, "", *cells(titles, rows)]


def _shared(results: Mapping[str, Any], models: Sequence[str]) -> dict[str, set[int]]:
    """Return the traces that all models were measured on, with the configurations they share."""
    found = {}
    for name, known in results["traces"].items():
        rows = {row["model"]: row for row in known["models"]}
        if all(model in rows for model in models):
            places = (set(_measured(known, rows[model])) for model in models)
            found[name] = set.intersection(*places)
    return found


def _median_of(found: Sequence[Judged], member: str) -> float | None:
    values = [one.row[member] for one in found if one.row[member] is not None]
    return float(np.median(values)) if values else None


def targets(found: Sequence[Judged]) -> list[str]:
    """Return a line for each target: what was reached, and whether that is enough."""
    peak, mean = np.abs(_errors(found, "peak")), np.abs(_errors(found, "mean"))
    cases = _cases(found)
    share = sum(tau >= GOOD_TAU for _, tau in cases) / max(1, len(cases))
    regrets = [regret for one in found for regret in one.regrets().values()]
    lossy = [f"{one.name} ({what}) {_percent(regret)}" for one in found
             for what, regret in one.regrets().items() if regret > MOST_REGRET]  # fmt: skip
    unguarded = [name for one in found for name in one.unguarded()]
    judged_by = (
        ("peak heap, median error", float(np.median(peak)), 0.01, False),
        ("peak heap, error at p90", float(np.percentile(peak, 90)), 0.05, False),
        ("mean heap, median error", float(np.median(mean)), 0.01, False),
        (f"cases with tau >= {GOOD_TAU}, of {len(cases)}", share, GOOD_SHARE, True),
    )
    regret_line = (
        f"- regret at most {100 * MOST_REGRET:.0f} % in {len(regrets) - len(lossy)} of "
        f"{len(regrets)} cases and metrics; the verdict sends campaigns to the trace in "
        f"{len(lossy) - len(unguarded)} of the others, target all: "
        f"{'MISSED' if unguarded else 'ok'}" + (f" ({'; '.join(lossy)})" if lossy else "")
    )
    lines = [
        f"- {what}: {_percent(value)}, target {'at least' if is_least else 'at most'} "
        f"{100 * limit:.0f} %: "
        f"{'ok' if (value >= limit if is_least else value <= limit) else 'MISSED'}"
        for what, value, limit, is_least in judged_by
    ]
    return [*lines, regret_line]


def _weak(found: Sequence[Judged]) -> list[str]:
    weak = [f"{case} ({tau:.2f})" for case, tau in _cases(found) if tau < GOOD_TAU]
    return [f"Tau below {GOOD_TAU}: {', '.join(weak)}."] if weak else []


def cost(results: Mapping[str, Any]) -> list[str]:
    """Return what emulating gem5 costs beside gem5 itself, and the verdict on it."""
    said = {"memory": "memory alone", "both": "memory and instructions"}
    rows = []
    for one in results.get("cost", []):
        for runs, samples in one["emulation_s"].items():
            spent = float(np.median(samples))
            ratio = one["program_s"] / spent
            verdict = "ok" if ratio >= LEAST_CHEAPER else "MISSED"
            times = f"{one['program_s']:.1f} s", f"{spent:.2f} s"
            rows.append((one["name"], said[runs], *times, f"{ratio:.0f} times", verdict))
    if not rows:
        return []
    titles = ("trace", "emulated for", "gem5", "emulated once", "cheaper", "target")
    head = f"**Processor time of gem5 and of emulating it**, target {LEAST_CHEAPER} times cheaper"
    return [head, "", *cells(titles, rows), ""]


def show_cost(results: Mapping[str, Any]) -> None:
    """Print the table of costs."""
    print("\n".join(cost(results)))


def page(results: Mapping[str, Any], models: Sequence[str]) -> list[str]:
    """Return all tables, as lines of Markdown."""
    lines = []
    for kind, title in (
        ("shipped", "the programs of configs/workloads"),
        ("other", "other traces"),
    ):
        chosen = {n: k for n, k in results["traces"].items() if k["kind"] == kind}
        part = {"traces": chosen}
        found = list(judged(part, models[0]))
        if not found:
            continue
        lines += [f"**The profiles of {title}: {len(found)}**", "", *table(part, models[0]), ""]
        lines += [*targets(found), "", *_weak(found), ""]
        modelled = [one for one in found if one.row["kept_share"] < LITTLE_KEPT]
        if modelled and len(modelled) < len(found):
            said = f"Only those that keep less than {100 * LITTLE_KEPT:.0f} % of the lives in place"
            lines += [f"{said}, {len(modelled)}:", "", *targets(modelled), ""]
    lines += ["**Beside naive models**", "", *comparison(results, models), "", *cost(results)]
    return lines


def show(results: Mapping[str, Any], models: Sequence[str]) -> None:
    """Print all tables."""
    print("\n".join(page(results, models)))


def write_docs(results: Mapping[str, Any], models: Sequence[str], path: Path) -> None:
    """Put the tables between their markers of a page.

    Raises:
        ValueError: the page has no markers.
    """
    write_between(path, "fidelity", page(results, models))


def shortened(lines: Sequence[str], name: str) -> list[str]:
    """Return Markdown without the rows of long tables beyond the tenth, and where they are.

    Args:
        lines: Markdown; the rows that matter most stand first in their table.
        name: of the benchmark that prints them all.
    """
    found: list[str] = []
    n_rows = 0
    for line in [*lines, ""]:
        if line.startswith("|"):
            n_rows += 1
            if n_rows - _HEAD_ROWS <= MOST_ROWS:
                found.append(line)
            continue
        if n_rows - _HEAD_ROWS > MOST_ROWS:
            rest = n_rows - _HEAD_ROWS - MOST_ROWS
            found += ["", f"and {rest} more: `benchmarks/{name}.py --print`"]
        n_rows = 0
        found.append(line)
    return found[:-1]


def write_between(path: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between the markers of a page that have a name.

    Raises:
        ValueError: the page has no such markers.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    lines = shortened(lines, name)
    head, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        message = f"{path}: no {begin.strip()} and {end} after it"
        raise ValueError(message)
    write_text(path, head + begin + "\n".join(lines) + "\n" + end + tail)
