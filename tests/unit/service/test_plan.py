"""The plan of a service: what is refused, ports and folders in place of their names."""

import json
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import SpecError
from tuner.service.plan import ServicePlan, free_ports, stop_signal

PLAN = ServicePlan(("server", "--port", "{port}"), "tcp:{port}", "load {port} {port2}")


def test_ports_and_folder_take_the_place_of_their_names():
    plan = replace(PLAN, setup="fill {state}", stop="stop {port2}").placed("/s")
    port = plan.command[2]

    assert plan.ready == f"tcp:{port}"
    assert plan.load.split()[1] == port
    assert plan.load.split()[2] != port
    assert plan.setup == "fill /s"
    assert plan.stop == f"stop {plan.load.split()[2]}"
    assert plan.teardown is None


def test_no_more_time_to_get_ready_is_given_than_there_is():
    assert PLAN.within(PLAN.ready_s) is PLAN
    assert PLAN.within(7.0).ready_s == 7.0
    assert PLAN.within(7.0).ready_options == "--timeout and --time"


def test_free_ports_differ_and_can_be_bound():
    ports = free_ports(5)

    assert len(set(ports)) == 5
    assert max(ports) < 32768, "no client gets one"
    with socket.socket() as one:
        one.bind(("127.0.0.1", ports[0]))


def test_where_clients_have_all_ports_one_of_theirs_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "range").write_text("1024\t60999\n")
    monkeypatch.setattr("tuner.service.plan._CLIENTS_PORTS", tmp_path / "range")

    assert all(port > 1024 for port in free_ports(2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ready": "udp:1"}, "udp:1"),
        ({"ready": "tcp:http"}, "tcp:http"),
        ({"ready": "line:"}, "not understood"),
        ({"ready": "http://localhost:abc/"}, "not understood"),
        ({"ready": "http:///path"}, "not understood"),
        ({"stop": "SIGNONE"}, "no such signal"),
        ({"read": "wkr"}, "wkr"),
        ({"load": " "}, "--load"),
        ({"command": ()}, "command"),
        ({"load": "load {PORT}"}, r"\{PORT\}: free ports are \{port\}, \{port2\}, ..., the folder"),
        ({"setup": "fill {state2}"}, r"\{state2\}: free ports"),
        ({"ready": "command:try {port_2}"}, r"\{port_2\}: free ports"),
        ({"idle_s": -1.0}, "0 or more"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(change: dict[str, Any], words: str):
    with pytest.raises(SpecError, match=words):
        replace(PLAN, **change).checked()


@pytest.mark.parametrize(
    "ready", ["tcp:{port}", "tcp:127.0.0.1:80", "http://x/", "line:up", "command:true"]
)
def test_every_kind_of_readiness_is_accepted(ready: str):
    assert replace(PLAN, ready=ready).checked().ready == ready


def test_braces_of_shells_and_scripts_stay():
    load = "awk '{print}'; python3 -c 'print(f\"{n}\")'; echo ${PORT} %{http_code} ${port} ${state}"
    plan = replace(PLAN, load=load).checked()

    assert plan.placed("/s").load == plan.load == load


def test_a_plan_survives_its_file():
    assert ServicePlan.from_record(json.loads(json.dumps(asdict(PLAN)))) == PLAN


def test_a_stop_is_a_signal_or_a_command():
    assert stop_signal("SIGQUIT") == 3
    assert stop_signal("nginx -s stop") is None
