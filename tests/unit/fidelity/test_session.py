"""A verdict has a place in its profile, and needs nothing that only describes it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.doubles.judged import ONE
from tuner.cli.main import run
from tuner.errors import MissingToolError, OutputError, ProgramError, SpecError, TraceError
from tuner.fidelity import ProgramPanel, panel, session
from tuner.fidelity.session import judge_profile
from tuner.measure.emulator import Emulation
from tuner.profile.fidelity import fidelity_of
from tuner.profile.file import read_profile, write_profile
from tuner.records import Configuration, Outcome
from tuner.trace.file import EVENT, write_trace


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let every panel be one configuration, whose numbers are the same; returns on what."""
    workloads: list[Path] = []

    def evaluator(emulation: Emulation) -> SimpleNamespace:
        workloads.append(emulation.trace)
        return SimpleNamespace(evaluate=lambda *_: Outcome.succeeded(ONE, ("the kernel was busy",)))

    monkeypatch.setattr(session, "locate_all", lambda _: {})
    monkeypatch.setattr(session, "load_calibration", lambda: None)
    monkeypatch.setattr(session, "draw_panel", lambda *_, **__: [Configuration("glibc")])
    monkeypatch.setattr(panel, "EmulatorEvaluator", evaluator)
    return workloads


def test_a_profile_that_does_not_say_what_it_is_of_is_judged(profile: Path, measured: list[Path]):
    members = read_profile(profile)
    write_profile(profile, {name: v for name, v in members.items() if name != "source"})
    verdict = judge_profile(profile, profile.parent / "mixed.trace", seeds=2)

    assert len(measured) == 3
    assert verdict.trace_events == 500
    assert fidelity_of(read_profile(profile)) == verdict


def test_a_profile_that_cannot_be_written_is_refused_before_anything_is_measured(
    profile: Path, measured: list[Path]
):
    with profile.open("rb") as opened:
        place = Path(f"/dev/fd/{opened.fileno()}")
        with pytest.raises(OutputError, match="the verdict goes into it"):
            judge_profile(place, profile.parent / "mixed.trace")
    assert not measured


def test_a_verdict_that_cannot_be_added_to_is_refused_before_anything_is_measured(
    profile: Path, measured: list[Path]
):
    write_profile(profile, {**read_profile(profile), "fidelity": {"configurations": "many"}})
    with pytest.raises(TraceError, match=r"fidelity.configurations; .* --trace` judges it anew"):
        judge_profile(profile, shares=[0.5])
    assert not measured


@pytest.mark.usefixtures("measured")
def test_what_the_machine_did_meanwhile_is_said_and_kept(profile: Path):
    notes: list[str] = []
    verdict = judge_profile(profile, profile.parent / "mixed.trace", seeds=1, on_note=notes.append)

    expected = [f"{what}: glibc default: the kernel was busy" for what in ("the trace", "seed 1")]
    assert notes == list(verdict.incidents) == expected
    assert judge_profile(profile, shares=[0.5]).incidents[:2] == verdict.incidents


def program_in(folder: Path) -> Path:
    program = folder / "mixed"
    program.touch(0o755)
    return program


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], []), (["more"], ["other arguments than recorded (./mixed)"])],
)
@pytest.mark.usefixtures("measured")
def test_a_program_that_is_not_run_as_it_was_recorded_is_said(
    profile: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: list[str]
):
    trace = profile.with_name("other.trace")
    write_trace(trace, np.zeros(1, EVENT), {"command": ["./mixed"]})
    command = [str(program_in(profile.parent)), *arguments]
    monkeypatch.setattr(session, "measure_program", lambda *_, **__: ProgramPanel(command, [None]))
    notes: list[str] = []
    judge_profile(
        profile, trace, seeds=1, program=session.RealProgram(command), on_note=notes.append
    )

    said = [note.partition(":")[0] for note in notes if "recorded" in note]
    assert said == expected


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"shares": (1.0,)}, {"shares": (0.0005,)}])
def test_a_number_out_of_its_range_is_refused_before_anything_is_measured(
    profile: Path, measured: list[Path], wrong: dict[str, Any]
):
    with pytest.raises(SpecError, match=r"at least 1, and shares at least 0\.001 and below 1"):
        judge_profile(profile, profile.parent / "mixed.trace", **wrong)
    assert not measured


def test_a_shrunk_profile_of_which_nothing_is_left_is_refused_before_anything_is_measured(
    profile: Path, measured: list[Path], monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise SpecError("nothing is left")

    monkeypatch.setattr(session, "shrink", refuse)
    with pytest.raises(SpecError, match="nothing is left"):
        judge_profile(profile, profile.parent / "mixed.trace", shares=[0.5])
    assert not measured


def test_a_program_that_is_not_there_is_refused_before_anything_is_measured(
    profile: Path, measured: list[Path]
):
    program = session.RealProgram(["./typo"])
    with pytest.raises(MissingToolError, match=r"^\./typo: no such program"):
        judge_profile(profile, profile.parent / "mixed.trace", program=program)
    assert not measured


@pytest.mark.usefixtures("measured")
def test_what_was_measured_stays_when_the_program_fails(
    profile: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> ProgramPanel:
        raise ProgramError("killed by signal 11")

    monkeypatch.setattr(session, "measure_program", fail)
    program = session.RealProgram([str(program_in(profile.parent))])
    with pytest.raises(ProgramError):
        judge_profile(profile, profile.parent / "mixed.trace", shares=[0.5], program=program)

    verdict = fidelity_of(read_profile(profile))
    assert (verdict.trace_events, len(verdict.shrunk), verdict.program) == (500, 1, None)


def test_no_allocator_is_no_panel(profile: Path, capsys: pytest.CaptureFixture[str]):
    words = ["fidelity", str(profile), "--trace", str(profile.parent / "mixed.trace")]
    assert run([*words, "--allocators", ","]) == SpecError.exit_code
    assert "--allocators ',': name one, such as glibc" in capsys.readouterr().err
