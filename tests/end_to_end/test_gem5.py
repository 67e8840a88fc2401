"""Short simulations on a real gem5: the one that the variable GEM5 names."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.places import ROOT
from tuner.cli.main import run as main
from tuner.config.gem5_suite import Simulation, load_suite
from tuner.measure.gem5 import (
    Gem5,
    Gem5Run,
    digest_of,
    find_gem5,
    make_guests,
    script,
    statistics_of,
)
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.optimize import request
from tuner.resources import gem5_dir

PROGRAM = os.environ.get("GEM5", "")
MIB = 1 << 20

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not PROGRAM, reason="needs gem5; set GEM5 to its gem5.opt"),
]

SUITE = load_suite(gem5_dir() / "suite.toml")
BRIEF = {"blocks": "200", "hash": "200", "matrix": "8", "interpreter": "8"}
"""Scales for seconds; other guests get 20."""


@pytest.fixture(scope="module")
def gem5(tmp_path_factory: pytest.TempPathFactory) -> Gem5:
    folder = tmp_path_factory.mktemp("gem5")
    make_guests(SUITE.folder / "guests", folder / "guests")
    program = find_gem5(Path(PROGRAM))
    return Gem5(program, SUITE, folder / "guests", folder / "outputs", ProgramRunner())


def simulate(
    gem5: Gem5, simulation: Simulation, environment: Mapping[str, str] | None = None
) -> Gem5Run:
    surroundings = Surroundings(timeout_s=300.0)
    return gem5.simulate(simulation, {**os.environ, **(environment or {})}, surroundings)


@pytest.mark.parametrize("name", [s.name for s in SUITE.simulations])
def test_every_simulation_runs(gem5: Gem5, name: str):
    (simulation,) = SUITE.choose([name])
    if simulation.guest:
        scale = BRIEF.get(simulation.guest, "20")
        simulation = simulation.model_copy(update={"arguments": (scale,)})
    found = simulate(gem5, simulation)
    assert found.run.exit_status == 0, found.run.stderr_tail
    assert found.result is not None
    assert (statistics_of(found).number("simTicks") or 0.0) > 0.0
    if simulation.guest:
        assert found.guest_output.decode().startswith(f"{simulation.guest} ")


def test_simulated_results_do_not_depend_on_the_allocator(gem5: Gem5):
    (simulation,) = SUITE.choose(["tree-o3"])
    brief = simulation.model_copy(update={"arguments": ("20",)})
    plain = simulate(gem5, brief)
    other = simulate(gem5, brief, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"})
    assert digest_of(plain) == digest_of(other)


def test_heap_is_apart_from_simulated_memory_and_program(gem5: Gem5):
    (simulation,) = SUITE.choose(["chase-timing-uncached"])
    found = simulate(gem5, simulation.model_copy(update={"arguments": ("1000",)}))
    assert found.result is not None
    kinds = found.result.memory_bytes
    assert kinds.simulated > 1000 * 4 * 64
    assert kinds.program > 0
    assert kinds.python > 8 * MIB
    assert kinds.heap < found.run.peak_rss_bytes - kinds.simulated
    own = kinds.program + kinds.python
    assert found.heap.peak_anon_bytes == found.run.peak_anon_bytes - own


def test_nothing_of_simulated_memory_is_left_behind(gem5: Gem5):
    with subprocess.Popen(["true"]) as dead:
        pass
    left = Path("/dev/shm", f"gem5-validate-{dead.pid}")
    left.touch()
    (simulation,) = SUITE.choose(["tree-o3"])
    brief = simulation.model_copy(update={"arguments": ("20",)})
    gem5.folder(brief).mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(gem5.command(brief), stdout=subprocess.DEVNULL) as ended:
        pass
    assert ended.returncode == 0
    assert not left.exists()
    assert not left.with_name(f"gem5-validate-{ended.pid}").exists()


def test_wrong_machine_is_an_error(gem5: Gem5, tmp_path: Path):
    machine = tmp_path / "machine.json"
    machine.write_text('{"description": "x", "clock": "1GHz", "cpus": 2}')
    command = [PROGRAM, "-d", str(tmp_path / "out"), str(script(SUITE)), "--machine", str(machine)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert f"{machine}: lacks the key 'memory'" in ended.stderr


def test_guest_that_fails_fails_the_run(gem5: Gem5):
    (simulation,) = SUITE.choose(["blocks-atomic"])
    found = simulate(gem5, simulation.model_copy(update={"arguments": ()}))
    assert found.run.exit_status == 1
    assert replace(found, statistics=None).result is not None


def test_the_mean_heap_is_below_the_peak(gem5: Gem5):
    (simulation,) = SUITE.choose(["tree-o3"])
    found = simulate(gem5, simulation.model_copy(update={"arguments": ("50",)}))
    assert found.result is not None
    assert 1 * MIB < found.heap.mean_anon_bytes <= found.heap.peak_anon_bytes


def test_pages_that_hold_only_zeros_are_counted(gem5: Gem5):
    (simulation,) = SUITE.choose(["tree-o3"])
    command = gem5.command(simulation.model_copy(update={"arguments": ("20",)}))
    place = command.index("--")
    gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
    command[place:place] = ["--zero-pages"]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((gem5.folder(simulation) / "result.json").read_text())["zero_pages"]
    assert 0 < found["zero"] < found["resident"]
    assert found["resident"] * 4096 > 10 * MIB


def test_it_is_a_program_that_is_optimized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(request, "PATIENCE_S", 300.0)  # of a busy machine
    text = (ROOT / "configs" / "programs" / "gem5-sort.toml").read_text()
    path = tmp_path / "gem5.toml"
    path.write_text(text.replace('"300"', '"5"').replace('"220"', '"4"'))
    words = ["optimize", str(path), "-o", str(tmp_path / "run"), "--allocators", "glibc"]

    assert main([*words, "--time", "5s", "--evaluations", "5"]) == 0

    out, err = capfd.readouterr()
    assert "events of malloc and free of 1 thread" in err
    assert "as it is (glibc)" in out or "Not decided" in out
    values = json.loads((tmp_path / "run" / "reference.json").read_text())["values"]
    assert values["peak memory"] > 32 * MIB
