"""Instructions of a whole real program, counted by cachegrind.

The hardware's own counters are the better instrument, but they are missing in
most virtual machines.  Under cachegrind a program takes ten to twenty times
as long, so it is run once per configuration, apart from the measured rounds.
Repeated string instructions are switched off in the C library, because
valgrind counts each of their iterations.

A program that becomes another one, as the last command of a shell does, would leave valgrind: it
follows all programs that are started, and of the files that they leave the one of the first
process counts.  supervise ends what goes on after it.
"""

import re
import shutil
from collections.abc import Mapping, Sequence

from tuner.errors import MissingToolError
from tuner.measure.preloads import TUNABLES
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.output import scratch_folder

_NO_REPEATED_STRINGS = (
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
)
_TOTAL = re.compile(r"^summary:\s*(\d+)", re.MULTILINE)

_TELLING_ITS_ID = ("/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"')
"""Begin of a command: writes the id of its process to a file, whose name follows."""

_SAMPLE_MS = 10_000
"""Memory under cachegrind is of no use."""


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
        self._runner = ProgramRunner()

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

        Raises:
            ProgramError: supervise failed.
            OutputError: there is no room for what the program prints.
        """
        own = environment.get(TUNABLES)
        tunables = f"{own}:{_NO_REPEATED_STRINGS}" if own else _NO_REPEATED_STRINGS
        surroundings = Surroundings(timeout_s=timeout_s, sample_ms=_SAMPLE_MS)
        with scratch_folder() as folder:
            told = folder / "id"  # not there where the setting ends every program
            words = [*_TELLING_ITS_ID, str(told), self._valgrind, "--tool=cachegrind"]
            words += ["--cache-sim=no", "--quiet", "--trace-children=yes", "--log-file=/dev/null"]
            words += [f"--cachegrind-out-file={folder}/%p", *command]
            run = self._runner.run(words, {**environment, TUNABLES: tunables}, surroundings)
            result = folder / told.read_text().strip() if told.is_file() else told
            if run.timed_out or exit_status not in (None, run.exit_status) or not result.is_file():
                return None
            match = _TOTAL.search(result.read_text())
        return int(match.group(1)) if match else None
