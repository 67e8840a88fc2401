"""Make this checkout importable and runnable in the environment of this Python.

Installs what pyproject.toml asks for (and the extras named as arguments), but
not the package: the checkout itself goes on the path, and a `malloc-tuner`
command that uses it goes beside the interpreter.  An editable install would
build the native parts a second time, into a place the tests cannot see.
"""

import shlex
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST_FIRST_LINE = 127
"""Characters of a first line that all kernels read whole, as distlib has it."""


def requirements(extras: list[str]) -> list[str]:
    """Return the requirements of the package and of the named extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in extras for line in optional[extra])]


def command_text(python: str) -> str:
    """Return the `malloc-tuner` command that an interpreter runs."""
    first = f"#!{python}\n"
    if any(letter.isspace() for letter in python) or len(first) > MOST_FIRST_LINE:
        # To sh the first words are exec; to Python it is all one string.
        first = f"#!/bin/sh\n'''exec' {shlex.quote(python)} \"$0\" \"$@\"\n' '''\n"
    return (
        f"{first}# Runs the checkout; written by scripts/develop.py.\n"
        "from tuner.cli.main import main\n\nmain()\n"
    )


def install_command() -> None:
    """Put the checkout on the path and write the `malloc-tuner` command."""
    site = Path(sysconfig.get_path("purelib"))
    (site / "malloc_tuner_checkout.pth").write_text(f"{ROOT}\n")
    command = Path(sysconfig.get_path("scripts")) / "malloc-tuner"
    command.write_text(command_text(sys.executable))
    command.chmod(0o755)


def main() -> None:
    """Install the requirements, then the command."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *requirements(sys.argv[1:])], check=True)
    install_command()


if __name__ == "__main__":
    main()
