"""Ranges of the numbers that users give, on the command line, in files and in calls.

Beyond them a number is a typing error, which is refused at once and not found out
after hours.
"""

import os
from collections.abc import Collection
from typing import Final

from tuner.errors import SpecError
from tuner.units import Range, parse_duration, parse_percent, parse_size

BUDGET: Final = Range(parse_duration, "1 s", "1000 h")
"""Time for a whole command.  The end stays below the 10^7 s of `supervise --timeout`."""
RUN_TIME: Final = Range(parse_duration, "1 ms", "1000 h")
"""Limit of one run of a program."""
REST: Final = Range(parse_duration, "0 s", "1000 h")
"""Time in which nothing is done, or that is left out."""
EVENT_STEP: Final = Range(parse_duration, "0 s", "1 h")
"""Time between two events."""
EFFECT: Final = Range(parse_percent, "0.01 %", "100 %")
"""Least effect that counts."""
USUAL_TIME: Final = "10min"
"""Of an optimisation."""
USUAL_EVALUATIONS: Final = 300
"""Of a campaign."""
USUAL_EFFECT: Final = "1%"
"""Least effect that counts in one."""
AGED: Final = Range(parse_size, "0 B", "64 GiB")
"""What is allocated before a workload begins."""
DISK: Final = Range(parse_size, "1 MiB", "1024 TiB")
"""What a recording takes on disk; the least is a few buffers for each of a few threads."""
BLOCK: Final = Range(parse_size, "1 B", "1 GiB")
"""Size of a block that `bench` allocates."""

MOST_ROUNDS: Final = 10_000
MOST_RUNS: Final = 10_000
"""Of anything else that is repeated: warm-ups, seeds, points, configurations of a panel."""
SERVICE_ROUNDS: Final = 30
"""Of a comparison on a service at most, unless the user gives a number."""
MOST_EVALUATIONS: Final = 1_000_000_000
MOST_WORKERS: Final = 1024
MOST_EVENTS: Final = 10**12
MOST_NUMBER: Final = 10**9
"""Greatest number of a trial or validation."""
MOST_SEED: Final = 2**63 - 1
"""What SQLite and the native parts hold."""
MOST_PID: Final = 1 << 22
"""Source: Linux, PID_MAX_LIMIT in include/linux/threads.h."""


def usable_core(cpu: int | None) -> int | None:
    """Return a core that this process may use, or None for none.

    Raises:
        SpecError: it may not; names those that it may.
    """
    cores = sorted(os.sched_getaffinity(0))
    if cpu is not None and cpu not in cores:
        raise SpecError(f"--cpu {cpu}: give one of {', '.join(map(str, cores))}")
    return cpu


def check_rounds(rounds: int | None) -> None:
    """Refuse what is no number of rounds, None being the usual one; raises SpecError."""
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise SpecError(f"rounds {rounds}: give 1 to {MOST_ROUNDS:,}")


def check_words(name: str, words: object, least: int = 0) -> None:
    """Refuse what is no list of texts, such as one text, or is too short; raises SpecError."""
    found = words if isinstance(words, Collection) and not isinstance(words, str) else None
    if found is None or len(found) < least or not all(isinstance(word, str) for word in found):
        raise SpecError(f"{name} {words!r}: give a list of words, each a text of its own")
