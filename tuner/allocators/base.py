"""What all allocators have in common: one adapter finds, renders and reads back.

An adapter is driven by its search-space file, which says how the allocator is configured and what
it prints of itself.  That is enough for an allocator that prints its version and its settings; a
subclass reads another answer (`version_of`, `effective`, `agrees`) from what the probe observed.
The rule behind `read_back`: a setting counts only if it took effect, so every setting of a
configuration must be found again with the value that was asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.allocators.facts import HostFacts, WorkloadFacts, missing_requirement
from tuner.allocators.libraries import find_library
from tuner.allocators.probe import ProbeReport, run_probe
from tuner.config import Narrowing, ParameterSpec, is_version_in
from tuner.config.levels import Level, Levels
from tuner.errors import MissingToolError, SettingError, SpecError
from tuner.records import Configuration, Value
from tuner.resources import native_file
from tuner.space import Condition, Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.config import AllocatorFile

_ASKING: Final = "thp=madvise"
"""What a setting requires whose levels ask the kernel for huge pages wherever memory lies."""


@dataclass(frozen=True)
class Installation:
    """One allocator as it is present on this machine."""

    allocator: str
    """Name of the adapter."""
    library: Path | None
    """File to preload; None for libc's own malloc."""
    version: str
    """Dotted version number, as the library itself says."""


@dataclass(frozen=True)
class Mismatch:
    """One setting that did not take effect as asked."""

    setting: str
    asked: Value
    effective: Level = None
    """What the allocator works with; None when it does not know the setting."""
    why: str = ""
    """Why the value is refused whatever the allocator makes of it; empty: by what is in effect."""

    def __str__(self) -> str:
        """Return the message without the name of the allocator."""
        if self.why:
            return f"{self.setting} = {self.asked!r} {self.why}"
        if self.effective is None:
            return f"{self.setting} = {self.asked!r} was not taken: the allocator does not know it"
        return f"{self.setting} = {self.asked!r} was not taken: {self.effective!r} is in effect"


class Allocator:
    """Adapter of one allocator; as it is, of one that prints its version and its settings."""

    def __init__(self, file: AllocatorFile, library: Path | None = None) -> None:
        """Use a library instead of the one that the file names."""
        self.file = file
        self.name = file.name
        """Of the adapter, of its file in configs/allocators and of its genes."""
        self._library = library
        self._proved: set[Any] = set()
        """What took effect in an earlier read-back: variables, or whole environments."""

    # ---- what an allocator may do in its own way ----

    def render(self, configuration: Configuration, *, for_export: bool = False) -> dict[str, str]:
        """Return the environment variables that set a configuration.

        Args:
            configuration: of this allocator.
            for_export: leave out what only the search harness wants (jemalloc's
                abort_conf, which would stop a service after an upgrade).
        """
        return self.file.environment.variables(configuration.settings, for_export=for_export)

    def version_of(self, report: ProbeReport) -> str:
        """Return the version number in a report, or "" if the allocator was not there."""
        pattern = self.file.report.version
        found = re.search(pattern, report.messages, re.MULTILINE) if pattern else None
        return found["version"] if found else ""

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return every setting whose effective value the report shows."""
        pattern = self.file.report.setting
        found = re.finditer(pattern, report.messages, re.MULTILINE) if pattern else ()
        return {match["name"].lower(): _printed(match["value"]) for match in found}

    def agrees(
        self,
        setting: str,
        asked: Value,
        effective: Value,
        report: ProbeReport,  # noqa: ARG002 - for subclasses
    ) -> bool:
        """Return whether an effective value is what was asked, roundings by design included."""
        del setting
        return effective in {asked, self.file.environment.text(asked)}

    def check_workload(self, workload: WorkloadFacts) -> None:
        """Refuse a workload that the allocator cannot serve.

        Raises:
            SpecError: says which it serves, and what to use instead.
        """

    def reporters(self) -> dict[str, str]:
        """Return variables that make the allocator report on itself, for read-back only."""
        return self.file.report.environment

    def observe(self, environment: Mapping[str, str]) -> ProbeReport:
        """Run the probe with an environment, and whatever else this allocator needs."""
        return run_probe({**environment, **self.reporters()})

    # ---- common to all ----

    def wants_huge_pages(self, configuration: Configuration) -> bool:
        """Return whether a configuration asks the kernel for huge pages for all memory.

        How many of its pages are huge then depends on the addresses at which its heap lies.
        """
        asking = [one for one in self.file.parameters if _ASKING in one.requires]
        return any(
            one.name == name and value in one.levels
            for one in asking
            for name, value in configuration.settings
        )

    def locate(self, path: Path | None = None) -> Installation:
        """Find the library and ask it for its version.

        Args:
            path: library file to use instead of the distribution's.

        Raises:
            MissingToolError: not installed, not loadable, not this allocator, a version the
                adapter does not know, or a program does not run with it.
        """
        library = path or self._library or self._find_library()
        if library is not None and not library.is_file():
            remedy = self.how_to_install()
            if path or self._library:
                remedy = f"name one that is there, or {self.name} without a path"
            raise MissingToolError(f"{self.name}: {library}: no such file; {remedy}")
        try:
            report = self.observe({"LD_PRELOAD": str(library)} if library else {})
            version = self.version_of(report)
        except SettingError as error:
            raise MissingToolError(f"{self.name}: {library or 'libc'}: {error}") from error
        if not version:
            raise MissingToolError(f"{library} is not {self.file.title}; {self.how_to_install()}")
        if why := _not_used(library, report):
            raise MissingToolError(f"{self.name}: {why}")
        if not version[0].isdecimal():
            raise MissingToolError(f"{self.name}: its version, {version!r}, begins with no number")
        if not is_version_in(version, self.file.library.versions):
            wanted = self.file.library.versions
            raise MissingToolError(
                f"{self.name} {version} at {library or 'libc'} is not supported; need {wanted}"
            )
        return Installation(self.name, library, version)

    def how_to_install(self) -> str:
        """Return the sentence on how to get the library."""
        if self.file.library.part:
            return (
                "it comes with malloc-tuner: `pip install .` builds and installs it; "
                f"or name the file as {self.name}:/path/to/library.so"
            )
        named = f"name the file as {self.name}:/path/to/library.so"
        package, *older = self.file.library.package.split("|")
        if not package:
            return named
        how = f"with `sudo apt-get install {package}`"
        instead = "".join(f" ({name} where there is none)" for name in older)
        return f"install the Debian package {package} {how}{instead}, or {named}"

    def parameters(
        self,
        installation: Installation,
        host: HostFacts,
        workload: WorkloadFacts,
        narrowing: Mapping[str, Narrowing] | None = None,
    ) -> tuple[Parameter, ...]:
        """Return the genes that can act here, named ``<allocator>.<setting>``.

        Args:
            installation: decides by its version which parameters exist.
            host: decides about huge pages and cores.
            workload: decides about threads and time.
            narrowing: what the campaign says about parameters of this allocator.

        Raises:
            SpecError: the campaign names a parameter or a value that this version lacks, or
                the allocator cannot serve the workload.
        """
        self.check_workload(workload)
        wishes = narrowing or {}
        self._check_wishes(wishes, installation.version)
        genes: dict[str, Parameter] = {}
        for spec in self._known(installation.version):
            wish = wishes.get(spec.name)
            if missing_requirement(spec.requires, host, workload) or (spec.optional and not wish):
                continue
            levels = spec.narrowed(wish) if wish else spec.groups
            gene = self._gene(spec, _limited(levels, spec, workload), genes)
            if gene is not None:
                genes[spec.name] = gene
        return tuple(genes.values())

    def left_out(
        self, installation: Installation, host: HostFacts, workload: WorkloadFacts
    ) -> dict[str, str]:
        """Return the parameters that cannot act here, with the reason."""
        known = self._known(installation.version)
        reasons = {s.name: missing_requirement(s.requires, host, workload) for s in known}
        return {name: reason for name, reason in reasons.items() if reason}

    def configuration(self, settings: Mapping[str, Value], version: str) -> Configuration:
        """Build a configuration from settings of a file or of a command line.

        Args:
            settings: setting -> value; texts are converted to the setting's type.
            version: of the installation.

        Raises:
            SpecError: an unknown or forbidden setting, or a value of the wrong type.
        """
        typed: dict[str, Value] = {}
        for name, value in settings.items():
            try:
                spec = self.file.setting(name, version)
            except ValueError as error:
                raise SpecError(str(error)) from error
            try:
                typed[name] = spec.coerce(value)
            except ValueError as error:
                raise SpecError(f"{self.name}.{name}: {error}") from error
        return Configuration.of(self.name, typed)

    def environment(
        self, installation: Installation, configuration: Configuration, *, for_export: bool = False
    ) -> dict[str, str]:
        """Return all variables that run a program under a configuration, LD_PRELOAD included."""
        preload = {"LD_PRELOAD": str(installation.library)} if installation.library else {}
        return {**preload, **self.render(configuration, for_export=for_export)}

    def read_back(self, installation: Installation, configuration: Configuration) -> None:
        """Check that every setting of a configuration takes effect as asked.

        What this adapter saw taking effect before is not run again.

        Raises:
            SettingError: a setting was ignored, clipped or refused, or malloc is not the
                allocator's; names setting, asked and effective value.
            MissingToolError: the library cannot be preloaded.
        """
        self._check_known(installation, configuration)
        self._refuse(installation.version, self._out_of_range(configuration, installation.version))
        environment = self.environment(installation, configuration)
        variables = frozenset(environment.items())
        claims = variables if self.file.report.separate else frozenset({variables})
        if claims <= self._proved:
            return
        try:
            report = self.observe(environment)
        except SettingError as error:
            raise SettingError(f"{configuration}: {error}") from error
        if why := _not_used(installation.library, report):
            raise SettingError(f"{self.name}: {why}")
        self._refuse(installation.version, self.mismatches(configuration, report))
        self._proved |= claims

    def _refuse(self, version: str, problems: Sequence[Mismatch]) -> None:
        if problems:
            raise SettingError(f"{self.name} {version}: " + "; ".join(map(str, problems)))

    def mismatches(self, configuration: Configuration, report: ProbeReport) -> list[Mismatch]:
        """Compare what was asked with what the probe saw."""
        effective = self.effective(report)
        out = self._out_of_range(configuration, self.version_of(report))
        known = {mismatch.setting for mismatch in out}
        return [*out] + [
            Mismatch(setting, asked, effective.get(setting))
            for setting, asked in configuration.settings
            if setting not in known and not self._took_effect(setting, asked, effective, report)
        ]

    def _out_of_range(self, configuration: Configuration, version: str) -> list[Mismatch]:
        """Return the settings whose value the allocator misreads, or hides what it made of it."""
        found = []
        unproven = {*self.file.report.partly, *self.file.report.hidden}
        for setting, asked in configuration.settings:
            try:
                spec = self.file.find(setting, version)
            except ValueError:
                continue  # the allocator does not know it, which the report shows
            why = _misread(spec, asked)
            if not why and setting in unproven and not _on_scale(spec, asked):
                shown = spec.groups.shown(is_free=spec.is_free)
                why = f"is refused: what becomes of it cannot be seen; allowed: {shown}"
            if why:
                found.append(Mismatch(setting, asked, why=why))
        return found

    def _took_effect(
        self, setting: str, asked: Value, effective: Mapping[str, Value], report: ProbeReport
    ) -> bool:
        if setting not in effective:
            return setting in self.file.report.hidden
        return self.agrees(setting, asked, effective[setting], report)

    def _check_known(self, installation: Installation, configuration: Configuration) -> None:
        for setting, _ in configuration.settings:
            try:
                self.file.find(setting, installation.version)
            except ValueError as error:
                raise SettingError(str(error)) from error

    def _check_wishes(self, wishes: Mapping[str, Narrowing], version: str) -> None:
        for name, wish in wishes.items():
            try:
                self.file.find(name, version).narrowed(wish)
            except ValueError as error:
                raise SpecError(f"space.{self.name}.{name}: {error}") from error

    def _known(self, version: str) -> list[ParameterSpec]:
        """Return the parameters a version has; of several entries of a name the first."""
        known: dict[str, ParameterSpec] = {}
        for spec in self.file.parameters:
            if is_version_in(version, spec.versions):
                known.setdefault(spec.name, spec)
        return list(known.values())

    def _gene(
        self, spec: ParameterSpec, levels: Levels, genes: Mapping[str, Parameter]
    ) -> Parameter | None:
        """Return the gene of a parameter, or None if nothing is left to choose."""
        words = levels.all
        if all(level is None for level in words):
            return None
        condition = None
        if spec.when is not None:
            when = spec.when
            parent = genes.get(when.parameter)
            parent_levels: Sequence[Level] = parent.levels if parent else (None,)
            default = self.file.find(when.parameter).default
            allowed = tuple(level for level in parent_levels if when.allows(level, default))
            if not allowed:
                return None
            condition = Condition(parent.name, allowed) if parent else None
        rest = spec.resting if spec.resting in words else None
        resting = words.index(rest) if rest in words else 0
        name = f"{self.name}.{spec.name}"
        return Parameter(name, words, spec.is_ordered, condition, spec.structural, resting)

    def _find_library(self) -> Path | None:
        """Return the library shipped or installed; None for the allocator of libc.

        Raises:
            MissingToolError: not installed.
        """
        if self.file.library.part:
            return native_file(self.file.library.part)
        if not self.file.library.sonames:
            return None
        for soname in self.file.library.sonames:
            path = find_library(soname)
            if path is not None:
                return path
        message = f"{self.name}: {self.file.library.sonames[0]} is not on this machine; "
        raise MissingToolError(message + self.how_to_install())


def _not_used(library: Path | None, report: ProbeReport) -> str:
    """Return where malloc comes from if not from the library; else nothing."""
    if library is None or report.malloc_from == library.resolve():
        return ""
    return f"malloc comes from {report.malloc_from}, not {library}"


def _printed(text: str) -> Value:
    """Return what a library printed, as a number where it is one."""
    return int(text) if re.fullmatch(r"-?\d+", text) else text


_MOST_MS: Final = 1 << 53
"""An allocator adds a delay to the time, or multiplies it before: a sum that wraps around is past,
and mimalloc 2 purges at once (src/segment.c)."""


def _misread(spec: ParameterSpec, value: Value) -> str:
    """Return why no allocator takes a value as it is meant: its type, or a sign it has no use for.

    A negative size or count wraps around to a very large one, without a word.
    """
    try:
        spec.coerce(value)
    except ValueError as error:
        return f"is refused: {error}"
    if spec.unit == "ms" and not isinstance(value, str) and value > _MOST_MS:
        return f"is refused: no clock counts so many ms; allowed are at most {_MOST_MS}"
    numbers = [x for x in spec.levels if isinstance(x, int | float)]
    if isinstance(value, str) or not numbers or value >= 0 or min(numbers) < -1:
        return ""
    if value in numbers:
        return ""
    never = ", or -1" if min(numbers) == -1 else ""
    return f"is refused: it is negative; allowed is 0 or more{never}"


def _on_scale(spec: ParameterSpec, value: Value) -> bool:
    try:
        spec.narrowed(Narrowing(values=(value,)))
    except ValueError:
        return False
    return True


def _limited(levels: Levels, spec: ParameterSpec, workload: WorkloadFacts) -> Levels:
    """Cut a scale at the first value that is not below the number of threads."""
    if spec.limit != "threads":
        return levels
    numbers = [x for x in levels.scale if isinstance(x, int)]
    enough = next((x for x in numbers if x >= workload.n_threads), None)
    kept = tuple(x for x in numbers if enough is None or x <= enough)
    return replace(levels, scale=kept)
