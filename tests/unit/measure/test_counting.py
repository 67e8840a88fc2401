"""Counted runs of a real program, with a stand-in for valgrind."""

import os
import uuid
from pathlib import Path

import pytest

from tests.doubles.processes import processes_with
from tuner.errors import MissingToolError
from tuner.measure.counting import InstructionCounter
from tuner.resources import native_file

_VALGRIND = """#!/bin/sh
echo "$GLIBC_TUNABLES" > {folder}/tunables
cat /proc/$$/environ > {folder}/environ
for word; do case "$word" in --cachegrind-out-file=*) out="${{word#*=}}";; esac; done
out="${{out%%%p}}$$"
echo "Parent PID: $PPID" > $out.log
{body}
"""


def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> InstructionCounter:
    fake = tmp_path / "valgrind"
    fake.write_text(_VALGRIND.format(folder=tmp_path, body=body))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return InstructionCounter()


def test_total_is_read_from_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    body = "printf 'events: Ir\\nfn=main\\n1 99\\nsummary: 123456\\n' > $out"
    assert counter(tmp_path, monkeypatch, body).count(["true"], {}, 30.0) == 123456


def test_the_command_in_the_counts_may_be_no_text_and_hold_a_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    body = "printf 'cmd: app \\377x\\nsummary: 7\\nsummary: 123456\\n' > $out"
    assert counter(tmp_path, monkeypatch, body).count(["true"], {}, 30.0) == 123456


def test_repeated_strings_are_off_beside_the_subjects_own_tunables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0"}
    counter(tmp_path, monkeypatch, "true").count(["true"], own, 30.0)
    tunables = (tmp_path / "tunables").read_text()
    assert tunables.startswith("glibc.malloc.mxfast=0:glibc.cpu.x86_rep_movsb_threshold=")


@pytest.mark.parametrize("body", ["exit 1", "echo nothing > $out", "sleep 60"])
def test_run_without_a_count_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str):
    assert counter(tmp_path, monkeypatch, body).count(["true"], {}, 0.2) is None


@pytest.mark.parametrize(("exit_status", "found"), [(3, 9), (None, 9), (0, None)])
def test_run_that_ends_otherwise_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_status: int | None, found: int | None
):
    """What ends early has less work, and cachegrind writes its count all the same."""
    made = counter(tmp_path, monkeypatch, "printf 'summary: 9\\n' > $out; exit 3")
    assert made.count(["true"], {}, 30.0, exit_status) == found


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = counter(tmp_path, monkeypatch, "setsid sleep 600 & echo 'summary: 9' > $out")
    mark = f"LEFT={uuid.uuid4()}"
    assert made.count(["true"], dict([mark.split("=")]), 30.0) == 9
    assert not processes_with(mark)


def test_a_setting_that_ends_every_program_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = counter(tmp_path, monkeypatch, "echo 'summary: 9' > $out")
    conf = {"EXGEN_CONF": "abort_conf:true,no_such:1"}
    assert (
        made.count(["true"], {"LD_PRELOAD": str(native_file("libexgen.so")), **conf}, 30.0) is None
    )


def test_the_environment_is_the_programs_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Shells drop names such as these, and add some; mimalloc 2.0 reads the first ones only."""
    own = {"Z": "1", "a.b": "2", "BASH_FUNC_f%%": "() { :; }", "A": "3"}
    counter(tmp_path, monkeypatch, "true").count(["true"], own, 30.0)
    rows = (tmp_path / "environ").read_text().rstrip("\0").split("\0")
    assert rows[: len(own)] == [f"{name}={value}" for name, value in own.items()]
    assert all("glibc." in row for row in rows[len(own) :])  # tunables, maybe read in place


def test_what_cannot_be_run_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = counter(tmp_path, monkeypatch, "kill -9 $PPID; sleep 600")
    assert made.count(["true"], {}, 30.0) is None


needs_valgrind = pytest.mark.skipif(not InstructionCounter.is_installed(), reason="no valgrind")


def counted(*command: str, **variables: str) -> int | None:
    return InstructionCounter().count(command, {**os.environ, **variables}, 60.0, 0)


@needs_valgrind
def test_a_program_that_becomes_another_one_is_counted():
    becomes = counted("sh", "-c", "/bin/true; exec expr 1 + 1")
    assert becomes is not None
    assert becomes == pytest.approx(counted("expr", "1", "+", "1"), rel=0.02)


@needs_valgrind
def test_a_variable_that_no_shell_knows_reaches_the_program():
    assert counted("printenv", "a.b", **{"a.b": "1"}) is not None


@needs_valgrind
def test_what_a_program_starts_runs_as_usual():
    """Under cachegrind it would take far longer, or be refused, as su and ping are."""
    assert counted("sh", "-c", "grep -q cachegrind /proc/self/maps; test $? -eq 1") is not None


@needs_valgrind
def test_the_work_of_children_is_not_counted():
    work = "i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done"
    alone, with_child = counted("sh", "-c", ":"), counted("sh", "-c", f"({work}) & wait; ({work})")
    assert alone is not None
    assert with_child is not None
    assert alone < with_child < 2 * alone


def test_missing_valgrind_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="install the package valgrind"):
        InstructionCounter()
