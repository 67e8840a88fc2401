"""Subjects of a comparison."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.bench import ALICE, BOB
from tests.doubles.places import ROOT
from tests.doubles.runs import synthetic_run, trial
from tuner.allocators import Allocator, Installation, get_allocator
from tuner.bench import subjects
from tuner.bench.subjects import check_labels, library_subject, pick_subject, with_variables
from tuner.errors import MissingToolError, SpecError
from tuner.records import Configuration
from tuner.store import AllocatorRecord


@pytest.mark.parametrize("text", ["mine", "mine=", "=/lib/x.so"])
def test_a_library_needs_a_name_and_a_path(text: str):
    with pytest.raises(SpecError, match="NAME=PATH"):
        library_subject(text)


def test_a_library_that_is_not_there_is_an_error():
    with pytest.raises(MissingToolError, match=r"/no/such\.so: no such file"):
        library_subject("mine=/no/such.so")


@pytest.mark.parametrize(
    ("name", "why"), [("a b.so", "cannot be preloaded"), ("b\udcfc.so", r"b\\xfc\.so: .* UTF-8")]
)
def test_a_path_that_no_run_can_have_is_refused(tmp_path: Path, name: str, why: str):
    """The loader would split it, or the answer of the run could not hold it."""
    library = tmp_path / name
    library.touch()

    with pytest.raises(SpecError, match=why):
        library_subject(f"mine={library}")


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the library was that a run of jemalloc 5.3.0 measured; another is found."""
    library = tmp_path / "measured.so"
    run = synthetic_run()
    record = AllocatorRecord(str(library), "5.3.0")
    campaign = replace(run.campaign, allocators={**run.campaign.allocators, "jemalloc": record})

    def locate(_: Allocator, path: Path | None = None) -> Installation:
        return Installation("jemalloc", path or tmp_path / "found.so", "5.3.0")

    monkeypatch.setattr(subjects, "load_run", lambda _: replace(run, campaign=campaign))
    monkeypatch.setattr(Allocator, "locate", locate)
    monkeypatch.setattr(Allocator, "read_back", lambda *_: None)
    return library


def test_a_pick_runs_with_the_library_that_was_measured(measured: Path):
    measured.touch()

    assert pick_subject("run:trial-2").library == measured


def test_a_pick_whose_library_is_gone_runs_with_the_one_that_is_here(measured: Path):
    assert pick_subject("run:trial-2").library == measured.with_name("found.so")


def test_a_pick_is_read_back_by_the_search_space_of_its_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shipped = (ROOT / "configs/allocators/tcmalloc.toml").read_text()
    (tmp_path / "mine.toml").write_text(shipped.replace("high = 8192", "high = 16384"))
    (tmp_path / "campaign.toml").write_text(
        'name = "x"\ntrace = "x"\nallocators = ["tcmalloc"]\nspace_files = ["mine.toml"]\n'
    )
    here = get_allocator("tcmalloc").locate()
    run = synthetic_run(tmp_path, n_trials=1, rechecks=False)
    record = {"tcmalloc": AllocatorRecord(str(here.library), here.version)}
    wide = trial(1, Configuration.of("tcmalloc", {"transfer_num_obj": 10000}))
    found = replace(run, campaign=replace(run.campaign, allocators=record), trials=(wide,))
    monkeypatch.setattr(subjects, "load_run", lambda _: found)

    assert pick_subject("run:trial-1").variables == (("TCMALLOC_TRANSFER_NUM_OBJ", "10000"),)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_pick_does_not_run_with_another_version(
    measured: Path, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
):
    if not is_gone:
        measured.touch()
    upgraded = Installation("jemalloc", measured, "5.4.0")
    monkeypatch.setattr(Allocator, "locate", lambda *_: upgraded)

    with pytest.raises(MissingToolError, match=r"jemalloc 5\.3\.0 was measured, here is 5\.4\.0"):
        pick_subject("run:trial-2")


def test_variables_reach_the_named_subject_only():
    subjects = with_variables([ALICE, BOB], ["bob:C=2=3"])

    assert [dict(s.variables) for s in subjects] == [{}, {"B": "1", "C": "2=3"}]


def test_the_name_of_a_subject_may_have_a_colon():
    long = replace(BOB, label="bob:C=1")
    found = with_variables([ALICE, BOB, long], ["bob:C=1:D=2", "bob:C=3"])

    assert [dict(s.variables) for s in found] == [{}, {"B": "1", "C": "3"}, {"B": "1", "D": "2"}]


@pytest.mark.parametrize("text", ["bob", "bob:C", "carol:C=1", "bob:LD_PRELOAD=/x.so"])
def test_a_wrong_variable_is_refused(text: str):
    with pytest.raises(SpecError, match="--env"):
        with_variables([ALICE, BOB], [text])


def test_two_subjects_of_one_name_are_refused():
    with pytest.raises(SpecError, match="two subjects have the label 'alice'"):
        check_labels([ALICE, BOB, ALICE])
    with pytest.raises(SpecError, match="nothing to compare"):
        check_labels([])
