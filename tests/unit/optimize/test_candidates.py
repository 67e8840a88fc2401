"""How many candidates the time left can decide on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tuner.optimize.candidates import Choosing
from tuner.optimize.emulation import EmulatedTrials
from tuner.optimize.request import Request
from tuner.optimize.tuned import Reference, Tuned
from tuner.optimize.work import Watch, Work


@pytest.mark.parametrize(("seconds", "n"), [(5.0, 1), (20.0, 1), (45.0, 2), (60.0, 3), (900.0, 3)])
def test_short_time_is_not_split_over_many_candidates(
    tmp_path: Path, seconds: float, n: int
) -> None:
    """Three candidates in the time of seven rounds decide nothing; one would be decided."""
    request = Request(("app",), seconds, ("glibc",))
    work = Work(tmp_path, request, cast("Tuned", None), Watch(seconds, lambda: 0.0))
    reference = Reference(("app",), {}, 0, None, None, wall_s=0.98, timeout_s=30.0)
    choosing = Choosing(work, reference, [], cast("EmulatedTrials", None))

    assert choosing._n_finalists() == n  # noqa: SLF001 - the rule itself
