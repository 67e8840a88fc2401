"""Write a finished file in one step, or say why it cannot be written; folders for a while.

The file is complete or not there at all: the text goes to a file beside it, which
then takes its place and its mode.  Links stay; what a name in /proc leads to is open already,
and is appended to.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tuner.errors import OutputError, SpecError, StoreError

_SCRATCH: Final = "malloc-tuner-scratch-"
_SETTLED_S: Final = 60.0
"""A folder that nobody holds for so long is nobody's: it is held a moment after it is made."""


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that is gone in the end; those of killed tools are removed.

    Raises:
        OutputError: there is no place for it, or no room in it.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True)
        holder = os.open(folder.name, os.O_RDONLY)
    except OSError as error:
        raise _unusable(error) from error
    with folder as name:
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(holder, fcntl.LOCK_SH)
            remove_abandoned(Path(name).parent, _SCRATCH)
            yield Path(name)
        except OSError as error:
            if not (_room(error) and str(error.filename).startswith(name)):
                raise
            raise _unusable(error) from error
        finally:
            os.close(holder)


def _unusable(error: OSError) -> OutputError:
    place = tempfile.tempdir or os.environ.get("TMPDIR", "the temporary folder")
    return OutputError(f"{place}: cannot be written ({error.strerror}); {_room(error)}set TMPDIR")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write below a path of a run folder in this context.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); {_room(error)}choose another -o"
        ) from error


def fresh_folder(path: Path) -> Path:
    """Make a folder empty, or make it, with those above it, and return it.

    Raises:
        OutputError: it cannot be made.
    """
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be created ({error.strerror})") from error
    return path


def remove_abandoned(place: Path, prefix: str) -> None:
    """Remove folders of killed tools: those with this prefix that nobody holds by a lock."""
    for folder in place.glob(f"{prefix}*/"):
        # Of another user, or removed by somebody else at the same time.
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _SETTLED_S and not _is_held(folder):
                shutil.rmtree(folder)


def _is_held(folder: Path) -> bool:
    holder = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(holder)
    return False


def make_folder(path: Path) -> None:
    """Make a folder, with those above it, unless it is there.

    Raises:
        OutputError: a file has the name, or it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        file = next((one for one in (path, *path.parents) if one.is_file()), None)
        why = f"{file} is a file" if file else str(error.strerror)
        raise OutputError(
            f"{path}: cannot be made a folder ({why}); choose another place with -o"
        ) from error


@contextlib.contextmanager
def folder_if_used(path: Path) -> Iterator[None]:
    """Make a folder as `make_folder` does, for one process at a time; gone in the end if empty.

    Raises:
        OutputError: see `make_folder`.
        StoreError: another process is at work in it.
    """
    is_new = not path.exists()
    make_folder(path)
    with writing(path):
        holder = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OutputError):  # a file system without locks
            hold_alone(holder, path, "is at work in it")
        yield
    finally:
        os.close(holder)
        if is_new:
            with contextlib.suppress(OSError):  # it holds something
                path.rmdir()


def hold_alone(holder: int, path: Path, what: str) -> None:
    """Lock an open file or folder until it is closed.

    Raises:
        StoreError: another process has it, of which `what` says what it does.
        OutputError: the file system has no locks.
    """
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"{path}: another process {what}; wait until it has ended, or stop it"
        raise StoreError(message) from None
    except OSError as error:
        message = f"{path}: cannot be locked ({error.strerror}); use a local disk"
        raise OutputError(message) from None


def file_to_write(text: str) -> Path:
    """Return the path of a file that the command line names.

    Raises:
        OutputError: it names a folder, which a path no longer shows: ``dir/``.

    Example:
        >>> file_to_write("runs/app.trace").name
        'app.trace'
    """
    if text.endswith(("/", "/.")):
        raise OutputError(f"{text}: names a folder; name the file to write")
    return Path(text)


def check_apart(source: Path, output: Path) -> None:
    """Refuse to write over what is read.

    Raises:
        SpecError: both are one file.
    """
    try:
        is_same = output.samefile(source)
    except OSError:  # one of them is not there, or cannot be: said where it is opened
        return
    if is_same:
        raise SpecError(
            f"{output}: would overwrite what it is made of; choose another name with -o"
        )


def write_text(path: Path, text: str, *, executable: bool = False) -> None:
    """Write a text file, replacing one that is there; missing folders are made.

    Args:
        path: the file.
        text: written as UTF-8, line ends as they are; names of files with their own bytes.
        executable: True adds the right to run it for all who may read it.

    Raises:
        OutputError: the folder cannot be written, or the disk is full.
    """
    _replace(path, text.encode(errors="surrogateescape"), executable=executable)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file, replacing one that is there; missing folders are made.

    Raises:
        OutputError: the folder cannot be written, or the disk is full.
    """
    _replace(path, content, executable=False)


def _replace(path: Path, content: bytes, *, executable: bool) -> None:
    partial = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode, target = _mode(path), _target(path)  # in this order: a ring of links is an error
        if target.is_relative_to("/proc") or not stat.S_ISREG(mode):
            with _opened(target) as there:
                there.write(content)
            return
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            partial = Path(file.name)
            file.write(content)
        who_may_read = mode & 0o444 if executable else 0
        partial.chmod(stat.S_IMODE(mode) | who_may_read >> 2)
        partial.replace(target)
    except OSError as error:
        if partial is not None:
            with contextlib.suppress(OSError):
                partial.unlink()
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); {_room(error)}choose another place"
        ) from error


def _room(error: OSError) -> str:
    return "make room, or " if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""


def _opened(target: Path) -> BinaryIO:
    """Open what is no file to replace: /dev/stdout, a pipe.

    Of a descriptor that we were given the place in a file is kept, which is also that of what is
    printed.  One that we opened ourselves is nobody's to name: it may be the store.
    """
    if target.parent != Path(f"/proc/{os.getpid()}/fd") or not target.exists():
        return target.open("ab")
    if not os.get_inheritable(int(target.name)):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return os.fdopen(int(target.name), "wb", closefd=False)


def _target(path: Path) -> Path:
    """Return the file that links lead to; a name in /proc as it is, though it is one itself."""
    found = path.parent.resolve() / path.name
    while found.is_symlink() and not found.is_relative_to("/proc"):
        link = found.parent / found.readlink()
        found = link.parent.resolve() / link.name
    return found


def _mode(path: Path) -> int:
    """Return the mode of a file; that of a new one where it is not there."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return stat.S_IFREG | (0o666 & ~umask)
