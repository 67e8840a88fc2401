"""Version numbers of allocators and ranges of them: ``>=2.42,<2.43``.

A version is its leading dotted numbers; what follows ("5.3.0-0-g54ea", "2.36-9+deb12")
is dropped.  Missing parts count as zero, so 2.1 equals 2.1.0.
"""

from __future__ import annotations

import functools
import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

_LEADING = re.compile(r"\d+(?:\.\d+)*")


@functools.cache
def parse_version(text: str) -> Version:
    """Return the leading numbers of a version text.

    Raises:
        ValueError: the text does not begin with a number.

    Example:
        >>> parse_version("5.3.0-0-g54eaed1d") < parse_version("5.3.1")
        True
    """
    match = _LEADING.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a version number")
    return Version(match[0])


@functools.cache
def is_version_in(version: str, bounds: str) -> bool:
    """Return whether a version satisfies all of some bounds; asked of the same again and again.

    Example:
        >>> is_version_in("2.42-1", ">=2.42,<2.43")
        True
    """
    return parse_version(version) in version_range(bounds)


@functools.cache
def version_range(text: str) -> SpecifierSet:
    """Return the versions that satisfy all of some bounds joined by commas; all for no text.

    Raises:
        ValueError: a bound is not an operator followed by a version.

    Example:
        >>> parse_version("2.42-1") in version_range(">=2.42,<2.43")
        True
    """
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f'{text!r} is not a range of versions such as ">=2.42,<3"') from error
