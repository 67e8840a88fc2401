"""The panel: configurations of every allocator, measured on a trace and on its profile.

Configurations are drawn from the search spaces themselves, since these are what a tuner
will have to rank; each allocator's default is among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from tuner.allocators import HostFacts, Located, WorkloadFacts
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import ProgramError
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.executor import LocalExecutor, measuring_cpus
from tuner.output import scratch_folder
from tuner.profile.generated import replayable
from tuner.records import Configuration, Measurement
from tuner.space import joint_space
from tuner.trace.file import Trace
from tuner.trace.info import describe

_SEED = 1
_DRAWS = 40
"""Random genomes per configuration wanted, after which a small space counts as exhausted."""


def draw_panel(
    trace: Path, located: Located, n_least: int, *, thp: Literal["never", "keep"] = "keep"
) -> list[Configuration]:
    """Choose configurations, equally many of each allocator.

    Args:
        trace: decides which settings can act at all.
        located: the allocators of the panel.
        n_least: configurations in all; an allocator with few settings may give fewer.
        thp: as in `EmulationOptions`; settings about huge pages cannot act without them.

    Raises:
        TraceError: the trace cannot be read.
    """
    with Trace(trace) as opened:
        info = describe(opened)
    workload = WorkloadFacts(
        info.totals.n_threads,
        info.totals.life_ns,
        info.allocated_bytes - info.never_freed_bytes,
        opened.metadata.get("is_fork") is True,
    )
    host = HostFacts.detect()
    if thp == "never":
        host = replace(host, thp_mode="never")
    n_each = math.ceil(n_least / len(located))
    rng = np.random.default_rng(_SEED)
    panel: list[Configuration] = []
    for name, (adapter, installation) in located.items():
        space = joint_space({name: adapter.parameters(installation, host, workload, None)})
        drawn = dict.fromkeys(map(space.decode, space.defaults()))
        for _ in range(_DRAWS * n_each):
            if len(drawn) >= n_each:
                break
            drawn[space.decode(space.random(rng))] = None
        panel.extend(drawn)
    return panel


def measure_panel(
    workload: Path,
    panel: Sequence[Configuration],
    located: Located,
    calibration: Calibration,
    options: EmulationOptions,
    *,
    reads_back: bool = True,
    on_done: Callable[[], None] = lambda: None,
    on_incident: Callable[[str], None] = lambda _: None,
) -> list[Measurement | None]:
    """Measure every configuration on a trace or profile.

    Args:
        workload: the trace or profile.
        panel: what to measure.
        located: the allocators of the panel.
        calibration: prices of this machine.
        options: how; the seed is also that of a profile.
        reads_back: False only if the same panel was measured before, here and now.
        on_done: is called when a configuration has been measured.
        on_incident: is called with what the machine did that may have moved the values.

    Returns:
        One measurement for each configuration; None where it failed or was refused.

    Raises:
        TunerError: the set-up is broken, so that nothing can be measured.
    """
    found: list[Measurement | None] = [None] * len(panel)
    with scratch_folder() as folder:
        trace = replayable(workload, options.seed, folder / "generated.trace")
        emulation = Emulation(trace, located, calibration, options, reads_back=reads_back)
        with LocalExecutor(EmulatorEvaluator(emulation), measuring_cpus()) as executor:
            for ended in executor.run(panel):
                if ended.outcome is None:
                    message = f"{ended.configuration}: {'; '.join(ended.failures)}"
                    raise ended.error or ProgramError(message)
                found[ended.index] = ended.outcome.good
                for incident in ended.outcome.incidents:
                    on_incident(f"{ended.configuration}: {incident}")
                on_done()
    return found
