"""What runs inside simulated machines counted beyond their starts."""

import pytest

from tuner.errors import ProgramError
from tuner.validate.inside_summary import beyond

NAMES = (
    "instructions", "cycles", "l1d_misses", "l1i_misses", "l2_misses", "l3_misses", "dtlb_misses",
    "itlb_misses", "dram_bytes",
)  # fmt: skip
WHOLE = dict(zip(NAMES, (3000, 5000, 60, 6, 12, None, 9, 3, 640), strict=True))
START = dict(zip(NAMES, (1000, 3000, 20, 4, 13, None, 3, 1, 128), strict=True))


def test_start_is_subtracted():
    values = beyond(WHOLE, START)
    assert [values[name] for name in NAMES] == [2000, 2000, 40, 2, 0, None, 6, 2, 512]
    assert values["l1d_mpki"] == 20.0
    assert values["l3_mpki"] is None
    assert values["ipc"] == 1.0
    assert values["dram_bytes"] == 512
    assert values["lines_moved"] is None
    assert values["start"] == 1000


def test_start_longer_than_the_whole_is_an_error():
    with pytest.raises(ProgramError, match="give the program more to do"):
        beyond(START, {**START, "instructions": 2000})
