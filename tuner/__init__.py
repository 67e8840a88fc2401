"""Find the malloc, and its settings, that use the least memory for the least work.

The work of the commands as functions, imported when they are first used::

    import tuner

    print(tuner.optimize(["./app", "data"], time="5min").sentence)

    tuner.record(["./app", "data"], "app.trace")
    run = tuner.tune("app.trace", evaluations=300)
    tuner.compare(run, ["./app", "data"]).subjects
    print(tuner.export(run, "balanced"))

See `tuner.library` for all of them, and `tuner.errors` for what they raise.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.library import compare, emulate, explain, export, front, load, optimize, record, tune

__version__ = "0.1.0"
"""The one place of the version: package, command and native parts take it from here."""

__all__ = ["compare", "emulate", "explain", "export", "front", "load", "optimize", "record", "tune"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the functions
    """Return a function of `tuner.library`, which imports what does the work."""
    if name not in __all__:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    return getattr(import_module("tuner.library"), name)


# A package of the same name would take a function's place when it is first imported: they are
# imported here, small as they are, and reached by their full names only.
for _package in ("tuner.compare", "tuner.explain", "tuner.export", "tuner.front", "tuner.optimize"):
    import_module(_package)
    globals().pop(_package.removeprefix("tuner."))
