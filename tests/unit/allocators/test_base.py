"""Adapters against recorded probe reports: versions, genes, rendering, and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.doubles.probes import (
    HOST,
    ONE_THREAD,
    SERVER,
    VERSIONS,
    genes,
    installation,
    problems,
    recorded,
)
from tuner.allocators import (
    Allocator,
    HostFacts,
    Installation,
    WorkloadFacts,
    all_allocators,
    get_allocator,
)
from tuner.allocators.probe import ProbeReport
from tuner.config import load_allocator_file
from tuner.errors import MissingToolError, SettingError, SpecError
from tuner.records import Configuration, Value
from tuner.registry import ALLOCATORS
from tuner.space import joint_space


def test_every_shipped_file_has_an_adapter():
    assert tuple(ALLOCATORS) == tuple(allocator.name for allocator in all_allocators())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gemalloc", "did you mean 'jemalloc'"),
        (
            "mine:/none.so",
            "'mine' is no known kind of allocator; NAME in .* jemalloc, mimalloc, exgen or",
        ),
        (
            "jemaloc:/none.so",
            "'jemaloc' is no known kind of allocator; did you mean 'jemalloc'\\? NAME",
        ),
        ("jemalloc:", "'jemalloc:' names no library"),
        ("jemalloc:a.so", "a colon or a blank cannot be preloaded"),
        ("jemalloc:/a:b.so", "a colon or a blank cannot be preloaded"),
        ("jemalloc:/b\udcfc/a.so", r"/b\\xfc/a\.so: holds bytes that are not UTF-8; rename it"),
    ],
)
def test_what_is_no_allocator_is_refused(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path / "a b")
    with pytest.raises(SpecError, match=why):
        get_allocator(name)


@pytest.mark.parametrize("name", tuple(ALLOCATORS))
def test_the_version_is_what_the_library_says(name: str):
    assert VERSIONS[name] == get_allocator(name).version_of(recorded(name))


@pytest.mark.parametrize("name", [name for name in ALLOCATORS if name != "glibc"])
def test_another_malloc_has_no_version(name: str):
    assert get_allocator(name).version_of(recorded("glibc")) == ""


def test_a_single_thread_has_no_arena_genes():
    assert "arena_max" not in genes("glibc")
    assert "narenas" not in genes("jemalloc")


def test_arenas_stop_at_the_number_of_threads():
    assert genes("glibc", workload=SERVER)["arena_max"].levels == (None, 1, 2, 4, 8)


def test_a_cut_scale_keeps_unset_where_its_number_stands(tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(
        'schema = 1\nname = "glibc"\ntitle = "t"\n[library]\npackage = "libc6"\n'
        '[[parameters]]\nname = "arena_max"\nscale = "log2"\nlow = 1\nhigh = 64\ndefault = 2\n'
        'limit = "threads"\neffect = "e"\nsource = "s"\n'
    )
    glibc = get_allocator("glibc", load_allocator_file(path))
    (gene,) = glibc.parameters(installation("glibc"), HOST, SERVER)
    assert gene.levels == (1, None, 4, 8)


@pytest.mark.parametrize(
    ("mode", "expected"), [("madvise", True), ("always", False), ("never", False)]
)
def test_huge_page_genes_need_the_mode_madvise(mode: str, expected: bool):
    assert expected == ("hugetlb" in genes("glibc", host=HostFacts(mode, 4, 4096)))


def test_of_several_entries_the_first_that_fits_the_version_counts(tmp_path: Path):
    entry = (
        '[[parameters]]\nname = "{}"\nscale = "ordinal"\nvalues = [{}]\neffect="e"\nsource="s"\n'
    )
    head = 'schema = 1\nname = "glibc"\ntitle = "t"\n[library]\npackage = "libc6"\n'
    path = tmp_path / "own.toml"
    path.write_text(head + entry.format("mxfast", 24) + entry.format("mxfast", 40))
    glibc = get_allocator("glibc", load_allocator_file(path))
    (gene,) = glibc.parameters(installation("glibc"), HOST, ONE_THREAD)
    assert gene.levels == (None, 24)


def test_optional_genes_join_only_when_named():
    assert "tcache_gc_delay_bytes" not in genes("jemalloc")
    assert "tcache_gc_delay_bytes" in genes("jemalloc", tcache_gc_delay_bytes="all")


def test_a_narrowed_gene_keeps_unset_because_defaults_are_always_measured():
    assert genes("glibc", tcache_count=[64, 0])["tcache_count"].levels == (None, 0, 64)


def test_a_gene_that_is_never_set_leaves_the_search():
    assert "mxfast" not in genes("glibc", mxfast="unset")


def test_children_of_a_switched_off_parent_leave_too():
    assert "trim_threshold" not in genes("glibc", mode="dynamic")
    assert "tcache_max" not in genes("jemalloc", tcache="unset", tcache_max="unset")
    assert genes("jemalloc", tcache="unset")["tcache_max"].condition is None


def test_a_setting_that_this_version_lacks_is_an_error():
    with pytest.raises(SpecError, match=r"space.mimalloc.purge_delay: purge_delay is not offered"):
        genes("mimalloc", purge_delay=[0])


@pytest.mark.parametrize("workload", [ONE_THREAD, SERVER])
def test_all_allocators_make_one_space_with_every_default_in_it(workload: WorkloadFacts):
    names = [n for n in tuple(ALLOCATORS) if workload.n_threads == 1 or n != "exgen-st"]
    parts = {name: list(genes(name, workload=workload).values()) for name in names}
    space = joint_space(parts)
    defaults = [space.decode(genome) for genome in space.defaults()]
    assert [Configuration(name) for name in names] == defaults


def test_what_unset_stands_for_decides_what_depends_on_it():
    """With purge_how unset, as with dontneed, which it stands for, purge_min acts."""
    condition = genes("exgen")["purge_min"].condition
    assert condition is not None
    assert condition.values == (None, "free", "unmap")


def test_unset_lies_among_the_numbers_where_a_mutation_finds_its_neighbours():
    gene = genes("exgen")["superblock_size"]
    numbers = [level for level in gene.levels if isinstance(level, int)]
    assert numbers == sorted(numbers)
    assert gene.levels[gene.resting] is None
    assert 0 < gene.resting < gene.n_levels - 1


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
):
    assert expected == get_allocator(name).render(Configuration.of(name, settings))


def test_the_whole_environment_preloads_the_library():
    place = Installation("mimalloc", Path("/opt/libmimalloc.so"), "2.0.9")
    environment = get_allocator("mimalloc").environment(place, Configuration("mimalloc"))
    assert environment == {"LD_PRELOAD": "/opt/libmimalloc.so"}


@pytest.mark.parametrize(
    ("text", "expected"), [("64", 64), ("-1", -1), ("64 KiB", 65536), (3, 3), (2.0, 2)]
)
def test_texts_of_a_command_line_get_the_type_of_the_setting(text: Value, expected: int):
    configuration = get_allocator("glibc").configuration({"trim_threshold": text}, "2.36")
    assert Configuration.of("glibc", {"trim_threshold": expected}) == configuration


def test_a_time_may_be_written_with_its_unit():
    configuration = get_allocator("jemalloc").configuration({"dirty_decay_ms": "2 s"}, "5.3.0")
    assert Configuration.of("jemalloc", {"dirty_decay_ms": 2000}) == configuration


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
        (
            "mimalloc",
            {"purge_delay": "0"},
            "purge_delay is not offered for mimalloc 2.0.9; it is for >=2.1.2",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_a_reason(
    name: str, settings: dict[str, Value], expected: str
):
    with pytest.raises(SpecError, match=expected):
        get_allocator(name).configuration(settings, VERSIONS[name])


@pytest.mark.parametrize(
    ("name", "settings", "allowed"),
    [
        ("glibc", {"mmap_threshold": -5}, "0 or more"),
        ("jemalloc", {"dirty_decay_ms": -2}, "0 or more, or -1"),
    ],
)
def test_a_negative_value_is_refused_with_what_is_allowed(
    name: str, settings: dict[str, Value], allowed: str
):
    (found,) = problems(recorded(name), name, **settings)

    assert found.endswith(f"is refused: it is negative; allowed is {allowed}")


def test_a_delay_that_wraps_around_on_the_clock_is_refused():
    (found,) = problems(recorded("mimalloc"), "mimalloc", decommit_delay=2**63 - 1)

    assert found.endswith(f"no clock counts so many ms; allowed are at most {2**53}")


@pytest.mark.parametrize("name", tuple(ALLOCATORS))
def test_a_default_has_nothing_to_disagree_with(name: str):
    assert problems(recorded(name), name) == []


def count_probes(
    monkeypatch: pytest.MonkeyPatch, adapter: Allocator, report: ProbeReport
) -> list[Mapping[str, str]]:
    """Return the environments that the adapter's probe is run with from now on."""
    seen: list[Mapping[str, str]] = []

    def observe(environment: Mapping[str, str]) -> ProbeReport:
        seen.append(environment)
        return report

    monkeypatch.setattr(adapter, "observe", observe)
    return seen


def test_a_library_that_is_not_the_one_in_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    adapter = get_allocator("jemalloc")
    count_probes(monkeypatch, adapter, recorded("jemalloc"))
    other = tmp_path / "libjemalloc.so"
    with pytest.raises(SettingError, match=f"malloc comes from .*, not {other}"):
        adapter.read_back(Installation("jemalloc", other, "5.3.0"), Configuration("jemalloc"))


def test_a_forbidden_setting_is_refused_before_anything_runs():
    configuration = Configuration.of("glibc", {"perturb": 1})
    with pytest.raises(SettingError, match="never set"):
        get_allocator("glibc").read_back(installation("glibc"), configuration)


def test_the_message_names_allocator_setting_asked_and_effective_value(
    monkeypatch: pytest.MonkeyPatch,
):
    adapter = get_allocator("glibc")
    count_probes(monkeypatch, adapter, recorded("glibc"))
    with pytest.raises(SettingError) as caught:
        adapter.read_back(installation("glibc"), Configuration.of("glibc", {"tcache_max": 5000}))
    expected = "glibc 2.36: tcache_max = 5000 was not taken: 1032 is in effect"
    assert expected == str(caught.value)


def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tuner.allocators.base.find_library", lambda _soname: None)
    with pytest.raises(MissingToolError, match="sudo apt-get install libjemalloc2"):
        get_allocator("jemalloc").locate()


def test_packages_of_newer_and_older_releases_are_named():
    how = get_allocator("mimalloc").how_to_install()
    assert "`sudo apt-get install libmimalloc3` (libmimalloc2.0 where there is none)" in how


def test_a_library_of_ones_own_must_exist():
    with pytest.raises(MissingToolError) as caught:
        get_allocator("jemalloc:/opt/none.so").locate()
    why = "no such file; name one that is there, or jemalloc without a path"
    assert str(caught.value) == f"jemalloc: /opt/none.so: {why}"


def test_a_library_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    library = tmp_path / "libother.so"
    library.touch()
    adapter = get_allocator(f"tcmalloc:{library}")
    count_probes(monkeypatch, adapter, recorded("jemalloc"))
    with pytest.raises(MissingToolError, match="is not gperftools tcmalloc"):
        adapter.locate()


def test_a_library_that_another_takes_the_place_of_is_refused(
    monkeypatch: pytest.MonkeyPatch, working_folder: Path
):
    (working_folder / "mine.so").touch()
    adapter = get_allocator("jemalloc:mine.so")
    seen = count_probes(monkeypatch, adapter, recorded("jemalloc"))
    with pytest.raises(MissingToolError, match=f"not {working_folder}/mine.so"):
        adapter.locate()
    assert seen == [{"LD_PRELOAD": f"{working_folder}/mine.so"}]


def test_an_allocator_that_ends_the_probe_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    library = tmp_path / "libbad.so"
    library.touch()
    adapter = get_allocator(f"jemalloc:{library}")
    monkeypatch.setattr(adapter, "observe", Mock(side_effect=SettingError("it hung")))
    with pytest.raises(MissingToolError, match=f"^jemalloc: {library}: it hung$"):
        adapter.locate()


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("2.31", r"glibc 2.31 at libc is not supported; need >=2.33"),
        ("v2.36", "glibc: its version, 'v2.36', begins with no number"),
    ],
)
def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, why: str):
    adapter = get_allocator("glibc")
    report = recorded("glibc")
    old = replace(report, data={**report.data, "glibc_version": version})
    count_probes(monkeypatch, adapter, old)
    with pytest.raises(MissingToolError, match=why):
        adapter.locate()


def test_what_took_effect_before_is_not_run_again(monkeypatch: pytest.MonkeyPatch):
    adapter = get_allocator("glibc")
    seen = count_probes(monkeypatch, adapter, recorded("glibc"))
    for _ in range(2):
        adapter.read_back(installation("glibc"), Configuration.of("glibc", {"tcache_count": 7}))
    assert len(seen) == 1


def test_settings_of_a_variable_each_are_proved_each(monkeypatch: pytest.MonkeyPatch):
    adapter = get_allocator("mimalloc")
    messages = "option 'page_reset': 1\noption 'decommit_delay': 0\n"
    seen = count_probes(monkeypatch, adapter, replace(recorded("mimalloc"), messages=messages))
    for settings in ({"page_reset": True}, {"decommit_delay": 0}):
        adapter.read_back(installation("mimalloc"), Configuration.of("mimalloc", settings))
    both = Configuration.of("mimalloc", {"page_reset": True, "decommit_delay": 0})
    adapter.read_back(installation("mimalloc"), both)
    assert len(seen) == 2


def test_settings_that_share_a_variable_are_proved_together(monkeypatch: pytest.MonkeyPatch):
    adapter = get_allocator("glibc")
    seen = count_probes(monkeypatch, adapter, recorded("glibc"))
    for settings in ({"tcache_count": 7}, {"mxfast": 128}, {"tcache_count": 7, "mxfast": 128}):
        adapter.read_back(installation("glibc"), Configuration.of("glibc", settings))
    assert len(seen) == 3


def test_what_was_refused_is_refused_again(monkeypatch: pytest.MonkeyPatch):
    adapter = get_allocator("mimalloc")
    seen = count_probes(monkeypatch, adapter, recorded("mimalloc"))
    for _ in range(2):
        with pytest.raises(SettingError, match="was not taken"):
            adapter.read_back(
                installation("mimalloc"), Configuration.of("mimalloc", {"page_reset": True})
            )
    assert len(seen) == 2
