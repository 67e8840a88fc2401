"""How many candidates the time left can decide on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.doubles.judged import ONE
from tuner.compare.plan import Course
from tuner.optimize.candidates import Choosing, affordable_finalists
from tuner.optimize.emulation import EmulatedTrials
from tuner.optimize.proposals import Baseline, Proposal
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Sample, Tuned
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration, Origin, Outcome, Trial


@pytest.mark.parametrize(("seconds", "n"), [(5.0, 1), (20.0, 1), (45.0, 2), (60.0, 3), (900.0, 3)])
def test_short_time_is_not_split_over_many_candidates(
    tmp_path: Path, seconds: float, n: int
) -> None:
    """Three candidates in the time of seven rounds decide nothing; one would be decided."""
    request = Request(("app",), seconds, ("glibc",))
    work = Work(tmp_path, request, cast("Tuned", None), Watch(seconds, lambda: 0.0))
    reference = Reference(("app",), {}, 0, None, None, wall_s=0.98, timeout_s=30.0)

    assert affordable_finalists(work, reference) == n


def test_a_setting_goes_where_the_whole_program_would_not_see_it(tmp_path: Path) -> None:
    """A tenth more work of an allocator that has a hundredth of the CPU time is next to nothing."""
    values = {"mean_heap": 1e6, "peak_heap": 2_000_000, "cost": 1e6}
    wanted = ONE.with_values(**values)
    base = Trial(0, Configuration("glibc"), Origin.DEFAULT, Outcome.succeeded(wanted), None, 0.0)
    baseline = Baseline({MEAN: 1e6, PEAK: 2e6, CPU: 1e9}, base, 1.0)
    request = Request(("app",), 60.0, ("glibc",))
    work = Work(tmp_path, request, cast("Tuned", None), Watch(60.0, lambda: 0.0))
    reference = Reference(("app",), {}, 0, None, None, wall_s=0.98, timeout_s=30.0)
    choosing = Choosing(work, reference, [], cast("EmulatedTrials", None), baseline)

    is_as_good = choosing._is_as_good  # noqa: SLF001 - the rule itself
    assert is_as_good(wanted.with_values(cost=1.1e6), wanted)
    assert not is_as_good(wanted.with_values(cost=4e6), wanted)
    assert not is_as_good(wanted.with_values(mean_heap=1.01e6), wanted)


def test_one_slow_run_of_the_program_as_it_is_favours_nothing(tmp_path: Path) -> None:
    """Its round would make all that ran in it look faster."""
    course: Course[None, Sample] = Course()
    for number, base in enumerate((1.0, 2.0, 1.0)):
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: 1e9 * base}))
        course.add((number, None, f"glibc mxfast={number}"), Outcome.succeeded({CPU: 1e9}))
    settings = [Configuration.of("glibc", {"mxfast": number}) for number in range(3)]
    proposals = [Proposal(one, 1, {CPU: 0.0}) for one in settings]
    request = Request(("app",), 60.0, ("glibc",))
    work = Work(tmp_path, request, cast("Tuned", None), Watch(60.0, lambda: 0.0))
    reference = Reference(("app",), {CPU: 1e9}, 0, None, None, wall_s=1.0, timeout_s=30.0)
    choosing = Choosing(
        work, reference, proposals, cast("EmulatedTrials", None), cast("Baseline", None)
    )

    found = choosing._corrected(course, proposals, CPU)  # noqa: SLF001 - the rule itself

    assert found == pytest.approx([0.0, 0.0, 0.0])
