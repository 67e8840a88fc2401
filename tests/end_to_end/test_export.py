"""An exported file really runs a program under the setting, with every allocator."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.export_readers import (
    dockerfile_environment,
    kubernetes_environment,
    shell_environment,
    systemd_environment,
)
from tests.doubles.probes import effective_settings
from tests.doubles.runs import campaign_record, trial, write_run
from tuner.allocators import get_allocator
from tuner.cli import main
from tuner.records import Configuration, Value
from tuner.registry import EXPORTERS
from tuner.resources import native_file
from tuner.runs import Run
from tuner.store import AllocatorRecord

pytestmark = pytest.mark.end_to_end

SETTINGS: Mapping[str, Mapping[str, Value]] = {
    "glibc": {"mxfast": 0, "tcache_count": 16, "trim_threshold": 65536, "top_pad": 1048576},
    "tcmalloc": {"max_total_thread_cache_bytes": 4194304, "aggressive_decommit": True},
    "jemalloc": {"dirty_decay_ms": 0, "tcache_max": 4096, "narenas": 2},
    "mimalloc": {},
    "exgen": {"purge_delay": 100, "superblock_size": 262144, "slab_order": "fifo"},
}
"""Settings that can be read back; those of mimalloc depend on its version."""

MIMALLOC: Mapping[str, Mapping[str, Value]] = {
    "2.0": {"decommit_delay": 100, "allow_decommit": True},
    "new": {"purge_delay": 100},
}


@pytest.fixture(scope="module", params=SETTINGS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Build a run whose trial 1 is a configuration of an allocator of this machine."""
    name: str = request.param
    installation = get_allocator(name).locate()
    settings = SETTINGS[name]
    if name == "mimalloc":
        settings = MIMALLOC["2.0" if installation.version.startswith("2.0.") else "new"]
    library = str(installation.library) if installation.library else None
    record = campaign_record(list(dict.fromkeys(("glibc", name))), ("mean_heap", "cost"), 2)
    allocators = {**record.allocators, name: AllocatorRecord(library, installation.version)}
    trials = (trial(0, Configuration("glibc"), 9e7), trial(1, Configuration.of(name, settings)))
    folder = tmp_path_factory.mktemp("runs") / name
    built = Run(folder, replace(record, allocators=allocators), trials)
    write_run(built)
    return built


def exported(run: Run, form: str) -> Path:
    path = run.folder / f"malloc.{form}"
    arguments = ["export", str(run.folder), "--trial", "1", "--format", form, "-o", str(path)]
    assert main.run(arguments) == 0
    return path


def environment_from(path: Path, form: str) -> dict[str, str]:
    """Return the environment that a program gets from an exported file."""
    if form == "env":
        return shell_environment(f"set -a; . {path}; set +a")
    if form == "sh":
        command = [str(path), "/usr/bin/env", "-0"]
        output = subprocess.run(command, env={}, capture_output=True, check=True).stdout.decode()
        pairs = (entry.split("=", 1) for entry in output.split("\0") if entry)
        return {name: value for name, value in pairs if name not in ("PWD", "_", "SHLVL")}
    text = path.read_text()
    if form == "json":
        environment: dict[str, str] = json.loads(text)["environment"]
        return environment
    readers = {
        "systemd": systemd_environment,
        "docker": dockerfile_environment,
        "kubernetes": kubernetes_environment,
    }
    return readers[form](text)


@pytest.mark.parametrize("form", EXPORTERS)
def test_exported_setting_is_read_back_from_the_allocator(run: Run, form: str):
    configuration = run.trials[1].configuration
    adapter = get_allocator(configuration.allocator)

    environment = environment_from(exported(run, form), form)

    assert "abort_conf" not in str(environment)
    assert adapter.mismatches(configuration, adapter.observe(environment)) == []
    effective = effective_settings(environment, configuration.allocator)
    readable = {name: value for name, value in configuration.settings if name in effective}
    assert readable, "nothing of this configuration can be read back"


def test_other_values_would_have_been_noticed(run: Run):
    configuration = run.trials[1].configuration
    adapter = get_allocator(configuration.allocator)
    environment = environment_from(exported(run, "env"), "env")
    name = configuration.settings[0][0]
    other = Configuration.of(configuration.allocator, {**configuration.as_dict, name: 77})

    mismatches = adapter.mismatches(other, adapter.observe(environment))

    assert [mismatch.setting for mismatch in mismatches] == [name]


@pytest.mark.parametrize("form", ["env", "sh"])
def test_a_program_started_through_the_file_runs_on_the_allocator(run: Run, form: str):
    path, probe = exported(run, form), str(native_file("probe"))
    start = f". {path}; exec {probe}" if form == "env" else f"exec {path} {probe}"

    done = subprocess.run(
        ["/bin/sh", "-c", f"set -a; {start}"], env={}, capture_output=True, check=True
    )

    library = run.campaign.allocators[run.trials[1].configuration.allocator].library
    malloc_from = Path(json.loads(done.stdout)["malloc_from"]).resolve()
    assert done.stderr == b""
    assert (
        malloc_from.name.startswith("libc.")
        if library is None
        else (malloc_from == Path(library).resolve())
    )
