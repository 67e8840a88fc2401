"""Every service of configs/services: it starts, is loaded, stops, and leaves nothing behind.

The commands are those that ship, with loads of few requests.
"""

import os
import re
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.processes import is_soon_gone
from tuner.cli.services import service_of_file
from tuner.config.program_file import load_program_file
from tuner.resources import configs_dir
from tuner.service.lifecycle import run_service
from tuner.service.plan import ServicePlan
from tuner.service.readiness import is_open
from tuner.service.recording import record_service
from tuner.service.roles import roles_that_matter

pytestmark = pytest.mark.end_to_end

SHORTER = (("-z 30s", "-n 160"), ("-j 1 -T 30", "-j 1 -t 20"), ("-T 30", "-T 1"))
"""Loads of so many seconds, and of so many requests that all percentiles are known."""

POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)

NEEDS = {
    "redis": ("redis-server", "redis-cli"),
    "postgresql": ("pgbench",),
    "nginx": ("nginx", "hey"),
    "gunicorn": ("gunicorn", "hey"),
    "node": ("node", "hey"),
    "puma": ("puma", "hey"),
}
TITLES = {
    "redis": ("redis-server",),
    "postgresql": ("checkpointer",),
    "nginx": ("master process", "worker process"),
    "gunicorn": ("gunicorn", "gunicorn"),
    "node": ("node",),
    "puma": ("puma", "cluster worker"),
}
"""What processes call themselves when the service is ready: of the workers, the first."""


def skip_without(name: str) -> None:
    lacking = [one for one in NEEDS[name] if shutil.which(one) is None]
    if name == "postgresql" and (POSTGRES is None or os.getuid() != 0):
        lacking.append("PostgreSQL as root")
    if name == "postgresql" and not all(one.stat().st_mode & 1 for one in configs_dir().parents):
        lacking.append("a checkout that all users may read")
    if lacking:
        pytest.skip(f"lacks {', '.join(lacking)}")


def short_plan(name: str) -> ServicePlan:
    """Return a shipped service with a short load (hey prints p99 from 100 requests) and rest."""
    plan = service_of_file(load_program_file(configs_dir() / "services" / f"{name}.toml"))
    load = plan.load
    for long, short in SHORTER:
        load = load.replace(long, short)
    assert load != plan.load
    return replace(plan, load=load, warm_ups=0, idle_s=0.2)


ROLES = {
    "redis": {"redis-server"},
    "postgresql": {"postgres: postgres postgres"},
    "nginx": {"nginx: worker process"},
    "gunicorn": {"gunicorn: worker", "gunicorn", "python3"},
    "node": {"node"},
    "puma": {"puma: cluster worker"},
}
"""One of these matters; gunicorn's title needs python3-setproctitle."""


def port_in(load: str) -> int:
    """Return the port that a load goes to."""
    found = re.search(r"127\.0\.0\.1:(\d+)|(?:-p|load\.py) (\d+)", load)
    assert found
    return int(found[1] or found[2])


def test_every_shipped_service_is_tested():
    assert {path.stem for path in (configs_dir() / "services").glob("*.toml")} == set(NEEDS)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_shipped_service_takes_load_and_leaves_nothing(name: str):
    skip_without(name)
    mark = str(uuid.uuid4())
    plan = short_plan(name).placed("{state}")
    port = port_in(plan.load)

    outcome = run_service(plan, {"PATH": os.environ["PATH"], "MARK": mark})

    run = outcome.good
    assert run is not None, outcome.reason
    assert run.requests > 10
    assert {"mean", "peak", "floor", "cpu", "rate", "p99"} <= run.values.keys()
    assert run.values["peak"] >= run.values["mean"] > 100_000
    titles = list(run.titles)
    for title in TITLES[name]:
        titles.remove(next(one for one in titles if title in one))
    assert is_soon_gone(mark)
    assert not is_open("127.0.0.1", port)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_the_processes_of_a_service_are_recorded_and_told_apart(name: str, tmp_path: Path):
    """PostgreSQL and nginx give up the rights of root, and keep their recordings."""
    skip_without(name)

    found = record_service(short_plan(name), {"PATH": os.environ["PATH"]}, tmp_path / "traces")

    assert all(one.stopped is None for one in found)
    assert {one.path for one in found} == set((tmp_path / "traces").iterdir())
    assert ROLES[name] & {role.name for role in roles_that_matter(found)}
