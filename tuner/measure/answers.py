"""What to say of a native program whose answer is of another form than this package reads."""

from pydantic import ValidationError

from tuner.config.reading import first_problem
from tuner.errors import ProgramError


def misunderstood(answer: str, error: ValidationError) -> ProgramError:
    """Return the error, in one line.

    Args:
        answer: whose answer it is, such as "the report of supervise".
        error: what is wrong with it.
    """
    return ProgramError(
        f"{answer} is not understood: {first_problem(error)}; "
        "it and malloc-tuner are of different versions: reinstall malloc-tuner"
    )
