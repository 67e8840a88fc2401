"""Allocation traces: read and write them, describe them, thin them out."""

from typing import Final

SPOOL_SUFFIX: Final = ".spool"
"""``app.trace.spool`` is the folder in which the recording of ``app.trace`` is until it ends."""
