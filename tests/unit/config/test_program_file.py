"""Files for `optimize` with a table [service], and those that ship."""

from pathlib import Path

import pytest

from tests.doubles.places import ROOT
from tuner.cli.optimize_request import read_request
from tuner.cli.services import service_of_file
from tuner.config.program_file import load_program_file
from tuner.errors import SpecError
from tuner.optimize.options import Options
from tuner.optimize.quantities import PEAK, SERVICE_NAMES

SHIPPED = Path(__file__).resolve().parents[3] / "configs" / "services"
TEXT = """
[program]
command = ["server", "--port", "{port}"]
timeout = "30s"

[service]
ready = "tcp:{port}"
load = "load"
held_out_load = "other"
idle = "2s"
constraints = ["p99 <= default * 1.2"]
"""


def test_a_service_of_a_file_is_a_request_of_a_service(tmp_path: Path):
    path = tmp_path / "server.toml"
    path.write_text(TEXT)

    _, request = read_request([str(path)], None, Options())

    assert request.service is not None
    assert request.service.idle_s == 2.0
    assert (request.service.ready_s, request.service.load_s) == (30.0, 30.0)
    assert request.held_out == ("other",)
    assert request.rules.strict == (SERVICE_NAMES["p99"],)
    assert SERVICE_NAMES["floor"] in request.rules.goals


def test_goals_and_the_exit_status_are_those_of_the_file(tmp_path: Path):
    path = tmp_path / "app.toml"
    path.write_text('[program]\ncommand = ["a"]\ngoals = ["peak_memory"]\nexpect_status = 1\n')

    _, request = read_request([str(path)], None, Options())

    assert (request.rules.goals, request.expect_status) == ((PEAK,), 1)


def test_commands_may_be_one(tmp_path: Path):
    path = tmp_path / "app.toml"
    path.write_text('[program]\ncommands = [["a"]]\n')

    assert load_program_file(path).program.all_commands == (("a",),)


def test_a_limit_that_is_typed_counts_before_that_of_the_file(tmp_path: Path):
    path = tmp_path / "server.toml"
    path.write_text(TEXT)

    _, request = read_request([str(path)], None, Options(timeout="3s"))

    assert request.service is not None
    assert (request.service.ready_s, request.service.load_s) == (3.0, 3.0)


def test_allocators_are_those_of_the_file(tmp_path: Path):
    path = tmp_path / "app.toml"
    path.write_text(f'allocators = ["glibc", "jemallok"]\n{TEXT}')

    with pytest.raises(SpecError, match=rf"^{path}: allocators\[1\] = .* mean 'jemalloc'"):
        load_program_file(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('load = "load"', "", "load"),
        ('ready = "tcp:{port}"', 'ready = "udp:1"', "udp:1"),
        ('idle = "2s"', 'idel = "2s"', "idel"),
        ("p99 <=", "p98 <=", r"server\.toml: constraint 'p98"),
        ('idle = "2s"', 'read = "(x"', r"server\.toml: '\(x' is no regular"),
        ('idle = "2s"', 'stop = "SIGX"', r"server\.toml: service\.stop SIGX: no such signal"),
        (
            'idle = "2s"',
            'timeout = "2s"',
            r"service\.timeout: unknown key; it stands in \[program\]",
        ),
        ('idle = "2s"', "allocators = []", "allocators: unknown key; it stands above all tables"),
        ('idle = "2s"', "program = 1", r"service\.program: .*; it is a table, \[program\]"),
        ('idle = "2s"', 'idle = "9999h"', "idle.*'9999h' is not from 0 s to 1000 h"),
        ('idle = "2s"', "idle = 2", "service.idle = 2: must be a duration with its unit"),
        ('timeout = "30s"', "time = 30", "program.time = 30: must be a duration with its unit"),
        ('timeout = "30s"', 'timeout = "0s"', "timeout.*'0s' is not from 1 ms"),
        ('timeout = "30s"', 'time = "0s"', "time.*'0s' is not from 1 s"),
        ('timeout = "30s"', 'least = "0%"', "least.*'0%' is not from 0.01 %"),
        ('timeout = "30s"', 'constraints = ["x"]', r"program\.constraints: is of a program that"),
        ('timeout = "30s"', 'held_out = ["x"]', r"program\.held_out: .* held_out_load"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, old: str, new: str, said: str):
    path = tmp_path / "server.toml"
    path.write_text(TEXT.replace(old, new))

    with pytest.raises(SpecError, match=said):
        read_request([str(path)], None, Options())


def test_a_file_without_a_service_is_no_service(tmp_path: Path):
    path = tmp_path / "app.toml"
    path.write_text('[program]\ncommand = ["app"]\n')

    assert read_request([str(path)], None, Options())[1].service is None
    with pytest.raises(SpecError, match=r"\[service\]"):
        service_of_file(load_program_file(path))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_what_ships_can_be_read(path: Path):
    assert service_of_file(load_program_file(path)).checked().load


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "programs").glob("*.toml")), ids=str)
def test_every_shipped_file_names_programs_that_are_there(path: Path):
    table = load_program_file(path).program

    for command in filter(None, (*table.all_commands, table.held_out)):
        assert (ROOT / command[0]).is_file()
