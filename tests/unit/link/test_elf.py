"""What is no program is refused in one sentence; damaged files end nothing else."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.programs import SINGLE, compile_
from tuner.errors import BinaryError, MissingToolError
from tuner.link.advice import advise
from tuner.link.elf import read_object

pytestmark = pytest.mark.slow


def test_a_script_is_refused_with_its_interpreter(tmp_path: Path):
    script = tmp_path / "run"
    script.write_text("#!/usr/bin/env perl\n")

    with pytest.raises(BinaryError, match=r"run: a script, run by '/usr/bin/env perl'"):
        advise(script)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "not an ELF file"), (b"MZ\0\0", "not an ELF file"), (b"!<arch>\n", "an archive"),
     (b"\x7fELF", "damaged")],
)  # fmt: skip
def test_what_is_no_program_is_refused(tmp_path: Path, content: bytes, what: str):
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(BinaryError, match=what):
        advise(path)


def test_an_object_file_is_refused(tmp_path: Path):
    with pytest.raises(BinaryError, match="an object file; name a program that was linked"):
        advise(compile_(tmp_path, SINGLE, "-c"))


@pytest.mark.parametrize(("machine", "name"), [(3, "x86"), (243, "RISC-V"), (183, "aarch64")])
def test_a_program_for_another_machine_is_refused(
    tmp_path: Path, machine: int, name: str, monkeypatch: pytest.MonkeyPatch
):
    """The field e_machine stands at byte 18."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    program = compile_(tmp_path, SINGLE)
    content = bytearray(program.read_bytes())
    content[18:20] = machine.to_bytes(2, "little")
    program.write_bytes(content)

    with pytest.raises(BinaryError, match=f"built for .*{name}"):
        advise(program)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path):
    with pytest.raises(MissingToolError, match="no: cannot be read"):
        advise(tmp_path / "no")
    with pytest.raises(MissingToolError, match="cannot be read"):
        advise(tmp_path)


def test_a_pipe_that_nobody_writes_to_is_no_program(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BinaryError, match="pipe: a pipe; name a program file"):
        advise(tmp_path / "pipe")


@pytest.fixture(scope="session")
def small_program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compile_(tmp_path_factory.mktemp("small"), SINGLE, "-s").read_bytes()


@settings(max_examples=200,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_a_damaged_file_ends_in_one_error(
    data: st.DataObject, small_program: bytes, tmp_path: Path
):
    content = bytearray(small_program)
    for _ in range(data.draw(st.integers(0, 8))):
        position = data.draw(st.integers(4, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    with contextlib.suppress(BinaryError):  # anything else fails the test
        read_object(path)
