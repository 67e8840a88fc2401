"""What a page fault and a memory system call cost on this machine, in instructions.

User instructions alone miss the kernel: a setting that trades a few
instructions for a million page faults would look like a gain.  rand_malloc
measures the prices.  One measurement is one draw: what else runs, and which memory the
kernel happens to give, move it.  Several draws are kept in the user's cache; their medians
are the prices, and from the lowest to the highest end of their intervals is how far they can
be trusted.  A draw is added when the last one is old.  A campaign records the prices it was
begun with and keeps them: costs under other prices could not be compared.

One fault on a huge page brings 512 pages, which the kernel zeroes: it costs a hundred times what
a fault on a small page does.  rand_malloc counts how many came that way.
"""

import contextlib
import hashlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tuner.emulation import Calibration, Interval
from tuner.measure.answers import misunderstood
from tuner.measure.instruments import ask_emulator
from tuner.resources import cache_folder

FEWEST_DRAWS = 3
"""Draws before prices are used; the median of three withstands one bad one."""

_MOST_DRAWS = 9
"""Draws kept; the oldest go first."""

_OLD_S = 24 * 3600.0
"""Age of the newest draw at which another one is taken."""


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


_DRAWS = TypeAdapter(tuple[_Draw, ...])


def calibrate(emulator: Path | None = None) -> Calibration:
    """Measure the prices on this machine once, now; takes a few seconds.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed, or its answer is not understood.
    """
    return _combined([_ask(emulator)])


def _ask(emulator: Path | None) -> _Answer:
    try:
        return _Answer.model_validate_json(ask_emulator("--calibrate", emulator))
    except ValidationError as error:
        raise misunderstood("the answer of rand_malloc --calibrate", error) from error


def _combined(draws: Sequence[_Answer]) -> Calibration:
    """Return the medians of the draws, with the span of their intervals."""

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
    is_old = not draws or clock() - draws[-1].taken_at_s > _OLD_S
    n_due = max(FEWEST_DRAWS - len(draws), 1 if is_old else 0)
    if not n_due:
        return _combined(draws)
    for _ in range(n_due):
        draws.append(_Draw(**_ask(emulator).model_dump(), taken_at_s=clock()))
    draws = draws[-_MOST_DRAWS:]
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: a concurrent reader sees all of it or none.
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(_DRAWS.dump_json(tuple(draws)))
        draft.replace(path)
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
