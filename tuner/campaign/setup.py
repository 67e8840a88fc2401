"""From a campaign file to what a campaign needs: spaces, evaluator, record, store.

Nothing is searched here.  What can go wrong before the first evaluation goes
wrong here: no library, no trace, no instrument, a store of another campaign.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

import tuner
from tuner.allocators import HostFacts, Located, WorkloadFacts, get_allocator, locate_all
from tuner.campaign.identity import LIBRARY, check_same
from tuner.campaign.workloads import ReplayFiles, check_held_out, check_whole, replay_files
from tuner.config import AllocatorFile, CampaignSpec, dump_campaign, load_campaign
from tuner.config.campaign import ScreeningSpec, SeedConfiguration, allocator_files
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import StoreError
from tuner.machine import read_machine
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.instruments import ask_emulator, best_instrument
from tuner.measure.several import SeveralWorkloads, several_workloads
from tuner.objectives import parse_constraint
from tuner.output import write_text
from tuner.profile.fidelity import fidelity_of
from tuner.profile.file import is_profile, read_profile, workload_sha256, write_profile
from tuner.profile.trust import (
    Workload,
    choose_workload,
    join_workloads,
    recorded_facts,
    weak_shrunk,
)
from tuner.records import Configuration
from tuner.resources import native_file
from tuner.search import population_for
from tuner.space import Parameter, Space, joint_space
from tuner.store import (
    AllocatorRecord,
    CampaignRecord,
    ScreeningRecord,
    Store,
    TraceRecord,
    WorkloadRecord,
)
from tuner.trace.file import Trace

CAMPAIGN_FILE = "campaign.toml"
"""The effective campaign file in a run folder, with absolute paths."""

SHRUNK_FILE = "shrunk.profile.json"
"""The workload of the screening, in a run folder."""

_LIBRARIES = ("numpy", "scipy", "pymoo", "deap", "moocore", "optuna")
"""Libraries whose version may change what is searched or shown."""

_WARMTHS = ("starts from ", "no warm start")
"""What a note on a warm start begins with."""

_BEGUN_COLD = "--warm-start does not apply: the campaign has begun"

_VERSION = re.compile(r"^Version: *(\S+)$", re.MULTILINE)
"""In METADATA, whose headers stand before the description (packaging.python.org, core metadata)."""


@dataclass(frozen=True)
class Campaign:
    """A campaign that is ready to run; close its store in the end."""

    store: Store
    spaces: tuple[Space, ...]
    """One space of all allocators for a joint search, else one for each."""
    evaluator: EmulatorEvaluator | SeveralWorkloads
    emulations: tuple[Emulation, ...]
    """What the evaluator measures with, one per workload."""
    screener: EmulatorEvaluator | None = None
    """Evaluates on the shrunk workload; None where nothing is screened."""
    warmth: str | None = None
    """What is to be said of a warm start; None where the campaign goes on as begun, or has none."""
    idle: tuple[str, ...] = ()
    """Which settings that it names are not searched, and why."""


def open_campaign(spec: CampaignSpec, run: Path, workload: Workload | None = None) -> Campaign:
    """Set a campaign up, and create its store or open the one there is.

    Args:
        spec: what to do; more evaluations than the store has extend the campaign.
        run: the run folder, made when missing; another campaign in it that measured nothing, such
            as one that failed at its first trace, makes room.
        workload: what is known of the campaign's trace; None: nothing beside it.

    Raises:
        MissingToolError: a library, the emulator or an instrument is not here.
        TraceError: the trace cannot be read.
        SpecError: a constraint or target is wrong, what to start from is not there, or a held-out
            workload is tuned on.
        StoreError: the store is locked, damaged or of another campaign.
        OutputError: the run folder cannot be written.
    """
    for text in (*spec.constraints, *spec.stop.target):
        parse_constraint(text)
    check_held_out(spec)
    try:
        return _open(spec, run, workload)
    except StoreError:
        if not _make_room(run):
            raise
    return _open(spec, run, workload)


def _make_room(run: Path) -> bool:
    """Remove a campaign that measured nothing; return whether there was one."""
    if not Store.exists(run):
        return False
    with Store.open(run, writable=True) as store:
        is_gone = store.remove_empty()
    if is_gone:
        (run / SHRUNK_FILE).unlink(missing_ok=True)
    return is_gone


def _open(wanted: CampaignSpec, run: Path, workload: Workload | None) -> Campaign:
    spec = _as_begun(wanted, run)
    located, options = locate(spec), emulation_options(spec)
    beginnings = workload.beginnings if workload is not None else ()
    with replay_files(spec, options, run, beginnings) as traces:
        emulation = Emulation(spec.trace, located, Calibration(0.0, 0.0), options)
        campaign = _begin(spec, run, workload, emulation, traces)
    notes = campaign.store.campaign().workload.notes
    if wanted.warm_start and not any(note.startswith(_WARMTHS) for note in notes):
        return replace(campaign, warmth=_BEGUN_COLD)
    return campaign


def _begin(
    spec: CampaignSpec,
    run: Path,
    workload: Workload | None,
    emulation: Emulation,
    traces: ReplayFiles,
) -> Campaign:
    """Return a campaign with its store; the emulation has no prices yet."""
    located, options = emulation.allocators, emulation.options
    spaces = make_spaces(_parts(spec, located, traces.facts), spec.search)
    # The prices of a campaign are those it began with: one that goes on measures none.
    is_begun = Store.exists(run)
    warmth = None
    if not is_begun and spec.warm_start:
        spec, warmth = _warmed(spec, spaces)
        workload = workload or Workload(spec.trace)
        workload = replace(workload, notes=(*workload.notes, warmth))
    if not is_begun:
        check_whole(spec.traces)
    prices = emulation.calibration if is_begun else load_calibration()
    wanted = make_record(spec, located, spaces, options, workload, prices=prices)
    store = Store.open(run, writable=True) if is_begun else Store.create(run, wanted)
    try:
        _keep(store, wanted, spec, run, is_begun=is_begun)
        emulation = replace(emulation, calibration=store.campaign().prices)
        emulations = _emulations(emulation, traces.keep(run))
        screener = None
        if store.campaign().workload.screening is not None:
            screener = EmulatorEvaluator(replace(emulation, trace=_shrunk(spec, run)))
    except BaseException:
        store.close()
        raise
    idle = tuple(_idle(spec, located, traces.facts))
    return Campaign(store, spaces, _evaluator(emulations), emulations, screener, warmth, idle)


def evaluator_again(run: Path) -> EmulatorEvaluator | SeveralWorkloads:
    """Return what evaluates as the campaign of a run folder did, to the same numbers.

    Raises:
        SpecError: the folder has no campaign file, or a damaged one.
        MissingToolError: a library, the emulator or an instrument is not here.
        TraceError: the trace cannot be read.
        StoreError: something would give other numbers than the store has; says what.
    """
    spec = _as_begun(load_campaign(run / CAMPAIGN_FILE), run)
    with Store.open(run) as store:
        stored = store.campaign()
    located, options, prices = locate(spec), emulation_options(spec), stored.prices
    with replay_files(spec, options, run) as traces:
        spaces = make_spaces(_parts(spec, located, traces.facts), spec.search)
        wanted = make_record(spec, located, spaces, options, prices=prices)
        check_same(stored, replace(wanted, budget=stored.budget), str(run))
        emulation = Emulation(spec.trace, located, prices, options)
        return _evaluator(_emulations(emulation, traces.keep(run)))


def _as_begun(spec: CampaignSpec, run: Path) -> CampaignSpec:
    """Return the campaign with what it was begun with, where it does not say otherwise."""
    if not Store.exists(run):
        return spec
    with Store.open(run) as store:
        stored = store.campaign()
    begun = {"thp": stored.emulation.thp, "count": stored.emulation.count}
    named = spec.emulation.model_fields_set
    changes = {name: value for name, value in begun.items() if name not in named}
    update: dict[str, Any] = {"emulation": spec.emulation.model_copy(update=changes)}
    if spec.warm_start:
        update |= _seeds(stored.seed_configurations)
    return spec.model_copy(update=update)


def _warmed(spec: CampaignSpec, spaces: Sequence[Space]) -> tuple[CampaignSpec, str]:
    """Return the campaign with the seeds of an earlier one, and what is to be said of it."""
    from tuner.campaign.warm import MOST_SEEDS, warm_start  # noqa: PLC0415 - slow to import

    defaults = (Configuration(choice.name) for choice in spec.choices)
    n_free = (spec.evaluations - len({*defaults, *spec.seeds})) // 2
    most = max(1, min(MOST_SEEDS, n_free))
    found = warm_start(spec.warm_start, spec.trace, spaces, spec.objectives, most=most)
    if found is None or n_free < 1:
        note = "no warm start: no earlier campaign with these objectives has settings for this one"
        if found is not None:
            note = f"no warm start: {spec.evaluations} evaluations leave no room for other settings"
        return spec.model_copy(update={"warm_start": ()}), note
    seeds = dict.fromkeys((*spec.seeds, *found.seeds))
    return spec.model_copy(update=_seeds(tuple(seeds))), str(found)


def _seeds(configurations: Sequence[Configuration]) -> dict[str, Any]:
    """Return the keys of a campaign that has these seeds, whatever it was to start from."""
    seeds = tuple(
        SeedConfiguration(allocator=one.allocator, settings=one.as_dict) for one in configurations
    )
    return {"seed_configurations": seeds, "warm_start": ()}


def _shrunk(spec: CampaignSpec, run: Path) -> Path:
    """Return the workload of the screening, which is made when it is missing."""
    from tuner.profile.variation import shrink  # noqa: PLC0415 - slow to import, rarely needed

    shrunk = run / SHRUNK_FILE
    if not shrunk.exists():
        write_profile(shrunk, shrink(spec.trace, spec.screening.fidelity))
    return shrunk


def _emulations(emulation: Emulation, files: Sequence[Path]) -> tuple[Emulation, ...]:
    """Return the emulation of each file; settings are read back on the first."""
    first, *rest = (replace(emulation, trace=file) for file in files)
    return first, *(replace(one, reads_back=False) for one in rest)


def held_out_emulations(spec: CampaignSpec, emulation: Emulation) -> list[Emulation]:
    """Return the emulation of each workload that nothing is tuned for.

    Args:
        spec: the campaign.
        emulation: one of the campaign's.
    """
    return [replace(emulation, trace=trace) for trace in spec.held_out_traces]


def _evaluator(emulations: Sequence[Emulation]) -> EmulatorEvaluator | SeveralWorkloads:
    return several_workloads([EmulatorEvaluator(one) for one in emulations], emulations[0])


def with_workload(spec: CampaignSpec, *, is_forced: bool = False) -> tuple[CampaignSpec, Workload]:
    """Return the campaign on the workloads it is to use, and what is to be said of them.

    A profile whose own verdict is bad gives way to the trace it was fitted to, if that is
    at hand; see `tuner.profile.trust.choose_workload`, whose errors these are.
    """
    names = [choice.name for choice in spec.choices]
    workload, *further = (
        choose_workload(trace, names, spec.objectives, exact=exact, is_forced=is_forced)
        for trace, exact in zip_longest(spec.traces, [spec.exact_trace])
    )
    if further:
        workload = join_workloads(workload, further)
        spec = spec.model_copy(update={"further_traces": tuple(one.path for one in further)})
    if spec.screening.fidelity > 0 and is_profile(spec.trace):
        verdict = fidelity_of(read_profile(spec.trace))
        weak = weak_shrunk(verdict, spec.screening.fidelity, spec.objectives)
        if weak:
            spec = spec.model_copy(update={"screening": ScreeningSpec()})
            note = f"nothing is screened: the shrunk workload does not rank {', '.join(weak)}"
            workload = replace(workload, notes=(*workload.notes, note))
    return spec.model_copy(update={"trace": workload.path}), workload


def locate(spec: CampaignSpec) -> Located:
    """Find every allocator of a campaign.

    Raises:
        MissingToolError: a library is not on this machine; names the package.
    """
    files: Mapping[str, AllocatorFile] = allocator_files(spec)
    adapters = [
        get_allocator(text, files[choice.name])
        for text, choice in zip(spec.allocators, spec.choices, strict=True)
    ]
    return locate_all(adapters)


def _parts(
    spec: CampaignSpec, located: Located, workload: WorkloadFacts
) -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of every allocator that can act on this workload and machine."""
    host = _host(spec)
    return {
        name: adapter.parameters(installation, host, workload, spec.space.get(name))
        for name, (adapter, installation) in located.items()
    }


def _host(spec: CampaignSpec) -> HostFacts:
    host = HostFacts.detect()
    # Settings about huge pages cannot act without them.
    return replace(host, thp_mode="never") if spec.emulation.thp == "never" else host


def _idle(spec: CampaignSpec, located: Located, workload: WorkloadFacts) -> Iterator[str]:
    """Say which settings that a campaign names cannot act on this workload and machine."""
    host = _host(spec)
    for name, (adapter, installation) in located.items():
        reasons = adapter.left_out(installation, host, workload)
        for setting, narrowing in spec.space.get(name, {}).items():
            if setting in reasons and narrowing.form != "unset":
                yield f"space.{name}.{setting} is not searched: {reasons[setting]}"


def make_spaces(parts: Mapping[str, Sequence[Parameter]], search: str) -> tuple[Space, ...]:
    """Return one space of all allocators for a joint search, else one for each."""
    if search == "joint":
        return (joint_space(parts),)
    return tuple(joint_space({name: parameters}) for name, parameters in parts.items())


def emulation_options(spec: CampaignSpec) -> EmulationOptions:
    """Return how every evaluation is run, with the instrument chosen.

    ``auto`` becomes the name of the instrument, because a campaign that another
    instrument continued would compare counts that cannot be compared.
    """
    chosen = spec.emulation
    instrument: str = chosen.instrument if spec.is_counted else "none"
    if instrument == "auto":
        instrument = best_instrument() or "auto"  # the emulator reports what is missing
    is_gated = instrument != "none" and chosen.threads == "baton" and not spec.has_latency
    return EmulationOptions(
        instrument=instrument,
        count=chosen.count if is_gated else "all",
        threads=chosen.threads,
        thp=chosen.thp,
        touch=chosen.touch,
        timeout_s=chosen.timeout_ns / 1e9,
        with_latency=chosen.threads == "baton" and spec.has_latency,
        combine=chosen.combine,
        seeds=chosen.seeds,
    )


def make_record(
    spec: CampaignSpec,
    located: Located,
    spaces: Sequence[Space],
    options: EmulationOptions,
    workload: Workload | None = None,
    *,
    prices: Calibration,
) -> CampaignRecord:
    """Return the record the campaign would have if it were created now, with these prices."""
    return CampaignRecord(
        name=spec.name,
        trace_path=str(spec.trace),
        trace_sha256=(workload and workload.sha256) or workload_sha256(spec.trace),
        objectives=spec.objectives,
        constraints=spec.constraints,
        strategy=spec.strategy,
        population=population_for(spec.evaluations // len(spaces), spec.strategy),
        seed=spec.seed,
        search=spec.search,
        budget=spec.evaluations,
        recheck_share=spec.recheck.share,
        space=tuple(parameter for space in spaces for parameter in space.parameters),
        seed_configurations=spec.seeds,
        emulation=options,
        allocators={
            name: AllocatorRecord(str(found.library) if found.library else None, found.version)
            for name, (_, found) in located.items()
        },
        versions={**versions(), **_libraries(located)},
        machine=read_machine(),
        calibration=prices,
        workload=_workload_record(spec, workload),
    )


def _workload_record(spec: CampaignSpec, chosen: Workload | None) -> WorkloadRecord:
    screening, known = spec.screening, WorkloadRecord()
    if chosen is not None and chosen.notes:
        steps = tuple((chosen.resolution or {}).items())
        known = WorkloadRecord(tuple(chosen.notes), steps, chosen.caveat)
    return replace(
        known,
        **((chosen and chosen.recorded) or recorded(spec.trace)),
        screening=ScreeningRecord(screening.fidelity, screening.keep)
        if screening.fidelity > 0
        else None,
        further=tuple(TraceRecord(str(t), workload_sha256(t)) for t in spec.further_traces),
    )


def recorded(path: Path) -> dict[str, Any]:
    """Return the `recorded_facts` of a trace."""
    with Trace(path, is_streamed=True) as trace:
        return recorded_facts(trace)


def versions() -> dict[str, str]:
    """Return the versions of all that may change a number or a proposal.

    The emulator's is followed by the head of its digest: another build of it
    measures other numbers.
    """
    there = (name for name in _LIBRARIES if find_spec(name))
    libraries = {name: _version_of(name) for name in there}
    emulator = ask_emulator("--version").strip().removeprefix("rand_malloc ")
    return {
        "malloc-tuner": tuner.__version__,
        "rand_malloc": f"{emulator} {_digest(native_file('rand_malloc'))[:12]}",
        "python": platform.python_version(),
        **libraries,
    }


def _libraries(located: Located) -> dict[str, str]:
    """Return the heads of the allocators' digests, as builds of one version differ."""
    return {
        name + LIBRARY: _digest(found.library)[:12]
        for name, (_, found) in located.items()
        if found.library
    }


def _version_of(library: str) -> str:
    """Return the version of an installed library.

    `importlib.metadata.version` reads the whole description of it as an e-mail: six times as long.
    """
    text = metadata.distribution(library).read_text("METADATA") or ""
    found = _VERSION.search(text)
    return found[1] if found else metadata.version(library)


def _keep(
    store: Store, wanted: CampaignRecord, spec: CampaignSpec, run: Path, *, is_begun: bool
) -> None:
    """Make store and file of a run folder those of a campaign, which may be longer than before.

    The file comes first, so that what is killed between the two can still be continued with it.
    It also holds what may change, such as limits of time and what is held out.
    """
    stored = store.campaign()
    if is_begun:
        check_same(stored, wanted, str(run))
    text = dump_campaign(spec)
    if _content(run / CAMPAIGN_FILE) != text.encode(errors="surrogateescape"):
        write_text(run / CAMPAIGN_FILE, text)
    if wanted.budget > stored.budget:
        store.set_budget(wanted.budget)


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
