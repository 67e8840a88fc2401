"""How many candidates the time left can decide on."""

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.doubles.judged import ONE
from tuner.compare.plan import Course, Step
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.candidates import Choosing, affordable, trade
from tuner.optimize.choosing.emulation import EmulatedTrials
from tuner.optimize.choosing.outlook import showable_gains
from tuner.optimize.choosing.proposals import Baseline, Proposal, worthwhile
from tuner.optimize.choosing.selected import Selected, selected_of
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned, label_of
from tuner.optimize.view import View
from tuner.optimize.work import EXPLORATION_FILE, Watch, Work
from tuner.records import Configuration, Origin, Outcome, Trial
from tuner.runs import SELECTION_FILE


def begun(
    folder: Path, request: Request, app: object = None, now_s: Callable[[], float] = lambda: 0.0
) -> Work:
    return Work(folder, request, cast("Tuned", app), Watch(request.seconds, now_s))


def as_it_is(values: Mapping[str, float], wall_s: float = 0.98) -> Reference:
    return Reference(("app",), values, 0, None, None, wall_s=wall_s, timeout_s=30.0)


def choosing_among(
    work: Work, reference: Reference, proposals: list[Proposal], baseline: Baseline | None = None
) -> Choosing:
    """Return what chooses where no trial of an emulation takes part."""
    none = cast("EmulatedTrials", None)
    return Choosing(work, reference, proposals, none, cast("Baseline", baseline))


@pytest.mark.parametrize(
    ("seconds", "places"),
    [(5.0, (1, 0)), (20.0, (1, 1)), (45.0, (2, 1)), (58.0, (3, 1)), (900.0, (3, 1))],
)
def test_short_time_is_not_split_over_many_candidates(
    tmp_path: Path, seconds: float, places: tuple[int, int]
):
    work = begun(tmp_path, Request(("app",), seconds, ("glibc",)))
    reference = as_it_is({})

    assert affordable(work, reference, seconds) == places


AS_GLIBC = Configuration("glibc")


class Timed(View):
    """A program of which every run takes a second; settings change its mean memory."""

    command = ("app",)

    def __init__(self, gains: Mapping[str, float]) -> None:
        """Take label -> share of memory that is gained."""
        self.now_s = 0.0
        self.ran_labels: list[str] = []
        self.stages: list[str] = []
        self._gains = gains

    def begin(self, stage: str, n_steps: int | None) -> None:
        del n_steps
        self.stages.append(stage)

    def refusal(self, configuration: Configuration) -> None:
        """Take every setting."""

    def runner(self, candidates: object, reference: object) -> Runs:
        del candidates, reference

        def run(step: Step[None]) -> Outcome[Sample]:
            self.now_s += 1.0
            self.ran_labels.append(step.subject)
            return Outcome.succeeded(self.sample(step.subject))

        return run

    def sample(self, label: str) -> Sample:
        return {MEAN: 1e8 * (1.0 - self._gains.get(label, 0.0))}


SETTINGS = [Configuration.of("glibc", {"mxfast": number}) for number in range(16)]


def choosing_of(
    folder: Path, app: Timed, seconds: float, known: Sequence[Configuration] = ()
) -> Choosing:
    """Return what chooses among settings of each of which 5 % less memory is expected.

    Of those that are known from elsewhere much more is expected.
    """
    request = Request(("app",), seconds, ("glibc",), Rules(goals=(MEAN,), guards=(MEAN,)))
    begun_s = app.now_s
    watch = Watch(seconds, lambda: app.now_s - begun_s)
    work = Work(folder, request, cast("Tuned", app), watch, app)
    reference = as_it_is({MEAN: 1e8})
    proposals = [Proposal(one, place, {MEAN: -0.05}) for place, one in enumerate(SETTINGS)]
    proposals += [Proposal(one, None, {MEAN: 2.0}, is_known=True) for one in known]
    return choosing_among(work, reference, proposals)


def test_where_nothing_is_near_the_time_left_goes_to_other_settings(tmp_path: Path):
    app = Timed({str(SETTINGS[9]): 0.1})

    found = choosing_of(tmp_path, app, 60.0).select(n_possible=6)

    assert len(found.labels) > 2
    assert str(SETTINGS[9]) in found.labels
    assert app.now_s < 60.0
    assert app.stages == ["selection", "others"], "how many there will be is open"
    assert found.changes[str(SETTINGS[9])][MEAN].seen_change == pytest.approx(-0.1)

    near = Timed({str(one): 0.1 for one in SETTINGS})
    choosing = choosing_of(tmp_path / "near", near, 60.0)
    choosing.select(n_possible=6)
    assert near.stages == ["selection"], "no others"
    assert choosing.select(6, without=SETTINGS).n_untried == 0
    assert near.stages[2:] == ["others"], "once those that are near are out"


def test_where_none_follows_others_run_whatever_seems_near_of_those_that_ran(tmp_path: Path):
    app = Timed({str(one): 0.1 for one in SETTINGS})
    choosing = choosing_of(tmp_path, app, 60.0)
    choosing.select(n_possible=6)
    n_ran = len(app.ran_labels)

    choosing.select(6, without=SETTINGS[:1])

    assert n_ran < len(app.ran_labels) < len(SETTINGS), "until one of these is near"


@pytest.mark.parametrize(("seconds", "n_at_once", "are_run"), [(45.0, 2, False), (40.0, 1, True)])
def test_a_search_that_goes_on_keeps_time_to_confirm_others_if_there_is_any(
    tmp_path: Path, seconds: float, n_at_once: int, *, are_run: bool
):
    app = Timed({})
    choosing_of(tmp_path, app, 8.0).select(n_possible=6)
    longer = choosing_of(tmp_path, app, seconds)
    work = longer._work  # noqa: SLF001
    work.is_searched_on = True
    n_ran = len(app.ran_labels)

    longer.select(6, without=SETTINGS[:1])

    assert (len(app.ran_labels) > n_ran) is are_run
    assert affordable(work, as_it_is({}), work.watch.left_s).at_once == n_at_once


def test_where_one_is_near_no_others_are_said_to_run(tmp_path: Path):
    app = Timed({str(one): 0.1 for one in SETTINGS})

    choosing_of(tmp_path, app, 60.0).select(n_possible=6)

    assert app.stages == ["selection"]


def test_where_no_setting_may_well_gain_enough_no_more_run(tmp_path: Path):
    losing = Timed({str(one): -0.1 for one in SETTINGS})
    one_gains = Timed({str(one): -0.1 for one in SETTINGS[1:]} | {str(SETTINGS[0]): 0.1})

    lost = choosing_of(tmp_path / "lost", losing, 600.0).select(n_possible=200)
    found = choosing_of(tmp_path / "found", one_gains, 600.0).select(n_possible=200)

    assert (len(lost.labels), len(losing.ran_labels), lost.n_untried) == (4, 5, 0)
    assert len(found.labels) == len(SETTINGS)
    assert (lost.may_show, found.may_show) == (False, True)


@pytest.fixture
def nothing_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all settings of a configuration."""
    monkeypatch.setattr(emulation, "smallest", lambda *args, **_: args[3])


class SlowOnce(Timed):
    """A program whose first run under what gains takes longer than all others."""

    def sample(self, label: str) -> Sample:
        found = super().sample(label)
        is_slow = found != {MEAN: 1e8} and self.ran_labels.count(label) == 1
        return {**found, CPU: 1.08e9 if is_slow else 1e9}


@pytest.mark.usefixtures("nothing_smaller")
def test_what_one_slow_run_speaks_against_runs_again_where_memory_speaks_for_it(tmp_path: Path):
    settings = [Configuration.of("glibc", {"mxfast": number}) for number in range(24)]
    app = SlowOnce({str(settings[3]): 0.2})
    rules = Rules(goals=(MEAN, CPU), guards=(MEAN, CPU))
    work = begun(tmp_path, Request(("app",), 600.0, ("glibc",), rules), app, lambda: app.now_s)
    values = {MEAN: 1e8, CPU: 1e9}
    reference = as_it_is(values)
    proposals = [Proposal(one, 1, {MEAN: -0.05, CPU: 0.0}) for one in settings]
    choosing = choosing_among(work, reference, proposals)

    found = choosing.finalists(choosing.select(n_possible=500))

    assert app.ran_labels.count(str(settings[3])) > 1
    assert [str(one) for one in found.values()] == [str(settings[3])]


SPREAD = 0.02
"""Standard deviation of the logarithm of a run."""

GIVEN_S, N_POSSIBLE = 100.0, 90
"""Of a program whose runs take a second."""

OTHERS = ("exgen", "jemalloc", "mimalloc", "tcmalloc")


class Noisy(Timed):
    """A program whose CPU time varies; under one allocator it is less."""

    def __init__(self, gain: float, seed: int) -> None:
        """Take what the first of the others gains, in logarithms."""
        super().__init__({})
        self._gain, self._random = gain, random.Random(seed)

    def sample(self, label: str) -> Sample:
        log = self._random.gauss(0.0, SPREAD)
        if label.startswith(OTHERS[0]):
            log -= self._gain
        return {CPU: 1e9 * math.exp(log)}


def chosen_under_noise(folder: Path, gain: float, seed: int) -> tuple[list[str], float]:
    """Return the candidates among settings that emulation expects little of, and the time."""
    app = Noisy(gain, seed)
    request = Request(
        ("app",), GIVEN_S, ("glibc", *OTHERS), Rules(goals=(CPU,), guards=(CPU,)), seed=seed
    )
    work = begun(folder, request, app, lambda: app.now_s)
    reference = as_it_is({CPU: 1e9})
    named = [(one, place) for one in OTHERS for place in range(4)]
    proposals = [
        Proposal(Configuration.of(one, {"a": place} if place else {}), 1, {CPU: -0.002 * place})
        for one, place in named
    ]
    choosing = choosing_among(work, reference, proposals)
    found = choosing.finalists(choosing.select(N_POSSIBLE))
    return [one.allocator for one in found.values()], app.now_s


def showable() -> float:
    """Return the gain that half of the confirmations of one candidate show in the time left."""
    rules = Rules(goals=(CPU,))
    n_rounds = int(2 * GIVEN_S / 3 / 2)
    return rules.threshold(CPU) + showable_gains(rules, {CPU: SPREAD}, n_rounds, 1)[CPU]


@pytest.mark.usefixtures("nothing_smaller")
def test_where_there_is_nothing_to_gain_no_luck_is_confirmed(tmp_path: Path):
    found = [chosen_under_noise(tmp_path / str(seed), 0.0, seed) for seed in range(20)]

    in_vain = [seconds for labels, seconds in found if not labels]
    assert len(in_vain) >= 10
    assert sorted(in_vain)[len(in_vain) // 2] < GIVEN_S / 3


@pytest.mark.usefixtures("nothing_smaller")
def test_a_gain_that_there_is_time_to_show_is_a_candidate_whatever_the_noise(tmp_path: Path):
    found = [
        chosen_under_noise(tmp_path / str(seed), 2.0 * showable(), seed)[0] for seed in range(20)
    ]

    assert sum(OTHERS[0] in labels for labels in found) >= 19


def test_candidates_that_are_the_same_in_fewer_settings_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def default(*args: object, **_: object) -> Configuration:
        return Configuration(cast("Configuration", args[3]).allocator)

    monkeypatch.setattr(emulation, "smallest", default)
    gains = {("exgen", place): 0.2 for place in range(1, 7)} | {("jemalloc", 1): 0.05}
    proposals = [
        Proposal(Configuration.of(name, {"a": place}), 1, {CPU: -gain})
        for (name, place), gain in gains.items()
    ]
    course: Course[None, Sample] = Course()
    for number in range(4):
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: 1e9}))
        for one in proposals:
            log = one.expected[CPU]
            label = str(one.configuration)
            course.add((number, None, label), Outcome.succeeded({CPU: 1e9 * math.exp(log)}))
    request = Request(("app",), 1000.0, OTHERS, Rules(goals=(CPU,), guards=(CPU,)))
    work = begun(tmp_path, request, Noisy(0.0, 1))
    reference = as_it_is({CPU: 1e9}, 0.1)
    ran = {str(one.configuration): one for one in proposals}

    found = choosing_among(work, reference, proposals).finalists(selected_of(course, ran))

    assert list(found) == ["exgen", "jemalloc"]


class Counts(Noisy):
    """Its work can be counted."""

    can_count = True

    def count(self, *_: object) -> int | None:
        """Count nothing."""

    def count_kernel(self, *_: object) -> dict[str, int]:
        return {}


def after_four_runs(folder: Path, app: Noisy, seconds: float) -> tuple[Choosing, Selected]:
    """Return what chooses, and four runs of a setting that gains 3 % where runs vary by 15 %."""
    course: Course[None, Sample] = Course()
    for number, log in enumerate((0.1, -0.1, 0.1, -0.1)):
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: 1e9 * math.exp(log)}))
        course.add((number, None, "exgen"), Outcome.succeeded({CPU: 0.97e9 * math.exp(log)}))
    request = Request(("app",), seconds, ("exgen",), Rules(goals=(CPU,), guards=(CPU,)))
    work = begun(folder, request, app)
    reference = as_it_is({CPU: 1e9}, 0.1)
    one = Proposal(Configuration("exgen"), None, {CPU: -0.03})
    return choosing_among(work, reference, [one]), selected_of(course, {"exgen": one})


@pytest.mark.parametrize(
    ("seconds", "is_chosen"),
    [(6.0, False), (100.0, True), (1.0, True)],
    ids=["not in this time", "in more time", "nothing shows, so runs add up"],
)
def test_a_gain_that_the_time_left_does_not_show_is_no_candidate(
    tmp_path: Path, *, seconds: float, is_chosen: bool
):
    choosing, selected = after_four_runs(tmp_path, Noisy(0.0, 1), seconds)

    assert bool(choosing.finalists(selected)) is is_chosen


def test_counted_work_shows_what_the_time_left_does_not(tmp_path: Path):
    timed, seen = after_four_runs(tmp_path, Noisy(0.0, 1), 100.0)
    counted, _ = after_four_runs(tmp_path, Counts(0.0, 1), 100.0)

    beyond = [one._beyond(seen.course) for one in (timed, counted)]  # noqa: SLF001 - the rule

    assert beyond[0][CPU] > 0.01
    assert beyond[1] == {}


@pytest.mark.parametrize(("peak", "is_chosen"), [(1.004, True), (1.006, False)])
def test_what_repeats_itself_must_hold_half_of_its_limit_to_be_a_candidate(
    tmp_path: Path, *, peak: float, is_chosen: bool
):
    course: Course[None, Sample] = Course()
    for number in range(4):
        for label, mean, most in ((AS_IS, 1.0, 1.0), ("exgen", 0.9, peak)):
            values = {MEAN: mean * 1e9, PEAK: most * 1e9}
            course.add((number, None, label), Outcome.succeeded(values))
    rules = Rules(goals=(MEAN,), guards=(MEAN, PEAK))
    work = begun(tmp_path, Request(("app",), 100.0, ("exgen",), rules), Noisy(0.0, 1))
    reference = as_it_is({MEAN: 1e9, PEAK: 1e9}, 1.0)
    one = Proposal(Configuration("exgen"), None, {MEAN: -0.1, PEAK: 0.0})
    choosing = choosing_among(work, reference, [one])

    found = choosing.finalists(selected_of(course, {"exgen": one}))

    assert bool(found) is is_chosen


def test_what_is_known_from_elsewhere_runs_whatever_is_expected_of_it(tmp_path: Path):
    known = [Configuration.of("glibc", {"arena_max": number}) for number in range(1, 9)]
    app = Timed({str(one): -6.0 for one in known})

    found = choosing_of(tmp_path, app, 60.0, known).select(n_possible=6)

    assert {*map(str, known)} <= {*found.labels}


def test_what_there_was_no_time_for_is_run_by_a_later_call(tmp_path: Path):
    scatters = {str(one): -0.04 * (place % 2) for place, one in enumerate(SETTINGS)}
    first, later = Timed(scatters), Timed(scatters)

    short = choosing_of(tmp_path, first, 9.0).select(n_possible=6)
    whole = choosing_of(tmp_path, later, 60.0).select(n_possible=40)

    assert short.n_untried > 0
    assert first.now_s <= 9.0
    assert not {*first.ran_labels} & {*later.ran_labels} - {AS_IS}
    assert (len(whole.labels), whole.n_untried) == (len(SETTINGS), 0)


def test_once_an_exploration_began_no_more_run_before_it(tmp_path: Path):
    first, later = Timed({}), Timed({})
    short = choosing_of(tmp_path, first, 9.0).select(n_possible=6)
    n_rounds, journal = short.course.n_rounds, tmp_path / SELECTION_FILE
    (tmp_path / EXPLORATION_FILE).write_text(f'{{}}\n{{"round": {n_rounds}}}\n')

    again = choosing_of(tmp_path, later, 60.0).select(n_possible=40)
    assert later.ran_labels == []
    assert again.changes == short.changes

    header, lost, *lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(header + "".join(lines))
    again = choosing_of(tmp_path, later, 60.0).select(n_possible=40)
    assert later.ran_labels == [json.loads(lost)["subject"]]
    assert again.changes == short.changes


def test_a_setting_goes_where_the_whole_program_would_not_see_it(tmp_path: Path):
    values = {"mean_heap": 1e6, "peak_heap": 2_000_000, "cost": 1e6}
    wanted = ONE.with_values(**values)
    base = Trial(0, Configuration("glibc"), Origin.DEFAULT, Outcome.succeeded(wanted), None, 0.0)
    baseline = Baseline({MEAN: 1e6, PEAK: 2e6, CPU: 1e9}, base, 1.0)
    work = begun(tmp_path, Request(("app",), 60.0, ("glibc",)))
    reference = as_it_is({})
    choosing = choosing_among(work, reference, [], baseline)

    lost = choosing._lost  # noqa: SLF001 - the rule itself
    assert lost(wanted.with_values(cost=1.1e6), wanted)[CPU] < 0.001
    assert lost(wanted.with_values(cost=4e6), wanted)[CPU] > 0.0025
    assert lost(wanted.with_values(mean_heap=1.01e6), wanted)[MEAN] == pytest.approx(math.log(1.01))


def test_one_slow_run_of_the_program_as_it_is_favours_nothing(tmp_path: Path):
    course: Course[None, Sample] = Course()
    for number, base in enumerate((1.0, 2.0, 1.0)):
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: 1e9 * base}))
        course.add((number, None, f"glibc mxfast={number}"), Outcome.succeeded({CPU: 1e9}))
    settings = [Configuration.of("glibc", {"mxfast": number}) for number in range(3)]
    proposals = [Proposal(one, 1, {CPU: 0.0}) for one in settings]
    work = begun(tmp_path, Request(("app",), 60.0, ("glibc",)))
    reference = as_it_is({CPU: 1e9}, 1.0)
    choosing = choosing_among(work, reference, proposals)

    found = choosing._estimates(course, proposals)  # noqa: SLF001 - the rule itself

    assert [one.logs[CPU] for one in found] == pytest.approx([0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("seconds", "n_untried", "is_closed", "is_run"),
    [
        (60.0, 0, False, True),
        (20.0, 0, False, False),
        (60.0, 1, False, False),
        (60.0, 1, True, True),
    ],
)
def test_a_trade_runs_where_time_is_left_that_no_other_setting_may_use(
    tmp_path: Path, *, seconds: float, n_untried: int, is_closed: bool, is_run: bool
):
    course: Course[None, Sample] = Course()
    setting = Configuration.of("glibc", {"mxfast": 0})
    label = label_of(setting)
    for number in range(3):
        as_is, fast = {MEAN: 1e9, PEAK: 1e9, CPU: 1e9}, {MEAN: 1e9, PEAK: 1.05e9, CPU: 8e8}
        course.add((number, None, AS_IS), Outcome.succeeded(as_is))
        course.add((number, None, label), Outcome.succeeded(fast))
    selected = selected_of(course, {label: Proposal(setting, 1, {})})
    work = begun(tmp_path, Request(("app",), seconds, ("glibc",)))
    reference = as_it_is({}, 1.0)

    if is_closed:
        (tmp_path / EXPLORATION_FILE).touch()
    found = trade(work, reference, replace(selected, n_untried=n_untried))

    assert found == ({label: setting} if is_run else {})
    course.leave(None, label, "killed by SIGSEGV")
    assert trade(work, reference, selected_of(course, selected.labels)) == {}


def test_the_luckiest_of_many_runs_is_no_trade(tmp_path: Path):
    course: Course[None, Sample] = Course()
    settings = [Configuration.of("exgen", {"a": number}) for number in range(8)]
    noises = (1.0, 0.95, 1.05, 1.1, 0.9, 1.0)
    for number, noise in enumerate(noises):
        course.add((number, None, AS_IS), Outcome.succeeded({MEAN: 1e9, CPU: noise * 1e9}))
    for number, one in enumerate(settings):
        cpu = 8e8 if number == 3 else 9.9e8
        mean = 1.08e9 if number == 3 else 1.1e9
        course.add((0, None, label_of(one)), Outcome.succeeded({MEAN: mean, CPU: cpu}))
    proposals = [Proposal(one, 1, {MEAN: 0.05, CPU: -0.01}) for one in settings]
    work = begun(tmp_path, Request(("app",), 600.0, ("exgen",), Rules(guards=(MEAN, CPU))))
    reference = as_it_is({MEAN: 1e9, CPU: 1e9}, 1.0)
    choosing = choosing_among(work, reference, proposals)
    by_label = {label_of(p.configuration): p for p in proposals}

    as_seen = selected_of(course, by_label)
    found = choosing.selected(course, by_label)

    assert trade(work, reference, as_seen), "a fifth of the time would be worth 8 % of memory"
    lucky = found.changes[label_of(settings[3])][CPU]
    assert lucky.seen_change == pytest.approx(-0.2)
    assert lucky.change == pytest.approx(-0.04, abs=0.02)
    assert trade(work, reference, found) == {}


@pytest.mark.parametrize(
    ("allocator", "default_mean"), [("glibc", 1.0), ("exgen", 1.02)], ids=["as it is", "a default"]
)
def test_what_is_left_of_a_candidate_is_near_by_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allocator: str, default_mean: float
):

    def smallest(*args: object, **named: Any) -> Configuration:
        return worthwhile(
            cast("Configuration", args[3]),
            lambda one: cast("float", named["loss_of"](one, ONE, ONE)),
            named["worth"],
            named["most"],
        )

    monkeypatch.setattr(emulation, "smallest", smallest)
    both = Configuration.of(allocator, {"a": 1, "b": 2})
    default = Configuration(allocator)
    means = {label_of(both): 0.95, label_of(default): default_mean}
    course: Course[None, Sample] = Course()
    for number in range(8):
        course.add((number, None, AS_IS), Outcome.succeeded({MEAN: 1e9, PEAK: 1e9, CPU: 1e9}))
        for label, mean in means.items():
            values = {MEAN: mean * 1e9, PEAK: 1e9, CPU: 1e9}
            course.add((number, None, label), Outcome.succeeded(values))
    nothing = dict.fromkeys((MEAN, PEAK, CPU), 0.0)
    proposals = [Proposal(one, 1, nothing) for one in (both, default) if one != AS_GLIBC]
    base = Trial(0, AS_GLIBC, Origin.DEFAULT, Outcome.succeeded(ONE), None, 0.0)
    baseline = Baseline({MEAN: 1e9, PEAK: 1e9, CPU: 1e9}, base, 1.0)
    work = begun(tmp_path, Request(("app",), 600.0, ("glibc", "exgen")))
    values = {MEAN: 1e9, PEAK: 1e9, CPU: 1e9}
    reference = as_it_is(values, 1.0)
    choosing = choosing_among(work, reference, proposals, baseline)

    found = choosing.finalists(
        selected_of(course, {label_of(p.configuration): p for p in proposals})
    )

    assert [len(one.settings) for one in found.values()] == [1]


def test_where_time_is_short_the_one_whose_guards_seem_to_hold_is_first(tmp_path: Path):
    costly, free = Configuration.of("exgen", {"a": 1}), Configuration.of("glibc", {"b": 2})
    shares = {label_of(costly): (0.6, 1.4), label_of(free): (0.75, 1.0)}
    course: Course[None, Sample] = Course()
    for number, noise in enumerate((0.8, 1.2, 0.8, 1.2)):
        values = {MEAN: 1e9, PEAK: 1e9, CPU: noise * 1e9}
        course.add((number, None, AS_IS), Outcome.succeeded(values))
        for label, (mean, cpu) in shares.items():
            values = {MEAN: mean * 1e9, PEAK: 1e9, CPU: cpu * noise * 1e9}
            course.add((number, None, label), Outcome.succeeded(values))
    nothing = dict.fromkeys((MEAN, PEAK, CPU), 0.0)
    proposals = [Proposal(one, None, nothing) for one in (costly, free)]
    work = begun(tmp_path, Request(("app",), 60.0, ("glibc", "exgen")))
    reference = as_it_is(nothing, 3.0)
    choosing = choosing_among(work, reference, proposals)

    found = choosing.finalists(
        selected_of(course, {label_of(p.configuration): p for p in proposals})
    )

    assert next(iter(found.values())) == free
