"""Share of a campaign's CPU time that is not measured replays.

Runs ``malloc-tuner tune`` in this process, imports included, and accounts the CPU
time of every child by what it was: a replay of the trace is what a campaign is
for, everything else is overhead: Python itself, search, store, progress, looking
for libraries and instruments, reading settings back.

    python benchmarks/overhead.py                        the demo campaign
    python benchmarks/overhead.py --evaluations 40
    python benchmarks/overhead.py --trace app.trace --evaluations 300
    python benchmarks/overhead.py --smoke                a few evaluations, no judgement

Other options are those of ``malloc-tuner tune``, without --output.  Exit status 1
when the share is above the target.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TARGET = 0.05
"""Greatest share wanted."""

SMOKE = "--smoke"
"""Shows that the benchmark still runs; so few evaluations say nothing about the share."""

SMOKE_OPTIONS = ("--evaluations", "8", "--quiet")

_REPLAY_OPTION = "--runs"
"""Only a command that replays a trace has this option."""


class Accounts:
    """CPU seconds of children, by what they were for."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.Lock()
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.n_children: dict[str, int] = defaultdict(int)

    def charge(self, command: Sequence[str], usage: resource.struct_rusage) -> None:
        """Add a child that ended; its own children are included."""
        kind = "replays" if _REPLAY_OPTION in command else Path(command[0]).name
        with self._lock:
            self.cpu_s[kind] += usage.ru_utime + usage.ru_stime
            self.n_children[kind] += 1


ACCOUNTS = Accounts()


class AccountingPopen(subprocess.Popen[Any]):
    """Waits with wait4, which tells what the child used."""

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


def own_cpu_s() -> float:
    """Return the CPU time of this process, imports included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_campaign(options: Sequence[str]) -> int:
    """Run the campaign into a folder that is thrown away; return its exit code."""
    subprocess.Popen = AccountingPopen  # type: ignore[misc]
    from tuner.cli.main import run  # noqa: PLC0415 - its cost is to be measured

    arguments = list(options)
    if "--trace" not in arguments and not any(Path(word).suffix == ".toml" for word in arguments):
        from tuner.resources import configs_dir  # noqa: PLC0415 - as above

        arguments.insert(0, str(configs_dir() / "campaigns" / "demo.toml"))
    with tempfile.TemporaryDirectory() as folder:
        return run(["tune", *arguments, "--output", str(Path(folder) / "run")])


def main() -> int:
    """Run, print the table and return the exit status."""
    is_smoke = SMOKE in sys.argv[1:]
    options = [word for word in sys.argv[1:] if word != SMOKE]
    status = run_campaign([*options, *SMOKE_OPTIONS] if is_smoke else options)
    if status != 0:
        return status
    own_s = own_cpu_s()
    replays_s = ACCOUNTS.cpu_s.pop("replays", 0.0)
    n_replays = ACCOUNTS.n_children.pop("replays", 0)
    overhead_s = own_s + sum(ACCOUNTS.cpu_s.values())
    total_s = overhead_s + replays_s
    print(f"\n{'CPU time':30} {'s':>9} {'share':>7}")
    print(f"{f'replays ({n_replays})':30} {replays_s:9.2f} {replays_s / total_s:7.2%}")
    print(f"{'malloc-tuner itself':30} {own_s:9.2f} {own_s / total_s:7.2%}")
    for name, used_s in sorted(ACCOUNTS.cpu_s.items(), key=lambda item: -item[1]):
        title = f"{name} ({ACCOUNTS.n_children[name]})"
        print(f"{title:30} {used_s:9.2f} {used_s / total_s:7.2%}")
    share = overhead_s / total_s
    print(f"{'overhead in all':30} {overhead_s:9.2f} {share:7.2%}   target: at most {TARGET:.0%}")
    return 0 if is_smoke or share <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
