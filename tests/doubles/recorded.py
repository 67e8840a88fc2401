"""Processes as a recording describes them."""

from pathlib import Path

from tuner.recording import RecordedProcess, RecordedTotals


def recorded_process(
    title: str = "",
    *,
    n_events: int = 1000,
    peak_live_bytes: int = 1 << 20,
    inherited_blocks: int = 0,
) -> RecordedProcess:
    """Return a process of ``/usr/bin/server`` that called itself so."""
    return RecordedProcess(
        path=Path("app.trace"),
        argv=("/usr/bin/server", "-w", "2"),
        pid=1,
        totals=RecordedTotals(n_events, 1, peak_live_bytes),
        file_bytes=1000,
        foreign_frees=0,
        stopped=None,
        replaced=(),
        title=title,
        inherited_blocks=inherited_blocks,
    )
