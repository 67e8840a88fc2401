"""What a `Deployment` is made of: a pick of a campaign, an answer of `optimize`, or a setting."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath

from tuner.allocators import Allocator, Installation, get_allocator
from tuner.errors import SelectionError, TunerError
from tuner.export.deployment import Deployment, Environment, facts_of
from tuner.export.gains import on_program, pick_gain, proven_gains
from tuner.export.reduction import Reduction, reduce_configuration
from tuner.front.kept import (
    PROVEN,
    RECOMMENDED,
    find_pick,
    first_name,
    pick_of_trial,
    trial_behind,
)
from tuner.front.picks import Pick
from tuner.measure.preloads import in_front
from tuner.optimize.answering.answer import Decision
from tuner.optimize.answering.recommendation import (
    Recommendation,
    deployed_before,
    recommended,
)
from tuner.optimize.answering.table import TURNED_DOWN
from tuner.optimize.aside import last_before, run_of
from tuner.optimize.kinds.driver import RUN_ALONE
from tuner.optimize.request import Request, no_answer_yet, what_goes_on
from tuner.optimize.tuned import Reference, label_of
from tuner.page import series
from tuner.recording.explain import SWITCHES, switches_in
from tuner.records import Configuration
from tuner.resources import native_file
from tuner.runs import REFERENCE_FILE, REQUEST_FILE, Run, load_run, search_spaces
from tuner.store import CampaignRecord, store_path
from tuner.units import show_percent
from tuner.validate.setup import check_version
from tuner.validate.summary import summarize
from tuner.validate.trust import other_arguments, proving_validation

_HOW_TO_NAME = "name its --pick, such as balanced, or --trial"

_HUGE_PAGES = {"keep": "as the machine has them", "never": "off"}
"""How emulation had them, by the emulator's option."""


def find_deployment(
    source: Run | Configuration | str | os.PathLike[str],
    pick: str | int | None,
    library: Path | None,
    validation: int | None,
    on_note: Callable[[str], None],
) -> Deployment:
    """Compute what a setting, an answer, or a point of a run is exported as.

    Args and errors: see `tuner.library.export`.
    """
    if isinstance(source, Configuration):
        return setting_deployment(source, library)
    folder = source.folder if isinstance(source, Run) else store_path(Path(source)).parent
    is_open = pick in {None, RECOMMENDED}
    answer = _answer_in(folder) if validation is None else None
    folder = run_of(folder)
    if answer is not None and is_open:
        if answer.note:
            on_note(answer.note)
        return _answered(source, folder, answer, library)
    run = source if isinstance(source, Run) else _load(folder)
    is_under_way = answer is None and validation is None and last_before(folder) is not None
    proven = validated_pick(run, validation) if is_open and not is_under_way else None
    if proven is None and is_open and validation is None and _is_begun(folder):
        words = shlex.quote(str(folder))
        message = f"{folder}: not decided yet; `malloc-tuner optimize {words}` goes on. "
        raise SelectionError(message + "--pick exports a point all the same")
    if proven is not None:
        if other := other_input(run, validation):
            on_note(other)
        return _in_place(deployment(run, proven, library, validation=validation), run.folder)
    if isinstance(pick, int):
        chosen = pick_of_trial(run, pick)
    else:
        chosen = find_pick(run, pick or first_name(run))
    if answer is not None and answer.configuration == chosen.trial.configuration:
        return _answered(run, folder, answer, library)
    if (doubt := doubts(run, chosen, validation)) is not None:
        on_note(doubt)
    return _in_place(deployment(run, chosen, library, validation=validation), run.folder)


def can_export(run: Run) -> bool:
    """Return whether `find_deployment` takes a run without the name of a point."""
    try:
        find_deployment(run, None, None, None, lambda _: None)
    except TunerError:
        return False
    return True


def _answer_in(folder: Path) -> Recommendation | None:
    """Return the answer of a run folder, or of one of earlier answers, which is one of these."""
    answer, run = recommended(folder), run_of(folder)
    if answer is None and folder != run:
        raise SelectionError(f"{folder}: holds no answer; {run} may have one")
    return answer


def _answered(
    source: Run | str | os.PathLike[str], folder: Path, answer: Recommendation, library: Path | None
) -> Deployment:
    if answer.trial is None or answer.decision is not Decision.DEPLOY:
        return direct_deployment(folder, answer, library)
    run = source if isinstance(source, Run) else _load(folder)
    return recommended_deployment(run, answer, library)


def _load(folder: Path) -> Run:
    """Read a run folder; one of a comparison, or of `optimize --direct`, has no campaign."""
    if not store_path(folder).exists() and _is_begun(folder) and recommended(folder) is None:
        raise SelectionError(no_answer_yet(folder))
    return load_run(folder)


def _is_begun(folder: Path) -> bool:
    """Return whether a folder is one of `optimize`, or of a comparison."""
    return (folder / REQUEST_FILE).exists()


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
        MissingToolError: the library that was measured is another version by now.
        SpecError, OutputError: the path that is given, or measured, cannot stand in LD_PRELOAD.
    """
    if found.decision is not Decision.DEPLOY or found.configuration is None or found.trial is None:
        raise _nothing_to_export(run.folder, found, has_points=True)
    pick = Pick(RECOMMENDED, trial_behind(run, found.configuration, found.trial), PROVEN)
    adapter = get_allocator(found.configuration.allocator)
    _check_here(adapter, _measured(run.campaign, adapter.name), library)
    dropped = {
        name: value
        for name, value in run.trial(found.trial).configuration.settings
        if name not in found.configuration.as_dict
    }
    reduction = Reduction(found.configuration, tuple(dropped.items()), None)
    made = _without_switches(deployment(run, pick, library, reduction=reduction))
    made = _in_place(made, run.folder)
    return replace(made, gains=proven_gains(found), proof=_proof(found, run.folder))


def _without_switches(made: Deployment) -> Deployment:
    """Leave out the switches that a validation of the setting had: the answer had none of them."""
    own = tuple((name, value) for name, value in made.variables if name not in SWITCHES)
    return replace(made, variables=own)


def _in_place(made: Deployment, folder: Path) -> Deployment:
    """Return a deployment that leaves of the variables that the program had what was measured.

    The folder of `tune` does not say what it had.
    """
    path = folder / REFERENCE_FILE
    if not path.exists():
        return made
    had = Reference.load(path)
    own = dict(made.variables)
    kept = ({*own, *had.steered} & had.beside.keys()) - SWITCHES.keys()
    own = in_front(own, {name: had.beside[name] for name in sorted(kept)})
    own |= switches_in(had.beside)
    unset = tuple(name for name in had.steered if name not in own)
    return replace(made, variables=tuple(own.items()), unset=unset)


def direct_deployment(
    folder: Path, found: Recommendation, library: Path | None = None
) -> Deployment:
    """Compute what an answer is exported as that no trial of a campaign stands behind.

    Args:
        folder: of the optimisation.
        found: its answer.
        library: as for `deployment`.

    Raises:
        SelectionError: the answer recommends nothing to deploy.
        MissingToolError: the allocator is not on this machine, or of another version than measured.
        StoreError: a file of the folder is damaged.
        SpecError, OutputError: the path that is given, or measured, cannot stand in LD_PRELOAD.
    """
    if found.decision is not Decision.DEPLOY or found.configuration is None:
        raise _nothing_to_export(folder, found, has_points=store_path(folder).exists())
    chosen = found.configuration
    names = Request.load(folder).allocators
    named = [text for text in names if text.partition(":")[0] == chosen.allocator]
    adapter = get_allocator(named[0] if named else chosen.allocator)
    reference = Reference.load(folder / REFERENCE_FILE)
    campaign = load_run(folder).campaign if store_path(folder).exists() else None
    if campaign is not None and adapter.name in campaign.allocators:
        here = _measured(campaign, adapter.name)
    else:
        here = adapter.locate()
        here = replace(here, version=reference.versions.get(adapter.name, here.version))
    _check_here(adapter, here, library)
    brings = reference.brings
    brought = (brings,) if brings else ()
    rendered = Environment.of(adapter, here, chosen, library, brought)
    machine = campaign.machine if campaign else None  # not this one, which may be another
    made = Deployment(
        reduction=Reduction(chosen, (), None),
        variables=rendered.variables,
        library=rendered.library,
        is_shipped=_is_shipped(adapter, here.library),
        version=here.version,
        date=found.date,
        baseline=brings or "glibc",
        gains=proven_gains(found),
        valid_for=facts_of(adapter.name, here.version, here.library, machine),
        brought=brought,
        proof=_proof(found, folder),
    )
    return _in_place(made, folder)


def _measured(campaign: CampaignRecord, allocator: str) -> Installation:
    """Return an allocator as a campaign measured it."""
    record = campaign.allocators[allocator]
    return Installation(allocator, Path(record.library) if record.library else None, record.version)


def _check_here(adapter: Allocator, measured: Installation, elsewhere: Path | None) -> None:
    """Refuse what has another version here than was measured, unless it is deployed elsewhere.

    A file that is gone is not asked for its version.
    """
    file = measured.library
    if elsewhere is None and (file is None or file.is_file()):
        check_version(adapter.locate(file), measured.version)


def _nothing_to_export(folder: Path, found: Recommendation, *, has_points: bool) -> SelectionError:
    words = "There is nothing to export"
    before = deployed_before(folder)
    if found.decision is Decision.UNDECIDED and before and not _is_turned_down(before[1], found):
        path = shlex.quote(str(before[0]))
        words = f"`malloc-tuner export {path}` exports what was proven before more was tried"
    elif has_points:
        words = f"To export a point all the same, {_HOW_TO_NAME}"
    elif found.decision is Decision.UNDECIDED:
        words = f"There is nothing to export yet; {what_goes_on(folder, is_over=True)} goes on"
    return SelectionError(f"{folder}: {found.sentence} {words}")


def _is_turned_down(before: Recommendation, found: Recommendation) -> bool:
    """Return whether a later answer speaks against what an earlier one deployed."""
    label = before.configuration and label_of(before.configuration)
    return any(row.label == label and row.note.startswith(TURNED_DOWN) for row in found.rows)


def _proof(found: Recommendation, folder: Path) -> str:
    other = ", and within its limits on what was held out" if found.is_held_out else ""
    if found.is_held_out and not found.is_held_out_bounded:
        seen = "nothing beyond its limit was seen on what was held out"
        other = f", and {seen}, in too few rounds for bounds"
    elif found.may_be_worse:
        most = series(f"{n} up to {show_percent(x)}" for n, x in found.may_be_worse.items())
        other = f", and nothing worse was seen on what was held out, where {most} worse is open"
    amount = f"{found.n_rounds} rounds" if found.n_rounds else f"{found.n_runs} runs"
    path = folder / REFERENCE_FILE
    notes = Reference.load(path).notes if path.exists() else ()
    alone = "".join(f". {note.removesuffix('.')}" for note in notes if RUN_ALONE in note)
    return f"{found.date}, {amount} of {shlex.join(found.command)}{other}{alone}"


def validated_pick(run: Run, number: int | None = None) -> Pick | Configuration | None:
    """Return what a validation of the program recommends; None where there is none.

    It is a setting where no trial stands behind it.

    Args:
        run: the campaign.
        number: of the validation; None for the one that is believed.

    Raises:
        SelectionError: it recommends nothing to deploy.
        StoreError: there is none of that number.
    """
    record = proving_validation(run, number)
    if record is None:
        return None
    decision = summarize(run, record).decision
    if decision.label is None:
        raise SelectionError(
            f"{run.folder}: validation {record.identifier}: {decision.sentence} To export a point "
            f"all the same, {_HOW_TO_NAME}"
        )
    wanted = next(one for one in record.subjects if one.label == decision.label)
    if wanted.trial is None:
        return wanted.configuration
    # Of what `optimize` deploys, settings of the trial may be left out.
    trial = replace(run.trial(wanted.trial), configuration=wanted.configuration)
    rule = f"validation {record.identifier} on the program recommends it"
    return Pick(RECOMMENDED, trial, rule)


def other_input(run: Run, number: int | None = None) -> str:
    """Say on which input a recommendation was proven, where that is not the one tuned on.

    Args:
        run: the campaign.
        number: as in `validated_pick`.
    """
    record = proving_validation(run, number)
    if record is None or not (words := other_arguments(run, record)):
        return ""
    ran = f"validation {record.identifier} ran {shlex.join(record.command)}"
    return f"{ran}, {words}: what is exported is proven for that alone"


def doubts(run: Run, pick: Pick, number: int | None = None) -> str | None:
    """Say why a pick that was named is not what the program proved; None where it is.

    Args:
        run: the campaign.
        pick: that is exported.
        number: as in `validated_pick`.
    """
    name = f"trial {pick.trial.number}"
    if pick.name != name.replace(" ", "-"):
        name += f" ({pick.name})"
    what = f"{name} is not proven on the program"
    answer = recommended(run.folder)
    if answer is not None and answer.configuration == pick.trial.configuration:
        return None
    if answer is not None:
        return f"{what}; optimize: {answer.sentence}"
    record = proving_validation(run, number)
    if record is None:
        return f"{what} yet: malloc-tuner validate {shlex.quote(str(run.folder))} -- PROGRAM"
    summary = summarize(run, record)
    proven = summary.subject(summary.decision.label or "")
    if proven is None:
        return f"{what}; validation {record.identifier}: {summary.decision.sentence}"
    if proven.subject.configuration == pick.trial.configuration:
        return None
    return (
        f"{name} is not the setting that validation {record.identifier} recommends: "
        f"{summary.decision.sentence} Without --pick, export writes that one."
    )


def deployment(
    run: Run,
    chosen: Pick | Configuration,
    library: Path | None = None,
    *,
    reduction: Reduction | None = None,
    validation: int | None = None,
) -> Deployment:
    """Compute what a pick is exported as, or a setting that a validation recommends.

    Args:
        run: the campaign.
        chosen: one of its trials; a setting where no trial stands behind it.
        library: where the library lies on the machine the file is for; None for the one that
            was measured.
        reduction: the pick without settings that change nothing; None: found in the campaign.
        validation: number of the one that is shown; None for the last one that ran the pick.

    Raises:
        SpecError, OutputError: the path that is given, or measured, cannot stand in LD_PRELOAD.
        SelectionError: the pick has no numbers.
        SpecError: the campaign file, or a search space that it names, is wrong or gone.
        StoreError: there is no such validation.
    """
    pick = chosen if isinstance(chosen, Pick) else None
    if pick is not None and pick.trial.measurement is None:
        raise pick.trial.without_numbers()
    setting = chosen.trial.configuration if isinstance(chosen, Pick) else chosen
    is_open = reduction is None
    reduction = reduction or _reduced(run, chosen)
    campaign = run.campaign
    name = setting.allocator
    adapter = get_allocator(name, search_spaces(run.folder).get(name))
    here = _measured(campaign, name)
    brought = _brought(run, validation)
    known = on_program(run, (setting, reduction.configuration), validation)
    if is_open and known.has_run(setting):  # emulation may not see what it does
        reduction = Reduction(setting, (), None)
    rendered = Environment.of(adapter, here, reduction.configuration, library, brought)
    validated = known.validated[0] if known.validated else None
    switches = switches_in(validated.record.conditions.beside) if validated else {}
    return Deployment(
        pick=pick,
        reduction=reduction,
        variables=(*rendered.variables, *switches.items()),
        library=rendered.library,
        is_shipped=_is_shipped(adapter, here.library),
        version=here.version,
        campaign=campaign.name,
        date=campaign.created_at[:10],
        n_trials=len(run.trials),
        trace=PurePath(campaign.trace_path).name,
        trace_sha256=campaign.trace_sha256,
        baseline=campaign.baseline,
        gains=tuple(pick_gain(run, pick, name, known) for name in campaign.objectives),
        validation=validated.record if validated else None,
        valid_for=_valid_for(run, name),
        brought=brought,
        notices=known.notices,
    )


def _reduced(run: Run, chosen: Pick | Configuration) -> Reduction:
    if isinstance(chosen, Configuration):
        return Reduction(chosen, (), None)
    return reduce_configuration(chosen.trial, run.trials, run.campaign.objectives)


def _is_shipped(adapter: Allocator, library: Path | None) -> bool:
    """Return whether a library is the one that malloc-tuner comes with."""
    part = adapter.file.library.part
    return bool(part) and library == native_file(part)


def _brought(run: Run, number: int | None) -> tuple[str, ...]:
    """Return the allocators that the program brings itself.

    A validation saw them in the program; before any, the recorder did.
    """
    record = proving_validation(run, number)
    if record is not None:
        return record.brought_allocators
    recorded = run.campaign.brought_allocator
    return (recorded,) if recorded else ()


def _valid_for(run: Run, allocator: str) -> dict[str, str]:
    campaign = run.campaign
    record = campaign.allocators[allocator]
    facts = facts_of(allocator, record.version, record.library, campaign.machine)
    facts["transparent huge pages in emulation"] = _HUGE_PAGES[campaign.emulation.thp]
    if campaign.workload.caveat is not None:
        facts["workload"] = campaign.workload.caveat
    return facts


def setting_deployment(configuration: Configuration, library: Path | None = None) -> Deployment:
    """Compute what a setting is exported as; it is read back first.

    Args:
        configuration: the setting.
        library: where the library lies on the machine the file is for; None for this one's.

    Raises:
        MissingToolError: the allocator is not on this machine.
        SettingError: this version of it does not take a setting.
        SpecError, OutputError: the path that is given, or measured, cannot stand in LD_PRELOAD.
    """
    adapter = get_allocator(configuration.allocator)
    here = adapter.locate()
    adapter.read_back(here, configuration)
    rendered = Environment.of(adapter, here, configuration, library)
    return Deployment(
        reduction=Reduction(configuration, (), None),
        variables=rendered.variables,
        library=rendered.library,
        is_shipped=_is_shipped(adapter, here.library),
        version=here.version,
        valid_for={adapter.name: f"{here.version}, {rendered.library or 'the C library itself'}"},
    )
