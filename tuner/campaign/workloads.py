"""The files that a campaign replays, and what they say of its workloads.

A profile's events are generated once, as a trace, which also shows which settings can act at all.
That comes before there is a store, so the traces wait in a folder of their own, which is removed
if the campaign cannot begin.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from tuner.allocators import WorkloadFacts
from tuner.allocators.facts import LARGE_FREED_BYTES
from tuner.config import CampaignSpec
from tuner.emulation import EmulationOptions
from tuner.errors import OutputError, TraceError
from tuner.profile.file import is_profile
from tuner.profile.generated import replayable
from tuner.store import make_run_folder
from tuner.trace.file import Events, Trace

GENERATED_FILE = "generated-{}.trace"
"""What is replayed of a profile, in a run folder: 0 for the first workload, and so on."""


@dataclass(frozen=True)
class ReplayFiles:
    """The workloads of a campaign as files that cost no more to replay than a trace."""

    waiting: Mapping[str, Path]
    """Each file by its name in the run folder, workload by workload and seed by seed."""
    facts: WorkloadFacts
    """The greatest of all workloads."""

    def keep(self, run: Path) -> tuple[Path, ...]:
        """Move what was generated into the run folder; return all files, in order.

        Raises:
            OutputError: the folder cannot be written.
        """
        try:
            return tuple(
                path.replace(run / name) if path.name == name else path
                for name, path in self.waiting.items()
            )
        except OSError as error:
            message = f"{run}: cannot be written ({error.strerror})"
            raise OutputError(message) from error


@contextlib.contextmanager
def replay_files(spec: CampaignSpec, options: EmulationOptions, run: Path) -> Iterator[ReplayFiles]:
    """Generate the traces of a campaign's profiles, to be kept with `ReplayFiles.keep`.

    Raises:
        TraceError: a workload cannot be read, or holds no events.
        OutputError: the run folder cannot be written.
    """
    with _room_in(run) as room:
        waiting: dict[str, Path] = {}
        facts = []
        for number, trace in enumerate(spec.traces):
            requested = _Sum()
            for seed in range(options.seeds if is_profile(trace) else 1):
                name = GENERATED_FILE.format(number if seed == 0 else f"{number}-{seed}")
                on_events = _Sum() if seed else requested
                waiting[name] = replayable(trace, options.seed + seed, room / name, on_events)
            first = waiting[GENERATED_FILE.format(number)]
            facts.append(_facts_of(trace, first, requested))
        greatest = (max(of_all) for of_all in zip(*map(astuple, facts), strict=True))
        yield ReplayFiles(waiting, WorkloadFacts(*greatest))


class _Sum:
    """Bytes of all requests that it was called with."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, events: Events) -> None:
        self.bytes += int(events["size"].sum())


def _facts_of(workload: Path, file: Path, requested: _Sum) -> WorkloadFacts:
    """Return the facts of a workload by its file, and what was requested while that was made."""
    with Trace(file, is_streamed=True) as trace:
        if not trace.totals.n_events:
            message = f"{workload}: holds no events; record it again"
            raise TraceError(message)
        if file == workload:
            for events in trace.batches():
                requested(events)
        totals = trace.read_totals()
        is_fork = trace.metadata.get("is_fork") is True
    # All requests together bound what can have been freed, and cost one addition each.
    freed_bytes = requested.bytes
    if freed_bytes >= LARGE_FREED_BYTES:
        from tuner.trace.info import describe  # noqa: PLC0415 - slow to import, rarely needed

        with Trace(file) as trace:
            info = describe(trace)
        freed_bytes = info.allocated_bytes - info.never_freed_bytes
    return WorkloadFacts(totals.n_threads, totals.life_ns, freed_bytes, is_fork)


@contextlib.contextmanager
def _room_in(run: Path) -> Iterator[Path]:
    """Make a folder in the run folder; in the end it goes, and the run folder if it is empty."""
    make_run_folder(run)
    try:
        room = tempfile.TemporaryDirectory(prefix=".generated-", dir=run)
    except OSError as error:
        message = f"{run}: cannot be written ({error.strerror}); choose another run folder with -o"
        raise OutputError(message) from error
    try:
        with room as name:
            yield Path(name)
    finally:
        with contextlib.suppress(OSError):
            run.rmdir()
