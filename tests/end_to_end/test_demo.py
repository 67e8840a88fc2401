"""The demo with a small budget: every step ends well and leaves what it promises."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.places import ROOT
from tuner.errors import StoreError
from tuner.store import Store

EVALUATIONS = 12
FORMATS = ("env", "sh", "systemd", "docker", "kubernetes", "json")

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the demo once; the tests look at what it left."""
    folder = tmp_path_factory.mktemp("demo")
    tool = folder / "malloc-tuner"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tuner.cli.main "$@"\n')
    tool.chmod(0o755)
    command = [ROOT / "scripts" / "demo", tool, ROOT / "configs", folder / "run"]
    done = subprocess.run(
        [*command, "--evaluations", str(EVALUATIONS)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "VALIDATE_OPTIONS": "--rounds 1 --front 1 --dominated 1",
            "OPTIMIZE_OPTIONS": "--time 8s --evaluations 8 --allocators glibc,mimalloc",
        },
        cwd=folder,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (folder / "said").write_text(done.stdout)
    return folder / "run"


def test_the_store_holds_every_evaluation(run: Path):
    with Store.open(run) as store:
        trials = store.trials()

    assert len(trials) == EVALUATIONS


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_was_written(run: Path, name: str):
    assert (run / "exports" / f"balanced.{name}").read_text().strip()


def test_it_ends_with_an_answer_and_exports_only_what_is_proven(run: Path):
    answer = json.loads((run / "answer" / "answer.json").read_text())

    is_proven = answer["decision"] == "deploy"
    assert answer["sentence"]
    assert (run / "exports" / "proven.env").exists() is is_proven


def test_it_says_why_the_answer_may_name_another_setting_than_the_picks(run: Path):
    said = (run.parent / "said").read_text()

    assert said.index("may name another setting") > said.index("== Answer")


def test_the_exported_json_names_its_configuration(run: Path):
    exported = json.loads((run / "exports" / "balanced.json").read_text())

    assert exported["allocator"]


@pytest.mark.parametrize("name", ["report.html", "answer/report.html"])
def test_a_report_is_one_self_contained_page(run: Path, name: str):
    page = (run / name).read_text()

    assert page.lower().startswith("<!doctype html>")
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures_for_papers(run: Path, ending: str):
    assert list((run / "figures").glob(f"*.{ending}"))


def test_the_validation_is_in_the_store(run: Path):
    with Store.open(run) as store:
        validations = store.validations()

    assert [validation.rounds for validation in validations] == [1]
    assert validations[0].samples


def demo_with(
    folder: Path, script: str, configs: Path = ROOT / "configs"
) -> subprocess.CompletedProcess[str]:
    """Run the demo of a malloc-tuner that is a line of shell."""
    tool = folder / "malloc-tuner"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    command = [ROOT / "scripts" / "demo", tool, configs, folder / "run"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_run_of_another_campaign_is_refused_with_what_to_do(tmp_path: Path):
    done = demo_with(tmp_path, f'[ "$1" = record ] || exit {StoreError.exit_code}')
    assert done.returncode == StoreError.exit_code
    assert f"delete {tmp_path / 'run'}" in done.stderr


def test_only_another_front_or_program_is_validated_anew(tmp_path: Path):
    said, front = tmp_path / "said", tmp_path / "front"
    configs = shutil.copytree(ROOT / "configs", tmp_path / "configs")
    program = configs / "workloads" / "perl-index" / "run.sh"
    script = f"""echo "$*" >> {said}; case "$1" in front) cat {front};; optimize) exit 19;; esac"""
    for text, comment in (("one", ""), ("one", ""), ("other", ""), ("other", "# new\n")):
        front.write_text(text)
        program.write_text(program.read_text() + comment)
        assert demo_with(tmp_path, script, configs).returncode == 0

    validated = [line for line in said.read_text().splitlines() if line.startswith("validate")]
    assert [" -- " in line for line in validated] == [True, False, True, True]


@pytest.mark.parametrize("status", [0, 12])
def test_a_note_on_an_export_is_shown_once_and_its_failure_is_the_demos(
    tmp_path: Path, status: int
):
    script = f"export) echo a note >&2; exit {status};; optimize) exit 19;;"
    done = demo_with(tmp_path, f'case "$1" in {script} esac')
    assert done.returncode == status
    assert done.stderr == "a note\n"


def test_what_was_recorded_and_written_is_shown_but_no_step_that_the_demo_takes_itself(
    tmp_path: Path,
):
    record = "record) echo recorded >&2; echo 'next: malloc-tuner tune' >&2;;"
    script = f'{record} export) shift 4; echo "wrote ${{2##*/}}";; optimize) exit 19;;'
    done = demo_with(tmp_path, f'case "$1" in {script} esac')
    lines = done.stdout.splitlines()
    assert "recorded" in lines
    assert [line for line in lines if line.startswith("wrote ")] == [
        f"wrote balanced.{form}" for form in FORMATS
    ]
    assert "next: " not in done.stdout + done.stderr
