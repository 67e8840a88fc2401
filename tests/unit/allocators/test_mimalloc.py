"""mimalloc: names by version, and the options it prints."""

from dataclasses import replace

import pytest

from tests.doubles.probes import SERVER, genes, problems, recorded
from tuner.allocators.mimalloc import parse_options, version_text
from tuner.records import Value


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("2.0.9", "decommit_delay", "purge_delay"),
        ("2.2.4", "purge_delay", "decommit_delay"),
        ("3.4.3", "page_full_retain", "abandoned_page_purge"),
    ],
)
def test_the_mimalloc_version_decides_the_names(version: str, present: str, absent: str):
    found = genes("mimalloc", version, workload=SERVER)
    assert present in found
    assert absent not in found


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
    ("number", "expected"), [(209, "2.0.9"), (217, "2.1.7"), (315, "3.1.5"), (30403, "3.4.3")]
)
def test_both_forms_of_mimalloc_version_numbers_are_read(number: int, expected: str):
    assert expected == version_text(number)


def test_version_3_of_mimalloc_prints_its_name_only_once():
    text = "mimalloc: process init: 0x7F\nv3.4.3, release\noption 'purge_delay': 1000 \n"
    assert parse_options(text) == {"purge_delay": 1000}


def test_sizes_that_mimalloc_prints_in_kibibytes_become_bytes():
    text = "mimalloc: option 'arena_reserve': 1048576 KiB\nmimalloc: option 'minimal_purge_size': 4"
    assert parse_options(text) == {"arena_reserve": 1 << 30, "minimal_purge_size": 4096}
