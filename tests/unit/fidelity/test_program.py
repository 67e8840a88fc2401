"""A profile against the program itself."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.judged import with_peaks
from tests.doubles.program_runs import GOOD
from tuner.cli.main import run
from tuner.fidelity import Panel, judge_program, measure_program
from tuner.measure.program import ProgramRun, Surroundings
from tuner.profile.file import read_profile
from tuner.records import Configuration


class FakeRunner:
    """Runs nothing: memory follows the number in the command's environment."""

    def __init__(self, peaks: dict[str, int], failing: str = "") -> None:
        self.peaks = peaks
        self.failing = failing
        self.seen: list[str] = []

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        del command, surroundings
        name = environment["WHICH"]
        self.seen.append(name)
        peak = self.peaks[name]
        return replace(
            GOOD, exit_status=1 if name == self.failing else 0, peak_rss_bytes=peak,
            peak_anon_bytes=peak, mean_anon_bytes=peak / 2, user_ns=peak, system_ns=0,
        )  # fmt: skip


class FakeAllocator:
    def environment(self, _: object, configuration: Configuration) -> dict[str, str]:
        return {"WHICH": str(configuration), "LD_PRELOAD": "x"}


LOCATED: Any = {name: (FakeAllocator(), None) for name in ("tcmalloc", "jemalloc")}


def on_program(peaks: Sequence[int], failing: int | None = None) -> tuple[Panel, Any, FakeRunner]:
    configurations = [
        Configuration.of(name, {"a": i})
        for i, name in enumerate(["tcmalloc", "tcmalloc", "jemalloc", "jemalloc"])
    ]
    names = [str(configuration) for configuration in configurations]
    runner = FakeRunner(dict(zip(names, peaks, strict=True)),
                        names[failing] if failing is not None else "")  # fmt: skip
    program = measure_program(
        ["app"], configurations, LOCATED,
        rounds=2, runner=runner, surroundings=Surroundings(), show=lambda _: None,
    )  # fmt: skip
    model = with_peaks(1000, 2000, 4000, 5000)
    return Panel(configurations, model, {1: model}), program, runner


def test_ranks_against_the_program_are_apart_from_those_against_the_trace():
    panel, program, _ = on_program([1000, 2000, 9000, 6000])
    found = judge_program(panel, program)
    peak = found.metrics["peak_heap"]
    assert peak is not None
    families = peak.families
    assert families["tcmalloc"].tau_differing == 1.0
    assert families["jemalloc"].tau_differing == -1.0
    assert families["jemalloc"].regret == pytest.approx(0.5)
    assert found.metrics["peak_heap"] == found.trace_metrics["peak_heap"]
    assert found.metrics["cost"] is None, "no instructions were counted"
    assert found.spread["peak_heap"] == 0.0
    assert found.trace_metrics["cost"] is None


def test_one_run_of_each_shows_no_spread():
    panel, program, _ = on_program([1000, 2000, 9000, 6000])
    once = replace(program, runs=[runs and runs[:1] for runs in program.runs])

    assert set(judge_program(panel, once).spread.values()) == {None}


def test_every_configuration_runs_in_every_round_until_it_fails():
    panel, program, runner = on_program([1000, 2000, 9000, 6000], failing=2)
    found = judge_program(panel, program)
    assert found.left_out == ("jemalloc a=2",)
    assert found.configurations == 3
    assert sorted(runner.seen).count("jemalloc a=2") == 1
    assert len(runner.seen) == 4 + 3


def test_settings_that_a_script_changes_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "GOOD", replace(GOOD, changed_variables=("MALLOC_CONF",)))
    panel, program, _ = on_program([1000, 2000, 9000, 6000])
    assert judge_program(panel, program).left_out == ("jemalloc a=2", "jemalloc a=3")


def test_the_command_runs_a_real_program_and_stores_what_it_found(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["--trace", str(tmp_path / "mixed.trace"), "--allocators", "glibc,jemalloc"]
    words += ["--seeds", "1", "--configurations", "4", "--instrument", "none", "--rounds", "1"]
    assert run(["fidelity", str(profile), *words, "--", sys.executable, "-c", "pass"]) == 0
    program = read_profile(profile)["fidelity"]["program"]
    assert program["configurations"] == 4
    assert program["command"][1:] == ["-c", "pass"]
    assert "against the program" in capsys.readouterr().out
