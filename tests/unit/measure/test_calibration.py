"""Prices of this machine: asked once, kept, and never trusted when damaged."""

import itertools
import json
import os
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.messages import assert_is_one_line
from tests.doubles.runs import PRICES
from tuner.errors import MissingToolError, ProgramError
from tuner.measure import calibration
from tuner.measure.calibration import FEWEST_DRAWS, calibrate, kept_calibration, load_calibration
from tuner.measure.clocks import Snapshot
from tuner.measure.instruments import Instrument, best_instrument, find_instruments

_DOUBLE = Path(__file__).parents[2] / "doubles" / "rand_malloc"
_ONE = replace(PRICES, n_draws=1, n_busy=0)
_EXPECTED = replace(_ONE, n_draws=FEWEST_DRAWS)
_DAY_S = 24 * 3600.0
_SOON_S = 601.0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "malloc-tuner"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return what share of the processors others take in the next draws; none at the end."""
    shares: list[float] = []
    starts = itertools.cycle((True, False))

    def seen() -> Snapshot:
        if next(starts):
            return Snapshot(1.0, 0.0, 0.0, 0.0)
        share = shares.pop(0) if shares else 0.0
        return Snapshot(2.0, share * (os.cpu_count() or 1), 0.0, 0.0)

    monkeypatch.setattr(calibration, "snapshot", seen)
    return shares


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the double answer without a process: a calibration is four, some tests take many."""

    def answer(option: str, emulator: Path) -> str:
        return str(runpy.run_path(str(emulator))["ANSWERS"][option])

    monkeypatch.setattr("tuner.measure.calibration.ask_emulator", answer)


def cached_file(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def emulator_with(folder: Path, c_fault: float) -> Path:
    """Return a double whose faults have another price."""
    emulator = folder / f"rand_malloc_{c_fault:g}"
    emulator.write_text(_DOUBLE.read_text().replace('"c_fault": 2000.0', f'"c_fault": {c_fault}'))
    emulator.chmod(0o755)
    return emulator


def at(time_s: float) -> Callable[[], float]:
    return lambda: time_s


def test_prices_are_measured_a_few_times_and_kept(cache: Path):
    assert load_calibration(_DOUBLE) == _EXPECTED
    kept = cached_file(cache)
    assert len(json.loads(kept.read_text())) == FEWEST_DRAWS
    kept.write_text(kept.read_text().replace("2000.0", "1.0"))
    assert load_calibration(_DOUBLE).c_fault == 1.0


@pytest.mark.usefixtures("in_process")
def test_prices_of_now_are_not_measured_again(tmp_path: Path):
    load_calibration(_DOUBLE, at(1000.0))
    again = load_calibration(emulator_with(tmp_path, 9000.0), at(1000.0 + 600.0))
    assert again == _EXPECTED


@pytest.mark.usefixtures("in_process")
def test_prices_of_one_moment_are_soon_measured_again():
    for n_moments, time_s in enumerate((0.0, _SOON_S, 2 * _SOON_S, 3 * _SOON_S, _DAY_S)):
        found = load_calibration(_DOUBLE, at(time_s))
        assert found.n_draws == FEWEST_DRAWS + min(n_moments, 2), "of three moments: once a day"
    assert load_calibration(_DOUBLE, at(2 * _SOON_S + _DAY_S + 1.0)).n_draws == FEWEST_DRAWS + 3


@pytest.mark.usefixtures("in_process")
def test_a_draw_of_the_time_to_come_is_not_trusted_for_ever():
    load_calibration(_DOUBLE, at(1e9))
    assert load_calibration(_DOUBLE, at(1000.0)).n_draws == FEWEST_DRAWS + 1


@pytest.mark.usefixtures("in_process")
def test_prices_far_from_those_that_are_kept_are_measured_again_at_once(tmp_path: Path):
    load_calibration(_DOUBLE, at(0.0))
    again = load_calibration(emulator_with(tmp_path, 3200.0), at(_SOON_S))
    assert again.n_draws == FEWEST_DRAWS + 3
    assert again.c_fault == 2600.0
    again = load_calibration(emulator_with(tmp_path, 3200.0), at(2 * _SOON_S))
    assert again.c_fault == 3200.0, "most draws are of those"


@pytest.mark.usefixtures("in_process")
def test_draws_of_a_busy_machine_are_repeated_and_said_to_be_so(machine: list[float]):
    machine += [0.5, 0.1, 0.5, 0.5, 0.5]
    found = load_calibration(_DOUBLE, at(0.0))
    assert (found.n_draws, found.n_busy) == (5, 4)


@pytest.mark.usefixtures("in_process")
def test_draws_of_a_busy_machine_count_only_while_there_are_too_few_others(
    tmp_path: Path, machine: list[float]
):
    machine += 5 * [0.5]
    load_calibration(emulator_with(tmp_path, 9000.0), at(0.0))
    found = load_calibration(_DOUBLE, at(_SOON_S))
    assert found == _EXPECTED, "one was due, and two more since the others are of a busy machine"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("busy", "stolen", "own", "n_busy"),
    [(0.5, 0.0, 0.0, 5), (0.5, 0.0, 0.5, 0), (0.1, 0.0, 0.0, 0), (0.0, 0.5, 0.0, 5)],
)
def test_a_machine_is_busy_with_what_others_or_the_host_take(
    monkeypatch: pytest.MonkeyPatch, busy: float, stolen: float, own: float, n_busy: int
):
    cores = os.cpu_count() or 1
    start = Snapshot(1.0, 0.0, 0.0, 0.0)
    end = Snapshot(2.0, busy * cores, stolen * cores, own * cores)
    monkeypatch.setattr(calibration, "snapshot", itertools.cycle((start, end)).__next__)
    assert load_calibration(_DOUBLE).n_busy == n_busy


@pytest.mark.usefixtures("in_process")
def test_a_machine_that_does_not_say_so_is_not_busy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calibration, "snapshot", lambda: None)
    assert load_calibration(_DOUBLE) == _EXPECTED


@pytest.mark.usefixtures("in_process")
def test_day_old_prices_get_one_more_draw_that_does_not_decide_alone(tmp_path: Path):
    load_calibration(_DOUBLE, at(1000.0))
    again = load_calibration(emulator_with(tmp_path, 2400.0), at(1001.0 + _DAY_S))
    assert again.n_draws == FEWEST_DRAWS + 1
    assert again.c_fault == 2000.0


@pytest.mark.usefixtures("in_process")
def test_old_draws_go_in_the_end(tmp_path: Path):
    load_calibration(_DOUBLE, at(0.0))
    other = emulator_with(tmp_path, 9000.0)
    for day in range(1, 4):
        found = load_calibration(other, at(day * (_DAY_S + 1.0)))
    assert found.n_draws == 9
    assert found.c_fault == 9000.0


@pytest.mark.usefixtures("in_process")
def test_median_of_the_draws_is_the_price_and_their_span_its_interval(cache: Path):
    load_calibration(_DOUBLE)
    kept = cached_file(cache)
    draws = json.loads(kept.read_text())
    for draw, price in zip(draws, (2500.0, 1000.0, 2200.0), strict=True):
        draw |= {"c_fault": price, "c_fault_interval": [price - 100.0, price + 50.0]}
    kept.write_text(json.dumps(draws))
    found = load_calibration(_DOUBLE)
    assert found.c_fault == 2200.0
    assert found.c_fault_interval == (900.0, 2550.0)


def test_one_measurement_is_one_draw():
    assert calibrate(_DOUBLE) == _ONE


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("damage", ["", "{}", '{"c_fault": -1.0}', "\xff"])
def test_damaged_cache_is_measured_again(cache: Path, damage: str):
    load_calibration(_DOUBLE)
    cached_file(cache).write_text(damage, encoding="latin-1")
    assert load_calibration(_DOUBLE) == _EXPECTED


@pytest.mark.usefixtures("in_process")
def test_cache_that_cannot_be_written_costs_nothing_else(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert load_calibration(_DOUBLE) == _EXPECTED


@pytest.mark.usefixtures("in_process")
def test_prices_that_cannot_be_kept_leave_no_file_behind(cache: Path):
    load_calibration(_DOUBLE)
    kept = cached_file(cache)
    kept.unlink()
    (kept / "in the way").mkdir(parents=True)

    assert load_calibration(_DOUBLE) == _EXPECTED
    assert [*cache.iterdir()] == [kept]


@pytest.mark.usefixtures("in_process")
def test_another_version_of_the_emulator_is_asked_anew(cache: Path, tmp_path: Path):
    load_calibration(_DOUBLE)
    newer = tmp_path / "rand_malloc"
    newer.write_text(_DOUBLE.read_text().replace("rand_malloc 0.1.0", "rand_malloc 0.2.0"))
    newer.chmod(0o755)
    load_calibration(newer)
    assert len(list(cache.iterdir())) == 2


def test_answer_of_another_form_is_refused(tmp_path: Path):
    odd = tmp_path / "rand_malloc"
    odd.write_text('#!/bin/sh\necho "{}"\n')
    odd.chmod(0o755)
    with pytest.raises(
        ProgramError, match=r"--calibrate is not understood: ns_per_instruction: "
    ) as caught:
        calibrate(odd)
    assert_is_one_line(str(caught.value))
    with pytest.raises(ProgramError, match=r"--instruments is not understood: .* array") as caught:
        find_instruments(odd)
    assert_is_one_line(str(caught.value))


def test_emulator_that_fails_is_quoted(tmp_path: Path):
    broken = tmp_path / "rand_malloc"
    broken.write_text("#!/bin/sh\necho 'rand_malloc: no clock' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ProgramError, match="--calibrate: failed: rand_malloc: no clock"):
        calibrate(broken)


def test_missing_emulator_is_an_error(tmp_path: Path):
    with pytest.raises(MissingToolError, match="cannot be started"):
        calibrate(tmp_path / "none")


def test_instruments_come_with_their_verdict():
    assert find_instruments(_DOUBLE) == (
        Instrument("perf", works=False, detail="no counters"),
        Instrument("qemu", works=True, detail="7.2"),
    )


def test_the_best_instrument_is_the_first_that_works():
    assert best_instrument(_DOUBLE) == "qemu"
    assert best_instrument() == next(one.name for one in find_instruments() if one.works)


@pytest.mark.usefixtures("in_process")
def test_prices_that_are_kept_are_shown_without_measuring(tmp_path: Path):
    assert kept_calibration(_DOUBLE) is None

    measured = load_calibration(_DOUBLE, at(1000.0))

    assert kept_calibration(emulator_with(tmp_path, 9000.0)) == measured
