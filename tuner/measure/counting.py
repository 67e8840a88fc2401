"""Instructions of a whole real program, counted by cachegrind.

The hardware's own counters are the better instrument, but they are missing in
most virtual machines.  Under cachegrind a program takes ten to twenty times
as long, so it is run once per configuration, apart from the measured rounds.
Repeated string instructions are switched off in the C library, because
valgrind counts each of their iterations.

Only the program itself is counted: what it starts runs as usual.  One that becomes another
program, as the last command of a shell does, leaves valgrind and no count; it is run once more,
with all that it starts under cachegrind, which takes far longer.  Each process leaves a file of
its own, and its log says which is the first one.  supervise ends what goes on after it.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.measure.preloads import TUNABLES
from tuner.measure.program import ProgramRun, ProgramRunner, Surroundings
from tuner.output import scratch_folder

_NO_REPEATED_STRINGS = (
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
)
_TOTAL = re.compile(r"^summary:\s*(\d+)", re.MULTILINE)

_PARENT = re.compile(r"Parent PID: (\d+)")
_NS_PER_S = 1e9

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
        # Debian's valgrind is a shell script, which changes the environment of the program.
        self._valgrind = shutil.which(f"{found}.bin") or found
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
        """
        own = environment.get(TUNABLES)
        tunables = f"{own}:{_NO_REPEATED_STRINGS}" if own else _NO_REPEATED_STRINGS
        whole = {**environment, TUNABLES: tunables}
        left_s = timeout_s
        for follows in (False, True):
            with scratch_folder() as folder:
                run = self._run(folder, command, whole, left_s, follows=follows)
                is_as_asked = run and not run.timed_out and exit_status in (None, run.exit_status)
                first = _first(folder)
                if run is None or first is None or not is_as_asked:
                    return None
                if first.is_file():
                    # The command, which may hold such a line and any bytes, stands before the last.
                    found = _TOTAL.findall(first.read_text(errors="replace"))
                    return int(found[-1]) if found else None
            left_s = None if left_s is None else max(left_s - run.wall_ns / _NS_PER_S, 0.0)
        return None

    def _run(
        self,
        folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float | None,
        *,
        follows: bool,
    ) -> ProgramRun | None:
        """Run a program under cachegrind; None where that cannot be done.

        What it prints goes to a file, as in any other run: some do less work for /dev/null.

        Args:
            folder: gets a count, named by the process, and a log of every process.
            command: program and arguments.
            environment: its whole environment.
            timeout_s: limit.
            follows: whether programs that are started are under cachegrind too.
        """
        words = [self._valgrind, "--tool=cachegrind", "--cache-sim=no"]
        words += [f"--trace-children={'yes' if follows else 'no'}", "--child-silent-after-fork=yes"]
        words += [f"--log-file={folder}/%p.log", f"--cachegrind-out-file={folder}/%p", *command]
        surroundings = Surroundings(timeout_s=timeout_s, sample_ms=_SAMPLE_MS)
        try:
            return self._runner.run(words, environment, surroundings)
        except (OutputError, ProgramError):
            return None


def _first(folder: Path) -> Path | None:
    """Return where the count of the first process would be; None where it is not known.

    Its parent is none of the others, of which each that was started as a program has a log.
    """
    parents = {}
    for log in folder.glob("*.log"):
        match = _PARENT.search(log.read_text(errors="replace"))
        parents[log.stem] = match.group(1) if match else ""
    known = {*parents, *(path.name for path in folder.iterdir())}
    first = [process for process, parent in parents.items() if parent not in known]
    return folder / first[0] if len(first) == 1 else None
