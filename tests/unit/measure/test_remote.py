"""What a worker proves, receives and locks."""

import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.allocators import get_allocator, locate_all
from tuner.emulation import Calibration, EmulationOptions
from tuner.measure.emulator import Emulation
from tuner.measure.remote import EmulationKit, free_core, measure, prove, receive
from tuner.records import Configuration, Status

TRACE = Path(__file__).parents[3] / "configs/workloads/gem5-suite/traces/text-minor.trace"


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmulationKit:
    """A kit as it arrives on a machine that lacks the workload."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trace = tmp_path / "app.trace"
    trace.write_bytes(TRACE.read_bytes())
    located = locate_all([get_allocator("glibc")])
    emulation = Emulation(
        trace, located, Calibration(1.0, 1.0), EmulationOptions(instrument="none")
    )
    made = EmulationKit.of([emulation], None)
    found = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert isinstance(found, EmulationKit)
    return found


def test_equal_machines_prove_to_be_alike(kit: EmulationKit):
    proof = prove(kit)

    assert proof.identity == kit.identity()
    assert {"malloc-tuner", "rand_malloc", "glibc"} <= proof.identity.keys()
    assert proof.missing == ()
    assert proof.n_cores >= 1


def test_a_workload_that_is_missing_or_another_is_sent(kit: EmulationKit):
    trace = kit.emulations[0].trace
    content = kit.content(kit.digests[0])
    trace.write_bytes(b"something else")
    assert prove(kit).missing == kit.digests

    receive(kit.digests[0], content)

    assert prove(kit).missing == ()
    measured = measure(kit, Configuration("glibc"))
    assert measured.error is None
    assert measured.evaluation is not None
    assert measured.evaluation.status is Status.OK


def test_a_workload_in_a_folder_that_may_not_be_entered_is_sent(
    kit: EmulationKit, monkeypatch: pytest.MonkeyPatch
):
    """The worker is another user's, as root is none in tests."""
    found = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        if path == kit.emulations[0].trace:
            raise PermissionError(13, "Permission denied", str(path))
        return found(path, **how)

    monkeypatch.setattr(Path, "stat", stat)

    assert kit.missing() == list(kit.digests)


def test_an_error_of_the_machine_travels(kit: EmulationKit):
    kit.emulations[0].trace.unlink()

    measured = measure(replace(kit, name="other"), Configuration("glibc"))

    assert measured.evaluation is None
    assert "has not arrived" in str(measured.error)


def test_an_allocator_that_is_missing_is_named(kit: EmulationKit, monkeypatch: pytest.MonkeyPatch):
    from tuner.errors import MissingToolError

    def missing(*_: object) -> None:
        raise MissingToolError("glibc: no such file")

    monkeypatch.setattr("tuner.allocators.base.Allocator.locate", missing)

    assert kit.identity()["glibc"] == "missing: glibc: no such file"


def test_a_core_is_held_by_one_at_a_time(tmp_path: Path):
    held: list[int] = []
    is_free = threading.Event()

    def wait() -> None:
        with free_core([3, 5], tmp_path) as cpu:
            held.append(cpu)
            is_free.set()

    with free_core([3, 5], tmp_path) as first:
        with free_core([3, 5], tmp_path) as second:
            assert (first, second) == (3, 5)
            waiting = threading.Thread(target=wait)
            waiting.start()
            assert not held
        assert is_free.wait()
    waiting.join()
    assert held == [5]


def test_workers_with_other_folders_for_temporary_files_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in "ab":
        (tmp_path / name).mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / name))
        monkeypatch.setattr("tempfile.tempdir", None)
        with free_core([0, 1]):
            assert not list((tmp_path / name).iterdir())
