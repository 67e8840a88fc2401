"""The search in emulation: a campaign in the run folder, bounded by time."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tuner.campaign.progress import Listener
from tuner.campaign.runner import Runner
from tuner.campaign.setup import emulation_options, locate, open_campaign, with_workload
from tuner.compare.loop import ignore
from tuner.config import CampaignSpec, campaign_from_options, name_after
from tuner.emulation import Calibration
from tuner.errors import InterruptedCampaign, ProgramError, TunerError
from tuner.front.bounds import default_trials
from tuner.front.whole import ns_per_instruction
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.executor import LocalExecutor, measuring_cpus
from tuner.measure.several import SeveralWorkloads, several_workloads
from tuner.optimize.choosing.proposals import worthwhile
from tuner.optimize.kinds.suite import further_traces
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.profile.generated import replayable
from tuner.records import Configuration, Measurement, Trial
from tuner.store import CampaignRecord, Store

OBJECTIVES = ("mean_heap", "cost")
"""What the search minimises for the usual goals; peak memory guards on the program."""

_MEMORY: Final = {MEAN: "mean_heap", PEAK: "peak_heap"}
"""Goal -> objective."""

_MOST_EVALUATIONS = 600
_PLATEAU = 40
"""Evaluations in a row without a gain, after which the time is better spent on the program."""


@dataclass(frozen=True)
class EmulatedTrials:
    """What emulation knows."""

    record: CampaignRecord
    trials: tuple[Trial, ...]

    @property
    def ns_per_instruction(self) -> float:
        """CPU time of an instruction of the allocator."""
        return ns_per_instruction(self.record)

    def default_of(self, allocator: str) -> Trial:
        """Return the trial of an allocator's default.

        Raises:
            ProgramError: it failed.
        """
        found = default_trials(self.trials).get(allocator)
        if found is not None:
            return found
        raise ProgramError(
            f"{allocator}: its default could not be emulated; see `malloc-tuner front`"
        )


def campaign_spec(
    trace: Path,
    allocators: Sequence[str],
    seed: int,
    evaluations: int,
    program: str | None = None,
    *,
    goals: Sequence[str] = (MEAN, CPU),
    constraints: Sequence[str] = (),
    seeds: Sequence[Configuration] = (),
) -> CampaignSpec:
    """Return the campaign of an optimisation, on the trace and those that stand beside it.

    Args:
        trace: the recording.
        allocators: that take part.
        seed: of the search.
        evaluations: at most so many.
        program: that the campaign is named after; None: the trace.
        goals: quantities of the program.  A loss of CPU time counts whatever they are.
        constraints: what every setting should keep, see `peak_constraints`.
        seeds: settings that the search begins with, in at most half of what follows the defaults.

    Raises:
        SpecError: an option is wrong.
    """
    memory = [metric for name, metric in _MEMORY.items() if name in goals]
    n_seeds = max(0, evaluations - len(allocators)) // 2
    return campaign_from_options(
        name=program and name_after(Path(program)),
        trace=trace,
        further_traces=further_traces(trace),
        allocators=list(allocators),
        objectives=[*memory, "cost"] if memory else list(OBJECTIVES),
        constraints=list(constraints),
        seed=seed,
        evaluations=evaluations,
        seed_configurations=[
            {"allocator": one.allocator, "settings": one.as_dict} for one in seeds[:n_seeds]
        ],
        recheck={"share": 0.0},
        stop={"plateau": _PLATEAU},
    )


def _evaluator(
    spec: CampaignSpec, run: Path, prices: Calibration
) -> EmulatorEvaluator | SeveralWorkloads:
    """Return what emulates single configurations on all workloads of a campaign."""
    located, options = locate(spec), emulation_options(spec)
    traces = [
        replayable(trace, options.seed, run / f"generated-{number}.trace")
        for number, trace in enumerate((spec.trace, *spec.further_traces))
    ]
    emulations = [Emulation(one, located, prices, options) for one in traces]
    return several_workloads([EmulatorEvaluator(one) for one in emulations], emulations[0])


class First(NamedTuple):
    """What emulating the first allocator's default took and showed."""

    seconds: float
    """Of many evaluations, what one takes, as several are made at once."""
    peak_bytes: float | None
    """Of the heap; None where it failed."""
    has_cost: bool = True
    """False where system calls are not counted: the machine forbids ptrace."""


def first_default(spec: CampaignSpec) -> First:
    """Emulate the default of the first allocator.

    Raises:
        TunerError: it cannot be emulated.
    """
    evaluator = _evaluator(spec, spec.trace.parent, Calibration(0.0, 0.0))
    cpus = measuring_cpus(None)
    begun_s = time.monotonic()
    found = evaluator.evaluate(Configuration(spec.choices[0].name), cpus[0]).good
    seconds = max(time.monotonic() - begun_s, 1e-3) / len(cpus)
    if found is None:
        return First(seconds, None)
    return First(seconds, found.value(_MEMORY[PEAK]), has_cost=found["cost"] is not None)


def peak_constraints(
    rules: Rules, values: Mapping[str, float], peak_bytes: float | None
) -> tuple[str, ...]:
    """Return what a guard of peak memory, which is no goal, demands of the heap in emulation.

    Without it a search for mean memory and work ends where the peak is too high.

    Args:
        rules: what counts.
        values: quantity -> value of the program as it is, of which the limit is a share.
        peak_bytes: of the heap, emulated under what the program runs under; None: not known.
    """
    if peak_bytes is None or PEAK not in rules.guards or PEAK in rules.goals:
        return ()
    limit_bytes = peak_bytes + math.expm1(rules.margin(PEAK)) * values[PEAK]
    return (f"{_MEMORY[PEAK]} <= {limit_bytes / 1024.0:.0f} KiB",)


def evaluations_within(spec: CampaignSpec, seconds: float, one_s: float) -> int:
    """Return how many evaluations fit in a time; at least the defaults.

    Args:
        spec: the campaign.
        seconds: the time.
        one_s: what one takes, see `first_default`.
    """
    return max(len(spec.choices), min(_MOST_EVALUATIONS, int(seconds / one_s)))


def search(
    spec: CampaignSpec,
    run: Path,
    has_time: Callable[[], bool],
    on_trial: Callable[[CampaignRecord, Trial], None] = ignore,
    program: Mapping[str, float] | None = None,
) -> EmulatedTrials:
    """Run or continue the campaign until it ends or time is up; all that was measured counts.

    Args:
        spec: the campaign.
        run: its folder.
        has_time: whether to go on.
        on_trial: is called with every trial that ended.
        program: metric -> what the whole program uses as it is, bytes and ns; None: as recorded.

    Raises:
        InterruptedCampaign: Ctrl-C; everything measured is kept.
        TunerError: what a campaign raises.
    """
    spec, workload = with_workload(spec)
    if program is not None:
        workload = replace(
            workload, recorded={**workload.recorded, "program": tuple(program.items())}
        )
    ready = open_campaign(spec, run, workload)
    with ready.store, LocalExecutor(ready.evaluator, measuring_cpus(None)) as executor:
        shown = partial(on_trial, ready.store.campaign())
        timed = _Timed(executor, len(spec.choices), has_time, shown)
        try:
            Runner(ready.store, ready.spaces, executor, timed).run()
        except InterruptedCampaign:
            if not timed.is_out:
                raise
        return EmulatedTrials(ready.store.campaign(), tuple(ready.store.trials()))


def begun(run: Path) -> CampaignRecord | None:
    """Return how the search of a run folder began; None where none did."""
    if not Store.exists(run):
        return None
    with Store.open(run) as store:
        return store.campaign()


def load(run: Path) -> EmulatedTrials:
    """Return what the campaign of a run folder has measured.

    Raises:
        StoreError: there is none.
    """
    with Store.open(run) as store:
        return EmulatedTrials(store.campaign(), tuple(store.trials()))


class _Timed(Listener):
    """Stops the executor when the time is up and every allocator's default has run."""

    def __init__(
        self,
        executor: LocalExecutor,
        n_defaults: int,
        has_time: Callable[[], bool],
        on_trial: Callable[[Trial], None],
    ) -> None:
        self._executor = executor
        self._n_defaults = n_defaults
        self._on_trial = on_trial
        self._has_time = has_time
        self.is_out = False

    def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
        """Look at the clock."""
        del is_new
        self._on_trial(trial)
        if trial.number >= self._n_defaults and not self.is_out and not self._has_time():
            self.is_out = True
            self._executor.stop()


def smallest(
    spec: CampaignSpec,
    run: Path,
    emulated: EmulatedTrials,
    chosen: Configuration,
    *,
    loss_of: Callable[[Configuration, Measurement, Measurement], float],
    worth: float,
    most: float,
    has_time: Callable[[], bool],
) -> Configuration:
    """Return a configuration without the settings that are not worth their words in emulation.

    See `worthwhile`.

    Args:
        spec: the campaign.
        run: its folder.
        emulated: what it measured.
        chosen: the configuration.
        loss_of: what a configuration that measures so loses against what `chosen` measures.
        worth: greatest loss that a setting fewer is worth, in the unit of `loss_of`.
        most: greatest loss in all.
        has_time: whether to go on; the settings that were not looked at stay.
    """
    trial = next((t for t in emulated.trials if t.configuration == chosen), None)
    if trial is None or trial.measurement is None or chosen.is_default:
        return chosen
    wanted = trial.measurement
    spec, _ = with_workload(spec)
    known = {t.configuration: t.measurement for t in emulated.trials}
    evaluator = _evaluator(spec, run, emulated.record.prices)
    cpus = measuring_cpus(None)

    def measure(one: Configuration, cpu: int = cpus[0]) -> Measurement | None:
        if one not in known and has_time():
            try:
                known[one] = evaluator.evaluate(one, cpu).good
            except TunerError:
                known[one] = None
        return known.get(one)

    def loss(one: Configuration) -> float:
        found = measure(one)
        return loss_of(one, found, wanted) if found is not None else math.inf

    alone = [chosen.without(name) for name, _ in chosen.settings]
    with ThreadPoolExecutor(len(cpus)) as pool:
        list(pool.map(measure, alone, itertools.cycle(cpus)))
    return worthwhile(chosen, loss, worth, most)
