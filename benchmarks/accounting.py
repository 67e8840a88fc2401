"""Run ``malloc-tuner tune`` in this process, and account the CPU time of every child.

Started by `tuned`, in a process of its own so that imports count:

    accounting.py RESULT OPTION...      options of tune; CPU seconds by kind as JSON in RESULT
"""

import json
import os
import resource
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ITSELF = "malloc-tuner itself"
REPLAYS, CALIBRATION = "replays", "calibration"
_KINDS = {"--runs": REPLAYS, "--calibrate": CALIBRATION}
"""What a command of rand_malloc with this option is for."""


class Accounts:
    """CPU seconds of children, by what they were for."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.Lock()
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.n_children: dict[str, int] = defaultdict(int)

    def charge(self, command: Sequence[str], usage: resource.struct_rusage) -> None:
        """Add a child that ended; its own children are included."""
        kinds = (_KINDS[word] for word in command if word in _KINDS)
        kind = next(kinds, Path(command[0]).name)
        with self._lock:
            self.cpu_s[kind] += usage.ru_utime + usage.ru_stime
            self.n_children[kind] += 1


ACCOUNTS = Accounts()


class AccountingPopen(subprocess.Popen[Any]):
    """Waits with wait4, which returns what the child used."""

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Wait as `subprocess.Popen` does, and charge the child when it has ended."""
        try:
            pid, status, usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:
            return self.pid, 0
        if pid == self.pid:
            words = [self.args] if isinstance(self.args, str | bytes | os.PathLike) else self.args
            ACCOUNTS.charge([os.fsdecode(word) for word in words], usage)
        return pid, status


def tuned(result: Path, words: Sequence[object]) -> int:
    """Run `malloc-tuner tune` with some words in a process that accounts; return its status."""
    command = [sys.executable, __file__, result, *words]
    return subprocess.run([*map(str, command)], check=False).returncode


def main() -> int:
    """Run the campaign; return its exit status."""
    subprocess.Popen = AccountingPopen  # type: ignore[misc]
    from tuner.cli.main import run  # noqa: PLC0415 - its cost is to be measured

    status = run(["tune", *sys.argv[2:]])
    own = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = {ITSELF: own.ru_utime + own.ru_stime, **ACCOUNTS.cpu_s}
    sample = {"cpu_s": cpu_s, "n_children": ACCOUNTS.n_children}
    Path(sys.argv[1]).write_text(json.dumps(sample), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
