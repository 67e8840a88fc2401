"""What is tuned, as the rest of `optimize` sees it: how it runs once, and what a run yields.

A program that ends is one kind (kinds/program.py), several commands are another (kinds/suite.py);
what a new one needs is the six members of `Tuned`, a row of quantities.py for what it measures
anew, and a line in kinds/making.py.  A run that fails is a sample with its reason, no error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeAlias

from tuner.compare.plan import Course, Step
from tuner.errors import StoreError
from tuner.optimize.quantities import GROWTH, TABLE
from tuner.records import Configuration, Outcome

AS_IS = "as it is"
"""Label of what runs in the caller's own environment: the baseline of everything."""

OWN_MALLOC = (
    "The program has a malloc of its own, which comes before those of libraries: other allocators "
    "and their settings may not act on it."
)
"""A note."""

_SLOWER = 2.0
"""Times the time of a run, that another one beside it may take."""

Logs = Mapping[str, list[float]]
"""Quantity -> log(baseline / candidate) of every round, or its negative where more is better:
above 0 where the candidate is better."""


Sample: TypeAlias = Mapping[str, float]
"""What one good run showed: quantity -> value in its unit, above 0; of a service `GROWTH` too, in
bytes per minute, which may be 0 or below."""


@dataclass(frozen=True)
class Reference:
    """What is tuned, as it is: what every other run must equal."""

    command: tuple[str, ...]
    """What is run: the command, or that of the child that stands for it."""
    values: Mapping[str, float]
    """Median of its first runs: quantity -> value."""
    exit_status: int
    output_sha256: str | None
    """None when it does not print the same each time."""
    brings: str | None
    """Allocator of its own, such as ``jemalloc``; None: libc's."""
    wall_s: float
    """Of one run, all that belongs to it included."""
    timeout_s: float
    is_busy: bool = False
    """It computes rather than waits: its memory is averaged over its CPU time, so that what else
    the machine does has no weight; else over elapsed time."""
    notes: tuple[str, ...] = ()
    """What a reader of the answer should know."""
    parts: tuple[Reference, ...] = ()
    """Of each command, where several are tuned on together."""
    n_threads: int | None = None
    """Greatest number seen alive at once; None where it is not known."""
    steered: tuple[str, ...] = ()
    """Variables in its environment that steer an allocator; candidates run without them."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """What candidates keep of LD_PRELOAD and GLIBC_TUNABLES, which is no allocator's, and what they
    have of `SWITCHES`."""
    program: str | None = None
    """The file that ran, where something else, such as a shell, may have started it; None: not
    known."""
    file_sha256: str = ""
    """Of the file of the program, or of several together; empty where none was found."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """File that its commands name, and that it leaves as it is -> SHA-256, or where these files are
    large, size and time of change."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Allocator -> version of its library; without those that are not known."""
    is_preloaded: bool = False
    """The allocator of its own is the library that settings of it preload."""
    requests: float = 1.0
    """That one run of a service's load serves; 1 for a program that ends."""
    environment: str = field(default="", compare=False)
    """Digest of what steered allocators in these runs; empty: not known."""

    @property
    def allocator(self) -> str:
        """Name of the allocator that it runs under."""
        return self.brings or "glibc"

    @property
    def malloc_name(self) -> str:
        """What it runs under, for a reader: the malloc of the program's own has no name."""
        is_own = self.brings is None and OWN_MALLOC in self.notes
        return "its own malloc" if is_own else self.allocator

    @property
    def whole_values(self) -> dict[str, float]:
        """The values, those of a request for all requests of a run."""
        return {
            name: value * (self.requests if TABLE[name].is_per_request else 1.0)
            for name, value in self.values.items()
        }

    def is_of(self, configuration: Configuration) -> bool:
        """Return whether a configuration is what the program runs under as it is."""
        is_known = self.brings is None or self.is_preloaded
        is_default = configuration == Configuration(self.allocator)
        return is_default and is_known and not self.steered

    def patient(self, n_at_once: int) -> Reference:
        """Return the same with limits of runs that share a core: the own once others ended."""
        others_s = _SLOWER * n_at_once * self.wall_s

        def beside(one: Reference) -> Reference:
            limit_s = min(n_at_once * one.timeout_s, others_s + one.timeout_s)
            return replace(one, timeout_s=limit_s)

        return replace(beside(self), parts=tuple(map(beside, self.parts)))

    def as_record(self) -> dict[str, Any]:
        """Return it for a journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Reference:
        """Rebuild it from `as_record`."""
        lists = {name: tuple(record[name]) for name in ("command", "notes", "steered")}
        parts = tuple(map(cls.from_record, record["parts"]))
        return cls(**{**record, **lists, "parts": parts})

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Read it from a file of `as_record`.

        Raises:
            StoreError: the file is damaged.
        """
        try:
            return cls.from_record(json.loads(path.read_bytes()))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path}: damaged ({error!r}); remove it to examine the program again"
            ) from error


Runs = Callable[[Step[None]], Outcome[Sample]]
"""Makes one run of a round."""


class ProgramRecording(NamedTuple):
    """What was recorded of it."""

    words: str
    notes: tuple[str, ...] = ()
    """What a reader of the answer should know."""


class Tuned(Protocol):
    """What is tuned; nothing runs before a method is called."""

    @property
    def command(self) -> tuple[str, ...]:
        """What names it: program and arguments."""
        ...

    def examine(self) -> Reference:
        """Run it as it is, at least twice: warms it up, and shows what it does.

        Raises:
            ProgramError: it fails, or does not do the same again.
            ProgramTimeoutError: it does not end in time.
        """
        ...

    def known(self, reference: Reference) -> tuple[Configuration, ...]:
        """Return settings that take part whatever emulation says, of the allocators asked for.

        Args:
            reference: what `examine` returned.
        """
        ...

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        """Record its allocations, and return what was recorded.

        Args:
            trace: the file to write.
            reference: what `examine` returned.

        Raises:
            ProgramError: nothing could be recorded.
            OutputError: the trace cannot be written.
        """
        ...

    def refusal(self, configuration: Configuration) -> str | None:
        """Return why an allocator does not take a setting; None when it does."""
        ...

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        """Return what makes one run of a round.

        Args:
            candidates: label -> setting; `AS_IS` is added to them.
            reference: what a run must equal.
        """
        ...

    def as_deployed(self, candidates: Mapping[str, Configuration]) -> Tuned:
        """Return the same with runs like those that these candidates will have."""
        ...


def logs_of(course: Course[None, Sample], label: str, baseline: str = AS_IS) -> Logs:
    """Return how much better a candidate is in every quantity, one value a round that has both."""
    mine, base = _good(course, label), _good(course, baseline)
    found: dict[str, list[float]] = {}
    for number in sorted(mine.keys() & base.keys()):
        for name, value in mine[number].items():
            found.setdefault(name, []).append(log_gain(name, base[number][name], value))
    return found


def log_gain(name: str, base: float, mine: float) -> float:
    """Return how much better a value is than the baseline's; above 0 where it is better."""
    log = math.log(base / mine)
    return -log if TABLE[name].is_more_better else log


def values_of(course: Course[None, Sample], label: str) -> dict[str, list[float]]:
    """Return all values of a subject, by quantity and in the order of rounds."""
    found: dict[str, list[float]] = {}
    for _, sample in sorted(_good(course, label).items()):
        for name, value in sample.items():
            found.setdefault(name, []).append(value)
    return found


def growth_of(course: Course[None, Sample], label: str) -> float | None:
    """Return the median growth of a service, in bytes per minute.

    Returns:
        None unless most of its runs were under load long enough for it.
    """
    runs = course.good(None, label).values()
    found = [run[GROWTH] for run in runs if GROWTH in run]
    return median(found) if 2 * len(found) > len(runs) else None


def _good(course: Course[None, Sample], label: str) -> dict[int, Sample]:
    """Return the quantities of the good runs of a subject, by round."""
    return {
        number: {name: value for name, value in run.items() if name in TABLE}
        for number, run in course.good(None, label).items()
    }


def label_of(configuration: Configuration) -> str:
    """Return the label of a configuration: ``mimalloc``, ``jemalloc narenas=2``.

    Example:
        >>> label_of(Configuration.of("glibc", {})), label_of(Configuration.of("exgen", {"a": 1}))
        ('glibc', 'exgen a=1')
    """
    return configuration.allocator if configuration.is_default else str(configuration)


def allocator_of(label: str) -> str:
    """Return the name of the allocator of what `label_of` labels.

    Example:
        >>> allocator_of("exgen"), allocator_of("exgen a=1")
        ('exgen', 'exgen')
    """
    return label.partition(" ")[0]
