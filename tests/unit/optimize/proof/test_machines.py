"""Samples of several machines, made comparable by the program as it is."""

from pathlib import Path

import pytest

from tuner.errors import StoreError
from tuner.machine import read_machine
from tuner.optimize.kinds.cluster import ProgramKit
from tuner.optimize.proof.machines import (
    MACHINE,
    ProgramMachine,
    load_machines,
    relative_to,
    save_machines,
)
from tuner.optimize.quantities import CPU, MEAN
from tuner.optimize.request import Request
from tuner.optimize.tuned import Reference
from tuner.records import Outcome
from tuner.runs import MACHINES_FILE

REFERENCE = Reference(("app",), {MEAN: 5e6, CPU: 2e9}, 0, None, None, 2.0, 20.0)
SLOW = ProgramMachine("slow", read_machine(), {MEAN: 6e6, CPU: 4e9})


def test_times_are_relative_to_this_machine_and_memory_is_as_measured(tmp_path: Path):
    relative = relative_to(REFERENCE, tmp_path)
    save_machines(tmp_path, [SLOW])  # it joins later
    sample = Outcome.succeeded({MEAN: 7e6, CPU: 3e9})

    assert relative("slow", sample).good == {MEAN: 7e6, CPU: 1.5e9, MACHINE: 1.0}
    assert relative("here", sample) == sample
    assert relative(None, sample) == sample


def test_the_program_of_the_held_out_input_is_alike_everywhere(tmp_path: Path):
    (tmp_path / "other").write_text("1")
    request = Request(("./app",), 60.0, (), held_out=("./other", "x"))
    kit = ProgramKit("kit", request, {}, {"PATH": ""}, tmp_path)
    one = kit.identity()
    (tmp_path / "other").write_text("2")

    assert one["./other"] != kit.identity()["./other"]


def test_machines_are_kept(tmp_path: Path):
    assert load_machines(tmp_path) == []
    save_machines(tmp_path, [SLOW])

    assert load_machines(tmp_path) == [SLOW]
    (tmp_path / MACHINES_FILE).write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        load_machines(tmp_path)
