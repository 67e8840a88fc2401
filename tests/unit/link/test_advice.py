"""`malloc-tuner link-advice`: programs with and without threads, compiled here and found here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.allocators.libraries import find_library
from tuner.cli.main import run
from tuner.errors import BinaryError, MissingToolError, ThreadedVerdict, UnknownVerdict
from tuner.link.advice import Advice, Verdict, advise
from tuner.link.elf import read_object
from tuner.resources import native_file

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "link.md"

needs_cc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
needs_cxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")

SINGLE = "int main(void) { return 0; }"
THREAD = """
#include <pthread.h>
static void *run(void *p) { return p; }
int NAME(void) { pthread_t t; return pthread_create(&t, 0, run, 0) || pthread_join(t, 0); }
"""
PTHREAD = THREAD.replace("NAME", "main")
C11 = """
#include <threads.h>
static int run(void *p) { return p != 0; }
int main(void) {
    thrd_t t;
    return thrd_create(&t, run, 0) != thrd_success || thrd_join(t, 0) != thrd_success;
}
"""
OPENMP = """
int main(void) { int n = 0;
#pragma omp parallel reduction(+ : n)
n++; return n == 0; }
"""
DLOPEN = '#include <dlfcn.h>\nint main(void) { return !dlopen("libm.so.6", RTLD_NOW); }'
TIMER = """
#include <time.h>
int main(void) { timer_t t; return timer_create(CLOCK_MONOTONIC, 0, &t); }
"""
AIO = "#include <aio.h>\nint main(void) { static struct aiocb c; return aio_read(&c); }"
CLONE = """
#define _GNU_SOURCE
#include <sched.h>
static int run(void *p) { return p != 0; }
int main(void) { static char stack[9999]; return clone(run, stack + 9000, CLONE_VM, 0); }
"""
IOSTREAM = """
#include <iostream>
int main() { std::cout << std::string(99, 'x') << std::endl; }
"""
STD_THREAD = "#include <thread>\nint main() { std::thread([] {}).join(); }"
STD_JTHREAD = "#include <thread>\nint main() { std::jthread one([] {}); }"
STD_ASYNC = """
#include <future>
int main() { return std::async(std::launch::async, [] { return 0; }).get(); }
"""


def compile_(folder: Path, source: str, *options: str, name: str = "app") -> Path:
    """Compile a program or, with ``-shared``, a library; C++ when it looks like it."""
    is_cxx = "std::" in source
    path = folder / f"{name}.{'cc' if is_cxx else 'c'}"
    path.write_text(source)
    output = folder / name
    compiler = ["g++", "-std=c++20"] if is_cxx else ["gcc"]
    command = [*compiler, str(path), "-o", str(output), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be compiled here: {done.stderr.splitlines()[-1]}")
    return output


def symbols(advice: Advice) -> set[tuple[str, str | None]]:
    return {(reason.path.name, reason.symbol) for reason in advice.reasons}


# Programs


@needs_cc
@pytest.mark.parametrize(
    ("source", "options", "verdict", "symbol"),
    [
        (SINGLE, (), Verdict.SINGLE, None),
        (PTHREAD, (), Verdict.THREADED, "pthread_create"),
        (PTHREAD, ("-s",), Verdict.THREADED, "pthread_create"),
        (C11, (), Verdict.THREADED, "thrd_create"),
        (OPENMP, ("-fopenmp",), Verdict.THREADED, "GOMP_parallel"),
        (OPENMP, (), Verdict.SINGLE, None),
        (AIO, (), Verdict.THREADED, "aio_read"),
        (DLOPEN, (), Verdict.UNKNOWN, "dlopen"),
        (TIMER, (), Verdict.UNKNOWN, "timer_create"),
        (CLONE, (), Verdict.UNKNOWN, "clone"),
        (SINGLE, ("-Wl,-z,now", "-no-pie"), Verdict.SINGLE, None),
        (SINGLE, ("-static",), Verdict.SINGLE, None),
        (SINGLE, ("-static-pie",), Verdict.SINGLE, None),
        (PTHREAD, ("-static",), Verdict.THREADED, "pthread_create"),
        (CLONE, ("-static",), Verdict.UNKNOWN, "clone"),
        (SINGLE, ("-static", "-s"), Verdict.UNKNOWN, None),
    ],
)
def test_a_c_program(
    tmp_path: Path, source: str, options: tuple[str, ...], verdict: Verdict, symbol: str | None
) -> None:
    program = compile_(tmp_path, source, *options)

    advice = advise(program)

    assert advice.verdict is verdict
    assert bool(advice.reasons) == (verdict is not Verdict.SINGLE)
    if advice.reasons:
        assert ("app", symbol) in symbols(advice)


@needs_cxx
@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (IOSTREAM, Verdict.SINGLE),
        (STD_THREAD, Verdict.THREADED),
        (STD_JTHREAD, Verdict.THREADED),
        (STD_ASYNC, Verdict.THREADED),
    ],
)
@pytest.mark.parametrize("options", [(), ("-O2",), ("-static",)])
def test_a_cxx_program(
    tmp_path: Path, source: str, verdict: Verdict, options: tuple[str, ...]
) -> None:
    assert advise(compile_(tmp_path, source, *options)).verdict is verdict


@needs_cc
def test_a_runtime_that_nobody_asks_for_threads_is_told_but_not_counted(tmp_path: Path) -> None:
    options = ("-Wl,--no-as-needed", "-lgomp", "-lstdc++")
    advice = advise(compile_(tmp_path, SINGLE, *options))

    assert advice.verdict is Verdict.SINGLE
    assert [text.split()[0].rpartition("/")[2] for text in advice.not_counted] == [
        "libgomp.so.1",
        "libstdc++.so.6",
    ]


LZMA = """
extern int lzma_stream_{kind}_mt(void *, const void *);
extern unsigned lzma_version_number(void);
int main(int n, char **v) {{ return n > 9 ? {call} : lzma_version_number() == 0; }}
"""


@needs_cc
@pytest.mark.parametrize(
    ("call", "verdict"),
    [("0", Verdict.SINGLE), ("lzma_stream_encoder_mt(0, 0)", Verdict.THREADED)],
)
def test_a_library_with_few_functions_that_start_threads_is_known(
    tmp_path: Path, call: str, verdict: Verdict
) -> None:
    found = find_library("liblzma.so.5")
    if found is None:
        pytest.skip("no liblzma.so.5")
    source = LZMA.format(kind="encoder", call=call)

    assert advise(compile_(tmp_path, source, str(found))).verdict is verdict


@needs_cc
@pytest.mark.parametrize(("source", "ends_well"), [(SINGLE, True), (PTHREAD, False), (C11, False)])
def test_the_verdict_is_what_exgen_itself_finds_out(
    tmp_path: Path, source: str, ends_well: bool
) -> None:
    """The threads allocate, as libc does for each of them."""
    allocating = source.replace("{ return p", "{ free(malloc(9)); return p")
    program = compile_(tmp_path, f"#include <stdlib.h>\n{allocating}")
    library = native_file("libexgen-st.so")
    done = subprocess.run(
        [str(program)], check=False, capture_output=True, env=os.environ | {"LD_PRELOAD": library}
    )

    assert (done.returncode == 0) == ends_well
    assert (b"thread" in done.stderr) != ends_well
    assert (advise(program).verdict is Verdict.SINGLE) == ends_well


@needs_cc
def test_a_static_program_of_the_c_library_alone_is_not_charged_with_its_dlopen(
    tmp_path: Path,
) -> None:
    advice = advise(compile_(tmp_path, SINGLE, "-static"))

    assert any("dlopen" in note for note in advice.notes)


@needs_cc
def test_functions_that_load_modules_of_the_c_library_are_noted(tmp_path: Path) -> None:
    source = "#include <pwd.h>\nint main(void) { return getpwuid(0) == 0; }"
    advice = advise(compile_(tmp_path, source))

    assert advice.verdict is Verdict.SINGLE
    assert [note for note in advice.notes if "getpwuid" in note]


# Libraries

CALL = "int threads(void);\nint NAME(void) { return threads(); }"


def library(folder: Path, source: str, name: str, *options: str) -> Path:
    return compile_(folder, source, "-shared", "-fPIC", *options, name=f"lib{name}.so")


@pytest.fixture
def threads(tmp_path: Path) -> Path:
    """A library with a function that starts a thread."""
    return library(tmp_path, THREAD.replace("NAME", "threads"), "threads")


@needs_cc
def test_a_library_that_is_called_through_another_counts(tmp_path: Path, threads: Path) -> None:
    middle = library(
        tmp_path, CALL.replace("NAME", "middle"), "middle", str(threads), f"-Wl,-rpath,{tmp_path}"
    )
    source = "int middle(void);\nint main(void) { return middle(); }"
    program = compile_(
        tmp_path, source, str(middle), f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath-link,{tmp_path}"
    )

    advice = advise(program)

    assert advice.verdict is Verdict.THREADED
    (reason,) = advice.reasons
    assert (reason.path, reason.symbol) == (threads, "pthread_create")
    assert reason.via == f"{middle} calls its threads"


@needs_cc
def test_a_library_that_nobody_calls_does_not_count(tmp_path: Path, threads: Path) -> None:
    options = ("-Wl,--no-as-needed", str(threads), f"-Wl,-rpath,{tmp_path}")
    advice = advise(compile_(tmp_path, SINGLE, *options))

    assert advice.verdict is Verdict.SINGLE
    assert advice.not_counted == (f"{threads} refers to pthread_create: nothing calls into it",)


@needs_cc
def test_a_library_with_a_constructor_counts_though_nobody_calls_it(tmp_path: Path) -> None:
    source = THREAD.replace("int NAME", "__attribute__((constructor)) int NAME")
    threads = library(tmp_path, source.replace("NAME", "threads"), "threads")
    options = ("-Wl,--no-as-needed", str(threads), f"-Wl,-rpath,{tmp_path}")
    (reason,) = advise(compile_(tmp_path, SINGLE, *options)).reasons

    assert reason.via == "its constructors run at the start"


@needs_cc
def test_a_missing_library_means_that_nobody_knows(tmp_path: Path, threads: Path) -> None:
    program = compile_(tmp_path, CALL.replace("NAME", "main"), "-L", str(tmp_path), "-lthreads")
    threads.unlink()

    advice = advise(program)

    assert advice.verdict is Verdict.UNKNOWN
    assert [reason.text for reason in advice.reasons] == [
        "needs libthreads.so, which was not found"
    ]


@needs_cc
def test_a_shared_library_can_be_asked_about(threads: Path) -> None:
    advice = advise(threads)

    assert (advice.verdict, advice.is_program) == (Verdict.THREADED, False)
    assert any("library" in note for note in advice.notes)


def loaded_by_ldd(program: Path, **environment: str) -> set[Path]:
    """What the loader itself says."""
    done = subprocess.run(
        ["ldd", str(program)], check=True, capture_output=True, text=True,
        env=os.environ | environment,
    )  # fmt: skip
    found = re.findall(r"(?:=>\s+|^\s+)(/\S+)", done.stdout, re.MULTILINE)
    return {Path(path).resolve() for path in found}


@needs_cc
@pytest.mark.parametrize("how", ["rpath", "runpath", "hidden", "origin", "variable", "slash"])
def test_libraries_are_found_where_the_loader_finds_them(tmp_path: Path, how: str) -> None:
    """The upper library names no folder itself: only DT_RPATH and the variable reach its own.

    In ``hidden`` it names one, with DT_RUNPATH, and so does not inherit DT_RPATH.
    """
    lower_folder, upper_folder = tmp_path / "lower", tmp_path / "upper"
    lower_folder.mkdir()
    upper_folder.mkdir()
    lower = library(
        lower_folder, THREAD.replace("NAME", "threads"), "lower", "-Wl,-soname,liblower.so"
    )
    name = [] if how == "slash" else ["-Wl,-soname,libupper.so"]
    name += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{tmp_path}"] if how == "hidden" else []
    upper = library(upper_folder, CALL.replace("NAME", "upper"), "upper", str(lower), *name)
    folders = f"{lower_folder}:{upper_folder}"
    options = {
        "rpath": ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{folders}"],
        "hidden": ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{folders}"],
        "runpath": ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{folders}"],
        "origin": ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lower:${ORIGIN}/upper"],
        "variable": [],
        "slash": [],
    }[how]
    source = "int upper(void);\nint main(void) { return upper(); }"
    program = compile_(
        tmp_path, source, str(upper), f"-Wl,-rpath-link,{lower_folder}", *options
    )  # fmt: skip
    environment = {"LD_LIBRARY_PATH": folders} if how == "variable" else {}

    advice = advise(program, environment)

    expected = loaded_by_ldd(program, **environment)
    assert {path.resolve() for path in advice.objects[1:]} == expected
    finds_lower = how not in ("runpath", "hidden", "slash")
    assert (advice.verdict is Verdict.THREADED) == finds_lower
    assert (lower.resolve() in expected) == finds_lower


@pytest.mark.parametrize(
    ("program", "verdict"),
    [("git", Verdict.THREADED), ("gs", Verdict.THREADED), ("perl", Verdict.UNKNOWN)],
)
def test_a_program_of_the_system(program: str, verdict: Verdict) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program}")
    advice = advise(Path(found))
    if any("not found" in reason.text for reason in advice.reasons):
        pytest.skip(f"{program} is not whole")

    assert advice.verdict in (verdict, Verdict.THREADED)
    assert {path.resolve() for path in advice.objects[1:]} == loaded_by_ldd(Path(found))


# What is no program


def test_a_script_is_refused_with_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/usr/bin/env perl\n")

    with pytest.raises(BinaryError, match=r"run: a script, run by '/usr/bin/env perl'"):
        advise(script)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "not an ELF file"), (b"MZ\0\0", "not an ELF file"), (b"!<arch>\n", "an archive"),
     (b"\x7fELF", "damaged")],
)  # fmt: skip
def test_what_is_no_program_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(BinaryError, match=what):
        advise(path)


@needs_cc
def test_an_object_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BinaryError, match="an object file; name a program that was linked"):
        advise(compile_(tmp_path, SINGLE, "-c"))


@needs_cc
@pytest.mark.parametrize(("machine", "name"), [(3, "x86"), (243, "RISC-V"), (183, "aarch64")])
def test_a_program_for_another_machine_is_refused(
    tmp_path: Path, machine: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field e_machine stands at byte 18."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    program = compile_(tmp_path, SINGLE)
    content = bytearray(program.read_bytes())
    content[18:20] = machine.to_bytes(2, "little")
    program.write_bytes(content)

    with pytest.raises(BinaryError, match=f"built for .*{name}"):
        advise(program)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="no: cannot be read"):
        advise(tmp_path / "no")
    with pytest.raises(MissingToolError, match="cannot be read"):
        advise(tmp_path)


@pytest.fixture(scope="session")
def small_program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return compile_(tmp_path_factory.mktemp("small"), SINGLE, "-s").read_bytes()


@settings(max_examples=200,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_a_damaged_file_ends_in_one_error(
    data: st.DataObject, small_program: bytes, tmp_path: Path
) -> None:
    """Headers, dynamic section and symbols get other bytes, or the file is cut off."""
    content = bytearray(small_program)
    for _ in range(data.draw(st.integers(0, 8))):
        position = data.draw(st.integers(4, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    with contextlib.suppress(BinaryError):  # anything else fails the test
        read_object(path)


# The command


@needs_cc
@pytest.mark.parametrize(
    ("source", "code", "library", "words"),
    [
        (SINGLE, 0, "exgen-st", "libexgen-st.so is safe"),
        (PTHREAD, ThreadedVerdict.exit_code, "exgen", "libexgen.so is needed"),
        (DLOPEN, UnknownVerdict.exit_code, "exgen", "cannot know"),
    ],
)
def test_the_verdict_is_the_exit_code(  # noqa: PLR0917 - one row of the table above
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    code: int,
    library: str,
    words: str,
) -> None:
    program = str(compile_(tmp_path, source))

    assert run(["link-advice", program]) == code
    out, err = capsys.readouterr()
    assert out.startswith(f"{program}: {words}")
    assert err == ""

    assert run(["link-advice", "--json", program]) == code
    value = json.loads(capsys.readouterr().out)
    assert (value["schema"], value["version"]) == ("malloc-tuner.link-advice", 1)
    assert (value["program"], value["library"]) == (program, library)

    assert run(["link-advice", "--choose", program]) == 0
    assert capsys.readouterr().out == f"{library}\n"


@needs_cc
def test_text_has_one_line_per_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = PTHREAD + "#include <aio.h>\nint more(struct aiocb *c) { return aio_read(c); }"
    program = compile_(tmp_path, source)
    run(["link-advice", str(program)])

    title, line = capsys.readouterr().out.splitlines()[1:3]
    assert title == "because"
    assert line == (
        f"  {program} refers to aio_read, which starts a thread (asynchronous I/O), "
        "and to pthread_create"
    )


@needs_cc
def test_text_tells_all_that_a_static_program_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = PTHREAD + "#include <threads.h>\nint more(thrd_t *t) { return thrd_create(t, 0, 0); }"
    program = compile_(tmp_path, source, "-static")
    run(["link-advice", str(program)])

    line = capsys.readouterr().out.splitlines()[2]
    assert line == (
        f"  {program} holds pthread_create, which starts a thread (POSIX threads), and thrd_create"
    )


def test_an_error_of_the_command_has_its_own_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("hello")

    assert run(["link-advice", "--choose", str(tmp_path / "text")]) == BinaryError.exit_code
    assert capsys.readouterr().out == ""


def test_every_field_of_the_json_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["link-advice", "--json", "/bin/sh"])
    value = json.loads(capsys.readouterr().out)
    explained = set(re.findall(r"`(\w+)(?:\[\])?`", PAGE.read_text()))

    assert set(value) - explained == set()


# The snippets of the documentation


def snippet(language: str) -> str:
    """Return the one block of a language in the page."""
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


@needs_cc
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_makefile_snippet_follows_the_sources(tmp_path: Path, exgen: Path) -> None:
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
        chosen.append(next(n for n in read_object(project / "app").needed if "exgen" in n))

    assert chosen == ["libexgen-st.so", "libexgen.so", "libexgen-st.so"]


@needs_cc
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_makefile_snippet_stops_where_no_advice_is_to_be_had(
    tmp_path: Path, exgen: Path
) -> None:
    (exgen / "malloc-tuner").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "main.c").write_text(SINGLE)
    (tmp_path / "Makefile").write_text(f"EXGEN = {exgen}\nOBJECTS = main.o\n{snippet('make')}")
    done = subprocess.run(["make", "app"], check=False, capture_output=True, cwd=tmp_path)

    assert done.returncode != 0
    assert not (tmp_path / "app").exists()


@needs_cc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_the_cmake_snippet_follows_the_sources(tmp_path: Path, exgen: Path, generator: str) -> None:
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
        chosen.append(next(n for n in read_object(project / "build/app").needed if "exgen" in n))

    assert chosen == ["libexgen-st.so", "libexgen.so", "libexgen-st.so"]
