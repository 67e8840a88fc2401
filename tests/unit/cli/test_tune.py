"""What `malloc-tuner tune` prints, and which words it refuses."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.runs import synthetic_run
from tuner.campaign.summary import summarise
from tuner.cli.outcome import outcome_lines
from tuner.config import campaign_from_options
from tuner.errors import SpecError, StoreError
from tuner.runs import REQUEST_FILE


def test_a_campaign_ends_with_a_line_for_each_pick():
    run = synthetic_run(n_trials=60)

    found = summarise(run.campaign, run.trials, run.rechecks)
    lines = list(outcome_lines(run.campaign, replace(found, n_unchecked=0), run.folder))

    assert len(lines) == 1 + len(found.picked) + 1
    assert any("no-regret" in line for line in lines), "what is exported"
    assert lines[0].startswith("ghostscript: 60 configurations measured, ")
    assert any(line.startswith("  best-mean_heap") or ", best-mean_heap" in line for line in lines)
    assert lines[-1].startswith(f"next: malloc-tuner front {run.folder}\n")
    assert max(map(len, "\n".join(lines).splitlines())) <= 100
    assert not re.search(r"\d%", "\n".join(lines)), "changes look as those of `front` do"


def test_the_example_of_free_threads_names_what_they_measure(cli: CommandLine):
    help_ = cli.prints("tune", "--help")
    (names,) = re.findall(r"app.trace --threads free --objectives (\S+)", help_)

    free = {"threads": "free"}
    campaign_from_options(
        trace="x", allocators=["glibc"], objectives=names.split(","), emulation=free
    )


def test_what_comes_next_can_be_pasted_whatever_the_folder_is_called():
    run = synthetic_run(n_trials=20)

    *_, last = outcome_lines(run.campaign, summarise(run.campaign, run.trials), Path("my runs/a"))

    commands = [line.removeprefix("next:").strip() for line in last.splitlines()]
    assert commands[0] == "malloc-tuner front 'my runs/a'"
    assert commands[1].startswith("malloc-tuner validate 'my runs/a' -- ")


def test_a_campaign_without_a_feasible_trial_ends_with_its_counts(tmp_path: Path):
    run = synthetic_run(n_trials=20)
    broken = [replace(trial, violation=1.0) for trial in run.trials]

    (line,) = outcome_lines(run.campaign, summarise(run.campaign, broken), tmp_path)

    assert "break a constraint; 0 points on the front" in " ".join(line.split())
    (tmp_path / REQUEST_FILE).write_text("{}")
    (line,) = outcome_lines(run.campaign, summarise(run.campaign, broken), tmp_path)
    assert "break the guard of peak memory that `optimize` began with" in " ".join(line.split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--strategy", "annealing"], "annealing"),
        (["--objectives", "mean_heap,speed"], "speed"),
        (["--allocators", "glibc,hoard"], "hoard"),
        (["--constraint", "cost <= cheap"], "cheap"),
        (["--workers", "1000"], "1000 workers"),
    ],
)
def test_a_wrong_option_is_named(
    campaign: Path, tmp_path: Path, cli: CommandLine, words: list[str], complaint: str
):
    said = cli.fails(SpecError.exit_code, "tune", campaign, "-o", tmp_path / "run", *words)

    assert complaint in said
    assert not (tmp_path / "run").exists()


def test_a_campaign_is_not_put_into_the_folder_of_a_program(
    campaign: Path, tmp_path: Path, cli: CommandLine
):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / REQUEST_FILE).touch()

    said = cli.fails(StoreError.exit_code, "tune", campaign, "-o", tmp_path / "run")

    assert f"{tmp_path / 'run'}: holds a run of a program; name another folder" in said
    assert [one.name for one in (tmp_path / "run").iterdir()] == [REQUEST_FILE]


@pytest.mark.parametrize("option", ["--constraint", "--target"])
def test_a_wrong_constraint_is_shown_as_it_was_typed(
    campaign: Path, tmp_path: Path, cli: CommandLine, option: str
):
    words = ("-o", tmp_path / "run", option, "heap < 3")

    err = cli.fails(SpecError.exit_code, "tune", campaign, *words)

    assert err.startswith("malloc-tuner: constraint 'heap < 3': ")
    assert "demo.toml" not in err


@pytest.mark.parametrize("table", ["program", "service"])
def test_a_file_of_a_program_is_sent_to_optimize(tmp_path: Path, cli: CommandLine, table: str):
    path = tmp_path / "app.toml"
    path.write_text(f'[{table}]\ncommand = ["./app"]\n')

    (line,) = cli.fails(SpecError.exit_code, "tune", path, "-o", tmp_path / "run").splitlines()

    assert f"malloc-tuner optimize {path}" in line
    assert f"[{table}]" in line


def test_a_run_folder_that_is_not_there_is_no_file_of_another_kind(
    working_folder: Path, cli: CommandLine
):
    said = cli.fails(5, "tune", "runs/ap")

    assert "runs/ap: cannot open the trace: no such file, nor a run folder" in said
    assert not (working_folder / "runs").exists()
