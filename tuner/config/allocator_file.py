"""Model of ``configs/allocators/*.toml``: the settings of an allocator, level by level.

A file says where the allocator is, how it is configured and what it prints of itself
(`tuner.config.allocator_interface`).  It lists every parameter with its scale, special values, the
parent that switches it on, the versions that know it and what it requires of machine and workload;
and, under ``[never]``, the knobs that no search may touch, with the reason.  Several entries may
share a name when their version ranges differ; the first that fits is taken.  docs/allocators.md
explains the format with examples.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from tuner.config.allocator_interface import (
    EnvironmentSpec,
    LibrarySpec,
    ReportSpec,
    Scalar,
    Sentence,
    VersionRange,
)
from tuner.config.levels import UNSET, Level, Levels, Scale, check_scale, coerce, scale_levels
from tuner.config.option_list import complete, read_option_list
from tuner.config.reading import StrictModel, closest, problems_error, read_toml, show, validate
from tuner.config.versions import is_version_in
from tuner.errors import SpecError
from tuner.records import Value
from tuner.registry import ALLOCATORS
from tuner.resources import configs_dir
from tuner.units import parse_size

ALL: Final = "all"
"""How a campaign takes in an optional parameter with every level."""

Requirement = Literal[
    "threads", "thp", "thp=madvise", "long_running", "own_threads", "frees_over_2_gib"
]
"""What a parameter needs before it can have an effect; `tuner.allocators.facts` decides."""


def _number(value: object) -> object:
    """Let sizes be written with units: ``"64 KiB"``."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except ValueError as error:
        raise ValueError(f'{value!r} is neither a number nor a size such as "64 KiB"') from error


Number = Annotated[int | float, BeforeValidator(_number)]


class When(StrictModel):
    """The parent that switches a parameter on."""

    parameter: str
    """Name of a parameter that stands earlier in the file."""
    values: tuple[Scalar, ...] | None = None
    """Values of the parent that switch on; the text "unset" stands for unset."""
    unless: tuple[Scalar, ...] | None = None
    """Values of the parent that switch off; all others switch on."""

    @model_validator(mode="after")
    def _one_way(self) -> When:
        if (self.values is None) == (self.unless is None):
            raise ValueError("give either values or unless")
        return self

    def allows(self, level: Level, default: Value | None = None) -> bool:
        """Return whether a level of the parent switches the child on.

        Args:
            level: of the parent.
            default: what the parent's unset stands for, if that is known.
        """
        words = (UNSET, default) if level is None else (level,)
        if self.values is not None:
            return any(_holds(self.values, word) for word in words)
        return not any(_holds(self.unless or (), word) for word in words)


class Narrowing(StrictModel):
    """What a campaign says about one parameter: leave it out, or keep part of its levels."""

    form: Literal["unset", "all", "part"] = "part"
    """unset: never set, the parameter leaves the search; all: every level of the file."""
    # An array is no tuple once the short forms below have been taken apart.
    values: Annotated[tuple[Scalar, ...] | None, Strict(strict=False)] = None
    """Exactly these levels (unset always stays, because the default is always measured)."""
    low: Number | None = None
    """Smallest value of the scale to keep, in the unit of the parameter."""
    high: Number | None = None
    """Greatest value of the scale to keep, in the unit of the parameter."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:  # noqa: ANN401 - anything may stand in a file
        if data in (UNSET, ALL):
            return {"form": data}
        if isinstance(data, list):
            return {"values": data}
        return {"values": [data]} if isinstance(data, bool | int | float | str) else data

    @model_validator(mode="after")
    def _one_form(self) -> Narrowing:
        has_range = self.low is not None or self.high is not None
        if sum([self.form != "part", self.values is not None, has_range]) != 1:
            raise ValueError('give a value, an array of values, low and high, "unset" or "all"')
        return self


class ParameterSpec(StrictModel):
    """One parameter of an allocator."""

    name: str
    """The allocator's own name for it, without prefix; unique per version."""
    scale: Scale
    """How the levels are laid out; see `tuner.config.levels`."""
    low: Number | None = None
    """First value of a scale, in `unit`."""
    high: Number | None = None
    """Last value of a scale, in `unit`."""
    step: Annotated[int, Field(ge=1)] | None = None
    """Distance of the levels of a linear scale."""
    values: tuple[Scalar, ...] | None = None
    """Levels of an ordinal or categorical parameter."""
    specials: tuple[Scalar, ...] = ()
    """Values off the scale with a meaning of their own, of any type: 0 = off, -1 or "never"."""
    unit: str = ""
    """bytes, ms, blocks ...; for people."""
    unset: bool = True
    """False only where the absence of the setting is no choice of its own."""
    default: Scalar | None = None
    """What unset stands for, where setting it is the same; unset
    then stands for it among the levels."""
    structural: bool = False
    """True for a gene that only gates others and is never passed to the allocator."""
    optional: bool = False
    """True: joins a search only when the campaign names it."""
    resting: Scalar | None = None
    """Level with which the gene wakes up when its parent switches it on; default: the first."""
    limit: Literal["threads"] | None = None
    """Cut the scale at the first value that is not below the number of threads."""
    when: When | None = None
    versions: VersionRange = ""
    """Versions of the allocator that know the parameter; empty = all."""
    requires: tuple[Requirement, ...] = ()
    """Facts of machine and workload without which the parameter cannot act."""
    effect: Sentence
    """One sentence: what it trades for what."""
    source: Sentence
    """Where this is known from."""

    @model_validator(mode="after")
    def _complete(self) -> ParameterSpec:
        check_scale(self.scale, self.low, self.high, self.step, self.values)
        if not self.groups.scale:
            raise ValueError(f"default: {show(self.default)} is the only value of the scale")
        if self.resting is not None and not _holds(self.levels, self.resting):
            raise ValueError(f"resting: {show(self.resting)} is not a level")
        return self

    @functools.cached_property
    def groups(self) -> Levels:
        """All levels: unset, then the specials, then the scale in rising order."""
        scale = scale_levels(self.scale, self.low, self.high, self.step, self.values)
        kind, ends = type(scale[-1]), (scale[0], scale[-1])
        specials = tuple(_special(kind, value) for value in self.specials)
        default = self.default
        if default is not None and not (isinstance(default, str) and default in specials):
            default = coerce(kind, default)
        if default is not None and self.unset:
            scale, specials = _without(scale, default), _without(specials, default)
        return Levels((None,) if self.unset else (), specials, scale, ends, default)

    @functools.cached_property
    def levels(self) -> tuple[Level, ...]:
        """All levels, unset first."""
        return self.groups.all

    @property
    def value_type(self) -> type:
        """Type of the values: bool, int, float or str."""
        return type(self.groups.scale[-1])

    @property
    def is_ordered(self) -> bool:
        """True when neighbouring levels of the scale are alike."""
        return self.scale not in {"categorical", "boolean"}

    @property
    def is_free(self) -> bool:
        """True when any number between the ends of the scale may be wanted."""
        return self.scale in {"log2", "log", "linear"}

    def coerce(self, value: Value) -> Value:
        """Return a value in the type of this parameter, or refuse it; ranges are not checked.

        Raises:
            ValueError: the value has another type; says which is wanted.
        """
        if isinstance(value, str) and value in self.specials:
            return value
        return coerce(self.value_type, value, self.unit)

    def narrowed(self, narrowing: Narrowing) -> Levels:
        """Return the levels a campaign keeps.

        Raises:
            ValueError: a value is not within this parameter's levels or scale.
        """
        groups = self.groups
        if narrowing.form == UNSET:
            return replace(groups, specials=(), scale=())
        if narrowing.values is not None:
            wanted = [self.coerce(value) for value in narrowing.values if value != UNSET]
            return groups.only(wanted, is_free=self.is_free)
        if narrowing.form == ALL:
            return groups
        return groups.between(narrowing.low, narrowing.high)


class AllocatorFile(StrictModel):
    """One allocator: its library, its parameters, and what is never touched."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Sentence
    title: Sentence
    library: LibrarySpec
    environment: EnvironmentSpec
    report: ReportSpec = ReportSpec()
    option_list: str = ""
    """Native part with the allocator's own list of settings, from which `parameters` come."""
    purges_after: tuple[str, ...] = ()
    """Settings with the time after which freed memory goes back, unless it is 0 or -1, never."""
    never_purges: dict[str, Scalar] = Field(default_factory=dict)
    """Setting -> value with which none goes back for its age, whatever `purges_after` says."""
    parameters: tuple[ParameterSpec, ...]
    never: dict[str, Sentence] = Field(default_factory=dict)
    """Knob -> the reason why no search may set it."""

    def find(self, name: str, version: str | None = None) -> ParameterSpec:
        """Return the parameter of a name, for a version if one is given.

        Raises:
            ValueError: no such parameter (of that version), or it is never to be set.
        """
        if name in self.never:
            raise ValueError(
                f"{self.name}.{name} is never set: {self.never[name]}; to have it all the same, "
                "set the allocator's own environment variable"
            )
        named = [p for p in self.parameters if p.name == name]
        fitting = [p for p in named if version is None or is_version_in(version, p.versions)]
        if fitting:
            return fitting[0]
        if named:
            known = " or ".join(p.versions for p in named)
            raise ValueError(f"{name} is not offered for {self.name} {version}; it is for {known}")
        names = list(dict.fromkeys(p.name for p in self.parameters))
        hint = closest(name, [*names, *self.never])
        raise ValueError(
            f"{self.name} has no setting {name!r}{hint or ';'} known: {', '.join(names)}"
        )

    def setting(self, name: str, version: str | None = None) -> ParameterSpec:
        """Return what `find` does, of what the allocator itself has; raises ValueError too."""
        found = self.find(name, version)
        if found.structural:
            raise ValueError(
                f"{self.name}.{name} decides which settings are searched and is none itself; "
                "leave it out"
            )
        return found

    def purges_by_clock(self, settings: Mapping[str, object]) -> bool:
        """Return whether freed memory goes back after a time: more where work takes longer.

        Args:
            settings: name -> value.
        """
        if any(settings.get(name) == value for name, value in self.never_purges.items()):
            return False
        at_once_or_never = (0, -1)
        return bool(self.purges_after) and all(
            settings.get(name) not in at_once_or_never for name in self.purges_after
        )

    def narrowing_problem(self, name: str, narrowing: Narrowing) -> str | None:
        """Return why no version of a parameter can be narrowed like this, or None."""
        problem = None
        try:
            self.find(name)
        except ValueError as error:
            return str(error)
        for parameter in (p for p in self.parameters if p.name == name):
            try:
                parameter.narrowed(narrowing)
            except ValueError as error:
                problem = problem or str(error)
            else:
                return None
        return problem

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of all parameters, each once, in file order."""
        return tuple(dict.fromkeys(p.name for p in self.parameters))


def load_allocator_file(path: Path) -> AllocatorFile:
    """Read a search-space file.

    Raises:
        SpecError: the file is unreadable or wrong; every problem is named.
    """
    file = validate(AllocatorFile, _completed(path), str(path))
    problems = [*_structure_problems(file)]
    if problems:
        raise problems_error(str(path), problems)
    return file


@functools.cache
def shipped_allocator_file(name: str) -> AllocatorFile:
    """Return the search space shipped for an allocator of `tuner.registry`."""
    return load_allocator_file(_shipped(name))


@functools.cache
def allocator_variables() -> re.Pattern[str]:
    """Return what the names of the variables are that configure the allocators."""
    names = [_with_like(_shipped(name))["environment"]["variable"] for name in ALLOCATORS]
    return re.compile("|".join(".*".join(map(re.escape, name.split("{NAME}"))) for name in names))


def _shipped(name: str) -> Path:
    return configs_dir() / "allocators" / f"{name}.toml"


def _completed(path: Path) -> dict[str, Any]:
    """Return a file with what it takes over from others and from a list of settings.

    How the allocator is configured and what it reports need not stand in a file that replaces a
    shipped one.
    """
    data = _with_like(path)
    shipped = _shipped(str(data.get("name")))
    if shipped.is_file():
        known = _with_like(shipped)
        data = {**{key: known[key] for key in ("environment", "report") if key in known}, **data}
    if "option_list" not in data:
        return data
    try:
        return complete(data, read_option_list(str(data["option_list"])))
    except (ValueError, TypeError, AttributeError) as error:
        raise SpecError(f"{path}: parameters: {error}") from error


def _with_like(path: Path) -> dict[str, Any]:
    """Return a file with what it takes over from the one it is like."""
    data = read_toml(path)
    if "like" in data:
        data = {**read_toml(path.parent / str(data.pop("like"))), **data}
    return data


def _structure_problems(file: AllocatorFile) -> list[str]:
    """Check what no single entry can know: parents, and names that are also forbidden."""
    problems = []
    earlier: dict[str, ParameterSpec] = {}
    for parameter in file.parameters:
        path = f"parameters.{parameter.name}"
        if parameter.name in file.never:
            problems.append(f"{path}: also listed under never")
        parent = parameter.when and earlier.get(parameter.when.parameter)
        if parameter.when and parent is None:
            wanted = parameter.when.parameter
            problems.append(f"{path}.when: {wanted!r} is not a parameter that stands before it")
        if parameter.when and parent:
            problems += _parent_problems(path, parameter.when, parent)
        earlier[parameter.name] = parameter
    return problems


def _parent_problems(path: str, when: When, parent: ParameterSpec) -> list[str]:
    words = (*(UNSET if level is None else level for level in parent.levels), parent.default)
    return [
        f"{path}.when: {show(value)} is not a level of {parent.name}"
        for value in (when.values or when.unless or ())
        if not _holds(words, value)
    ]


def _special(kind: type, value: Value) -> Value:
    """Return a number as the numbers of a scale are, and what is no number as it is."""
    if kind not in {int, float} or isinstance(value, bool | str):
        return value
    return coerce(kind, value)


def _without(levels: tuple[Value, ...], value: Value) -> tuple[Value, ...]:
    return tuple(level for level in levels if not _holds((value,), level))


def _holds(values: tuple[Level, ...], wanted: Level) -> bool:
    """Membership in which True is not 1."""
    return any(v == wanted and isinstance(v, bool) == isinstance(wanted, bool) for v in values)
