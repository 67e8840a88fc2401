"""Runs of real programs: endings, output, environment, what is refused."""

import hashlib
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.messages import assert_is_one_line
from tests.doubles.processes import processes_with
from tests.doubles.program_runs import GOOD
from tests.doubles.waiting import wait_until
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.measure.preloads import is_allocator
from tuner.measure.process import Finished, Processes
from tuner.measure.program import (
    LAYOUT,
    ProgramRunner,
    Surroundings,
    clean_environment,
    environment_under,
    padded,
    steering,
    steering_digest,
)
from tuner.registry import ALLOCATORS
from tuner.resources import native_file

_MIB = 1 << 20
_PATH = {"PATH": "/usr/bin:/bin"}
_NAMES = st.text("ABC", min_size=1, max_size=3)
_ENVIRONMENTS = st.lists(
    st.dictionaries(_NAMES, st.text("xyé", max_size=8)), min_size=1, max_size=5
)


@pytest.fixture(scope="module")
def runner() -> ProgramRunner:
    return ProgramRunner()


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_memory_and_output_are_measured(runner: ProgramRunner):
    # It ends without tidying up, so the last sample, at its exit, is sure to see the memory.
    code = "import os; x = bytearray(b'1') * (32 << 20); os.write(1, b'done'); os._exit(0)"
    run = runner.run(python(code), _PATH, Surroundings())
    assert run.ending == "exit status 0"
    assert run.peak_is_exact
    assert 32 * _MIB < run.peak_anon_bytes < run.peak_rss_bytes < 80 * _MIB
    assert run.output_sha256 == hashlib.sha256(b"done").hexdigest()
    assert run.cpu_ns > 0
    assert run.faults > 32 * 256
    assert max(point.heap_bytes for point in run.curve) > 30 * _MIB
    assert run.preload_mapped is None


def test_ending_by_signal_is_named(runner: ProgramRunner):
    run = runner.run(["sh", "-c", "echo sorry >&2; kill -SEGV $$"], _PATH, Surroundings())
    assert (run.exit_status, run.signal, run.ending) == (None, 11, "killed by SIGSEGV")
    assert run.stderr_tail == "sorry\n"


def test_as_much_memory_as_a_command_took_is_touched_before_its_next_run(
    runner: ProgramRunner, monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[str]] = []
    start = Processes.run

    def run(self: Processes, words: Sequence[str], **options: Any) -> Finished:
        asked.append([str(word) for word in words])
        return start(self, words, **options)

    monkeypatch.setattr(Processes, "run", run)
    grows = [sys.executable, "-c", "x = bytearray(32 << 20)"]
    cases: list[tuple[list[str], Literal["keep", "never"]]]
    cases = [(grows, "keep"), (grows, "keep"), (["true"], "keep"), (grows, "never")]
    for command, thp in cases:
        runner.run(command, _PATH, Surroundings(thp=thp))
    warm = [float(w[w.index("--warm") + 1]) if "--warm" in w else None for w in asked]
    assert warm[0] == warm[2] == 0.0
    assert 48.0 < (warm[1] or 0.0) < 90.0
    assert warm[3] is None


def test_program_that_hangs_is_stopped(runner: ProgramRunner):
    run = runner.run(["sleep", "100"], _PATH, Surroundings(timeout_s=0.1))
    assert run.timed_out
    assert run.ending == "stopped at the time limit"


@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_interrupt_leaves_nothing_of_a_program(tmp_path: Path, *, is_stopped: bool):
    """Killing supervise left what the program had started: it is asked to end."""
    runner, mark, begun = ProgramRunner(), f"LEFT={uuid.uuid4()}", tmp_path / "begun"
    command = ["sh", "-c", f"sleep 600 & setsid sleep 600 & touch {begun}; sleep 600"]
    environment = {**_PATH, **dict([mark.split("=")])}

    def interrupt() -> None:
        wait_until(begun.exists)
        if is_stopped:
            runner.stop()
        else:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interrupt)
            with pytest.raises(ProgramError if is_stopped else KeyboardInterrupt):
                runner.run(command, environment, Surroundings())
    finally:
        signal.signal(signal.SIGINT, before)

    assert not processes_with(mark)


def test_environment_is_exactly_the_one_given(
    runner: ProgramRunner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("TMPDIR", "/tmp")
    environment = {"A": "b=c", "E": "", "MALLOC_CONF": "narenas:1"}
    run = runner.run(["/usr/bin/env"], environment, Surroundings())
    expected = b"A=b=c\nE=\nMALLOC_CONF=narenas:1\n"
    assert run.output_sha256 == hashlib.sha256(expected).hexdigest()


def test_environment_is_not_on_a_command_line_that_others_can_read(
    runner: ProgramRunner, tmp_path: Path
):
    environment = {**_PATH, "TOKEN": "secret", "MALLOC_CONF": "narenas:1"}
    command = ["sh", "-c", f"cat /proc/$PPID/cmdline > {tmp_path}/words"]
    runner.run(command, environment, Surroundings())
    words = (tmp_path / "words").read_text()
    assert "narenas:1" in words
    assert "secret" not in words


_EXGEN, _RECORDER = str(native_file("libexgen.so")), str(native_file("librecorder.so"))
_SHIM = str(native_file("instruction_count_1.so"))


@pytest.mark.parametrize(
    ("preload", "is_mapped"),
    [(_EXGEN, True), (f"{_EXGEN}:libutil.so.1", True), ("libutil.so.1 libm.so.6", None)],
)
def test_an_allocator_that_is_preloaded_is_checked(
    runner: ProgramRunner, preload: str, *, is_mapped: bool | None
):
    command = ["sh", "-c", "echo $LD_PRELOAD"]
    run = runner.run(command, {**_PATH, "LD_PRELOAD": preload}, Surroundings())
    assert run.preload_mapped is is_mapped
    assert run.output_sha256 == hashlib.sha256(f"{preload}\n".encode()).hexdigest()


@pytest.mark.parametrize(
    ("wrapper", "changed"),
    [
        ("exec env -i", ("GLIBC_TUNABLES", "MIMALLOC_SHOW_STATS")),
        ("export MALLOC_ARENA_MAX=1 B=; exec", ("MALLOC_ARENA_MAX",)),
        ("export GLIBC_TUNABLES=$GLIBC_TUNABLES:a.b=1; exec", ()),
        ("export GLIBC_TUNABLES=a.b=1; exec", ("GLIBC_TUNABLES",)),
        ("export GLIBC_TUNABLES=$GLIBC_TUNABLES:glibc.malloc.b=1; exec", ("GLIBC_TUNABLES",)),
        ("exec env -u UNLIKE\udcff", ()),
        ("exec env MALLOC_ARENA_MAX=1 env -u MALLOC_ARENA_MAX LD_PRELOAD=libutil.so.1", ()),
    ],
)
def test_variables_that_a_script_changes_are_named(
    runner: ProgramRunner, wrapper: str, changed: tuple[str, ...]
):
    given = {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0", "MIMALLOC_SHOW_STATS": "0", "A": "1"}
    command = ["sh", "-c", f"{wrapper} /bin/true"]
    run = runner.run(command, {**_PATH, **given, "UNLIKE\udcff": ""}, Surroundings())
    assert (run.exit_status, run.changed_variables) == (0, changed)


def test_the_program_behind_a_shell_is_known(runner: ProgramRunner):
    run = runner.run(["sh", "-c", "exec env true"], _PATH, Surroundings())
    assert str(run.program).endswith("/true")


def test_a_program_may_be_in_a_folder_whose_name_is_no_text(runner: ProgramRunner, tmp_path: Path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    program = str(shutil.copy("/bin/true", folder))
    assert runner.run([program], _PATH, Surroundings()).program == program


def test_what_starts_a_program_without_its_variables_lets_no_settings_reach_it(
    runner: ProgramRunner,
):
    """Nothing was set yet."""
    given = {**_PATH, LAYOUT: ""}
    run = runner.run(["env", "-i", f"PATH={_PATH['PATH']}", "true"], given, Surroundings())
    assert str(run.lost_settings(None)).startswith("no settings reach it: what starts it takes")
    assert runner.run(["env", "A=1", "true"], given, Surroundings()).lost_settings(None) is None


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("MALLOC_PERTURB_", ["glibc"]),
        ("GLIBC_TUNABLES", ["glibc"]),
        ("MALLOC_CONF", ["jemalloc"]),
        ("HEAPPROFILE", ["tcmalloc"]),
        ("MIMALLOC_PURGE_DELAY", ["mimalloc"]),
        ("EXGEN_CONF", ["exgen", "exgen-st"]),
    ],
)
def test_a_changed_variable_takes_settings_from_who_reads_it(name: str, readers: list[str]):
    run = replace(GOOD, changed_variables=(name,))
    assert run.lost_settings(None) is None
    assert [one for one in ALLOCATORS if run.lost_settings(one)] == readers


def test_a_library_is_an_allocator_by_its_name_or_by_what_it_exports():
    entries = [_RECORDER, "libc.so.6", "libtcmalloc.so.4", _SHIM, "libm.so.6", "$LIB/x.so"]
    assert list(map(is_allocator, entries)) == [True, True, True, False, False, False]


def test_a_program_that_is_named_after_malloc_brings_none(runner: ProgramRunner):
    bench = [str(native_file("malloc_bench")), "--help"]
    own = [runner.run(bench, {**_PATH, **e}, Surroundings()) for e in ({}, {"LD_PRELOAD": _EXGEN})]
    assert [run.malloc_libraries for run in own] == [(), (_EXGEN,)]


def test_what_is_no_allocators_stays_behind_a_candidate():
    had = {"GLIBC_TUNABLES": "glibc.malloc.a=1:x=1", "LD_PRELOAD": f"{_RECORDER} {_SHIM}"}
    own = {"GLIBC_TUNABLES": "glibc.malloc.b=1", "LD_PRELOAD": _EXGEN}
    found = environment_under(own, had)
    assert found == {"GLIBC_TUNABLES": "glibc.malloc.b=1:x=1", "LD_PRELOAD": f"{_EXGEN}:{_SHIM}"}
    assert (steering(had), steering(environment_under({}, had))) == (tuple(had), ())


def test_a_switch_of_a_runtimes_own_allocator_stays_and_tells_environments_apart():
    had = {"PYTHONMALLOC": "malloc"}
    assert environment_under({}, had) == had
    assert len(set(map(steering_digest, ({}, had, {"PYTHONMALLOC": "debug"})))) == 3


def test_missing_program_is_named(runner: ProgramRunner):
    with pytest.raises(MissingToolError, match="/no/such/program: cannot execute"):
        runner.run(["/no/such/program"], _PATH, Surroundings())


def test_failure_of_the_launcher_is_an_error(runner: ProgramRunner):
    with pytest.raises(ProgramError, match="cannot pin to the core"):
        runner.run(["true"], _PATH, Surroundings(cpu=1000))


def test_a_full_disk_is_named(
    runner: ProgramRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What supervise says of it goes to the same disk."""
    usage = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OutputError, match="no room for what the program prints; make room, or set"):
        runner.run(["true"], _PATH, Surroundings(cpu=1000))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            'echo \'{"schema":"supervise.result","version":2}\' > "$3"',
            r"supervise is not understood: version: .*2;",
        ),
        ("", "supervise left no report: No such file"),
    ],
    ids=["another version", "no report"],
)
def test_a_launcher_that_is_not_understood_is_named(tmp_path: Path, script: str, expected: str):
    fake = tmp_path / "supervise"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    with pytest.raises(ProgramError, match=expected) as caught:
        ProgramRunner(fake).run(["true"], _PATH, Surroundings())
    assert_is_one_line(str(caught.value))


def test_missing_launcher_is_an_error(tmp_path: Path):
    with pytest.raises(MissingToolError, match="cannot be started"):
        ProgramRunner(tmp_path / "nothing").run(["true"], _PATH, Surroundings())


@pytest.mark.parametrize(
    "name",
    [
        "MALLOC_ARENA_MAX",
        "MALLOC_CONF",
        "GLIBC_TUNABLES",
        "TCMALLOC_RELEASE_RATE",
        "MIMALLOC_PURGE_DELAY",
        "mimalloc_purge_delay",  # read whatever its case
        "LD_PRELOAD",
        "MALLOCSTATS",
        "HEAPPROFILE",
        "HEAP_PROFILE_MMAP",
        "HEAPCHECK",
        "EXGEN_CONF",
    ],
)
def test_allocator_variables_are_cleaned_away(name: str):
    assert clean_environment({name: "1", "LANG": "C"}) == {"LANG": "C"}


@given(_ENVIRONMENTS)
def test_padded_environments_take_the_same_room(environments: list[dict[str, str]]):
    found = padded(environments)
    sizes = {sum(len(f"{k}={v}".encode()) + 1 for k, v in e.items()) for e in found}
    assert len(sizes) == 1
    assert len({len(environment) for environment in found}) == 1
    for before, after in zip(environments, found, strict=True):
        assert {name: after[name] for name in before} == before


def test_supervise_is_installed():
    assert native_file("supervise").is_file()
