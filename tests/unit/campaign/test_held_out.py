"""Picks on workloads that nothing was tuned for."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.runs import synthetic_run, write_run
from tuner.campaign import held_out
from tuner.campaign.held_out import held_out_lines, measure_held_out, read_held_out
from tuner.errors import InterruptedCampaign, MissingToolError
from tuner.measure.evaluation import Evaluation
from tuner.output import write_text
from tuner.records import Configuration, Measurement, Outcome, Status
from tuner.runs import Run, load_run
from tuner.store import WorkloadRecord


class Emulated:
    """In place of the emulator: the default takes 100, every setting 90 of all; one fails."""

    asked: tuple[Configuration, ...] = ()
    error: Exception | None = None
    """Raised instead of the second answer."""
    timed_out: str | None = None
    """The allocator that never ends."""

    def __init__(self, _emulation: object) -> None:
        pass

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        if self.asked and self.error is not None:
            raise self.error
        type(self).asked += (configuration,)
        if configuration.allocator == self.timed_out:
            return Outcome.did_not_succeed(Status.TIMED_OUT, "still running")
        if configuration.allocator == "mimalloc":
            return Outcome.did_not_succeed(Status.FAILED, "killed by SIGABRT")
        value = 100.0 if configuration.is_default else 90.0
        return Outcome.succeeded(
            Measurement({"mean_heap": value, "peak_heap": value, "cost": 2 * value})
        )

    def stop(self) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(held_out, "EmulatorEvaluator", Emulated)
    monkeypatch.setattr(Emulated, "asked", ())
    monkeypatch.setattr(held_out, "recorded", lambda _: {"program": (("cost", 1e9),)})
    return load_run(write_run(replace(synthetic_run(tmp_path / "run", n_trials=80))))


def measure(run: Run, *workloads: Path) -> None:
    measure_held_out(run, workloads, [object()] * len(workloads))  # type: ignore[list-item]


def test_picks_and_default_are_measured_on_each_and_shown_apart(run: Run, tmp_path: Path):
    measure(run, workload(tmp_path, "one"), workload(tmp_path, "other"))
    lines = list(held_out_lines(run))

    assert {row["workload"] for row in read_held_out(run.folder)} == {"one.trace", "other.trace"}
    assert lines[0].startswith("held out, not tuned for")
    assert any("one.trace, " in line and "(-10.0 %)" in line for line in lines)
    assert all("(-10.0 %)" in line or "SIGABRT" in line or "(±0.0 %)" in line for line in lines[1:])


def test_what_was_measured_is_not_measured_again(run: Run, tmp_path: Path):
    one = workload(tmp_path, "one")
    measure(run, one)
    asked = Emulated.asked

    measure(run, one)

    assert {again.allocator for again in Emulated.asked[len(asked) :]} <= {"mimalloc"}  # it failed
    assert asked[0] == Configuration("glibc")


def workload(folder: Path, name: str) -> Path:
    path = folder / f"{name}.trace"
    path.write_bytes(name.encode())
    return path


def test_another_workload_leaves_the_rows_of_the_first(run: Run, tmp_path: Path):
    measure(run, workload(tmp_path, "one"))

    measure(run, workload(tmp_path, "other"))

    assert {row["workload"] for row in read_held_out(run.folder)} == {"one.trace", "other.trace"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [(MissingToolError("gone"), MissingToolError), (KeyboardInterrupt(), InterruptedCampaign)],
)
def test_what_was_measured_before_an_error_is_kept(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    expected: type[Exception],
):
    def written(path: Path, text: str) -> None:
        write_text(path, text)
        if isinstance(error, KeyboardInterrupt):
            raise error

    monkeypatch.setattr(held_out, "write_text", written)
    monkeypatch.setattr(Emulated, "error", error if isinstance(error, Exception) else None)

    with pytest.raises(expected):
        measure(run, workload(tmp_path, "one"))

    (row,) = read_held_out(run.folder)
    assert (row["configuration"], row["reason"]) == (Configuration("glibc").key, None)


def test_what_has_no_numbers_is_measured_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A time-out, which is tried twice, may have been the machine's."""
    one = workload(tmp_path, "one")
    monkeypatch.setattr(Emulated, "timed_out", "glibc")
    measure(run, one)
    assert {row["reason"] for row in read_held_out(run.folder)} >= {"still running"}
    assert Emulated.asked[:2] == (Configuration("glibc"),) * 2

    monkeypatch.setattr(Emulated, "timed_out", None)
    measure(run, one)

    assert "still running" not in {row["reason"] for row in read_held_out(run.folder)}


def test_nothing_is_shown_where_nothing_was_held_out(run: Run):
    assert list(held_out_lines(run)) == []


def test_changes_are_of_the_whole_program_as_those_above(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    known = WorkloadRecord(program=(("cost", 1e9),))
    names = ("mean_heap", "peak_heap", "cost")
    run = replace(run, campaign=replace(run.campaign, workload=known, objectives=names))
    used = (("cost", 1e9), ("peak_heap", 1000.0))  # of an older recording
    monkeypatch.setattr(held_out, "recorded", lambda _: {"program": used})
    measure(run, workload(tmp_path, "one"))

    text = " ".join(held_out_lines(run))

    assert "expected of the whole program" in text
    assert "mean heap 90 B (-1.0 %), peak heap 90 B (-1.0 %), cost 180 (±0.0 %)" in text


def test_each_workload_says_whether_its_changes_are_of_the_whole_program(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    known = WorkloadRecord(program=(("cost", 1e9),))
    names = ("mean_heap", "peak_heap", "cost")
    run = replace(run, campaign=replace(run.campaign, workload=known, objectives=names))
    used = {"app.trace": (("cost", 1e9), ("peak_heap", 1000.0)), "bare.trace": ()}
    monkeypatch.setattr(held_out, "recorded", lambda path: {"program": used[path.name]})
    measure(run, workload(tmp_path, "bare"), workload(tmp_path, "app"))

    lines = list(held_out_lines(run))

    heads = [place for place, line in enumerate(lines) if line.startswith("held out")]
    assert len(heads) == 2
    whole, alone = lines[: heads[1]], lines[heads[1] :]
    assert "expected of the whole program" in whole[0]
    assert "expected" not in alone[0]
    assert {line.split(",")[0] for line in whole[1:]} == {"  app.trace"}
    assert {line.split(",")[0] for line in alone[1:]} == {"  bare.trace"}
    assert any("mean heap 90 B (-1.0 %)" in line for line in whole)
    assert any("mean heap 90 B (-10.0 %)" in line for line in alone)
