"""Which validation is believed: the last one of the program that was recorded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.doubles.runs import synthetic_run
from tuner.errors import SelectionError
from tuner.export.formats import render
from tuner.export.sources import deployment, other_input
from tuner.front.kept import find_pick
from tuner.runs import Run
from tuner.store import SimulationRecord, ValidationRecord
from tuner.trace.file import EVENT, write_trace
from tuner.trace.program import Recorded
from tuner.validate.trust import (
    believed_validation,
    proving_validation,
    recorded_program,
    validated_whole,
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Validations 1 of the recorded program, 2 of another one, and one of a simulation."""
    trace = tmp_path / "app.trace"
    write_trace(trace, np.zeros(1, EVENT), {"command": ["./app", "x"], "exit_status": 4})
    found = synthetic_run(tmp_path / "run", n_trials=40, validation=True)
    record = found.validations[-1]

    def made(number: int, command: tuple[str, ...], **known: Any) -> ValidationRecord:
        return replace(record, identifier=number, command=command, **known)

    return replace(
        found,
        campaign=replace(found.campaign, trace_path=str(trace)),
        validations=(
            made(1, ("./app", "x")),
            made(2, ("sh", "-c", "exit 3"), is_recorded_program=False),
            made(3, ("sh", "-c", "exit 3")),
            made(4, ("gem5",), simulation=SimulationRecord("tree", "tune", {})),
        ),
    )


def number(record: ValidationRecord | None) -> int:
    assert record is not None
    return record.identifier


def test_a_validation_of_another_program_does_not_replace_a_good_one(run: Run):
    assert number(believed_validation(run)) == 1


def test_one_that_was_interrupted_does_not_replace_a_complete_one(run: Run):
    begun = replace(run.validations[0], identifier=5, samples=run.validations[0].samples[:4])

    assert number(believed_validation(replace(run, validations=(*run.validations, begun)))) == 1
    assert number(believed_validation(replace(run, validations=(begun,)))) == 5


def test_one_of_another_program_is_better_than_none(run: Run):
    others = replace(run, validations=run.validations[1:3])
    assert number(believed_validation(others)) == 3
    assert believed_validation(replace(run, validations=run.validations[3:])) is None


def test_an_export_rests_on_the_input_that_was_tuned_on(run: Run):
    first, foreign = run.validations[0], run.validations[2]
    later = replace(first, identifier=4, command=("/bin/app", "y"))
    both = replace(run, validations=(first, foreign, later))
    alone = replace(run, validations=(foreign, later))
    others = replace(run, validations=(foreign,))

    assert number(proving_validation(both)) == number(believed_validation(both)) == 1
    assert other_input(both) == ""
    assert number(proving_validation(alone)) == 4
    assert other_input(alone) == (
        "validation 4 ran /bin/app y, other arguments than recorded (./app x): what is exported is "
        "proven for that alone"
    )
    write_trace(Path(run.campaign.trace_path), np.zeros(1, EVENT), {"command": ["./app", "tcp:1"]})
    assert "other arguments than recorded (./app tcp:1): what is exported" in other_input(alone)
    assert proving_validation(others) is None
    assert number(proving_validation(others, 3)) == 3
    assert other_input(others, 3).startswith("validation 3 ran sh -c 'exit 3', another program")


def test_without_the_trace_the_last_one_that_says_nothing_else_counts(run: Run):
    campaign = replace(run.campaign, trace_path="/no/such.trace")
    unknown = replace(run, campaign=campaign)
    assert number(believed_validation(unknown)) == 3
    assert number(believed_validation(replace(unknown, validations=run.validations[:2]))) == 1


def test_one_may_be_chosen(run: Run):
    assert number(believed_validation(run, 2)) == 2
    message = "has no validation 4 of a program; there are: 1, 2, 3"
    with pytest.raises(SelectionError, match=message):
        believed_validation(run, 4)


def test_the_trace_says_what_is_expected_unless_the_user_does(run: Run):
    assert recorded_program(run.campaign) == Recorded(("./app", "x"), 4)
    assert recorded_program(run.campaign, 0) == Recorded(("./app", "x"), 0)
    nowhere = replace(run.campaign, trace_path="/no/such.trace")
    assert recorded_program(nowhere) is None
    assert recorded_program(nowhere, 3) == Recorded((), 3)


def test_an_export_shows_the_good_one_with_its_notes(run: Run):
    text = render(deployment(run, find_pick(run, "no-regret")), "env")
    assert "rounds of ./app x" in text
    assert "exit 3" not in text
    assert ", expected " in text
    assert "note:" in text


def test_an_export_shows_what_was_proven_on_the_input_that_was_tuned_on(run: Run):
    later = replace(run.validations[0], identifier=5, command=("./app", "y"))
    both = replace(run, validations=(*run.validations, later))

    text = render(deployment(both, find_pick(both, "no-regret")), "env")

    assert "rounds of ./app x" in text


def test_a_trace_without_the_command_has_the_arguments_of_its_process(tmp_path: Path, run: Run):
    trace = tmp_path / "child.trace"
    write_trace(trace, np.zeros(1, EVENT), {"command": None, "argv": ["./cc1", "a.c"]})
    campaign = replace(run.campaign, trace_path=str(trace))

    assert recorded_program(campaign) == Recorded(("./cc1", "a.c"), None)


def test_shares_rest_on_the_command_that_was_recorded_or_on_a_validation_that_is_named(run: Run):
    first = run.validations[0]
    other = replace(first, identifier=4, command=("./app", "y"))
    both, alone = (replace(run, validations=found) for found in ((first, other), (other,)))

    assert validated_whole(both, None) is not None
    assert validated_whole(alone, None) is None
    assert validated_whole(alone, 4) is not None
