"""Native tools are waited for, however long their limit."""

import pytest

from tuner.measure.process import Finished, Processes


@pytest.mark.parametrize("timeout_s", [None, 1e7, 3.6e23])
def test_a_limit_longer_than_the_system_can_wait_is_no_failure(timeout_s: float | None) -> None:
    ended = Processes().run(["/bin/echo", "done"], environment={}, timeout_s=timeout_s)
    assert ended == Finished(0, "done\n", "")


def test_what_a_signal_ended_is_said_by_its_name() -> None:
    """A limit of file sizes ended rand_malloc, and the message was `-25`."""
    assert Finished(-25, "", "").ending == "killed by SIGXFSZ"
    assert Finished(1, "", "first\nno room\n").ending == "exit status 1: no room"
