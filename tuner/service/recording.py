"""Record a service from its start to its stop, one run of the load in between."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.errors import ProgramError
from tuner.measure.program import PRELOAD, Surroundings, clean_environment
from tuner.recording import Ending, RecordedProcess
from tuner.recording.build import build_traces
from tuner.recording.program import SETTING
from tuner.recording.spool import check_output
from tuner.records import Status
from tuner.resources import native_file
from tuner.service.lifecycle import begun_run
from tuner.service.plan import ServicePlan


def record_service(
    plan: ServicePlan,
    environment: Mapping[str, str],
    output: Path,
    *,
    force: bool = False,
) -> tuple[RecordedProcess, ...]:
    """Run a service once under the recorder, and write the traces of all its processes.

    Args:
        plan: what is asked for; its load runs once.
        environment: of the service, whole; its settings of allocators are left out.
        output: the trace of the process with the most events; the others stand beside it.
        force: replace a trace that is there.

    Returns:
        Every process that made events, the one with the most first.

    Raises:
        ProgramError: the service fails under the recorder, or nothing was recorded.
        OutputError: a trace cannot be written.
    """
    check_output(output, follow=True, force=force)
    output.parent.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    with begun_run(plan, {}, Surroundings()) as run:
        spool = run.folder / "spool"
        spool.mkdir()
        # Services give up the user that started them: every one of them may add its spool.
        spool.chmod(0o1777)
        run.folder.chmod(0o755)
        setting = f"1:{time.monotonic_ns()}:{spool}"
        recorder = str(native_file("librecorder.so"))
        run.environment = {**clean_environment(environment), PRELOAD: recorder, SETTING: setting}
        done = run.once(is_recording=True)
        if done.status is not Status.OK:
            message = f"{plan.command[0]}: under the recorder: {done.reason}"
            raise ProgramError(message)
        wall_s = time.monotonic() - begun_s
        ending = Ending(0, None, wall_s, 0.0, time.monotonic_ns())
        found = build_traces(spool, output, ending, plan.command)
    return _largest_first(found, output)


def _largest_first(found: tuple[RecordedProcess, ...], output: Path) -> tuple[RecordedProcess, ...]:
    """Give the process with the most events the name of the output."""
    ranked = sorted(found, key=lambda one: -one.totals.n_events)
    first = ranked[0]
    if first.path == output:
        return tuple(ranked)
    other = next(one for one in ranked if one.path == output)
    spare = output.with_name(f"{output.name}.swap")
    output.rename(spare)
    first.path.rename(output)
    spare.rename(first.path)
    swapped = {id(first): replace(first, path=output), id(other): replace(other, path=first.path)}
    return tuple(swapped.get(id(one), one) for one in ranked)
