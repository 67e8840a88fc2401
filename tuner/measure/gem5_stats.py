"""The statistics of a simulation: gem5's ``stats.txt``, read, and compared without the host's.

Two runs of one simulation have done the same exactly when every statistic is equal but
those of the host: its seconds, its memory and rates made of them.

Format: one statistic per line, name, values, ``#`` and a description; several dumps follow
one another between lines of dashes.  Histograms have several values, which are all kept, as
they are written.

Source: gem5, src/base/stats/text.cc; names of host statistics, src/sim/root.cc.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.errors import ProgramError

_BEGIN = "---------- Begin Simulation Statistics ----------"
_END = "---------- End Simulation Statistics"
_HOST = re.compile(r"(?:\d+:)?(?:.*\.)?host[A-Z]\w*")
"""hostSeconds, hostTickRate, hostMemory, hostInstRate, hostOpRate."""

_ABSENT = "absent"


@dataclass(frozen=True)
class Statistics:
    """All statistics of one run."""

    values: Mapping[str, str]
    """Name -> values as written, single spaces between them.  Names of a second and later
    dump begin with its number: ``2:simTicks``."""

    @property
    def digest(self) -> str:
        """SHA-256 over all that is simulated, as hexadecimal digits."""
        text = "".join(f"{name} {value}\n" for name, value in sorted(self.simulated()))
        return hashlib.sha256(text.encode()).hexdigest()

    def simulated(self) -> Iterator[tuple[str, str]]:
        """Yield names and values of all statistics but the host's."""
        return (item for item in self.values.items() if not _HOST.fullmatch(item[0]))

    def number(self, name: str) -> float | None:
        """Return the value of a statistic that has one; None when there is no such number."""
        try:
            return float(self.values[name].split()[0])
        except (KeyError, IndexError, ValueError):
            return None

    def to_text(self) -> str:
        """Return all that is simulated in a form that `parse_statistics` reads."""
        lines = [f"{name} {value}" for name, value in self.simulated()]
        return "\n".join([_BEGIN, *lines, _END, ""])


@dataclass(frozen=True)
class Difference:
    """A statistic that two runs do not share."""

    name: str
    first: str
    """Value in the first run, or ``absent``."""
    second: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.name} is {self.second}, not {self.first}"


def parse_statistics(text: str, source: str) -> Statistics:
    """Read the content of a ``stats.txt``.

    Args:
        text: the whole content.
        source: file name for the message.

    Raises:
        ProgramError: it holds no statistics, or its last dump is cut off.
    """
    values: dict[str, str] = {}
    n_begun = n_ended = 0
    for line in text.splitlines():
        if line == _BEGIN:
            n_begun += 1
        elif line.startswith(_END):
            n_ended += 1
        elif n_begun > n_ended and line.strip():
            name, *rest = line.partition("#")[0].split()
            values[f"{n_begun}:{name}" if n_begun > 1 else name] = " ".join(rest)
    if n_begun == 0 or n_begun != n_ended or not values:
        raise ProgramError(
            f"{source}: holds no complete statistics; the simulation ended too early"
        )
    return Statistics(values)


def differences(first: Statistics, second: Statistics) -> list[Difference]:
    """Return the simulated statistics that differ, by name."""
    one, other = dict(first.simulated()), dict(second.simulated())
    return [
        Difference(name, one.get(name, _ABSENT), other.get(name, _ABSENT))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]
