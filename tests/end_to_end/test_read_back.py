"""Real allocators: every level of every parameter takes effect, and bad values are refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tuner.allocators import (
    Allocator,
    HostFacts,
    Installation,
    WorkloadFacts,
    effective_settings,
    get_allocator,
)
from tuner.errors import MissingToolError, SettingError
from tuner.records import Configuration, Value
from tuner.space import joint_space
from tuner.spec import allocator_names

SERVER = WorkloadFacts(8, 60 * 10**9, freed_bytes=8 << 30, is_emulated=False)
"""A workload under which every parameter can act."""

pytestmark = pytest.mark.end_to_end

N_RANDOM = 60
"""Random configurations per allocator."""


@pytest.fixture(scope="module", params=allocator_names())
def found(request: pytest.FixtureRequest) -> tuple[Allocator, Installation]:
    allocator = get_allocator(request.param)
    return allocator, allocator.locate()


def refusal(name: str, settings: dict[str, Value]) -> str:
    """Return the message with which settings are refused."""
    allocator = get_allocator(name)
    with pytest.raises(SettingError) as caught:
        allocator.read_back(allocator.locate(), Configuration.of(name, settings))
    return str(caught.value)


def test_the_library_is_found_with_its_version(found: tuple[Allocator, Installation]) -> None:
    allocator, installation = found
    assert installation.allocator == allocator.name
    assert installation.version[0].isdigit()
    assert (installation.library is None) == (allocator.name == "glibc")


def test_every_level_of_every_parameter_takes_effect(
    found: tuple[Allocator, Installation],
) -> None:
    allocator, installation = found
    refused = []
    for name in names_of(allocator, installation):
        spec = allocator.file.find(name, installation.version)
        if spec.structural or ("thp=madvise" in spec.requires and thp_mode() != "madvise"):
            continue
        for level in filter(lambda level: level is not None, spec.levels):
            configuration = Configuration.of(allocator.name, {name: level})
            try:
                allocator.read_back(installation, configuration)
            except SettingError as error:
                refused.append(str(error))
    assert refused == []


def test_random_configurations_take_effect_together(
    found: tuple[Allocator, Installation],
) -> None:
    allocator, installation = found
    workload = replace(SERVER, n_threads=1) if allocator.name == "exgen-st" else SERVER
    genes = allocator.parameters(installation, HostFacts.detect(), workload)
    space = joint_space({allocator.name: genes})
    rng = np.random.default_rng(1)
    for _ in range(N_RANDOM):
        configuration = space.decode(space.random(rng))
        allocator.read_back(installation, configuration)


def test_fast_bins_are_seen_behind_a_deep_narrow_thread_cache() -> None:
    glibc = get_allocator("glibc")
    settings = {"mxfast": 152, "tcache_count": 4096, "tcache_max": 632}
    glibc.read_back(glibc.locate(), Configuration.of("glibc", settings))


def test_the_thread_cache_is_seen_through_a_block_from_a_larger_remainder() -> None:
    glibc = get_allocator("glibc")
    settings = {"mmap_threshold": 4 << 20, "tcache_count": 8, "tcache_max": 328, "top_pad": 4096}
    glibc.read_back(glibc.locate(), Configuration.of("glibc", settings))


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("glibc", {"tcache_max": 5000}, "tcache_max = 5000 was not taken: 1032 is in effect"),
        ("glibc", {"tcache_count": 70000}, "tcache_count = 70000 was not taken: "),
        ("glibc", {"arena_max": 0}, "arena_max = 0 was not taken: 0 is in effect"),
        ("tcmalloc", {"max_total_thread_cache_bytes": 1024}, "524288 is in effect"),
        ("tcmalloc", {"transfer_num_obj": 0}, "ended a test program with SIGFPE"),
        ("jemalloc", {"narenas": 0}, "ended a test program with SIGABRT"),
        ("jemalloc", {"tcache_max": 1 << 30}, "8388608 is in effect"),
        ("jemalloc", {"slab_sizes": "1-14336:0"}, "slab_sizes"),
        ("exgen", {"purge_delay": 60001}, "allowed is a number from 0 to 60000 (ms)"),
        ("exgen", {"superblock_size": 16384, "small_max": 32768}, "4096 is in effect"),
        ("mimalloc", {"max_segment_reclaim": 0}, "max_segment_reclaim = 0 was not taken"),
    ],
)
def test_a_value_that_the_allocator_clips_or_drops_is_refused(
    name: str, settings: dict[str, Value], expected: str
) -> None:
    found = refusal(name, settings)
    if "it exists in versions" in found:
        pytest.skip(found)
    assert expected in found


def test_a_suffix_that_glibc_cuts_off_is_seen() -> None:
    environment = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=64K"}
    assert effective_settings(environment, "glibc")["mmap_threshold"] != 65536


def test_a_name_that_mimalloc_does_not_know_is_not_among_its_settings() -> None:
    mimalloc = get_allocator("mimalloc")
    environment = mimalloc.environment(mimalloc.locate(), Configuration("mimalloc"))
    effective = effective_settings({**environment, "MIMALLOC_PURGE_DELY": "0"}, "mimalloc")
    assert "purge_dely" not in effective


def test_a_value_that_mimalloc_cannot_parse_is_refused() -> None:
    mimalloc = get_allocator("mimalloc")
    known = names_of(mimalloc, mimalloc.locate())
    name = next(n for n in ("decommit_delay", "purge_delay") if n in known)
    assert f"{name} = '1e3' was not taken" in refusal("mimalloc", {name: "1e3"})


def test_a_setting_of_another_version_is_refused() -> None:
    allocator = get_allocator("mimalloc")
    installation = allocator.locate()
    known = names_of(allocator, installation)
    other = next(n for n in ("decommit_delay", "purge_delay") if n not in known)
    assert f"has no setting {other}" in refusal("mimalloc", {other: 0})


def test_a_library_that_cannot_be_preloaded_is_not_mistaken_for_glibc(tmp_path: Path) -> None:
    broken = tmp_path / "libjemalloc.so.2"
    broken.write_bytes(b"not a library")
    with pytest.raises(MissingToolError, match="cannot be preloaded"):
        get_allocator(f"jemalloc:{broken}").locate()


def test_an_environment_without_the_library_does_not_run_the_allocator() -> None:
    with pytest.raises(SettingError, match=r"malloc comes from .*libc.so.6"):
        effective_settings({"MALLOC_CONF": "retain:false"}, "jemalloc")


def test_the_environment_of_the_caller_does_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GLIBC_TUNABLES", "glibc.malloc.tcache_count=3")
    assert effective_settings({}, "glibc")["tcache_count"] != 3


@pytest.mark.parametrize("setting", ["trim_threshold", "mmap_threshold", "top_pad"])
def test_a_default_that_is_written_freezes_the_thresholds_of_glibc(setting: str) -> None:
    glibc = get_allocator("glibc")
    written = glibc.render(Configuration.of("glibc", {setting: 131072}))
    assert effective_settings({}, "glibc")["dynamic"] is True
    assert effective_settings(written, "glibc")["dynamic"] is False


def names_of(allocator: Allocator, installation: Installation) -> set[str]:
    """Return the settings that the installed version has."""
    names = set()
    for name in allocator.file.keys:
        try:
            allocator.file.find(name, installation.version)
        except ValueError:
            continue
        names.add(name)
    return names


def thp_mode() -> str:
    return HostFacts.detect().thp_mode
