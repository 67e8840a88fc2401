"""Naive models forget what they say they forget, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.naive_models import (
    FOREVER,
    MODELS,
    Objects,
    classic,
    find_objects,
    objects_to_events,
    write_naive,
)
from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner.trace.file import Op, Trace
from tuner.trace.lives import find_lives


def objects(*pairs: tuple[int, int]) -> Objects:
    return Objects(*np.array(pairs, np.int64).T)


def test_objects_are_what_lies_between_two_calls_for_a_block(tmp_path: Path) -> None:
    maker = TraceMaker()
    kept = maker.allocate(10)
    grown = maker.allocate(20)
    maker.reallocate(grown, 30)
    maker.free(grown)
    maker.free(maker.allocate(40))
    with Trace(maker.write(tmp_path / "small.trace")) as trace:
        found = find_objects(trace.read_all())

    assert kept != grown
    assert found.size.tolist() == [10, 20, 30, 40]
    assert found.life.tolist() == [FOREVER, 0, 0, 0]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=st.sampled_from(sorted(MODELS)), seed=st.integers(0, 2**32))
def test_every_model_writes_a_trace_that_repeats(tmp_path: Path, model: str, seed: int) -> None:
    """The writer checks that every free frees a live block once."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", 2, 2000)
    events = []
    for name in ("one.trace", "two.trace"):
        write_naive(model, trace, tmp_path / name, seed)
        with Trace(tmp_path / name) as made:
            events.append(made.read_all())

    assert np.array_equal(events[0], events[1])
    assert set(events[0]["thread"].tolist()) == {0}


@pytest.mark.parametrize("model", ["joint", "classic"])
def test_sizes_are_those_of_the_trace(tmp_path: Path, model: str) -> None:
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 3000)
    with Trace(trace) as opened:
        true = find_objects(opened.read_all())
    made = MODELS[model](true, np.random.default_rng(1))

    assert sorted(made.size) == sorted(true.size)
    if model == "joint":
        assert sorted(zip(*(made.size, made.life), strict=True)) == sorted(
            zip(*(true.size, true.life), strict=True)
        )


def test_in_classic_sizes_take_turns_and_live_their_mean() -> None:
    made = classic(objects((8, 1), (8, 3), (16, 5), (8, 5)), np.random.default_rng(1))

    assert made.size.tolist() == [8, 16, 8, 8]
    assert made.life.tolist() == [3, 5, 3, 3]


def test_birth_death_keeps_the_mean_number_alive() -> None:
    n = 20_000
    steady = Objects(np.full(n, 64), np.full(n, 100))
    made = objects_to_events(MODELS["birth-death"](steady, np.random.default_rng(1)), 0)
    live = find_lives(made).live_bytes / 64

    assert live[1000 : n // 2].mean() == pytest.approx(100, rel=0.1)


def test_objects_die_after_as_many_allocations_as_they_live() -> None:
    events = objects_to_events(objects((1, 1), (2, 0), (3, FOREVER), (4, 9)), 1000)

    assert events["op"].tolist() == [
        Op.MALLOC, Op.MALLOC, Op.FREE, Op.FREE, Op.MALLOC, Op.MALLOC, Op.FREE,
    ]  # fmt: skip
    assert events["slot"].tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert events["time_ns"][-1] == 1000
