"""The search with the program alone."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import numpy as np
import pytest

from tests.doubles.cached import REFERENCE, App, make_space
from tests.doubles.clock import Clock
from tests.doubles.synthetic import PARTS
from tuner.allocators.facts import LARGE_FREED_BYTES, WorkloadFacts
from tuner.compare.plan import Course
from tuner.optimize.choosing import direct_plan
from tuner.optimize.choosing.correction import Floats
from tuner.optimize.choosing.direct import DirectSearch, as_seen, space_of
from tuner.optimize.choosing.direct_plan import SHARE_OF_TIME
from tuner.optimize.choosing.proposals import Estimated, Proposal
from tuner.optimize.choosing.smoothed import Smoothed
from tuner.optimize.kinds.making import Files
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.noise import USUAL_NOISE
from tuner.optimize.quantities import CPU, MEAN, PEAK, SERVICE_NAMES
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Tuned, label_of
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration, Outcome
from tuner.registry import STRATEGIES
from tuner.runs import CONFIRMATION_FILE, SELECTION_FILE
from tuner.search.base import Told
from tuner.search.random_search import RandomSearch
from tuner.space import Genome, Parameter, Space


def searched(
    folder: Path, app: App, clock: Clock, seconds: float = 120.0, reference: Reference = REFERENCE
) -> DirectSearch:
    request = Request(("app",), seconds, ("glibc", "jemalloc:/lib/j.so"), is_direct=True)
    work = Work(folder, request, cast("Tuned", app), Watch(seconds, clock), known=app.known)
    return DirectSearch(work, reference, make_space)


def each(allocator: str, name: str, *values: int) -> list[Configuration]:
    """Return a setting of each value of one parameter."""
    return [Configuration.of(allocator, {name: value}) for value in values]


def test_what_gains_is_found_and_the_rest_goes_back_to_unset(tmp_path: Path):
    clock = Clock()
    search = searched(tmp_path, App(clock), clock)

    selected = search.select(100)
    chosen = search.finalists(selected)

    assert clock.now_s <= 60.0, "half of the time is for the confirmation"
    assert chosen.keys() == {"jemalloc cache=false"}
    assert selected.changes["jemalloc"][MEAN].change == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize(("undelayed", "is_left_out"), [(0.992, True), (0.97, False)])
def test_what_gains_little_beside_the_rest_is_left_out_before_it_is_confirmed(
    tmp_path: Path, undelayed: float, *, is_left_out: bool
):
    clock = Clock()
    search = searched(tmp_path, App(clock, undelayed=undelayed), clock, 200.0)

    selected = search.select(200)
    chosen = search.finalists(selected)

    part, whole = "jemalloc cache=false", "jemalloc cache=false decay=0"
    assert next(iter(chosen)) == (part if is_left_out else whole)
    assert (whole in chosen) is not is_left_out
    later = search.finalists(selected, [selected.labels[part].configuration])
    assert next(iter(later)) == whole, "once the part is out, or where it was not chosen"


@pytest.mark.parametrize(("peak", "names"), [(1.004, ["cache"]), (1.008, ["cache", "slack"])])
def test_a_peak_that_repeats_itself_is_searched_and_chosen_within_half_of_its_limit(
    tmp_path: Path, peak: float, names: list[str]
):
    clock = Clock()
    search = searched(tmp_path, App(clock, peaks=peak), clock, seconds=300.0)

    chosen = search.finalists(search.select(200))

    assert chosen
    assert all(set(names) <= set(one.as_dict) for one in chosen.values())


def watch(monkeypatch: pytest.MonkeyPatch, on_told: Callable[[Told, Configuration], None]) -> None:
    """Search at random, and show what the search is told."""

    class Watched(RandomSearch):
        def tell(self, results: Sequence[Told]) -> None:
            for one in results:
                on_told(one, self._space.decode(one.genome))
            super().tell(results)

    monkeypatch.setitem(STRATEGIES, "auto", Mock(**{"load.return_value": Watched}))


def test_a_search_knows_how_much_the_goals_vary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[float, ...]] = []
    watch(monkeypatch, lambda told, _: seen.append(told.noise))
    clock = Clock()

    searched(tmp_path, App(clock, noise=0.05), clock, seconds=300.0).select(200)

    memory, time = seen[-1]
    assert memory < 0.005
    assert 0.03 < time < 0.08


def test_a_time_that_repeats_itself_is_not_known_to_be_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[tuple[float, ...]] = []
    watch(monkeypatch, lambda told, _: seen.append(told.noise))
    monkeypatch.setattr(direct_plan, "noise_as_it_is", lambda _: {MEAN: 0.0, CPU: 0.0})
    clock = Clock()

    searched(tmp_path, App(clock), clock).select(100)

    assert seen[-1] == (0.0, USUAL_NOISE)


@pytest.mark.parametrize(("peak", "is_broken"), [(1.015, False), (1.03, True)])
def test_a_peak_that_repeats_itself_in_the_program_may_be_off_by_little_under_another_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peak: float, *, is_broken: bool
):
    violations: set[float] = set()

    def keep(told: Told, configuration: Configuration) -> None:
        settings = configuration.as_dict
        if settings.get("cache") is False and "slack" not in settings:
            violations.add(told.violation)

    watch(monkeypatch, keep)
    clock = Clock()

    searched(tmp_path, App(clock, peaks=peak), clock, seconds=300.0).select(200)

    assert violations
    assert all(one > 0.0 for one in violations) is is_broken


@pytest.mark.parametrize(("low", "has_slack"), [(0.0, True), (0.2, False)])
def test_a_peak_that_does_not_repeat_itself_under_an_allocator_has_its_whole_limit(
    tmp_path: Path, low: float, *, has_slack: bool
):
    clock = Clock()
    app = App(clock, peaks=1.008, low_peaks=low)
    search = searched(tmp_path, app, clock, seconds=300.0)

    first, *_ = search.finalists(search.select(200)).values()

    assert ("slack" in first.as_dict) is has_slack


@pytest.mark.parametrize("low", [0.0, 0.3])
def test_where_a_peak_is_one_of_two_another_candidate_waits(tmp_path: Path, low: float):
    """It repeats itself in the program as it is, and few runs under jemalloc may be lucky."""
    clock = Clock()
    app = App(clock, peaks=1.02, low_peaks=low)
    search = searched(tmp_path, app, clock, seconds=300.0)

    chosen = list(search.finalists(search.select(200)).values())

    assert all("slack" in one.as_dict for one in chosen)
    assert (search.n_waiting, len(chosen)) == ((1, 2) if low else (0, 1))


@pytest.mark.parametrize(
    ("exact", "log", "doubt"), [({PEAK}, math.log(0.99), 0.0), (set[str](), 0.008, 0.002)]
)
def test_of_a_peak_that_may_be_low_by_luck_all_runs_are_believed(
    exact: set[str], log: float, doubt: float
):
    low = Configuration("jemalloc")
    proposal = Proposal(low, None, {})
    estimate = Estimated(proposal, {PEAK: 0.008}, {PEAK: 0.002}, frozenset(exact))
    peaks = {AS_IS: 1e6, "jemalloc": 0.99e6}
    runs = {(0, None, name): Outcome.succeeded({PEAK: x}) for name, x in peaks.items()}

    found = as_seen(estimate, Course(AS_IS, runs.items()), frozenset({PEAK}))

    assert found.logs[PEAK] == pytest.approx(log)
    assert found.doubts[PEAK] == doubt


def test_what_noise_makes_of_a_time_keeps_no_setting(tmp_path: Path):
    clock = Clock()
    search = searched(tmp_path, App(clock, noise=0.15), clock, seconds=300.0)

    chosen = search.finalists(search.select(200))

    first = next(iter(chosen.values()))
    assert first.as_dict["cache"] is False
    assert len(first.settings) <= 2


class Expected(Smoothed):
    """Expects 0.9 % more at the peak without slack, and is sure of no more than that."""

    def __init__(self, space: Space, as_is: Configuration | None = None) -> None:
        self._space, self._as_is = space, as_is

    def of(self, genomes: Sequence[Genome]) -> dict[str, tuple[Floats, Floats]]:
        peaks = [0.0 if "slack" in self._space.decode(one).as_dict else 0.009 for one in genomes]
        logs = {MEAN: [-0.1] * len(peaks), PEAK: peaks, CPU: [0.0] * len(peaks)}
        doubts = np.full(len(peaks), 0.009)
        return {name: (np.array(values), doubts) for name, values in logs.items()}


@pytest.mark.parametrize(("limit", "left"), [(0.01, ["slack"]), (0.03, [])])
def test_memory_that_is_kept_is_not_given_for_fewer_settings(limit: float, left: list[str]):
    model = Expected(make_space(["jemalloc"]))
    chosen = Configuration.of("jemalloc", {"cache": False, "decay": 0, "slack": 1})

    found = model.smallest(chosen, Rules(limits=((PEAK, limit),)))

    assert list(found.as_dict) == left


def test_defaults_come_first_and_only_what_may_be_confirmed_runs_again(tmp_path: Path):
    clock = Clock()
    app = App(clock)

    search = searched(tmp_path, app, clock)
    chosen = search.finalists(search.select(100))

    assert set(app.ran[:2]) == {AS_IS, "jemalloc"}
    settings = Counter(label for label in app.ran if label != AS_IS)
    again = {label for label, n_runs in settings.items() if n_runs > 1}
    assert chosen.keys() <= again
    assert all("cache=false" in label for label in again)
    assert "glibc" not in settings, "the program as it is runs under it"
    assert app.ran.count(AS_IS) >= settings.total() / 5


def test_where_the_environment_steers_malloc_plain_glibc_is_a_setting_like_others(tmp_path: Path):
    clock = Clock()
    app = App(clock)

    searched(tmp_path, app, clock, reference=replace(REFERENCE, steered=("X",))).select(100)

    assert "glibc" in app.ran


def test_of_few_settings_none_is_left_out_of_what_would_be_the_program_as_it_is():
    model = Expected(make_space(["glibc"]), Configuration("glibc"))

    found = model.smallest(Configuration.of("glibc", {"cache_count": 0, "pad": 0}), Rules())

    assert len(found.settings) == 1


def test_known_settings_come_before_the_defaults_if_they_lie_in_the_space(tmp_path: Path):
    clock = Clock()
    known = [{"decay": 100, "slack": 2}, {"slack": 3}, {"cache": False, "decay": 0}]
    inside, outside, other = (Configuration.of("jemalloc", one) for one in known)
    app = App(clock, known=(inside, outside, other))

    searched(tmp_path, app, clock).select(100)

    settings = [label for label in app.ran if label != AS_IS]
    assert set(settings[:3]) == {label_of(inside), label_of(other), "jemalloc"}
    assert label_of(outside) not in settings


@pytest.mark.parametrize(
    ("gains", "slower", "n_untried"),
    [
        pytest.param(False, 1.0, 0, id="none-gains-so-all-of-them-run"),
        pytest.param(True, 1.0, 4, id="one-gains-so-time-goes-to-confirming-it"),
        pytest.param(True, 1.15, 0, id="one-gains-but-may-prove-slower"),
    ],
)
def test_known_settings_run_longer_while_none_of_them_gains(
    tmp_path: Path, *, gains: bool, slower: float, n_untried: int
):
    clock = Clock()
    idle = [{"decay": 10}, {"decay": 100}, {"decay": 1000}, *({"slack": n} for n in (1, 2, 4, 8))]
    first: dict[str, bool | int] = {"cache": False} if gains else {"decay": 1}
    known = [Configuration.of("jemalloc", one) for one in (first, *idle)]
    app = App(clock, known=tuple(known), slower=slower)

    selected = searched(tmp_path, app, clock, seconds=20.0).select(20)

    assert selected.n_untried == n_untried


def test_a_search_that_had_no_time_for_a_generation_has_more_to_try(tmp_path: Path):
    clock = Clock()
    app = App(clock)

    selected = searched(tmp_path, app, clock, seconds=10.0).select(10)

    n_ran = len({*app.ran} - {AS_IS})
    assert 0 < n_ran < 8
    assert selected.n_untried == 8 - n_ran
    assert clock.now_s > 6.0, "until then all of the time is for it"


def test_a_single_quick_run_keeps_no_known_setting_from_running(tmp_path: Path):
    clock = Clock()
    known = each("jemalloc", "slack", 1, 2, 4, 8)
    known += each("jemalloc", "decay", 10, 100, 1000)
    app = App(clock, known=tuple(known), quick=label_of(known[0]))

    selected = searched(tmp_path, app, clock, seconds=20.0).select(20)

    assert selected.n_untried == 0


def test_what_comes_later_does_not_run_where_there_was_no_time_for_the_round_before(tmp_path: Path):
    clock = Clock()
    known = each("jemalloc", "slack", 1, 2, 4, 8)
    known += each("glibc", "cache_count", 0, 1, 4, 16)
    app = App(clock, known=tuple(known))

    searched(tmp_path, app, clock, seconds=8.0).select(8)

    assert set(app.ran) == {AS_IS, *map(label_of, known[:4])}


def test_where_nothing_is_to_be_confirmed_known_settings_have_all_of_the_time(tmp_path: Path):
    clock = Clock()
    known = each("jemalloc", "slack", 1, 2, 4, 8)
    known += each("glibc", "cache_count", 0, 1, 4, 16, 64, 256)
    app = App(clock, known=tuple(known))

    selected = searched(tmp_path, app, clock, seconds=16.0).select(16)

    assert 0.6 * 16.0 < clock.now_s <= 16.0
    assert selected.n_untried == 0


def test_known_settings_of_an_allocator_that_gains_come_before_others(tmp_path: Path):
    clock = Clock()
    good = Configuration.of("jemalloc", {"cache": False})
    alike = Configuration.of("jemalloc", {"cache": False, "decay": 10})
    others = each("glibc", "cache_count", 0, 1, 4, 16, 64, 256)
    others += each("glibc", "arenas", 1, 2, 4, 8)
    app = App(clock, known=(*others[:2], good, *others[2:], alike))

    searched(tmp_path, app, clock, seconds=200.0).select(200)

    settings = [label for label in app.ran if label != AS_IS]
    assert label_of(good) in settings[:4]
    assert label_of(alike) in settings[4:8]


def test_of_few_runs_a_known_setting_that_gains_is_chosen_as_it_is_known(tmp_path: Path):
    clock = Clock()
    good = Configuration.of("jemalloc", {"cache": False, "decay": 10})
    others = each("jemalloc", "slack", 1, 2, 4)
    search = searched(tmp_path, App(clock, known=(*others, good)), clock, seconds=20.0)

    chosen = search.finalists(search.select(20))

    assert chosen == {label_of(good): good}


def test_of_known_settings_that_do_the_same_the_fewest_come_first(tmp_path: Path):
    good = Configuration.of("jemalloc", {"cache": False})
    more = Configuration.of("jemalloc", {"cache": False, "decay": 10})
    others = each("jemalloc", "slack", 1, 2, 4)
    clock = Clock()
    app = App(clock, known=(more, *others, good), lucky=label_of(more), luck=0.993)
    search = searched(tmp_path, app, clock, seconds=40.0)

    chosen = [*search.finalists(search.select(40))]

    assert chosen.index(label_of(good)) < chosen.index(label_of(more))


def test_what_follows_has_as_many_places_as_in_a_whole_call(tmp_path: Path):
    clock = Clock()
    good = [Configuration.of("jemalloc", {"cache": False, "decay": n}) for n in (10, 100, 1000)]
    search = searched(tmp_path, App(clock, known=tuple(good)), clock, seconds=60.0)
    selected = search.select(60)
    clock.now_s = 60.0

    assert len(search.finalists(selected)) == 1
    assert len(search.finalists(selected, [Configuration("exgen")])) > 1


@pytest.mark.parametrize(("slower", "is_chosen"), [(1.05, True), (1.11, True), (1.3, False)])
def test_of_few_runs_only_one_that_is_slower_by_far_is_left_out(
    tmp_path: Path, *, slower: float, is_chosen: bool
):
    """A single run that is 5 % slower is noise as often as not; 11 %, where nothing else is near.

    A service was kept as it is after a third of its time.
    """
    good = Configuration.of("jemalloc", {"cache": False, "decay": 10})
    others = each("jemalloc", "slack", 1, 2, 4)
    clock = Clock()
    app = App(clock, known=(*others, good), slower=slower / 0.9)
    search = searched(tmp_path, app, clock, seconds=20.0)

    chosen = search.finalists(search.select(20))

    assert (label_of(good) in chosen) == is_chosen


def test_a_lucky_run_is_shown_as_all_runs_together_have_it(tmp_path: Path):
    lucky = Configuration.of("jemalloc", {"decay": 100})
    others = each("jemalloc", "decay", 10, 1000)
    clock = Clock()
    app = App(clock, known=(lucky, *others), lucky=label_of(lucky))

    shown = searched(tmp_path, app, clock).select(100).changes[label_of(lucky)][MEAN]

    assert shown.seen_change == pytest.approx(-0.05, abs=0.01)
    assert abs(shown.change) < 0.03


def test_an_allocator_that_cannot_be_loaded_takes_no_part(tmp_path: Path):
    clock = Clock()
    app = App(clock, missing="jemalloc")

    selected = searched(tmp_path, app, clock).select(100)

    assert [label for label in app.ran if "jemalloc" in label] == ["jemalloc"]
    assert selected.failures["jemalloc"] == "not loaded"
    assert len(selected.labels) > 20


def test_what_the_allocator_refuses_does_not_run(tmp_path: Path):
    clock = Clock()
    app = App(clock, refused="slack")

    searched(tmp_path, app, clock).select(100)

    assert not any("slack" in label for label in app.ran)
    assert any("fit" in label for label in app.ran)


def test_a_search_that_goes_on_proposes_what_it_proposed(tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    clock = Clock()
    searched(whole, App(clock), clock).select(100)
    cut.mkdir()
    lines = (whole / SELECTION_FILE).read_text().splitlines(keepends=True)
    (cut / SELECTION_FILE).write_text("".join(lines[:23]))
    clock = Clock()
    app = App(clock)
    app.ran = [""] * 22

    left = 120.0 - 22.0 / SHARE_OF_TIME - 0.1
    searched(cut, app, clock, seconds=left).select(100)

    again = (cut / SELECTION_FILE).read_text().splitlines(keepends=True)
    assert again == lines[: len(again)]
    assert len(again) > 40


def test_it_is_over_when_the_confirmation_has_begun(tmp_path: Path):
    clock = Clock()
    first = searched(tmp_path, App(clock), clock)
    before = first.select(100)
    (tmp_path / CONFIRMATION_FILE).write_text("")
    app = App(clock)

    again = searched(tmp_path, app, clock, seconds=1000.0)

    assert again.select(100).changes == before.changes
    assert app.ran == []


def test_it_tries_no_more_settings_than_models_can_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(direct_plan, "_MOST_SETTINGS", 10)
    clock = Clock()
    app = App(clock)

    searched(tmp_path, app, clock, seconds=400.0).select(100)

    assert 10 <= len(set(app.ran) - {AS_IS}) < 10 + 8


class Adapter:
    """Keeps what it learns of the program."""

    def parameters(
        self, _installation: object, _host: object, workload: WorkloadFacts
    ) -> Sequence[Parameter]:
        self.workload = workload
        return PARTS["glibc"]


def test_a_program_that_was_not_recorded_counts_as_one_that_frees_much():
    adapter = Adapter()
    reference = replace(REFERENCE, wall_s=2.5, n_threads=3)

    space = space_of(cast("Files", {"glibc": (adapter, None)}), reference, ["glibc"])

    assert adapter.workload == WorkloadFacts(3, 2_500_000_000, LARGE_FREED_BYTES)
    assert space == make_space(["glibc"])


def test_a_service_lives_long_enough_for_all_that_is_set_in_time():
    adapter = Adapter()
    reference = replace(REFERENCE, values={SERVICE_NAMES["floor"]: 1e6}, wall_s=2.5)

    space_of(cast("Files", {"glibc": (adapter, None)}), reference, ["glibc"])

    assert adapter.workload.is_long_running
