"""What the machine says of the time that passed."""

import os
from pathlib import Path

import pytest

from tuner.measure import clocks
from tuner.measure.clocks import Snapshot, snapshot


def test_this_machine_has_clocks():
    now = snapshot()

    assert now is not None
    assert now.busy_s > 0.0
    assert now.own_s > 0.0


@pytest.mark.parametrize("n_kinds", [8, 10])
def test_time_that_is_neither_idle_nor_stolen_is_busy(
    n_kinds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of older kernels, which report no guests, as well."""
    ticks = [100, 20, 30, 9000, 400, 5, 6, 70, 1, 1][:n_kinds]
    monkeypatch.setattr(clocks, "_STAT", tmp_path / "stat")
    (tmp_path / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2\n")

    now = snapshot()

    second = os.sysconf("SC_CLK_TCK")
    assert now is not None
    assert (now.busy_s, now.stolen_s) == (161 / second, 70 / second)


@pytest.mark.parametrize("text", ["cpu  1 2 3 4\n", None])
def test_a_system_that_tells_less_has_no_clocks(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(clocks, "_STAT", tmp_path / "stat")
    if text is not None:
        (tmp_path / "stat").write_text(text)

    assert snapshot() is None


def test_others_have_what_is_neither_idle_nor_own():
    assert Snapshot(elapsed_s=10.0, busy_s=12.0, stolen_s=3.0, own_s=9.0).others_s == 6.0
