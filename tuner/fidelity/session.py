"""One judgement of a profile: the panel on its trace, on itself, shrunk, and on the program."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.allocators import Located, get_allocator, locate_all
from tuner.emulation import EmulationOptions
from tuner.errors import MissingToolError, OutputError, SpecError
from tuner.fidelity.panel import draw_panel, measure_panel
from tuner.fidelity.program import ProgramPanel, judge_program, measure_program
from tuner.fidelity.verdict import Panel, judge, judge_shrunk
from tuner.measure.calibration import load_calibration
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.measure.warm import warm_memory
from tuner.output import scratch_folder
from tuner.profile.fidelity import Fidelity, ShrunkFidelity, fidelity_of
from tuner.profile.file import is_profile, read_profile, workload_sha256, write_profile
from tuner.profile.trust import caveat
from tuner.profile.variation import LEAST_FACTOR, shrink
from tuner.records import Configuration, Measurement
from tuner.registry import DEFAULT_ALLOCATORS
from tuner.trace.file import Trace
from tuner.trace.info import describe
from tuner.trace.program import recorded_in

Rows = list[Measurement | None]

Begin = Callable[[str, int], Callable[[], None]]
"""Called with a stage and its number of configurations; returns what to call after each."""


def _unseen(_what: str, _n_configurations: int) -> Callable[[], None]:
    return lambda: None


def _unheard(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class RealProgram:
    """The program itself, which runs under the panel too."""

    command: Sequence[str]
    rounds: int = 3
    """Runs under every configuration."""
    timeout_s: float = 600.0
    """Limit of one run."""


@dataclass(frozen=True)
class _Session:
    """What one panel is measured with."""

    panel: Sequence[Configuration]
    located: Located
    options: EmulationOptions
    begin: Begin
    incidents: list[str] = field(default_factory=list)
    """What the machine did meanwhile."""

    def measure(self, workload: Path, what: str, seed: int = 1, *, reads_back: bool) -> Rows:
        """Return one measurement for each configuration; None where it failed."""
        return measure_panel(
            workload, self.panel, self.located, load_calibration(),
            replace(self.options, seed=seed), reads_back=reads_back,
            on_done=self.begin(what, len(self.panel)),
            on_incident=lambda text: self.incidents.append(f"{what}: {text}"),
        )  # fmt: skip

    def shrunk(self, profiles: Mapping[float, Path], whole: Rows) -> tuple[ShrunkFidelity, ...]:
        """Measure the panel on the shrunk profiles, by share; judge them beside the whole one."""
        return tuple(
            judge_shrunk(
                self.panel,
                whole,
                self.measure(path, f"the profile shrunk to {share:g}", reads_back=False),
                share,
            )
            for share, path in profiles.items()
        )


def judge_profile(
    profile: Path,
    trace: Path | None = None,
    *,
    allocators: Sequence[str] = DEFAULT_ALLOCATORS,
    configurations: int = 30,
    seeds: int = 3,
    options: EmulationOptions | None = None,
    shares: Sequence[float] = (),
    program: RealProgram | None = None,
    begin: Begin = _unseen,
    on_note: Callable[[str], None] = _unheard,
) -> Fidelity:
    """Measure a panel of configurations on a profile and on its trace, and keep the verdict.

    Args:
        profile: the profile, or a trace of classic records, which has no room for a verdict.
        trace: the one it was fitted to; None judges only shrunk profiles, beside the whole one.
        allocators: of the panel.
        configurations: least number of them, equal per allocator.
        seeds: workloads generated from the profile, at least 1.
        options: how it is emulated; None: as `EmulationOptions` are.
        shares: shrunk profiles to judge too, each from `LEAST_FACTOR` to below 1; none for classic
            records.
        program: what the panel is run on too; needs the trace. The verdict without it is in the
            profile before it runs.
        begin: shows progress.
        on_note: called with what a reader of the verdict must know.

    Raises:
        SpecError: the profile is a trace, a number is out of its range, or of a shrunk profile
            nothing would be left.
        TraceError: a file cannot be read, or the verdict that is to be added to.
        MissingToolError: a library, an instrument or the program is not here.
        ProgramError: the program fails.
        OutputError: the profile cannot be written.
    """
    if seeds < 1 or not all(LEAST_FACTOR <= share < 1.0 for share in shares):
        raise SpecError(
            f"seeds must be at least 1, and shares at least {LEAST_FACTOR:g} and below 1"
        )
    members = members_of(profile)
    _check_ends(profile, members, program)
    known = fidelity_of(members) if trace is None else Fidelity()
    options = options or EmulationOptions()
    located = locate_all([get_allocator(name) for name in allocators])
    panel = draw_panel(trace or profile, located, configurations, thp=options.thp)
    session = _Session(panel, located, options, begin)
    measured = None
    with scratch_folder() as folder:
        small = _write_shrunk(profile, shares, folder)
        if trace is None:
            whole = session.measure(profile, "seed 1", reads_back=True)
            verdict = replace(known, shrunk=session.shrunk(small, whole))
        else:
            _note_another(trace, members, program, on_note)
            runs = [session.measure(trace, "the trace", reads_back=True)] + [
                session.measure(profile, f"seed {seed}", seed, reads_back=False)
                for seed in range(1, seeds + 1)
            ]
            measured = Panel(panel, runs[0], dict(enumerate(runs[1:], start=1)))
            verdict = replace(
                _judged(profile, trace, measured),
                shrunk=session.shrunk(small, runs[1]),
                allocators={name: found.version for name, (_, found) in located.items()},
            )
    for text in session.incidents:
        on_note(text)
    incidents = dict.fromkeys((*verdict.incidents, *session.incidents))
    verdict = replace(verdict, incidents=tuple(incidents))
    _keep(verdict, profile, members)
    if program is not None and measured is not None:
        found = _run_program(session, program, on_note)
        verdict = replace(verdict, program=judge_program(measured, found))
        _keep(verdict, profile, members)
    return verdict


def _keep(verdict: Fidelity, profile: Path, members: Mapping[str, Any]) -> None:
    """Write the verdict into the profile, unless that is a trace of classic records."""
    if members:
        write_profile(profile, {**members, "fidelity": verdict.as_json()})


def _write_shrunk(profile: Path, shares: Sequence[float], folder: Path) -> dict[float, Path]:
    """Return the shrunk profiles, written before anything is measured: one may be impossible."""
    paths = {share: folder / f"{share}.profile.json" for share in shares}
    for share, path in paths.items():
        write_profile(path, shrink(profile, share))
    return paths


def members_of(profile: Path) -> dict[str, Any]:
    """Return the members of a profile; none of a trace of classic records.

    Raises:
        SpecError: it is a recorded trace.
        TraceError: it cannot be read.
    """
    if is_profile(profile):
        return read_profile(profile)
    with Trace(profile) as opened:
        if not opened.is_low_fidelity:
            raise SpecError(f"{profile}: a trace; give a profile that `fit` made of it")
    return {}


def _check_ends(profile: Path, members: Mapping[str, Any], program: RealProgram | None) -> None:
    """Find out before everything is measured what would fail after that."""
    if program is not None and shutil.which(program.command[0]) is None:
        raise MissingToolError(f"{program.command[0]}: no such program, or not executable")
    if not members:
        return
    try:
        with tempfile.TemporaryFile(dir=profile.parent):
            return
    except OSError as error:
        raise OutputError(
            f"{profile}: the verdict goes into it, and it cannot be written ({error.strerror}); "
            "judge a copy of it"
        ) from error


def _judged(profile: Path, trace: Path, measured: Panel) -> Fidelity:
    with Trace(trace) as opened, Trace(profile) as generated:
        info = describe(opened)
        return replace(
            judge(measured, info, describe(generated)),
            level=generated.level,
            caveat=caveat(generated),
            trace_events=info.totals.n_events,
        )


def _run_program(
    session: _Session, program: RealProgram, on_note: Callable[[str], None]
) -> ProgramPanel:
    warm_memory()
    return measure_program(
        program.command,
        session.panel,
        session.located,
        rounds=program.rounds,
        runner=ProgramRunner(),
        surroundings=Surroundings(  # as the panel is emulated
            timeout_s=program.timeout_s, sample_ms=1, thp=session.options.thp
        ),
        show=on_note,
    )


def _note_another(
    trace: Path,
    members: Mapping[str, Any],
    program: RealProgram | None,
    on_note: Callable[[str], None],
) -> None:
    """Say so if a profile is not judged against its own trace, or that trace's program."""
    _note_another_trace(trace, members, on_note)
    if program is not None and (differs := recorded_in(trace).differs_from(program.command)):
        on_note(f"{differs}: the verdict on the program is about what is run")


def _note_another_trace(
    trace: Path, members: Mapping[str, Any], on_note: Callable[[str], None]
) -> None:
    """Say so if a profile is not judged against the trace that it remembers."""
    source = members.get("source") or {}
    known = source.get("trace") or {}
    if source.get("varied"):
        why = "the profile was varied since it was fitted"
    elif known.get("sha256") not in (None, workload_sha256(trace)):
        why = f"not the trace the profile was fitted to ({known.get('name')})"
    else:
        return
    on_note(f"{trace}: {why}; the verdict is about this trace")
