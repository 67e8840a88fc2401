"""A service under the recorder, from its start to its stop."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import service as service_double
from tuner.errors import OutputError, ProgramError
from tuner.recording import RecordedProcess
from tuner.recording.build import RecordedPart, build_traces
from tuner.service.guard import Guard
from tuner.service.lifecycle import RunUnderWay
from tuner.service.plan import ServicePlan
from tuner.service.recording import record_service
from tuner.trace.file import Trace

IDLE_S = 0.5
PLAN = ServicePlan(
    (sys.executable, str(Path(service_double.__file__)), "{port}", "tree"),
    "line:ready",
    "echo 10 requests",
    warm_ups=3,
    idle_s=IDLE_S,
    read=r"(?P<requests>\d+) requests",
    ready_s=60.0,
    stop_s=60.0,
)
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def test_all_processes_are_recorded_and_the_idle_phase_is_part_of_their_life(tmp_path: Path):
    """So what an allocator keeps while nothing is asked of it counts in emulation."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "old.trace").touch()

    found = record_service(PLAN, ENVIRONMENT, folder)

    assert {one.path for one in found} == set(folder.iterdir())
    with Trace(max(found, key=lambda one: one.totals.n_events).path) as trace:
        assert trace.totals.end_ns is not None
        assert trace.totals.end_ns - (trace.totals.start_ns or 0) > IDLE_S * 1e9


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(OutputError, match="file/traces: cannot be created"):
        record_service(PLAN, ENVIRONMENT, tmp_path / "file" / "traces")


def test_what_a_service_frees_when_it_stops_is_in_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its memory at the end of the trace is that of the idle service."""
    windows: list[RecordedPart] = []
    moments_ns: list[int] = []

    def rest(run: RunUnderWay, service: Guard, log: Path, idle_s: float) -> None:
        real_rest(run, service, log, idle_s)
        moments_ns.append(time.monotonic_ns())

    def stop(run: RunUnderWay, service: Guard, log: Path) -> None:
        moments_ns.append(time.monotonic_ns())
        real_stop(run, service, log)

    def build(*arguments: Any, **options: Any) -> tuple[RecordedProcess, ...]:
        windows.append(arguments[-1])
        return build_traces(*arguments, **options)

    # The moments are no part of the interface.
    real_rest, real_stop = RunUnderWay._rest, RunUnderWay._stop  # noqa: SLF001
    monkeypatch.setattr(RunUnderWay, "_rest", rest)
    monkeypatch.setattr(RunUnderWay, "_stop", stop)
    monkeypatch.setattr("tuner.service.recording.build_traces", build)

    record_service(PLAN, ENVIRONMENT, tmp_path / "traces")

    assert windows[0].from_ns is None
    assert windows[0].until_ns is not None
    rested_ns, stopped_ns = moments_ns
    assert rested_ns < windows[0].until_ns < stopped_ns


def test_a_service_that_fails_under_the_recorder_is_an_error(tmp_path: Path):
    with pytest.raises(ProgramError, match="under the recorder: the load ended with exit status 4"):
        record_service(replace(PLAN, load="exit 4"), ENVIRONMENT, tmp_path / "traces")


def test_all_commands_have_the_environment_without_settings_of_allocators(tmp_path: Path):
    said = tmp_path / "said"
    server = " ".join(PLAN.command)
    code = "import socket; socket.create_connection(('127.0.0.1', {port}))"
    connect = f'{sys.executable} -c "{code}"'

    def say(what: str) -> str:
        return f"echo {what} $WORD ${{MALLOC_ARENA_MAX-}} >> {said}"

    plan = replace(
        PLAN,
        command=("sh", "-c", f"{say('service')}; echo $$ > {{state}}/pid; exec {server}"),
        setup=say("setup"),
        ready=f"command:{connect} && {say('ready')}",
        load=f"{say('load')}; echo 10 requests",
        stop=f"{say('stop')}; kill $(cat {{state}}/pid)",
        teardown=say("teardown"),
    )

    record_service(plan, {**ENVIRONMENT, "WORD": "given", "MALLOC_ARENA_MAX": "1"}, tmp_path / "t")

    phases = ("setup", "service", "ready", "load", "stop", "teardown")
    assert said.read_text().splitlines() == [f"{phase} given" for phase in phases]
