"""What this machine offers, tried out: programs that answer, permissions that hold.

A version printed by a program and a measurement that succeeded are facts; what
a setting in /proc promises is not.
"""

import ctypes
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import MissingToolError
from tuner.measure.process import Finished, Processes
from tuner.resources import native_file

ANSWER_SECONDS = 60.0
"""Time limit of one question; gem5 takes seconds to print its help."""

NO_PTRACE = "no ptrace: peaks come from samples"
"""Ends the verdict on supervision where ptrace is forbidden."""

_GEM5_QUESTION = """\
import _m5.core, m5.defines
print("gem5 version", _m5.core.gem5Version)
print("USE_X86_ISA =", m5.defines.buildEnv.get("USE_X86_ISA", False))
"""


@dataclass(frozen=True)
class Offer:
    """The verdict on one program, library or permission."""

    works: bool
    detail: str
    """Path and version, or why it does not work."""


def ask(command: Sequence[str]) -> Offer:
    """Run a command that should print something and end well, such as ``x --version``.

    Args:
        command: program, found on the PATH if it has no slash, and its arguments.

    Returns:
        The first line it printed, or why it did not.
    """
    path = shutil.which(command[0])
    if path is None:
        return Offer(works=False, detail="not found")
    try:
        ended = Processes().run(
            [path, *command[1:]], environment=os.environ, timeout_s=ANSWER_SECONDS
        )
    except OSError as error:
        return Offer(works=False, detail=f"{path}: {error.strerror}")
    return _verdict(path, ended)


def _verdict(path: str, ended: Finished) -> Offer:
    if ended.timed_out:
        return Offer(works=False, detail=f"{path}: no answer within {ANSWER_SECONDS:.0f} s")
    lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    first = lines[0] if lines else "no output"
    if ended.exit_status != 0:
        return Offer(works=False, detail=f"{path}: exit status {ended.exit_status}: {first}")
    return Offer(works=True, detail=f"{path}: {first}")


def try_native_part(name: str, *question: str) -> Offer:
    """Return whether a native part is installed, and what it answers.

    Args:
        name: of its file.
        question: arguments it should answer to; none for a library, which is only looked for.
    """
    try:
        path = native_file(name)
    except MissingToolError as error:
        return Offer(works=False, detail=str(error).removeprefix(f"{name}: "))
    return ask([str(path), *question]) if question else Offer(works=True, detail=str(path))


def gem5_question(program: str, folder: str) -> list[str]:
    """Return the command by which gem5 prints its version and whether it has X86.

    Its own option for that, ``--build-info``, ends with an error in gem5 24.

    Args:
        program: gem5.
        folder: which gem5 creates and leaves its files in.

    Source: gem5, src/python/m5/main.py, option ``-c``; src/python/pybind11/core.cc.
    """
    return [program, "-q", "-d", folder, "-c", _GEM5_QUESTION]


def try_gem5(program: str) -> Offer:
    """Ask gem5 how it was built; it must have X86, which all simulations of ours need."""
    path = shutil.which(program)
    if path is None:
        why = "cannot be executed" if Path(program).exists() else "not found"
        return Offer(works=False, detail=f"{program}: {why}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            ended = Processes().run(
                gem5_question(path, folder), environment=os.environ, timeout_s=ANSWER_SECONDS
            )
    except OSError as error:
        return Offer(works=False, detail=f"{path}: {error.strerror}")
    version = re.search(r"^gem5 version (.+)$", ended.stdout, re.MULTILINE)
    if ended.exit_status != 0 or ended.timed_out or version is None:
        return Offer(works=False, detail=f"{path}: is no gem5, it prints no version")
    if re.search(r"USE_X86_ISA = False", ended.stdout):
        message = f"{path}: version {version[1]}, built without X86; build it as build/X86/gem5.opt"
        return Offer(works=False, detail=message)
    return Offer(works=True, detail=f"{path}: version {version[1]}")


def can_fix_addresses() -> bool:
    """Return whether programs may be started without address randomisation.

    Source: personality(2).
    """
    libc, no_randomisation = ctypes.CDLL(None), 0x0040000
    before = libc.personality(0xFFFFFFFF)
    may = libc.personality(before | no_randomisation) != -1
    libc.personality(before)
    return bool(before != -1 and may)


def try_supervision() -> Offer:
    """Measure a program that does nothing, with fixed addresses and a stop at its exit.

    Containers often forbid one or the other: runs scatter more without the first, and
    without the second the peak is taken from samples.
    """
    program = try_native_part("supervise", "--version")
    path = shutil.which("true")
    if not program.works or path is None:
        return program if path else Offer(works=False, detail="true: not found")
    supervise = native_file("supervise")
    ended = Processes().run(
        [supervise, "--report", "1", "--aslr", "off", "--timeout", "10", "--", path],
        environment=os.environ,
        timeout_s=ANSWER_SECONDS,
    )
    if ended.exit_status != 0:
        why = ended.stderr.strip() or f"exit status {ended.exit_status}"
        return Offer(works=False, detail=why)
    report = json.loads(ended.stdout)
    addresses = "addresses fixed" if report["fixed_addresses"] else "addresses random, runs scatter"
    if report["peak_from"] == "exit":
        return Offer(works=True, detail=f"{addresses}; peak read when the program exits")
    return Offer(works=True, detail=f"{addresses}; {NO_PTRACE}")
