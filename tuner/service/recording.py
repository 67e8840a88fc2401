"""Record a service from its start to the end of its idle phase, one run of the load in between.

What it frees after its stop signal is in no trace: memory at the end is that of the idle service.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tuner.errors import ProgramError
from tuner.measure.preloads import PRELOAD
from tuner.measure.program import Surroundings, environment_under
from tuner.output import fresh_folder
from tuner.recording import Ending, RecordedProcess
from tuner.recording.build import RecordedPart, build_traces
from tuner.recording.program import SETTING, recorder_setting
from tuner.recording.spool import let_others_record
from tuner.resources import native_file
from tuner.service.lifecycle import RunUnderWay, begun_run
from tuner.service.plan import ServicePlan


def record_service(
    plan: ServicePlan, environment: Mapping[str, str], folder: Path
) -> tuple[RecordedProcess, ...]:
    """Run a service once under the recorder, and write the traces of all its processes.

    Args:
        plan: what is asked for; its load runs once.
        environment: of the service and of all commands around it, whole; its settings of
            allocators are left out.
        folder: for the traces; what an earlier recording left there is removed.

    Returns:
        Every process that made events.

    Raises:
        ProgramError: the service fails under the recorder, or nothing was recorded.
        OutputError: a trace cannot be written.
    """
    fresh_folder(folder)
    begun_s = time.monotonic()
    with begun_run(plan, environment, Surroundings()) as run:
        spool = preload_recorder(run)
        done = run.once(is_recording=True)
        if done.good is None:
            raise ProgramError(f"{plan.command[0]}: under the recorder: {done.reason}")
        wall_s = time.monotonic() - begun_s
        ending = Ending(0, None, wall_s, 0.0, time.monotonic_ns())
        window = RecordedPart(until_ns=done.good.stopped_ns)
        trace = folder / "service.trace"
        return build_traces(spool, trace, ending, plan.command, window, is_kept=False)


def preload_recorder(run: RunUnderWay) -> Path:
    """Let a run be recorded; its load has to be run with ``is_recording``.

    Args:
        run: set up, and not started; settings of allocators leave its environment.

    Returns:
        The folder of spools, which ends with the run.
    """
    spool = run.folder / "spool"
    spool.mkdir()
    let_others_record(spool)
    run.folder.chmod(0o755)
    setting = recorder_setting(spool, follow=True)
    recorder = str(native_file("librecorder.so"))
    run.environment = environment_under({PRELOAD: recorder, SETTING: setting}, run.environment)
    return spool
