"""The same panel on the program itself: does what emulation says hold where it counts?

Every configuration runs once in every round, good ones and bad, in an order shuffled anew
for each round (`tuner.compare`), so that a drift of the machine hits all alike.  Emulated and
real memory differ by what is no heap, and emulated cost and processor time by their units; ranks,
and what the model's pick loses on the program, are what is judged of those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tuner.allocators import Located
from tuner.compare.loop import compare
from tuner.compare.plan import Rounds, Step
from tuner.errors import ProgramError
from tuner.fidelity.verdict import Panel, by_family, judge_values, left_out, numbers
from tuner.measure.preloads import PRELOAD
from tuner.measure.program import ProgramRun, RunsPrograms, Surroundings, environment_under, padded
from tuner.profile.fidelity import MetricFidelity, ProgramFidelity
from tuner.records import Configuration, Measurement, Outcome, Status

FIGURES: Final = {
    "peak_heap": "peak_anon_bytes",
    "mean_heap": "mean_anon_bytes",
    "faults": "faults",
    "cost": "cpu_ns",
}
"""Metric -> what stands for it in a run of the program."""

_OTHER_UNIT: Final = "cost"
"""The metric whose two sides differ in unit."""


@dataclass(frozen=True)
class ProgramPanel:
    """The panel as the program had it."""

    command: Sequence[str]
    runs: Sequence[Sequence[ProgramRun] | None]
    """For each configuration one run for each round; None where any of them failed."""


def measure_program(
    command: Sequence[str],
    panel: Sequence[Configuration],
    located: Located,
    *,
    rounds: int,
    runner: RunsPrograms,
    surroundings: Surroundings,
    show: Callable[[str], None],
) -> ProgramPanel:
    """Run the program under every configuration, `rounds` times.

    Args:
        command: program and arguments.
        panel: what to run; its first configuration decides what a good ending is.
        located: the allocators of the panel.
        rounds: runs of each configuration, at least 1.
        runner: runs the program.
        surroundings: how every run is made.
        show: is called with a line for every round.

    Raises:
        ProgramError: the program ends with a signal, or not in time, with the first one.
        MissingToolError: the program cannot be started.
    """
    labels = [str(configuration) for configuration in panel]
    environments = dict(zip(labels, environments_of(panel, located, os.environ), strict=True))
    expected: list[int] = []

    def run_once(step: Step[None]) -> Outcome[ProgramRun]:
        if step.position == 0:
            show(f"{len(panel)} configurations on the program, round {step.round + 1} of {rounds}")
        run = runner.run(command, environments[step.subject], surroundings)
        if not expected:
            expected.append(_good_ending(command, run))
        lost = run.lost_settings(panel[labels.index(step.subject)].allocator)
        if run.exit_status == expected[0] and lost is None:
            return Outcome.succeeded(run)
        return Outcome.did_not_succeed(Status.FAILED, lost or run.ending)

    plan = Rounds(tuple(labels), (None,), rounds, leads=True)
    course = compare(plan, run_once)
    kept = [[course.samples.get((n, None, label)) for n in range(rounds)] for label in labels]
    runs = [[run for sample in row if sample and (run := sample.good)] for row in kept]
    return ProgramPanel(command, [row if len(row) == rounds else None for row in runs])


def judge_program(panel: Panel, program: ProgramPanel) -> ProgramFidelity:
    """Return how trace and profile rank the panel beside the program.

    Args:
        panel: what was emulated.
        program: what the program did.
    """
    good = [
        index
        for index, runs in enumerate(program.runs)
        if runs and all(row[index] is not None for row in (panel.trace, *panel.profile.values()))
    ]
    families = by_family(panel.configurations[index].allocator for index in good)
    seeds = list(panel.profile.values())
    return ProgramFidelity(
        command=tuple(program.command),
        rounds=max((len(runs) for runs in program.runs if runs), default=0),
        configurations=len(good),
        left_out=left_out(panel, good),
        spread={name: _spread(program, good, field) for name, field in FIGURES.items()},
        metrics={name: _judge(seeds, program, good, families, name) for name in FIGURES},
        trace_metrics={
            name: _judge([panel.trace], program, good, families, name) for name in FIGURES
        },
    )


def environments_of(
    panel: Sequence[Configuration], located: Located, environment: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the program's environment under each configuration, all of one length.

    Args:
        panel: the configurations.
        located: adapter and installation of every allocator.
        environment: the caller's; what steers an allocator in it is left out.
    """
    libc = str(located["glibc"][0].observe({}).malloc_from) if "glibc" in located else None
    environments = []
    for configuration in panel:
        adapter, installation = located[configuration.allocator]
        variables = adapter.environment(installation, configuration)
        # A program may bring a malloc of its own; ld.so(8) takes the preloaded one first.
        brought = {PRELOAD: libc} if libc and PRELOAD not in variables else {}
        environments.append(environment_under({**brought, **variables}, environment))
    return [dict(environment) for environment in padded(environments)]


def _good_ending(command: Sequence[str], run: ProgramRun) -> int:
    if run.exit_status is None or run.timed_out:
        raise ProgramError(
            f"{command[0]}: {run.ending} under the first configuration, a default; nothing can be "
            f"compared: {run.stderr_tail.strip()[-200:]}"
        )
    return run.exit_status


def _values(program: ProgramPanel, index: int, field: str) -> list[float]:
    return [float(getattr(run, field)) for run in program.runs[index] or ()]


def _spread(program: ProgramPanel, good: Sequence[int], field: str) -> float | None:
    """Return the median over configurations of the spread between the program's own runs.

    None where each ran once.
    """
    rows = (_values(program, index, field) for index in good)
    many = (row for row in rows if len(row) > 1)
    spreads = [(max(row) - min(row)) / np.median(row) for row in many if np.median(row) > 0]
    return float(np.median(spreads)) if spreads else None


def _judge(
    emulated: Sequence[Sequence[Measurement | None]],
    program: ProgramPanel,
    good: Sequence[int],
    families: Mapping[str, Sequence[int]],
    name: str,
) -> MetricFidelity | None:
    values = numbers(emulated, good, name)
    if values is None:
        return None
    truth = np.array([np.median(_values(program, index, FIGURES[name])) for index in good])
    if (truth <= 0).any():
        return None
    found = judge_values(truth, np.array(values, np.float64), families)
    if name == _OTHER_UNIT:
        return replace(found, median_error=None, p90_error=None, worst_error=None, bias=None)
    return found
