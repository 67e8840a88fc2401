"""The files that a campaign replays, and what they say of its workloads.

A profile is replayed as it is: rand_malloc generates its events for the first replay and keeps
them in memory for the others.  With several seeds each one beyond the first is generated as a
trace.  That comes before there is a store, so the traces wait in a folder of their own, which is
removed if the campaign cannot begin.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tuner.allocators import WorkloadFacts
from tuner.allocators.facts import LARGE_FREED_BYTES
from tuner.config import CampaignSpec
from tuner.config.campaign import allocator_files
from tuner.emulation import EmulationOptions
from tuner.errors import OutputError, SpecError, TraceError
from tuner.output import remove_abandoned
from tuner.profile.file import is_profile, workload_sha256
from tuner.profile.generated import replayable
from tuner.profile.trust import Beginning, beginning
from tuner.store import Store, make_run_folder
from tuner.trace.file import Trace

GENERATED_FILE = "generated-{}.trace"
"""What is replayed of a profile's further seeds, in a run folder: 0-1 for the first workload."""

_ROOM: Final = ".generated-"

_FREES: Final = "frees_over_2_gib"
_LONG: Final = "long_running"
"""Requirements of parameters."""


@dataclass(frozen=True)
class ReplayFiles:
    """The workloads of a campaign as files that cost no more to replay than a trace."""

    waiting: Mapping[str, Path]
    """Each file by its name in the run folder, workload by workload and seed by seed."""
    facts: WorkloadFacts
    """The greatest of all workloads."""
    room: Path | None
    """The folder in which what was generated waits; None where nothing is."""

    def keep(self, run: Path) -> tuple[Path, ...]:
        """Move what was generated into the run folder; return all files, in order.

        Raises:
            OutputError: the folder cannot be written.
        """
        try:
            return tuple(
                path.replace(run / name) if path.parent == self.room else path
                for name, path in self.waiting.items()
            )
        except OSError as error:
            raise OutputError(f"{run}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def replay_files(
    spec: CampaignSpec, options: EmulationOptions, run: Path, beginnings: Sequence[Beginning] = ()
) -> Iterator[ReplayFiles]:
    """Generate what a campaign replays, to be kept with `ReplayFiles.keep`.

    Args:
        spec: the campaign.
        options: how it is replayed.
        run: the run folder.
        beginnings: of its workloads, where they were opened already.

    Raises:
        TraceError: a workload cannot be read, or holds no events.
        OutputError: the run folder cannot be written.
    """
    remove_abandoned(run, _ROOM)
    generates = options.seeds > 1 and any(is_profile(trace) for trace in spec.traces)
    # What has begun may be read only; what is new learns early where it cannot be written.
    with _room_in(run) if generates or not Store.exists(run) else contextlib.nullcontext() as room:
        waiting: dict[str, Path] = {}
        for number, trace in enumerate(spec.traces):
            waiting[GENERATED_FILE.format(number)] = trace
            for seed in range(1, options.seeds if is_profile(trace) else 1):
                name = GENERATED_FILE.format(f"{number}-{seed}")
                assert room is not None  # noqa: S101 - something is generated
                waiting[name] = replayable(trace, options.seed + seed, room / name)
        yield ReplayFiles(waiting, _facts_of(spec, options.seed, beginnings), room)


def check_whole(workloads: Sequence[Path]) -> None:
    """Read traces to their end, so that damage shows before anything is measured.

    Raises:
        TraceError: one is damaged.
    """
    for workload in workloads:
        if not is_profile(workload):
            with Trace(workload) as trace:
                for _ in trace.batches():
                    pass


def check_held_out(spec: CampaignSpec) -> None:
    """Read what is held out, which is replayed only when the search is over.

    Raises:
        TraceError: a workload is damaged, or holds no events.
        SpecError: it is tuned on, perhaps under another name.
    """
    if not spec.held_out_traces:
        return
    tuned = {workload_sha256(trace): trace for trace in spec.traces}
    for held_out in spec.held_out_traces:
        _beginning(held_out)
        same = tuned.get(workload_sha256(held_out))
        if same is not None:
            raise SpecError(
                f"held-out {held_out} has the content of {same}, which is tuned on; name another"
            )
    check_whole(spec.held_out_traces)


def _facts_of(spec: CampaignSpec, seed: int, beginnings: Sequence[Beginning]) -> WorkloadFacts:
    """Return the greatest facts of a campaign's workloads; what no parameter needs is None."""
    if len(beginnings) < len(spec.traces) or not all(one.n_events for one in beginnings):
        beginnings = [_beginning(trace) for trace in spec.traces]
    pairs = list(zip(spec.traces, beginnings, strict=True))
    greatest = WorkloadFacts(
        max(one.n_threads for one in beginnings),
        max(one.life_ns if one.is_life_known else _life_ns(trace, seed) for trace, one in pairs),
        None,
        any(one.is_fork for one in beginnings),
    )
    if not _needs_freed(spec, greatest):
        return greatest
    return replace(greatest, freed_bytes=max(_freed_bytes(trace, seed) for trace in spec.traces))


def _needs_freed(spec: CampaignSpec, facts: WorkloadFacts) -> bool:
    """Return whether the bytes freed decide of a parameter."""
    return any(
        _FREES in parameter.requires and (facts.is_long_running or _LONG not in parameter.requires)
        for file in allocator_files(spec).values()
        for parameter in file.parameters
    )


def _beginning(workload: Path) -> Beginning:
    with Trace(workload, is_streamed=True) as trace:
        if not trace.totals.n_events:
            raise TraceError(f"{workload}: {trace.why_empty}")
        return beginning(trace)


def _life_ns(workload: Path, seed: int) -> int:
    """Return the life of a profile's process by its events."""
    with Trace(workload, seed, is_streamed=True) as trace:
        for _ in trace.batches():
            pass
        return trace.read_totals().life_ns


def _freed_bytes(workload: Path, seed: int) -> int:
    """Return the bytes freed, or a bound that is too little to matter."""
    with Trace(workload, seed, is_streamed=True) as trace:
        # All requests together are at least as many, and cost one addition each.
        requested_bytes = sum(int(events["size"].sum()) for events in trace.batches())
    if requested_bytes < LARGE_FREED_BYTES:
        return requested_bytes
    from tuner.trace.info import describe  # noqa: PLC0415 - slow to import, rarely needed

    with Trace(workload, seed) as trace:
        info = describe(trace)
    return info.allocated_bytes - info.never_freed_bytes


@contextlib.contextmanager
def _room_in(run: Path) -> Iterator[Path]:
    """Make a folder in the run folder; in the end it goes, and the run folder if it is empty."""
    make_run_folder(run)
    try:
        room = tempfile.TemporaryDirectory(prefix=_ROOM, dir=run)
        holder = os.open(room.name, os.O_RDONLY)
    except OSError as error:
        raise OutputError(
            f"{run}: cannot be written ({error.strerror}); choose another run folder with -o"
        ) from error
    try:
        with room as name:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(holder, fcntl.LOCK_SH)
            yield Path(name)
    finally:
        os.close(holder)
        with contextlib.suppress(OSError):
            run.rmdir()
