"""What the picks gain on workloads that nothing was tuned for, as a table."""

from tuner.campaign.held_out import HeldOut, held_out_rows
from tuner.metrics import METRICS
from tuner.report.columns import MISSING, show_change
from tuner.report.grid import Grid, Row
from tuner.runs import Run


def held_out_grid(run: Run) -> Grid | None:
    """Return a row for the default and each pick on every workload; None without any."""
    found = list(held_out_rows(run))
    if not found:
        return None
    objectives = run.campaign.objectives
    heads = tuple(METRICS[name].label for name in objectives)
    default = f"{run.campaign.baseline} as shipped"
    rows = tuple(_row(one, objectives, default) for one in found)
    return Grid("Held-out workloads", ("workload", "setting"), heads, rows)


def _row(one: HeldOut, objectives: tuple[str, ...], default: str) -> Row:
    name = ", ".join(one.names) or default
    label = f"{name}: {one.reason}" if one.reason else name
    values = (one.values.get(n) for n in objectives)
    shown = zip(objectives, values, strict=True)
    ratios = [one.ratios.get(n) for n in objectives] if one.names and not one.reason else []
    return Row(
        (one.workload, label),
        tuple(MISSING if v is None else METRICS[n].show(v) for n, v in shown),
        tuple(map(show_change, ratios)),
        is_out=one.reason is not None,
    )
