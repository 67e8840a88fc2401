"""Settings by runs alone, where emulation has nothing more to propose and runs are short."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tests.doubles.cached import REFERENCE, App, make_space
from tests.doubles.clock import Clock
from tuner.compare.plan import Course
from tuner.optimize.choosing import exploration
from tuner.optimize.choosing.candidates import Choosing
from tuner.optimize.choosing.exploration import Exploring
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.choosing.selected import Selected, selected_of
from tuner.optimize.choosing.selection import Selection
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Sample, Tuned, label_of
from tuner.optimize.work import EXPLORATION_FILE, Watch, Work
from tuner.records import Configuration
from tuner.runs import CONFIRMATION_FILE, SELECTION_FILE

ALLOCATORS = ("glibc", "jemalloc:/lib/j.so")
DEFAULT = Configuration("jemalloc")
WORSE = Configuration.of("jemalloc", {"decay": 0})
BETTER = "jemalloc cache=false"


class Chose:
    """Ran two settings that emulation proposed, neither of which gains."""

    def __init__(self, work: Work, *, is_near: bool, proposals: Sequence[Proposal] = ()) -> None:
        self._work = work
        self.proposals = proposals
        self._is_near = is_near

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        del n_possible, without
        candidates = {label_of(one): one for one in (DEFAULT, WORSE)}
        course: Course[None, Sample] = self._work.compare(
            SELECTION_FILE, Selection(list(candidates), seed=1), candidates, REFERENCE
        )
        proposals = {label: Proposal(one, None, {}) for label, one in candidates.items()}
        found = selected_of(course, proposals)
        found.n_untried = 7
        return found

    def is_any_near(self, selected: Selected) -> bool:
        del selected
        return self._is_near

    n_waiting = 0

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        del selected, without
        return {label_of(WORSE): WORSE}


def exploring(
    folder: Path,
    app: App,
    clock: Clock,
    seconds: float,
    *,
    is_near: bool = True,
    allocators: tuple[str, ...] = ALLOCATORS,
    proposals: Sequence[Proposal] = (),
) -> Exploring:
    request = Request(("app",), seconds, allocators)
    work = Work(folder, request, cast("Tuned", app), Watch(seconds, clock))
    chose = cast("Choosing", Chose(work, is_near=is_near, proposals=proposals))
    parameters = make_space(["glibc", "jemalloc"]).parameters
    return Exploring(work, REFERENCE, chose, parameters)


def test_what_emulation_did_not_propose_is_found_by_runs(tmp_path: Path):
    clock = Clock()
    app = App(clock)
    search = exploring(tmp_path, app, clock, 300.0)

    selected = search.select(200)

    assert next(iter(search.finalists(selected))) == BETTER
    assert selected.n_untried == 0, "what all runs showed chose others"
    found = [gains[MEAN].change for label, gains in selected.changes.items() if BETTER in label]
    assert found == pytest.approx([-0.1] * len(found), abs=0.01)
    assert label_of(WORSE) in selected.changes, "what ran before is shown as well"


def test_more_is_tried_of_what_emulation_expects_to_gain(tmp_path: Path):
    def n_better(folder: str, proposals: Sequence[Proposal]) -> int:
        (tmp_path / folder).mkdir()
        clock = Clock()
        app = App(clock, noise=0.3, slower=0.8)
        exploring(tmp_path / folder, app, clock, 120.0, proposals=proposals).select(200)
        return sum("cache=false" in label for label in app.ran[:30])

    space, rng = make_space(["jemalloc"]), np.random.default_rng(1)
    drawn = [space.decode(space.random(rng)) for _ in range(40)]
    emulated = [
        Proposal(one, at, {MEAN: 0.0, PEAK: 0.0, CPU: -0.2 * (one.as_dict.get("cache") is False)})
        for at, one in enumerate(drawn)
    ]

    assert n_better("told", emulated) > n_better("untold", ())


def test_of_hundreds_of_settings_noise_makes_no_candidate(tmp_path: Path):
    clock = Clock()
    search = exploring(tmp_path, App(clock), clock, 600.0)

    selected = search.select(400)

    assert len(selected.labels) > 200
    assert search.finalists(selected).keys() == {BETTER}


def test_what_ran_before_does_not_run_again(tmp_path: Path):
    clock = Clock()
    app = App(clock)

    exploring(tmp_path, app, clock, 300.0).select(200)

    assert app.ran.count(label_of(WORSE)) == app.ran.count("jemalloc") == 1


@pytest.mark.parametrize(
    ("is_near", "slower", "to_confirm", "until_s"),
    [
        (True, 1.0, 400, 165.0),
        (True, 1.0, 120, 177.6),
        (True, 1.0, 40, 210.0),
        (False, 1.5, 40, 105.0),
        (False, 1.0, 40, 210.0),
    ],
    ids=["little time", "some time", "much time", "nothing is near", "it finds what is near"],
)
def test_it_leaves_time_to_confirm_and_more_where_nothing_is_near(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_near: bool,
    slower: float,
    to_confirm: int,
    until_s: float,
):
    monkeypatch.setattr(exploration, "_RUNS_TO_CONFIRM", to_confirm)
    clock = Clock()

    app = App(clock, slower=slower)
    exploring(tmp_path, app, clock, 300.0, is_near=is_near).select(200)

    assert until_s - 9.0 <= clock.now_s <= until_s


def test_where_there_is_time_for_few_runs_emulation_chooses(tmp_path: Path):
    clock = Clock()
    search = exploring(tmp_path, App(clock), clock, 60.0)

    selected = search.select(100)

    assert search.finalists(selected).keys() == {label_of(WORSE)}
    assert not (tmp_path / EXPLORATION_FILE).exists()


def test_what_fails_when_it_runs_again_is_no_candidate(tmp_path: Path):
    clock = Clock()
    search = exploring(tmp_path, App(clock, flaky=True), clock, 300.0)

    selected = search.select(200)

    assert selected.failures
    assert not selected.failures.keys() & search.finalists(selected).keys()


@pytest.mark.parametrize("seconds", [30.0, 3000.0])
def test_it_goes_on_with_what_it_kept_once_candidates_are_confirmed(tmp_path: Path, seconds: float):
    clock = Clock()
    before = exploring(tmp_path, App(clock), clock, 300.0).select(200)
    (tmp_path / CONFIRMATION_FILE).write_text("")
    app = App(Clock())

    again = exploring(tmp_path, app, Clock(), seconds).select(2000)

    assert app.ran == []
    assert again.changes == before.changes
    assert again.noise.keys() >= {CPU}


def test_an_allocator_whose_default_fails_is_searched_where_settings_of_it_ran(tmp_path: Path):
    clock = Clock()
    search = exploring(tmp_path, App(clock, fails=DEFAULT), clock, 300.0)

    selected = search.select(200)

    assert label_of(WORSE) in selected.labels
    assert next(iter(search.finalists(selected))) == BETTER


def test_where_no_allocator_can_be_searched_what_emulation_found_stands(tmp_path: Path):
    clock = Clock()
    app = App(clock, missing="jemalloc")
    search = exploring(tmp_path, app, clock, 300.0, allocators=ALLOCATORS[1:])

    selected = search.select(200)

    assert search.finalists(selected).keys() == {label_of(WORSE)}


def test_a_setting_that_failed_before_is_not_proposed(tmp_path: Path):
    clock = Clock()
    app = App(clock, missing="jemalloc")

    selected = exploring(tmp_path, app, clock, 300.0).select(200)

    assert {label for label in app.ran if label.startswith("jemalloc")} == {
        "jemalloc",
        label_of(WORSE),
    }
    assert selected.failures.keys() == {"jemalloc", label_of(WORSE)}
    assert AS_IS in app.ran
