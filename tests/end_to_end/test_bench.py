"""`malloc-tuner bench` with the real driver: tiny runs, and everything that can go wrong."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.doubles.waiting import wait_until
from tuner.cli.main import run
from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end

TINY = ("--budget", "1 s", "--rounds", "1", "--threads", "2")


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


Bench = Callable[..., Ended]


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run the command in this process, which has imported what it needs."""

    def run_it(*words: object) -> Ended:
        code = run(["bench", *map(str, words)])
        return Ended(code, *capsys.readouterr())

    return run_it


@pytest.fixture
def bench_mine(bench: Bench, tmp_path: Path) -> Bench:
    """Return a function that compares glibc's allocator with one of a few lines of C."""

    def run_it(code: str, *words: str) -> Ended:
        library = build(tmp_path, "#include <stddef.h>\n" + code)
        return bench("--allocators", "glibc", "--library", f"mine={library}", "--workloads",
                     "larson", *words, *TINY, "--no-figures", "-o", tmp_path)  # fmt: skip

    return run_it


def build(folder: Path, code: str) -> Path:
    """Compile a library out of a few lines of C."""
    source, library = folder / "library.c", folder / "libmine.so"
    source.write_text(code)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def samples(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "samples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def test_a_tiny_comparison_gives_tables_samples_and_figures(bench: Bench, tmp_path: Path):
    words = ("--allocators", "glibc,exgen", "--setting", "glibc arena_max=1",
             "--env", "glibc arena_max=1:X=1")  # fmt: skip
    chosen = "larson,xmalloc,sizes,overhead"

    ended = bench(*words, "--workloads", chosen, "--smoke", "-o", tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert "larson, 2 threads" in ended.stdout
    assert "usable/requested" in ended.stdout
    subjects = {sample["subject"] for sample in samples(tmp_path)}
    assert subjects == {"glibc", "exgen", "glibc arena_max=1"}
    assert all(sample["status"] == "ok" for sample in samples(tmp_path))
    for name in ("throughput-threads", "memory-threads", "latency", "overhead"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10000


def test_a_comparison_that_is_stopped_says_what_is_kept(tmp_path: Path):
    words = ("--allocators", "glibc", "--workloads", "larson", "--budget", "20 s", "-o", tmp_path)
    command = [sys.executable, "-m", "tuner.cli.main", "bench", *map(str, words)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file = tmp_path / "samples.jsonl"
    wait_until(lambda: file.exists() and file.read_text().count("\n") >= 2)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate()

    assert running.returncode == 130
    assert f"stopped; all samples are kept in {tmp_path}" in told


def test_a_comparison_goes_on_where_it_stopped(bench: Bench, tmp_path: Path):
    words = ("--allocators", "glibc", "--workloads", "larson", "--no-figures", "-o", tmp_path)
    bench(*words, *TINY)
    before = samples(tmp_path)

    ended = bench(*words, *TINY)

    assert ended.returncode == 0, ended.stderr
    assert samples(tmp_path) == before
    assert bench("--print", "--no-figures", "-o", tmp_path).stdout == ended.stdout


def test_a_missing_library_stops_before_anything_is_run(bench: Bench, tmp_path: Path):
    ended = bench("--library", "mine=/no/such.so", "-o", tmp_path / "out")

    assert ended.returncode == 4
    assert "/no/such.so: no such file" in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_library_that_crashes_is_out_and_reported(bench_mine: Bench, tmp_path: Path):
    ended = bench_mine("void *malloc(size_t n) { (void)n; __builtin_trap(); }\n")

    assert ended.returncode == 7
    assert "mine: larson, 2 threads: killed by SIGILL" in ended.stderr
    found = {sample["subject"]: sample["status"] for sample in samples(tmp_path)}
    assert found == {"glibc": "ok", "mine": "failed"}


def test_a_library_that_is_no_malloc_is_refused(bench_mine: Bench, tmp_path: Path):
    ended = bench_mine("int nothing;\n")

    assert ended.returncode == 7
    assert f"not {tmp_path / 'libmine.so'}" in ended.stderr.replace("\n", " ")


def test_a_run_that_hangs_is_stopped(bench_mine: Bench):
    code = "#include <unistd.h>\nvoid *malloc(size_t n) { (void)n; for (;;) pause(); }\n"

    ended = bench_mine(code, "--timeout", "3 s")

    assert ended.returncode == 7
    assert "stopped at the time limit of 3 s" in ended.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--threads", "1", "xmalloc"], "needs at least 2 threads"),
        (["--threads", "2", "memory"], "runs in one thread"),
        (["sizes"], "needs --size"),
        (["--size", "8", "ring"], "takes no --size"),
        (["--threads", "0", "ring"], "'0' is not a whole number from 1"),
        (["--seconds", "x", "ring"], "'x' is not a number of seconds"),
        (["--aslr", "on", "ring"], "'on' is not one of off, keep"),
        (["ringo"], "there is no such workload"),
        ([], "exactly one WORKLOAD"),
        (["ring", "larson"], "exactly one WORKLOAD"),
    ],
)
def test_wrong_usage_of_the_driver_is_an_error(words: list[str], text: str):
    ended = subprocess.run(
        [native_file("malloc_bench"), *words], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert text in ended.stderr
    assert ended.stdout == ""


def test_a_damaged_block_is_found(tmp_path: Path):
    """A malloc that gives the same block twice."""
    library = build(
        tmp_path,
        "#include <stddef.h>\nstatic char room[1 << 20];\nstatic size_t n;\n"
        "void *malloc(size_t size) { char *p = room + n % (1 << 19) / 16 * 16;\n"
        "  n += size < 600 ? 16 : 0; return p; }\n"
        "void free(void *p) { (void)p; }\n"
        "void *calloc(size_t a, size_t b) { static char zero[1 << 20]; static size_t used;\n"
        "  char *p = zero + used; used += (a * b + 15) / 16 * 16; return p; }\n",
    )

    ended = subprocess.run(
        [native_file("malloc_bench"), "--threads", "1", "--seconds", "0.05", "ring"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert "heap: a block was damaged" in ended.stderr


def test_an_empty_section_is_timed_with_every_call():
    """What the clock takes is its median, and what it scatters stands beside the calls."""
    words = ["larson", "--threads", "3", "--seconds", "0.02"]
    ended = subprocess.run([native_file("malloc_bench"), *words], capture_output=True, check=True)
    latency = json.loads(ended.stdout)["latency"]

    assert latency["empty"]["n"] == latency["malloc"]["n"] + latency["free"]["n"]
    assert latency["empty"]["p50_ns"] == 0
    assert latency["clock_overhead_ns"] > 0
    assert latency["malloc"]["p50_ns"] > 0


def test_a_run_that_times_no_call_has_no_latency():
    words = ["larson", "--operations", "1000"]
    ended = subprocess.run([native_file("malloc_bench"), *words], capture_output=True, check=True)

    assert json.loads(ended.stdout)["latency"] is None


def test_calls_are_timed_however_short_the_phase_is():
    """On a busy machine a thread may not run at all while calls are timed."""
    for _ in range(8):
        words = ["sizes", "--threads", "2", "--size", "128", "--seconds", "0.00001"]
        ended = subprocess.run(
            [native_file("malloc_bench"), *words], capture_output=True, check=True
        )
        latency = json.loads(ended.stdout)["latency"]
        assert latency["malloc"] is not None
        assert latency["free"] is not None
