"""`malloc-tuner link-advice`, and the build files of its page."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.places import ROOT
from tests.doubles.programs import DLOPEN, PTHREAD, SINGLE, compile_, library
from tuner.cli.main import run
from tuner.errors import BinaryError, ThreadedVerdict, UnknownVerdict

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "how-to" / "link.md"


def libraries(program: Path) -> str:
    return subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("source", "code", "library", "words"),
    [
        (SINGLE, 0, "exgen-st", "libexgen-st.so is safe"),
        (PTHREAD, ThreadedVerdict.exit_code, "exgen", "libexgen.so is needed"),
        (DLOPEN, UnknownVerdict.exit_code, "exgen", "libexgen.so is the safe choice"),
    ],
)
def test_the_verdict_is_the_exit_code(  # noqa: PLR0917 - one row of the table above
    tmp_path: Path, cli: CommandLine, source: str, code: int, library: str, words: str
):
    program = str(compile_(tmp_path, source))

    out, err = cli.run("link-advice", program, code=code)
    assert out.startswith(f"{program}: {words}")
    assert err == ""

    value = json.loads(cli.run("link-advice", "--json", program, code=code)[0])
    assert (value["schema"], value["version"]) == ("malloc-tuner.link-advice", 2)
    assert (value["program"], value["library"]) == (program, library)

    assert cli.prints("link-advice", "--choose", program) == f"{library}\n"


@pytest.mark.parametrize("options", [(), ("-static",)])
def test_text_has_one_line_per_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
):
    source = PTHREAD + "#include <threads.h>\nint more(thrd_t *t) { return thrd_create(t, 0, 0); }"
    program = compile_(tmp_path, source, *options)
    run(["link-advice", str(program)])

    assert capsys.readouterr().out.splitlines()[1] == (
        f"  {program} starts threads: pthread_create (POSIX threads), thrd_create (C11 threads)"
    )


def test_an_error_of_the_command_has_its_own_code(tmp_path: Path, cli: CommandLine):
    (tmp_path / "text").write_text("hello")

    assert (
        cli.run("link-advice", "--choose", tmp_path / "text", code=BinaryError.exit_code)[0] == ""
    )


def test_every_field_of_the_json_is_explained(capsys: pytest.CaptureFixture[str]):
    run(["link-advice", "--json", "/bin/sh"])
    value = json.loads(capsys.readouterr().out)
    explained = set(re.findall(r"`(\w+)(?:\[\])?`", PAGE.read_text()))

    assert set(value) - explained == set()


# The snippets of the documentation


def snippet(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


@pytest.fixture
def exgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with libraries of exgen's names, and `malloc-tuner` on the PATH."""
    folder = tmp_path / "exgen"
    folder.mkdir()
    for name in ("exgen", "exgen-st"):
        library(folder, "int exgen_is_here;", name, f"-Wl,-soname,lib{name}.so")
    command = folder / "malloc-tuner"
    python = sys.executable
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {python} -m tuner.cli.main "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def build(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_makefile_snippet_follows_the_sources(tmp_path: Path, exgen: Path):
    project = tmp_path / "project"
    project.mkdir()
    settings = f"CC = gcc\nEXGEN = {exgen}\nOBJECTS = main.o\nLDFLAGS = -Wl,--as-needed\n"
    (project / "Makefile").write_text(f"{settings}{snippet('make')}")
    chosen = []
    for n_build, source in enumerate((SINGLE, PTHREAD, SINGLE)):
        (project / "main.c").write_text(source)
        os.utime(project / "main.c", (n_build * 1e6, n_build * 1e6))
        (project / "main.o").unlink(missing_ok=True)
        build("make", "app", cwd=project)
        build("./app", cwd=project)
        chosen.append(re.findall(r"libexgen\S*", libraries(project / "app"))[0])

    assert chosen == ["libexgen-st.so", "libexgen.so", "libexgen-st.so"]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_makefile_snippet_stops_where_no_advice_is_to_be_had(tmp_path: Path, exgen: Path):
    (exgen / "malloc-tuner").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "main.c").write_text(SINGLE)
    (tmp_path / "Makefile").write_text(f"EXGEN = {exgen}\nOBJECTS = main.o\n{snippet('make')}")
    done = subprocess.run(["make", "app"], check=False, capture_output=True, cwd=tmp_path)

    assert done.returncode != 0
    assert not (tmp_path / "app").exists()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_the_cmake_snippet_follows_the_sources(tmp_path: Path, exgen: Path, generator: str):
    if shutil.which({"Ninja": "ninja"}.get(generator, "make")) is None:
        pytest.skip(f"no {generator}")
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.c").write_text(SINGLE)
    head = "cmake_minimum_required(VERSION 3.22)\nproject(app C)\n"
    (project / "CMakeLists.txt").write_text(f"{head}{snippet('cmake')}")
    build("cmake", "-S", ".", "-B", "build", "-G", generator, f"-DEXGEN={exgen}", cwd=project)
    chosen = []
    for source in (SINGLE, PTHREAD, SINGLE):
        (project / "main.c").write_text(source)
        build("cmake", "--build", "build", "--target", "app", cwd=project)
        build("build/app", cwd=project)
        chosen.append(re.findall(r"libexgen\S*", libraries(project / "build/app"))[0])

    assert chosen == ["libexgen-st.so", "libexgen.so", "libexgen-st.so"]
