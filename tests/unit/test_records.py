"""The one record of how a run ended holds no combination that would need a guess later."""

import pytest

from tuner.records import Outcome, Status


@pytest.mark.parametrize(
    ("status", "reason", "values"),
    [
        (Status.OK, None, None),
        (Status.OK, "why", 1.0),
        (Status.FAILED, None, None),
        (Status.TIMED_OUT, None, 1.0),
    ],
)
def test_contradictions_are_refused(status: Status, reason: str | None, values: float | None):
    with pytest.raises(ValueError, match="does not fit"):
        Outcome(status, reason, values)


def test_what_a_failed_run_left_is_kept_and_never_good():
    outcome = Outcome(Status.FAILED, "killed", 2.0)

    assert (outcome.values, outcome.good) == (2.0, None)
    assert Outcome.succeeded(2.0).good == 2.0
