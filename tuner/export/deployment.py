"""What is exported, as plain values: variables, what they are valid for, what they gain.

Every format of `tuner.export.formats` writes the same `Deployment`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import tuner
from tuner.allocators import Allocator, Installation, get_allocator
from tuner.config.preset import Preset
from tuner.errors import OutputError, SelectionError
from tuner.export.reduction import Reduction, reduce_configuration
from tuner.front.bounds import default_trials
from tuner.front.picks import Pick
from tuner.measure.program import PRELOAD
from tuner.metrics import REAL, find_objective
from tuner.optimize.answer import Decision, Recommendation, recommended
from tuner.records import Configuration
from tuner.runs import Run
from tuner.stats import Estimate, Interval
from tuner.store import ValidationRecord
from tuner.validate.subjects import Subject
from tuner.validate.summary import SubjectSummary, ValidationSummary, summarize
from tuner.validate.trust import believed_validation, is_recorded_program, recorded_program

RECOMMENDED = "recommended"
"""Name of the pick that `malloc-tuner optimize` answers with, or that a validation proved."""

_LIBC = "libc.so.6"
"""What ld.so finds the C library under; preloaded, its malloc comes before any other."""


@dataclass(frozen=True)
class ObjectiveGain:
    """One objective against the baseline."""

    objective: str
    label: str
    """``mean heap``."""
    emulated: float | None
    """Ratio to the baseline in emulation; None when the baseline was not measured."""
    metric: str | None
    """What was measured on the program: ``CPU time``; None without a validation."""
    expected: float | None
    """Ratio that emulation leads to expect of the program; None without a validation."""
    validated: Estimate | None
    """Ratio to the baseline on the program, with its interval."""
    verdict: str | None
    """What the validation says: ``confirmed``."""


@dataclass(frozen=True)
class Deployment:
    """One configuration with all a deployment should know about it."""

    pick: Pick | None
    """Of a campaign; None for a preset."""
    preset: Preset | None
    """None for a pick."""
    reduction: Reduction
    variables: tuple[tuple[str, str], ...]
    """Environment, LD_PRELOAD first where the allocator needs it; empty for glibc's default
    unless the program brings another allocator."""
    library: str | None
    """The file that LD_PRELOAD names."""
    is_shipped: bool
    """True when malloc-tuner brings that library, so that no package of the system has it."""
    version: str
    """Of the allocator."""
    campaign: str | None
    date: str
    """Day on which the campaign was started, or the preset was found, ISO 8601."""
    n_trials: int | None
    trace: str | None
    """File name of the trace."""
    trace_sha256: str | None
    baseline: str
    """Name of the allocator whose default is the baseline."""
    gains: tuple[ObjectiveGain, ...]
    validation: ValidationRecord | None
    """The last validation that ran this configuration."""
    valid_for: Mapping[str, str]
    """Facts of the machine that the numbers hang on, by name."""
    tool: str
    """Name and version of what wrote it."""
    brought: tuple[str, ...] = ()
    """Allocators that the program brings itself, by file name."""
    proof: str | None = None
    """Runs of the program that proved the gains; None for a pick of a campaign."""
    file_name: str | None = None
    """Name of the file that is written; None when it is printed."""
    notices: tuple[str, ...] = ()
    """What a reader of the validated numbers must know."""

    @property
    def configuration(self) -> Configuration:
        """What the variables say."""
        return self.reduction.configuration


def recommended_deployment(
    run: Run, found: Recommendation, library: Path | None = None
) -> Deployment:
    """Compute what the answer of `malloc-tuner optimize` is exported as.

    Args:
        run: the folder's campaign.
        found: its answer.
        library: as for `deployment`.

    Raises:
        SelectionError: the answer recommends nothing to deploy.
        OutputError: the library's path cannot stand in LD_PRELOAD.
    """
    if found.decision is not Decision.DEPLOY or found.configuration is None or found.trial is None:
        message = f"{run.folder}: {found.sentence} To export a point all the same, name its --pick"
        raise SelectionError(message)
    trial = run.trial(found.trial)
    pick = Pick(RECOMMENDED, trial, "new runs of the program proved it better")
    dropped = {
        name: value
        for name, value in trial.configuration.settings
        if name not in found.configuration.as_dict
    }
    reduction = Reduction(found.configuration, tuple(dropped.items()), None)
    proof = f"{found.date}, {found.n_runs} runs of {shlex.join(found.command)}"
    gains = tuple(_proven(name, *change, found.least) for name, change in found.changes.items())
    made = deployment(run, pick, library, reduction=reduction)
    return replace(made, gains=gains, proof=proof)


def _proven(
    name: str, change: float, bounds: tuple[float, float] | None, least: float
) -> ObjectiveGain:
    label = name.replace("_", " ").replace("cpu", "CPU")
    interval = Interval(1.0 + bounds[0], 1.0 + bounds[1]) if bounds else None
    is_less = bounds is not None and bounds[1] < 0.0
    verdict = "proven" if is_less else f"not worse by {100.0 * least:g} %"
    return ObjectiveGain(
        name, label, None, label, None, Estimate(1.0 + change, interval, 1), verdict
    )


def validated_pick(run: Run, number: int | None = None) -> Pick | None:
    """Return what a validation of the program recommends; None where there is none.

    Args:
        run: the campaign.
        number: of the validation; None for the one that is believed.

    Raises:
        SelectionError: it recommends nothing to deploy.
        StoreError: there is none of that number.
    """
    record = believed_validation(run, number)
    if record is None:
        return None
    decision = summarize(run, record).decision
    if decision.label is None:
        message = (
            f"{run.folder}: validation {record.identifier}: {decision.sentence} To export a point "
            "all the same, name its --pick or --trial"
        )
        raise SelectionError(message)
    subjects = map(Subject.from_record, record.settings["subjects"])
    wanted = next(one.configuration for one in subjects if one.label == decision.label)
    trial = next(one for one in run.trials if one.configuration == wanted)
    rule = f"validation {record.identifier} on the program recommends it"
    return Pick(RECOMMENDED, trial, rule)


def doubts(run: Run, pick: Pick, number: int | None = None) -> str | None:
    """Say why a pick that was named is not what the program proved; None where it is.

    Args:
        run: the campaign.
        pick: that is exported.
        number: as in `validated_pick`.
    """
    what = f"trial {pick.trial.number} ({pick.name}) is not proven on the program"
    answer = recommended(run.folder)
    if answer is not None and answer.trial == pick.trial.number:
        return None
    if answer is not None:
        return f"{what}; optimize: {answer.sentence}"
    record = believed_validation(run, number)
    if record is None:
        return f"{what} yet: malloc-tuner validate {shlex.quote(str(run.folder))} -- PROGRAM"
    summary = summarize(run, record)
    proven = summary.subject(summary.decision.label or "")
    if proven is not None and proven.subject.configuration == pick.trial.configuration:
        return None
    return f"{what}; validation {record.identifier}: {summary.decision.sentence}"


def deployment(
    run: Run,
    pick: Pick,
    library: Path | None = None,
    *,
    reduction: Reduction | None = None,
    validation: int | None = None,
) -> Deployment:
    """Compute what a pick is exported as.

    Args:
        run: the campaign.
        pick: one of its trials.
        library: where the library lies on the machine the file is for; None for the one that
            was measured.
        reduction: the pick without settings that change nothing; None: found in the campaign.
        validation: number of the one that is shown; None for the last one that ran the pick.

    Raises:
        OutputError: the library's path cannot stand in LD_PRELOAD.
        SelectionError: the pick has no numbers.
        StoreError: there is no such validation.
    """
    if pick.trial.measurement is None:
        message = f"trial {pick.trial.number} has no numbers: {pick.trial.reason}"
        raise SelectionError(message)
    reduction = reduction or reduce_configuration(pick.trial, run.trials)
    campaign = run.campaign
    record = campaign.allocators[pick.trial.configuration.allocator]
    measured = Path(record.library) if record.library else None
    adapter = get_allocator(reduction.configuration.allocator)
    library = _deployed(adapter, measured, library)
    installation = Installation(adapter.name, library, record.version)
    variables = adapter.environment(installation, reduction.configuration, for_export=True)
    brought = _brought(run)
    if brought and library is None:
        variables = {PRELOAD: _LIBC, **variables}
    validated = _validated(run, pick, reduction, validation)
    return Deployment(
        pick,
        None,
        reduction,
        tuple(variables.items()),
        str(library) if library else None,
        bool(adapter.file.library.part),
        record.version,
        campaign.name,
        campaign.created_at[:10],
        len(run.trials),
        PurePath(campaign.trace_path).name,
        campaign.trace_sha256,
        campaign.baseline,
        tuple(_gain(run, pick, name, validated) for name in campaign.objectives),
        validated[0].record if validated else None,
        _valid_for(run, pick),
        f"malloc-tuner {tuner.__version__}",
        brought,
        notices=validated[0].notices if validated else (),
    )


def preset_deployment(preset: Preset, library: Path | None = None) -> Deployment:
    """Compute what a preset is exported as; its settings are read back first.

    Args:
        preset: the settings.
        library: where the library lies on the machine the file is for; None for this one's.

    Raises:
        MissingToolError: the allocator is not on this machine.
        SettingError: this version of it does not take a setting.
        OutputError: the library's path cannot stand in LD_PRELOAD.
    """
    adapter = get_allocator(preset.allocator)
    here = adapter.locate()
    adapter.read_back(here, preset.configuration)
    there = _deployed(adapter, here.library, library)
    installation = Installation(adapter.name, there, here.version)
    variables = adapter.environment(installation, preset.configuration, for_export=True)
    where = str(there) if there else None
    return Deployment(
        None,
        preset,
        Reduction(preset.configuration, (), None),
        tuple(variables.items()),
        where,
        bool(adapter.file.library.part),
        here.version,
        None,
        preset.found_on,
        None,
        None,
        None,
        preset.baseline,
        tuple(
            ObjectiveGain(
                name, find_objective(name).label, preset.gain(name), None, None, None, None
            )
            for name in ("mean_heap", "peak_heap", "cost")
        ),
        None,
        {
            adapter.name: f"{here.version}, {where or 'the C library itself'}",
            "transparent huge pages in emulation": _HUGE_PAGES.get(preset.thp, preset.thp),
        },
        f"malloc-tuner {tuner.__version__}",
    )


def _deployed(adapter: Allocator, measured: Path | None, wanted: Path | None) -> Path | None:
    """Return where the library lies on the machine the file is for.

    Raises:
        OutputError: the path cannot stand in LD_PRELOAD, or there is no library to preload.
    """
    if wanted is not None and measured is None:
        message = f"--library {wanted}: {adapter.name} is the C library's own; none is preloaded"
        raise OutputError(message)
    library = wanted or measured
    if library is not None:
        _check_preloadable(str(library))
    return library


def _brought(run: Run) -> tuple[str, ...]:
    """Return the allocators that the program brings itself.

    The last validation saw them in the program; before any, the recorder did.
    """
    record = believed_validation(run)
    if record is not None:
        return tuple(record.settings.get("brought_allocators", ()))
    recorded = run.campaign.brought_allocator
    return (recorded,) if recorded else ()


def _check_preloadable(library: str) -> None:
    """Refuse what ld.so would split: LD_PRELOAD knows no quoting."""
    if not library.startswith("/"):
        message = f"{library}: LD_PRELOAD needs a path from the root, such as /usr/local/lib/x.so"
        raise OutputError(message)
    if any(character.isspace() or character == ":" for character in library):
        message = (
            f"{library}: LD_PRELOAD cannot name a path with blanks or colons; "
            "move the library, or run the campaign with a link to it"
        )
        raise OutputError(message)


_Validated = tuple[ValidationSummary, SubjectSummary]


def _validated(run: Run, pick: Pick, reduction: Reduction, number: int | None) -> _Validated | None:
    """Return the last validation of the program that ran the pick, as picked or as reduced."""
    wanted = (pick.trial.configuration, reduction.configuration)
    recorded = recorded_program(run.campaign)
    trusted = [record for record in run.validations if is_recorded_program(record, recorded)]
    if number is not None and (named := believed_validation(run, number)) is not None:
        trusted = [named]
    for record in reversed(trusted):
        summary = summarize(run, record)
        for subject in summary.subjects:
            if subject.subject.configuration in wanted and not subject.is_baseline:
                return summary, subject
    return None


def _gain(run: Run, pick: Pick, name: str, validated: _Validated | None) -> ObjectiveGain:
    default = default_trials(run.trials).get(run.campaign.baseline)
    emulated = None
    if default and default.measurement and pick.trial.measurement:
        reference = default.measurement.value(name)
        if reference > 0.0:
            emulated = pick.trial.measurement.value(name) / reference
    claims = validated[1].claims if validated else ()
    claim = next((claim for claim in claims if claim.objective == name), None)
    return ObjectiveGain(
        name,
        find_objective(name).label,
        emulated,
        REAL[claim.metric].label if claim else None,
        claim.expected_ratio if claim else None,
        claim.real_ratio if claim else None,
        claim.verdict.value if claim else None,
    )


_FACTS = (
    ("libc", "C library"),
    ("architecture", "architecture"),
    ("kernel", "kernel"),
    ("thp", "transparent huge pages"),
    ("thp_defrag", "defragmentation for transparent huge pages"),
    ("page_bytes", "page size in bytes"),
    ("n_cpus", "cores"),
    ("max_map_count", "vm.max_map_count"),
)
"""Facts of `tuner.machine` that move allocator figures, with their names here."""


_HUGE_PAGES = {"keep": "as the machine has them", "never": "off"}
"""How emulation had them, by the emulator's option."""


def _valid_for(run: Run, pick: Pick) -> dict[str, str]:
    campaign = run.campaign
    allocator = pick.trial.configuration.allocator
    record = campaign.allocators[allocator]
    facts = {allocator: f"{record.version}, {record.library or 'the C library itself'}"}
    for name, label in _FACTS:
        if campaign.machine.get(name) is not None:
            facts[label] = str(campaign.machine[name])
    if campaign.emulation.get("thp") is not None:
        facts["transparent huge pages in emulation"] = _HUGE_PAGES.get(campaign.huge_pages, "")
    if campaign.workload.caveat is not None:
        facts["workload"] = campaign.workload.caveat
    return facts


def command_text(record: ValidationRecord) -> str:
    """Return the validated command as a shell would take it."""
    return shlex.join(record.command)
