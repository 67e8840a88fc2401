"""What benchmarks/fidelity.py makes of its raw figures."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fidelity
from benchmarks.fidelity import BENCHMARK, judged, targets
from benchmarks.harness import Call


def run(*peaks: int | None) -> dict[str, Any]:
    return {f: list(peaks) for f in ("peak_heap_bytes", "mean_heap_bytes", "faults")}


def known(*peaks: int | None) -> dict[str, Any]:
    return {
        "allocators": ["glibc", "glibc", "exgen"],
        "trace": run(100, 200, 100),
        "seeds": [run(*peaks)],
    }


def test_errors_are_those_of_what_succeeded_on_both():
    (found,) = judged({"svg-render": known(100, 220, None), "ships-no-more": known(0, 0, 0)})

    assert found.errors["peak"].tolist() == pytest.approx([0.0, 0.1])
    assert list(found.figures["peak"].families) == ["glibc"]


def test_the_greatest_error_comes_first():
    parts = {"ld-link": known(100, 200, 100), "svg-render": known(150, 200, 100)}

    assert [one.name for one in judged(parts)] == ["svg-render", "ld-link"]


def test_a_regret_that_the_verdict_lets_pass_is_a_miss():
    """The profile ranks both alike in turn, so its pick holds twice the memory."""
    swapped = {**known(200, 100, 100)}

    *_, regrets = targets({"svg-render": swapped})

    assert regrets.note.startswith("svg-render (glibc, peak)")
    assert regrets.is_met, "the verdict sends campaigns to the trace"


def test_a_trace_that_is_not_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "b").write_text("")
    programs = {name: Namespace(trace=tmp_path / name) for name in ("a", "b")}
    kept: list[str] = []
    monkeypatch.setattr(fidelity, "find_programs", lambda: programs)
    monkeypatch.setattr(fidelity, "_measure", lambda *_: ({}, None))
    monkeypatch.setattr(Call, "keep", lambda _, part, *__, **___: kept.append(part))
    options = Namespace(parts=[], smoke=False, keep=tmp_path / "kept", rounds=1)

    BENCHMARK.measure(Call(BENCHMARK, options, tmp_path, {}))

    assert kept == ["b"]
    assert "left out: a: no trace; benchmarks/workload_profiles.py a rec" in capsys.readouterr().err


@pytest.mark.parametrize(("keep", "n_written"), [(None, 1), (Path("x"), 0)])
def test_a_profile_is_written_unless_its_figures_are_kept_elsewhere(
    keep: Path | None, n_written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written: list[object] = []
    monkeypatch.setattr(fidelity, "find_programs", lambda: {"a": Namespace(trace=Path(__file__))})
    monkeypatch.setattr(fidelity, "_measure", lambda *_: ({}, None))
    monkeypatch.setattr(fidelity, "_write_verdict", lambda *_: written.append(keep))
    monkeypatch.setattr(Call, "keep", lambda *_, **__: None)
    options = Namespace(parts=["a"], smoke=False, keep=keep, rounds=1)

    BENCHMARK.measure(Call(BENCHMARK, options, tmp_path, {}))

    assert len(written) == n_written
