"""What a page fault and a memory system call cost on this machine, in instructions.

User instructions alone miss the kernel: a setting that trades a few
instructions for a million page faults would look like a gain.  rand_malloc
measures both prices once per machine; they are kept in the user's cache,
because a second measurement would differ a little and costs could then not be
compared.  A campaign records the prices it was made with.

One fault on a huge page brings 512 pages, which the kernel zeroes: it costs a hundred times what
a fault on a small page does.  How many came that way is not told per process; but of the pages of
the peak, those without a fault of their own must have.  That is the fewest it can have been.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.errors import ProgramError
from tuner.measure.instruments import ask_emulator

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True)
class Calibration:
    """Prices on one machine."""

    c_fault: float
    """Instructions that take as long as one minor page fault, at least 0."""
    c_syscall: float
    """Instructions that take as long as one memory system call, at least 0."""
    ns_per_instruction: float | None = None
    """For the record: nanoseconds of one instruction."""
    c_page: float = 0.0
    """Instructions that take as long as zeroing a page that comes with a huge page, at least 0;
    0 where there are no huge pages, and in campaigns that were begun without this price."""

    def cost(
        self, instructions: int | None, faults: int, syscalls: int | None, peak_bytes: int = 0
    ) -> float | None:
        """Return ``instructions + c_fault * faults + c_page * pages + c_syscall * syscalls``.

        Args:
            instructions: of the allocator.
            faults: minor page faults.
            syscalls: memory system calls.
            peak_bytes: of the heap; ``pages`` are those of them beyond the faults.

        Returns:
            None when instructions or system calls were not counted.

        Source: docs/decisions/measuring.md.

        Example:
            >>> Calibration(c_fault=1000.0, c_syscall=500.0).cost(10, 2, 1)
            2510.0
            >>> Calibration(c_fault=1000.0, c_syscall=500.0, c_page=300.0).cost(10, 2, 1, 5 * 4096)
            3410.0
        """
        if instructions is None or syscalls is None:
            return None
        n_pages = max(0, peak_bytes // _PAGE_BYTES - faults)
        kernel = self.c_fault * faults + self.c_page * n_pages + self.c_syscall * syscalls
        return instructions + kernel

    def as_record(self) -> dict[str, float | None]:
        """Return the fields for the record of a campaign."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Calibration:
        """Rebuild a calibration from `as_record`."""
        return cls(**record)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    c_fault: float = Field(ge=0)
    c_page: float = Field(ge=0)
    c_syscall: float = Field(ge=0)
    ns_per_instruction: float = Field(gt=0)

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.c_fault, self.c_syscall, self.ns_per_instruction, self.c_page)


def calibrate(emulator: Path | None = None) -> Calibration:
    """Measure the prices on this machine now; takes a second.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed, or its answer is not understood.
    """
    try:
        answer = _Answer.model_validate_json(ask_emulator("--calibrate", emulator))
    except ValidationError as error:
        message = f"rand_malloc --calibrate: not understood: {error}; reinstall malloc-tuner"
        raise ProgramError(message) from error
    return answer.calibration


def load_calibration(emulator: Path | None = None) -> Calibration:
    """Return the prices of this machine, measured the first time they are asked for.

    A cache that cannot be read or written costs a new measurement, nothing else.

    Raises:
        MissingToolError: rand_malloc is not installed.
        ProgramError: it failed, or its answer is not understood.
    """
    path = _cache_file(ask_emulator("--version", emulator))
    with contextlib.suppress(OSError, ValueError):
        answer = _Answer.model_validate_json(path.read_text(encoding="utf-8"))
        return answer.calibration
    calibration = calibrate(emulator)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: a concurrent reader sees all of it or none.
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(calibration.as_record()), encoding="utf-8")
        draft.replace(path)
    return calibration


def _cache_file(version: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    identity = [version.strip(), platform.node(), platform.release(), _processor()]
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
    return cache / "malloc-tuner" / f"calibration-{digest}.json"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line
    return platform.machine()
