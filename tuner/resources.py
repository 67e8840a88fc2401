"""Where the installed package keeps its native parts and its configuration files.

An installed wheel carries both inside the package; a checkout that was built
with ``make develop`` has the native parts in the same place and the
configuration files in the top-level ``configs`` folder.
"""

import os
from pathlib import Path

from tuner.errors import MissingToolError

WORKLOADS_VARIABLE = "MALLOC_TUNER_WORKLOADS"
"""Environment variable: folder of the workloads that an installed package leaves out."""

_PACKAGE = Path(__file__).resolve().parent


def native_file(name: str) -> Path:
    """Return the path of a native part, such as ``rand_malloc``.

    Raises:
        MissingToolError: the package was installed without it.
    """
    path = _PACKAGE / "native" / name
    if not path.exists():
        raise MissingToolError(
            f"{name}: not found at {path}; `pip install .` builds and installs it"
        )
    return path


def configs_dir() -> Path:
    """Return the folder that holds ``allocators``, ``workloads`` and ``campaigns``.

    Raises:
        MissingToolError: the package was installed without it.
    """
    return _shipped("configs", "allocators")


def _shipped(name: str, part: str = "") -> Path:
    """Return a file or a folder that has a part, from the package or the checkout around it."""
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if (candidate / part).exists():
            return candidate
    raise MissingToolError(
        f"{name}: not found beside {_PACKAGE}; install malloc-tuner with `pip install .`"
    )


def workload_file(path: Path) -> Path:
    """Return where a recorded workload is.

    An installed package carries that of the demo.  The others are in the repository, in
    ``configs/workloads``; the variable `WORKLOADS_VARIABLE` names a copy of that folder.

    Args:
        path: of a workload; returned as it is when it exists, or is none of the shipped ones.

    Raises:
        MissingToolError: it is one of the shipped ones, and not here.
    """
    shipped = configs_dir() / "workloads"
    plain = Path(os.path.normpath(path))
    if plain.exists() or not plain.is_relative_to(shipped):
        return path
    name = plain.relative_to(shipped)
    found = Path(os.environ.get(WORKLOADS_VARIABLE, shipped)).absolute() / name
    if not found.exists():
        raise MissingToolError(
            f"{found}: no such workload; an installed malloc-tuner has only that of the demo: "
            f"set {WORKLOADS_VARIABLE} to the folder configs/workloads of the repository"
        )
    return found


def cache_folder() -> Path:
    """Return the folder for what costs time to find again, in the user's cache; may be missing."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(given or Path.home() / ".cache") / "malloc-tuner"
    except RuntimeError:  # a user without a name has no home
        return Path("/nonexistent/malloc-tuner")


def gem5_dir() -> Path:
    """Return the folder with the suite of gem5 simulations and the script gem5 executes.

    Raises:
        MissingToolError: the package was installed without it.
    """
    return _shipped("gem5-validate", "suite.toml")


def packages_file() -> Path:
    """Return the list of Debian packages that provide what malloc-tuner can use.

    Raises:
        MissingToolError: the package was installed without it.
    """
    return _shipped("packages.txt")
