"""Subjects of a comparison."""

from pathlib import Path

import pytest

from tests.doubles.bench import ALICE, BOB
from tests.doubles.runs import LIBRARIES, synthetic_run
from tuner.bench import subjects
from tuner.bench.subjects import check_labels, library_subject, pick_subject, with_variables
from tuner.errors import MissingToolError, SpecError


@pytest.mark.parametrize("text", ["mine", "mine=", "=/lib/x.so"])
def test_a_library_needs_a_name_and_a_path(text: str):
    with pytest.raises(SpecError, match="NAME=PATH"):
        library_subject(text)


def test_a_library_that_is_not_there_is_an_error():
    with pytest.raises(MissingToolError, match=r"/no/such\.so: no such file"):
        library_subject("mine=/no/such.so")


def test_a_path_that_the_loader_would_split_is_refused(tmp_path: Path):
    library = tmp_path / "a b.so"
    library.touch()

    with pytest.raises(SpecError, match="cannot be preloaded"):
        library_subject(f"mine={library}")


def test_a_pick_runs_with_the_library_that_was_measured(monkeypatch: pytest.MonkeyPatch):
    def ask(text: str) -> None:
        raise MissingToolError(text)

    monkeypatch.setattr(subjects, "load_run", lambda _: synthetic_run())
    monkeypatch.setattr(subjects, "get_allocator", ask)

    with pytest.raises(MissingToolError, match=f"^jemalloc:{LIBRARIES['jemalloc']}$"):
        pick_subject("run:trial-2")


def test_variables_reach_the_named_subject_only():
    subjects = with_variables([ALICE, BOB], ["bob:C=2=3"])

    assert [dict(s.variables) for s in subjects] == [{}, {"B": "1", "C": "2=3"}]


@pytest.mark.parametrize("text", ["bob", "bob:C", "carol:C=1", "bob:LD_PRELOAD=/x.so"])
def test_a_wrong_variable_is_refused(text: str):
    with pytest.raises(SpecError, match="--env"):
        with_variables([ALICE, BOB], [text])


def test_two_subjects_of_one_name_are_refused():
    with pytest.raises(SpecError, match="two subjects have the label 'alice'"):
        check_labels([ALICE, BOB, ALICE])
    with pytest.raises(SpecError, match="nothing to compare"):
        check_labels([])
