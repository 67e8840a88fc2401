"""Programs with and without threads, compiled here and judged here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.doubles.programs import DLOPEN, PTHREAD, SINGLE, THREAD, compile_, library
from tuner.allocators.libraries import find_library
from tuner.link.advice import Advice, LinkVerdict, advise
from tuner.resources import native_file

pytestmark = pytest.mark.slow


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


CALL = "int threads(void);\nint NAME(void) { return threads(); }"


def words(advice: Advice) -> str:
    return "\n".join(f"{reason.path.name} {reason.text}" for reason in advice.reasons)


# Programs


@pytest.mark.parametrize(
    ("source", "options", "verdict", "symbol"),
    [
        (SINGLE, (), LinkVerdict.SINGLE, ""),
        (PTHREAD, (), LinkVerdict.THREADED, "pthread_create"),
        (PTHREAD, ("-s",), LinkVerdict.THREADED, "pthread_create"),
        (C11, (), LinkVerdict.THREADED, "thrd_create"),
        (OPENMP, ("-fopenmp",), LinkVerdict.THREADED, "GOMP_parallel"),
        (OPENMP, (), LinkVerdict.SINGLE, ""),
        (AIO, (), LinkVerdict.THREADED, "aio_read"),
        (DLOPEN, (), LinkVerdict.UNKNOWN, "dlopen"),
        (TIMER, (), LinkVerdict.UNKNOWN, "timer_create"),
        (CLONE, (), LinkVerdict.UNKNOWN, "clone"),
        (SINGLE, ("-Wl,-z,now", "-no-pie"), LinkVerdict.SINGLE, ""),
        (SINGLE, ("-static",), LinkVerdict.SINGLE, ""),
        (SINGLE, ("-static-pie",), LinkVerdict.SINGLE, ""),
        (PTHREAD, ("-static",), LinkVerdict.THREADED, "pthread_create"),
        (CLONE, ("-static",), LinkVerdict.UNKNOWN, "clone"),
        (SINGLE, ("-static", "-s"), LinkVerdict.UNKNOWN, "is static and stripped"),
    ],
)
def test_a_c_program(
    tmp_path: Path, source: str, options: tuple[str, ...], verdict: LinkVerdict, symbol: str
):
    program = compile_(tmp_path, source, *options)

    advice = advise(program)

    assert advice.verdict is verdict
    assert bool(advice.reasons) == (verdict is not LinkVerdict.SINGLE)
    assert symbol in words(advice)


@pytest.mark.parametrize(
    ("source", "options", "verdict"),
    [
        (IOSTREAM, (), LinkVerdict.SINGLE),
        (IOSTREAM, ("-static",), LinkVerdict.SINGLE),
        (STD_THREAD, (), LinkVerdict.THREADED),
        (STD_THREAD, ("-static",), LinkVerdict.THREADED),
        (STD_JTHREAD, (), LinkVerdict.THREADED),
        (STD_ASYNC, (), LinkVerdict.THREADED),
    ],
)
def test_a_cxx_program(tmp_path: Path, source: str, verdict: LinkVerdict, options: tuple[str, ...]):
    assert advise(compile_(tmp_path, source, *options)).verdict is verdict


def test_a_runtime_whose_threads_are_unused_does_not_count(tmp_path: Path):
    options = ("-Wl,--no-as-needed", "-lgomp", "-lstdc++")
    advice = advise(compile_(tmp_path, SINGLE, *options))

    assert advice.verdict is LinkVerdict.SINGLE
    assert {"libgomp.so.1", "libstdc++.so.6"} <= {path.name for path in advice.objects}


LZMA = """
extern int lzma_stream_{kind}_mt(void *, const void *);
extern unsigned lzma_version_number(void);
int main(int n, char **v) {{ return n > 9 ? {call} : lzma_version_number() == 0; }}
"""


@pytest.mark.parametrize(
    ("call", "verdict"),
    [("0", LinkVerdict.SINGLE), ("lzma_stream_encoder_mt(0, 0)", LinkVerdict.THREADED)],
)
def test_a_library_with_few_functions_that_start_threads_is_known(
    tmp_path: Path, call: str, verdict: LinkVerdict
):
    found = find_library("liblzma.so.5")
    if found is None:
        pytest.skip("no liblzma.so.5")
    source = LZMA.format(kind="encoder", call=call)

    assert advise(compile_(tmp_path, source, str(found))).verdict is verdict


@pytest.mark.parametrize(("source", "ends_well"), [(SINGLE, True), (PTHREAD, False), (C11, False)])
def test_the_verdict_is_what_exgen_itself_finds_out(tmp_path: Path, source: str, ends_well: bool):
    """The threads allocate, as libc does for each of them."""
    allocating = source.replace("{ return p", "{ free(malloc(9)); return p")
    program = compile_(tmp_path, f"#include <stdlib.h>\n{allocating}")
    library = native_file("libexgen-st.so")
    done = subprocess.run(
        [str(program)], check=False, capture_output=True, env=os.environ | {"LD_PRELOAD": library}
    )

    assert (done.returncode == 0) == ends_well
    assert (b"thread" in done.stderr) != ends_well
    assert (advise(program).verdict is LinkVerdict.SINGLE) == ends_well


# Libraries


@pytest.fixture
def threads(tmp_path: Path) -> Path:
    """A library with a function that starts a thread."""
    return library(tmp_path, THREAD.replace("NAME", "threads"), "threads")


def test_a_library_that_is_called_through_another_counts(tmp_path: Path, threads: Path):
    middle = library(
        tmp_path, CALL.replace("NAME", "middle"), "middle", str(threads), f"-Wl,-rpath,{tmp_path}"
    )
    source = "int middle(void);\nint main(void) { return middle(); }"
    program = compile_(
        tmp_path, source, str(middle), f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath-link,{tmp_path}"
    )

    advice = advise(program)

    assert advice.verdict is LinkVerdict.THREADED
    (reason,) = advice.reasons
    what = "starts threads: pthread_create (POSIX threads)"
    assert (reason.path, reason.text) == (threads, what)


def test_a_library_counts_called_or_not(tmp_path: Path, threads: Path):
    options = ("-Wl,--no-as-needed", str(threads), f"-Wl,-rpath,{tmp_path}")

    assert advise(compile_(tmp_path, SINGLE, *options)).verdict is LinkVerdict.THREADED


def test_a_missing_library_makes_the_verdict_unknown(tmp_path: Path, threads: Path):
    program = compile_(tmp_path, CALL.replace("NAME", "main"), "-L", str(tmp_path), "-lthreads")
    threads.unlink()

    advice = advise(program)

    assert advice.verdict is LinkVerdict.UNKNOWN
    assert words(advice) == "app needs libthreads.so, which was not found"


def test_a_shared_library_can_be_asked_about(threads: Path):
    advice = advise(threads)

    assert (advice.verdict, advice.is_program) == (LinkVerdict.THREADED, False)


@pytest.mark.parametrize("how", ["variable", "slash"])
def test_libraries_are_found_where_the_loader_finds_them(tmp_path: Path, how: str):
    """A path with a blank and brackets is one; LD_LIBRARY_PATH is that of the caller."""
    folder = tmp_path / "my libs (new)"
    folder.mkdir()
    name = ["-Wl,-soname,libthreads.so"] if how == "variable" else []
    lower = library(folder, THREAD.replace("NAME", "threads"), "threads", *name)
    program = compile_(tmp_path, CALL.replace("NAME", "main"), str(lower))

    advice = advise(program, {"LD_LIBRARY_PATH": str(folder)} if how == "variable" else {})

    assert (advice.verdict, advice.objects[1]) == (LinkVerdict.THREADED, lower)
    if how == "variable":
        assert advise(program, {}).verdict is LinkVerdict.UNKNOWN


def test_the_program_is_not_run(tmp_path: Path):
    """Not even its own loader, nor what is preloaded."""
    marker = tmp_path / "ran"
    source = f'#include <stdio.h>\nint main(void) {{ return !fopen("{marker}", "w"); }}'
    program = compile_(tmp_path, source, "-Wl,--dynamic-linker=/bin/true")

    assert advise(program, {"LD_PRELOAD": "/nowhere.so"}).verdict is LinkVerdict.SINGLE
    assert not marker.exists()


@pytest.mark.parametrize(
    ("program", "verdict"),
    [("git", LinkVerdict.THREADED), ("gs", LinkVerdict.THREADED), ("perl", LinkVerdict.UNKNOWN)],
)
def test_a_program_of_the_system(program: str, verdict: LinkVerdict):
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program}")
    advice = advise(Path(found))
    if "not found" in words(advice):
        pytest.skip(f"{program} is not whole")

    assert advice.verdict in (verdict, LinkVerdict.THREADED)
