"""A profile's events, generated once and replayed many times.

Generating costs more than decoding, and the same profile and seed give the same events.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import TraceError
from tuner.output import scratch_folder, write_bytes
from tuner.profile.file import is_profile, write_profile
from tuner.trace.file import Trace, TraceTotals, TraceWriter


def write_generated(path: Path, profile: Mapping[str, Any]) -> TraceTotals:
    """Write a profile whose events can be generated, and return their totals.

    Raises:
        TraceError: rand_malloc refuses it, such as for too many events; an old file stays.
        OutputError: the file cannot be written.
    """
    with scratch_folder() as folder:
        draft = folder / (path.name or "profile")
        write_profile(draft, profile)
        try:
            with Trace(draft) as generated:
                totals = generated.totals
        except TraceError as error:
            raise TraceError(str(error).replace(str(draft), str(path))) from error
        write_bytes(path, draft.read_bytes())
    return totals


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
    with Trace(workload, seed, is_streamed=True) as events:
        page_bytes = events.totals.page_bytes
        with TraceWriter(trace, events.metadata, page_bytes) as writer:
            for batch in events.batches():
                writer.write(batch)
            writer.set_life(events.totals.start_ns, events.totals.end_ns)
    return trace
