"""A few trials with a front of three points, for tests of fronts, bounds and picks."""

from tests.doubles.runs import MIB, failed_trial, trial
from tuner.records import Configuration, Status, Trial

NAMES = ("mean_heap", "cost")


def tried(number: int, heap_mib: float, cost: float, allocator: str = "glibc") -> Trial:
    settings = {"mxfast": number} if number else {}
    return trial(number, Configuration.of(allocator, settings), heap_mib * MIB, cost)


BASELINE = tried(0, 100.0, 1000.0)
TRIALS = (
    BASELINE,
    tried(1, 80.0, 990.0),  # better in both
    tried(2, 50.0, 1500.0),
    tried(3, 95.0, 700.0),
    tried(4, 80.0, 990.0),  # equals 1
    tried(5, 120.0, 2000.0),  # dominated
    failed_trial(6, Configuration.of("glibc", {"mxfast": 6}), Status.FAILED, "crashed"),
)
