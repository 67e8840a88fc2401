"""exgen: its two libraries, and the settings of its own list."""

from dataclasses import replace

import pytest

from tests.doubles.probes import SERVER, genes, problems, recorded
from tuner.allocators import get_allocator
from tuner.errors import SpecError
from tuner.records import Configuration, Value


def test_the_libraries_of_exgen_are_distinguished():
    assert get_allocator("exgen-st").version_of(recorded("exgen")) == ""
    assert get_allocator("exgen").version_of(recorded("exgen-st")) == ""


def test_the_library_for_one_thread_refuses_a_workload_with_several():
    with pytest.raises(SpecError, match="6 threads allocate; use exgen"):
        genes("exgen-st", workload=SERVER)


def test_both_libraries_of_exgen_have_the_same_genes():
    levels = {name: gene.levels for name, gene in genes("exgen").items()}
    assert levels == {name: gene.levels for name, gene in genes("exgen-st").items()}


def test_exgen_offers_its_thread_genes_to_threads_only():
    of_threads = {"remote_batch", "adopt"}
    assert of_threads <= genes("exgen", workload=SERVER).keys()
    assert genes("exgen").keys().isdisjoint(of_threads)


def test_exgen_offers_its_timer_to_what_rests_only():
    assert "timer" not in genes("exgen", workload=replace(SERVER, duration_ns=10**9))
    assert "timer" in genes("exgen", workload=replace(SERVER, n_threads=1))
    assert "timer" not in genes("exgen-st", workload=replace(SERVER, n_threads=1))


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
):
    with pytest.raises(SpecError, match=expected):
        get_allocator("exgen").configuration(settings, "0.1.0")


def test_an_exported_exgen_does_not_stop_a_service():
    exgen = get_allocator("exgen")
    configuration = Configuration.of("exgen", {"prefault": True, "adopt": "thread"})
    assert exgen.render(Configuration("exgen"), for_export=True) == {}
    rendered = exgen.render(configuration, for_export=True)
    assert rendered == {"EXGEN_CONF": "adopt:thread,prefault:true"}


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
):
    account = recorded("exgen").of("exgen")
    report = recorded(
        "exgen",
        options={**account["options"], **options},
        derived={**account["derived"], **derived},
    )
    assert expected == problems(report, "exgen", **settings)


def test_a_setting_is_searched_only_where_the_library_knows_it():
    """Debian 13's mimalloc 3.0.1 lacks what later versions of 3 have."""
    file = get_allocator("mimalloc").file
    for name in ("minimal_purge_size", "allow_thp", "page_reclaim_on_free", "generic_collect"):
        with pytest.raises(ValueError, match=f"{name} is not offered"):
            file.find(name, "3.0.1")
        assert file.find(name, "3.2.6").name == name
    assert file.find("page_full_retain", "3.0.1").name == "page_full_retain"
