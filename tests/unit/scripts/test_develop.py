"""The command that runs the checkout starts wherever the checkout lies."""

import subprocess
from pathlib import Path

import pytest

from tests.doubles.places import ROOT, load_file

develop = load_file(ROOT / "scripts" / "develop.py")


@pytest.mark.parametrize("folder", ["plain", "with a space", "it's", "long" * 40])
def test_the_command_starts_the_interpreter_of_any_folder(tmp_path: Path, folder: str):
    python, command = tmp_path / folder / "python", tmp_path / "malloc-tuner"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    command.write_text(develop.command_text(str(python)))
    for one in (python, command):
        one.chmod(0o755)

    done = subprocess.run([command, "a b"], capture_output=True, text=True, check=True)

    assert done.stdout == f"{command}\na b\n"
    compile(command.read_text(), command, "exec")
