"""The confirmation: what is reserved of the time, and what is said beforehand."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tests.doubles.program_runs import AsDeployed
from tests.unit.optimize.answering.test_answer import DEPLOY
from tests.unit.optimize.kinds.test_counted import Counting
from tuner.compare.journal import Journal, read_journal
from tuner.compare.plan import Step
from tuner.emulation import Calibration
from tuner.errors import ProgramError
from tuner.optimize.answering.answer import Answer, Decision, write_answer
from tuner.optimize.answering.conditions import parse_condition
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirming import held_out
from tuner.optimize.confirming.confirmation import Confirmed, Confirming
from tuner.optimize.confirming.held_out import HeldOutInput, Judging
from tuner.optimize.kinds import counted
from tuner.optimize.kinds.counted import COUNTED_FILE, seconds_to_count
from tuner.optimize.kinds.service import service_rules
from tuner.optimize.proof.judgement import State
from tuner.optimize.quantities import CPU, MEAN, PEAK, SERVICE_NAMES
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned, label_of
from tuner.optimize.view import View
from tuner.optimize.work import FIRST_RUNS, HELD_OUT_FILES, Watch, Work
from tuner.records import Configuration, Outcome, Status
from tuner.runs import CONFIRMATION_FILE, SELECTION_FILE

USES = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9}
REFERENCE = Reference(("app",), USES, 0, None, None, wall_s=0.98, timeout_s=30.0)
CHOSEN = {"mimalloc": Configuration("mimalloc"), "exgen": Configuration("exgen")}
ONE = {"exgen": CHOSEN["exgen"]}
ACCIDENT = 2
"""Round of the confirmation in which candidates run before the program as it is."""


class App(View, Counting, AsDeployed):
    """A program with noise of which every run takes a second; it remembers what is said."""

    command = ("app",)

    def __init__(self, counts: Mapping[str, int | None], noise: float = 0.0) -> None:
        """Take label -> instructions, and the standard deviation of log(CPU time)."""
        super().__init__(counts)
        self._noise = noise
        self.now_s = 0.0
        self.said: list[str] = []

    def tell(self, text: str) -> None:
        self.said.append(text)

    def runner(self, candidates: object, reference: object) -> Runs:
        del candidates, reference
        return lambda step: Outcome.succeeded(self.sample(step))

    def sample(self, step: Step[None]) -> Sample:
        self.now_s += 1.0
        draw = np.random.default_rng([step.round, step.position]).normal(0.0, self._noise)
        mean = USES[MEAN] * (1.0 if step.subject == AS_IS else 0.9)
        return {**USES, MEAN: mean, CPU: USES[CPU] * math.exp(draw)}


def quiet() -> App:
    return App({}, noise=0.001)


def held_out_of(app: App, reference: Reference = REFERENCE) -> HeldOutInput:
    return HeldOutInput(cast("Tuned", app), reference)


def work_of(folder: Path, app: App, seconds: float) -> Work:
    request = Request(("app",), seconds, ("glibc",))
    return Work(folder, request, cast("Tuned", app), Watch(seconds, lambda: app.now_s), app)


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Calibration(c_fault=1.0, c_syscall=1.0)
    monkeypatch.setattr(counted, "load_calibration", lambda: found)


ALL = {AS_IS: 1_000_000, "mimalloc": 960_000, "exgen": 950_000}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (ALL, "counted work shows smaller"),
        ({}, "CPU time, which varies by 3.0 %"),
        ({**ALL, "exgen": None}, "CPU time, which varies by 3.0 %"),
    ],
    ids=["all", "none", "one is missing"],
)
@pytest.mark.usefixtures("prices")
def test_what_is_said_of_the_time_knows_of_counted_work(
    tmp_path: Path, counts: Mapping[str, int | None], words: str
):
    app = App(counts)

    found = Confirming(work_of(tmp_path, app, 2000.0), REFERENCE, None).confirm(CHOSEN)

    (said,) = app.said
    assert words in said
    assert ("counted work" in said) is (found.counted.keys() == CHOSEN.keys())


def test_what_waits_does_so_in_a_later_call_too(tmp_path: Path):
    app = App({}, noise=0.1)

    Confirming(work_of(tmp_path, app, 20.0), REFERENCE, None).confirm(CHOSEN, n_waiting=1)
    Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)

    assert all("1 candidate and 1 in reserve" in words for words in app.said)
    assert len(app.said) == 2
    content = read_journal(tmp_path / CONFIRMATION_FILE)
    assert content
    first = [one["subject"] for one in content.records if one["round"] < 4]
    assert set(first) == {AS_IS, "mimalloc"}


def test_what_machines_differ_by_is_not_said_to_be_noise(tmp_path: Path):
    app = quiet()
    with Journal(tmp_path / SELECTION_FILE, {}) as journal:
        for n in range(12):
            values = {CPU: USES[CPU] * (1 + n % 2)}
            machine = f"machine-{n % 2}"
            journal.append({"subject": AS_IS, "values": values, "machine": machine})

    Confirming(work_of(tmp_path, app, 2000.0), REFERENCE, None).confirm(CHOSEN)

    assert "CPU time, which varies by 1.0 %" in app.said[0]


@pytest.mark.usefixtures("prices")
def test_rounds_are_not_promised_of_time_that_is_kept_for_the_held_out_input(tmp_path: Path):
    said = []
    for name, other in (("with", held_out_of(App({}))), ("without", None)):
        (tmp_path / name).mkdir()
        app = App(ALL, noise=2.0)
        work = work_of(tmp_path / name, app, 400.0)
        Confirming(work, REFERENCE, other).confirm(CHOSEN)
        said.append(int(re.findall(r"about (\d+) rounds", app.said[0])[0]))

    assert said[1] - said[0] == pytest.approx(20.0 / (len(CHOSEN) + 1), abs=1.0)


@pytest.mark.usefixtures("prices")
def test_no_time_is_reserved_for_counts_that_were_made(tmp_path: Path):
    app = App(ALL, noise=2.0)
    work = work_of(tmp_path, app, 400.0)
    count_s = seconds_to_count(work, REFERENCE, CHOSEN)
    (tmp_path / COUNTED_FILE).write_text(json.dumps({name: {"instructions": 9} for name in ALL}))

    Confirming(work, REFERENCE, None).race(CONFIRMATION_FILE, CHOSEN, {}, len(CHOSEN))

    assert count_s > 10 * len(CHOSEN)
    assert seconds_to_count(work, REFERENCE, CHOSEN) == 0.0
    assert 400.0 - app.now_s < 2 * len(CHOSEN)


@pytest.mark.usefixtures("prices")
def test_what_was_in_reserve_and_never_ran_has_no_standing(tmp_path: Path):
    app = App({})

    found = Confirming(work_of(tmp_path, app, 25.0), REFERENCE, None).confirm(CHOSEN)

    first, second = CHOSEN
    assert " 1 candidate and 1 in reserve" in app.said[0]
    assert found.standings.keys() == {first}
    assert second in found.chosen


def test_what_is_not_counted_yet_is_reserved(tmp_path: Path):
    app = App(ALL)
    work = work_of(tmp_path, app, 2000.0)
    both_s = seconds_to_count(work, REFERENCE, CHOSEN)
    (tmp_path / COUNTED_FILE).write_text(json.dumps({AS_IS: {"instructions": 9}}))

    assert seconds_to_count(work, REFERENCE, CHOSEN) == both_s / 2.0 > 0.0
    for other, seconds in ((app, 20.0), (App({}), 2000.0)):
        assert seconds_to_count(work_of(tmp_path, other, seconds), REFERENCE, CHOSEN) == 0.0


class Without(App):
    """A program that does not show one of the quantities."""

    def __init__(self, name: str) -> None:
        super().__init__({})
        self._name = name

    def sample(self, step: Step[None]) -> Sample:
        values = super().sample(step)
        return {n: v for n, v in values.items() if n != self._name}


def test_a_guard_that_the_held_out_input_does_not_show_is_not_judged_on_it(tmp_path: Path):
    values = {name: value for name, value in USES.items() if name != PEAK}
    held_out = held_out_of(Without(PEAK), replace(REFERENCE, values=values))
    confirming = Confirming(work_of(tmp_path, App({}), 60.0), REFERENCE, held_out)

    found = confirming.hold_out("exgen", CHOSEN["exgen"])

    assert found is not None
    assert found.standing.gains.keys() == values.keys()
    assert PEAK not in found.standing.unsure


class Served(App):
    """A service whose load prints one latency, which settings change by a factor."""

    def __init__(self, latency: str, factor: float = 1.0) -> None:
        super().__init__({}, noise=0.001)
        self.latency, self.factor = SERVICE_NAMES[latency], factor

    @property
    def reference(self) -> Reference:
        return replace(REFERENCE, values={**USES, self.latency: 1e6})

    def sample(self, step: Step[None]) -> Sample:
        took = 1e6 * (1.0 if step.subject == AS_IS else self.factor)
        return {**super().sample(step), self.latency: took}


@pytest.mark.parametrize(("factor", "worse"), [(1.0, ()), (2.0, (SERVICE_NAMES["p95"],))])
def test_the_latency_that_a_held_out_load_prints_is_judged_whatever_the_tuned_one_does(
    tmp_path: Path, factor: float, worse: tuple[str, ...]
):
    tuned, other = Served("p99"), Served("p95", factor)
    request = Request(("app",), 200.0, ("glibc",), rules=service_rules(0.01, {}))
    work = Work(tmp_path, request, cast("Tuned", tuned), Watch(200.0, lambda: tuned.now_s), tuned)
    work.request = replace(request, rules=request.rules.of(tuned.reference.values))

    held_out = held_out_of(other, other.reference)
    found = Confirming(work, tuned.reference, held_out).confirm(ONE)

    judged_there = found.held_out or found.held_back["exgen"]
    assert judged_there.standing.worse == worse
    assert (found.best is None) is bool(worse)


@pytest.mark.parametrize("seconds", [2000.0, 5.0])
@pytest.mark.usefixtures("prices")
def test_where_cpu_time_is_not_measured_nothing_is_said_of_it(tmp_path: Path, seconds: float):
    app = App({})
    values = {MEAN: USES[MEAN], PEAK: USES[PEAK]}
    work = work_of(tmp_path, app, seconds)

    Confirming(work, replace(REFERENCE, values=values), None).confirm(CHOSEN)

    (said,) = app.said
    assert re.fullmatch(r"confirming \d candidates?.*, about \d+ rounds? in the time left", said)


def test_rounds_of_earlier_calls_count_for_what_the_time_can_show(tmp_path: Path):
    app = App({}, noise=0.03)
    for seconds in (20.0, 40.0):  # the second call goes on where the first one ended
        chosen = {"mimalloc": CHOSEN["mimalloc"]}
        Confirming(work_of(tmp_path, app, seconds), REFERENCE, None).confirm(chosen)

    first, second = app.said
    assert "made before" not in first
    assert re.search(r"about 20 rounds in the time left, 9 made before, enough to show", second)


def test_of_what_is_decided_nothing_is_said_again(tmp_path: Path):
    app = App({})
    for has_run in (True, False):
        work = work_of(tmp_path, app, 2000.0)
        Confirming(work, REFERENCE, None).confirm(CHOSEN)
        assert work.has_run is has_run

    (said,) = app.said
    assert said.startswith("confirming ")


class Lossy(App):
    """Another input, on which a setting takes some CPU time more: label -> log of it."""

    def __init__(self, losses: Mapping[str, float], noise: float, since: int = 0) -> None:
        super().__init__({}, noise)
        self.losses, self.since = losses, since

    def sample(self, step: Step[None]) -> Sample:
        values = super().sample(step)
        lost = self.losses.get(step.subject, 0.0) if step.round >= self.since else 0.0
        took = values[CPU] * math.exp(lost)
        return {**values, CPU: took}


class Failing(Lossy):
    """A program of which some runs fail: (round, subject) -> whether one does."""

    def __init__(
        self, fails: Callable[[int, str], bool], losses: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(losses or {}, noise=0.0)
        self.fails = fails

    def runner(self, candidates: object, reference: object) -> Runs:
        run = super().runner(candidates, reference)
        crash: Outcome[Sample] = Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
        return lambda step: crash if self.fails(step.round, step.subject) else run(step)


def test_a_winner_that_crashes_on_the_held_out_input_is_not_deployed(tmp_path: Path):
    held_out = held_out_of(Failing(lambda _, subject: subject != AS_IS))
    work = work_of(tmp_path, App({}), 200.0)

    found = Confirming(work, REFERENCE, held_out).confirm(CHOSEN)
    answer = Conclusion(work, REFERENCE).conclude(None, found)

    assert found.best is None
    assert found.held_back.keys() == CHOSEN.keys()
    assert (answer.decision, answer.label) == (Decision.KEEP, next(iter(found.held_back)))
    words = "but fails with the held-out one: killed by SIGSEGV."
    assert all(words in one for one in answer.reasons)


def judged(
    folder: Path, app: App, held_out: App, seconds: float, chosen: Mapping[str, Configuration]
) -> tuple[Confirmed, Answer]:
    """Confirm on one input, judge on another; both take their time from one clock."""
    work = work_of(folder, app, seconds)
    held_out.now_s = 0.0
    work.watch = Watch(seconds, lambda: app.now_s + held_out.now_s)
    app.now_s = 0.0
    found = Confirming(work, REFERENCE, held_out_of(held_out)).confirm(chosen)
    return found, Conclusion(work, REFERENCE).conclude(None, found)


def test_a_crash_after_a_round_that_looked_worse_turns_the_winner_down(tmp_path: Path):
    other = Failing(lambda number, subject: number == 1 and subject != AS_IS, {"exgen": 0.1})

    found, answer = judged(tmp_path, quiet(), other, 200.0, ONE)

    assert not found.is_good
    assert answer.decision is Decision.KEEP
    assert "with the held-out one: killed by SIGSEGV." in answer.reasons[0]


@pytest.mark.parametrize("loss", [0.03, None], ids=["doubtful", "fails"])
def test_where_what_was_deployed_is_not_good_its_winner_is_judged(
    tmp_path: Path, loss: float | None
):
    less = Configuration.of("exgen", {"a": 1})
    name = label_of(less)
    chosen = {"exgen a=1 b=1": Configuration.of("exgen", {"a": 1, "b": 1})}
    other: Lossy = Failing(lambda _, subject: subject == name)
    if loss is not None:
        other = Lossy({name: loss}, noise=0.04)
    write_answer(tmp_path, replace(DEPLOY, configuration=less))

    _, answer = judged(tmp_path, quiet(), other, 45.0, chosen)
    write_answer(tmp_path, answer)
    _, again = judged(tmp_path, quiet(), other, 0.1, chosen)

    assert answer.label == "exgen a=1 b=1"
    assert answer.decision is again.decision is Decision.DEPLOY


def test_what_looks_worse_is_not_held_against_itself(tmp_path: Path):
    other = held_out_of(Lossy({"exgen": 0.03}, noise=0.04))
    confirming = Confirming(work_of(tmp_path, App({}), 0.1), REFERENCE, other)

    first, again = (confirming.hold_out("exgen", CHOSEN["exgen"]) for _ in range(2))

    assert first is not None
    assert first.doubtful
    assert again == first


def test_a_loss_on_the_held_out_input_that_is_not_proven_leaves_the_answer_open(tmp_path: Path):
    other = Lossy({"exgen": 0.03}, noise=0.04)

    found, answer = judged(tmp_path, quiet(), other, 45.0, ONE)

    assert found.best is not None
    assert found.best.state is State.CONFIRMED
    assert not found.is_good
    assert answer.decision is Decision.UNDECIDED
    assert answer.sentence.endswith(": whether CPU time is no worse with the held-out input.")
    assert "but with the held-out one CPU time +" in answer.reasons[0]
    assert found.held_out is not None
    n_rounds = found.held_out.standing.n_rounds
    assert f"looks worse, which its {n_rounds} rounds do not prove." in answer.reasons[0]
    assert answer.more_seconds > 2.0
    assert answer.held_out is not None
    assert parse_condition("undecided")(answer)
    text = list(answer.lines())
    assert "On the input that was not tuned on:" in text


@pytest.mark.parametrize(("many", "times"), [(100, 2.0), (10, 0.0)])
def test_time_that_did_not_settle_it_is_not_promised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, times: float
):
    monkeypatch.setattr(held_out, "rounds_for", lambda *_: 1)
    monkeypatch.setattr(held_out, "_MANY", many)

    found, answer = judged(tmp_path, quiet(), Lossy({"exgen": 0.03}, noise=0.04), 45.0, ONE)

    assert found.held_out is not None
    assert answer.more_seconds == times * found.held_out.standing.n_rounds


def test_where_others_were_turned_down_a_winner_must_hold_more(tmp_path: Path):
    other = held_out_of(Lossy({"exgen": 0.009}, noise=0.01))
    judging = Judging(work_of(tmp_path, App({}), 50.0), other)
    alone, later = (judging.judge("exgen", CHOSEN["exgen"], n) for n in (0, 2))

    assert alone.is_good
    assert alone.standing.gains[CPU].middle < -0.005
    assert later.standing.n_rounds > alone.standing.n_rounds

    first, again = (
        Judging(work_of(tmp_path / "two", App({}), 50.0), other).judge("exgen", CHOSEN["exgen"], n)
        for n in (2, 0)
    )
    assert again == first, "in a later call, too"


def test_more_time_goes_on_with_the_rounds_on_the_held_out_input(tmp_path: Path):
    other = Lossy({"exgen": 0.03}, noise=0.04)
    _, before = judged(tmp_path, quiet(), other, 45.0, ONE)
    (journal,) = tmp_path.glob(HELD_OUT_FILES)
    n_rounds = len(journal.read_text().splitlines()) // 2

    again, _ = judged(tmp_path, quiet(), other, 0.1, ONE)
    found, answer = judged(tmp_path, quiet(), other, 1000.0, ONE)

    assert before.decision is Decision.UNDECIDED
    assert again.held_out is not None
    assert again.held_out.doubtful == (CPU,)
    assert again.held_out.standing.n_rounds == n_rounds
    assert found.held_back["exgen"].standing.n_rounds > n_rounds
    assert answer.decision is Decision.KEEP


def test_progress_knows_of_rounds_beyond_those_that_were_planned(tmp_path: Path):
    planned = []

    class Seen(Lossy):
        def begin(self, stage: str, n_steps: int | None) -> None:
            planned.append((stage, n_steps))

    app = Seen({"exgen": 0.03}, noise=0.04)
    Judging(work_of(tmp_path, app, 30.0), held_out_of(app)).judge("exgen", CHOSEN["exgen"])

    assert planned == [("held-out input", 20), ("held-out input", 10)]


def test_what_holds_on_the_held_out_input_takes_the_rounds_that_bound_it(tmp_path: Path):
    found, answer = judged(tmp_path, quiet(), quiet(), 1000.0, ONE)

    assert answer.decision is Decision.DEPLOY
    assert found.held_out is not None
    assert found.held_out.standing.n_rounds == 10
    assert all(gain.bounds for gain in found.held_out.gains.values())
    assert found.held_out.standing.unsure == ()


def test_what_held_in_the_first_rounds_and_is_worse_in_most_is_not_deployed(tmp_path: Path):
    other = Lossy({"exgen": 0.1}, noise=0.001, since=4)

    _, answer = judged(tmp_path, quiet(), other, 200.0, ONE)

    assert answer.decision is not Decision.DEPLOY


@pytest.mark.parametrize("n_known", [4, 0])
def test_what_an_answer_knew_of_the_held_out_input_is_not_asked_again(tmp_path: Path, n_known: int):
    n_rounds = []
    for seconds in (0.1, 1000.0):
        judging = Judging(work_of(tmp_path, App({}), seconds), held_out_of(quiet()))
        n_rounds.append(judging.judge("exgen", CHOSEN["exgen"]).standing.n_rounds)
        (journal,) = tmp_path.glob(HELD_OUT_FILES)
        write_answer(tmp_path, replace(DEPLOY, rounds_of={journal.name: n_known}))

    assert n_rounds == [4, n_known or 10]


def test_what_does_not_look_worse_leaves_time_for_fewer_settings(tmp_path: Path):
    other = Lossy({"exgen": 0.0}, noise=0.1)

    found, answer = judged(tmp_path, quiet(), other, 400.0, ONE)

    assert answer.decision is Decision.DEPLOY
    assert found.held_out is not None
    assert found.held_out.standing.unsure == (CPU,)
    assert other.now_s == pytest.approx(200.0, abs=25.0)


class Unequal(App):
    """A program that one allocator saves more memory than the other."""

    def __init__(self, best: str) -> None:
        super().__init__({}, noise=0.005)
        self.best = best

    def sample(self, step: Step[None]) -> Sample:
        values = super().sample(step)
        share = 0.9 if step.subject == self.best else 1.0
        return {**values, MEAN: share * values[MEAN]}


def test_where_the_held_out_input_turns_the_winner_down_the_race_goes_on_without_it(tmp_path: Path):
    other = Lossy({"mimalloc": 0.1}, noise=0.001)

    found, answer = judged(tmp_path, Unequal("mimalloc"), other, 1000.0, CHOSEN)

    assert list(found.held_back) == ["mimalloc"]
    assert (answer.decision, answer.label) == (Decision.DEPLOY, "exgen")
    journals = [path.read_text().splitlines() for path in tmp_path.glob("*.jsonl")]
    assert answer.n_runs == FIRST_RUNS + sum(len(lines) - 1 for lines in journals)

    again, same = judged(tmp_path, Unequal("mimalloc"), other, 0.1, CHOSEN)
    assert (again.best, again.held_back) == (found.best, found.held_back)
    assert same.sentence == answer.sentence
    assert other.now_s == 0.0


def test_what_was_turned_down_stays_so_where_another_one_leads(tmp_path: Path):
    other = Lossy({"mimalloc": 0.1}, noise=0.001)
    judged(tmp_path, quiet(), other, 1000.0, {"mimalloc": CHOSEN["mimalloc"]})
    (tmp_path / CONFIRMATION_FILE).unlink()

    found, answer = judged(tmp_path, quiet(), other, 1000.0, CHOSEN)

    assert list(found.held_back) == ["mimalloc"]
    assert (answer.decision, answer.label) == (Decision.DEPLOY, "exgen")


def test_where_all_others_are_open_the_answer_is_open(tmp_path: Path):
    other = Lossy({"mimalloc": 0.1}, noise=0.001)

    found, answer = judged(tmp_path, Unequal("mimalloc"), other, 46.0, CHOSEN)

    assert list(found.held_back) == ["mimalloc"]
    assert answer.decision is Decision.UNDECIDED
    assert answer.label == "exgen"
    words = "mimalloc gains with the tuned input, but is worse with the held-out one: CPU time +"
    assert words in answer.reasons[0]
    notes = {row.label: row.note for row in answer.rows}
    assert notes["mimalloc"] == "turned down by the held-out input"
    assert notes["exgen"] != notes["mimalloc"]


def test_a_program_that_fails_as_it_is_is_an_error_that_names_the_run(tmp_path: Path):
    app = Failing(lambda number, subject: (number, subject) == (1, AS_IS))
    for _ in range(2):
        with pytest.raises(ProgramError, match=r"as it is: killed by SIGSEGV; .* that run again"):
            Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)
    app.fails = lambda *_: False

    assert Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN).best


def records_in(journal: Path) -> list[tuple[int, str, str | None]]:
    content = read_journal(journal)
    assert content
    return [(one["round"], one["subject"], one["reason"]) for one in content.records]


def test_an_accident_that_fails_the_program_as_it_is_puts_no_candidate_out(tmp_path: Path):
    app = Failing(lambda number, _: number == ACCIDENT)
    with pytest.raises(ProgramError, match="as it is"):
        Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)
    before = records_in(tmp_path / CONFIRMATION_FILE)
    out = {subject for number, subject, _ in before if number == ACCIDENT} - {AS_IS}
    assert out, "a candidate ran before the program as it is, and failed, too"
    app.fails = lambda *_: False

    for _ in range(2):
        found = Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)
        assert {one.state for one in found.standings.values()} == {State.CONFIRMED}
    after = records_in(tmp_path / CONFIRMATION_FILE)[len(before) :]
    assert out < {subject for number, subject, _ in after if number == ACCIDENT}


def test_who_fails_again_after_an_accident_is_out_in_later_calls_too(tmp_path: Path):
    app = Failing(lambda number, _: number == ACCIDENT)
    with pytest.raises(ProgramError, match="as it is"):
        Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)
    _, failed, _ = records_in(tmp_path / CONFIRMATION_FILE)[-2]
    app.fails = lambda number, subject: (number, subject) == (ACCIDENT, failed)

    for _ in range(2):
        found = Confirming(work_of(tmp_path, app, 60.0), REFERENCE, None).confirm(CHOSEN)
        assert found.standings[failed].state is State.FAILED
        app.fails = lambda *_: False


class Alternating(App):
    """Another input, on which a setting is faster and slower in turn."""

    def sample(self, step: Step[None]) -> Sample:
        values = super().sample(step)
        factor = 1.0 if step.subject == AS_IS else (0.9, 1.1)[step.round % 2]
        return {**values, CPU: values[CPU] * factor}


@pytest.mark.parametrize(("wall_s", "n_rounds"), [(0.98, 15), (2.5, 10), (5.0, 6), (100.0, 4)])
def test_the_held_out_input_runs_as_often_as_time_is_left_but_often_enough_to_tell(
    tmp_path: Path, wall_s: float, n_rounds: int
):
    held_out = held_out_of(Alternating({}), replace(REFERENCE, wall_s=wall_s))
    confirming = Confirming(work_of(tmp_path, App({}), 62.0), REFERENCE, held_out)

    found = confirming.hold_out("exgen", CHOSEN["exgen"])

    assert found is not None
    assert found.standing.n_rounds == n_rounds


def test_no_time_is_reserved_for_counts_without_an_instrument(tmp_path: Path):
    assert seconds_to_count(work_of(tmp_path, App({}), 2000.0), REFERENCE, CHOSEN) == 0.0


def test_who_shares_the_error_with_others_takes_longer_to_settle(tmp_path: Path):
    other = held_out_of(Lossy({"exgen": 0.03}, noise=0.04))
    judging = Judging(work_of(tmp_path, App({}), 1.0), other)
    alone, later = (judging.judge("exgen", CHOSEN["exgen"], n) for n in (0, 9))

    assert alone.standing.n_rounds <= later.standing.n_rounds
    assert 0.0 < 1.5 * alone.more_seconds < later.more_seconds
