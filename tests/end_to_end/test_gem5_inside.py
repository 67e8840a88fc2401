"""A guest inside a simulated machine, on the real gem5 that the variable GEM5 names."""

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.allocators import get_allocator
from tuner.config.gem5_inside import load_inside
from tuner.measure.gem5 import GUEST_OUTPUT, find_gem5
from tuner.measure.gem5_inside import (
    Counts,
    Gem5Inside,
    InsideTask,
    guest_environments,
    prepare_tasks,
)
from tuner.measure.program import ProgramRunner
from tuner.records import Status
from tuner.resources import gem5_dir
from tuner.validate.inside_summary import beyond

PROGRAM = os.environ.get("GEM5", "")

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not PROGRAM, reason="needs gem5; set GEM5 to its gem5.opt"),
]

MACHINE = """
{
  "description": "Small and quick: one level of caches, and a second",
  "clock": "1GHz",
  "cpu": {"model": "timing", "tlb": {"instruction": 32, "data": 32}},
  "caches": {
    "l1i": {"size": "16KiB", "assoc": 4, "latency": 1},
    "l1d": {"size": "16KiB", "assoc": 4, "latency": 1},
    "l2": {"size": "128KiB", "assoc": 8, "latency": 8}
  },
  "memory": {"model": "SingleChannelDDR3_1600", "size": "256MiB"}
}
"""
PROGRAMS = """
version = 1
machines = ["small.json"]

[[programs]]
name = "lists"
guest = "lists"
arguments = ["60"]

[[programs]]
name = "pair"
guest = "pair"
arguments = ["20"]
cores = 2

[[programs]]
name = "replay"
trace = "perl.trace"
first = 200

[[programs]]
name = "shell"
command = ["sh", "-c", "echo good"]
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, InsideTask]:
    folder = tmp_path_factory.mktemp("inside")
    shutil.copytree(gem5_dir() / "guests", folder / "guests")
    trace = gem5_dir().parent / "configs" / "workloads" / "perl-index" / "perl-start.trace"
    shutil.copy(trace, folder / "perl.trace")
    (folder / "small.json").write_text(MACHINE)
    (folder / "inside.toml").write_text(PROGRAMS)
    inside = load_inside(folder / "inside.toml")
    return {task.program: task for task in prepare_tasks(inside, inside.choose(["all"]), folder)}


@pytest.fixture
def gem5(tmp_path: Path) -> Gem5Inside:
    return Gem5Inside(find_gem5(Path(PROGRAM)), gem5_dir(), tmp_path, ProgramRunner(), 300.0)


def guest(variables: dict[str, str]) -> dict[str, str]:
    (environment,) = guest_environments([variables])
    return environment


def counted(gem5: Gem5Inside, task: InsideTask, variables: dict[str, str]) -> tuple[Counts, bytes]:
    outcome = gem5.run(task, "one", guest(variables))
    assert outcome.reason is None
    assert outcome.values is not None
    output = (gem5.outputs / task.machine.stem / task.program / "one" / GUEST_OUTPUT).read_bytes()
    assert outcome.values.output == hashlib.sha256(output).hexdigest()
    return outcome.values.counts, output


def test_guest_runs_with_libc_and_with_an_allocator_below_tmp(
    gem5: Gem5Inside, tasks: dict[str, InsideTask], tmp_path: Path
):
    library = tmp_path / "libexgen.so"
    original = get_allocator("exgen").locate().library
    assert original is not None
    shutil.copy(original, library)
    task = tasks["lists"]
    assert task.start is not None
    outputs = []
    for variables in ({}, {"LD_PRELOAD": str(library)}):
        whole, output = counted(gem5, task, variables)
        difference = beyond(whole, counted(gem5, task.start, variables)[0])
        assert (difference["instructions"] or 0) > 10_000
        assert (difference["l1d_misses"] or 0) > 10
        assert difference["dtlb_misses"] is not None
        assert difference["l3_misses"] is None
        outputs.append(output)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith(b"lists ")


def test_a_run_repeats_itself(gem5: Gem5Inside, tasks: dict[str, InsideTask]):
    start = tasks["lists"].start
    assert start is not None
    assert counted(gem5, start, {}) == counted(gem5, start, {})


@pytest.mark.parametrize(
    ("program", "output"), [("pair", b"pair "), ("replay", b"replay "), ("shell", b"good")]
)
def test_threads_the_emulator_and_real_programs_run(
    gem5: Gem5Inside, tasks: dict[str, InsideTask], program: str, output: bytes
):
    assert counted(gem5, tasks[program], {})[1].startswith(output)


def test_library_that_is_not_there_is_noticed(gem5: Gem5Inside, tasks: dict[str, InsideTask]):
    """The loader of the guest goes on without it."""
    start = tasks["lists"].start
    assert start is not None
    missing = guest({"LD_PRELOAD": "/no/such/libjemalloc.so"})
    found = gem5.run(start, "one", missing)
    assert (found.status, found.values) == (Status.REFUSED, None)
    assert "was not loaded" in (found.reason or "")


def test_guest_that_fails_is_reported(gem5: Gem5Inside, tasks: dict[str, InsideTask]):
    task = InsideTask("lists", tasks["lists"].machine, 1, tasks["lists"].command[:1], None)
    found = gem5.run(task, "one", guest({}))
    assert "the guest ended with status 2" in (found.reason or "")


def test_run_is_stopped_at_its_limit(gem5: Gem5Inside, tasks: dict[str, InsideTask]):
    found = replace(gem5, timeout_s=0.05).run(tasks["lists"], "one", guest({}))
    assert found.status is Status.TIMED_OUT
    assert found.reason == "gem5: stopped at the time limit"
