"""Read the records of Langdon's rand_malloc: a type, a size and a lifetime for each block to be.

The text is what his dhat_summary.awk writes to be compiled in: one ``{type, size, life},`` a
line, with comments from ``//`` on and the C around it.

    type 1   size and lifetime as they are, rounded
    type 2   size as it is; lifetime drawn around the mean
    type 3   both drawn around their means

Guarantee: every size is or will be drawn as at least 1, and no number leaves the 31 bits that the
original has for it.
"""

import re
from typing import Final

import numpy as np

from tuner.importers.source import BadCallError, Source, matched

MOST_RECORDS: Final = 10_000_000
"""As many blocks as the original has room for."""

RECORD: Final = np.dtype([("type", "u1"), ("size", "f8"), ("life", "f8")])
"""Size in bytes, lifetime in ticks."""

_MOST: Final = 2**30 - 1
"""Of a size or lifetime: twice as much can be drawn."""

_NUMBER: Final = r"\s*(\d{1,18}\.?\d*(?:[eE][-+]?\d{1,2})?|\.\d+)\s*"
_LINE: Final = re.compile(
    rf"\{{\s*([123])\s*,{_NUMBER},{_NUMBER}\}}.*"
    r"|#define norder\s+(\d{1,8})\b.*"
    r"|(?://|const struct|int |double |\}).*",
    re.ASCII,
)
_WANTED: Final = (
    "a record {type, size, life} of type 1 to 3, its number #define norder, or a comment"
)


def recognise_records(start: bytes) -> bool:
    """Return whether a file that starts so holds such records."""
    return start.lstrip().startswith((b"//", b"#define norder"))


def read_records(source: Source) -> np.ndarray:
    """Return the records of a text.

    Returns:
        Shape (n,), dtype `RECORD`.

    Raises:
        BadCallError: a line is none, or has what would make the original stop or overflow.
        TraceError: the file cannot be read.
    """
    records = []
    n_announced = None
    for line in source.stripped_lines():
        kind, size, life, norder = matched(_LINE, line, _WANTED).groups()
        if norder:
            n_announced = int(norder)
        elif kind:
            record = int(kind), float(size), float(life)
            _check(*record)
            records.append(record)
            if len(records) > MOST_RECORDS:
                raise BadCallError(f"more than {MOST_RECORDS} records")
    if n_announced not in {None, len(records)}:
        raise BadCallError(
            f"ends after {len(records)} of the {n_announced} records of norder; cut off?"
        )
    if not records:
        raise BadCallError("no records {type, size, life}")
    return np.array(records, RECORD)


def _check(kind: int, size: float, life: float) -> None:
    if not 1.0 <= size <= _MOST:
        raise BadCallError(f"a size that is not from 1 to {_MOST}")
    if life > _MOST or (kind > 1 and not life):
        raise BadCallError(f"a lifetime of more than {_MOST} ticks, or a mean of 0")
