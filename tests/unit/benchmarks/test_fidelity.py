"""The fidelity benchmark measures again what changed, and compares what all models have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measured
from benchmarks.fidelity_tables import comparison
from benchmarks.measured import Measured
from benchmarks.screening import scores
from tests.unit.fidelity.test_verdict import ONE
from tuner.allocators import Installation, get_allocator
from tuner.measure.calibration import Calibration
from tuner.records import Configuration

PANEL = [Configuration.of("glibc", {}), Configuration.of("exgen", {}),
         Configuration.of("exgen", {"empty_slabs": 2})]  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Measure nothing; what was asked for is appended, and the second of a panel fails."""
    found: list[str] = []

    def measure(_workload: Path, panel: Sequence[Configuration], *_: object, **__: object) -> Any:
        found.extend(str(configuration) for configuration in panel)
        return [None if index == 1 else ONE for index in range(len(panel))]

    monkeypatch.setattr(measured, "measure_panel", measure)
    return found


@pytest.fixture
def keeper(tmp_path: Path) -> Measured:
    library = tmp_path / "libexgen.so"
    library.write_text("first")
    located = {
        "glibc": (get_allocator("glibc"), Installation("glibc", None, "2.36")),
        "exgen": (get_allocator("exgen"), Installation("exgen", library, "0.1.0")),
    }
    prices = Calibration.from_record({"c_fault": 1.0, "c_syscall": 1.0, "ns_per_instruction": 1.0})
    return Measured(tmp_path / "kept", located, prices, 1.0)


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, keeper: Measured, asked: list[str]
) -> None:
    workload = tmp_path / "app.trace"
    workload.write_text("events")
    assert keeper.measure(workload, PANEL, None) == [ONE, None, ONE]
    assert keeper.measure(workload, PANEL, None) == [ONE, ONE, ONE], "what failed is tried again"
    again = keeper.measure(workload, PANEL, None)
    assert again == [ONE, ONE, ONE]
    assert again[0] is not None
    assert again[0].curve == ONE.curve
    assert len(asked) == 4
    keeper.measure(workload, PANEL[:1], 1)
    assert len(asked) == 5, "a seed is another run"
    workload.write_text("others")
    keeper.measure(workload, PANEL[:1], None)
    assert len(asked) == 6, "so is another content"


def test_another_library_has_only_its_own_configurations_measured(
    tmp_path: Path, keeper: Measured, asked: list[str]
) -> None:
    workload = tmp_path / "app.trace"
    workload.write_text("events")
    keeper.measure(workload, PANEL, None)
    asked.clear()
    (tmp_path / "libexgen.so").write_text("second")
    keeper.measure(workload, PANEL, None)
    assert asked == [str(c) for c in PANEL[1:]]


def row(model: str, *peaks: int | None) -> dict[str, Any]:
    run = {f: list(peaks) for f in ("peak_heap_bytes", "mean_heap_bytes", "faults")}
    distances = {f"{name}_distance": 0.0 for name in
                 ("live_curve", "size", "heap_curve", "fragmentation_curve")}  # fmt: skip
    return {"model": model, "seeds": {"1": run}, **distances}


def test_models_are_compared_on_what_all_were_measured_on() -> None:
    known = {
        "allocators": ["glibc", "glibc", "exgen"],
        "trace": row("", 100, 200, 100)["seeds"]["1"],
        "models": [row("good", 100, 200, 900), row("poor", 150, 300, None)],
    }
    lines = comparison({"traces": {"app": known}}, ["good", "poor"])
    assert lines[0] == "Over 1 traces and 2 configurations of each, which all models share:"
    assert [cell.strip() for cell in lines[4].split("|")[1:3]] == ["good", "0.00 %"]
    assert [cell.strip() for cell in lines[5].split("|")[1:3]] == ["poor", "50.00 %"]


def test_campaigns_are_compared_at_equal_cost() -> None:
    """The screened one has found the same when it has spent more."""
    plain = {"screened": False, "reference": [100.0, 100.0], "cost": [1.0, 2.0, 3.0, 4.0],
             "points": [[90.0, 90.0], None, [10.0, 10.0], [50.0, 50.0]]}  # fmt: skip
    late = {**plain, "screened": True, "cost": [1.0, 3.5, 3.9, 5.0],
            "points": [[90.0, 90.0], [50.0, 50.0], None, [10.0, 10.0]]}  # fmt: skip
    found = scores({"evaluations": 4, "campaigns": [plain, late]})
    assert found[False][0].tolist() == pytest.approx([found[False][0][0]] * 2 + [100.0] * 2)
    assert found[True][0][:3].tolist() == pytest.approx([found[False][0][0]] * 3)
    assert found[True][0][0] < found[True][0][3] < 100.0
