"""How `malloc-tuner tune` reads what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.runs import synthetic_run
from tuner.campaign.setup import CAMPAIGN_FILE
from tuner.campaign.summary import summarise
from tuner.cli.campaign_table import print_outcome
from tuner.cli.main import run as command
from tuner.cli.tune import read_spec
from tuner.config import dump_campaign
from tuner.errors import SpecError

NOTHING: dict[str, Any] = {
    "allocators": None,
    "evaluations": None,
    "objectives": None,
    "constraints": None,
    "strategy": None,
    "search": None,
    "emulation": None,
    "space_files": None,
    "seed": None,
    "trace": None,
}


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(
        'name = "demo"\ntrace = "demo.trace"\nallocators = ["glibc", "jemalloc"]\n'
        'evaluations = 200\nconstraints = ["peak_heap <= 2 GiB"]\n'
    )
    return path


def test_a_campaign_file_runs_in_the_folder_of_its_name(campaign: Path) -> None:
    spec, folder = read_spec(campaign, None, NOTHING)

    assert Path("runs/demo") == folder
    assert campaign.with_name("demo.trace") == spec.trace
    assert spec.evaluations == 200


def test_options_replace_keys_of_the_file(campaign: Path) -> None:
    options = NOTHING | {"evaluations": 50, "constraints": ["cost <= default"], "seed": 7}

    spec, folder = read_spec(campaign, Path("elsewhere"), options)

    assert Path("elsewhere") == folder
    assert (spec.evaluations, spec.constraints, spec.seed) == (50, ("cost <= default",), 7)
    assert spec.allocators == ("glibc", "jemalloc")


def test_an_option_of_a_table_keeps_the_rest_of_the_table(campaign: Path) -> None:
    campaign.write_text(campaign.read_text() + '[emulation]\ntimeout = "5 s"\n')
    options = NOTHING | {"emulation": {"threads": "free"}, "objectives": ["p99_latency"]}

    spec, _ = read_spec(campaign, None, options)

    assert (spec.emulation.threads, spec.emulation.timeout_ns) == ("free", 5 * 10**9)


def test_a_trace_alone_is_a_campaign_of_all_allocators() -> None:
    spec, folder = read_spec(None, None, NOTHING | {"trace": "/data/app.trace"})

    assert Path("runs/app") == folder
    assert spec.allocators == ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
    assert spec.objectives == ("mean_heap", "cost")


def test_a_run_folder_continues_itself(campaign: Path, tmp_path: Path) -> None:
    spec, _ = read_spec(campaign, None, NOTHING)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / CAMPAIGN_FILE).write_text(dump_campaign(spec))

    again, same_folder = read_spec(folder, None, NOTHING | {"evaluations": 400})

    assert folder == same_folder
    assert spec.model_copy(update={"evaluations": 400}) == again


def test_neither_campaign_nor_trace_is_an_error() -> None:
    with pytest.raises(SpecError, match="give a trace or a campaign file"):
        read_spec(None, None, NOTHING)


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
