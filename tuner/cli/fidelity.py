"""`malloc-tuner fidelity`: how well a profile stands for its trace."""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.console import print_note
from tuner.cli.emulate import InstrumentName
from tuner.cli.epilog import epilog
from tuner.cli.options import (
    ALLOCATORS,
    AsJson,
    HugePages,
    Thp,
    given_options,
    refuse_options,
    split_names,
)
from tuner.errors import MissingToolError, OutputError, ProgramError, SpecError, TraceError
from tuner.limits import MOST_ROUNDS, MOST_RUNS, RUN_TIME

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from tuner.allocators import Located
    from tuner.emulation import EmulationOptions
    from tuner.profile.fidelity import Fidelity, MetricFidelity, ShrunkFidelity
    from tuner.records import Configuration, Measurement


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "fidelity",
        help="Measure how well a profile stands for its trace.",
        epilog=epilog(
            "malloc-tuner fidelity app.profile.json --trace app.trace",
            "malloc-tuner fidelity app.profile.json --trace app.trace --seeds 5 --json",
            "malloc-tuner fidelity app.profile.json --trace app.trace -- ./app --its arguments",
            errors=(SpecError, MissingToolError, TraceError, ProgramError, OutputError),
        ),
    )(fidelity)


def fidelity(
    context: typer.Context,
    *,
    profile: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE", help="The verdict goes into it, unless it is classic records."
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The trace it was fitted to; without it only --shrunk is measured."
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The program itself, to run under the panel too."),
    ] = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAME[:PATH],...", help="Allocators of the panel.")
    ] = ALLOCATORS,
    configurations: Annotated[
        int, number(2, MOST_RUNS, "Least number of configurations, equal per allocator.")
    ] = 30,
    seeds: Annotated[int, number(1, MOST_RUNS, "Workloads generated from the profile.")] = 3,
    instrument: Annotated[
        InstrumentName, typer.Option(help="What counts instructions; none: memory and faults only.")
    ] = InstrumentName.AUTO,
    shrunk: Annotated[
        str,
        typer.Option(
            metavar="SHARE,...",
            help="Shrunk profiles to compare with the whole one, for screening, or none.",
        ),
    ] = "0.25",
    rounds: Annotated[
        int, number(1, MOST_ROUNDS, "With COMMAND: runs of the program per configuration.")
    ] = 3,
    timeout: Annotated[str, duration(RUN_TIME, "With COMMAND: limit of one run.")] = "10 min",
    thp: Thp = HugePages.KEEP,
    as_json: AsJson = False,
) -> None:
    """Measure the panel on both, judge, store the verdict in the profile."""
    from tuner.allocators import get_allocator, locate_all
    from tuner.emulation import EmulationOptions
    from tuner.fidelity import (
        Panel,
        draw_panel,
        judge,
        judge_program,
        measure_panel,
        measure_program,
    )
    from tuner.measure.calibration import load_calibration
    from tuner.measure.program import ProgramRunner, Surroundings
    from tuner.measure.warm import warm_memory
    from tuner.profile.file import write_profile
    from tuner.profile.trust import caveat
    from tuner.trace.file import Trace
    from tuner.trace.info import describe
    from tuner.units import parse_duration

    members = _members(profile)
    shares = _shares(shrunk) if members else []
    _check_given(context, trace, shares, shrunk, command, is_classic=not members)
    _warn_of_another_trace(trace, members)
    adapters = [get_allocator(name) for name in split_names(allocators)]
    located = locate_all(adapters)
    panel = draw_panel(trace or profile, located, configurations, thp=thp.value)
    prices = load_calibration()
    first = EmulationOptions(instrument=instrument.value, thp=thp.value)
    if trace is None:
        verdict = _without_trace(profile, members, shares, panel, located, first)
        text = "\n".join(_shrunk_lines(verdict))
        print(json.dumps(verdict.as_json(), indent=2) if as_json else text)
        print_note("how well the profile stands for its trace: add --trace FILE")
        return
    runs = []
    with _stages(len(panel), seeds + 1) as stage:
        for number in range(seeds + 1):
            on_done = stage(f"seed {number}" if number else "the trace")
            options = replace(first, seed=max(1, number))
            path, reads_back = profile if number else trace, number == 0
            found = measure_panel(
                path, panel, located, prices, options, reads_back=reads_back, on_done=on_done
            )
            runs.append(found)
    with Trace(trace) as opened, Trace(profile) as generated:
        measured = Panel(panel, runs[0], dict(enumerate(runs[1:], start=1)))
        verdict = replace(
            judge(measured, describe(opened), describe(generated)),
            level=generated.level,
            caveat=caveat(generated),
            shrunk=_judge_shrunk(profile, shares, panel, runs[1], located, first),
            allocators={name: found.version for name, (_, found) in located.items()},
            trace_events=members["source"]["events"] if members else None,
        )
    if command:
        warm_memory()
        program = measure_program(
            command,
            panel,
            located,
            rounds=rounds,
            runner=ProgramRunner(),
            surroundings=Surroundings(  # as the panel is emulated
                timeout_s=parse_duration(timeout) / 1e9, sample_ms=1, thp=thp.value
            ),
            show=print_note,
        )
        verdict = replace(verdict, program=judge_program(measured, program))
    if members:
        write_profile(profile, {**members, "fidelity": verdict.as_json()})
    if as_json:
        print(json.dumps(verdict.as_json(), indent=2))
    else:
        _print(verdict)


def _check_given(
    context: typer.Context,
    trace: Path | None,
    shares: Sequence[float],
    shrunk: str,
    command: list[str] | None,
    *,
    is_classic: bool,
) -> None:
    """Refuse what does not go together."""
    from tuner.profile.file import is_profile

    if trace is None:
        refuse_options(context, {"--seeds"}, "without --trace")
    if trace is None and (command or not shares or "--shrunk" not in given_options(context)):
        message = (
            "give --trace FILE, the trace that the profile was fitted to, to judge the profile; "
            "without it only shrunk profiles can be judged beside the whole one, with --shrunk 0.25"
        )
        raise SpecError(message)
    if trace is not None and is_profile(trace):
        message = f"--trace {trace}: a profile; its fidelity is judged against the trace itself"
        raise SpecError(message)
    if is_classic and _shares(shrunk):
        refuse_options(context, {"--shrunk"}, "to classic records")
    if not command:
        refuse_options(context, {"--rounds", "--timeout"}, "without COMMAND")


def _without_trace(  # noqa: PLR0917 - internal, as _judge_shrunk
    profile: Path,
    members: dict[str, Any],
    shares: Sequence[float],
    panel: Sequence[Configuration],
    located: Located,
    options: EmulationOptions,
) -> Fidelity:
    """Add to the verdict of a profile what can be measured without its trace."""
    from tuner.fidelity import measure_panel
    from tuner.measure.calibration import load_calibration
    from tuner.profile.fidelity import fidelity_of
    from tuner.profile.file import write_profile

    print_note(f"{len(panel)} configurations on seed 1")
    whole = measure_panel(profile, panel, located, load_calibration(), options)
    shrunk = _judge_shrunk(profile, shares, panel, whole, located, options)
    verdict = replace(fidelity_of(members), shrunk=shrunk)
    write_profile(profile, {**members, "fidelity": verdict.as_json()})
    return verdict


def _judge_shrunk(  # noqa: PLR0917 - internal, what one panel is measured with
    profile: Path,
    shares: Sequence[float],
    panel: Sequence[Configuration],
    whole: Sequence[Measurement | None],
    located: Located,
    options: EmulationOptions,
) -> tuple[ShrunkFidelity, ...]:
    """Measure the panel on the shrunk profiles, and judge them beside the whole one."""
    from tuner.fidelity import judge_shrunk, measure_panel
    from tuner.measure.calibration import load_calibration
    from tuner.output import scratch_folder
    from tuner.profile.file import write_profile
    from tuner.profile.variation import shrink

    found = []
    with scratch_folder() as folder, _stages(len(panel), len(shares)) as stage:
        for share in shares:
            on_done = stage(f"the profile shrunk to {share:g}")
            path = folder / "shrunk.profile.json"
            write_profile(path, shrink(profile, share))
            prices = load_calibration()
            small = measure_panel(
                path, panel, located, prices, options, reads_back=False, on_done=on_done
            )
            found.append(judge_shrunk(panel, whole, small, share))
    return tuple(found)


def _members(profile: Path) -> dict[str, Any]:
    """Return the members of a profile; none of classic records, which have no room for a verdict.

    Raises:
        SpecError: it is a trace.
        TraceError: it cannot be read.
    """
    from tuner.profile.file import is_profile, read_profile
    from tuner.trace.file import Trace

    if is_profile(profile):
        return read_profile(profile)
    with Trace(profile) as opened:
        if not opened.is_low_fidelity:
            message = (
                f"{profile}: a trace; give a profile that `fit` made of it, or classic records"
            )
            raise SpecError(message)
    return {}


def _warn_of_another_trace(trace: Path | None, members: dict[str, Any]) -> None:
    """Say so if a profile is not judged against the trace that it remembers."""
    from tuner.profile.file import workload_sha256

    source = members.get("source") or {}
    known = source.get("trace") or {}
    if trace is not None and source.get("varied"):
        why = "the profile was varied since it was fitted"
    elif trace is not None and known.get("sha256") not in (None, workload_sha256(trace)):
        why = f"not the trace the profile was fitted to ({known.get('name')})"
    else:
        return
    print_note(f"{trace}: {why}; the verdict is about this trace")


def _shares(text: str) -> list[float]:
    if text.strip() == "none":
        return []
    try:
        shares = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        shares = [0.0]
    if not all(0.0 < share < 1.0 for share in shares):
        message = f"--shrunk {text!r}: shares between 0 and 1, such as 0.25,0.1, or none"
        raise SpecError(message)
    return shares


@contextlib.contextmanager
def _stages(n_configurations: int, n_stages: int) -> Iterator[Callable[[str], Callable[[], None]]]:
    """Show progress over a panel that is measured several times, with the time left.

    Yields:
        Begins a stage of that name; returns what to call after each configuration.
    """
    from tuner.cli.console import stderr_progress

    with stderr_progress() as progress:
        bar = progress.add_task("", total=n_configurations * n_stages)

        def begin(what: str) -> Callable[[], None]:
            progress.print(f"{n_configurations} configurations on {what}", markup=False)
            progress.update(bar, description=what)
            return functools.partial(progress.advance, bar)

        yield begin


def _shrunk_lines(verdict: Fidelity) -> Iterator[str]:
    for small in verdict.shrunk:
        taus = [f"{name} {_rank(found.tau)}" for name, found in small.metrics.items() if found]
        yield (
            f"shrunk to {small.fidelity:g}, in {_percent(small.time_share)} of the time, it "
            f"ranks as the whole with tau {', '.join(taus)}"
        )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _print(verdict: Fidelity) -> None:
    from tuner.cli.console import stdout_console
    from tuner.fidelity.verdict import verdict_sentence

    tables = [_error_table(verdict.metrics), _rank_table(verdict.metrics)]
    program = verdict.program
    if program:
        title = "against the program: "
        tables += [_error_table(program.metrics, title), _rank_table(program.metrics, title)]
    for table in tables:
        stdout_console(table).print(table, "")
    if program:
        shown = ", ".join(f"{name} {_percent(s)}" for name, s in program.spread.items())
        print(f"the program's own runs differ, in the median, by: {shown}")
    n_seeds = len(verdict.seeds)
    print(
        f"{verdict.configurations} configurations, {n_seeds} seed{'s'[: n_seeds > 1]}; distance "
        f"of live curves {_percent(verdict.live_curve_distance)}, of heap curves "
        f"{_percent(verdict.heap_curve_distance)}, of fragmentation "
        f"{_percent(verdict.fragmentation_curve_distance)}, of sizes "
        f"{_percent(verdict.size_distance)}"
    )
    for line in _shrunk_lines(verdict):
        print(line)
    if verdict.caveat:
        print(verdict.caveat)
    for name in verdict.left_out:
        print(f"left out, it did not run: {name}")
    print(verdict_sentence(verdict))


def _error_table(metrics: Mapping[str, MetricFidelity | None], title: str = "") -> Table:
    table = _table(f"{title}errors", ("median", "p90", "worst", "bias", "seeds", "regret", "tau"))
    for name, found in metrics.items():
        if found is not None:
            errors = (found.median_error, found.p90_error, found.worst_error, found.bias)
            shares = (*errors, found.seed_spread, found.regret)
            table.add_row(name, *map(_percent, shares), _rank(found.tau))
    return table


def _rank_table(metrics: Mapping[str, MetricFidelity | None], title: str = "") -> Table:
    columns = ("true spread", "tau", "tau > 1 %", "pairs", "regret")
    table = _table(f"{title}ranks within an allocator", columns, ("metric", "allocator"))
    for metric, found in metrics.items():
        for name, family in found.families.items() if found else ():
            table.add_row(
                metric, name, _percent(family.true_spread), _rank(family.tau),
                _rank(family.tau_differing), str(family.pairs), _percent(family.regret),
            )  # fmt: skip
    return table


def _table(title: str, columns: Sequence[str], keys: Sequence[str] = ("metric",)) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in (*keys, *columns):
        table.add_column(name, justify="left" if name in keys else "right")
    return table
