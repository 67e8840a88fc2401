"""One run of gem5: guests built, a simulation run under supervise, its results read.

gem5 keeps simulated memory in shared pages and reports at its end what its anonymous
memory is made of (``gem5-validate/memory.py``).  The heap is resident anonymous memory
less what no allocator has a say in: written pages of the executable and libraries, the
stack, and the arenas that Python maps for its objects.  That part is the same for every
allocator and is there soon after the start, so it is taken from peak and mean alike.

The mean is over the life of gem5 as a process, as of every program.

A run of gem5 leaves its files in a folder that is used again by the next run of the same
simulation: the same command line, so the same stack, for every subject.
"""

import contextlib
import hashlib
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.config.gem5_suite import Simulation, Suite
from tuner.config.reading import first_problem
from tuner.errors import MissingToolError, ProgramError
from tuner.measure.gem5_stats import Statistics, parse_statistics
from tuner.measure.offers import ANSWER_SECONDS, gem5_question, try_gem5
from tuner.measure.preloads import not_loaded
from tuner.measure.process import Processes, tool_environment
from tuner.measure.program import ProgramRun, RunsPrograms, Surroundings, clean_environment
from tuner.output import fresh_folder
from tuner.records import Status
from tuner.resources import gem5_dir

SCRIPT = "run.py"
"""What gem5 executes, in the suite's folder or else in the shipped one."""

STATISTICS = "stats.txt"
RESULT = "result.json"
GUEST_OUTPUT = "guest.out"
"""Files of a run in its folder."""

_QUESTION = "version"
"""Folder of a run that simulates nothing."""

_BUILD_SECONDS = 300.0


class _MemoryKinds(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    heap: int
    python: int
    program: int
    preloaded: int
    simulated: int
    files: int


class Gem5Result(BaseModel):
    """What ``run.py`` reports of a run that reached its end."""

    model_config = ConfigDict(frozen=True, strict=True)

    schema_name: Literal["gem5-validate.result"] = Field(alias="schema")
    version: Literal[1]
    gem5: str
    """Version of gem5."""
    machine: str
    guest: str | None
    arguments: tuple[str, ...]
    cause: str
    """Why the simulation ended, in gem5's words."""
    guest_status: int
    ticks: int
    guest_files: tuple[str, ...] = ()
    """What the guest had mapped when it ended."""
    memory_bytes: _MemoryKinds
    """Resident at the end, by kind; see ``gem5-validate/memory.py``."""


@dataclass(frozen=True)
class Gem5Run:
    """One run of a simulation."""

    run: ProgramRun
    """What gem5 used as a process; its peaks and means are anonymous memory as a whole."""
    result: Gem5Result | None
    """None when gem5 did not reach the end of the simulation."""
    statistics: str | None
    """Content of ``stats.txt``; None when there is none."""
    guest_output: bytes
    """What the guest printed."""

    @property
    def heap(self) -> ProgramRun:
        """The run with what is not malloc's taken from its memory.

        Without a result its memory is as it is.
        """
        if self.result is None:
            return self.run
        own = self.result.memory_bytes.program + self.result.memory_bytes.python
        return replace(
            self.run,
            peak_anon_bytes=max(0, self.run.peak_anon_bytes - own),
            mean_anon_bytes=max(0.0, self.run.mean_anon_bytes - own),
            curve=tuple(
                point._replace(heap_bytes=max(0, point.heap_bytes - own))
                for point in self.run.curve
            ),
        )


@dataclass(frozen=True)
class Gem5:
    """gem5 with a suite whose guests are built."""

    program: Path
    suite: Suite
    guests: Path
    """Folder of the built guest programs."""
    outputs: Path
    """Folder in which each simulation has one of its own."""
    runner: RunsPrograms

    def command(self, simulation: Simulation) -> list[str]:
        """Return the command line of a simulation: always the same."""
        words = [str(self.program), "-d", str(self.folder(simulation)), str(script(self.suite))]
        words += ["--machine", str(self.suite.machine_file(simulation))]
        if simulation.guest:
            words += ["--guest", str(self.guests / simulation.guest)]
        if simulation.max_instructions:
            words += ["--max-instructions", str(simulation.max_instructions)]
        return [*words, "--", *simulation.arguments]

    def folder(self, simulation: Simulation) -> Path:
        """Return the folder the last run of a simulation left its files in."""
        return self.outputs / simulation.name

    def identity(self, simulation: Simulation) -> dict[str, str]:
        """Return digests of all that decides what is simulated.

        Raises:
            ProgramError: a file cannot be read.
        """
        files = {"program": self.program, "machine": self.suite.machine_file(simulation)}
        files |= {path.name: path for path in sorted(script(self.suite).parent.glob("*.py"))}
        if simulation.guest:
            files["guest"] = self.guests / simulation.guest
        return {name: file_digest(path) for name, path in files.items()}

    def ask(self, environment: Mapping[str, str]) -> ProgramRun:
        """Run gem5 without a simulation: is it one, and what malloc does it have."""
        command = gem5_question(str(self.program), str(self.outputs / _QUESTION))
        return self.runner.run(command, environment, Surroundings(timeout_s=ANSWER_SECONDS))

    def simulate(
        self, simulation: Simulation, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Gem5Run:
        """Run a simulation; one that fails is no error here.

        Raises:
            OutputError: the folder of its files cannot be written.
            ProgramError: supervise failed.
        """
        folder = fresh_folder(self.folder(simulation))
        run = self.runner.run(self.command(simulation), environment, surroundings)
        return read_run(run, folder)


def read_run(run: ProgramRun, folder: Path) -> Gem5Run:
    """Return a run of gem5 with what it left in its folder.

    Raises:
        ProgramError: its result is of another version.
    """
    return Gem5Run(
        run,
        read_result(folder / RESULT),
        _read(folder / STATISTICS),
        (_read(folder / GUEST_OUTPUT) or "").encode(),
    )


def judge_simulation(found: Gem5Run, digest: str | None) -> tuple[Status, str | None]:
    """Return whether a run simulated what the baseline's did, and if not, why.

    Args:
        found: a run.
        digest: of what the baseline simulated; None for the baseline's first run.
    """
    run = found.run
    if run.timed_out:
        return Status.TIMED_OUT, run.ending
    if run.preload_mapped is False:  # None: this machine forbids to look
        return Status.REFUSED, not_loaded("is gem5 statically linked?")
    if run.exit_status != 0 or found.result is None:
        lines = run.stderr_tail.strip().splitlines()
        last = f': "{lines[-1]}"' if lines else ""
        return Status.FAILED, f"{run.ending}{last}"
    try:
        same = digest in (None, digest_of(found))
    except ProgramError as error:
        return Status.FAILED, str(error)
    return (Status.OK, None) if same else (Status.FAILED, "simulated something else")


def digest_of(found: Gem5Run) -> str:
    """Return the digest of all a run simulated: statistics and the guest's output.

    Raises:
        ProgramError: its statistics are not complete.
    """
    text = statistics_of(found).digest.encode()
    return hashlib.sha256(text + found.guest_output).hexdigest()


def statistics_of(found: Gem5Run) -> Statistics:
    """Return the statistics of a run.

    Raises:
        ProgramError: they are not complete.
    """
    return parse_statistics(found.statistics or "", "stats.txt")


def gem5_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what steers allocators, or the Python that gem5 has."""
    found = clean_environment(environment).items()
    return {name: text for name, text in found if not name.startswith("PYTHON")}


def find_gem5(program: Path) -> Path:
    """Return the absolute path of gem5.

    Raises:
        MissingToolError: there is no such program, or it is no gem5 with X86.
    """
    offer = try_gem5(str(program))
    if not offer.works:
        raise MissingToolError(
            f"{offer.detail}; build gem5 as "
            "https://www.gem5.org/documentation/general_docs/building says, "
            "and give its gem5.opt with --gem5 or GEM5"
        )
    return Path(shutil.which(program) or program).resolve()


def script(suite: Suite) -> Path:
    """Return the script gem5 executes: the suite's own, else the shipped one.

    Raises:
        MissingToolError: there is neither.
    """
    own = suite.folder / SCRIPT
    return own if own.is_file() else gem5_dir() / SCRIPT


def make_guests(
    source: Path, folder: Path, *variables: str, names: Iterable[str] | None = None
) -> None:
    """Build the guest programs of a folder that are missing or older than their source.

    Args:
        source: folder of the sources and their Makefile.
        folder: where the programs go.
        variables: for make: ``LINK=`` links them dynamically.
        names: of the programs, for a Makefile that knows GUESTS; None: all.

    Raises:
        MissingToolError: make is not installed.
        ProgramError: the compiler does not like them, or there is none.
    """
    make = shutil.which("make")
    if make is None:
        raise MissingToolError(
            "make: not installed; install the packages make and gcc to build the guests"
        )
    out = folder.resolve()
    paths = sorted(str(out / name) for name in set(names or ()))
    wanted = [f"GUESTS={' '.join(paths)}"] if paths else []
    command = [make, "-s", "-C", str(source), f"OUT={out}", *variables, *wanted]
    ended = Processes().run(command, environment=tool_environment({}), timeout_s=_BUILD_SECONDS)
    if ended.exit_status != 0:
        lines = ended.stderr.strip().splitlines() or ["no message"]
        raise ProgramError(f"{shlex.join(command)}: exit status {ended.exit_status}: {lines[0]}")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ProgramError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read: {error.strerror}") from error


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return None


def read_result(path: Path) -> Gem5Result | None:
    """Return what ``run.py`` reported; None when there is nothing.

    Raises:
        ProgramError: it is of another version.
    """
    text = _read(path)
    if text is None:
        return None
    try:
        return Gem5Result.model_validate_json(text)
    except ValidationError as error:
        raise ProgramError(
            f"{path}: not understood: {first_problem(error)}; is run.py of another version?"
        ) from error
