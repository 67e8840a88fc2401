"""Build the traces of a recording from its spools, with the native ``build_trace``."""

import contextlib
import glob
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tuner
from tuner.errors import MissingToolError, OutputError, ProgramError, TraceError
from tuner.output import writing
from tuner.recording import explain
from tuner.recording.program import Ending
from tuner.recording.recorded import RecordedProcess, RecordedTotals
from tuner.recording.spool import remove_spool, spools_in
from tuner.resources import native_file
from tuner.trace import SPOOL_SUFFIX, place_while_written, put_in_place, recovery

_NAME_CHARACTERS = 40
"""Of what a process calls itself, in the name of its trace."""

_COMMAND_BYTES = 1 << 16
"""Longest JSON of a command that a trace keeps; a word to `build_trace` has 128 KiB at most."""

_AGAIN = "make room, then repeat this command"


@dataclass(frozen=True)
class RecordedPart:
    """The part of a recording that traces are of, in ns of CLOCK_MONOTONIC; None: no limit."""

    from_ns: int | None = None
    until_ns: int | None = None


NO_WINDOW = RecordedPart()


@dataclass(frozen=True)
class Background:
    """Processes that went on when the first one had ended."""

    pids: tuple[int, ...] = ()
    cut_ns: int | None = None
    """Until when they are recorded, in ns of CLOCK_MONOTONIC; None: to the end of the window."""

    def part_of(self, pid: int, window: RecordedPart) -> RecordedPart:
        """Return the part that the trace of a process is of."""
        is_cut = self.cut_ns is not None and pid in self.pids
        return replace(window, until_ns=self.cut_ns) if is_cut else window


NO_BACKGROUND = Background()


def build_traces(
    spool: Path,
    output: Path,
    ending: Ending | None,
    command: Sequence[str],
    window: RecordedPart = NO_WINDOW,
    *,
    background: Background | None = None,
    is_kept: bool = True,
) -> tuple[RecordedProcess, ...]:
    """Build the traces of a spool folder and remove what the recording wrote there.

    A process that became another program by exec counts as the last one.  What has a trace's name
    already is replaced when all are whole, and else stays.

    Args:
        spool: the folder.
        output: the trace of the first process; further ones stand beside it.
        ending: how the program ended, if known.
        command: the program and its arguments, as typed; empty where that is not known.
        window: what the traces are of.
        background: children that went on when the program ended; None: none was followed.
        is_kept: keep what was recorded if the disk is full; else it is removed.

    Returns:
        The processes that made events, in the order of their start.

    Raises:
        OutputError: a trace cannot be written, and the folder stays; the disk was full before
            the first event; or it became full, and `is_kept` is False.
        ProgramError: there is no event in any spool.
    """
    all_images = _images_by_process(spool)
    with contextlib.ExitStack() as partials:
        processes = _build_each(
            all_images, output, ending, command, window,
            background=background or NO_BACKGROUND, partials=partials,
            advice=kept(spool, output) if is_kept else _AGAIN,
        )  # fmt: skip
        sizes = [path.stat().st_size for path in spools_in(spool) if not _has_begun(path)]
        n_lost = sizes.count(0)
        if processes:
            n_killed = len(sizes) - n_lost
            processes[0] = replace(processes[0], n_lost=n_lost, n_killed=n_killed)
        stopped = next((process.stopped for process in processes if process.stopped), None)
        if n_lost and not stopped:
            stopped = explain.not_recorded(n_lost)
        is_empty = not any(process.totals.n_events for process in processes)
        if is_empty or (stopped and not is_kept):
            remove_spool(spool)
            if stopped and not is_empty:
                raise OutputError(f"{output}: recording stopped early: {stopped}; {_AGAIN}")
            if stopped:
                raise OutputError(explain.no_room(spool, stopped))
            is_window = window != NO_WINDOW
            left = None if background is None else background.pids
            raise ProgramError(
                explain.why_no_events(command, ending, is_window=is_window, background=left)
            )
        for process in processes:
            with writing(process.path):
                put_in_place(_partial(process.path), Path(os.path.realpath(process.path)))
    remove_spool(spool)
    return tuple(processes)


@dataclass(frozen=True)
class _Image:
    """What one spool is of: a program in a process, until its end or an exec."""

    spool: Path
    process: tuple[int, int]
    """Its number, and when the kernel made it: another process may have the number later."""
    program: str
    """What it calls itself, if that is no command line; else its program."""
    start_ns: int
    is_fork: bool
    """It began with a fork: it is the first of its process."""


def _build_each(
    all_images: Sequence[Sequence[_Image]],
    output: Path,
    ending: Ending | None,
    command: Sequence[str],
    window: RecordedPart,
    *,
    background: Background,
    partials: contextlib.ExitStack,
    advice: str,
) -> list[RecordedProcess]:
    """Build the traces of all processes that did something, which `partials` removes later.

    Raises:
        OutputError: one cannot be written; `advice` ends the message.
    """
    processes: list[RecordedProcess] = []
    for images in all_images:
        trace = _trace_path(output, images[-1].program, len(processes))
        # What was started is not among them where no recorder can be in it, as in static programs.
        is_started = ending is None or ending.pid in {None, images[0].process[0]}
        is_first = images is all_images[0] and is_started
        ended, typed = (ending, command) if is_first else (None, ())
        partial = _partial(trace)
        if partial != Path(os.path.realpath(trace)):  # else it is no file, and the user's
            _remove_left(partial)
            partials.callback(partial.unlink, missing_ok=True)
        part = background.part_of(images[0].process[0], window)
        try:
            process = _build(images, trace, ended, typed, part)
        except OutputError as error:
            text = str(error).replace(str(partial), str(trace))
            raise OutputError(f"{text}; {advice}") from error
        if process.totals.n_events or len(all_images) == 1:  # else it only started others
            processes.append(process)
    return processes


def _remove_left(partial: Path) -> None:
    """Remove what commands left that were killed while they built the same trace."""
    for path in partial.parent.glob(f"{glob.escape(partial.stem)}.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                path.unlink()


def kept(spool: Path, output: Path) -> str:
    """Say that the spools stay, and how to build their traces."""
    return f"what was recorded is kept, build the trace later with {recovery(spool, output)}"


def _partial(trace: Path) -> Path:
    """Return where a trace is until all are whole; a link stays one."""
    return place_while_written(Path(os.path.realpath(trace)))


def _images_by_process(folder: Path) -> list[list[_Image]]:
    """Return the images of each process in order, the processes by their start."""
    paths = spools_in(folder)
    if not paths:
        raise OutputError(f"{folder}: no recording here; give the folder OUTPUT{SPOOL_SUFFIX}")
    begun = [path for path in paths if _has_begun(path)]
    if not begun:
        is_full = not any(path.stat().st_size for path in paths)
        remove_spool(folder)
        raise OutputError(explain.no_room(folder) if is_full else explain.ended_at_once(folder))
    processes: list[list[_Image]] = []
    latest: dict[tuple[int, int], list[_Image]] = {}
    for image in sorted(map(_image, begun), key=lambda image: image.start_ns):
        if image.is_fork or image.process not in latest:
            latest[image.process] = []
            processes.append(latest[image.process])
        latest[image.process].append(image)
    return processes


def remove_replaced(
    there: Sequence[Path], output: Path, processes: Sequence[RecordedProcess]
) -> None:
    """Remove what `check_output` found of further processes, unless it is one of the new traces.

    Only those have no command, and the name that a recording gives them: others are the user's.
    """
    for path in {*there} - {output, *(process.path for process in processes)}:
        with contextlib.suppress(OSError, TraceError):
            if _is_further(path, output):
                path.unlink()


def _is_further(path: Path, output: Path) -> bool:
    from tuner.trace.file import Trace  # noqa: PLC0415 - numpy, only where traces are replaced

    with Trace(path) as trace:
        facts = trace.metadata
    number = re.match(r"(\d+)-", path.name[len(output.stem) + 1 :])
    if not number or facts.get("command", "") is not None or not {"argv", "title"} <= facts.keys():
        return False
    return path == _trace_path(output, _program(facts), int(number[1]) - 1)


def _has_begun(spool: Path) -> bool:
    """Return whether the recorder got to write the header: its first bytes come last.

    A process that was killed before leaves zeros, as one without memory for it does, and on a
    full disk not one byte.
    """
    with spool.open("rb") as file:
        return any(file.read(8))


def _image(spool: Path) -> _Image:
    facts = run_build_trace("--describe", str(spool))
    if "born_ticks" not in facts:
        raise MissingToolError(
            "build_trace: is of another version than malloc-tuner; `pip install .` builds both"
        )
    start_ns = int(facts["start_clock_ns"])
    process = int(facts["pid"]), int(facts["born_ticks"])
    return _Image(spool, process, _program(facts), start_ns, facts["is_fork"])


def _program(facts: Mapping[str, Any]) -> str:
    return _title(facts) or (Path(facts["argv"][0]).name if facts["argv"] else "unknown")


def _title(facts: Mapping[str, Any]) -> str:
    """Return what a process called itself last, unless that is how it was started."""
    title = " ".join((facts["title"] or "").split())
    return title if title != " ".join(" ".join(facts["argv"]).split())[: len(title)] else ""


def _trace_path(output: Path, program: str, n_before: int) -> Path:
    if n_before == 0:
        return output
    program = re.sub(r"[^\w.+-]+", "_", program).strip("_")[:_NAME_CHARACTERS]
    return output.with_name(f"{output.stem}.{n_before + 1}-{program}{output.suffix}")


def _build(
    images: Sequence[_Image],
    output: Path,
    ending: Ending | None,
    command: Sequence[str],
    window: RecordedPart,
) -> RecordedProcess:
    spool = images[-1].spool
    end_ns = ending.end_ns if ending else 0
    moments = (end_ns, window.from_ns or 0, window.until_ns or 0)
    partial = _partial(output)
    facts = run_build_trace(
        str(spool), str(partial), json.dumps(_metadata(ending, command)), *map(str, moments)
    )
    return RecordedProcess(
        path=output,
        argv=tuple(facts["argv"]),
        pid=int(facts["pid"]),
        totals=RecordedTotals(**facts["totals"]),
        file_bytes=partial.stat().st_size,
        foreign_frees=int(facts["foreign_frees"]),
        stopped=facts["stopped"],
        replaced=tuple(image.program for image in images[:-1]),
        title=_title(facts),
        is_cut=facts["is_cut"],
        inherited_blocks=int(facts["inherited_blocks"]),
    )


def _metadata(ending: Ending | None, command: Sequence[str]) -> dict[str, Any]:
    typed = [*map(str, command)]
    is_kept = len(typed) > 0 and len(json.dumps(typed)) <= _COMMAND_BYTES
    return {
        "tool": f"malloc-tuner {tuner.__version__}",
        "command": typed if is_kept else None,
        "exit_status": ending.exit_status if ending else None,
        "signal": ending.signal_name if ending else None,
        "wall_s": round(ending.wall_s, 3) if ending else None,
        "cpu_s": round(ending.cpu_s, 3) if ending else None,
        "peak_anon_bytes": (ending.peak_anon_bytes or None) if ending else None,
        "mean_anon_bytes": (round(ending.mean_anon_bytes) or None) if ending else None,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_count": os.cpu_count(),
    }


def run_build_trace(*arguments: str) -> dict[str, Any]:
    """Run ``build_trace`` and return the JSON object it prints.

    Raises:
        OutputError: it failed; the message is its own.
    """
    done = subprocess.run(
        [str(native_file("build_trace")), *arguments],
        capture_output=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
    )
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().removeprefix("build_trace: ")
        raise OutputError(reason or f"build_trace ended with status {done.returncode}")
    result = json.loads(done.stdout or "{}")
    if not isinstance(result, dict):
        raise OutputError("build_trace printed no JSON object")
    return result
