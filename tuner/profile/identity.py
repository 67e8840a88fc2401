"""What a campaign has to know of a profile: its small members, and its digest.

Nearly all of a profile's text are its windows, of which a campaign needs the digest alone.  Where
they are laid out as `tuner.profile.file.write_profile` does, a line each and whole numbers only,
their part of the digest is made of the text; of any other profile all is read.

Limits: whether a window is JSON at all is left to the reader of the events.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tuner.profile.file import parse_profile, profile_sha256, unpacked_profile

_WINDOWS: Final = "windows"
_BEGIN: Final = f'\n "{_WINDOWS}": [\n  {{'
_BETWEEN: Final = "},\n  {"
_END: Final = "}\n ]"
_KEY: Final = re.compile('"([a-z_0-9]+)":')
_OF_NUMBERS: Final = b"-0123456789,[]"
"""What arrays of whole numbers are made of."""


def read_identity(path: Path) -> tuple[dict[str, Any], str]:
    """Return the members of a profile, perhaps without its windows, and its digest.

    Raises:
        TraceError: the file cannot be read, is no profile, or is of a newer version.
    """
    text = unpacked_profile(path)
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    windows = _canonical(text[begin + len(_BEGIN) : end]) if 0 <= begin < end else None
    if windows is None:
        profile = parse_profile(path, text)
        return profile, profile_sha256(profile)
    rest = f'{text[:begin]}\n "{_WINDOWS}": []{text[end + len(_END) :]}'
    others = parse_profile(path, rest)
    return others, profile_sha256(others, {_WINDOWS: windows})


def _canonical(rows: str) -> str | None:
    r"""Return windows as ``json.dumps`` writes them with sorted keys; None where that is not sure.

    Args:
        rows: their lines, without the first and the last brace.

    Example:
        >>> _canonical('"time_ns":5,"fixed":[[0,1],[2]]},\n  {"time_ns":7')
        '[{"fixed": [[0, 1], [2]], "time_ns": 5}, {"time_ns": 7}]'
    """
    found = []
    for row in rows.split(_BETWEEN):
        head, *parts = _KEY.split(f"{row},")
        keys, values = parts[::2], parts[1::2]
        is_sure = not head and len({*keys}) == len(keys) and all(v.endswith(",") for v in values)
        if not is_sure or "".join(values).encode().translate(None, _OF_NUMBERS):
            return None
        members = sorted(zip(keys, values, strict=True))
        found.append("".join([f'"{key}": {value}' for key, value in members])[:-1])
    return "[{" + "},{".join(found).replace(",", ", ") + "}]"
