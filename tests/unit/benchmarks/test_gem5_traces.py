"""How whole and thin traces rank settings on gem5."""

from argparse import Namespace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import gem5_answer, gem5_case, gem5_inside, gem5_scaling, gem5_traces
from benchmarks.gem5_traces import THIN, WHOLE, lines, points_of, ranks_of, targets
from benchmarks.harness import Call, located
from tuner.config.gem5_suite import Simulation, SimulationRole
from tuner.measure.gem5 import Gem5Run
from tuner.records import Configuration, Measurement, Status

REAL = {"glibc default": 100, "glibc a": 120, "glibc b": 140, "glibc c": 100.5}


def part(whole: dict[str, float], thin: dict[str, float]) -> dict[str, Any]:
    """Return a simulation: two rounds of gem5, and what traces make of the settings."""
    head = {"status": "ok", "reason": None}
    rows = [
        {**head, "task": "sort", "subject": label, "round": number, "mean_heap": value + number}
        for label, value in REAL.items()
        for number in range(2)
    ]
    emulated = [
        {**head, "task": kind, "subject": label, "round": 0, "mean_heap": value}
        for kind, known in ((WHOLE, whole), (THIN, thin))
        for label, value in known.items()
    ]
    return {"rows": rows, "emulated": emulated}


def test_only_clear_pairs_count_and_what_is_left_equal_is_wrong():
    whole = {label: value * 10 for label, value in REAL.items()}
    thin = {**whole, "glibc b": whole["glibc a"]}

    found = {one.kind: one for one in ranks_of({"sort": part(whole, thin)})}

    assert (found[WHOLE].n_points, found[WHOLE].n_pairs) == (4, 5)
    assert found[WHOLE].tau == 1.0
    assert found[THIN].tau == pytest.approx(0.6)
    (target,) = targets({"sort": part(whole, thin)})
    assert target.is_met
    assert "0.60" in "\n".join(lines({"sort": part(whole, thin)}))


def test_a_pair_that_one_round_orders_otherwise_is_not_clear():
    whole = {label: value * 10 for label, value in REAL.items()}
    one = part(whole, whole)
    (late,) = (row for row in one["rows"] if (row["subject"], row["round"]) == ("glibc a", 1))
    late["mean_heap"] = 99.0

    assert {found.kind: found.n_pairs for found in ranks_of({"sort": one})} == {WHOLE: 3, THIN: 3}


def test_a_setting_that_is_missing_on_a_simulation_is_left_out():
    whole = {label: value * 10 for label, value in REAL.items()}
    fewer = {label: value for label, value in whole.items() if label != "glibc c"}

    found = ranks_of({"sort": part(whole, whole), "tree": part(fewer, whole)})

    assert {one.kind: one.n_points for one in found} == {WHOLE: 3, THIN: 4}
    assert ranks_of({}) == []


def test_settings_are_those_of_the_case_study():
    found = points_of(["glibc"])

    assert found["glibc default"] == Configuration("glibc")
    assert found["glibc seed-1"].as_dict == {"tcache_count": 4096, "tcache_max": 744}


def test_what_another_gem5_recorded_or_a_label_meant_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recorded: list[str] = []
    emulated: list[str] = []

    def record(_command: object, trace: Path, **_: object) -> None:
        recorded.append(trace.name)
        trace.touch()

    def measure_panel(trace: Path, *_: object) -> list[Measurement]:
        emulated.append(trace.name)
        return [Measurement({"mean_heap": 1.0})]

    monkeypatch.setattr(gem5_traces, "record", record)
    monkeypatch.setattr(gem5_traces, "measure_panel", measure_panel)
    monkeypatch.setattr(gem5_traces, "load_calibration", lambda: None)
    gem5 = SimpleNamespace(
        identity=lambda _: {"program": "1"}, folder=lambda _: tmp_path / "out", command=lambda _: []
    )
    call = Call(gem5_traces.BENCHMARK, cast("Any", SimpleNamespace(smoke=True)), tmp_path, {})
    simulation = Simulation(name="tree", machine="m.json", role=SimulationRole.TUNE)

    def run(mxfast: int) -> tuple[int, int]:
        points = {"glibc a": Configuration.of("glibc", {"mxfast": mxfast})}
        gem5_traces._emulated(call, cast("Any", gem5), simulation, points, {})  # noqa: SLF001 - the check itself
        return len(recorded), len(emulated)

    assert [run(0), run(0), run(64)] == [(1, 2), (1, 2), (1, 4)]
    gem5.identity = lambda _: {"program": "2"}
    assert run(64) == (2, 6)


def test_gem5_without_the_library_that_is_asked_for_has_no_figures():
    ended = SimpleNamespace(timed_out=False, preload_mapped=False, exit_status=0)
    found = Gem5Run(cast("Any", ended), cast("Any", SimpleNamespace()), None, b"")
    gem5 = cast("Any", SimpleNamespace(simulate=lambda *_: found))
    simulation = Simulation(name="tree", machine="m.json", role=SimulationRole.TUNE)
    points = {"glibc a": Configuration("glibc")}

    run = gem5_traces.heap_runner(gem5, [simulation], points, located(["glibc"]))("tree", "glibc a")

    assert run.status is Status.REFUSED


def test_what_simulated_something_else_than_the_baseline_failed():
    head = {"task": "tree", "round": 0, "status": "ok", "reason": None}
    rows = [
        {**head, "subject": subject, "digest": digest}
        for subject, digest in (("as it is", "1"), ("same", "1"), ("other", "2"))
    ]

    found = gem5_traces.of_one_simulation(rows, "as it is")

    assert [row["status"] for row in found] == ["ok", "ok", "failed"]
    assert not any("digest" in row for row in found)


@pytest.mark.parametrize("one", [gem5_answer, gem5_case, gem5_traces, gem5_inside, gem5_scaling])
def test_without_gem5_a_benchmark_is_left_out(one: ModuleType, tmp_path: Path):
    options = Namespace(parts=[], smoke=False, programs=None, gem5=None)
    call = Call(one.BENCHMARK, options, tmp_path, {})
    call._done = ()  # noqa: SLF001 - of no earlier call

    one.measure(call)

    assert call.left_out
    assert not call.parts
