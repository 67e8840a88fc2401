"""The command `malloc-tuner`: runs a command and turns errors into exit codes.

The commands are a Typer application (`tuner.cli.app`).  Importing Typer takes several times as
long as a short recording, and recordings are repeated, so a plain call of `record` runs
without it.
"""

import codecs
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence

import tuner
from tuner.cli import record_run
from tuner.errors import OutputError, SpecError, TunerError
from tuner.interrupts import ENDS, take

DEBUG_VARIABLE = "MALLOC_TUNER_DEBUG"
"""Set to 1 to see the traceback of a defect."""

_AS_IT_CAN = "malloc-tuner"
"""Name of the way to encode what an output cannot."""

_UNREACHABLE = {errno.EACCES, errno.ENAMETOOLONG}

_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""Importing modules and reading profiles make many objects and hardly any garbage in cycles."""


def _report_defect(error: Exception) -> None:
    """Print that this is a defect, and what to report."""
    import platform
    import traceback

    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"malloc-tuner: defect: {type(error).__name__}: {error}\n"
        f"  at {last.filename}:{last.lineno}; malloc-tuner {tuner.__version__}, "
        f"Python {platform.python_version()}, {platform.platform()}\n"
        f"  Please report it with these lines and the output of the same command "
        f"under {DEBUG_VARIABLE}=1, which adds the traceback.",
        file=sys.stderr,
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the words after the program's name; None takes them from the
            command line.
    """
    _pass_names_through()
    # Who starts us may ignore it: the kernel then forgets how our programs ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
    except OSError as error:
        _abandon_stdout()
        return code or _report_full_output(error)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        _run_command(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as end:
        return _code_of(end)
    except TunerError as error:
        print(f"malloc-tuner: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        _abandon_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 - the one place where a defect ends
        return _ended_by(error)
    return 0


def _code_of(end: SystemExit) -> int:
    """Return the exit code of a command that ends; that of a reader that went away is click's 1."""
    if isinstance(end.__context__, BrokenPipeError):
        _abandon_stdout()
        return 0
    if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
        return _interrupted()  # Typer makes an exit of it
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _interrupted() -> int:
    """Say that the user stopped a command that had nothing to keep; returns the exit code."""
    print("malloc-tuner: interrupted", file=sys.stderr)
    return 130


def _run_command(words: Sequence[str]) -> None:
    plain = record_run.parse_plain(words)
    if plain is not None:
        record_run.run(plain)
        return
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from tuner.cli import app

    app.build_app(words[0] if words else None)(args=words, prog_name="malloc-tuner")


def _pass_names_through() -> None:
    """Let names of files that are no text leave as the bytes they came as."""
    codecs.register_error(_AS_IT_CAN, _as_it_can)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_AS_IT_CAN)


def _as_it_can(error: UnicodeError) -> tuple[bytes, int]:
    """Encode what an output cannot: bytes of a name as they came, else a question mark."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - of writing
    found = error.object[error.start : error.end]
    codes = [ord(one) & 0xFF if "\udc80" <= one <= "\udcff" else ord("?") for one in found]
    return bytes(codes), error.end


def _ended_by(error: Exception) -> int:
    """Report what no command expects; returns the exit code.

    Output is full, a path cannot be reached, for which pathlib raises where it answers for others
    that there is none, memory is short, or it is a defect.
    """
    if isinstance(error, MemoryError):
        what = f"out of memory ({error})" if str(error) else "out of memory"
        print(f"malloc-tuner: {what}; free some, or raise `ulimit -v`", file=sys.stderr)
        return 1
    if isinstance(error, OSError) and error.errno in _UNREACHABLE and error.filename:
        message = f"{error.filename}: cannot be reached ({error.strerror})"
        print(f"malloc-tuner: {message}", file=sys.stderr)
        return SpecError.exit_code
    if isinstance(error, FileNotFoundError) and not error.filename:  # of getcwd(3)
        print("malloc-tuner: the current folder is gone; change to another", file=sys.stderr)
        return SpecError.exit_code
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
        _abandon_stdout()
        return _report_full_output(error)
    _report_defect(error)
    return 1


def _report_full_output(error: OSError) -> int:
    """Say that what was to be printed is lost; returns the exit code."""
    message = f"standard output: cannot be written ({error.strerror})"
    print(f"malloc-tuner: {message}", file=sys.stderr)
    return OutputError.exit_code


def _open_closed_streams() -> None:
    """Let what is printed go nowhere if the caller closed the stream (``>&-``).

    Python then has None in its place, and the next file that is opened would get its number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def _abandon_stdout() -> None:
    """Stop writing to a reader that went away (``| head``), also at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line and exit; SIGTERM counts as Ctrl-C, so that no child outlives it.

    So does SIGHUP, a connection that is lost, unless it is ignored (nohup).
    """
    _open_closed_streams()
    take(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)
    code = run()
    take(signal.SIG_DFL, *ENDS)  # no traceback of what Python still does
    gc.freeze()  # nothing is looked through for garbage at the end: a tenth of a second
    sys.exit(code)


if __name__ == "__main__":
    main()
