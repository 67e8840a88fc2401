"""Record the programs of configs/workloads and fit the profiles that ship.

Every folder there has a ``run.sh``; `malloc-tuner record` runs it, `malloc-tuner fit` makes
``NAME.profile.json.zst`` of the trace, and what is known of the program is added: its version,
and how it was run.  Traces are kept in ``runs/traces``, for benchmarks/fidelity.py, which measures
how well each profile stands for its trace and writes the verdict into it; a trace that is there is
not recorded again.

    benchmarks/workload_profiles.py                         all of them
    benchmarks/workload_profiles.py NAME...                 only these
    benchmarks/workload_profiles.py --print                 size and fidelity of each
    benchmarks/workload_profiles.py --smoke                 a quick look that it still runs

For gem5 the traces of gem5-suite ship instead.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuner.profile.fidelity import fidelity_of
from tuner.profile.file import read_profile, write_profile
from tuner.profile.fit import fit
from tuner.profile.trust import summary
from tuner.recording import record
from tuner.resources import configs_dir
from tuner.trace.file import Trace
from tuner.units import show_size

TRACES: Final = Path(__file__).resolve().parent.parent / "runs" / "traces"
START: Final = configs_dir() / "workloads" / "perl-index" / "perl-start.trace"
"""The first events of a program, for a quick look."""
_ALONE: Final = ("clang-compile", "gem5-timing-sort", "ruby-records")
"""Run as programs, and have no profile."""


@dataclass(frozen=True)
class Program:
    """One program, run by the ``run.sh`` of its folder."""

    folder: Path

    @property
    def name(self) -> str:
        """Return its name."""
        return self.folder.name

    @property
    def profile(self) -> Path:
        """Return where its profile ships."""
        return self.folder / f"{self.name}.profile.json.zst"

    @property
    def trace(self) -> Path:
        """Return where its trace is recorded to."""
        return TRACES / f"{self.name}.trace"


def find_programs() -> dict[str, Program]:
    """Return every program that has a profile, by name."""
    folders = (script.parent for script in sorted((configs_dir() / "workloads").glob("*/run.sh")))
    return {folder.name: Program(folder) for folder in folders if folder.name not in _ALONE}


def version(program: Program, argv: Sequence[str]) -> str | None:
    """Return the Debian package of a program and its version; None: not known.

    Of a program that run.sh compiles it is the compiler's.
    """
    if any(program.folder.glob("*.c")):
        return "gcc " + _output("gcc", "-dumpfullversion")
    path = shutil.which(argv[0])
    if path is None:
        return None
    owner = _output("dpkg-query", "--search", str(Path(path).resolve())).partition(":")[0]
    return " ".join(_output("dpkg-query", "--show", owner).split()) or None if owner else None


def _output(*command: str) -> str:
    """Return what a command printed, nothing if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def make_profile(program: Program, trace: Path, profile: Path) -> None:
    """Fit the profile of a program's trace and write it, without a verdict.

    Raises:
        TraceError: the trace cannot be read.
        OutputError: the profile cannot be written.
    """
    with Trace(trace) as opened:
        members = fit(opened)
    metadata: dict[str, Any] = members["metadata"]
    found = version(program, metadata["argv"])
    members["metadata"] = {**metadata, "program_version": found, "run": "run.sh"}
    write_profile(profile, members)


def _make(program: Program) -> None:
    if not program.trace.exists():
        print(f"{program.name}: recording", file=sys.stderr, flush=True)
        TRACES.mkdir(parents=True, exist_ok=True)
        record([str(program.folder / "run.sh")], program.trace)
    make_profile(program, program.trace, program.profile)


def _show(programs: Mapping[str, Program]) -> None:
    sizes = []
    for program in programs.values():
        if not program.profile.exists():
            print(f"{program.name:<22} no profile")
            continue
        members = read_profile(program.profile)
        sizes.append(program.profile.stat().st_size)
        version = members["metadata"].get("program_version")
        said = summary(fidelity_of(members))
        print(f"{program.name:<22} {show_size(sizes[-1]):>10}  {version}; {said}")
    print(f"{len(sizes)} profiles, {show_size(sum(sizes))}")


def main() -> None:
    """Record and fit what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    programs = find_programs()
    unknown = sorted(set(options.names) - set(programs))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(programs)}")
    if options.only_prints:
        _show(programs)
        return
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            make_profile(Program(START.parent), START, Path(folder) / "smoke.profile.json")
        return
    for name, program in programs.items():
        if name in options.names or not options.names:
            _make(program)
    _show(programs)


if __name__ == "__main__":
    main()
