"""What `malloc-tuner tune` prints, and which words it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.runs import synthetic_run
from tuner.campaign.summary import summarise
from tuner.cli.campaign_table import print_outcome
from tuner.cli.main import run as command
from tuner.errors import SpecError


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(
        'name = "demo"\ntrace = "demo.trace"\nallocators = ["glibc", "jemalloc"]\n'
        'evaluations = 200\nconstraints = ["peak_heap <= 2 GiB"]\n'
    )
    return path


def test_the_table_shows_every_number_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    names = ("peak_heap", "mean_heap", "instructions", "faults", "syscalls", "cost")
    run = synthetic_run(names=names, n_trials=40)

    print_outcome(run.campaign, summarise(run.campaign, run.trials), run.folder)

    assert "\N{HORIZONTAL ELLIPSIS}" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--strategy", "annealing"], "annealing"),
        (["--objectives", "mean_heap,speed"], "speed"),
        (["--allocators", "glibc,hoard"], "hoard"),
        (["--constraint", "cost <= cheap"], "cheap"),
        (["--workers", "100000"], "100000 workers"),
        (["--evaluations", "1000000001"], "evaluations"),
        (["--evaluations", str(1 << 64)], "evaluations"),
        (["--seed", str(1 << 64)], "seed"),
    ],
)
def test_a_wrong_option_is_named(
    campaign: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    status = command(["tune", str(campaign), "-o", str(tmp_path / "run"), *words])

    assert SpecError.exit_code == status
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
