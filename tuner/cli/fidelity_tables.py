"""The verdict about a profile as text: errors and ranks, shrunk profiles, one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from tuner.cli.console import stdout_console
from tuner.fidelity.verdict import verdict_sentence
from tuner.profile.fidelity import Fidelity, MetricFidelity
from tuner.units import show_percent


def shrunk_lines(verdict: Fidelity) -> Iterator[str]:
    """Yield how shrunk profiles rank, one line each."""
    for small in verdict.shrunk:
        taus = [f"{name} {_rank(found.tau)}" for name, found in small.metrics.items() if found]
        yield (
            f"shrunk to {small.fidelity:g}, in {_share(small.time_share)} of the time, it "
            f"ranks as the whole with tau {', '.join(taus)}"
        )


def _share(value: float | None) -> str:
    return "-" if value is None else show_percent(value, 2)


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def print_fidelity(verdict: Fidelity) -> None:
    """Print a verdict that was judged beside the trace."""
    n_seeds = len(verdict.seeds)
    tables = [_error_table(verdict.metrics, n_seeds), _rank_table(verdict.metrics)]
    program = verdict.program
    if program:
        title = "against the program: "
        tables += [
            _error_table(program.metrics, n_seeds, title),
            _rank_table(program.metrics, title),
        ]
    for table in tables:
        stdout_console(table).print(table, "")
    if program:
        shown = ", ".join(f"{name} {_share(s)}" for name, s in program.spread.items())
        print(f"the program's own runs differ, in the median, by: {shown}")
    print(
        f"{verdict.configurations} configurations, {n_seeds} seed{'s'[: n_seeds > 1]}; distance "
        f"of live curves {_share(verdict.live_curve_distance)}, of heap curves "
        f"{_share(verdict.heap_curve_distance)}, of fragmentation "
        f"{_share(verdict.fragmentation_curve_distance)}, of sizes "
        f"{_share(verdict.size_distance)}"
    )
    for line in shrunk_lines(verdict):
        print(line)
    if verdict.caveat:
        print(verdict.caveat)
    for name in verdict.left_out:
        print(f"left out, it did not run: {name}")
    print(verdict_sentence(verdict))


def _error_table(
    metrics: Mapping[str, MetricFidelity | None], n_seeds: int, title: str = ""
) -> Table:
    table = _table(f"{title}errors", ("median", "p90", "worst", "bias", "seeds", "regret", "tau"))
    for name, found in metrics.items():
        if found is not None:
            errors = (found.median_error, found.p90_error, found.worst_error, found.bias)
            spread = found.seed_spread if n_seeds > 1 else None
            shares = (*errors, spread, found.regret)
            table.add_row(name, *map(_share, shares), _rank(found.tau))
    return table


def _rank_table(metrics: Mapping[str, MetricFidelity | None], title: str = "") -> Table:
    columns = ("true spread", "tau", "tau > 1 %", "pairs", "regret")
    table = _table(f"{title}ranks within an allocator", columns, ("metric", "allocator"))
    for metric, found in metrics.items():
        for name, family in found.families.items() if found else ():
            table.add_row(
                metric, name, _share(family.true_spread), _rank(family.tau),
                _rank(family.tau_differing), str(family.pairs), _share(family.regret),
            )  # fmt: skip
    return table


def _table(title: str, columns: Sequence[str], keys: Sequence[str] = ("metric",)) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in (*keys, *columns):
        table.add_column(name, justify="left" if name in keys else "right")
    return table
