"""The errors a user can meet, each with its own exit code.

Every message says what went wrong, where, and what to do about it.  Exit code 1
is kept for defects (an uncaught exception) and 2 for a wrong command line;
`malloc-tuner --help` lists all of them.
"""


class TunerError(Exception):
    """A failure that is the user's to see: one clear message, one exit code."""

    exit_code = 1


def what_is_wrong(error: Exception) -> str:
    """Return what is wrong with a file that was read, without a name of Python's."""
    return f"no {error}" if isinstance(error, KeyError) else str(error)


class SpecError(TunerError):
    """A specification file or an option holds an unknown key or a bad value."""

    exit_code = 3


class MissingToolError(TunerError):
    """An allocator library, a program or an instrument is not on this machine."""

    exit_code = 4


class TraceError(TunerError):
    """A trace cannot be read: corrupt, cut off before its first events, or of a future version."""

    exit_code = 5


class SettingError(TunerError):
    """An allocator ignored, clipped or refused a setting."""

    exit_code = 6


class ProgramError(TunerError):
    """A program ended with a signal or a wrong exit status, or nothing of it was recorded."""

    exit_code = 7


class ProgramTimeoutError(TunerError):
    """A program was still running at its time limit and was stopped."""

    exit_code = 8


class StoreError(TunerError):
    """A store is not there, locked, corrupt, of another version or of another campaign."""

    exit_code = 9


class OutputError(TunerError):
    """A file or folder cannot be written."""

    exit_code = 10


class RepeatabilityError(TunerError):
    """Two runs of the same input disagree where they must not."""

    exit_code = 11


class SelectionError(TunerError):
    """There is no such trial, pick or validation, or none that fits what was asked for."""

    exit_code = 12


class BinaryError(TunerError):
    """A file is no ELF program, is damaged, or is for another machine."""

    exit_code = 13


class ThreadedVerdict(TunerError):  # noqa: N818 - an answer, not a defect
    """A program can start threads: link it with libexgen.so."""

    exit_code = 14


class UnknownVerdict(TunerError):  # noqa: N818 - an answer, not a defect
    """Whether a program starts threads cannot be known: link it with libexgen.so."""

    exit_code = 15


class ComparisonError(TunerError):
    """Nothing could be compared: every subject but the baseline is out."""

    exit_code = 16


NOTHING_COMPARED = "nothing could be compared: every subject but the baseline is out, see above"
"""What a `ComparisonError` says."""


class WorseVerdict(TunerError):  # noqa: N818 - an answer, not a defect
    """A pick failed or is worse on the real program than claimed, with --fail-if-worse."""

    exit_code = 17


class UnconfirmedVerdict(TunerError):  # noqa: N818 - an answer, not a defect
    """No gain of a pick is confirmed on the real program, with --fail-if-unconfirmed."""

    exit_code = 18


class ConditionVerdict(TunerError):  # noqa: N818 - an answer, not a defect
    """The answer of optimize meets a condition of --fail-if."""

    exit_code = 19


class InterruptedCampaign(TunerError):  # noqa: N818 - an event, not a defect
    """The user stopped a campaign or a recording; all that was measured is kept."""

    exit_code = 130


def installing(extra: str) -> str:
    """Return the command that installs what malloc-tuner uses where it is there."""
    return f"pip install '.[{extra}]' where malloc-tuner's source is"
