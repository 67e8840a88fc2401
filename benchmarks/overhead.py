"""Share of a campaign's CPU time that is not measured replays.

Runs ``malloc-tuner tune`` in this process, imports included, and accounts the CPU
time of every child by what it was: a replay of the trace is what a campaign is
for, everything else is overhead: Python itself, search, store, progress, looking
for libraries and instruments, reading settings back.  Calibration is shown and not
counted: its draws are kept, and campaigns of the same day share them.

    python benchmarks/overhead.py                        the demo campaign
    python benchmarks/overhead.py --evaluations 40
    python benchmarks/overhead.py --trace app.trace --evaluations 300
    python benchmarks/overhead.py --smoke                a few evaluations, no judgement

    python benchmarks/overhead.py --print                the table of the last results

Other options are those of ``malloc-tuner tune``, without --output.  A run adds a sample to
``benchmarks/results/overhead.json``; those of other sources or of another campaign are dropped.
What counts is the median of the samples.  Exit status 1 when the share is above the target.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results" / "overhead.json"
SCHEMA = "malloc-tuner.benchmark.overhead"
TARGET = 0.05
"""Greatest share wanted."""

SMOKE = "--smoke"
"""Shows that the benchmark still runs; so few evaluations say nothing about the share."""

SMOKE_OPTIONS = ("--evaluations", "8", "--quiet")

_REPLAYS, _CALIBRATION = "replays", "calibration"

_KINDS = {"--runs": _REPLAYS, "--calibrate": _CALIBRATION}
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
    if options == ["--print"]:
        return show(json.loads(RESULTS.read_text()))
    status = run_campaign([*options, *SMOKE_OPTIONS] if is_smoke else options)
    if status != 0:
        return status
    sample = take_sample()
    if is_smoke:
        print_sample(sample)
        return 0
    return show(keep(sample))


def take_sample() -> dict[str, Any]:
    """Return what the campaign that has just ended used."""
    cpu_s = {"malloc-tuner itself": own_cpu_s(), **ACCOUNTS.cpu_s}
    return {"cpu_s": cpu_s, "n_children": dict(ACCOUNTS.n_children)}


def share_of(sample: Mapping[str, Any]) -> float:
    """Return the share of a campaign's CPU time that is not measured replays."""
    counted = {kind: used_s for kind, used_s in sample["cpu_s"].items() if kind != _CALIBRATION}
    return 1.0 - float(counted.get(_REPLAYS, 0.0)) / float(sum(counted.values()))


def keep(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Add a sample to the results, if they are of the same sources and campaign."""
    from benchmarks.provenance import make_stamp, write_results  # noqa: PLC0415 - not measured

    stamp = make_stamp("overhead", sys.argv, of=["campaign"], rounds=1)
    samples = [sample]
    if RESULTS.exists():
        last = json.loads(RESULTS.read_text())
        known = last["provenance"][0]
        if all(known[name] == stamp[name] for name in ("sources", "native", "command")):
            samples = [*last["samples"], sample]
    stamp["rounds"] = len(samples)
    document = {"schema": SCHEMA, "version": 2, "provenance": [stamp], "samples": samples}
    write_results(RESULTS, document)
    return document


def show(document: Mapping[str, Any]) -> int:
    """Print the last sample and the median share; return the exit status."""
    from benchmarks.provenance import provenance_lines  # noqa: PLC0415 - not measured

    print("\n".join(provenance_lines(document["provenance"])))
    print_sample(document["samples"][-1])
    share = statistics.median(map(share_of, document["samples"]))
    print(f"overhead in all: {share:.2%} in the median of {len(document['samples'])}; "
          f"target: at most {TARGET:.0%}")  # fmt: skip
    return 0 if share <= TARGET else 1


def print_sample(sample: Mapping[str, Any]) -> None:
    """Print where the CPU time of a campaign went."""
    total_s = sum(sample["cpu_s"].values())
    print(f"\n{'CPU time':30} {'s':>9} {'share':>7}")
    for name, used_s in sorted(sample["cpu_s"].items(), key=lambda item: -item[1]):
        count = sample["n_children"].get(name)
        title = f"{name} ({count})" if count else name
        print(f"{title:30} {used_s:9.2f} {used_s / total_s:7.2%}")


if __name__ == "__main__":
    sys.exit(main())
