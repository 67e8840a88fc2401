"""The folder ``OUTPUT.spool`` that a recording writes into, and the file it becomes.

The command that records locks the folder, and each recorded process maps its spool there,
so that a folder that is still written to differs from one that was left behind.
"""

import contextlib
import fcntl
import glob
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tuner.errors import OutputError, TraceError
from tuner.output import make_folder
from tuner.trace import SPOOL_SUFFIX, recovery

_SPOOL: Final = re.compile(r"\d+(?:-\d+)?\.spool", re.ASCII)
_CONTROL: Final = "control"
"""What a recording writes into its folder; ``rand_malloc/recorder/spool``."""

_OPEN_FOLDER = 0o1733
"""Any user may add files; none sees or removes those of others."""

GRACE_S: Final = 1.0
"""How long what the first process started may go on after it: helpers end when they see its end."""

_POLL_S: Final = 0.01


def check_output(output: Path, *, follow: bool, force: bool) -> list[Path]:
    """Check that a trace may be written, before anything runs.

    Args:
        output: the trace of the first process.
        follow: True if traces of further processes may appear beside it.
        force: True allows to replace what is there.

    Returns:
        What is there.

    Raises:
        OutputError: `output` is no name for a file, or something is there that would be lost.
    """
    if output.is_dir() or not output.name:
        raise OutputError(f"{output}: is a folder; name the trace to write")
    if output.exists() and not output.is_file():
        raise OutputError(f"{output}: is not a regular file; name the trace to write")
    there = [output] if output.exists() else []
    if follow:
        there += sorted(output.parent.glob(f"{glob.escape(output.stem)}.[0-9]*-*{output.suffix}"))
    if there and not force:
        raise OutputError(
            f"{there[0]}: exists ({_describe(there[0])}); choose another name with -o, or "
            "replace it with --force"
        )
    return there


def make_spool(output: Path) -> Path:
    """Create the spool folder beside a trace, with missing folders above it.

    Raises:
        OutputError: one is there with something in it, or the place cannot be written.
    """
    make_folder(output.parent)
    try:
        spool = output.with_name(output.name + SPOOL_SUFFIX).absolute()
        if spool.is_dir():
            _remove_empty(spool, output)
        elif spool.exists():
            raise OutputError(f"{spool}: is no folder; move it, or choose another name with -o")
        spool.mkdir()
        let_others_record(spool)
    except OSError as error:
        raise OutputError(f"{output}: cannot write here: {error.strerror}") from error
    return spool


def _remove_empty(spool: Path, output: Path) -> None:
    with locked(spool, must_be_idle=True):  # else the message names the writer
        if spools_in(spool):
            raise OutputError(
                f"{spool}: left by an interrupted recording; save it with "
                f"{recovery(spool, output)} or remove the folder"
            )
        remove_spool(spool)
        if spool.exists() and (others := sorted(spool.iterdir())):
            raise OutputError(f"{others[0]}: is of no recording; move it to another folder")


def remove_left(output: Path) -> None:
    """Remove the spool folder that a recording to this trace left when it was killed, if any.

    Raises:
        OutputError: it is still being written.
    """
    spool = output.with_name(output.name + SPOOL_SUFFIX).absolute()
    if spool.is_dir():
        with locked(spool, must_be_idle=True):
            remove_spool(spool)


def spools_in(folder: Path) -> list[Path]:
    """Return the spools of recorded processes: ``PID.spool``, after an exec ``PID-N.spool``."""
    paths = folder.glob("*.spool")
    return sorted(path for path in paths if _SPOOL.fullmatch(path.name) and path.is_file())


def remove_spool(folder: Path) -> None:
    """Remove what a recording wrote into a folder, and the folder if nothing else is in it."""
    for path in (*spools_in(folder), folder / _CONTROL):
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def let_others_record(spool: Path) -> None:
    """Let processes add spools that have given up the rights of root, as services do."""
    if os.geteuid() == 0:
        spool.chmod(_OPEN_FOLDER)


@contextlib.contextmanager
def locked(spool: Path, *, must_be_idle: bool) -> Iterator[None]:
    """Keep others from building traces of a folder; the kernel unlocks it when this process ends.

    Args:
        spool: the folder.
        must_be_idle: True refuses a folder that recorded processes still write to.

    Raises:
        OutputError: there is no such folder, or someone else uses it.
    """
    try:
        descriptor = os.open(spool, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise OutputError(
            f"{spool}: no recording here; give the folder OUTPUT{SPOOL_SUFFIX}"
        ) from error
    try:
        _lock(descriptor, spool)
        if must_be_idle:
            _check_idle(spool)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, spool: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(
            f"{spool}: its `malloc-tuner record` is still running; wait for its end"
        ) from error
    except OSError:  # a file system without locks
        return


def _check_idle(spool: Path) -> None:
    pids = [str(pid) for pid in writers(spool)]
    if pids:
        raise OutputError(
            f"{spool}: still being written by process {', '.join(pids)}; wait for the end, or end "
            f"it with `kill {' '.join(pids)}`"
        )


def writers(spool: Path) -> tuple[int, ...]:
    """Return the processes that are still recorded into a folder."""
    return tuple(pid for pid in sorted(recorded_pids(spool)) if _maps_into(pid, spool))


def lasting_writers(spool: Path) -> tuple[int, ...]:
    """Return the processes that are still recorded after `GRACE_S`; none as soon as all ended."""
    until_s = time.monotonic() + GRACE_S
    found = writers(spool)
    while time.monotonic() < until_s:
        time.sleep(_POLL_S)
        before, found = found, writers(spool)
        if not before and not found:  # twice: for a moment of its exec, a process maps nothing
            break
    return found


def recorded_pids(spool: Path) -> set[int]:
    """Return the processes that have a spool."""
    return {int(re.split(r"[-.]", path.name)[0]) for path in spools_in(spool)}


def _maps_into(pid: int, spool: Path) -> bool:
    """Check that a process maps a file of the folder: another one may have its number by now."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    return os.fsencode(spool.resolve()).replace(b"\n", rb"\012") + b"/" in maps


def _describe(trace: Path) -> str:
    """Say what a file is: whose trace, of when."""
    from tuner.trace.file import Trace  # noqa: PLC0415 - numpy, only to explain a refusal

    status = trace.stat()
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(status.st_mtime))
    try:
        with Trace(trace) as opened:
            words = shlex.join(opened.argv) or "an unknown program"
            return f"trace of {words}, {opened.totals.n_events:,} events, written {date}"
    except TraceError:
        return f"no trace, {status.st_size:,} bytes, written {date}"
