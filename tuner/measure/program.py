"""One run of a real program under supervise, in an environment free of other allocator settings.

supervise (rand_malloc/supervise) holds the program at its exit to read its
high-water mark, samples its resident memory while it runs, and reports both
with faults and times.  Standard output and standard error go to files, so that
a program which prints much is neither held up nor kept in memory.

Memory is that of the program's main process; CPU time includes the children it
waited for and orphans that ended by themselves, and `ProgramRun.children_cpu_ns`
is their part of it.  Where a parent ignores SIGCHLD the kernel forgets its children's.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tuner.config import allocator_variables, shipped_allocator_file
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.measure.answers import misunderstood
from tuner.measure.preloads import (
    OF_MALLOC,
    PRELOAD,
    TUNABLES,
    beside,
    brings_malloc,
    in_front,
    not_loaded,
    parts_of,
    preloaded_allocator,
)
from tuner.measure.process import Finished, Processes
from tuner.measure.warm import WARM_MIB
from tuner.output import scratch_folder
from tuner.page import series
from tuner.recording.explain import switches_in
from tuner.records import CurvePoint, signal_name
from tuner.registry import ALLOCATORS
from tuner.resources import native_file

FURTHER_VARIABLES: Final = {
    "glibc": r"MALLOC_(?!TUNER_|CONF).*",
    "jemalloc": r"(JE_|_RJEM_)?MALLOC_CONF.*",
    "tcmalloc": r"MALLOCSTATS|HEAP_?PROFILE.*|HEAPCHECK.*|HEAP_CHECK_.*",
    "mimalloc": r"(?i:mimalloc_.*)",
}
"""Allocator -> variables that steer it, beside those that its file names."""

_REMOVED = re.compile("|".join((*FURTHER_VARIABLES.values(), PRELOAD)))

LAYOUT: Final = "MALLOC_TUNER_LAYOUT"
"""Variable that takes up room, and is missing where variables do not reach a program."""

_PADDING = "MALLOC_TUNER_PADDING_"
"""Begin of the names of the variables that only take up room."""

_GRACE_S = 30.0
_TIMEOUT_FACTOR = 10.0
_STDERR_TAIL_BYTES = 4000
_LEAST_ROOM = 1 << 16
"""Bytes that a file system must have left, or it is full."""

_WARM_SHARE = 1.5
"""Of the greatest peak of a command so far, that is touched before it starts: with the peak alone,
one first run in ten has cold pages."""


@dataclass(frozen=True)
class ProgramUse:
    """What supervise says that one run of a program used, and how it ended."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, allow_inf_nan=False)

    exit_status: int | None
    """None when a signal ended it."""
    signal: int | None
    """Number of the signal that ended it; None when it exited."""
    timed_out: bool
    """True when it was killed at the time limit."""
    peak_rss_bytes: int
    """VmHWM at the exit: greatest resident memory, mapped files included."""
    peak_anon_bytes: int
    """Greatest resident anonymous memory, lazily freed pages included: the greater
    of the samples and of VmHWM less the greatest file-backed part."""
    mean_anon_bytes: float
    """Mean over elapsed time of resident anonymous memory less lazily freed pages."""
    mean_anon_cpu_bytes: float
    """The same over the CPU time of the process: waiting does not count."""
    lazy_free_bytes: int
    """Greatest amount of lazily freed pages seen."""
    n_samples: int
    n_threads: int
    """Greatest number of threads seen alive at once; those between two samples are missed."""
    faults: int
    """Minor page faults of the main process."""
    user_ns: int
    system_ns: int
    """CPU time since its last exec, children included."""
    children_cpu_ns: int
    """The children's share of it, in steps of a clock tick."""
    wall_ns: int
    instructions: int | None
    """User instructions since then, its children's too; None without hardware counters."""
    syscalls: int | None
    """System calls of all its threads; None unless they were to be counted."""
    preload_mapped: bool | None
    """Whether the preloaded library was in the process; None when unknown or none."""
    malloc_libraries: tuple[str, ...]
    """Allocators that were in the process, as `brings_malloc` knows them."""
    program: str | None = field(default=None, kw_only=True)
    """The file that it ran at last; None: not known, for want of tracing."""
    changed_variables: tuple[str, ...] | None = field(default=None, kw_only=True)
    """Variables that steer an allocator, and `LAYOUT`, that were others at its last exec than those
    given; None: not known, for want of tracing."""


@dataclass(frozen=True)
class ProgramRun(ProgramUse):
    """What one run of a program used and how it ended."""

    peak_is_exact: bool
    """False when the exit was missed, or that of the first thread was not the last one, so that the
    peak is that of the last sample."""
    curve: tuple[CurvePoint, ...]
    """Resident anonymous memory over time; `event` and `live_bytes` are 0."""
    output_sha256: str
    """Digest of standard output."""
    stderr_tail: str
    """The last lines the program wrote to standard error."""
    has_fixed_addresses: bool = True
    """False where they were random: on request, or where a container forbids to fix them."""
    leaves_others: bool = False
    """Whether processes that it started went on when it ended, and were killed."""

    @property
    def cpu_ns(self) -> int:
        """User and system time together."""
        return self.user_ns + self.system_ns

    def lost_settings(self, allocator: str | None) -> str | None:
        """Return why it did not run under the settings that it was given; None: it did, or unknown.

        What it was preloaded with is looked at by what was mapped, not by the variable.

        Args:
            allocator: whose they are; None: the program is as it is, whatever a script sets.
        """
        if self.preload_mapped is False:
            return not_loaded()
        names = self.changed_variables or ()
        if LAYOUT in names:
            return (
                "no settings reach it: what starts it takes variables out of its environment; "
                "where that is `env -i` or a script, name the command behind it, or take that out"
            )
        if allocator and (changed := [name for name in names if is_read_by(name, allocator)]):
            return (
                f"settings of {allocator} do not reach it as given: what starts it changes "
                f"{series(changed)}; where that is `env` or a script, name the command behind it, "
                "or take that out"
            )
        return None

    @property
    def changes(self) -> str | None:
        """What a comparison with it leaves out; None: nothing that is known."""
        if not self.changed_variables:
            return None
        names = self.changed_variables
        known = [a for a in ALLOCATORS if any(is_read_by(name, a) for name in names)]
        whose = f"settings of {series(known)}" if known else "settings of who reads that"
        return f"{whose} are not compared: what starts the program changes {series(names)}"

    @property
    def ending(self) -> str:
        """How it ended, in words: ``exit status 1``, ``killed by SIGSEGV``."""
        if self.timed_out:
            return "stopped at the time limit"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return f"exit status {self.exit_status}"


@dataclass(frozen=True)
class Surroundings:
    """How every run of a comparison is made; equal for all its subjects."""

    cpu: int | None = None
    """Core the program is pinned to; None leaves it free."""
    timeout_s: float | None = None
    """Limit of one run; None for no limit."""
    sample_ms: int = 2
    """Time between two samples of memory, 1 .. 10000."""
    thp: Literal["never", "keep"] = "keep"
    """keep: transparent huge pages as the machine is set; never: off for the program."""
    aslr: Literal["off", "on"] = "off"
    """Address randomisation of the program."""
    counts_syscalls: bool = False
    """Count its system calls, which slows it down: its times are none of its own."""

    def as_deployed(self, *, is_at_random: bool) -> "Surroundings":
        """Return the same, at random addresses where a run depends on them.

        So it does under a setting that wants huge pages for all memory: how many of its pages are
        huge depends on where they lie.  Elsewhere memory at fixed addresses repeats itself.
        """
        return replace(self, aslr="on") if is_at_random else self


class _Curve(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    time_ns: tuple[int, ...]
    anon_bytes: tuple[int, ...]


class _Report(BaseModel):
    """What supervise writes beside `ProgramUse`."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    schema_name: Literal["supervise.result"] = Field(alias="schema")
    version: Literal[1]
    peak_from: Literal["exit", "samples"]
    fixed_addresses: bool
    leaves_others: bool
    curve: _Curve


_USE: Final = TypeAdapter(ProgramUse)


def limit_after(wall_s: float, floor_s: float) -> float:
    """Return the time limit of a run, in seconds, that follows from the time of the baseline's.

    Args:
        wall_s: elapsed seconds of that one.
        floor_s: least limit.
    """
    return max(floor_s, _TIMEOUT_FACTOR * wall_s)


class RunsPrograms(Protocol):
    """Runs programs: `ProgramRunner`, or a double."""

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        """Run a program to its end."""
        ...


class ProgramRunner:
    """Runs real programs under supervise."""

    def __init__(self, supervise: Path | None = None, cwd: Path | None = None) -> None:
        """Prepare.

        Args:
            supervise: path of the launcher; None for the installed one.
            cwd: working folder of runs that name none; None for the current one.

        Raises:
            MissingToolError: it is not installed.
        """
        self._supervise = supervise or native_file("supervise")
        self._cwd = cwd
        self._peaks: dict[tuple[str, ...], int] = {}
        """Command -> greatest peak of its runs, in bytes."""
        self._processes = Processes(are_asked=True)

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        surroundings: Surroundings,
        cwd: Path | None = None,
    ) -> ProgramRun:
        """Run a program to its end; its standard input is empty.

        Args:
            command: program and arguments.
            environment: its whole environment.
            surroundings: core, limits and kernel settings.
            cwd: working folder; None for the usual one.

        Raises:
            MissingToolError: the program cannot be executed.
            ProgramError: supervise failed; a program that fails is no error here.
            OutputError: there is no room for what the program prints.
        """
        with scratch_folder() as scratch:
            words = self._words(scratch, environment, surroundings)
            before = self._peaks.get(tuple(command), 0)
            words += [*_warm_words(before, surroundings), "--", *command]
            clean = clean_environment(environment)
            ended = self._start(words, scratch, clean, surroundings, cwd or self._cwd)
            stderr_tail = _tail(scratch / "stderr")
            if ended.exit_status != 0 or ended.timed_out:
                raise _supervise_error(ended, stderr_tail, scratch)
            report, use = _read_report(scratch / "report")
            self._peaks[tuple(command)] = max(before, use.peak_anon_bytes)
            return _program_run(report, use, digest(scratch / "stdout"), stderr_tail)

    def stop(self) -> None:
        """End the program that is running; for Ctrl-C."""
        self._processes.stop()

    def _words(
        self, scratch: Path, environment: Mapping[str, str], surroundings: Surroundings
    ) -> list[str | Path]:
        words: list[str | Path] = [self._supervise, "--with-parent"]
        words += ["--report", scratch / "report", *supervise_options(environment, surroundings)]
        if surroundings.timeout_s is not None:
            words += ["--timeout", f"{surroundings.timeout_s:g}"]
        return words

    def _start(
        self,
        words: Sequence[str | Path],
        scratch: Path,
        environment: Mapping[str, str],
        surroundings: Surroundings,
        cwd: Path | None,
    ) -> Finished:
        limit_s = surroundings.timeout_s
        with _output(scratch / "stdout") as out, _output(scratch / "stderr") as err:
            try:
                return self._processes.run(
                    words,
                    environment=environment,
                    timeout_s=None if limit_s is None else limit_s + _GRACE_S,
                    stdout=out,
                    stderr=err,
                    cwd=cwd,
                )
            except OSError as error:
                raise MissingToolError(
                    f"{self._supervise}: cannot be started: {error.strerror}"
                ) from error


def _warm_words(peak_bytes: int, surroundings: Surroundings) -> list[str]:
    """Return the option that touches as much memory as a program needs before it starts.

    In a virtual machine huge pages of the first run after a pause else cost milliseconds each.
    """
    if surroundings.thp == "never":
        return []
    return ["--warm", f"{min(_WARM_SHARE * peak_bytes / 2**20, WARM_MIB):.1f}"]


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without any variable that steers an allocator.

    Example:
        >>> clean_environment({"HOME": "/root", "MALLOC_ARENA_MAX": "1", "LD_PRELOAD": "x.so"})
        {'HOME': '/root'}
    """
    return {
        name: value
        for name, value in environment.items()
        if not (_REMOVED.fullmatch(name) or allocator_variables().fullmatch(name))
    }


def environment_under(
    variables: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return an environment with an allocator's variables in place of all that steer one in it.

    They stand first as well as last: mimalloc 2.0 reads only the first 256 variables.
    """
    own = in_front(variables, beside(environment))
    return {**own, **clean_environment(environment), **own}


def steering(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that steer an allocator, or preload one, sorted.

    Example:
        >>> steering({"HOME": "/root", "MALLOC_ARENA_MAX": "1", "LD_PRELOAD": "x.so"})
        ('MALLOC_ARENA_MAX',)
    """
    others = beside(environment)
    return tuple(
        name
        for name in _removed(environment)
        if name not in (PRELOAD, TUNABLES)
        or parts_of(environment[name]) != parts_of(others.get(name))
    )


def is_read_by(name: str, allocator: str) -> bool:
    """Return whether an allocator reads a variable that steers one."""
    own = shipped_allocator_file(allocator).environment.variable.partition("{NAME}")[0]
    return bool(name.startswith(own) or re.fullmatch(FURTHER_VARIABLES.get(allocator, ""), name))


def steering_digest(environment: Mapping[str, str]) -> str:
    """Return a digest of what steers or preloads something, or is a switch, names and values."""
    found = [(name, environment[name]) for name in _removed(environment)]
    found += switches_in(environment).items()
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _removed(environment: Mapping[str, str]) -> list[str]:
    return sorted(environment.keys() - clean_environment(environment).keys())


def supervise_options(environment: Mapping[str, str], surroundings: Surroundings) -> list[str]:
    """Return the options of supervise for the kernel's and the allocator's settings.

    Args:
        environment: of the program; what does not steer an allocator is not among the options but
            inherited: a command line is readable for all users of the machine.
        surroundings: all but the time limit.
    """
    words = ["--thp", surroundings.thp, "--aslr", surroundings.aslr]
    words += ["--sample-ms", str(surroundings.sample_ms)]
    if surroundings.cpu is not None:
        words += ["--cpu", str(surroundings.cpu)]
    if surroundings.counts_syscalls:
        words += ["--count-syscalls"]
    if library := preloaded_allocator(environment):
        words += ["--preload", library]  # it is checked, one file alone
    for name in _removed(environment):
        words += ["--env", f"{name}={environment[name]}"]
    return words


def padded(environments: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the environments with padding, so that all take the same room on the stack.

    The size of the environment shifts the stack, which alone can change a
    program's speed; after padding, number and total length of the variables are
    the same everywhere.  Padding that is there already is replaced.

    Example:
        >>> [len(environment) for environment in padded([{"A": "1"}, {"A": "1", "B": "22"}])]
        [3, 3]
    """
    plain = [
        {name: environment[name] for name in environment if not name.startswith(_PADDING)}
        for environment in environments
    ]
    n_most = max((len(environment) for environment in plain), default=0) + 1
    filled = []
    for environment in plain:
        names = [f"{_PADDING}{index}" for index in range(n_most - len(environment))]
        filled.append({**environment, **dict.fromkeys(names, "")})
    room = max((_length(environment) for environment in filled), default=0)
    for environment in filled:
        environment[f"{_PADDING}0"] = "x" * (room - _length(environment))
    return filled


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _length(environment: Mapping[str, str]) -> int:
    return sum(len(os.fsencode(name)) + len(os.fsencode(environment[name])) for name in environment)


@contextlib.contextmanager
def _output(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _STDERR_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _supervise_error(
    ended: Finished, stderr: str, scratch: Path
) -> MissingToolError | OutputError | ProgramError:
    if shutil.disk_usage(scratch).free < _LEAST_ROOM:
        message = f"{scratch.parent}: no room for what the program prints; make room, or set TMPDIR"
        return OutputError(message)
    lines = [line for line in stderr.splitlines() if line.startswith("supervise: ")]
    text = lines[-1].removeprefix("supervise: ") if lines else f"exit status {ended.exit_status}"
    no_program = 3
    if ended.exit_status == no_program:
        return MissingToolError(f"{text}; give the command as you would type it, after --")
    return ProgramError(f"supervise failed: {'it hangs' if ended.timed_out else text}")


def _read_report(path: Path) -> tuple[_Report, ProgramUse]:
    try:
        text = path.read_bytes()
        # Bytes of a path that are no text: pydantic refuses the surrogates that stand for them.
        legible = re.sub(rb"\\udc[89a-f][0-9a-f]", b"?", text)
        report, use = _Report.model_validate_json(legible), _USE.validate_json(legible)
        return report, replace(use, program=json.loads(text).get("program"))
    except ValidationError as error:
        raise misunderstood("the report of supervise", error) from error
    except OSError as error:
        raise ProgramError(
            f"supervise left no report: {error.strerror or error}; reinstall malloc-tuner"
        ) from error


def _changed(entries: Sequence[str]) -> tuple[str, ...]:
    """Return `changed_variables`, of names and GLIBC_TUNABLES with values, found and given."""
    pairs = [entry.partition("=")[::2] for entry in entries]
    tunables = [parts_of(value) for name, value in pairs if name == TUNABLES]
    found, given = (
        [part for part in parts if part.startswith(OF_MALLOC)] for parts in [*tunables, [], []][:2]
    )
    alike = {PRELOAD, TUNABLES} if found == given else {PRELOAD}
    names = {*_removed(dict(pairs)), *({LAYOUT} & dict(pairs).keys())} - alike
    return tuple(sorted(names))


def _program_run(
    report: _Report, use: ProgramUse, output_sha256: str, stderr_tail: str
) -> ProgramRun:
    columns = zip(report.curve.time_ns, report.curve.anon_bytes, strict=True)
    libraries = tuple(filter(brings_malloc, use.malloc_libraries))
    changed = use.changed_variables and _changed(use.changed_variables)
    return ProgramRun(
        **vars(replace(use, malloc_libraries=libraries, changed_variables=changed)),
        peak_is_exact=report.peak_from == "exit",
        curve=tuple(CurvePoint(0, time_ns, anon, 0) for time_ns, anon in columns),
        output_sha256=output_sha256,
        stderr_tail=stderr_tail,
        has_fixed_addresses=report.fixed_addresses,
        leaves_others=report.leaves_others,
    )
