"""One run of a service: what it yields, how it fails, and that nothing is left."""

import multiprocessing
import os
import pwd
import re
import shutil
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import service as service_double
from tests.doubles.processes import is_soon_gone
from tests.doubles.waiting import wait_until
from tuner.errors import MissingToolError, ProgramError, SpecError
from tuner.records import Status
from tuner.resources import native_file
from tuner.service.guard import Guard, ShellRun, Use, run_shell
from tuner.service.lifecycle import ServiceRun, run_service
from tuner.service.plan import ServicePlan, free_ports
from tuner.service.readiness import is_open

SCRIPT = str(Path(service_double.__file__))
MIB = 1 << 20
LOAD = (
    f'{sys.executable} -c "import socket; '
    "c = socket.create_connection(('127.0.0.1', {port})); c.send(b'x'); "
    "assert c.recv(1) == b'!'; print('10 requests')\""
)
PLAN = ServicePlan(
    (sys.executable, SCRIPT, "{port}"),
    "tcp:{port}",
    LOAD,
    warm_ups=0,
    idle_s=0.2,
    read=r"(?P<requests>\d+) requests",
    ready_s=60.0,
    stop_s=60.0,
)
ENVIRONMENT = {"PATH": os.environ["PATH"]}

_FORK_SERVER = multiprocessing.get_context("forkserver")


def plan_with(*words: str) -> ServicePlan:
    return replace(PLAN, command=(*PLAN.command, *words))


def good_run(plan: ServicePlan) -> ServiceRun:
    run = run_service(plan, ENVIRONMENT)
    assert run.good is not None, run.reason
    return run.good


def test_a_run_yields_memory_cpu_and_requests():
    # Ready once it has forked; the port is open before that.
    plan = replace(plan_with("tree", "grow=32"), ready="line:ready")

    run = good_run(plan)

    assert run.values["peak"] > 32 * MIB
    assert run.values["floor"] > 32 * MIB
    assert run.values["cpu"] > 0
    assert run.values["rate"] > 0
    assert run.requests == 10
    assert len(run.titles) == 3
    assert run.n_threads == 1


def test_processes_whose_shares_are_hidden_are_counted(monkeypatch: pytest.MonkeyPatch):
    def sample(service: Guard) -> Use:
        return replace(service.sample(), unshared_processes=2)

    monkeypatch.setattr("tuner.service.lifecycle._sample", sample)

    assert good_run(PLAN).n_unshared == 2


def test_threads_of_the_largest_process_are_seen():
    assert good_run(replace(plan_with("threads=3"), ready="line:ready")).n_threads == 4


def test_memory_that_a_fork_shares_counts_once():
    alone = good_run(plan_with()).values["floor"]
    tree = good_run(plan_with("tree")).values["floor"]

    assert tree < 2 * alone


def test_warm_ups_are_not_counted():
    once = good_run(replace(plan_with("grow=16"), warm_ups=2))

    assert once.requests == 10
    assert once.values["floor"] > 48 * MIB


@pytest.mark.parametrize(
    ("plan", "status", "words"),
    [
        (plan_with("crash"), Status.FAILED, r"exit status 3 before it was ready(?s:.*)no reason"),
        (replace(plan_with("deaf"), stop_s=0.2), Status.TIMED_OUT, "still running"),
        (replace(PLAN, load="exit 4"), Status.FAILED, "load ended with exit status 4, and printed"),
        (
            replace(PLAN, load="echo no; sleep 60", load_s=0.5),
            Status.TIMED_OUT,
            "--timeout.*\n.*no$",
        ),
        (
            replace(PLAN, ready="line:never", ready_s=0.3),
            Status.TIMED_OUT,
            "0.3 s, see --timeout\n",
        ),
        (
            replace(PLAN, ready="line:never").within(0.3),
            Status.TIMED_OUT,
            "0.3 s, see --timeout and --time\n",
        ),
        (replace(PLAN, ready="tcp:1", ready_s=0.3), Status.TIMED_OUT, "the command has {port}"),
        (
            replace(PLAN, stop="echo no server; exit 3"),
            Status.FAILED,
            "^--stop echo no server; exit 3: ended with exit status 3: no server$",
        ),
        (
            replace(PLAN, load="exit 4", teardown="exit 6"),
            Status.FAILED,
            "load ended with exit status 4",
        ),
        (
            replace(PLAN, load="echo 9 5", read=r"(?P<requests>\d+) (?P<failed>\d+)"),
            Status.FAILED,
            "5 requests failed: 9 5$",
        ),
        (
            replace(PLAN, load="echo bad -n; seq 9; exit 1"),
            Status.FAILED,
            r"status 1: bad -n / \.\.\. / (\d / )*9$",
        ),
        (replace(PLAN, load="echo 0 requests"), Status.FAILED, "made no requests: 0 requests$"),
        (
            replace(PLAN, load="echo no; kill -9 $$"),
            Status.FAILED,
            "^the load was killed by SIGKILL: no$",
        ),
    ],
)
def test_a_service_that_fails_says_why(plan: ServicePlan, status: Status, words: str):
    run = run_service(plan, ENVIRONMENT)

    assert run.status is status
    assert re.search(words, run.reason or "")
    assert run.good is None


def test_a_stop_command_that_does_not_end_fails_the_run(monkeypatch: pytest.MonkeyPatch):
    def run(command: str, *arguments: Any, **options: Any) -> ShellRun:
        if command == "stop it":
            return ShellRun(None, "waiting\n")
        return run_shell(command, *arguments, **options)

    monkeypatch.setattr("tuner.service.lifecycle.run_shell", run)

    done = run_service(replace(PLAN, stop="stop it"), ENVIRONMENT)

    assert (done.status, done.reason) == (Status.TIMED_OUT, "--stop stop it: timed out: waiting")


def test_a_service_that_crashes_after_its_load_failed_is_what_failed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("tuner.service.lifecycle._DYING_S", 60.0)  # it is dead long before

    run = run_service(plan_with("crash-late"), ENVIRONMENT)

    assert run.status is Status.FAILED
    assert "SIGSEGV under load" in (run.reason or "")


def test_a_service_may_become_a_daemon():
    mark = f"MARK={uuid.uuid4()}"
    name, _, value = mark.partition("=")

    run = run_service(plan_with("daemon"), {**ENVIRONMENT, name: value})

    assert run.status is Status.OK, run.reason
    assert is_soon_gone(mark)


def test_a_port_that_is_taken_is_no_readiness():
    import socket

    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ProgramError, match="listens"):
        run_service(replace(PLAN, ready=f"tcp:127.0.0.1:{port}"), ENVIRONMENT)


def test_setup_fills_the_folder_of_each_run_and_teardown_sees_it(tmp_path: Path):
    kept = tmp_path / "kept"
    plan = replace(
        PLAN,
        setup='test -z "$(ls {state})" && echo fresh > {state}/file',
        teardown=f"cat {{state}}/file >> {kept}",
    )

    for _ in range(2):
        run_service(plan, ENVIRONMENT)

    assert kept.read_text() == "fresh\nfresh\n"


@pytest.mark.parametrize("words", [("env", "-i"), ("sh", "-c", 'env -i "$@"; true', "sh")])
def test_a_setting_that_does_not_arrive_is_refused(words: tuple[str, ...]):
    """As under sudo and some supervisors: it measured the service as it is, for the setting."""
    plan = replace(PLAN, command=(*words, *PLAN.command))
    run = run_service(plan, {**ENVIRONMENT, "GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})

    assert run.status is Status.REFUSED
    assert "GLIBC_TUNABLES did not arrive in the service" in (run.reason or "")


def test_a_setting_that_arrives_through_a_shell_is_measured():
    plan = replace(PLAN, command=("sh", "-c", '"$@"; true', "sh", *PLAN.command))
    run = run_service(plan, {**ENVIRONMENT, "GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})

    assert run.good is not None, run.reason


def test_a_library_that_is_no_allocator_may_be_preloaded_by_its_name():
    assert run_service(PLAN, {**ENVIRONMENT, "LD_PRELOAD": "libutil.so.1"}).good is not None


def test_what_the_service_does_with_its_own_variables_is_its_affair(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    plan = replace(PLAN, command=("env", "-i", *PLAN.command))
    run = run_service(plan, {**ENVIRONMENT, "MALLOC_ARENA_MAX": "4"})

    assert run.good is not None, run.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"setup": "echo no; exit 5"}, "--setup echo no; exit 5: ended with exit status 5: no"),
        ({"setup": "exit 5"}, "--setup exit 5: ended with exit status 5, and printed nothing"),
        ({"setup": "kill $$"}, "--setup kill $$: was killed by SIGTERM, and printed nothing"),
        ({"teardown": "echo a; exit 6"}, "--teardown echo a; exit 6: ended with exit status 6: a"),
        ({"setup": "exit 5", "teardown": "exit 6"}, "--setup exit 5: ended with exit status 5, "),
    ],
)
def test_a_setup_or_teardown_that_fails_is_an_error(change: dict[str, Any], words: str):
    with pytest.raises(ProgramError, match=f"^{re.escape(words)}"):
        run_service(replace(PLAN, **change), ENVIRONMENT)


def test_an_interrupt_stays_one_where_teardown_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("tuner.service.lifecycle.is_open", interrupt)
    torn = tmp_path / "torn"

    with pytest.raises(KeyboardInterrupt):
        run_service(replace(PLAN, teardown=f"touch {torn}; exit 6"), ENVIRONMENT)

    assert torn.exists()


def test_a_missing_service_and_a_missing_user_are_errors():
    with pytest.raises(MissingToolError, match="nonexistent"):
        run_service(replace(PLAN, command=("/nonexistent/server",)), ENVIRONMENT)
    with pytest.raises(SpecError, match="no such user"):
        run_service(replace(PLAN, user="nobody-of-this-name"), ENVIRONMENT)


def test_another_user_is_for_root_only(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(shutil, "chown", refuse)

    with pytest.raises(SpecError, match="--user nobody: only root can start a service as another"):
        run_service(replace(PLAN, user="nobody"), ENVIRONMENT)


def test_who_is_named_without_being_root_starts_it_as_before(monkeypatch: pytest.MonkeyPatch):
    """Only root can take on the groups of a user, its own too."""
    nobody, runs_it = pwd.getpwnam("nobody").pw_uid, os.getuid()
    monkeypatch.setattr("tuner.service.lifecycle.os.geteuid", lambda: nobody)

    good_run(replace(PLAN, user="nobody", setup=f"test $(id -u) = {runs_it}"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_service_can_run_as_another_user():
    script = "echo ready; exec sleep 60"
    plan = replace(PLAN, command=("sh", "-c", script), ready="line:ready")
    plan = replace(plan, load="echo $(stat -c %U {state}/made) requests 10", user="nobody")
    plan = replace(plan, setup="touch {state}/made", read=r"nobody requests (?P<requests>\d+)")

    assert good_run(plan).requests == 10


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_library_that_the_user_may_not_read_is_named(tmp_path: Path):
    """As where the checkout is in root's home."""
    library = str(shutil.copy(native_file("libexgen.so"), tmp_path))
    plan = replace(PLAN, command=("sh", "-c", "echo ready; exec sleep 60"), ready="line:ready")
    run = run_service(replace(plan, user="nobody"), {**ENVIRONMENT, "LD_PRELOAD": library})

    assert run.status is Status.REFUSED
    assert f"was not loaded: nobody may not read {library}; let nobody" in (run.reason or "")


def be_killed(port: int, mark: str, folder: str, begun: Connection) -> None:
    """Make a run with every phase, in a process of its own that a test kills."""
    os.environ["MARK"] = mark
    tempfile.tempdir = folder
    plan = replace(
        plan_with("tree"),
        command=(sys.executable, SCRIPT, str(port), "tree"),
        ready=f"tcp:{port}",
        load="sleep 0.15; echo 1 requests",
        warm_ups=1,
        setup="sleep 0.05",
        teardown="sleep 0.05",
    )
    begun.send(True)
    run_service(plan, dict(os.environ))


def killed_after(delay_s: float, port: int, folder: Path) -> bool:
    """Return whether all its processes are gone, once nobody listens."""
    mark = str(uuid.uuid4())
    begun, begins = _FORK_SERVER.Pipe(duplex=False)
    tool = _FORK_SERVER.Process(target=be_killed, args=(port, mark, str(folder), begins))
    with begun, begins:
        tool.start()
        begun.recv()
        time.sleep(delay_s)
        tool.kill()
        tool.join()
    is_gone = is_soon_gone(f"MARK={mark}")
    wait_until(lambda: not is_open("127.0.0.1", port))  # closed after the memory, which is gone
    return is_gone


def test_nothing_is_left_after_a_kill_at_twenty_moments(tmp_path: Path):
    """Killed with SIGKILL from the start of a run to its end: no process, nobody listens."""
    ports = free_ports(20)

    def outcome(number: int) -> bool:
        return killed_after(number * 0.05, ports[number], tmp_path)

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(outcome, range(20)))

    assert outcomes == [True] * 20
