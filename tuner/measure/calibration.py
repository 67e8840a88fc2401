"""What a page fault and a memory system call cost on this machine, in instructions.

User instructions alone miss the kernel: a setting that trades a few
instructions for a million page faults would look like a gain.  rand_malloc
measures the prices.  One measurement is one draw: what else runs, and which memory the
kernel happens to give, move it.  Several draws are kept in the user's cache; their medians
are the prices, and from the lowest to the highest end of their intervals is how far they can
be trusted.  A draw is added when the last one is old.  A campaign records the prices it was
begun with and keeps them: costs under other prices could not be compared.

Draws in a row all have what the machine, or the host of a virtual one, does at that moment.  So
the next ones soon follow, until there are some of several moments.  Draws that were taken while
others kept the processors busy, or that are far apart, are repeated; busy ones count only while
there are too few others.

One fault on a huge page brings 512 pages, which the kernel zeroes: it costs a hundred times what
a fault on a small page does.  rand_malloc counts how many came that way.
"""

import contextlib
import hashlib
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tuner.emulation import Calibration, Interval
from tuner.errors import OutputError
from tuner.measure.answers import misunderstood
from tuner.measure.clocks import Snapshot, snapshot
from tuner.measure.instruments import ask_emulator
from tuner.output import write_bytes
from tuner.resources import cache_folder

FEWEST_DRAWS = 3
"""Draws before prices are used; the median of three withstands one bad one."""

_MOST_DRAWS = 9
"""Draws kept; the oldest go first."""

_OLD_S = 24 * 3600.0
"""Age of the newest draw at which another one is taken."""

_SOON_S = 600.0
"""The same while the draws are in doubt; and what lies between two moments."""

_MOMENTS = 3
"""Moments of which there are draws, before they are beyond doubt."""

_FAR_APART = 1.25
"""Greatest ratio between the prices of a fault in two draws that agree.  A quiet machine's are
within 1.1 of each other."""

_BUSY_SHARE = 0.2
"""Share of all processor time that others take, from which a draw is one of a busy machine."""

_MOST_REPEATS = 2
"""Draws in a row beyond those that are due, where these are in doubt."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    ns_per_instruction: float = Field(gt=0)
    c_fault: float = Field(ge=0)
    c_page: float = Field(ge=0)
    c_syscall: float = Field(ge=0)
    c_fault_interval: Interval
    c_page_interval: Interval
    c_syscall_interval: Interval


class _Draw(_Answer):
    """One measurement as it is kept."""

    taken_at_s: float
    """Seconds since the epoch."""
    others_share: float = Field(ge=0)
    """Of the time of all processors meanwhile, what others took, the host of this machine too."""

    @property
    def is_busy(self) -> bool:
        return self.others_share > _BUSY_SHARE


_DRAWS = TypeAdapter(tuple[_Draw, ...])


def calibrate(emulator: Path | None = None) -> Calibration:
    """Measure the prices on this machine once, now; takes a few seconds.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed, or its answer is not understood.
    """
    return _combined([_take(emulator, time.time)])


def _ask(emulator: Path | None) -> _Answer:
    try:
        return _Answer.model_validate_json(ask_emulator("--calibrate", emulator))
    except ValidationError as error:
        raise misunderstood("the answer of rand_malloc --calibrate", error) from error


def _take(emulator: Path | None, clock: Callable[[], float]) -> _Draw:
    before = snapshot()
    answer = _ask(emulator)
    share = _others_share(before, snapshot())
    return _Draw(**answer.model_dump(), taken_at_s=clock(), others_share=share)


def _others_share(before: Snapshot | None, after: Snapshot | None) -> float:
    """Return what others took of the time of all processors, the host too; 0 if not known."""
    if before is None or after is None:
        return 0.0
    others_s = after.others_s - before.others_s
    return max(0.0, others_s / ((after.elapsed_s - before.elapsed_s) * (os.cpu_count() or 1)))


def _counting(draws: Sequence[_Draw]) -> Sequence[_Draw]:
    """Return the draws of a machine that was not busy; all of them where those are too few."""
    quiet = [draw for draw in draws if not draw.is_busy]
    return quiet if len(quiet) >= FEWEST_DRAWS else draws


def _agree(draws: Sequence[_Draw]) -> bool:
    """Return whether those that count are of a quiet machine, and none is far from another."""
    draws = _counting(draws)
    prices = [draw.c_fault for draw in draws]
    return max(prices) <= _FAR_APART * min(prices) and not any(draw.is_busy for draw in draws)


def _n_moments(draws: Sequence[_Draw]) -> int:
    times = [draw.taken_at_s for draw in draws]
    return 1 + sum(late - early >= _SOON_S for early, late in itertools.pairwise(times))


def _n_due(draws: Sequence[_Draw], now_s: float) -> int:
    """Return how many draws are to be taken now."""
    if len(draws) < FEWEST_DRAWS:
        return FEWEST_DRAWS - len(draws)
    is_settled = _agree(draws) and _n_moments(draws) >= _MOMENTS
    limit_s = _OLD_S if is_settled else _SOON_S
    return 0 if 0.0 <= now_s - draws[-1].taken_at_s <= limit_s else 1


def _combined(draws: Sequence[_Draw]) -> Calibration:
    """Return the medians of the draws that count, with the span of their intervals."""
    draws = _counting(draws)

    def middle(name: str) -> float:
        return statistics.median(float(getattr(draw, name)) for draw in draws)

    def span(name: str) -> Interval:
        lows, highs = zip(*(getattr(draw, f"{name}_interval") for draw in draws), strict=True)
        return min(lows), max(highs)

    return Calibration(
        c_fault=middle("c_fault"),
        c_syscall=middle("c_syscall"),
        ns_per_instruction=middle("ns_per_instruction"),
        c_page=middle("c_page"),
        c_fault_interval=span("c_fault"),
        c_page_interval=span("c_page"),
        c_syscall_interval=span("c_syscall"),
        n_draws=len(draws),
        n_busy=sum(draw.is_busy for draw in draws),
    )


def kept_calibration(emulator: Path | None = None) -> Calibration | None:
    """Return the prices of this machine from the draws that are kept, however old; None: none is.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed.
    """
    draws = _read(_cache_file(ask_emulator("--version", emulator)))
    return _combined(draws) if draws else None


def load_calibration(
    emulator: Path | None = None, clock: Callable[[], float] = time.time
) -> Calibration:
    """Return the prices of this machine from the draws there are, and from new ones if due.

    A cache that cannot be read or written costs new measurements, nothing else.

    Args:
        emulator: path of rand_malloc; None for the installed one.
        clock: returns the seconds since the epoch.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed, or its answer is not understood.
    """
    path = _cache_file(ask_emulator("--version", emulator))
    draws = _read(path)
    n_due = _n_due(draws, clock())
    if not n_due:
        return _combined(draws)
    draws += [_take(emulator, clock) for _ in range(n_due)]
    for _ in range(_MOST_REPEATS):
        if _agree(draws):
            break
        draws.append(_take(emulator, clock))
    draws = draws[-_MOST_DRAWS:]
    with contextlib.suppress(OutputError):
        write_bytes(path, _DRAWS.dump_json(tuple(draws)))
    return _combined(draws)


def _read(path: Path) -> list[_Draw]:
    with contextlib.suppress(OSError, ValueError):
        return list(_DRAWS.validate_json(path.read_bytes()))
    return []


def _cache_file(version: str) -> Path:
    identity = [version.strip(), platform.node(), platform.release(), _processor()]
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
    return cache_folder() / f"calibration-{digest}.json"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line
    return platform.machine()
