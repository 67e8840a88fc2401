"""Files for `optimize` with a table [service], and those that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.cli.optimize_request import Options, read_request
from tuner.cli.services import service_of_file
from tuner.config.program_file import load_program_file
from tuner.errors import SpecError
from tuner.optimize.quantities import SERVICE_NAMES

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


def test_a_service_of_a_file_is_a_request_of_a_service(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(TEXT)

    _, request = read_request([str(path)], Options())

    assert request.service is not None
    assert request.service.idle_s == 2.0
    assert request.service.load_s == 30.0
    assert request.held_out == ("other",)
    assert request.limited == ("p99",)
    assert SERVICE_NAMES["floor"] in request.rules.goals


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('load = "load"', "", "load"),
        ('ready = "tcp:{port}"', 'ready = "udp:1"', "udp:1"),
        ('idle = "2s"', 'idel = "2s"', "idel"),
        ("p99 <=", "p98 <=", "p98"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text(TEXT.replace(old, new))

    with pytest.raises(SpecError, match=said):
        read_request([str(path)], Options())


def test_a_file_without_a_service_is_no_service(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text('[program]\ncommand = ["app"]\n')

    assert read_request([str(path)], Options())[1].service is None
    with pytest.raises(SpecError, match=r"\[service\]"):
        service_of_file(load_program_file(path))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_what_ships_can_be_read(path: Path) -> None:
    assert service_of_file(load_program_file(path)).checked().load
