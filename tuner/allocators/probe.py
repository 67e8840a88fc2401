"""Run the native probe under an allocator and read its report.

The probe prints what took effect; see docs/allocators.md.  The environment is
exactly the given one: nothing of the caller's leaks in, so no stray MALLOC_* or
TCMALLOC_* variable can change the answer.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.errors import MissingToolError, SettingError
from tuner.records import signal_name
from tuner.resources import native_file

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = 20.0
"""The probe takes milliseconds; a setting that needs more hangs the allocator."""

SCHEMA_VERSION: Final = 1

_TUNABLE = re.compile(
    r"(?P<name>[\w.]+): (?P<value>-?\w+) \(min: (?P<min>-?\w+), max: (?P<max>-?\w+)\)"
)
_NOT_PRELOADED = re.compile(r"object '(?P<library>.*)' from LD_PRELOAD .*\((?P<why>[^)]*)\)")


@dataclass(frozen=True)
class Tunable:
    """One line of ``ld.so --list-tunables``: what the loader accepted."""

    value: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class ProbeReport:
    """What one run of the probe said."""

    data: Mapping[str, Any]
    """The JSON object on standard output."""
    messages: str
    """Standard error of the run: warnings and reports of loader and allocator."""

    @property
    def malloc_from(self) -> Path:
        """The library that defines malloc, with links resolved."""
        return Path(self.data["malloc_from"]).resolve()

    def of(self, allocator: str) -> Mapping[str, Any]:
        """Return the observations about one allocator; empty if it was not there."""
        return self.data.get(allocator) or {}


def run_probe(environment: Mapping[str, str]) -> ProbeReport:
    """Run the probe with exactly this environment.

    Raises:
        MissingToolError: the probe is not installed, or LD_PRELOAD names a library that
            cannot be loaded.
        SettingError: the allocator killed or hung the probe.
    """
    command = [str(native_file("probe"))]
    done = _run(command, environment)
    if "cannot be preloaded" in done.stderr:
        raise MissingToolError(_loader_line(done.stderr))
    if done.returncode != 0:
        message = f"the allocator ended a test program {_how(done.returncode)}: "
        raise SettingError(message + (_first_line(done.stderr) or "no message"))
    data = json.loads(done.stdout)
    if data.get("version") != SCHEMA_VERSION:
        message = f"{command[0]}: report version {data.get('version')}, expected {SCHEMA_VERSION}"
        raise MissingToolError(message + "; reinstall malloc-tuner")
    return ProbeReport(data, done.stderr)


def list_tunables(loader: str, environment: Mapping[str, str]) -> dict[str, Tunable]:
    """Return what the dynamic loader accepted of GLIBC_TUNABLES.

    Args:
        loader: path of ld.so, as the probe reports it.
        environment: environment of the run.

    Raises:
        SettingError: the loader does not list its tunables (glibc before 2.33).
    """
    done = _run([loader, "--list-tunables"], environment)
    if done.returncode != 0:
        raise SettingError(
            f"{loader} --list-tunables failed: {_first_line(done.stderr) or 'no message'}"
        )
    return parse_tunables(done.stdout)


def parse_tunables(text: str) -> dict[str, Tunable]:
    """Read the output of ``ld.so --list-tunables``, with the 2^64-1 of "never" kept as it is.

    Example:
        >>> parse_tunables("glibc.malloc.mmap_max: 0 (min: 0, max: 2147483647)")
        {'glibc.malloc.mmap_max': Tunable(value=0, minimum=0, maximum=2147483647)}
    """
    return {
        match["name"]: Tunable(int(match["value"], 0), int(match["min"], 0), int(match["max"], 0))
        for match in _TUNABLE.finditer(text)
    }


def _run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SettingError(f"the allocator hung a test program for {TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise MissingToolError(f"{command[0]}: cannot be run: {error.strerror or error}") from error


def _how(returncode: int) -> str:
    if returncode < 0:
        return f"with {signal_name(-returncode)}"
    return f"with exit status {returncode}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _loader_line(text: str) -> str:
    """Return the loader's complaint about a library in our words."""
    line = next(line for line in text.splitlines() if "cannot be preloaded" in line)
    match = _NOT_PRELOADED.search(line)
    if match is None:
        return line.strip().removeprefix("ERROR: ")
    library, why = match["library"], match["why"]
    return f"{library} cannot be preloaded: {why}; name a shared library for this machine"
