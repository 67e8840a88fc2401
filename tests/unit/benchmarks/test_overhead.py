"""What a campaign's CPU time counts as."""

from __future__ import annotations

import resource

import pytest

from benchmarks.accounting import Accounts
from benchmarks.overhead import share_of


def test_children_are_distinguished_by_their_options() -> None:
    accounts = Accounts()
    usage = resource.struct_rusage((1.5, 0.5, *[0] * 14))

    accounts.charge(["/x/rand_malloc", "--runs", "both", "a.trace"], usage)
    accounts.charge(["/x/rand_malloc", "--calibrate"], usage)
    accounts.charge(["/x/rand_malloc", "--version"], usage)
    accounts.charge(["/x/probe"], usage)

    expected = dict.fromkeys(("replays", "calibration", "rand_malloc", "probe"), 2.0)
    assert accounts.cpu_s == expected


def test_calibration_is_not_counted() -> None:
    cpu_s = {"malloc-tuner itself": 1.0, "calibration": 30.0, "replays": 19.0}

    assert share_of(cpu_s) == pytest.approx(0.05)
