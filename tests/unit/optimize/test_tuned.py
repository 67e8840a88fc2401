"""What all runs of a subject say of it."""

import pytest

from tuner.compare.plan import Course
from tuner.optimize.quantities import GROWTH, MEAN
from tuner.optimize.tuned import AS_IS, Sample, growth_of
from tuner.records import Outcome


@pytest.mark.parametrize(
    ("growths", "expected"),
    [((3.0, 1.0, 2.0), 2.0), ((3.0, None, 2.0), 2.5), ((3.0, None), None), ((), None)],
)
def test_a_growth_is_that_of_most_runs(growths: tuple[float | None, ...], expected: float | None):
    course: Course[None, Sample] = Course(AS_IS)
    for number, growth in enumerate(growths):
        values = {MEAN: 1e6} if growth is None else {MEAN: 1e6, GROWTH: growth}
        course.add((number, None, AS_IS), Outcome.succeeded(values))

    assert growth_of(course, AS_IS) == expected
