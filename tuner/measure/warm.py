"""Memory that was touched before, for the first rounds of anything timed.

In a virtual machine the first touch of a page since it started costs the host's fault too,
several times what the guest's costs.  The kernel hands out first what was given back last, so
touching some memory and giving it back keeps the host out of what is timed next.
"""

import contextlib
from pathlib import Path

from tuner.errors import MissingToolError, ProgramError
from tuner.measure.instruments import ask_emulator

WARM_MIB = 1024
"""Enough for programs of several hundred MiB; takes less than a second where it was touched
before.  rand_malloc takes a quarter of the free memory at most."""


def warm_memory(mib: int | None = None, emulator: Path | None = None) -> None:
    """Touch memory and give it back; where that fails, go on as well without.

    Args:
        mib: MiB to touch, 0 for none; None for `WARM_MIB`.
        emulator: path of rand_malloc; None for the installed one.
    """
    wanted = WARM_MIB if mib is None else mib
    if wanted:
        with contextlib.suppress(MissingToolError, ProgramError):
            ask_emulator(f"--warm={wanted}", emulator)
