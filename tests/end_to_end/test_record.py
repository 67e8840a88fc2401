"""Real programs under the recorder: what they did is in the trace, and they do not notice."""

import errno
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner.recording
from benchmarks.record import valgrind_event
from tests.doubles.programs import SINGLE, compile_, library, native
from tests.doubles.traces import load
from tests.doubles.waiting import wait_until
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.recording import RecordedProcess, Recording, record, recover
from tuner.recording.spool import writers
from tuner.recording.window import WindowPlan
from tuner.trace.file import Api, Events, Op, Trace

MARKER = 123457
"""Size of the first allocation of main in the subjects."""


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("subject")
    return str(native(folder, "recorder_subject.c", "-fno-builtin", "-pthread"))


@pytest.fixture(scope="session")
def subject_new(tmp_path_factory: pytest.TempPathFactory) -> str:
    flags = ("-fno-builtin", "-fsized-deallocation")
    return str(native(tmp_path_factory.mktemp("subject"), "recorder_subject_new.cc", *flags))


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tuner.cli.main", *arguments]


def run_record(output: Path, *command: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run the command of this name in a process of its own."""
    words = command_line("record", "-o", str(output), "--", *command)
    return subprocess.run(words, capture_output=True, text=True, check=False, **how)


def after_marker(events: Events) -> Events:
    """Drop start-up: everything to the free of the marker."""
    start = np.flatnonzero(events["size"] == MARKER)
    assert len(start) == 1
    return events[start[0] + 2 :]


def calls_of(events: Events) -> list[tuple[Op, Api, int, int]]:
    """Return operation, function, size and alignment of each."""
    return [(Op(e["op"]), Api(e["api"]), int(e["size"]), int(e["align_log2"])) for e in events]


def recorded(tmp_path: Path, *command: str, follow: bool = False) -> tuple[Recording, Events]:
    recording = record(command, tmp_path / "out.trace", follow=follow)
    assert not (tmp_path / "out.trace.spool").exists()
    assert [process.foreign_frees for process in recording.processes] == [0] * len(
        recording.processes
    )
    return recording, load(recording.processes[0].path)


def test_every_function_of_c_is_recorded_exactly(tmp_path: Path, subject: str):
    _, events = recorded(tmp_path, subject, "calls")
    calls = calls_of(after_marker(events))
    page = os.sysconf("SC_PAGE_SIZE")
    assert calls == [
        (Op.MALLOC, Api.MALLOC, 101, 0),
        (Op.CALLOC, Api.CALLOC, 102, 0),
        (Op.MALLOC, Api.REALLOC, 103, 0),
        (Op.REALLOC, Api.REALLOC, 104000, 0),
        (Op.REALLOC, Api.REALLOCARRAY, 105, 0),
        (Op.ALIGNED, Api.MEMALIGN, 106, 6),
        (Op.ALIGNED, Api.ALIGNED_ALLOC, 256, 7),
        (Op.ALIGNED, Api.POSIX_MEMALIGN, 108, 12),
        (Op.ALIGNED, Api.VALLOC, 109, page.bit_length() - 1),
        (Op.ALIGNED, Api.PVALLOC, page, page.bit_length() - 1),
        (Op.MALLOC, Api.MALLOC, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
        (Op.FREE, Api.REALLOC, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
        (Op.FREE, Api.FREE_SIZED, 0, 0),
        (Op.FREE, Api.FREE_SIZED, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
        (Op.FREE, Api.FREE, 0, 0),
    ]


def test_every_form_of_new_and_delete_is_recorded(tmp_path: Path, subject_new: str):
    recording, events = recorded(tmp_path, subject_new)
    calls = calls_of(after_marker(events))
    one, array, sized = (Api.NEW, Api.DELETE), (Api.NEW_ARRAY, Api.DELETE_ARRAY), Api.DELETE_SIZED
    forms = [
        *[(*one, 11, 0), (*array, 12, 0), (*one, 13, 0), (*array, 14, 0)],
        *[(Api.NEW, sized, 15, 0), (Api.NEW_ARRAY, sized, 16, 0)],
        *[(*one, 64, 6), (*array, 128, 6), (*one, 192, 6), (*array, 256, 6)],
        *[(Api.NEW, sized, 320, 6), (Api.NEW_ARRAY, sized, 384, 6)],
    ]
    expected = []
    for new, delete, size, align in forms:
        expected += [
            (Op.ALIGNED if align else Op.MALLOC, new, size, align),
            (Op.FREE, delete, 0, 0),
        ]
    assert calls[: len(expected)] == expected
    assert recording.ending.exit_status == 0, "bad_alloc was thrown and caught"


@pytest.mark.parametrize("flags", [(), ("-DREPLACES_ARRAY",)], ids=["one", "array"])
def test_forms_that_a_program_replaces_take_the_others_along(tmp_path: Path, flags: tuple[str]):
    found = native(tmp_path, "recorder_subject_replaced.cc", "-fsized-deallocation", *flags)

    recording, _ = recorded(tmp_path, str(found))

    assert (recording.ending.exit_status, recording.ending.signal_name) == (0, None)


def test_frees_in_other_threads_carry_their_owner(tmp_path: Path, subject: str):
    _, events = recorded(tmp_path, subject, "threads")
    events = after_marker(events)
    frees = events[events["op"] == Op.FREE]
    crossing = frees[frees["owner"] != frees["thread"]]
    by_workers = crossing[crossing["thread"] != 0]
    assert len(by_workers) == 4000
    assert set(by_workers["owner"].tolist()) == {0}
    assert (events["op"] == Op.THREAD_START).sum() == 4
    assert (events["op"] == Op.THREAD_EXIT).sum() == 4


def test_many_short_threads_share_few_numbers(tmp_path: Path, subject: str):
    recording, events = recorded(tmp_path, subject, "churn")
    assert (events["op"] == Op.THREAD_START).sum() == 300
    assert recording.processes[0].totals.n_threads <= 4
    assert (events["size"] == 66).sum() == 300
    assert (events["size"] == 55).sum() == 300, "what key destructors allocate is not lost"


def test_a_child_is_not_recorded_unless_followed(tmp_path: Path, subject: str):
    recording, events = recorded(tmp_path, subject, "fork")
    assert len(recording.processes) == 1
    assert 3333 not in events["size"]


def test_a_followed_child_begins_with_the_blocks_of_its_parent(tmp_path: Path, subject: str):
    recording, _ = recorded(tmp_path, subject, "fork", follow=True)
    parent, child = recording.processes
    assert child.path == tmp_path / "out.2-subject.trace"
    events = load(child.path)
    inherited = events[events["size"] == 2222]
    assert inherited["time_ns"].tolist() == [0]
    assert MARKER not in events["size"], "what its parent freed before the fork is not repeated"
    own = events[events["time_ns"] > 0]
    assert [Op(op) for op in own["op"]] == [Op.FREE, Op.MALLOC, Op.FREE]
    assert own["slot"][0] == inherited["slot"][0]
    assert own["size"].tolist() == [0, 3333, 0]
    assert 3333 not in load(parent.path)["size"]


def test_a_child_of_many_generations_begins_with_the_blocks_of_the_nearest(
    tmp_path: Path, subject: str
):
    recording = record([subject, "generations"], tmp_path / "out.trace", follow=True)
    *parents, last = recording.processes
    assert len(parents) == 70
    assert [parent.foreign_frees for parent in parents] == [0] * 70
    events = load(last.path)
    inherited = events[(events["time_ns"] == 0) & (events["size"] >= 3000)]
    assert [size for size in inherited["size"] if size < 3070] == [*range(3007, 3070)]
    assert last.foreign_frees == 7, "blocks of the generations before those are not known"


def test_a_thread_with_a_small_stack_spawns_with_a_large_environment(tmp_path: Path):
    source = (
        "#include <pthread.h>\n#include <spawn.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n"
        'static char *own[20000], *words[] = {"true", NULL}; static pid_t child;'
        "static void *run(void *unused) { (void)unused;"
        'posix_spawn(&child, "/bin/true", NULL, NULL, words, own); return NULL; }'
        "int main(void) { pthread_attr_t small; pthread_t thread; int status = 1;"
        'for (int i = 0; i < 19999; i++) own[i] = "A=1";'
        "pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536); free(malloc(99));"
        "pthread_create(&thread, &small, run, NULL); pthread_join(thread, NULL);"
        "waitpid(child, &status, 0); return status; }"
    )
    program = str(compile_(tmp_path, source, "-fno-builtin", "-pthread"))
    recording, _ = recorded(tmp_path, program)
    assert recording.ending.exit_status == 0


def test_a_child_that_is_spawned_at_the_end_leaves_the_end_known(tmp_path: Path):
    stop = (
        "#include <spawn.h>\n#include <sys/wait.h>\nextern char **environ;"
        "__attribute__((destructor)) static void stop(void) {"
        'char *words[] = {"true", 0}; pid_t child; int status;'
        'posix_spawn(&child, "/bin/true", 0, 0, words, environ); waitpid(child, &status, 0); }'
    )
    late = str(library(tmp_path, stop, "late"))
    source = "#include <stdlib.h>\nint main(void) { free(malloc(99)); }"
    program = str(compile_(tmp_path, source, "-fno-builtin", "-Wl,--no-as-needed", late))
    recording, _ = recorded(tmp_path, "sh", "-c", f"{program}; :", follow=True)
    (process,) = (one for one in recording.processes if one.argv == (program,))
    with Trace(process.path) as trace:
        assert trace.totals.end_ns is not None


@pytest.mark.parametrize("spawn", ["posix_spawn", "posix_spawnp"])
def test_a_spawned_child_with_an_environment_of_its_own_is_followed(tmp_path: Path, spawn: str):
    source = (
        "#include <spawn.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n"
        'int main(void) { char *words[] = {"env", NULL}, *own[] = {"A=1", NULL}; pid_t child;'
        f'free(malloc(99)); {spawn}(&child, "/usr/bin/env", NULL, NULL, words, own);'
        "int status; waitpid(child, &status, 0); return status; }"
    )
    program = str(compile_(tmp_path, source, "-fno-builtin"))
    recording, _ = recorded(tmp_path, program, follow=True)
    assert [process.argv for process in recording.processes] == [(program,), ("env",)]
    assert recording.ending.exit_status == 0


def test_a_worker_is_named_by_the_title_it_gave_itself(tmp_path: Path, subject: str):
    recording, _ = recorded(tmp_path, subject, "title", follow=True)
    parent, child = recording.processes
    assert parent.title == ""
    assert child.title == "subject: worker 7"
    assert child.path == tmp_path / "out.2-subject_worker_7.trace"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change its root")
def test_a_worker_keeps_its_title_where_it_can_read_it_no_more(tmp_path: Path, subject: str):
    root = tmp_path / "root"
    root.mkdir()
    recording, _ = recorded(tmp_path, subject, "title", str(root), follow=True)
    assert recording.processes[1].title == "subject: worker 7"


def test_a_child_of_vfork_allocates_from_the_recorded_heap(tmp_path: Path, subject: str):
    recording, events = recorded(tmp_path, subject, "vfork")
    (process,) = recording.processes
    assert process.stopped is None
    sizes = Counter(after_marker(events)["size"].tolist())
    assert (sizes[4444], sizes[5555]) == (10_000, 10_000)


def test_a_child_made_behind_forks_back_leaves_the_trace_alone(tmp_path: Path, subject: str):
    _, events = recorded(tmp_path, subject, "raw-fork", follow=True)
    sizes = Counter(after_marker(events)["size"].tolist())
    assert (sizes[7777], sizes[8888]) == (0, 10)


def test_an_exec_that_fails_says_why_after_all_descriptors_were_closed(
    tmp_path: Path, subject: str
):
    recording, _ = recorded(tmp_path, subject, "exec-fails")
    assert recording.ending.exit_status == errno.ENOENT


def test_descriptors_of_a_daemon_stay_open_in_its_child(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    subprocess.run(
        command_line("record", "--follow", "-o", str(output), "--", subject, "keep-descriptors"),
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )
    with Trace(output) as trace:
        assert trace.metadata["exit_status"] == 0


def test_a_child_that_ends_soon_after_the_program_is_recorded_to_its_end(
    tmp_path: Path, subject: str
):
    begun = tmp_path / "begun"
    script = f"(: > {begun}; sleep 0.2; {subject} calls; :) & while [ ! -e {begun} ]; do :; done"
    recording, _ = recorded(tmp_path, "sh", "-c", script, follow=True)
    (child,) = (one for one in recording.processes if one.argv == (subject, "calls"))
    assert len(after_marker(load(child.path))) == 20
    assert recording.background == ()


def test_what_goes_on_in_the_background_is_said_to_be_cut(tmp_path: Path, subject: str):
    output, busy = tmp_path / "a.trace", tmp_path / "busy"
    script = f"ulimit -t 20; {subject} forever > {busy} 2>&1 & while [ ! -s {busy} ]; do :; done"
    words = command_line("record", "--follow", "-o", str(output), "sh", "-c", script)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    (pid,) = re.findall(r"it went on in the background \(process (\d+)\)", done.stderr)
    os.kill(int(pid), signal.SIGKILL)
    assert done.returncode == ProgramError.exit_code


def cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def removed_bytes(pid: int) -> int:
    """Return the size of the spool that a process has open though its folder is gone."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return sum(file.stat().st_size for file in files if "/out.trace.spool/" in str(file.readlink()))


def left_behind(begun: Path, *command: str) -> list[str]:
    """Return a program that starts this one, and ends when that has made the file."""
    started = f"{shlex.join(command)} > {begun} 2>&1"
    return ["sh", "-c", f"ulimit -t 20; {started} & while [ ! -s {begun} ]; do :; done"]


def check_not_recorded(pid: int) -> None:
    """Check that nothing more is written for a process that is busy in malloc, and end it."""
    try:
        used, size = cpu_ticks(pid), removed_bytes(pid)
        wait_until(lambda: cpu_ticks(pid) >= used + 20)
        assert size > 0
        assert removed_bytes(pid) == size
    finally:
        os.kill(pid, signal.SIGKILL)


def is_cut(process: RecordedProcess) -> bool:
    with Trace(process.path) as trace:
        return trace.metadata["is_cut"] is True


def test_what_goes_on_in_the_background_is_cut_and_recorded_no_more(tmp_path: Path, subject: str):
    command = left_behind(tmp_path / "busy", subject, "forever")
    recording = record(command, tmp_path / "out.trace", follow=True)
    (pid,) = recording.background
    check_not_recorded(pid)
    assert [is_cut(process) for process in recording.processes] == [False, True]


def test_what_waits_in_the_background_is_cut_too(tmp_path: Path):
    command = left_behind(tmp_path / "begun", "sh", "-c", "echo; exec sleep 60")
    recording = record(command, tmp_path / "out.trace", follow=True)
    (pid,) = recording.background
    os.kill(pid, signal.SIGKILL)
    assert [is_cut(process) for process in recording.processes] == [False, True]


def test_what_goes_on_when_a_silent_recording_fails_is_recorded_no_more(
    tmp_path: Path, subject: str, monkeypatch: pytest.MonkeyPatch
):
    pids: list[int] = []

    def fails(spool: Path) -> tuple[int, ...]:
        pids.extend(writers(spool))
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner.recording, "lasting_writers", fails)
    command = left_behind(tmp_path / "busy", subject, "forever")
    with pytest.raises(KeyboardInterrupt):
        record(command, tmp_path / "out.trace", follow=True, is_silent=True)
    (pid,) = pids
    check_not_recorded(pid)


def test_what_goes_on_after_the_recording_has_ended_is_no_error(tmp_path: Path, subject: str):
    command = left_behind(tmp_path / "busy", subject, "forever")
    plan = WindowPlan(at_most_bytes=1 << 20)
    recording = record(command, tmp_path / "out.trace", follow=True, window=plan)
    (left,) = (one for one in recording.processes if one.argv[-1] == "forever")
    os.kill(left.pid, signal.SIGKILL)
    assert left.is_cut
    assert recording.background == ()


def test_an_exec_before_our_constructor_works(tmp_path: Path, subject: str):
    recording, events = recorded(tmp_path, subject, "early")
    assert recording.processes[-1].argv == (subject, "plain")
    assert len(after_marker(events)) == 0


def test_programs_started_by_the_program_run_without_us(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    done = run_record(output, subject, "exec", env=os.environ | {"LD_PRELOAD": ""})
    assert done.returncode == 0
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "PATH" in names
    assert not names & {"MALLOC_TUNER_RECORD", "LD_PRELOAD"}


def test_recording_goes_on_when_a_script_becomes_the_program(tmp_path: Path, subject: str):
    script = tmp_path / "run.sh"
    script.write_text(f'#!/bin/sh\ntrue\nexec "{subject}" calls\n')
    recording, events = recorded(tmp_path, "sh", str(script))
    (process,) = recording.processes
    assert process.argv == (subject, "calls")
    assert process.replaced == ("sh",)
    assert len(after_marker(events)) == 20


def life_of(path: Path) -> tuple[float, float, float]:
    """Return first event, last event and end of a trace of which both ends are known, in s."""
    with Trace(path) as trace:
        events = trace.read_all()
        assert trace.totals.start_ns == 0
        assert trace.totals.end_ns is not None
        return (
            int(events["time_ns"][0]) / 1e9, trace.totals.duration_ns / 1e9,
            trace.totals.end_ns / 1e9,
        )  # fmt: skip


@pytest.mark.parametrize(
    "end", ["return 0;", "_exit(0);", "raise(SIGTERM);", "raise(SIGKILL);", "quick_exit(0);"]
)
def test_start_and_end_of_the_process_are_recorded(tmp_path: Path, end: str):
    source = (
        "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "int main(void) { usleep(150000); void *volatile b = malloc(99); free(b); usleep(250000); "
        f"{end} }}"
    )
    _, events = recorded(tmp_path, str(compile_(tmp_path, source, "-fno-builtin")))
    first, last, end_s = life_of(tmp_path / "out.trace")
    assert 99 in events["size"]
    assert last >= 0.15, "the time before the program's allocation"
    assert end_s >= last + 0.25
    assert first <= last


def test_loading_a_program_is_part_of_its_life(tmp_path: Path):
    start = "__attribute__((constructor)) static void start(void) { usleep(200000); }"
    slow = library(tmp_path, f"#include <unistd.h>\n{start}", "slow")
    source = "#include <stdlib.h>\nint main(void) { void *volatile b = malloc(99); free(b); }"
    program = compile_(tmp_path, source, "-fno-builtin", "-Wl,--no-as-needed", str(slow))
    recorded(tmp_path, str(program))
    assert life_of(tmp_path / "out.trace")[0] >= 0.2


def test_the_life_of_a_program_begins_with_its_exec(tmp_path: Path, subject: str):
    script = tmp_path / "run.sh"
    script.write_text(f'#!/bin/sh\nsleep 1\nexec "{subject}" calls\n')
    recording, _ = recorded(tmp_path, "sh", str(script))
    assert life_of(tmp_path / "out.trace")[2] < recording.ending.wall_s - 0.95


def test_the_life_of_a_forked_child_begins_with_its_fork(tmp_path: Path, subject: str):
    recording, _ = recorded(tmp_path, subject, "fork", follow=True)
    parent, child = (life_of(process.path) for process in recording.processes)
    assert 0 < child[1] <= child[2] < parent[2]


def record_busy_program(output: Path, subject: str) -> tuple[subprocess.Popen[str], int]:
    """Start recording a program that never ends; return the command and the program's pid."""
    recorder = subprocess.Popen(
        command_line("record", "-o", str(output), "--", subject, "forever"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "busy\n"
    recorder.stdout.close()
    (child,) = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
    return recorder, int(child)


def test_a_killed_program_leaves_its_whole_trace(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    recorder, child = record_busy_program(output, subject)
    os.kill(child, signal.SIGKILL)
    assert recorder.wait() == 0
    events = after_marker(load(output))
    assert len(events) > 200_000, "not even the last buffer is lost"
    assert set(events["op"].tolist()) == {Op.MALLOC, Op.FREE}


def test_a_crashing_program_is_reported_and_its_trace_kept(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    done = run_record(output, subject, "crash")
    assert done.returncode == ProgramError.exit_code
    assert "was ended by SIGSEGV; its trace is good up to the crash" in done.stderr
    assert 77777 in load(output)["size"]


def test_a_failing_program_is_reported_and_its_trace_good(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    done = run_record(output, subject, "fail", preexec_fn=ignore)
    assert done.returncode == 0
    assert "exited with status 3; its trace is complete" in done.stderr
    assert done.stderr.endswith(f"next: malloc-tuner tune {output}\n")
    with Trace(output) as trace:
        assert trace.metadata["exit_status"] == 3
        assert trace.metadata["argv"] == [subject, "fail"]
        assert "libc" in trace.metadata["allocator"]


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_a_script_that_only_starts_the_program_gets_the_hint_to_follow(
    tmp_path: Path, options: list[str]
):
    words = ["record", *options, "-o", str(tmp_path / "a.trace"), "--", "sh", "-c", "true; true"]
    done = subprocess.run(command_line(*words), capture_output=True, text=True, check=True)
    assert ("sh may start the program that does the work" in done.stderr) == (not options)


def few_strides() -> None:
    """Let no spool of this process be longer than 40 strides."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 * 65536, 40 * 65536))


def test_a_full_disk_stops_the_recording_not_the_program(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    done = run_record(output, subject, "many", preexec_fn=few_strides)
    assert done.returncode == OutputError.exit_code
    assert done.stdout == "busy\n", "the program went on"
    assert done.stderr.count("the program goes on: cannot write the spool in") == 1
    assert "recording stopped early: File too large" in done.stderr
    events = after_marker(load(output))
    assert 100_000 < len(events) < 1_000_000


@pytest.mark.parametrize("stderr", ["os.open('log', os.O_CREAT | os.O_WRONLY)", "os.pipe()[1]"])
def test_a_notice_that_cannot_be_written_does_not_end_the_program(
    tmp_path: Path, subject: str, monkeypatch: pytest.MonkeyPatch, stderr: str
):
    monkeypatch.chdir(tmp_path)
    script = (
        f"import os, resource, signal\nos.dup2({stderr}, 2)\nos.closerange(3, 256)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        f"os.execv({subject!r}, [{subject!r}, 'plain'])"
    )
    ending = record([sys.executable, "-c", script], tmp_path / "a.trace").ending
    assert (ending.exit_status, ending.signal_name) == (0, None)


def test_a_silent_recording_that_stopped_early_leaves_no_trace(tmp_path: Path, subject: str):
    for limit, message in (4000, "File too large; make room, then"), (150, "recorded: File too"):
        words = ["sh", "-c", f"ulimit -f {limit}; exec {subject} many"]
        with pytest.raises(OutputError, match=message):
            record(words, tmp_path / "a.trace", is_silent=True)
    assert not list(tmp_path.iterdir())


def test_a_full_tmpfs_keeps_what_was_recorded_for_recover(tmp_path: Path, subject: str):
    lost, kept = tmp_path / "a.trace", tmp_path.parent / f"{tmp_path.name}.trace"
    in_space = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=360k none {tmp_path}"
    if subprocess.run([*in_space, mount], check=False, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    recording = shlex.join(command_line("record", "-o", str(lost), "--", subject, "late"))
    recovery = shlex.join(command_line("trace", "recover", f"{lost}.spool", "-o", str(kept)))
    script = f"{mount} && {recording}; echo $?; {recovery}; echo $?"
    done = subprocess.run([*in_space, script], capture_output=True, text=True, check=True)
    assert (
        f"{lost}: cannot write: No space left on device; what was recorded is kept" in done.stderr
    )
    assert done.stdout == f"{OutputError.exit_code}\n" * 2
    assert "INCOMPLETE: recording stopped early" in done.stderr
    assert 20_000 < len(load(kept)) < 40_000


def test_a_signal_while_the_spool_grows_loses_nothing(tmp_path: Path, subject: str):
    source = (
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <errno.h>\n"
        "int posix_fallocate(int fd, long at, long n) {"
        "static int calls; int (*real)(int, long, long) = dlsym(RTLD_NEXT, __func__);"
        "return calls++ % 2 == 0 ? EINTR : real(fd, at, n); }"
    )
    preload = {**os.environ, "LD_PRELOAD": str(library(tmp_path, source, "interrupts"))}
    done = run_record(tmp_path / "a.trace", subject, "threads", env=preload)
    assert "stopped" not in done.stderr
    assert done.returncode == 0


def test_a_program_with_a_malloc_of_its_own_keeps_it_for_new(tmp_path: Path):
    source = (
        "#include <cstdio>\nalignas(16) static char pool[1 << 20]; static std::size_t used;"
        'extern "C" void *malloc(std::size_t n) {'
        "void *block = pool + used; used += (n + 15) & ~15ul; return block; }"
        'extern "C" void free(void *) {}'
        "int main() { char *p = new char;"
        'std::puts(p >= pool && p < pool + sizeof pool ? "own" : "foreign"); }'
    )
    program = str(compile_(tmp_path, source, "-fno-builtin"))
    done = run_record(tmp_path / "a.trace", program)
    assert done.stdout == "own\n"
    assert "it needs none, brings its own malloc" in done.stderr


OWN_MALLOC = (
    "#include <dlfcn.h>\n#include <cstdlib>\n"
    'extern "C" void *malloc(std::size_t n) {'
    'static auto next = (void *(*)(std::size_t)) dlsym(RTLD_NEXT, "malloc"); return next(n); }'
    f"int main() {{ delete[] new char[{MARKER}]; }}"
)
"""It leads to the C library's."""
TAKES_ADDRESS = (
    "#include <stdlib.h>\nvoid *(*volatile take)(size_t) = malloc;"
    f"int main(void) {{ free(take({MARKER})); return 0; }}"
)

CALLS_JEMALLOC = (
    "#include <stdlib.h>\nvoid *mallocx(size_t n, int flags);"
    f"int main(void) {{ free(mallocx({MARKER}, 1 << 20)); return 0; }}"
)
"""Of an arena of its own."""


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (OWN_MALLOC, ["-fno-builtin"]),
        (TAKES_ADDRESS, ["-fno-pie", "-no-pie"]),
        (CALLS_JEMALLOC, ["-l:libjemalloc.so.2"]),
    ],
    ids=["a malloc of its own", "the address of malloc", "a function of jemalloc's"],
)
def test_malloc_in_other_ways_is_recorded(tmp_path: Path, source: str, flags: list[str]):
    _, events = recorded(tmp_path, str(compile_(tmp_path, source, *flags)))
    assert list(events["size"]).count(MARKER) == 1


def test_the_end_of_a_recording_is_not_written_into_a_file_of_the_program(
    tmp_path: Path, subject: str
):
    own = tmp_path / "own"
    words = (subject, "own-stderr", str(own))
    done = run_record(tmp_path / "a.trace", *words, preexec_fn=few_strides)
    assert "recording stopped early: File too large" in done.stderr
    assert own.read_text() == ""


def test_a_recording_whose_command_was_killed_is_recovered(tmp_path: Path, subject: str):
    output = tmp_path / "a.trace"
    recorder, child = record_busy_program(output, subject)
    recorder.kill()
    recorder.wait()
    os.kill(child, signal.SIGKILL)
    maps = Path(f"/proc/{child}/maps")
    wait_until(lambda: not maps.exists() or not maps.read_text())
    with pytest.raises(OutputError, match=r"trace recover .*a\.trace\.spool"):
        record([subject], output)
    (process,) = recover(tmp_path / "a.trace.spool", output)
    assert process.totals.n_events > 200_000
    assert not (tmp_path / "a.trace.spool").exists()


def test_a_child_of_a_static_program_is_not_taken_for_it(tmp_path: Path):
    starts = 'execlp("ls", "ls", "/none", (char *)0)'
    code = "#include <sys/wait.h>\n#include <unistd.h>\n"
    code += f"int main(void) {{ if (fork() == 0) {starts}; wait(0); return 7; }}"
    program = compile_(tmp_path, code, "-static")

    found = record([str(program)], tmp_path / "a.trace", follow=True)

    assert found.ending.exit_status == 7
    with Trace(tmp_path / "a.trace") as trace:
        assert trace.argv[0] == "ls"
        keys = ("command", "exit_status", "cpu_s")
        assert [trace.metadata[key] for key in keys] == [None, None, None]


def test_a_static_program_is_explained(tmp_path: Path):
    program = compile_(tmp_path, SINGLE, "-static")
    with pytest.raises(ProgramError, match="nothing was recorded: it is statically linked"):
        record([str(program)], tmp_path / "a.trace")
    assert not list(tmp_path.glob("a.trace*"))


def test_a_missing_program_is_named(tmp_path: Path):
    with pytest.raises(MissingToolError, match="no-such-program: cannot be started: No such file"):
        record(["no-such-program"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place_is_an_error_before_the_program_runs(tmp_path: Path, subject: str):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"/file: cannot be made a folder \(.*file is a file\)"):
        record([subject], tmp_path / "file" / "a.trace")


def test_output_of_a_program_is_unchanged(tmp_path: Path):
    command = ["sort", "--parallel=2", __file__]
    bare = subprocess.run(command, capture_output=True, check=True)
    under = subprocess.run(
        command_line("record", "-o", str(tmp_path / "a.trace"), "--", *command),
        capture_output=True,
        check=True,
    )
    assert under.stdout == bare.stdout


def valgrind_calls(*command: str) -> Counter[tuple[str, int]]:
    """Return what valgrind saw: calls by name and size; a free has size 0."""
    flags = ["--tool=dhat", "--dhat-out-file=/dev/null", "--trace-malloc=yes"]
    done = subprocess.run(
        ["valgrind", *flags, "--run-libc-freeres=no", "--run-cxx-freeres=no", *command],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    return Counter(event for event in map(valgrind_event, done.stderr.splitlines()) if event)


def test_no_event_is_lost_compared_with_valgrind(tmp_path: Path):
    environment_free = ["env", "-i", "LC_ALL=C", "sort", __file__]
    record(environment_free[3:], tmp_path / "a.trace")
    events = load(tmp_path / "a.trace")
    ours = Counter(
        (Op(op).name.lower(), int(size))
        for op, size in zip(events["op"], events["size"], strict=True)
        if op < Op.THREAD_START
    )
    seen = valgrind_calls(*environment_free[3:])
    assert sum(seen.values()) > 20  # sort makes 42 calls where no locale is installed
    assert ours == seen


def touched_pages(events: Events, size: int) -> list[int | None]:
    """Return the pages touched of each block of that size, its ragged ends left out."""
    touches = events["touch"][events["size"] == size].tolist()
    return [None if touch == 0 else size // 4096 - (touch - 1) for touch in touches]


def test_touched_pages_are_counted(tmp_path: Path, subject: str):
    _, events = recorded(tmp_path, subject, "touch")
    expected = {
        1000000: [244], 1000001: [0], 1000002: [100], 50000: [8, 4, 0], 1 << 20: [1],
        200000: [30], 200001: [0], 40 << 20: [31], 300000: [60], 400000: [5], 500000: [10],
        600000: [20], 700000: [0],
    }  # fmt: skip
    for size, pages in expected.items():
        found = touched_pages(events, size)
        assert None not in found, size
        assert found == pytest.approx(pages, abs=2), size
    assert set(events["touch"][events["size"] < 32768].tolist()) == {0}


def test_what_was_not_measured_is_not_known(tmp_path: Path, subject: str):
    _, events = recorded(tmp_path, subject, "tight")
    found = touched_pages(events, 100000)
    assert len(found) == 20000
    assert {None} < set(found) <= {None, 23, 24}
    record([subject, "crash"], tmp_path / "crash.trace")
    assert touched_pages(load(tmp_path / "crash.trace"), 88888) == [None]
    assert touched_pages(load(tmp_path / "crash.trace"), 77777) == [0]
