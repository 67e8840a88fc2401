"""mimalloc: names by version, and the options it prints."""

from dataclasses import replace

import pytest

from tests.doubles.probes import SERVER, genes, problems, recorded
from tuner.allocators import HostFacts, get_allocator
from tuner.allocators.mimalloc import parse_options, version_text
from tuner.config import shipped_allocator_file
from tuner.records import Configuration, Value


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("2.0.9", "decommit_delay", "purge_delay"),
        ("2.0.3", "allow_decommit", "decommit_delay"),
        ("2.1.1", "decommit_delay", "purge_delay"),
        ("2.1.2", "purge_delay", "decommit_delay"),
        ("2.1.4", "disallow_arena_alloc", "allow_thp"),
        ("2.2.4", "allow_large_os_pages", "allow_thp"),
        ("2.2.6", "allow_thp", "allow_large_os_pages"),
        ("3.0.1", "allow_large_os_pages", "allow_thp"),
        ("3.1.5", "allow_large_os_pages", "minimal_purge_size"),
        ("3.1.6", "allow_thp", "allow_large_os_pages"),
        ("3.4.3", "page_full_retain", "abandoned_page_purge"),
    ],
)
def test_the_mimalloc_version_decides_the_names(version: str, present: str, absent: str):
    found = genes("mimalloc", version, workload=SERVER)
    assert present in found
    assert absent not in found


@pytest.mark.parametrize(
    ("setting", "without", "having"),
    [
        ("generic_collect", ["2.1.9", "3.0.10"], ["2.2.2", "3.1.4"]),
        ("page_reclaim_on_free", ["2.4.1", "3.0.1"], ["3.0.3"]),
        ("arena_reserve", ["2.1.1"], ["2.1.2", "3.4.3"]),
        ("arena_eager_commit", ["2.1.1"], ["2.1.2", "3.4.3"]),
        ("disallow_arena_alloc", ["2.1.2"], ["2.1.4", "3.4.3"]),
    ],
)
def test_a_setting_is_offered_from_the_version_that_has_it(
    setting: str, without: list[str], having: list[str]
):
    file = shipped_allocator_file("mimalloc")
    for version in having:
        assert file.find(setting, version).name == setting
    for version in without:
        with pytest.raises(ValueError, match=f"{setting} is not offered for mimalloc {version}"):
            file.find(setting, version)


@pytest.mark.parametrize(
    ("version", "setting", "levels"),
    [
        ("2.1.7", "allow_large_os_pages", (None, True)),
        ("3.0.1", "allow_large_os_pages", (None, 0)),
        ("2.4.1", "allow_thp", (None, 0)),
        ("3.4.3", "allow_thp", (None, 0, 2)),
    ],
)
def test_huge_pages_are_asked_for_or_forbidden(
    version: str, setting: str, levels: tuple[object, ...]
):
    assert genes("mimalloc", version)[setting].levels == levels


def test_huge_pages_can_be_forbidden_in_every_mode_that_has_them():
    for mode, has in {"always": True, "madvise": True, "never": False}.items():
        assert has == ("allow_thp" in genes("mimalloc", "3.4.3", HostFacts(mode, 4, 4096)))


def test_what_forbids_huge_pages_wants_none():
    mimalloc = get_allocator("mimalloc")
    for settings, wants in (
        ({"allow_thp": 0}, False),
        ({"allow_large_os_pages": 0}, False),
        ({"allow_large_os_pages": True}, True),
        ({"large_os_pages": True}, True),
    ):
        assert wants == mimalloc.wants_huge_pages(Configuration.of("mimalloc", settings))


@pytest.mark.parametrize(("version", "least"), [("3.1.6", 64 << 10), ("3.4.3", 128 << 10)])
def test_pieces_that_are_given_back_are_larger_than_by_default(version: str, least: int):
    gene = genes("mimalloc", version)["minimal_purge_size"]
    assert gene.levels[1] == least
    assert gene.condition is not None
    assert not {-1, 0} & {*gene.condition.values}


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
):
    line = f"mimalloc: option '{setting}': {shown}"
    report = replace(recorded("mimalloc"), messages=line)
    assert agrees == (problems(report, "mimalloc", **{setting: asked}) == [])


def test_an_option_that_mimalloc_does_not_print_is_unknown_to_it():
    report = replace(recorded("mimalloc"), messages="mimalloc: option 'verbose': 1")
    assert problems(report, "mimalloc", decommit_delay=0) == [
        "decommit_delay = 0 was not taken: the allocator does not know it"
    ]


def test_nothing_is_believed_when_mimalloc_printed_nothing():
    report = replace(recorded("mimalloc"), messages="")
    assert problems(report, "mimalloc", max_segment_reclaim=64) != []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (209, "2.0.9"),
        (217, "2.1.7"),
        (315, "3.1.5"),
        (3010, "3.0.10"),
        (3206, "3.2.6"),
        (30403, "3.4.3"),
    ],
)
def test_all_forms_of_mimalloc_version_numbers_are_read(number: int, expected: str):
    assert expected == version_text(number)


def test_version_3_of_mimalloc_prints_its_name_only_once():
    text = "mimalloc: process init: 0x7F\nv3.4.3, release\noption 'purge_delay': 1000 \n"
    assert parse_options(text) == {"purge_delay": 1000}


def test_sizes_that_mimalloc_prints_in_kibibytes_become_bytes():
    text = "mimalloc: option 'arena_reserve': 1048576 KiB\nmimalloc: option 'minimal_purge_size': 4"
    assert parse_options(text) == {"arena_reserve": 1 << 30, "minimal_purge_size": 4096}
