"""`malloc-tuner gem5`, on a program with gem5's manners and real allocators."""

from pathlib import Path

import pytest

from tests.doubles.places import FAKE_GEM5, write_suite
from tests.doubles.runs import MIB, seen
from tuner.cli.main import run
from tuner.records import Status
from tuner.store import Store

pytestmark = pytest.mark.end_to_end

SUITE = """
version = 1

[[simulations]]
name = "tuned"
machine = "traffic.json"
role = "tune"

[[simulations]]
name = "unseen"
machine = "core.json"
guest = "answer"
arguments = ["7"]
role = "held-out"
"""


@pytest.fixture
def suite(tmp_path: Path) -> str:
    return write_suite(tmp_path / "suite.toml", SUITE, "answer")


def validate(folder: Path, suite: str, *options: str) -> int:
    words = ["gem5", str(folder), "--gem5", FAKE_GEM5, "--suite", suite]
    return run([*words, "--points", "balanced", "--rounds", "2", *options])


def labels(folder: Path) -> list[list[tuple[str, Status]]]:
    with Store.open(folder) as store:
        return [[(s.label, s.outcome.status) for s in r.samples] for r in store.validations()]


def test_picks_and_defaults_run_on_every_simulation(
    folder: Path, suite: str, capsys: pytest.CaptureFixture[str]
):
    assert validate(folder, suite) == 0
    out = capsys.readouterr().out
    assert "gem5, held-out simulations: 1; rounds: 2" in out
    assert "gem5, simulations tuned on: 1; rounds: 2" in out
    names = [sorted(label for label, _ in found) for found in labels(folder)]
    assert names == [sorted(["glibc-default", "jemalloc-default", "balanced"] * 2)] * 2
    assert all(status is Status.OK for found in labels(folder) for _, status in found)


def test_heap_is_measured(folder: Path, suite: str):
    assert validate(folder, suite, "--simulations", "held-out") == 0
    with Store.open(folder) as store:
        (record,) = store.validations()
    assert all((seen(s).peak_heap_bytes or 0) > 16 * MIB for s in record.samples)


def test_setting_that_changes_the_simulation_is_rejected(
    folder: Path, suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FAKE_GEM5", "MALLOC_CONF:drift")
    assert validate(folder, suite) == 16  # jemalloc's default drifts too: nothing is left
    out = " ".join(capsys.readouterr().out.split())
    assert "balanced is out of unseen: 1 simulated statistics differ from the baseline's" in out
    assert "simTicks is 1001, not 1000" in out


def test_simulation_that_fails_leaves_one_record(
    folder: Path, suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FAKE_GEM5", "unseen:crash")
    assert validate(folder, suite) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert 'unseen is out: exit status 1: "panic: something is wrong"' in out
    assert [len(found) for found in labels(folder)] == [6, 1]


def test_same_command_again_runs_only_what_is_missing(folder: Path, suite: str):
    assert validate(folder, suite, "--simulations", "tuned") == 0
    output = folder / "gem5" / "outputs" / "tuned" / "result.json"
    stamp = output.stat().st_mtime_ns
    assert validate(folder, suite) == 0
    assert len(labels(folder)) == 2  # what is complete is not begun again
    assert output.stat().st_mtime_ns == stamp


def test_without_gem5_the_error_says_where_to_get_it(
    folder: Path, suite: str, capsys: pytest.CaptureFixture[str]
):
    code = run(["gem5", str(folder), "--gem5", "no-such-gem5", "--suite", suite])
    assert code == 4
    assert "gem5.org/documentation" in capsys.readouterr().err


def test_gem5_in_the_environment_leaves_commands_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEM5", "no-such-gem5")
    assert (
        run(["validate", str(folder), "--points", "balanced", "--rounds", "1", "--", "true"]) == 0
    )
