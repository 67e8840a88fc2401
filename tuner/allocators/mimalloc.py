"""mimalloc: configured by MIMALLOC_* variables, read back from what MIMALLOC_VERBOSE=1 prints.

An option that is not printed is one this version does not know: mimalloc ignores unknown
names.  Sizes are printed in KiB, but a bare number in the environment is bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tuner.allocators.base import Allocator

if TYPE_CHECKING:
    from tuner.allocators.probe import ProbeReport
    from tuner.records import Value

_OPTION = re.compile(
    r"^(?:mimalloc: )?option '(?P<name>\w+)':\s*(?P<value>-?\d+)(?P<unit> KiB)?", re.MULTILINE
)
"""One line per option; version 3 has the prefix in its first line only."""
_SIZES_KIB: Final = frozenset({"minimal_purge_size", "arena_reserve"})
_LONG_FORM: Final = 10000
"""Version numbers from here on have two digits per part: 30403 is 3.4.3, 209 is 2.0.9."""
_MIXED_FORM: Final = 1000
"""From here on two digits for the last part only: 3206 is 3.2.6."""


class Mimalloc(Allocator):
    """Adapter of mimalloc 2 and 3."""

    def version_of(self, report: ProbeReport) -> str:
        """Return the version, 2.0.9 for 209."""
        number = report.of("mimalloc").get("version_number")
        return version_text(int(number)) if number else ""

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return every option that this version printed; sizes in bytes."""
        return parse_options(report.messages)

    def agrees(self, setting: str, asked: Value, effective: Value, report: ProbeReport) -> bool:
        """Compare as numbers; mimalloc has no booleans of its own."""
        del setting, report
        return not isinstance(asked, str) and int(asked) == effective


def version_text(number: int) -> str:
    """Return the dotted form of mi_version().

    Source: mimalloc include/mimalloc.h, MI_MALLOC_VERSION.

    Example:
        >>> version_text(209), version_text(3206), version_text(30403)
        ('2.0.9', '3.2.6', '3.4.3')
    """
    if number >= _LONG_FORM:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    if number >= _MIXED_FORM:
        return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    return f"{number // 100}.{number // 10 % 10}.{number % 10}"


def parse_options(messages: str) -> dict[str, Value]:
    """Return the options in mimalloc's verbose messages.

    Example:
        >>> parse_options("mimalloc: option 'decommit_delay': 25")
        {'decommit_delay': 25}
    """
    options: dict[str, Value] = {}
    for match in _OPTION.finditer(messages):
        in_kib = match["unit"] is not None or match["name"] in _SIZES_KIB
        options[match["name"]] = int(match["value"]) * (1024 if in_kib else 1)
    return options
