"""Say why a recording is empty, or lacks something."""

import mmap
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tuner.recording.program import Ending
from tuner.recording.recorded import RecordedProcess

FEW_EVENTS: Final = 2_000
"""Above what shells and other starters make themselves: a script of bash with a few commands
1,324, `perl -e 'system ...'` 1,368, timeout 262, dash 47 (Debian 12)."""

SWITCHES: Final = {"PYTHONMALLOC": "malloc", "USE_ZEND_ALLOC": "0"}
"""Variable that says who has a program's small objects -> its value where malloc has all."""

_KEEPS_OBJECTS: Final = (
    (re.compile(r"python[\d.]*[a-z]*"), "CPython", "PYTHONMALLOC"),
    (re.compile(r"php(-[a-z]+)?[\d.]*"), "PHP", "USE_ZEND_ALLOC"),
)
"""Name of the program's file, what it is, and the variable by which malloc gets its objects."""

_OWN_ALLOCATOR: Final = (
    "bring an allocator of its own, as CPython and PHP do "
    f"({' and '.join(f'{name}={value}' for name, value in SWITCHES.items())} switch that off; "
    "compare what is gained then with the program without it), or call one by other names than "
    "malloc's, such as mi_malloc"
)
"""What a program may do of which few events are recorded."""


def switches_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment has of `SWITCHES`: it acts on malloc as settings do."""
    return {name: environment[name] for name in SWITCHES if name in environment}


def small_objects_words(program: str, environment: Mapping[str, str]) -> str | None:
    """Say how malloc gets the objects of an interpreter that keeps them.

    Args:
        program: the file that runs.
        environment: that it has.

    Returns:
        None of other programs, and where malloc has them already.

    Example:
        >>> (small_objects_words("/usr/bin/php8.2", {}) or "")[:62]
        'PHP keeps small objects itself: with USE_ZEND_ALLOC=0 malloc h'
    """
    for pattern, name, switch in _KEEPS_OBJECTS:
        if pattern.fullmatch(Path(program).name) and environment.get(switch) != SWITCHES[switch]:
            return (
                f"{name} keeps small objects itself: with {switch}={SWITCHES[switch]} malloc has "
                "them; compare what is gained then with the program without it"
            )
    return None


def why_nothing(command: Sequence[str], ending: Ending) -> str:
    """Explain that the recorder did not start in a program: there is not even a spool."""
    found = shutil.which(command[0])
    start = f"{command[0]}: nothing was recorded"
    if found is None:
        return f"{start}: the program {ending}"
    try:
        has_other_rights, has_no_loader = gains_rights(Path(found)), is_static(Path(found))
    except OSError:
        return f"{start}: the program cannot be read"
    if has_no_loader:
        return f"{start}: it is statically linked, so no library can be preloaded into it"
    if has_other_rights:
        return f"{start}: it is setuid or setgid, for which the system ignores LD_PRELOAD"
    return (
        f"{start}: the recorder did not start in it (another architecture, or a C library "
        f"that ignores LD_PRELOAD); the program {ending}"
    )


def why_no_events(
    command: Sequence[str],
    ending: Ending | None,
    *,
    is_window: bool = False,
    background: Sequence[int] | None = None,
) -> str:
    """Explain a recording without a single event; `background` as `build_traces` has it."""
    name = command[0] if command else "the program"
    if is_window:
        return f"{name}: nothing was allocated or freed between --from and --to"
    if background:
        return f"{went_on(command, background)}; nothing was recorded"
    others = "starts programs that do"
    if background is None:
        others = "only starts other programs (`record --follow` takes them)"
    if ending is not None and ending.signal_name is not None:
        return f"{name}: nothing was recorded: it {ending} before it called an allocation function"
    ended = f"{ending} and " if ending is not None and ending.exit_status else ""
    return (
        f"{name}: nothing was recorded: it {ended}called no allocation function of a library: it "
        f"needs none, brings its own malloc, or {others}"
    )


def few_events(command: Sequence[str], n_events: int, *, follow: bool) -> str | None:
    """Say what a recording may lack, children too unless they were recorded; None: it has enough.

    Args:
        command: that was recorded.
        n_events: of all its processes.
        follow: whether children are among them.
    """
    if n_events >= FEW_EVENTS:
        return None
    child = "start the program that does the work (record that one too, with --follow), or "
    return f"these are few events: {command[0]} may {'' if follow else child}{_OWN_ALLOCATOR}"


def went_on(command: Sequence[str], pids: Sequence[int]) -> str:
    """Say that processes outlived the first one, and what to do."""
    return (
        f"{command[0]}: it went on in the background (process {', '.join(map(str, pids))}) after "
        "its first process had ended; only what it did until then is recorded: start it in the "
        "foreground, for a whole trace"
    )


def no_room(spool: Path, why: str = "the disk is full, or `ulimit -f` too low") -> str:
    """Explain that nothing could be written; `why` where the recorder could note it."""
    start = f"{spool}: nothing could be recorded: {why}"
    return f"{start}; make room, or record to another disk with -o"


def not_recorded(n_lost: int) -> str:
    """Say that processes, or programs that they became, have left an empty spool."""
    return f"{n_lost} program{'s'[: n_lost != 1]} could not be recorded: no room on the disk"


def killed_at_start(processes: Sequence[RecordedProcess]) -> str | None:
    """Say how many programs have left a spool without a beginning; None: none.

    Any program may kill its children: nothing of it is missing in the traces.
    """
    if not (n_killed := sum(process.n_killed for process in processes)):
        return None
    verb = "s were" if n_killed > 1 else " was"
    return f"{n_killed} program{verb} not recorded: killed at the start, or no room in memory"


def stopped_early(processes: Sequence[RecordedProcess]) -> str | None:
    """Say which traces lack what came later, and why, a line each; None where nothing is missing.

    The last line is of programs that have no trace.
    """
    lines = [
        f"{process.path}: INCOMPLETE: recording stopped early: {process.stopped}; the trace holds "
        "what was recorded until then"
        for process in processes
        if process.stopped
    ]
    if n_lost := sum(process.n_lost for process in processes):
        lines.append(not_recorded(n_lost))
    return "\n".join(lines) or None


def ended_at_once(spool: Path) -> str:
    """Explain that every process ended before the recorder was ready."""
    return f"{spool}: nothing was recorded, the program ended before its first allocation"


def has_glibc(program: Path) -> bool:
    """Return whether a static program holds a C library that reads settings of its malloc."""
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        return content.find(b"GLIBC_TUNABLES") >= 0


def gains_rights(program: Path) -> bool:
    """Return whether it is setuid or setgid to another than the user.

    The system then ignores LD_PRELOAD, and what the environment says to malloc; under a tracer the
    program runs without these rights, as if it were any other.
    """
    status = program.stat()
    as_user = status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid()
    as_group = status.st_mode & stat.S_ISGID and status.st_gid != os.getegid()
    return bool(as_user or as_group)


def is_static(program: Path) -> bool:
    """Return True for an ELF file into which no library can be preloaded.

    The dynamic loader names no interpreter either, but is no program: it may load one.
    """
    from elftools.common.exceptions import ELFError  # noqa: PLC0415 - only where asked
    from elftools.elf.dynamic import DynamicSegment  # noqa: PLC0415 - as above
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - as above

    with program.open("rb") as file:
        try:
            parts = {part.header.p_type: part for part in ELFFile(file).iter_segments()}
            dynamic = parts.get("PT_DYNAMIC")
            is_library = isinstance(dynamic, DynamicSegment) and any(dynamic.iter_tags("DT_SONAME"))
        except ELFError:  # a script
            return False
    return "PT_INTERP" not in parts and not is_library
