"""Run a program under the recorder and build the traces of its processes.

The recorder (``librecorder.so``) is preloaded and writes one spool per process
into the folder ``OUTPUT.spool``; ``build_trace`` turns each into a trace, and the
folder is removed.  When anything fails in between, the folder stays and
`recover` builds the traces later: nothing that was recorded is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import tuner
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.resources import native_file

SPOOL_SUFFIX: Final = ".spool"
SETTING: Final = "MALLOC_TUNER_RECORD"
"""Environment variable the recorder reads: ``FOLLOW:TIME:FOLDER``, FOLLOW being 0 or 1.

TIME is CLOCK_MONOTONIC in ns just before the program is executed.
"""

_TITLE_INTERVAL_S: Final = 0.2
"""How often processes are looked at for the names they give themselves."""

USUAL_ENDS: Final = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGPIPE, signal.SIGALRM}
)
"""Signals by which people and scripts end a program; any other is a crash."""


@dataclass(frozen=True)
class RecordedTotals:
    """What the header of a new trace tells.

    `TraceTotals` has more of it, but needs numpy, whose start costs more than a short recording.
    """

    n_events: int
    n_threads: int
    """Greatest number of threads alive at once."""
    peak_live_bytes: int


@dataclass(frozen=True)
class RecordedProcess:
    """One process with its trace."""

    path: Path
    """The trace."""
    argv: tuple[str, ...]
    """Arguments of the process, the program first."""
    pid: int
    totals: RecordedTotals
    file_bytes: int
    foreign_frees: int
    """Frees of blocks the recording never saw; dropped."""
    stopped: str | None
    """Why recording ended before the process did; None: it did not."""
    replaced: tuple[str, ...]
    """Programs the process ran before it became this one by exec; not in the trace."""
    title: str = ""
    """What it called itself last, as ``ps`` shows it; empty: by its arguments, or not seen."""


@dataclass(frozen=True)
class Ending:
    """How the program ended."""

    exit_status: int | None
    """0..255, or None when a signal ended it."""
    signal_name: str | None
    """``SIGSEGV``, or None when it exited."""
    wall_s: float
    """Time from start to end, recorder included."""
    cpu_s: float
    """User and system time of the program and the children it waited for."""
    end_ns: int
    """When it ended, CLOCK_MONOTONIC."""

    @property
    def is_crash(self) -> bool:
        """True when a signal ended it that nobody sends on purpose."""
        return self.signal_name is not None and self.signal_name not in {s.name for s in USUAL_ENDS}

    def __str__(self) -> str:
        """Words for a message."""
        if self.signal_name is not None:
            return f"was ended by {self.signal_name}"
        return f"exited with status {self.exit_status}"


@dataclass(frozen=True)
class Recording:
    """All processes of a recording, the one that was started first at the front."""

    processes: tuple[RecordedProcess, ...]
    ending: Ending


def record(command: Sequence[str], output: Path, *, follow: bool = False) -> Recording:
    """Run a program and write the trace of its allocations.

    Standard input, output and error, the working folder and the exit of the
    program are its own.  Ctrl-C goes to the program; what it recorded is kept.

    Args:
        command: program and arguments.
        output: the trace of the first process; further ones, with `follow`, stand
            beside it as ``NAME.2-program.trace``.
        follow: record the children too.

    Raises:
        MissingToolError: the program does not exist.
        OutputError: the trace cannot be written, or the disk became full while
            recording; what was recorded until then is kept.
        ProgramError: nothing could be recorded; the message says why.
    """
    spool = _make_spool(output)
    try:
        with _titles(spool, follow=follow) as titles:
            ending = _run(command, spool, follow=follow)
        _check_any_spool(spool, command, ending)
    except (OSError, ProgramError, MissingToolError):
        shutil.rmtree(spool, ignore_errors=True)
        raise
    processes = recover(spool, output, ending, command)
    return Recording(tuple(_named(process, titles) for process in processes), ending)


def recover(
    spool: Path, output: Path, ending: Ending | None = None, command: Sequence[str] = ()
) -> tuple[RecordedProcess, ...]:
    """Build the traces of a spool folder and remove it.

    A process that became another program by exec counts as the last one.

    Args:
        spool: what an interrupted recording left, ``OUTPUT.spool``.
        output: the trace of the first process.
        ending: how the program ended, if known.
        command: the program, for messages.

    Returns:
        The processes that made events, in the order of their start.

    Raises:
        OutputError: a trace cannot be written, and the folder stays; or the disk was full
            before the first event.
        ProgramError: there is no event in any spool.
    """
    all_images = _images_by_process(spool)
    processes: list[RecordedProcess] = []
    for images in all_images:
        trace = _trace_path(output, images[-1], len(processes))
        process = _build(images, trace, ending if images is all_images[0] else None)
        if process.totals.n_events or len(all_images) == 1:
            processes.append(process)
        else:  # a process that only started others
            trace.unlink()
    if not any(process.totals.n_events for process in processes):
        _remove(processes, spool)
        if any(process.stopped for process in processes):
            raise OutputError(_no_room(spool))
        raise ProgramError(_why_no_events(command))
    shutil.rmtree(spool, ignore_errors=True)
    return tuple(processes)


# Running


def _make_spool(output: Path) -> Path:
    """Create the spool folder beside the output, which must be writable."""
    if output.is_dir() or not output.name:
        message = f"{output}: is a folder; name the trace to write"
        raise OutputError(message)
    if output.exists() and not output.is_file():
        message = f"{output}: is not a regular file; name the trace to write"
        raise OutputError(message)
    spool = output.with_name(output.name + SPOOL_SUFFIX).absolute()
    try:
        spool.mkdir()
    except FileExistsError as error:
        message = (
            f"{spool}: left by an interrupted recording; save it with "
            f"`malloc-tuner trace recover {spool} -o {output}` or remove the folder"
        )
        raise OutputError(message) from error
    except OSError as error:
        message = f"{output}: cannot write here: {error.strerror}"
        raise OutputError(message) from error
    return spool


def _environment(spool: Path, *, follow: bool) -> dict[str, str]:
    """Return the program's environment: ours, plus the recorder."""
    recorder = str(native_file("librecorder.so"))
    if re.search(r"[\s:]", recorder):
        message = f"{recorder}: LD_PRELOAD allows no blank or colon in a path; install elsewhere"
        raise MissingToolError(message)
    others = os.environ.get("LD_PRELOAD", "")
    return os.environ | {
        "LD_PRELOAD": f"{recorder}:{others}" if others else recorder,
        SETTING: f"{int(follow)}:{time.monotonic_ns()}:{spool}",
    }


def _run(command: Sequence[str], spool: Path, *, follow: bool) -> Ending:
    start_ns = time.monotonic_ns()
    try:
        process = subprocess.Popen(list(command), env=_environment(spool, follow=follow))
    except OSError as error:
        message = f"{command[0]}: cannot be started: {error.strerror}"
        raise MissingToolError(message) from error
    with _signals_to(process):
        _, status, usage = os.wait4(process.pid, 0)
    end_ns = time.monotonic_ns()
    wall_s, cpu_s = (end_ns - start_ns) / 1e9, usage.ru_utime + usage.ru_stime
    code = process.returncode = os.waitstatus_to_exitcode(status)
    if code < 0:
        return Ending(None, _signal_name(-code), wall_s, cpu_s, end_ns)
    return Ending(code, None, wall_s, cpu_s, end_ns)


@contextlib.contextmanager
def _titles(spool: Path, *, follow: bool) -> Iterator[Mapping[int, str]]:
    """Watch how the processes of a recording call themselves: servers tell their roles so.

    Yields:
        Process -> its command line as last seen; complete when the context ends.
    """
    titles: dict[int, str] = {}
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_TITLE_INTERVAL_S):
            titles.update(read_titles(spool))

    watcher = threading.Thread(target=watch, daemon=True)
    if follow:
        watcher.start()
    try:
        yield titles
    finally:
        is_over.set()
        if follow:
            watcher.join()


def read_titles(spool: Path, proc: Path = Path("/proc")) -> dict[int, str]:
    """Return the command line that each recorded process shows now; those that ended are absent."""
    found = {}
    for path in spool.glob("*.spool"):
        number = re.split("[-.]", path.name)[0]
        with contextlib.suppress(OSError):
            words = (proc / number / "cmdline").read_bytes().decode(errors="replace")
            if title := " ".join(words.replace("\0", " ").split()):
                found[int(number)] = title
    return found


def _named(process: RecordedProcess, titles: Mapping[int, str]) -> RecordedProcess:
    title = titles.get(process.pid, "")
    is_new = title != " ".join(" ".join(process.argv).split())
    return replace(process, title=title if is_new else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"


@contextlib.contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Outlive Ctrl-C, which the program gets from the terminal; pass SIGTERM on."""

    def pass_on(number: int, frame: object) -> None:  # noqa: ARG001 - the signature of handlers
        if number == signal.SIGTERM:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Building


def _tool(*arguments: str) -> dict[str, Any]:
    """Run ``build_trace`` and return the JSON object it prints."""
    done = subprocess.run(
        [str(native_file("build_trace")), *arguments],
        capture_output=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
    )
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().removeprefix("build_trace: ")
        message = reason or f"build_trace ended with status {done.returncode}"
        raise OutputError(message)
    result = json.loads(done.stdout)
    if not isinstance(result, dict):
        message = "build_trace printed no JSON object"
        raise OutputError(message)
    return result


@dataclass(frozen=True)
class _Image:
    """What one spool is of: a program in a process, until its end or an exec."""

    spool: Path
    pid: int
    program: str
    start_ns: int


def _images_by_process(folder: Path) -> list[list[_Image]]:
    """Return the images of each process in order, the processes by their start."""
    paths = sorted(folder.glob("*.spool")) if folder.is_dir() else []
    if not paths:
        message = f"{folder}: no recording here; give the folder OUTPUT{SPOOL_SUFFIX}"
        raise OutputError(message)
    begun = [path for path in paths if path.stat().st_size]
    if not begun:  # each was created, but not one byte fitted in
        shutil.rmtree(folder, ignore_errors=True)
        raise OutputError(_no_room(folder))
    processes: dict[int, list[_Image]] = {}
    for image in sorted(map(_image, begun), key=lambda image: image.start_ns):
        processes.setdefault(image.pid, []).append(image)
    return list(processes.values())


def _image(spool: Path) -> _Image:
    facts = _tool("--describe", str(spool))
    program = Path(facts["argv"][0]).name if facts["argv"] else "unknown"
    return _Image(spool, int(facts["pid"]), program, int(facts["start_clock_ns"]))


def _trace_path(output: Path, image: _Image, n_before: int) -> Path:
    if n_before == 0:
        return output
    program = re.sub(r"[^\w.+-]", "_", image.program)
    return output.with_name(f"{output.stem}.{n_before + 1}-{program}{output.suffix}")


def _metadata(ending: Ending | None) -> dict[str, Any]:
    return {
        "tool": f"malloc-tuner {tuner.__version__}",
        "exit_status": ending.exit_status if ending else None,
        "signal": ending.signal_name if ending else None,
        "wall_s": round(ending.wall_s, 3) if ending else None,
        "cpu_s": round(ending.cpu_s, 3) if ending else None,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_count": os.cpu_count(),
    }


def _build(images: Sequence[_Image], output: Path, ending: Ending | None) -> RecordedProcess:
    spool = images[-1].spool
    words = [str(spool), str(output), json.dumps(_metadata(ending))]
    try:
        facts = _tool(*words, *([str(ending.end_ns)] if ending else []))
    except OutputError as error:
        message = (
            f"{error}; the recording is kept, build the trace later with "
            f"`malloc-tuner trace recover {spool.parent} -o {output}`"
        )
        raise OutputError(message) from error
    return RecordedProcess(
        path=output,
        argv=tuple(facts["argv"]),
        pid=int(facts["pid"]),
        totals=RecordedTotals(**facts["totals"]),
        file_bytes=output.stat().st_size,
        foreign_frees=int(facts["foreign_frees"]),
        stopped=facts["stopped"],
        replaced=tuple(image.program for image in images[:-1]),
    )


def _remove(processes: Sequence[RecordedProcess], spool: Path) -> None:
    for process in processes:
        process.path.unlink(missing_ok=True)
    shutil.rmtree(spool, ignore_errors=True)


# Explaining


def _check_any_spool(spool: Path, command: Sequence[str], ending: Ending) -> None:
    """Raise ProgramError when the recorder did not start in the program."""
    if not any(spool.iterdir()):
        raise ProgramError(_why_nothing(command, ending))


def _no_room(spool: Path) -> str:
    return (
        f"{spool}: nothing could be recorded, the disk is full; make room, or record to another "
        "disk with -o"
    )


def _is_static(program: Path) -> bool:
    """Tell whether a program is an ELF file that names no interpreter."""
    from elftools.common.exceptions import ELFError  # noqa: PLC0415 - only to explain a failure
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - as above

    with program.open("rb") as file:
        try:
            segments = list(ELFFile(file).iter_segments())
        except ELFError:  # a script
            return False
    return not any(segment.header.p_type == "PT_INTERP" for segment in segments)


def _why_nothing(command: Sequence[str], ending: Ending) -> str:
    """Explain that not even a spool appeared."""
    found = shutil.which(command[0])
    start = f"{command[0]}: nothing was recorded"
    if found is None:
        return f"{start}: the program {ending}"
    try:
        mode, is_static = Path(found).stat().st_mode, _is_static(Path(found))
    except OSError:
        return f"{start}: the program cannot be read"
    if is_static:
        return f"{start}: it is statically linked, so no library can be preloaded into it"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{start}: it is setuid or setgid, for which the system ignores LD_PRELOAD"
    return (
        f"{start}: the recorder did not start in it (another architecture, or a C library "
        f"that ignores LD_PRELOAD); the program {ending}"
    )


def _why_no_events(command: Sequence[str]) -> str:
    """Explain a recording without a single event."""
    return (
        f"{command[0] if command else 'the program'}: nothing was recorded: it called no "
        f"allocation function of a library; it brings its own malloc, or only starts other "
        f"programs (then record with --follow)"
    )
