"""What `import tuner` offers: the work of the commands as functions, which the commands call.

    optimize                                 from a program to its answer; or the parts of it:

    record ──▶ emulate                       one setting on a trace
       └─────▶ tune ──▶ load ──▶ front       a campaign, and its Pareto front
                          ├────▶ compare     its points on the real program
                          └────▶ export      one of them for deployment

Arguments of `tune` are keys of campaign files (docs/campaigns.md).
Every function raises errors of `tuner.errors`, whose messages are for people.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from tuner.allocators import Located, get_allocator, locate_all
from tuner.config import CampaignSpec, campaign_from_options, load_campaign
from tuner.config.reading import closest
from tuner.emulation import EmulationOptions
from tuner.errors import SpecError
from tuner.limits import SERVICE_ROUNDS, USUAL_EFFECT, check_rounds, check_words, usable_core
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.evaluation import Evaluation
from tuner.records import Configuration, unique_configurations
from tuner.registry import DEFAULT_ALLOCATORS, EXPORTERS
from tuner.runs import Run, load_run, run_with, search_spaces
from tuner.units import parse_percent

if TYPE_CHECKING:  # each function imports what does its work: a campaign needs no validation
    from tuner.campaign.progress import Listener
    from tuner.compare.loop import Observer
    from tuner.explain.explanation import Explanation
    from tuner.fidelity.session import judge_profile
    from tuner.measure.program import Surroundings
    from tuner.optimize.answering.answer import Answer
    from tuner.optimize.comparison import Compared
    from tuner.optimize.view import View
    from tuner.recording import Recording, record
    from tuner.report.several_runs import SeveralRuns
    from tuner.report.table import FrontTable
    from tuner.service.plan import ServicePlan
    from tuner.store import RealMeasurement
    from tuner.validate.summary import ValidationSummary
    from tuner.validate.with_gem5 import compare_inside_gem5, compare_on_gem5

__all__ = [
    "Emulated",
    "Explanation",
    "FrontTable",
    "Recording",
    "Run",
    "SeveralRuns",
    "ValidationSummary",
    "compare",
    "compare_inside_gem5",
    "compare_on_gem5",
    "compare_runs",
    "compare_service",
    "emulate",
    "explain",
    "export",
    "front",
    "judge_profile",
    "load",
    "optimize",
    "record",
    "tune",
]

LEAST_EFFECT: Final = parse_percent(USUAL_EFFECT)
"""Share that counts as an effect on a service."""

BASELINE: Final = "glibc"
"""Whose default is measured beside everything."""

RUNS: Final = Path("runs")
"""Where run folders are made."""

_ELSEWHERE: Final = {
    "compare_inside_gem5": "tuner.validate.with_gem5",
    "compare_on_gem5": "tuner.validate.with_gem5",
    "judge_profile": "tuner.fidelity.session",
    "Explanation": "tuner.explain.explanation",
    "FrontTable": "tuner.report.table",
    "Recording": "tuner.recording",
    "SeveralRuns": "tuner.report.several_runs",
    "ValidationSummary": "tuner.validate.summary",
    "record": "tuner.recording",
}
"""Names of `__all__` that are taken as they are, and their modules."""

OnNote = Callable[[str], None]
"""Called with a sentence that a reader of the result must know."""

AnyPath = str | os.PathLike[str]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    """Return one of `_ELSEWHERE`, whose module is imported when it is first used."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'tuner.library' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE[name]), name)


def _unheard(_: str) -> None:
    """Drop a note."""


# An answer


class OptimizeOptions(TypedDict, total=False):
    """Options of the command that `optimize` takes as arguments, as they are written there."""

    time: str
    allocators: Sequence[str]
    goals: Sequence[str]
    least: str
    evaluations: int
    timeout: str
    expect_status: int
    cpu: int
    seed: int
    direct: bool
    constraints: Sequence[str]


def optimize(
    command: Sequence[str] | None = None,
    *,
    output: AnyPath | None = None,
    held_out: Sequence[str] | None = None,
    further: Sequence[Sequence[str]] = (),
    service: ServicePlan | None = None,
    held_out_load: str | None = None,
    executor: str = "local",
    workers: int | None = None,
    scheduler: str | None = None,
    view: View | None = None,
    **options: Unpack[OptimizeOptions],
) -> Answer:
    """Find the setting that the program itself proves best, or that it should keep what it has.

    Args:
        command: the program and its arguments; None: `output` is a run that goes on.
        output: the run folder; None: see `usual_folder`.
        held_out: command with an input that is not tuned on, to judge the answer; goes with
            `command`, as `further` and `service` do.
        further: commands that are tuned on together with the first.
        service: how the command is run as a service, see `tuner.service.plan`; None: it ends by
            itself.
        held_out_load: load of the service that is not tuned on, to judge the answer.
        executor: what runs the program: local, dask or slurm.
        workers: jobs of Slurm.
        scheduler: address of Dask's scheduler.
        view: shows progress.
        options: as on the command line: ``time="5min"``, ``least="2%"``, ``constraints=[...]``.

    Returns:
        The answer; `sentence` says it, `decision` and `configuration` are for programs.

    Raises:
        SpecError: an option is wrong, or the folder holds something else.
        MissingToolError: the program, a library or an instrument is not here.
        ProgramError: the program fails as it is, or cannot be recorded.
        ProgramTimeoutError: its first runs take longer than the time that was given.
        StoreError: what the folder holds is damaged.
        OutputError: the folder cannot be written.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    from tuner.campaign.executors import Where
    from tuner.optimize.options import (
        Options,
        continued_request,
        judged_on,
        request_of,
        service_request,
        with_time_of_before,
    )
    from tuner.optimize.session import Session

    allowed = list(OptimizeOptions.__annotations__)
    for name in options:
        if name not in allowed:
            raise SpecError(f"{name}: unknown option{closest(name, allowed)}")
    for one in (command, held_out, *further):
        if one is not None:
            check_words("command", one, least=1)
    chosen = Options(**options)
    for name in ("allocators", "goals", "constraints"):
        check_words(name, getattr(chosen, name) or ())
    folder = _path(output)
    if command is None:
        if folder is None:
            raise SpecError("give a command, or with output the run folder to continue")
        _refuse_without_command(held_out=held_out, further=further, service=service)
        request = judged_on(continued_request(folder, chosen), held_out_load)
    elif service is None:
        request = request_of([command, *further], held_out, chosen)
    else:
        plain = request_of([command, *further], held_out, replace(chosen, constraints=None))
        request = service_request(plain, service, chosen.constraints, held_out_load)
    if held_out_load is not None and request.service is None:
        raise SpecError("held_out_load: applies to a service; for other programs give held_out")
    usable_core(request.cpu)
    run = folder or usual_folder(request.command)
    request = with_time_of_before(run, request, chosen)
    where = Where(executor, workers, scheduler)
    return Session(run, request, view, where=where).answer()


def _refuse_without_command(**arguments: object) -> None:
    """Refuse arguments that a run folder to continue does not take."""
    for name, value in arguments.items():
        if value:
            raise SpecError(f"{name}: a run folder goes on as it was begun; give the command too")


def usual_folder(command: Sequence[str]) -> Path:
    """Return the run folder of a program where none is named.

    ``runs/<program>``; where that has a campaign of `tune`, ``runs/<program>-optimize``.
    """
    from tuner.runs import REQUEST_FILE
    from tuner.store import store_path

    folder = RUNS / Path(command[0]).name
    is_of_tune = store_path(folder).exists() and not (folder / REQUEST_FILE).exists()
    return folder.with_name(f"{folder.name}-optimize") if is_of_tune else folder


# One configuration


@dataclass(frozen=True)
class Emulated:
    """Configurations of allocators, each replayed on one trace."""

    emulation: Emulation
    """The trace, the allocators as found, the options and the prices."""
    evaluations: tuple[tuple[Configuration, Evaluation], ...]
    """What was asked for first, then the defaults."""


def emulate(
    trace: AnyPath,
    allocators: Sequence[str] = (BASELINE,),
    settings: Sequence[str] = (),
    *,
    options: EmulationOptions | None = None,
    cpu: int | None = None,
    each: Callable[[Sequence[Configuration]], Iterable[Configuration]] = iter,
    on_note: OnNote = _unheard,
) -> Emulated:
    """Replay a trace under settings, and under their allocators' defaults, others' and glibc's.

    Args:
        trace: a trace or a profile.
        allocators: names, or ``name:/path/to/library``.
        settings: texts such as ``jemalloc narenas=2``.
        options: how to replay; None: see `EmulationOptions`.
        cpu: core to run on, unless threads are free; None: the first allowed one.
        each: yields the configurations that it is given; for a progress bar.
        on_note: called with what the trace lacks, and with what the kernel did meanwhile.

    Returns:
        An evaluation of each configuration; one that failed has a status and a reason.

    Raises:
        SpecError: a setting or the core is not one that can be used.
        MissingToolError: a library or an instrument is not on this machine.
        TraceError: the trace cannot be read.
    """
    from tuner.profile.trust import notes_on

    usable_core(cpu)
    check_words("allocators", allocators)
    asked, located = settings_of(settings, [*allocators, BASELINE])
    options = options or EmulationOptions()
    emulation = Emulation(Path(trace), located, load_calibration(), options, counts_process=True)
    for note in notes_on(Path(trace)):
        on_note(note)
    evaluator = EmulatorEvaluator(emulation)
    wanted = unique_configurations([*asked, *map(Configuration, located)])
    found = tuple((one, evaluator.evaluate(one, cpu)) for one in each(wanted))
    for one, evaluation in found:
        for incident in evaluation.incidents:
            on_note(f"{one}: {incident}")
    return Emulated(emulation, found)


def settings_of(
    texts: Sequence[str], allocators: Sequence[str] = ()
) -> tuple[list[Configuration], Located]:
    """Return the settings that texts such as ``jemalloc narenas=2`` say, and their allocators.

    Args:
        texts: as the option ``--setting`` takes them.
        allocators: further names, or ``name:/path/to/library``, which counts for the texts too.

    Returns:
        A configuration for each text; the allocators, those of the texts first.

    Raises:
        SpecError: a text is not understood, or sets something twice.
        MissingToolError: an allocator is not on this machine.
    """
    from tuner.optimize.comparison import configuration_of

    check_words("settings", texts)
    named = {name.partition(":")[0]: name for name in allocators}
    firsts = [text.strip().partition(" ")[0] for text in texts]
    wanted = dict.fromkeys([*(named.get(name, name) for name in firsts), *allocators])
    located = locate_all(map(get_allocator, wanted))
    return [configuration_of(text, located) for text in texts], located


# A campaign


class CampaignOptions(TypedDict, total=False):
    """Keys of a campaign file that `tune` takes as arguments; docs/campaigns.md explains them."""

    allocators: Sequence[str]
    evaluations: int
    objectives: Sequence[str]
    constraints: Sequence[str]
    strategy: str
    search: Literal["joint", "separate"]
    emulation: Mapping[str, str]
    stop: Mapping[str, object]
    seed: int
    space_files: Sequence[str]
    warm_start: Sequence[str]
    further_traces: Sequence[str]
    held_out_traces: Sequence[str]
    exact_trace: str


def tune(
    trace: AnyPath | None = None,
    *,
    campaign: AnyPath | None = None,
    output: AnyPath | None = None,
    workers: int | None = None,
    executor: str = "local",
    scheduler: str | None = None,
    force: bool = False,
    listener: Listener | None = None,
    on_note: OnNote = _unheard,
    **options: Unpack[CampaignOptions],
) -> Run:
    """Search the allocators' settings on a trace; the same call continues an interrupted search.

    Args:
        trace: a trace or a profile; None: that of the campaign.
        campaign: a campaign file or a run folder; None: the options say it all.
        output: the run folder; None: that of the campaign, else ``runs/<name>``.
        workers: evaluations at a time; None: one per core, one where time is measured.
        executor: what evaluates: local, dask or slurm.
        scheduler: address of Dask's scheduler.
        force: tune on a profile however bad its verdict is.
        listener: is called as the search goes on; Ctrl-C is its business too.
        on_note: called with what is to be known of workload and prices.
        options: override keys of the campaign file.

    Raises:
        SpecError: neither trace nor campaign is given, or one is wrong.
        MissingToolError: a library or an instrument is not on this machine.
        TraceError: a trace cannot be read, or is a profile of bad verdict.
        StoreError: the run folder is of another campaign, or in use.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
    if trace is not None:
        given["trace"] = str(trace)
    spec, folder = read_campaign(_path(campaign), _path(output), given)
    return run_campaign(
        spec, folder, workers=workers, executor=executor, scheduler=scheduler, force=force,
        listener=listener, on_note=on_note,
    )  # fmt: skip


def read_campaign(
    campaign: Path | None, output: Path | None, given: Mapping[str, Any]
) -> tuple[CampaignSpec, Path]:
    """Return a campaign and its run folder.

    Args:
        campaign: campaign file or run folder; None when `given` says it all.
        output: run folder; None for the folder given as `campaign`, else ``runs/<name>``.
        given: keys of a campaign file.

    Raises:
        SpecError: neither a campaign nor a trace is given, or something is wrong in them.
    """
    from tuner.campaign.setup import CAMPAIGN_FILE

    if campaign is not None:
        is_run = campaign.is_dir()
        if is_run and not (campaign / CAMPAIGN_FILE).exists():
            raise SpecError(
                f"{campaign}: holds no campaign; give a run folder of `malloc-tuner tune`"
            )
        spec = load_campaign(campaign / CAMPAIGN_FILE if is_run else campaign, given)
        run = output or (campaign if is_run else None)
    elif "trace" in given:
        spec = campaign_from_options(**{"allocators": list(DEFAULT_ALLOCATORS), **given})
        run = output
    else:
        raise SpecError("give a trace or a campaign file; see `malloc-tuner tune --help`")
    return spec, run or RUNS / spec.name


def run_campaign(
    spec: CampaignSpec,
    folder: Path,
    *,
    workers: int | None = None,
    executor: str = "local",
    scheduler: str | None = None,
    force: bool = False,
    listener: Listener | None = None,
    on_note: OnNote = _unheard,
) -> Run:
    """Run a campaign in its folder, or what is left of it; see `tune`."""
    from tuner.campaign.executors import Demand, Where, check_executor
    from tuner.campaign.progress import Listener
    from tuner.campaign.runner import Runner
    from tuner.campaign.setup import open_campaign, with_workload
    from tuner.campaign.stopping import StopRules
    from tuner.measure.executor import LocalExecutor
    from tuner.objectives import parse_constraint
    from tuner.registry import EXECUTORS

    where = Where(executor, workers, scheduler)
    check_executor(where, is_alone=spec.measures_time)
    spec, workload = with_workload(spec, is_forced=force)
    for note in workload.notes:
        on_note(note)
    ready = open_campaign(spec, folder, workload)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ready.store)
        for note in (*workload.gaps, *filter(None, [ready.warmth]), *ready.idle):
            on_note(note)
        if "cost" in spec.metrics:
            on_note(ready.store.campaign().prices.describe())
        demand = Demand(
            ready.store, ready.evaluator, ready.emulations,
            # Latency is that of a machine with nothing else to do: one evaluation at a time.
            is_alone=spec.measures_time, where=where, on_note=on_note,
        )  # fmt: skip
        chosen = stack.enter_context(EXECUTORS[executor].load()(demand))
        screener = None
        if ready.screener is not None:
            cores = where.cores(is_alone=spec.measures_time)
            screener = stack.enter_context(LocalExecutor(ready.screener, cores))
        rules = StopRules(
            spec.stop.time_ns,
            spec.stop.plateau,
            tuple(map(parse_constraint, spec.stop.target)),
            spec.stop.failures,
        )
        listener = listener or Listener()
        runner = Runner(ready.store, ready.spaces, chosen, listener, screener, stop=rules)
        trials = runner.run()
        if runner.stopped_because is not None:
            on_note(f"stopped before its {spec.evaluations} evaluations: {runner.stopped_because}")
        run = run_with(ready.store, trials)
    if spec.held_out_traces:
        from tuner.campaign.held_out import measure_held_out
        from tuner.campaign.setup import held_out_emulations

        emulations = held_out_emulations(spec, ready.emulations[0])
        measure_held_out(run, spec.held_out_traces, emulations)
    return run


# A run


def load(run: AnyPath) -> Run:
    """Read a run folder: the campaign, its trials and its validations.

    Raises:
        StoreError: there is no store, it is damaged, or it holds no trial yet.
        SelectionError: `optimize` has run the program alone here, so there are no trials.
    """
    return load_run(Path(run))


def _loaded(run: Run | AnyPath) -> Run:
    return run if isinstance(run, Run) else load(run)


def front(
    run: Run | AnyPath,
    objectives: Sequence[str] | None = None,
    *,
    relative_to: str | None = None,
    everything: bool = False,
) -> FrontTable:
    """Return the Pareto front of a run, the defaults beside it.

    Args:
        run: see `load`, or its folder.
        objectives: metrics to minimise; None: the campaign's.
        relative_to: allocator whose default is the baseline, or ``own``; None: the campaign's.
        everything: also the dominated, infeasible and failed trials.

    Raises:
        StoreError: the folder is of no run.
        SelectionError: the baseline was not measured.
        SpecError: an objective is unknown.
        MissingToolError: an objective was not measured.
    """
    from tuner.front.kept import picks_of
    from tuner.front.repricing import price_note
    from tuner.report.table import front_table

    run = _loaded(run)
    names = tuple(objectives or run.campaign.objectives)
    table = front_table(run, names, picks_of(run), relative_to=relative_to, everything=everything)
    return replace(table, price_note=price_note(run.campaign, run.trials, names))


def explain(
    run: Run | AnyPath,
    point: str | int | None = None,
    *,
    measure: bool = False,
    workers: int | None = None,
    seed: int = 1,
) -> Explanation:
    """Explain which settings carry the gain of a run, which do nothing, and which are dangerous.

    Args:
        run: see `load`, or its folder.
        point: name of a pick or number of a trial whose settings are put back one at a time;
            None: the trial behind what `optimize` deploys, else the run's first pick.
        measure: emulate what of that is not recorded.
        workers: evaluations at a time; None: one per core, one where time is measured.
        seed: of the forests that predict trials from settings.

    Raises:
        SelectionError: there is no such pick or trial, or too few trials.
        StoreError: what measures would give other numbers now.
        SpecError: several workers where time is measured, or more than there are cores.
        MissingToolError: a library or an instrument is not on this machine.
        TraceError: the trace cannot be read.
    """
    from tuner.explain.explanation import explain_run, material_of
    from tuner.front.ablation import ablate, point_of

    run = _loaded(run)
    pick = None
    if point is not None or any(trial.is_feasible for trial in run.trials):
        pick = point_of(run, None if point is None else str(point))
    # Before anything is measured, which may take long.
    material = material_of(run, pick.trial.configuration.allocator if pick else None)
    ablation = ablate(run, pick, _measure(run, workers) if measure else None) if pick else None
    return explain_run(material, ablation, seed)


def _measure(
    run: Run, workers: int | None
) -> Callable[[Sequence[Configuration]], Mapping[Configuration, Evaluation]]:
    """Return what evaluates configurations as the campaign of a run did."""
    from tuner.campaign.executors import Where, check_executor
    from tuner.campaign.setup import CAMPAIGN_FILE, evaluator_again
    from tuner.measure.executor import LocalExecutor

    is_alone = load_campaign(run.folder / CAMPAIGN_FILE).measures_time
    where = Where(workers=workers)
    check_executor(where, is_alone=is_alone)
    evaluator = evaluator_again(run.folder)

    def measured(configurations: Sequence[Configuration]) -> dict[Configuration, Evaluation]:
        with LocalExecutor(evaluator, where.cores(is_alone=is_alone)) as executor:
            attempts = list(executor.run(configurations))
        for one in attempts:
            if one.error is not None:
                raise one.error
        return {one.configuration: one.outcome for one in attempts if one.outcome is not None}

    return measured


def compare(
    run: Run | AnyPath,
    command: Sequence[str],
    *,
    points: Sequence[str] = ("picks", "front"),
    most_front: int = 4,
    most_dominated: int = 3,
    rounds: int | None = None,
    output: str | None = None,
    expect_status: int | None = None,
    surroundings: Surroundings | None = None,
    instrument: str = "auto",
    seed: int = 1,
    observer: Observer[None, RealMeasurement] | None = None,
    on_note: OnNote = _unheard,
) -> ValidationSummary:
    """Measure points of a run on the real program, against every default, in interleaved rounds.

    Args:
        run: see `load`, or its folder, where the samples are kept.
        command: the program and its arguments.
        points: names of picks, numbers of trials, or the words picks, best and front.
        most_front: greatest number of points for the word front.
        most_dominated: greatest number of dominated points, which check the ranking.
        rounds: runs of every subject; None: as many as the number of claims needs.
        output: what must be the same in all runs, see `ValidationOptions`; None: what the
            program prints.
        expect_status: exit status of the program; None: that of the recorded run, or 0.
        surroundings: core, time limit and huge pages; None: the campaign's huge pages.
        instrument: what counts instructions: auto, cachegrind or none.
        seed: of the order within the rounds.
        observer: is called after every run.
        on_note: called with what is not in the summary's notices.

    Raises:
        SpecError: an argument is wrong.
        SelectionError: a name is no pick, or a trial has no numbers.
        ComparisonError: there is nothing but the baseline to measure.
        MissingToolError: the program or a library is not here, or of another version.
        ProgramError: the program fails with the baseline, ends otherwise than when it was
            recorded, or does not repeat its output.
        ProgramTimeoutError: it does not end in time with the baseline.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    from tuner.machine import read_machine
    from tuner.measure.counting import InstructionCounter
    from tuner.measure.program import ProgramRunner, Surroundings
    from tuner.measure.warm import warm_memory
    from tuner.store import Store, store_path
    from tuner.validate.program import validate
    from tuner.validate.session import CACHEGRIND, STDOUT, ValidationOptions
    from tuner.validate.setup import prepare, with_program_as_it_is
    from tuner.validate.subjects import check_subjects, choose_subjects
    from tuner.validate.summary import count_claims, summarize
    from tuner.validate.trust import recorded_program
    from tuner.validate.verdicts import default_rounds, too_few

    check_words("command", command, least=1)
    check_rounds(rounds)
    run = _loaded(run)
    subjects = choose_subjects(run, points, most_front, most_dominated)
    check_subjects(run, subjects)
    n_claims = count_claims(run, subjects)
    if rounds is not None and n_claims and (lack := too_few(rounds, n_claims)) is not None:
        on_note(f"this will be {lack}")
    options = ValidationOptions(
        rounds=rounds or default_rounds(n_claims),
        output=output or STDOUT,
        surroundings=surroundings or Surroundings(thp=huge_pages_of(run)),
        instrument=instrument,
        seed=seed,
    )
    prepared = prepare(subjects, run.campaign, os.environ, search_spaces(run.folder))
    warm_memory()
    with Store.open(store_path(run.folder), writable=True) as store:
        identifier = validate(
            store,
            command,
            prepared,
            options=options,
            machine=read_machine(),
            runner=ProgramRunner(),
            counter=InstructionCounter() if instrument == CACHEGRIND else None,
            recorded=recorded_program(run.campaign, expect_status),
            as_it_is=lambda brought, entries: with_program_as_it_is(
                brought, entries, run.campaign, os.environ
            ),
            observer=observer,
            on_notice=on_note,
        )
    (made,) = (v for v in load_run(run.folder).validations if v.identifier == identifier)
    return summarize(run, made)


def huge_pages_of(run: Run) -> Literal["never", "keep"]:
    """Return the transparent huge pages that a campaign measured with."""
    return run.campaign.emulation.thp


def compare_runs(runs: Sequence[Run | AnyPath]) -> SeveralRuns:
    """Put several runs on one front: what each found, and what the others missed.

    Args:
        runs: two or more of one workload, see `load`, or their folders.

    Raises:
        SelectionError: fewer than two, or of different workloads, objectives or emulation.
    """
    from tuner.report.several_runs import join_runs

    return join_runs([_loaded(run) for run in runs])


def compare_service(
    folder: AnyPath,
    plan: ServicePlan,
    run: AnyPath | None = None,
    *,
    points: Sequence[str] = ("picks", "front"),
    most_front: int = 4,
    limits: Mapping[str, float] | None = None,
    allocators: Sequence[str] = DEFAULT_ALLOCATORS,
    settings: Sequence[str] = (),
    rounds: int | None = None,
    cpu: int | None = None,
    seed: int = 1,
    least: float = LEAST_EFFECT,
    view: View | None = None,
) -> Compared:
    """Compare allocators and settings on a service under load.

    Args:
        folder: of the runs; the same comparison goes on there.
        plan: what is done to the service in a run.
        run: folder of a campaign whose points take part, with the libraries that it measured; None
            for none.
        points: of the campaign: names of picks, numbers of trials, or words.
        most_front: points for the word ``front``.
        limits: metric of `tuner.metrics.SERVICE` -> share by which it may become worse.
        allocators: whose defaults and well-known settings take part.
        settings: more of them, such as ``jemalloc narenas=2``.
        rounds: at most so many; None for the usual number.
        cpu: core of the service; None leaves it free.
        seed: of the order.
        least: effect that counts, a share above 0.
        view: shows progress.

    Raises:
        SpecError: no setting is left to compare, or an argument is wrong.
        ProgramError: the service fails as it is.
        MissingToolError: an allocator or the service is not here, or an allocator is of another
            version than was measured, in the campaign or the folder.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    from tuner.measure.program import Surroundings
    from tuner.metrics import SERVICE, find_metrics
    from tuner.optimize.comparison import compare_settings, service_candidates
    from tuner.optimize.kinds.service import Service, service_rules
    from tuner.optimize.request import Request
    from tuner.validate.setup import locate_choices
    from tuner.validate.subjects import choose_subjects

    check_rounds(rounds)
    find_metrics(limits or (), SERVICE, "limit of a service")
    found = load_run(Path(run)) if run else None
    measured = found.campaign.allocators if found else {}
    files = locate_choices(allocators, measured, search_spaces(found.folder) if found else {})
    rules = service_rules(least, limits or {})
    service = Service(plan, os.environ, files, Surroundings(cpu=cpu), limited=tuple(limits or {}))
    subjects = choose_subjects(found, points, most_front, 0) if found else ()
    taken = [s.configuration for s in subjects if s.configuration.allocator in files]
    candidates = service_candidates(service, files, taken, settings)
    left_out = [s for s in subjects if s.is_pick and s.configuration not in taken]
    refused = (
        *(f"{s.label}: {s.configuration.allocator} is not in --allocators" for s in left_out),
        *candidates.refused,
    )
    if not candidates.runnable:
        why = "; ".join(refused) or "name --allocators, or a --setting of theirs"
        raise SpecError(f"nothing to compare with {plan.command[0]} as it is: {why}")
    request = Request(
        plan.command, 0.0, tuple(allocators), rules, cpu=cpu, seed=seed, service=plan,
        is_comparison=True,
    )  # fmt: skip
    most = rounds or SERVICE_ROUNDS
    compared = compare_settings(
        Path(folder), request, service, candidates.runnable,
        installations=[one for _, one in files.values()], rounds=most, view=view,
    )  # fmt: skip
    return replace(compared, refused=(*refused, *compared.refused))


def export(
    source: Run | Configuration | AnyPath,
    pick: str | int | None = None,
    form: str = "env",
    *,
    library: Path | None = None,
    file_name: str | None = None,
    validation: int | None = None,
    on_note: OnNote = _unheard,
) -> str:
    """Return the text that deploys a point of a run, or a setting.

    Args:
        source: a run, see `load`, or its folder; or a setting.
        pick: name of a pick or number of a trial; None: what `malloc-tuner optimize`
            recommends, else what the validation does, else the run's first pick, with a note.
        form: env, sh, systemd, docker, kubernetes or json.
        library: where the allocator lies on the other machine; None: as here.
        file_name: how comments name the file; None: a usual name.
        validation: number of the one that counts; None: the last one of the recorded program.
        on_note: called with why the point is not what the program proved.

    Raises:
        SelectionError: there is no such pick, trial or validation, or the program proved nothing
            better.
        SpecError: there is no such form, or the library is no path from the root.
        OutputError: the form cannot hold a value.
        MissingToolError: the allocator's library is not here, or of another version than was
            measured.
    """
    from tuner.export.formats import render
    from tuner.export.sources import find_deployment

    if form not in EXPORTERS:
        raise SpecError(f"form {form!r}: give one of {', '.join(EXPORTERS)}")
    found = find_deployment(source, pick, library, validation, on_note)
    return render(replace(found, file_name=file_name), form)


def _path(path: AnyPath | None) -> Path | None:
    return None if path is None else Path(path)
