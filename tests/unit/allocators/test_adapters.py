"""Adapters against recorded probe reports: versions, genes, rendering, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.allocators import (
    Allocator,
    HostFacts,
    Installation,
    WorkloadFacts,
    all_allocators,
    get_allocator,
)
from tuner.allocators.jemalloc import expected_slab
from tuner.allocators.libraries import parse_ldconfig
from tuner.allocators.mimalloc import parse_options, version_text
from tuner.allocators.probe import ProbeReport, Tunable, parse_tunables
from tuner.config import Narrowing, allocator_names, load_allocator_file
from tuner.errors import MissingToolError, SettingError, SpecError
from tuner.records import Configuration, Value
from tuner.space import Parameter, joint_space

RECORDS = Path(__file__).resolve().parents[2] / "data" / "probe"
VERSIONS = {
    "glibc": "2.36",
    "tcmalloc": "2.10",
    "jemalloc": "5.3.0",
    "mimalloc": "2.0.9",
    "exgen": "0.1.0",
    "exgen-st": "0.1.0",
}

HOST = HostFacts("madvise", 4, 4096)
ONE_THREAD = WorkloadFacts(1, 10**9)
SERVER = WorkloadFacts(6, 60 * 10**9, freed_bytes=8 << 30, is_emulated=False)


def recorded(name: str, **changes: Any) -> ProbeReport:
    """Return the recorded report of an allocator's default with some observations replaced.

    Args:
        name: of the allocator.
        changes: observation -> value; ``tunables`` changes single tunables by value.
    """
    document = json.loads((RECORDS / f"{name}.json").read_text())
    tunables = {k: Tunable(*v) for k, v in document.get("tunables", {}).items()}
    for key, value in changes.pop("tunables", {}).items():
        tunables[key] = replace(tunables[key], value=value)
    report = {**document["report"], "tunables": tunables}
    if changes:
        report[name] = {**report[name], **changes}
    return ProbeReport(report, document["messages"])


def problems(report: ProbeReport, allocator: str, **settings: Value) -> list[str]:
    """Return what read-back finds wrong with settings in a report."""
    found = get_allocator(allocator).mismatches(Configuration.of(allocator, settings), report)
    return [str(problem) for problem in found]


def installation(name: str, version: str | None = None) -> Installation:
    return Installation(name, None, version or VERSIONS[name])


def genes(
    name: str,
    version: str | None = None,
    host: HostFacts = HOST,
    workload: WorkloadFacts = ONE_THREAD,
    **narrowing: Any,
) -> dict[str, Parameter]:
    wishes = {key: Narrowing.model_validate(value) for key, value in narrowing.items()}
    found = get_allocator(name).parameters(installation(name, version), host, workload, wishes)
    return {parameter.name.removeprefix(f"{name}."): parameter for parameter in found}


# The registry


def test_every_shipped_file_has_an_adapter() -> None:
    assert allocator_names() == tuple(allocator.name for allocator in all_allocators())


def test_a_misspelt_allocator_is_refused_with_those_that_exist() -> None:
    with pytest.raises(SpecError, match="did you mean 'jemalloc'"):
        get_allocator("gemalloc")


@pytest.mark.parametrize("name", allocator_names())
def test_the_version_is_what_the_library_says(name: str) -> None:
    assert VERSIONS[name] == get_allocator(name).version_of(recorded(name))


@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc", "mimalloc", "exgen", "exgen-st"])
def test_another_malloc_has_no_version(name: str) -> None:
    assert get_allocator(name).version_of(recorded("glibc")) == ""


def test_the_libraries_of_exgen_are_distinguished() -> None:
    assert get_allocator("exgen-st").version_of(recorded("exgen")) == ""
    assert get_allocator("exgen").version_of(recorded("exgen-st")) == ""


def test_glibc_behind_a_preloaded_library_has_no_version() -> None:
    assert get_allocator("glibc").version_of(recorded("jemalloc")) == ""


# Genes


def test_a_single_thread_has_no_arena_genes() -> None:
    assert "arena_max" not in genes("glibc")
    assert "narenas" not in genes("jemalloc")


def test_arenas_stop_at_the_number_of_threads() -> None:
    assert genes("glibc", workload=SERVER)["arena_max"].levels == (None, 1, 2, 4, 8)


@pytest.mark.parametrize(
    ("mode", "expected"), [("madvise", True), ("always", False), ("never", False)]
)
def test_huge_page_genes_need_the_mode_madvise(mode: str, expected: bool) -> None:
    assert expected == ("hugetlb" in genes("glibc", host=HostFacts(mode, 4, 4096)))


def test_an_emulation_never_offers_a_background_thread() -> None:
    emulated = replace(SERVER, is_emulated=True)
    assert "background_thread" not in genes("jemalloc", workload=emulated)
    assert "background_thread" in genes("jemalloc", workload=SERVER)
    left_out = get_allocator("jemalloc").left_out(installation("jemalloc"), HOST, emulated)
    assert left_out["background_thread"] == "an emulation runs on the clock of its trace"


def test_the_release_rate_needs_gibibytes_of_frees() -> None:
    assert "release_rate" in genes("tcmalloc", workload=SERVER)
    assert "release_rate" not in genes("tcmalloc", workload=replace(SERVER, freed_bytes=None))


@pytest.mark.parametrize(
    ("version", "largest", "has_mxfast"),
    [("2.36", 1032, True), ("2.42", 2 << 20, True), ("2.43", 2 << 20, False)],
)
def test_the_glibc_version_decides_the_genes(version: str, largest: int, has_mxfast: bool) -> None:
    found = genes("glibc", version)
    assert largest == found["tcache_max"].levels[-1]
    assert has_mxfast == ("mxfast" in found)


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("2.0.9", "decommit_delay", "purge_delay"),
        ("2.2.4", "purge_delay", "decommit_delay"),
        ("3.4.3", "page_full_retain", "abandoned_page_purge"),
    ],
)
def test_the_mimalloc_version_decides_the_names(version: str, present: str, absent: str) -> None:
    found = genes("mimalloc", version, workload=SERVER)
    assert present in found
    assert absent not in found


def test_of_several_entries_the_first_that_fits_the_version_counts(tmp_path: Path) -> None:
    entry = (
        '[[parameters]]\nname = "{}"\nscale = "ordinal"\nvalues = [{}]\neffect="e"\nsource="s"\n'
    )
    head = 'schema = 1\nname = "glibc"\ntitle = "t"\n[library]\npackage = "libc6"\n'
    path = tmp_path / "own.toml"
    path.write_text(head + entry.format("mxfast", 24) + entry.format("mxfast", 40))
    glibc = get_allocator("glibc", load_allocator_file(path))
    (gene,) = glibc.parameters(installation("glibc"), HOST, ONE_THREAD)
    assert gene.levels == (None, 24)


def test_optional_genes_join_only_when_named() -> None:
    assert "tcache_gc_delay_bytes" not in genes("jemalloc")
    assert "tcache_gc_delay_bytes" in genes("jemalloc", tcache_gc_delay_bytes="all")


def test_a_narrowed_gene_keeps_unset_because_defaults_are_always_measured() -> None:
    assert genes("glibc", tcache_count=[64, 0])["tcache_count"].levels == (None, 64, 0)


def test_a_gene_that_is_never_set_leaves_the_search() -> None:
    assert "mxfast" not in genes("glibc", mxfast="unset")


def test_children_of_a_switched_off_parent_leave_too() -> None:
    assert "trim_threshold" not in genes("glibc", mode="dynamic")
    assert "tcache_max" not in genes("jemalloc", tcache="unset", tcache_max="unset")
    assert genes("jemalloc", tcache="unset")["tcache_max"].condition is None


def test_a_setting_that_this_version_lacks_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"space.mimalloc.purge_delay: mimalloc 2.0.9 has no"):
        genes("mimalloc", purge_delay=[0])


def test_static_thresholds_wake_up_at_the_default_trim_threshold() -> None:
    trim = genes("glibc")["trim_threshold"]
    assert trim.levels[trim.resting] == 131072


@pytest.mark.parametrize("workload", [ONE_THREAD, SERVER])
def test_all_allocators_make_one_space_with_every_default_in_it(workload: WorkloadFacts) -> None:
    names = [n for n in allocator_names() if workload.n_threads == 1 or n != "exgen-st"]
    parts = {name: list(genes(name, workload=workload).values()) for name in names}
    space = joint_space(parts)
    defaults = [space.decode(genome) for genome in space.defaults()]
    assert [Configuration(name) for name in names] == defaults


def test_the_library_for_one_thread_refuses_a_workload_with_several() -> None:
    with pytest.raises(SpecError, match="6 threads allocate; use exgen"):
        genes("exgen-st", workload=SERVER)


def test_both_libraries_of_exgen_have_the_same_genes() -> None:
    levels = {name: gene.levels for name, gene in genes("exgen").items()}
    assert levels == {name: gene.levels for name, gene in genes("exgen-st").items()}


def test_exgen_offers_its_thread_genes_to_threads_only() -> None:
    assert {"remote_batch", "adopt"} <= genes("exgen", workload=SERVER).keys()
    assert genes("exgen").keys().isdisjoint({"remote_batch", "adopt"})


def test_what_unset_stands_for_decides_what_depends_on_it() -> None:
    """With purge_how unset, as with dontneed, which it stands for, purge_min acts."""
    condition = genes("exgen")["purge_min"].condition
    assert condition is not None
    assert condition.values == (None, "free", "unmap")


def test_unset_lies_among_the_numbers_where_a_mutation_finds_its_neighbours() -> None:
    gene = genes("exgen")["superblock_size"]
    numbers = [level for level in gene.levels if isinstance(level, int)]
    assert numbers == sorted(numbers)
    assert gene.levels[gene.resting] is None
    assert 0 < gene.resting < gene.n_levels - 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"check": True}, "never set: Verify every pointer"),
        ({"abort_conf": True}, "never set: A bad entry"),
        ({"purge_dely": 0}, "did you mean 'purge_delay'"),
        ({"purge_delay": "soon"}, "is not a whole number of milliseconds"),
        ({"remote_batch": "4 KiB"}, "count is counted in whole numbers"),
    ],
)
def test_settings_that_exgen_has_not_for_tuning_are_refused(
    settings: dict[str, Value], expected: str
) -> None:
    with pytest.raises(SpecError, match=expected):
        get_allocator("exgen").configuration(settings, "0.1.0")


# Rendering


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("glibc", {}, {}),
        (
            "glibc",
            {"trim_threshold": -1, "mxfast": 0},
            {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0:glibc.malloc.trim_threshold=-1"},
        ),
        (
            "tcmalloc",
            {"aggressive_decommit": True, "release_rate": 100000.0},
            {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1", "TCMALLOC_RELEASE_RATE": "100000"},
        ),
        ("tcmalloc", {"release_rate": 0.1}, {"TCMALLOC_RELEASE_RATE": "0.1"}),
        ("tcmalloc", {"release_rate": 0.0}, {"TCMALLOC_RELEASE_RATE": "0"}),
        ("jemalloc", {}, {"MALLOC_CONF": "abort_conf:true"}),
        (
            "jemalloc",
            {"retain": False, "dirty_decay_ms": -1},
            {"MALLOC_CONF": "abort_conf:true,dirty_decay_ms:-1,retain:false"},
        ),
        (
            "exgen",
            {"purge_how": "free", "prefault": True, "superblock_size": 65536},
            {"EXGEN_CONF": "abort_conf:true,prefault:true,purge_how:free,superblock_size:65536"},
        ),
        (
            "mimalloc",
            {"allow_decommit": False, "decommit_delay": 5},
            {"MIMALLOC_ALLOW_DECOMMIT": "0", "MIMALLOC_DECOMMIT_DELAY": "5"},
        ),
    ],
)
def test_settings_become_plain_decimals_and_literal_booleans(
    name: str, settings: dict[str, Value], expected: dict[str, str]
) -> None:
    assert expected == get_allocator(name).render(Configuration.of(name, settings))


def test_an_exported_exgen_does_not_stop_a_service() -> None:
    exgen = get_allocator("exgen")
    configuration = Configuration.of("exgen", {"prefault": True, "adopt": "thread"})
    assert exgen.render(Configuration("exgen"), for_export=True) == {}
    rendered = exgen.render(configuration, for_export=True)
    assert rendered == {"EXGEN_CONF": "adopt:thread,prefault:true"}


def test_an_exported_jemalloc_does_not_stop_a_service() -> None:
    jemalloc = get_allocator("jemalloc")
    configuration = Configuration.of("jemalloc", {"retain": False})
    assert jemalloc.render(Configuration("jemalloc"), for_export=True) == {}
    assert jemalloc.render(configuration, for_export=True) == {"MALLOC_CONF": "retain:false"}


def test_the_whole_environment_preloads_the_library() -> None:
    place = Installation("mimalloc", Path("/opt/libmimalloc.so"), "2.0.9")
    environment = get_allocator("mimalloc").environment(place, Configuration("mimalloc"))
    assert environment == {"LD_PRELOAD": "/opt/libmimalloc.so"}


@pytest.mark.parametrize(
    ("text", "expected"), [("64", 64), ("-1", -1), ("64 KiB", 65536), (3, 3), (2.0, 2)]
)
def test_texts_of_a_command_line_get_the_type_of_the_setting(text: Value, expected: int) -> None:
    configuration = get_allocator("glibc").configuration({"trim_threshold": text}, "2.36")
    assert Configuration.of("glibc", {"trim_threshold": expected}) == configuration


def test_a_time_may_be_written_with_its_unit() -> None:
    configuration = get_allocator("jemalloc").configuration({"dirty_decay_ms": "2 s"}, "5.3.0")
    assert Configuration.of("jemalloc", {"dirty_decay_ms": 2000}) == configuration


def test_glibc_is_not_named_with_a_path() -> None:
    with pytest.raises(SpecError, match="name it without a path"):
        get_allocator("glibc:/etc/passwd")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("glibc", {"mx_fast": "0"}, "did you mean 'mxfast'"),
        ("glibc", {"perturb": "1"}, "never set: debugging"),
        ("glibc", {"mxfast": "64K"}, "is not a size"),
        ("glibc", {"mxfast": True}, "is not a whole number"),
        ("glibc", {"tcache_count": "64K"}, "is not a whole number; blocks"),
        ("jemalloc", {"dirty_decay_ms": "64K"}, "is not a whole number of milliseconds"),
        ("tcmalloc", {"release_rate": "nan"}, "is not a number"),
        ("jemalloc", {"retain": "on"}, "is not true or false"),
        ("mimalloc", {"purge_delay": "0"}, "mimalloc 2.0.9 has no setting purge_delay"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_reason(
    name: str, settings: dict[str, Value], expected: str
) -> None:
    with pytest.raises(SpecError, match=expected):
        get_allocator(name).configuration(settings, VERSIONS[name])


# Read-back


@pytest.mark.parametrize("name", allocator_names())
def test_a_default_has_nothing_to_disagree_with(name: str) -> None:
    assert problems(recorded(name), name) == []


@pytest.mark.parametrize(
    ("settings", "observed"),
    [
        ({"tcache_count": 4096}, {"tcache_count": 4096}),
        ({"tcache_max": 1032}, {"tcache_max_bytes": 1032}),
        ({"tcache_max": 100}, {"tcache_max_bytes": 104}),
        ({"tcache_max": 9}, {"tcache_max_bytes": 24}),
        ({"mxfast": 0}, {"fast_chunk_max_bytes": 0}),
        ({"mxfast": 100}, {"fast_chunk_max_bytes": 96}),
        ({"trim_threshold": -1}, {"tunables": {"trim_threshold": 2**64 - 1}, "dynamic": False}),
        (
            {"top_pad": 0},
            {"top_after_growth_bytes": 2128, "dynamic": False},
        ),
        ({"hugetlb": 1}, {"tunables": {"hugetlb": 1}, "heap_end_is_huge_page_aligned": True}),
    ],
)
def test_glibc_settings_that_took_effect_agree(
    settings: dict[str, Value], observed: dict[str, Any]
) -> None:
    assert problems(recorded("glibc", **observed), "glibc", **settings) == []


@pytest.mark.parametrize(
    ("settings", "observed", "expected"),
    [
        (
            {"tcache_max": 5000},
            {"tunables": {"tcache_max": 5000}},
            "tcache_max = 5000 was not taken: 1032 is in effect",
        ),
        ({"tcache_count": 70000}, {}, "tcache_count = 70000 was not taken: 7 is in effect"),
        ({"mxfast": 200}, {}, "mxfast = 200 was not taken: 120 is in effect"),
        ({"arena_max": 0}, {}, "arena_max = 0 was not taken: 0 is in effect"),
        (
            {"mmap_threshold": 65536},
            {"tunables": {"mmap_threshold": 64}},
            "mmap_threshold = 65536 was not taken: 64 is in effect",
        ),
        (
            {"mmap_threshold": 65536},
            {"tunables": {"mmap_threshold": 65536}, "dynamic": True},
            "mmap_threshold = 65536 was not taken: 'the dynamic threshold' is in effect",
        ),
        ({"top_pad": 0}, {"dynamic": False}, "top_pad = 0 was not taken: 131072 is in effect"),
        (
            {"top_pad": 1 << 20},
            {"tunables": {"top_pad": 1 << 20}, "dynamic": False},
            "top_pad = 1048576 was not taken: 131072 is in effect",
        ),
        (
            {"hugetlb": 1},
            {"tunables": {"hugetlb": 1}, "heap_end_is_huge_page_aligned": False},
            "hugetlb = 1 was not taken: 0 is in effect",
        ),
    ],
)
def test_glibc_settings_that_were_clipped_or_dropped_are_reported(
    settings: dict[str, Value], observed: dict[str, Any], expected: str
) -> None:
    assert [expected] == problems(recorded("glibc", **observed), "glibc", **settings)


def test_a_switched_off_thread_cache_leaves_its_limit_to_the_range_check() -> None:
    report = recorded("glibc", tcache_count=0, tcache_max_bytes=0)
    assert problems(report, "glibc", tcache_count=0, tcache_max=512) == []
    assert problems(report, "glibc", tcache_count=0, tcache_max=5000) != []


def test_large_thread_cache_bins_are_believed_from_glibc_2_42_on() -> None:
    report = recorded("glibc", tcache_max_bytes=65536)
    new = replace(report, data={**report.data, "glibc_version": "2.42"})
    assert problems(new, "glibc", tcache_max=1 << 20) == []
    assert problems(report, "glibc", tcache_max=1 << 20) != []


@pytest.mark.parametrize(
    ("settings", "observed", "agrees"),
    [
        ({"aggressive_decommit": True}, {"tcmalloc.aggressive_memory_decommit": 1}, True),
        ({"aggressive_decommit": True}, {}, False),
        ({"max_total_thread_cache_bytes": 1024}, {}, False),
        ({"transfer_num_obj": 8192}, {"transfer_batch": 64}, True),
        ({"transfer_num_obj": 8}, {}, False),
        ({"transfer_num_obj": 9999}, {"transfer_batch": 64}, False),
        ({"release_rate": 10.0}, {"release_rate": 10}, True),
        ({"release_rate": 10.0}, {"release_rate": None}, True),
        ({"release_rate": 1e9}, {"release_rate": None}, False),
        ({"skip_sbrk": True}, {}, False),
    ],
)
def test_tcmalloc_settings_agree_only_when_seen_or_within_the_scale(
    settings: dict[str, Value], observed: dict[str, Any], agrees: bool
) -> None:
    assert agrees == (problems(recorded("tcmalloc", **observed), "tcmalloc", **settings) == [])


@pytest.mark.parametrize(
    ("settings", "observed", "agrees"),
    [
        ({"dirty_decay_ms": -1}, {"opt.dirty_decay_ms": -1}, True),
        ({"tcache_max": 1 << 30}, {"opt.tcache_max": 8 << 20}, False),
        ({"retain": False}, {}, False),
        ({"thp": "always"}, {"opt.thp": "always"}, True),
        ({"slab_sizes": "1-14336:64"}, {}, False),
        ({"cache_oblivious": False}, {"opt.cache_oblivious": False}, False),
        ({"narenas": 99999999}, {"opt.narenas": 99999999, "arenas.narenas": 4095}, False),
        ({"narenas": 3}, {"opt.narenas": 3, "arenas.narenas": 4}, True),
        (
            {"narenas": 3},
            {"opt.narenas": 3, "arenas.narenas": 3, "opt.oversize_threshold": 0},
            True,
        ),
        ({"tcache_max": 4000}, {"arenas.tcache_max": 4096}, True),
        ({"tcache_max": 0}, {"arenas.tcache_max": 8}, False),
        ({"tcache_nslots_small_max": 7}, {"opt.tcache_nslots_small_max": 7}, False),
        ({"tcache_gc_delay_bytes": 4 << 20}, {"opt.tcache_gc_delay_bytes": 4 << 20}, False),
        ({"tcache_gc_delay_bytes": 2 << 20}, {"opt.tcache_gc_delay_bytes": 2 << 20}, True),
    ],
)
def test_jemalloc_settings_agree_only_when_mallctl_says_so(
    settings: dict[str, Value], observed: dict[str, Any], agrees: bool
) -> None:
    report = recorded("jemalloc", **observed)
    if "cache_oblivious" in settings:
        with pytest.raises(ValueError, match="no setting cache_oblivious"):
            get_allocator("jemalloc").file.find("cache_oblivious", "5.3.0")
        return
    assert agrees == (problems(report, "jemalloc", **settings) == [])


@pytest.mark.parametrize(
    ("options", "derived", "settings", "expected"),
    [
        ({"purge_delay": 100}, {}, {"purge_delay": 100}, []),
        ({}, {}, {"purge_delay": 100}, ["purge_delay = 100 was not taken: 25 is in effect"]),
        ({}, {}, {"magic": 1}, ["magic = 1 was not taken: the allocator does not know it"]),
        ({"prefault": True}, {}, {"prefault": True}, []),
        (
            {"small_max": 8192},
            {"largest_small_bytes": 4096},
            {"small_max": 8192},
            ["small_max = 8192 was not taken: 4096 is in effect"],
        ),
        (
            {"large_min": 1048576},
            {"largest_run_bytes": 524288},
            {"large_min": 1048576},
            ["large_min = 1048576 was not taken: 524289 is in effect"],
        ),
    ],
)
def test_exgen_settings_agree_only_when_nothing_cut_them_back(
    options: dict[str, Value],
    derived: dict[str, int],
    settings: dict[str, Value],
    expected: list[str],
) -> None:
    account = recorded("exgen").of("exgen")
    report = recorded(
        "exgen",
        options={**account["options"], **options},
        derived={**account["derived"], **derived},
    )
    assert expected == problems(report, "exgen", **settings)


def test_a_setting_is_searched_only_where_the_library_knows_it() -> None:
    """Debian 13's mimalloc 3.0.1 lacks what later versions of 3 have."""
    file = get_allocator("mimalloc").file
    for name in ("minimal_purge_size", "allow_thp", "page_reclaim_on_free", "generic_collect"):
        with pytest.raises(ValueError, match=f"no setting {name}"):
            file.find(name, "3.0.1")
        assert file.find(name, "3.2.6").name == name
    assert file.find("page_full_retain", "3.0.1").name == "page_full_retain"


def test_slabs_are_compared_bin_by_bin() -> None:
    blocks = recorded("jemalloc").of("jemalloc")["bin_block_bytes"]
    slabs = [expected_slab(block, 4, 4096) for block in blocks]
    report = recorded("jemalloc", bin_slab_bytes=slabs)
    assert problems(report, "jemalloc", slab_sizes="1-14336:4") == []
    assert problems(report, "jemalloc", slab_sizes="1-14336:8") != []
    assert get_allocator("jemalloc").effective(report)["slab_sizes"] == "1-14336:4"


def test_a_number_of_pages_that_no_bin_can_have_is_refused() -> None:
    blocks = recorded("jemalloc").of("jemalloc")["bin_block_bytes"]
    report = recorded("jemalloc", bin_slab_bytes=[expected_slab(b, 0, 4096) for b in blocks])
    assert problems(report, "jemalloc", slab_sizes="1-14336:0") != []


@pytest.mark.parametrize(
    ("block", "pages", "expected"), [(8, 64, 4096), (16, 2, 8192), (14336, 1, 16384)]
)
def test_a_slab_holds_one_to_512_blocks(block: int, pages: int, expected: int) -> None:
    assert expected == expected_slab(block, pages, 4096)


@pytest.mark.parametrize(
    ("setting", "asked", "shown", "agrees"),
    [
        ("decommit_delay", 0, "0", True),
        ("decommit_delay", 0, "25", False),
        ("allow_decommit", False, "0", True),
        ("max_segment_reclaim", 0, "0", False),
        ("max_segment_reclaim", 64, "64", True),
    ],
)
def test_mimalloc_settings_agree_only_when_printed(
    setting: str, asked: Value, shown: str, agrees: bool
) -> None:
    line = f"mimalloc: option '{setting}': {shown}"
    report = replace(recorded("mimalloc"), messages=line)
    assert agrees == (problems(report, "mimalloc", **{setting: asked}) == [])


def test_an_option_that_mimalloc_does_not_print_is_unknown_to_it() -> None:
    report = replace(recorded("mimalloc"), messages="mimalloc: option 'verbose': 1")
    assert problems(report, "mimalloc", decommit_delay=0) == [
        "decommit_delay = 0 was not taken: the allocator does not know it"
    ]


def test_nothing_is_believed_when_mimalloc_printed_nothing() -> None:
    report = replace(recorded("mimalloc"), messages="")
    assert problems(report, "mimalloc", max_segment_reclaim=64) != []


def fake_probe(monkeypatch: pytest.MonkeyPatch, adapter: Allocator, report: ProbeReport) -> None:
    monkeypatch.setattr(adapter, "observe", lambda _environment: report)


def test_a_library_that_is_not_the_one_in_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    adapter = get_allocator("jemalloc")
    fake_probe(monkeypatch, adapter, recorded("jemalloc"))
    other = tmp_path / "libjemalloc.so"
    with pytest.raises(SettingError, match=f"malloc comes from .*, not {other}"):
        adapter.read_back(Installation("jemalloc", other, "5.3.0"), Configuration("jemalloc"))


def test_a_forbidden_setting_is_refused_before_anything_runs() -> None:
    configuration = Configuration.of("glibc", {"perturb": 1})
    with pytest.raises(SettingError, match="never set"):
        get_allocator("glibc").read_back(installation("glibc"), configuration)


def test_the_message_names_allocator_setting_asked_and_effective_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adapter = get_allocator("glibc")
    fake_probe(monkeypatch, adapter, recorded("glibc"))
    with pytest.raises(SettingError) as caught:
        adapter.read_back(installation("glibc"), Configuration.of("glibc", {"tcache_max": 5000}))
    expected = "glibc 2.36: tcache_max = 5000 was not taken: 1032 is in effect"
    assert expected == str(caught.value)


# Finding libraries


def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.allocators.base.find_library", lambda _soname: None)
    with pytest.raises(MissingToolError, match="sudo apt-get install libjemalloc2"):
        get_allocator("jemalloc").locate()


def test_a_library_of_ones_own_must_exist() -> None:
    with pytest.raises(MissingToolError, match=r"/opt/none.so: no such file"):
        get_allocator("jemalloc:/opt/none.so").locate()


def test_a_library_of_another_kind_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "libother.so"
    library.touch()
    adapter = get_allocator(f"tcmalloc:{library}")
    fake_probe(monkeypatch, adapter, recorded("jemalloc"))
    with pytest.raises(MissingToolError, match="is not gperftools tcmalloc"):
        adapter.locate()


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = get_allocator("glibc")
    report = recorded("glibc")
    old = replace(report, data={**report.data, "glibc_version": "2.31"})
    fake_probe(monkeypatch, adapter, old)
    with pytest.raises(MissingToolError, match=r"glibc 2.31 at libc is not supported; need >=2.33"):
        adapter.locate()


def test_the_cache_of_the_loader_lists_64_bit_libraries() -> None:
    lines = [
        "2 libs found in cache `/etc/ld.so.cache'",
        "\tlibjemalloc.so.2 (libc6) => /lib/i386-linux-gnu/libjemalloc.so.2",
        "\tlibjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2",
        "\tlibother.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libother.so.2",
    ]
    expected = [Path("/lib/x86_64-linux-gnu/libjemalloc.so.2")]
    assert expected == list(parse_ldconfig(lines, "libjemalloc.so.2"))


# Reports of the allocators themselves


def test_the_list_of_the_loader_is_read_in_hexadecimal_and_decimal() -> None:
    text = (
        "glibc.malloc.trim_threshold: 0xffffffffffffffff (min: 0x0, max: 0xffffffffffffffff)\n"
        "glibc.malloc.check: 0 (min: 0, max: 3)\nnoise\n"
    )
    assert parse_tunables(text) == {
        "glibc.malloc.trim_threshold": Tunable(2**64 - 1, 0, 2**64 - 1),
        "glibc.malloc.check": Tunable(0, 0, 3),
    }


@pytest.mark.parametrize(
    ("number", "expected"), [(209, "2.0.9"), (217, "2.1.7"), (315, "3.1.5"), (30403, "3.4.3")]
)
def test_both_forms_of_mimalloc_version_numbers_are_read(number: int, expected: str) -> None:
    assert expected == version_text(number)


def test_version_3_of_mimalloc_prints_its_name_only_once() -> None:
    text = "mimalloc: process init: 0x7F\nv3.4.3, release\noption 'purge_delay': 1000 \n"
    assert parse_options(text) == {"purge_delay": 1000}


def test_sizes_that_mimalloc_prints_in_kibibytes_become_bytes() -> None:
    text = "mimalloc: option 'arena_reserve': 1048576 KiB\nmimalloc: option 'minimal_purge_size': 4"
    assert parse_options(text) == {"arena_reserve": 1 << 30, "minimal_purge_size": 4096}
