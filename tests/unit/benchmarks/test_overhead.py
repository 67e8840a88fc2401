"""What a campaign's CPU time counts as."""

import resource

import pytest

from benchmarks.accounting import Accounts
from benchmarks.overhead import lines, share_of, targets


def test_children_are_distinguished_by_their_options():
    accounts = Accounts()
    usage = resource.struct_rusage((1.5, 0.5, *[0] * 14))

    accounts.charge(["/x/rand_malloc", "--runs", "both", "a.trace"], usage)
    accounts.charge(["/x/rand_malloc", "--calibrate"], usage)
    accounts.charge(["/x/rand_malloc", "--version"], usage)
    accounts.charge(["/x/probe"], usage)

    expected = dict.fromkeys(("replays", "calibration", "rand_malloc", "probe"), 2.0)
    assert accounts.cpu_s == expected


def test_calibration_is_not_counted():
    cpu_s = {"malloc-tuner itself": 1.0, "calibration": 30.0, "replays": 19.0}

    assert share_of(cpu_s) == pytest.approx(0.05)


def test_short_and_long_campaigns_have_a_target_each():
    def rows(own_s: float) -> list[dict[str, object]]:
        cpu_s = {"malloc-tuner itself": own_s, "replays": 9.0}
        run = {"task": "tune", "subject": "demo", "status": "ok", "reason": None}
        return [{**run, "round": n, "cpu_s": cpu_s, "n_children": {"replays": 2}} for n in (0, 1)]

    parts = {"demo": rows(1.0), "demo-300": rows(0.0), "server": rows(9.0)}  # no target

    found = [(target.brief, target.is_met) for target in targets(parts)]

    assert found == [
        ("share that is no replay at 60 evaluations: 10.0% (aim: at most 5.0%)", False),
        ("share that is no replay at 300 evaluations: 0.0%", True),
    ]
    assert "demo, 300 evaluations, 0.0 % of it no replay:" in list(lines(parts))
    assert list(targets({})) == []
