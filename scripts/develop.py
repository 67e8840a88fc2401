"""Make this checkout importable and runnable in the environment of this Python.

Installs what pyproject.toml asks for (and the extras named as arguments), but
not the package: the checkout itself goes on the path, and a `malloc-tuner`
command that uses it goes beside the interpreter.  An editable install would
build the native parts a second time, into a place the tests cannot see.
"""

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements(extras: list[str]) -> list[str]:
    """Return the requirements of the package and of the named extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in extras for line in optional[extra])]


def install_command() -> None:
    """Put the checkout on the path and write the `malloc-tuner` command."""
    site = Path(sysconfig.get_path("purelib"))
    (site / "malloc_tuner_checkout.pth").write_text(f"{ROOT}\n")
    command = Path(sysconfig.get_path("scripts")) / "malloc-tuner"
    command.write_text(
        f"#!{sys.executable}\n# Runs the checkout; written by scripts/develop.py.\n"
        "from tuner.cli.main import main\n\nmain()\n"
    )
    command.chmod(0o755)


def main() -> None:
    """Install the requirements, then the command."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *requirements(sys.argv[1:])], check=True)
    install_command()


if __name__ == "__main__":
    main()
