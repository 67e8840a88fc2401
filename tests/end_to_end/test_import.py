"""`malloc-tuner import` on what the real tools record here; then emulate and tune as usual."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.doubles import calls as doubles
from tests.doubles.calls import Call
from tests.doubles.programs import compile_
from tests.doubles.traces import load
from tuner.allocators.libraries import find_library
from tuner.cli.main import run
from tuner.importers import FORMATS, import_file
from tuner.trace.file import Op, Trace, TraceTotals

pytestmark = pytest.mark.end_to_end

DEBUG_LIBRARY = "libc_malloc_debug.so.0"

PROGRAM = r"""
#include <mcheck.h>
#include <stdlib.h>
#include <string.h>
static char *blocks[500];
int main(void) {
    mtrace();
    unsigned state = 1;
    for (int step = 0; step < 6000; step++) {
        state = state * 1103515245 + 12345;
        char **block = &blocks[state >> 16 & 255];
        size_t size = 16 + (state >> 8 & 4095);
        if (*block == NULL)
            *block = step % 5 ? malloc(size) : calloc(1, size);
        else if (step % 3) {
            free(*block);
            *block = NULL;
        } else
            *block = realloc(*block, 2 * size);
        if (*block != NULL)
            memset(*block, 1, 16);
    }
    for (int i = 0; i < 500; i++)
        free(blocks[i]);
    muntrace();
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_(tmp_path_factory.mktemp("program"), PROGRAM, "-w", "-O1")


@pytest.fixture(scope="module")
def recorded(program: Path, tmp_path_factory: pytest.TempPathFactory) -> TraceTotals:
    """What our own recorder says of the program."""
    output = tmp_path_factory.mktemp("recorded") / "app.trace"
    assert run(["record", "-o", str(output), "--", str(program)]) == 0
    with Trace(output) as trace:
        return trace.totals


def run_tool(*command: str, **environment: str) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr


def count(path: Path, *operations: Op) -> int:
    events = load(path)
    return sum(int((events["op"] == op).sum()) for op in operations)


def has_like(found: TraceTotals, expected: TraceTotals) -> bool:
    """Tell whether two traces are of the same run; tools add a few blocks of their own."""
    is_close = abs(found.n_events - expected.n_events) <= 10
    return is_close and 0 <= found.peak_live_bytes - expected.peak_live_bytes <= 80_000


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_valgrinds_log_holds_what_was_recorded(
    program: Path, recorded: TraceTotals, tmp_path: Path
):
    log = tmp_path / "log"
    options = ["--trace-malloc=yes", "--run-libc-freeres=no", f"--log-file={log}"]
    run_tool("valgrind", *options, str(program))
    imported = import_file(log, tmp_path / "app.trace")

    assert has_like(imported.totals, recorded)
    assert count(imported.path, Op.CALLOC) > 100
    assert count(imported.path, Op.REALLOC) > 100


def test_mtraces_log_holds_what_was_recorded(program: Path, recorded: TraceTotals, tmp_path: Path):
    library = find_library(DEBUG_LIBRARY)
    if library is None:
        pytest.skip(f"no {DEBUG_LIBRARY}")
    log = tmp_path / "log"
    run_tool(str(program), LD_PRELOAD=str(library), MALLOC_TRACE=str(log))
    imported = import_file(log, tmp_path / "app.trace")

    assert has_like(imported.totals, recorded)
    assert count(imported.path, Op.REALLOC) > 100


@pytest.mark.skipif(shutil.which("heaptrack") is None, reason="no heaptrack")
@pytest.mark.parametrize("options", [(), ("--raw",)])
def test_heaptracks_recording_holds_the_same_live_bytes(
    program: Path, recorded: TraceTotals, tmp_path: Path, options: tuple[str, ...]
):
    run_tool("heaptrack", *options, "-o", str(tmp_path / "data"), str(program))
    (data,) = tmp_path.glob("data*")
    imported = import_file(data, tmp_path / "app.trace")

    extra = imported.totals.peak_live_bytes - recorded.peak_live_bytes
    assert 0 <= extra <= 80_000  # libstdc++ of heaptrack itself keeps 72704 bytes
    assert count(imported.path, Op.REALLOC) == 0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported trace of a few hundred calls."""
    made = []
    for step in range(400):
        block = step % 50
        made.append(Call("malloc" if step % 100 < 50 else "free", block, 64 + 40 * block))
    folder = tmp_path_factory.mktemp("imported")
    (folder / "log").write_bytes(doubles.as_valgrind(made))
    return import_file(folder / "log", folder / "app.trace").path


def test_an_imported_trace_is_emulated(log: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["emulate", str(log), "--json", "-a", "jemalloc"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert [e["status"] for e in found["evaluations"]] == ["ok", "ok"]
    assert found["evaluations"][0]["measurement"]["peak_live_bytes"] == 50 * 64 + 40 * 49 * 25


def test_an_imported_trace_is_tuned(log: Path, tmp_path: Path):
    options = [
        "--allocators",
        "glibc",
        "--evaluations",
        "6",
        "-o",
        str(tmp_path / "run"),
        "--quiet",
    ]

    assert run(["tune", "--trace", str(log), *options]) == 0
    assert run(["front", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("name", [name for name in FORMATS if name.startswith(("glibc", "byte"))])
@pytest.mark.parametrize("threads", ["baton", "free"])
def test_imported_threads_are_replayed(tmp_path: Path, name: str, threads: str):
    writers = {
        "glibc-trace": doubles.as_glibc_trace,
        "glibc-workload": doubles.as_glibc_workload,
        "bytehound": doubles.as_bytehound,
    }
    made = [Call("malloc", n, 100 + n, n % 3) for n in range(60)]
    made += [Call("free", n, 0, (n + 1) % 3) for n in range(60)]
    (tmp_path / "file").write_bytes(writers[name](made))
    imported = import_file(tmp_path / "file", tmp_path / "app.trace")

    assert imported.totals.n_threads == 3
    options = ["--threads", threads, "--instrument", "none"]
    assert run(["emulate", str(imported.path), *options]) == 0
