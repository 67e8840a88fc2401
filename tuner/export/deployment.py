"""What is exported, as plain values: variables, what they are valid for, what they gain.

Every format of `tuner.export.formats` writes the same `Deployment`; `tuner.export.sources` makes
one of a pick, an answer, or a setting.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tuner
from tuner.allocators import Allocator, Installation
from tuner.errors import OutputError, SpecError, TunerError
from tuner.export.reduction import Reduction
from tuner.front.picks import Pick, rule_words
from tuner.machine import Machine
from tuner.measure.preloads import PRELOAD
from tuner.records import Configuration
from tuner.stats import Estimate
from tuner.store import ValidationRecord

_LIBC = "libc.so.6"
"""What ld.so finds the C library under; preloaded, its malloc comes before any other."""


@dataclass(frozen=True)
class ObjectiveGain:
    """One objective against the baseline."""

    objective: str
    label: str
    """``mean heap``."""
    emulated: float | None
    """Ratio to the baseline in emulation; None when the baseline was not measured."""
    metric: str | None
    """What was measured on the program: ``CPU time``; None without a validation."""
    expected: float | None
    """Ratio that emulation leads to expect of the program; None where that is not known."""
    validated: Estimate | None
    """Ratio to the baseline on the program, with its interval where runs were enough."""
    verdict: str | None
    """What the validation says: ``confirmed``; or how often `optimize` ran it."""
    is_of_optimize: bool = False
    """`validated` is relative to the program as it was, whatever allocator that has."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One configuration with all a deployment should know about it."""

    pick: Pick | None = None
    """Of a campaign; None for others."""
    reduction: Reduction
    variables: tuple[tuple[str, str], ...]
    """Environment, LD_PRELOAD first where the allocator needs it; empty for glibc's default
    unless the program brings another allocator."""
    unset: tuple[str, ...] = ()
    """Variables that the program had as it was, and without which the gains were proven."""
    library: str | None
    """The file that LD_PRELOAD names."""
    is_shipped: bool
    """True when malloc-tuner brings that library, so that no package of the system has it."""
    version: str
    """Of the allocator."""
    campaign: str | None = None
    date: str | None = None
    """Day on which the campaign was started, ISO 8601; None for a setting."""
    n_trials: int | None = None
    trace: str | None = None
    """File name of the trace."""
    trace_sha256: str | None = None
    baseline: str | None = None
    """Name of the allocator whose default is the baseline."""
    gains: tuple[ObjectiveGain, ...] = ()
    validation: ValidationRecord | None = None
    """The last validation that ran this configuration."""
    valid_for: Mapping[str, str]
    """Facts of the machine that the numbers hang on, by name."""
    tool: str = f"malloc-tuner {tuner.__version__}"
    """Name and version of what wrote it."""
    brought: tuple[str, ...] = ()
    """Allocators that the program brings itself, by file name."""
    proof: str | None = None
    """Runs of the program that proved the gains; None for a pick of a campaign."""
    file_name: str | None = None
    """Name of the file that is written; None when it is printed."""
    notices: tuple[str, ...] = ()
    """What a reader of the validated numbers must know."""

    @property
    def rule(self) -> str:
        """That of the pick, as far as the program says nothing else."""
        seen = (one.validated.interval for one in self.gains if one.validated)
        costs = any(found.low > 1.0 for found in seen if found)
        return rule_words(self.pick.rule, costs=costs) if self.pick else ""

    @property
    def configuration(self) -> Configuration:
        """What the variables say."""
        return self.reduction.configuration

    @property
    def preloads(self) -> bool:
        """Whether LD_PRELOAD puts a malloc before every other one."""
        return self.library is not None or bool(self.brought)


@dataclass(frozen=True)
class Environment:
    """What a configuration is in the environment of a program."""

    variables: tuple[tuple[str, str], ...]
    library: str | None

    @classmethod
    def of(
        cls,
        adapter: Allocator,
        here: Installation,
        configuration: Configuration,
        elsewhere: Path | None,
        brought: tuple[str, ...] = (),
    ) -> Environment:
        """Render a configuration for the machine that the file is for.

        Args:
            adapter: of the allocator.
            here: the one that was measured.
            configuration: what is exported.
            elsewhere: where the library lies there; None for the same path.
            brought: allocators that the program brings itself.

        Raises:
            SpecError: `elsewhere` cannot stand in LD_PRELOAD, or there is no library to preload.
            OutputError: the path of the measured one cannot stand in LD_PRELOAD.
        """
        library = _deployed(adapter, here.library, elsewhere)
        there = Installation(adapter.name, library, here.version)
        variables = adapter.environment(there, configuration, for_export=True)
        if brought and library is None:
            variables = {PRELOAD: _LIBC, **variables}
        return cls(tuple(variables.items()), str(library) if library else None)


def _deployed(adapter: Allocator, measured: Path | None, wanted: Path | None) -> Path | None:
    """Return where the library lies on the machine the file is for."""
    if wanted is not None and measured is None:
        raise SpecError(
            f"--library {wanted}: {adapter.name} is the C library's own; none is preloaded"
        )
    library = wanted or measured
    if library is not None:
        _check_preloadable(str(library), SpecError if wanted else OutputError)
    return library


def _check_preloadable(library: str, error: type[TunerError]) -> None:
    """Refuse what ld.so would split: LD_PRELOAD knows no quoting."""
    if not library.startswith("/"):
        raise error(
            f"{library}: LD_PRELOAD needs a path from the root, such as /usr/local/lib/x.so"
        )
    if any(character.isspace() or character == ":" for character in library):
        raise error(
            f"{library}: LD_PRELOAD cannot name a path with blanks or colons; "
            "move the library, or run the campaign with a link to it"
        )


_FACTS = (
    ("libc", "C library"),
    ("architecture", "architecture"),
    ("kernel", "kernel"),
    ("thp", "transparent huge pages"),
    ("thp_defrag", "defragmentation for transparent huge pages"),
    ("page_bytes", "page size in bytes"),
    ("n_cpus", "cores"),
    ("max_map_count", "vm.max_map_count"),
)
"""Facts of `tuner.machine` that move allocator figures, with their names here."""


def facts_of(
    allocator: str, version: str, library: Path | str | None, machine: Machine | None
) -> dict[str, str]:
    """Return what the numbers of an allocator hang on, by name."""
    facts = {allocator: f"{version}, {library or 'the C library itself'}"}
    for name, label in _FACTS:
        value = getattr(machine, name, None)
        if value is not None:
            facts[label] = str(value)
    return facts


def command_text(record: ValidationRecord) -> str:
    """Return the validated command as a shell would take it."""
    return shlex.join(record.command)
