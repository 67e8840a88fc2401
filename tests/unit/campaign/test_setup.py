"""From a campaign file to how every evaluation is run."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.campaign import setup
from tuner.campaign.setup import emulation_options
from tuner.config import CampaignSpec, campaign_from_options


def spec(objectives: list[str], **emulation: Any) -> CampaignSpec:
    return campaign_from_options(
        trace="app.trace", allocators=["glibc"], objectives=objectives, emulation=emulation
    )


@pytest.mark.parametrize(
    ("objectives", "threads", "asked", "instrument"),
    [
        (["mean_heap", "cost"], "baton", "auto", "qemu"),
        (["mean_heap", "cost"], "baton", "cachegrind", "cachegrind"),
        (["mean_heap", "faults"], "baton", "auto", "none"),
        (["mean_heap", "faults"], "baton", "cachegrind", "none"),
        (["mean_heap", "faults"], "free", "auto", "none"),
    ],
)
def test_an_instrument_runs_where_instructions_are_counted_only(
    monkeypatch: pytest.MonkeyPatch,
    objectives: list[str],
    threads: str,
    asked: str,
    instrument: str,
) -> None:
    monkeypatch.setattr(setup, "best_instrument", lambda: "qemu")

    options = emulation_options(spec(objectives, threads=threads, instrument=asked))

    assert options.instrument == instrument


@pytest.mark.parametrize(
    ("objectives", "threads", "with_latency"),
    [
        (["mean_heap", "p99_latency"], "baton", True),
        (["mean_heap", "p99_latency"], "free", False),
        (["mean_heap", "faults"], "baton", False),
    ],
)
def test_latency_takes_a_replay_of_its_own_where_threads_run_in_turn(
    objectives: list[str], threads: str, *, with_latency: bool
) -> None:
    found = emulation_options(spec(objectives, threads=threads))

    assert found.with_latency is with_latency


def test_the_limit_of_a_replay_is_in_seconds() -> None:
    assert emulation_options(spec(["mean_heap"], timeout="250 ms")).timeout_s == 0.25
