"""tcmalloc: settings that are seen, or within their scale."""

from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.probes import SERVER, genes, problems, recorded
from tuner.config import is_version_in, shipped_allocator_file
from tuner.records import Value


@pytest.mark.parametrize(
    ("version", "expected"), [("2.0", False), ("2.5", False), ("2.6", True), ("2.18.1", True)]
)
def test_a_tcmalloc_whose_defaults_or_settings_are_others_is_not_taken(
    version: str, *, expected: bool
):
    assert expected == is_version_in(version, shipped_allocator_file("tcmalloc").library.versions)


def test_the_release_rate_needs_gibibytes_of_frees():
    assert "release_rate" in genes("tcmalloc", workload=SERVER)
    assert "release_rate" not in genes("tcmalloc", workload=replace(SERVER, freed_bytes=None))


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
):
    assert agrees == (problems(recorded("tcmalloc", **observed), "tcmalloc", **settings) == [])
