"""Instructions of a whole real program, counted by cachegrind.

The hardware's own counters are the better instrument, but they are missing in
most virtual machines.  Under cachegrind a program takes ten to twenty times
as long, so it is run once per configuration, apart from the measured rounds.
Repeated string instructions are switched off in the C library, because
valgrind counts each of their iterations.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.errors import MissingToolError
from tuner.measure.preloads import TUNABLES
from tuner.measure.process import Processes
from tuner.output import scratch_folder

_NO_REPEATED_STRINGS = (
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
)
_TOTAL = re.compile(r"^summary:\s*(\d+)", re.MULTILINE)


class InstructionCounter:
    """Counts the user instructions of a program's main process."""

    @staticmethod
    def is_installed() -> bool:
        """Return whether valgrind is here."""
        return shutil.which("valgrind") is not None

    def __init__(self) -> None:
        """Find valgrind.

        Raises:
            MissingToolError: it is not installed.
        """
        found = shutil.which("valgrind")
        if found is None:
            raise MissingToolError("cachegrind: not installed; install the package valgrind")
        self._valgrind = found
        self._processes = Processes()

    def count(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float | None,
        exit_status: int | None = None,
    ) -> int | None:
        """Run a program once and return its instructions.

        Args:
            command: program and arguments.
            environment: its whole environment.
            timeout_s: limit of the run, which is 10 to 20 times slower than usual.
            exit_status: which the run must have; None for any.

        Returns:
            None when it did not end in time, or not so, or left no count.
        """
        own = environment.get(TUNABLES)
        tunables = f"{own}:{_NO_REPEATED_STRINGS}" if own else _NO_REPEATED_STRINGS
        with scratch_folder() as folder:
            result = folder / "cachegrind"
            words = [self._valgrind, "--tool=cachegrind", "--cache-sim=no", "--quiet"]
            words += [f"--cachegrind-out-file={result}", "--log-file=/dev/null", *command]
            with Path(os.devnull).open("wb") as nothing:
                ended = self._processes.run(
                    words,
                    environment={**environment, TUNABLES: tunables},
                    timeout_s=timeout_s,
                    stdout=nothing,
                    stderr=nothing,
                )
            if exit_status not in (None, ended.exit_status):
                return None
            match = _TOTAL.search(result.read_text()) if result.is_file() else None
        return int(match.group(1)) if match else None
