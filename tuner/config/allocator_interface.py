"""Where an allocator is, how it is configured, and what it prints of itself.

The tables ``[library]``, ``[environment]`` and ``[report]`` of a search-space file.  They are all
that an allocator needs which prints its version and its settings; docs/allocators.md has an
example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from tuner.config.reading import StrictModel
from tuner.config.versions import version_range
from tuner.records import Value


def _scalar(value: object) -> Value:
    """Accept exactly the types a setting can have."""
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError("must be a number, a text, true or false")


def _version_range(text: str) -> str:
    version_range(text)
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


Scalar = Annotated[Value, PlainValidator(_scalar)]
Sentence = Annotated[str, Field(min_length=1)]
VersionRange = Annotated[str, AfterValidator(_version_range)]
Pattern = Annotated[str, AfterValidator(_pattern)]


class LibrarySpec(StrictModel):
    """Where an allocator comes from."""

    sonames: tuple[str, ...] = ()
    """File names under which distributions install it, best first."""
    package: str = ""
    """Debian package that provides it; where releases differ the newest name first: ``a|b``."""
    part: str = ""
    """Native part of malloc-tuner that it is; with neither sonames nor this it is libc itself."""
    versions: VersionRange = ""
    """Versions this file and its adapter were written for; others are refused."""


class EnvironmentSpec(StrictModel):
    """How an allocator is configured: by one variable for all settings, or one for each.

    Example:
        >>> EnvironmentSpec(variable="TOY_{NAME}").variables([("decay", 5), ("huge", True)])
        {'TOY_DECAY': '5', 'TOY_HUGE': '1'}
        >>> EnvironmentSpec(variable="TOY", entry="{name}:{value}").variables([("decay", 5)])
        {'TOY': 'decay:5'}
    """

    variable: Sentence
    """Name of the variable; with ``{NAME}``, which stands for the setting in capitals, of each."""
    entry: str = ""
    """One setting in the one variable, of ``{name}`` and ``{value}``."""
    separator: str = ","
    """Between the entries of the one variable."""
    search: str = ""
    """First entry of the one variable that only a search adds; an exported file has none."""
    booleans: tuple[str, str] = ("0", "1")
    """How false and true are written."""

    @model_validator(mode="after")
    def _one_way(self) -> EnvironmentSpec:
        if self.has_one_each == bool(self.entry) or (self.has_one_each and self.search):
            raise ValueError(
                "variable: give a name with {NAME}, for a variable of each setting, or one without "
                "it, and entry"
            )
        return self

    @property
    def has_one_each(self) -> bool:
        """Return whether each setting has a variable of its own."""
        return "{NAME}" in self.variable

    def text(self, value: Value) -> str:
        """Return a value as the allocator reads it; numbers as plain decimals."""
        if isinstance(value, bool):
            return self.booleans[value]
        return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

    def variables(
        self, settings: Iterable[tuple[str, Value]], *, for_export: bool = False
    ) -> dict[str, str]:
        """Return the environment variables that make settings; none of an exported default."""
        texts = [(name, self.text(value)) for name, value in settings]
        if self.has_one_each:
            return {self.variable.replace("{NAME}", name.upper()): text for name, text in texts}
        words = [self.search] if self.search and not for_export else []
        words += [self.entry.replace("{name}", n).replace("{value}", text) for n, text in texts]
        return {self.variable: self.separator.join(words)} if words else {}


class ReportSpec(StrictModel):
    """What an allocator prints of itself on standard error, and what cannot be seen of it."""

    environment: dict[str, str] = Field(default_factory=dict)
    """Variables that make it print, set for reading back only."""
    version: Pattern = ""
    """Regular expression whose group ``version`` is the version."""
    setting: Pattern = ""
    """Regular expression that finds every setting in effect, with groups ``name`` and ``value``."""
    partly: tuple[str, ...] = ()
    """Settings of which less than the whole effect can be seen: they are accepted only within
    their scale."""
    hidden: tuple[str, ...] = ()
    """Settings that some builds give no way at all to see: accepted likewise."""
    separate: bool = False
    """Each setting is read and reported whatever the others say: what is proved stays proved."""
