"""A profile's events, generated once and replayed many times.

Generating costs more than decoding, and the same profile and seed give the same events.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.errors import OutputError
from tuner.profile.file import is_profile
from tuner.trace.file import Trace, TraceWriter


def replayable(workload: Path, seed: int, trace: Path) -> Path:
    """Return a file that replays as a workload does, and costs no more than a trace.

    Args:
        workload: a trace or profile; only of a profile a trace is made.
        seed: of the events of a profile.
        trace: where they go; replaced if it exists, whole or not at all.

    Returns:
        `trace` for a profile, else `workload` itself.

    Raises:
        TraceError: the profile cannot be read.
        OutputError: the trace cannot be written.
    """
    if not is_profile(workload):
        return workload
    unfinished = trace.with_name(f".{trace.name}.{os.getpid()}")
    with Trace(workload, seed, is_streamed=True) as events:
        page_bytes = events.totals.page_bytes
        with TraceWriter(unfinished, events.metadata, page_bytes) as writer:
            for batch in events.batches():
                writer.write(batch)
            writer.set_life(events.totals.start_ns, events.totals.end_ns)
    try:
        unfinished.replace(trace)
    except OSError as error:
        message = f"{trace}: cannot be written ({error.strerror})"
        raise OutputError(message) from error
    return trace
