"""Several commands tuned on as one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from tuner.compare.plan import Step
from tuner.errors import ProgramError
from tuner.optimize.kinds.program import Program
from tuner.optimize.kinds.suite import ProgramSuite, further_traces
from tuner.optimize.quantities import CPU, MEAN, PEAK, QUANTITIES
from tuner.optimize.tuned import AS_IS, ProgramRecording, Reference, Runs, Sample
from tuner.records import Configuration, Outcome, Status


class FakeProgram:
    """Uses as much as its name says."""

    quantities = QUANTITIES

    def __init__(self, name: str, size: float, brings: str | None = None) -> None:
        self.command = (name,)
        self._size = size
        self._brings = brings

    def examine(self) -> Reference:
        values = {MEAN: self._size, PEAK: 2.0 * self._size, CPU: 3.0 * self._size}
        return Reference(self.command, values, 0, None, self._brings, 1.0, 30.0, notes=("n",))

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        trace.write_text(reference.command[0])
        return ProgramRecording(f"{reference.command[0]}: events", ("few",))

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        del candidates

        def run(step: Step[None]) -> Outcome[Sample]:
            if step.subject == "bad" and self.command == ("b",):
                return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
            share = 1.0 if step.subject == AS_IS else 0.5
            return Outcome.succeeded({n: share * v for n, v in reference.values.items()})

        return run


def suite(*programs: FakeProgram) -> ProgramSuite:
    return ProgramSuite(cast("Sequence[Program]", programs))


BOTH = (FakeProgram("a", 1e6), FakeProgram("b", 4e6))


def test_values_are_geometric_means_over_the_commands():
    reference = suite(*BOTH).examine()

    assert reference.command == ("a", ";", "b")
    assert reference.values[MEAN] == pytest.approx(2e6)
    assert (reference.wall_s, reference.notes[1:]) == (2.0, ("n",))
    assert reference.notes[0] == "Figures are geometric means over the 2 commands."
    assert Reference.from_record(reference.as_record()) == reference


def test_a_run_is_a_run_of_each_and_fails_with_one():
    both = suite(*BOTH)
    run = both.runner({}, both.examine())

    good = run(Step(0, 0, None, "some")).good
    bad = run(Step(0, 0, None, "bad"))

    assert good is not None
    assert good[CPU] == pytest.approx(3e6)
    assert (bad.good, bad.reason) == (None, "b: killed by SIGSEGV")


def test_traces_stand_beside_each_other_the_first_one_written_last(tmp_path: Path):
    programs = [FakeProgram(name, 1e6) for name in "abc"]
    trace = tmp_path / "program.trace"
    whole = suite(*programs)

    words, notes = whole.record(trace, whole.examine())

    assert notes == ("few",)
    assert words.split() == ["a:", "events", "b:", "events", "c:", "events"]
    assert trace.read_text() == "a"
    assert [path.read_text() for path in further_traces(trace)] == ["b", "c"]


def test_what_a_killed_recording_left_does_not_refuse_the_next_one(tmp_path: Path):
    """Of any of the commands: each has a spool of its own."""
    trace = tmp_path / "program.trace"
    left = [tmp_path / f"program{number}.trace.spool" for number in ("", "-2")]
    for spool in left:
        spool.mkdir()
    whole = suite(*BOTH)

    whole.record(trace, whole.examine())

    assert not any(spool.exists() for spool in left)


def test_commands_with_allocators_of_their_own_must_agree():
    other = FakeProgram("b", 1e6, "jemalloc")

    with pytest.raises(ProgramError, match=r"different allocators \(jemalloc, none\)"):
        suite(FakeProgram("a", 1e6), other).examine()
