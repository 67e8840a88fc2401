"""Run a program under the recorder and build the traces of its processes.

The recorder (``librecorder.so``) is preloaded and writes one spool per process
into the folder ``OUTPUT.spool``; ``build_trace`` turns each into a trace, and the
folder is removed.  When anything fails in between, the folder stays and
`recover` builds the traces later: nothing that was recorded is lost.

    program   run it, the recorder preloaded     spool    the folder, its lock, the output
    window    the part that traces are of        build    spools to traces
    explain   why a recording is empty
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import InterruptedCampaign, ProgramError, TunerError
from tuner.limits import check_words
from tuner.recording import explain
from tuner.recording.build import (
    NO_BACKGROUND,
    Background,
    build_traces,
    kept,
    remove_replaced,
    run_build_trace,
)
from tuner.recording.program import Ending, run_program
from tuner.recording.recorded import RecordedProcess, RecordedTotals
from tuner.recording.spool import (
    check_output,
    lasting_writers,
    locked,
    make_spool,
    recorded_pids,
    remove_spool,
    spools_in,
)
from tuner.recording.window import WHOLE, WindowPlan, WindowWatch

__all__ = [
    "Ending",
    "RecordedProcess",
    "RecordedTotals",
    "Recording",
    "record",
    "recover",
]


@dataclass(frozen=True)
class Recording:
    """All processes of a recording, the one that was started first at the front."""

    processes: tuple[RecordedProcess, ...]
    ending: Ending
    missed: str | None = None
    """What the traces are of, where the window that was wanted never began; None: it did."""
    background: tuple[int, ...] = ()
    """Processes that went on for more than a second after the first one, and were recorded until
    then; empty where the recording had ended before by its window."""


def record(
    command: Sequence[str],
    output: Path | str,
    *,
    follow: bool = False,
    force: bool = False,
    is_silent: bool = False,
    timeout_s: float | None = None,
    window: WindowPlan = WHOLE,
    is_watched: bool = False,
) -> Recording:
    """Run a program and write the trace of its allocations.

    Standard input, output and error, the working folder and the exit of the
    program are its own.  Ctrl-C goes to the program; what it recorded is kept.

    Args:
        command: program and arguments.
        output: the trace of the first process; further ones, with `follow`, stand
            beside it as ``NAME.2-program.trace``.
        follow: record the children too.
        force: replace what is there, with `follow` all traces of the earlier recording.
        is_silent: give the program no input, drop what it prints, and keep no part of a trace.
        timeout_s: limit of a program that is run so; None for none.
        window: which part the traces are of.
        is_watched: see what each of its processes uses; it is in the ending.

    Raises:
        MissingToolError: the program does not exist.
        InterruptedCampaign: Ctrl-C while traces were built; what was recorded is kept.
        OutputError: the trace is there already, it cannot be written, or the disk became full
            while recording; what was recorded until then is kept.
        ProgramError: nothing could be recorded, or not in time; the message says why.
        SpecError: the command is no list of texts, or empty.
    """
    check_words("command", command, least=1)
    output = Path(output)
    there = check_output(output, follow=follow, force=force)
    spool = make_spool(output)
    with locked(spool, must_be_idle=False):
        try:
            with WindowWatch(window, spool, follow=follow) as watch:
                ending = run_program(
                    command,
                    spool,
                    follow=follow,
                    is_silent=is_silent,
                    timeout_s=timeout_s,
                    on_signal=watch.take_signal,
                    watches_window=window.has_signal,
                    is_watched=is_watched,
                )
            background = _cut_background(spool, watch) if follow else None
            _check_started(spool, command, ending)
            processes = build_traces(
                spool, output, ending, command, watch.window,
                background=background, is_kept=not is_silent,
            )  # fmt: skip
        except (OSError, TunerError, KeyboardInterrupt) as error:
            if is_silent or not spools_in(spool):  # else there is something to recover
                if follow:
                    _end_recording(spool)
                remove_spool(spool)
            elif isinstance(error, KeyboardInterrupt):
                raise InterruptedCampaign(f"interrupted; {kept(spool, output)}") from error
            raise
    remove_replaced(there, output, processes)
    left = background.pids if background and background.cut_ns is not None else ()
    return Recording(processes, ending, watch.missed, left)


def recover(spool: Path, output: Path, *, force: bool = False) -> tuple[RecordedProcess, ...]:
    """Build the traces of a recording whose command was killed, and remove its spool folder.

    Args:
        spool: what the interrupted recording left, ``OUTPUT.spool``.
        output: the trace of the first process.
        force: replace what is there, of several processes all traces of an earlier recording.

    Returns:
        The processes that made events, in the order of their start.

    Raises:
        OutputError: the recording still runs, the trace is there already, or it cannot be
            written; the folder stays.  Or the disk was full before the first event.
        ProgramError: there is no event in any spool.
    """
    with locked(spool, must_be_idle=True):
        there = check_output(output, follow=len(recorded_pids(spool)) > 1, force=force)
        processes = build_traces(spool, output, None, ())
    remove_replaced(there, output, processes)
    return processes


def _cut_background(spool: Path, watch: WindowWatch) -> Background:
    """Find the processes that go on, which nobody shall record into a folder that is removed."""
    pids = lasting_writers(spool)
    return Background(pids, watch.end_recording()) if pids else NO_BACKGROUND


def _end_recording(spool: Path) -> None:
    """Let what still runs do so without its recorder, if anything can be written there."""
    with contextlib.suppress(OSError, TunerError):
        run_build_trace("--over", str(spool))


def _check_started(spool: Path, command: Sequence[str], ending: Ending) -> None:
    """Raise ProgramError when the recorder did not start in the program."""
    if not spools_in(spool):
        raise ProgramError(explain.why_nothing(command, ending))
