"""The time that an optimisation was given."""

from tuner.optimize.work import Watch


def test_a_watch_counts_from_its_start():
    now = [100.0]
    watch = Watch(60.0, lambda: now[0])
    now[0] = 145.0

    assert watch.used_s == 45.0
    assert watch.left_s == 15.0
    now[0] = 170.0
    assert watch.left_s == -10.0
