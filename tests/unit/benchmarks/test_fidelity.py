"""What benchmarks/fidelity.py makes of its raw figures."""

from typing import Any

import pytest

from benchmarks.fidelity import judged, targets


def run(*peaks: int | None) -> dict[str, Any]:
    return {f: list(peaks) for f in ("peak_heap_bytes", "mean_heap_bytes", "faults")}


def known(*peaks: int | None) -> dict[str, Any]:
    return {
        "allocators": ["glibc", "glibc", "exgen"],
        "trace": run(100, 200, 100),
        "seeds": [run(*peaks)],
    }


def test_errors_are_those_of_what_succeeded_on_both():
    (found,) = judged({"app": known(100, 220, None)})

    assert found.errors["peak"].tolist() == pytest.approx([0.0, 0.1])
    assert list(found.figures["peak"].families) == ["glibc"]


def test_the_greatest_error_comes_first():
    assert [one.name for one in judged({"a": known(100, 200, 100), "b": known(150, 200, 100)})] == [
        "b",
        "a",
    ]


def test_a_regret_that_the_verdict_lets_pass_is_a_miss():
    """The profile ranks both alike in turn, so its pick holds twice the memory."""
    swapped = {**known(200, 100, 100)}

    *_, regrets = targets({"app": swapped})

    assert regrets.note.startswith("app (glibc, peak)")
    assert regrets.is_met, "the verdict sends campaigns to the trace"
