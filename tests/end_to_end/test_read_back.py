"""Real allocators: every level of every parameter takes effect, and bad values are refused."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.probes import effective_settings
from tuner.allocators import Allocator, HostFacts, Installation, WorkloadFacts, get_allocator
from tuner.config.option_list import read_option_list
from tuner.errors import MissingToolError, SettingError
from tuner.records import Configuration, Value
from tuner.registry import ALLOCATORS
from tuner.space import joint_space

SERVER = WorkloadFacts(8, 60 * 10**9, freed_bytes=8 << 30)
"""A workload under which every parameter can act."""

pytestmark = pytest.mark.end_to_end

N_RANDOM = 60
"""Random configurations per allocator."""


@pytest.fixture(scope="module", params=tuple(ALLOCATORS))
def found(request: pytest.FixtureRequest) -> tuple[Allocator, Installation]:
    allocator = get_allocator(request.param)
    return allocator, allocator.locate()


def refusal(name: str, settings: dict[str, Value]) -> str:
    allocator = get_allocator(name)
    with pytest.raises(SettingError) as caught:
        allocator.read_back(allocator.locate(), Configuration.of(name, settings))
    return str(caught.value)


def test_the_library_is_found_with_its_version(found: tuple[Allocator, Installation]):
    allocator, installation = found
    assert installation.allocator == allocator.name
    assert installation.version[0].isdigit()
    assert (installation.library is None) == (allocator.name == "glibc")


def test_every_level_of_every_parameter_takes_effect(found: tuple[Allocator, Installation]):
    allocator, installation = found
    refused = []
    for name in names_of(allocator, installation):
        spec = allocator.file.find(name, installation.version)
        if spec.structural or ("thp=madvise" in spec.requires and thp_mode() != "madvise"):
            continue
        if allocator.name == "exgen-st" and ("threads" in spec.requires or name == "timer"):
            continue
        for level in filter(lambda level: level is not None, spec.levels):
            configuration = Configuration.of(allocator.name, {name: level})
            try:
                allocator.read_back(installation, configuration)
            except SettingError as error:
                refused.append(str(error))
    assert refused == []


def test_random_configurations_take_effect_together(found: tuple[Allocator, Installation]):
    allocator, installation = found
    workload = replace(SERVER, n_threads=1) if allocator.name == "exgen-st" else SERVER
    genes = allocator.parameters(installation, HostFacts.detect(), workload)
    space = joint_space({allocator.name: genes})
    rng = np.random.default_rng(1)
    for _ in range(N_RANDOM):
        configuration = space.decode(space.random(rng))
        get_allocator(allocator.name).read_back(installation, configuration)


def test_fast_bins_are_seen_behind_a_deep_narrow_thread_cache():
    glibc = get_allocator("glibc")
    settings = {"mxfast": 152, "tcache_count": 4096, "tcache_max": 632}
    glibc.read_back(glibc.locate(), Configuration.of("glibc", settings))


def test_the_thread_cache_is_seen_through_a_block_from_a_larger_remainder():
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
        ("tcmalloc", {"transfer_num_obj": 0}, 'cannot be seen; allowed: "unset", 1 to 8192'),
        ("jemalloc", {"narenas": 0}, "ended a test program with SIGABRT"),
        ("jemalloc", {"narenas": 99999999}, "narenas = 99999999 was not taken: 4094 is in effect"),
        ("jemalloc", {"tcache_max": 1 << 30}, "8388608 is in effect"),
        ("jemalloc", {"tcache_nslots_small_max": 7}, "6 is in effect"),
        ("jemalloc", {"slab_sizes": "1-14336:0"}, "slab_sizes"),
        ("exgen", {"purge_delay": 60001}, "allowed is a number from 0 to 60000 (ms)"),
        ("exgen", {"superblock_size": 16384, "small_max": 32768}, "4096 is in effect"),
        ("exgen", {"slab_units_max": 32}, "slab_units_max = 32 was not taken: 16 is in effect"),
        ("exgen", {"tray_step": 4096}, "tray_step = 4096 was not taken: 0 is in effect"),
        ("exgen-st", {"remote_batch": 3}, "the allocator does not know it"),
        ("mimalloc", {"max_segment_reclaim": 0}, "max_segment_reclaim = 0 is refused"),
        ("glibc", {"mmap_threshold": -5}, "it is negative; allowed is 0 or more"),
        ("mimalloc", {"decommit_delay": 2**63 - 1}, "no clock counts so many ms"),
        ("glibc", {"top_pad": 1 << 62}, "malloc fails"),
    ],
)
def test_a_value_that_the_allocator_clips_or_drops_is_refused(
    name: str, settings: dict[str, Value], expected: str
):
    found = refusal(name, settings)
    if "is not offered for" in found:
        pytest.skip(found)
    assert expected in found


BEYOND: dict[str, dict[str, tuple[Value, ...]]] = {
    "glibc": {
        "trim_threshold": (-2, 1 << 64),
        "mmap_threshold": (-5, 1 << 64),
        "top_pad": (-1, 1 << 62),
        "mxfast": (-1, 161),
        "tcache_count": (-1, 65536),
        "tcache_max": (0, 1033),
        "tcache_unsorted_limit": (-1, 1 << 64),
        "arena_max": (0, -1, 1 << 64),
        "hugetlb": (-1, 2, 99999999),
    },
    "tcmalloc": {
        "max_total_thread_cache_bytes": ((512 << 10) - 1, (1 << 30) + 1),
        "aggressive_decommit": ("on",),
        "release_rate": (-1.0, 0.01, 1e6, math.nan, math.inf),
        "transfer_num_obj": (0, -1, 8193, 1 << 31),
        "skip_sbrk": ("",),
    },
    "jemalloc": {
        "dirty_decay_ms": (-2, 10**16),
        "muzzy_decay_ms": (-2, 10**16),
        "tcache": ("no",),
        "tcache_max": (0, (8 << 20) + 1),
        "lg_tcache_nslots_mul": (-17, 17),
        "tcache_nslots_small_max": (0, 1, 1 << 20),
        "tcache_nslots_large": (0, 1 << 20),
        "tcache_gc_incr_bytes": (1023, 1 << 64),
        "tcache_gc_delay_bytes": (7, 4 << 20),
        "slab_sizes": ("1-14336:0", "1-14336:5000", "1-14336", ""),
        "lg_extent_max_active_fit": (-1, 65),
        "lg_tcache_flush_small_div": (0, 17),
        "oversize_threshold": (-1, 1, 1 << 63),
        "retain": (0,),
        "narenas": (0, 4095, 99999999, 1 << 32),
        "thp": ("a", ""),
        "metadata_thp": ("a", ""),
        "background_thread": (1,),
        "percpu_arena": ("p", ""),
    },
    "mimalloc": {
        "allow_decommit": ("N",),
        "decommit_delay": (-1, "1e3", (1 << 63) - 1),
        "segment_decommit_delay": (-1, (1 << 63) - 1),
        "abandoned_page_decommit": (2,),
        "large_os_pages": (2,),
        "eager_commit": ("",),
        "eager_commit_delay": (-1, 1 << 64),
        "page_reset": (-1,),
        "max_segment_reclaim": (7, 1025),
    },
}
"""Setting -> values too small, too large, or no values of it."""
KNOWN_VERSIONS = {"glibc": "2.36", "tcmalloc": "2.10", "jemalloc": "5.3.0", "mimalloc": "2.0.9"}
"""Those `BEYOND` was written for, of Debian 12."""


def beyond(allocator: Allocator, setting: str) -> tuple[Value, ...]:
    """Return the values that must be refused; of exgen what its own list excludes."""
    if allocator.name in BEYOND:
        return BEYOND[allocator.name].get(setting, ())
    if allocator.name not in ("exgen", "exgen-st"):
        return ()
    (option,) = (o for o in read_option_list("exgen-options.json") if o.name == setting)
    if option.low is not None and option.high is not None and option.kind == "number":
        return (option.low - 1, option.high + 1)
    return ("", "nonsense")


def test_no_value_out_of_range_passes(found: tuple[Allocator, Installation]):
    """Every setting that the installed library has, each on its own."""
    allocator, installation = found
    passed = []
    for name in sorted(names_of(allocator, installation)):
        if allocator.file.find(name, installation.version).structural:
            continue
        for value in beyond(allocator, name):
            configuration = Configuration.of(allocator.name, {name: value})
            try:
                allocator.read_back(installation, configuration)
            except SettingError as error:
                assert name in str(error)  # noqa: PT017 - which of them it was
            else:
                passed.append(f"{name}={value}")
    assert passed == []


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_the_walk_leaves_no_setting_out(name: str):
    allocator = get_allocator(name)
    installation = allocator.locate()
    if installation.version != KNOWN_VERSIONS[name]:
        pytest.skip("another version of the library than that the walk was written for")
    names = names_of(allocator, installation)
    known = {n for n in names if not allocator.file.find(n, installation.version).structural}
    assert known == set(BEYOND[allocator.name])


def test_a_suffix_that_glibc_cuts_off_is_seen():
    environment = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=64K"}
    assert effective_settings(environment, "glibc")["mmap_threshold"] != 65536


def test_a_name_that_mimalloc_does_not_know_is_not_among_its_settings():
    mimalloc = get_allocator("mimalloc")
    environment = mimalloc.environment(mimalloc.locate(), Configuration("mimalloc"))
    effective = effective_settings({**environment, "MIMALLOC_PURGE_DELY": "0"}, "mimalloc")
    assert "purge_dely" not in effective


def test_a_value_that_mimalloc_cannot_parse_is_not_in_effect():
    mimalloc = get_allocator("mimalloc")
    known = names_of(mimalloc, mimalloc.locate())
    name = next(n for n in ("decommit_delay", "purge_delay") if n in known)
    environment = mimalloc.environment(mimalloc.locate(), Configuration("mimalloc"))
    variables = {**environment, f"MIMALLOC_{name.upper()}": "1e3"}
    assert effective_settings(variables, "mimalloc")[name] != 1000


def test_a_setting_of_another_version_is_refused():
    allocator = get_allocator("mimalloc")
    installation = allocator.locate()
    known = names_of(allocator, installation)
    other = next(n for n in ("decommit_delay", "purge_delay") if n not in known)
    assert f"{other} is not offered" in refusal("mimalloc", {other: 0})


def test_a_library_that_cannot_be_preloaded_is_not_mistaken_for_glibc(tmp_path: Path):
    broken = tmp_path / "libjemalloc.so.2"
    broken.write_bytes(b"not a library")
    with pytest.raises(MissingToolError, match="cannot be preloaded"):
        get_allocator(f"jemalloc:{broken}").locate()


def test_the_environment_of_the_caller_does_not_leak_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(os.environ, "GLIBC_TUNABLES", "glibc.malloc.tcache_count=3")
    assert effective_settings({}, "glibc")["tcache_count"] != 3


@pytest.mark.parametrize("setting", ["trim_threshold", "mmap_threshold", "top_pad"])
def test_a_default_that_is_written_freezes_the_thresholds_of_glibc(setting: str):
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
