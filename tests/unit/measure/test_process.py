"""Native tools are waited for, however long their limit."""

from __future__ import annotations

import pytest

from tuner.measure.process import Finished, Processes


@pytest.mark.parametrize("timeout_s", [None, 1e7, 3.6e23])
def test_a_limit_longer_than_the_system_can_wait_is_no_failure(timeout_s: float | None) -> None:
    ended = Processes().run(["/bin/echo", "done"], environment={}, timeout_s=timeout_s)
    assert ended == Finished(0, "done\n", "")
