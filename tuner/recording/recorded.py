"""What was recorded of a process."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RecordedTotals:
    """Figures from the header of a new trace.

    `TraceTotals` has more of them, but needs numpy, whose start costs more than a short recording.
    """

    n_events: int
    n_threads: int
    """Greatest number of threads alive at once."""
    peak_live_bytes: int


@dataclass(frozen=True)
class RecordedProcess:
    """One process with its trace."""

    path: Path
    """The trace."""
    argv: tuple[str, ...]
    """Arguments of the process, the program first."""
    pid: int
    totals: RecordedTotals
    file_bytes: int
    foreign_frees: int
    """Frees of blocks the recording never saw; dropped."""
    stopped: str | None
    """Why recording ended before the process did; None: it did not."""
    replaced: tuple[str, ...]
    """Programs the process ran before it became this one by exec; not in the trace."""
    title: str = ""
    """Its last command line, as ``ps`` shows it, if it changed it; else empty."""
    is_cut: bool = False
    """Recording was ended before the process was: by the end of a window, or a limit."""
    n_lost: int = 0
    """Of the first process: programs of the recording for which there was no room at all."""
    n_killed: int = 0
    """Of the first process: programs of the recording that were killed as they began."""
    inherited_blocks: int = 0
    """Of its events, those that make the blocks with which its trace begins."""

    @property
    def n_own_events(self) -> int:
        """Events of what it did itself."""
        return self.totals.n_events - self.inherited_blocks
