"""What a figure was measured with: stands beside every result that is kept.

Version and native parts of malloc-tuner, the machine, the command and the day.  A native part is
known by the head of its SHA-256, so that two builds of one version differ.  No process is
started.  What a checkout adds, its commit and its sources, is in `benchmarks.provenance`.
"""

import hashlib
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import tuner
from tuner.machine import Machine, read_machine
from tuner.resources import native_file

DIGEST_CHARACTERS: Final = 16
"""Of a SHA-256, in hexadecimal: enough to distinguish builds."""

MEASURING: Final = (
    "rand_malloc",
    "supervise",
    "malloc_bench",
    "librecorder.so",
    "build_trace",
    "instruction_count_1.so",
    "instruction_count_2.so",
    "libmalloctrace.so",
    "libexgen.so",
    "libexgen-st.so",
)
"""Native parts that figures depend on."""


@dataclass(frozen=True)
class Provenance:
    """One measurement's origin."""

    malloc_tuner: str
    """Version."""
    native: dict[str, str]
    """Native part → digest."""
    machine: Machine
    command: str
    """As a shell would take it."""
    date: str
    """When it was kept: day and minute, UTC."""

    def as_record(self) -> dict[str, Any]:
        """Return the JSON."""
        return asdict(self)


def digest(*paths: Path) -> str:
    """Return a digest of the content of files: 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:DIGEST_CHARACTERS]


def native_digests() -> dict[str, str]:
    """Return the digests of the native parts.

    Raises:
        MissingToolError: one is not installed.
    """
    return {name: digest(native_file(name)) for name in MEASURING}


def take_provenance(command: Sequence[str]) -> Provenance:
    """Return where a measurement of this moment comes from.

    Args:
        command: the words that started it.

    Raises:
        MissingToolError: malloc-tuner is installed without its native parts.
    """
    return Provenance(
        malloc_tuner=tuner.__version__,
        native=native_digests(),
        machine=read_machine(),
        command=shlex.join(command),
        date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    )
