"""An optimisation from its first runs to its answer, over several calls."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.doubles.program_runs import AsDeployed
from tests.doubles.programs import compile_
from tests.doubles.runs import synthetic_run, trial
from tests.doubles.synthetic import PARTS
from tests.unit.optimize.answering.test_answer import DEPLOY
from tuner.allocators import Installation
from tuner.campaign.executors import Where
from tuner.compare.plan import Course, Step
from tuner.config import CampaignSpec
from tuner.errors import (
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.optimize import session
from tuner.optimize.answering.answer import Answer, Decision, write_answer
from tuner.optimize.answering.recommendation import recommended
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.outlook import FEWEST_RUNS
from tuner.optimize.choosing.selected import Selected
from tuner.optimize.confirming.held_out import HeldOutStanding
from tuner.optimize.kinds.making import Files
from tuner.optimize.kinds.suite import further_trace, further_traces
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.session import Session, are_runs_all, fewest_runs, not_held_out
from tuner.optimize.tuned import AS_IS, ProgramRecording, Reference, Runs, Sample, Tuned, label_of
from tuner.optimize.used_time import TIME_FILE
from tuner.optimize.view import View
from tuner.optimize.work import (
    EXPLORATION_FILE,
    FIRST_RUNS,
    HELD_OUT_FILES,
    TRACE_FILE,
    Watch,
    Work,
)
from tuner.records import Configuration, Outcome, Status
from tuner.report.measured import measured_front, measured_text
from tuner.runs import ANSWER_FILE, CONFIRMATION_FILE, REQUEST_FILE, SELECTION_FILE
from tuner.service.plan import ServicePlan
from tuner.space import Space, joint_space
from tuner.trace.file import EVENT, write_trace

SERVICE = Request(
    ("server",), 600.0, ("glibc",), service=ServicePlan(("server",), "tcp:80", "load")
)
REQUEST = Request(("app",), 100.0, ("glibc", "jemalloc"), is_direct=True)
USES = {MEAN: 100e6, PEAK: 120e6, CPU: 1e9}
REFERENCE = Reference(("app",), USES, 0, None, None, wall_s=0.98, timeout_s=30.0)


class App(AsDeployed):
    """A program whose every run takes a second; jemalloc's cache costs it a tenth of its memory."""

    command: tuple[str, ...] = ("app",)

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ran: list[str] = []
        self.n_examined = 0
        self.versions: dict[str, str] = {}
        """Of allocators, where they are not 1."""
        self.ends_after = -1
        """Runs before something raises `error`; -1: nothing does."""
        self.error: BaseException = KeyboardInterrupt()
        self.does: Callable[[], object] = lambda: None
        """Is called at every run."""
        self.shares: Mapping[str, float] = {}
        """Label -> what it uses, where that is another share."""
        self.crashes: Callable[[Step[None], Collection[str]], bool] = lambda *_: False
        """Whether a step fails, of the candidates with these labels."""

    def __call__(self) -> float:
        return self.now_s

    def known(self, reference: Reference) -> tuple[Configuration, ...]:
        return ()

    def refusal(self, configuration: Configuration) -> str | None:
        return None

    def examine(self) -> Reference:
        self._end_or_go_on()
        self.n_examined += 1
        self.now_s += 2.0
        return REFERENCE

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        write_trace(trace, np.zeros(0, EVENT), {})
        return ProgramRecording("events", ("little is live",))

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        def run(step: Step[None]) -> Outcome[Sample]:
            self._end_or_go_on()
            self.does()
            self.ran.append(step.subject)
            self.now_s += 1.0
            if self.crashes(step, candidates):
                return Outcome.did_not_succeed(Status.FAILED, CRASH)
            one = candidates.get(step.subject, Configuration("glibc"))
            share = 0.9 if one.as_dict.get("cache") is False else 1.0
            share = self.shares.get(step.subject, share)
            noise = 1.0 + 0.001 * ((len(self.ran) * 7) % 5)
            return Outcome.succeeded({n: v * noise * share for n, v in USES.items()})

        return run

    def _end_or_go_on(self) -> None:
        if len(self.ran) == self.ends_after:
            raise self.error


CRASH = "killed by SIGSEGV instead of exit status 0"

PEAK_BYTES = 50e6
"""Of the heap in emulation."""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    """Return a program that sessions tune in the place of a real one."""
    found = App()

    def space_of(files: Files, reference: Reference, names: Sequence[str]) -> Space:
        return joint_space({name: PARTS[name] for name in names})

    def locate(spec: CampaignSpec) -> dict[str, tuple[None, Installation]]:
        names = [choice.name for choice in spec.choices]
        return {n: (None, Installation(n, None, found.versions.get(n, "1"))) for n in names}

    monkeypatch.setattr(session, "locate", locate)
    monkeypatch.setattr(session, "tuned_of", lambda *_: found)
    monkeypatch.setattr(session, "space_of", space_of)
    monkeypatch.setattr(emulation, "first_default", lambda _: emulation.First(0.1, PEAK_BYTES))
    return found


@pytest.fixture
def held_out(monkeypatch: pytest.MonkeyPatch) -> App:
    """Return the same with another input, where a request has one."""
    found = App()
    found.command = ("app", "other")
    monkeypatch.setattr(
        session, "held_out_of", lambda request, *_: found if request.held_out else None
    )
    return found


def answer(folder: Path, app: App, request: Request = REQUEST) -> Answer:
    return Session(folder, request, environment={}, clock=app).answer()


def test_a_library_of_another_version_than_was_measured_is_not_gone_on_with(
    tmp_path: Path, app: App
):
    answer(tmp_path, app)
    n_ran = len(app.ran)
    app.versions["jemalloc"] = "2"

    with pytest.raises(MissingToolError, match="version 1 was measured, here is 2; begin another"):
        answer(tmp_path, app)
    assert len(app.ran) == n_ran


class InTurn:
    """Candidates one after the other."""

    def __init__(self, *those: Configuration) -> None:
        self._those = those

    proposals = ()

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        del n_possible, without
        return Selected(Course(AS_IS), {})

    n_waiting = 0

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        del selected
        left = [one for one in self._those if one not in without]
        return {label_of(one): one for one in left[:1]}

    def smaller(self, configuration: Configuration) -> tuple[()]:
        del configuration
        return ()


@pytest.fixture
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a setting that gains be confirmed after one that does not."""
    those = Configuration("jemalloc"), Configuration.of("jemalloc", {"cache": False})
    monkeypatch.setattr(session, "DirectSearch", lambda *_: InTurn(*those))


@pytest.mark.usefixtures("_in_turn")
def test_where_the_first_candidate_is_out_another_one_follows(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))
    found = answer(tmp_path, app)
    assert not any("ran        nothing" in line for line in said)
    rounds = {path: path.read_bytes() for path in tmp_path.glob("confirmation*.jsonl")}
    (tmp_path / SELECTION_FILE).touch()
    again = answer(tmp_path, app)
    answer(tmp_path, app, replace(REQUEST, seconds=1.0))
    assert said[-1].startswith("ran        nothing: the answer is known")

    assert (found.decision, found.label) == (Decision.DEPLOY, "jemalloc cache=false")
    assert {"jemalloc", "jemalloc cache=false"} <= {row.label for row in found.rows}
    assert again.label == found.label
    assert len(rounds) == 2
    assert {path: path.read_bytes() for path in rounds} == rounds


NO_CACHE = Configuration.of("jemalloc", {"cache": False})
FIT = Configuration.of("jemalloc", {"fit": "first"})
LONGER = replace(REQUEST, seconds=200.0)


class AtOnce(InTurn):
    """Candidates beside each other."""

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        del selected
        return {label_of(one): one for one in self._those if one not in without}


@pytest.fixture
def _deployed(tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy a setting in the folder, and let a search find a better one from then on."""
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(NO_CACHE))
    assert answer(tmp_path, app).configuration == NO_CACHE
    (tmp_path / SELECTION_FILE).touch()
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(FIT))
    app.shares = {label_of(FIT): 0.8}


@pytest.mark.usefixtures("_deployed")
def test_what_is_deployed_is_searched_on_with_a_longer_time_once(tmp_path: Path, app: App):
    n_ran = len(app.ran)
    assert answer(tmp_path, app).configuration == NO_CACHE
    assert len(app.ran) == n_ran, "it stays in the same time"
    deployed = (tmp_path / ANSWER_FILE).read_text()
    better = answer(tmp_path, app, LONGER)
    n_ran = len(app.ran)
    again = [answer(tmp_path, app, one).configuration for one in (LONGER, REQUEST, LONGER)]

    assert {label_of(FIT), label_of(NO_CACHE)} <= {row.label for row in better.rows}
    assert [better.configuration, *again] == [FIT] * 4
    assert len(app.ran) == n_ran
    assert Request.load(tmp_path).seconds == LONGER.seconds
    assert (tmp_path / "before-1" / ANSWER_FILE).read_text() == deployed


@pytest.mark.usefixtures("_deployed")
def test_what_is_deployed_stays_where_a_longer_search_finds_nothing_else(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(NO_CACHE))
    proof = (tmp_path / CONFIRMATION_FILE).read_bytes()

    assert answer(tmp_path, app, LONGER).configuration == NO_CACHE
    assert (tmp_path / CONFIRMATION_FILE).read_bytes() == proof
    assert not (tmp_path / "before-1").exists()


def test_a_candidate_that_never_ran_is_not_out_where_more_time_is_given(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    plain = Configuration("jemalloc")
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(NO_CACHE, plain))
    answer(tmp_path, app)
    journal = tmp_path / CONFIRMATION_FILE
    header, *runs = journal.read_text().splitlines()
    of_others = [run for run in runs if json.loads(run)["subject"] != label_of(plain)]
    assert len(of_others) < len(runs)
    journal.write_text("\n".join([header, *of_others, ""]))

    answer(tmp_path, app, LONGER)

    assert (tmp_path / "before-1").exists(), "it runs beside what is deployed"


def test_candidates_that_lost_to_what_is_deployed_are_not_proven_anew(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    plain = Configuration("jemalloc")
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(NO_CACHE, plain))
    assert answer(tmp_path, app).configuration == NO_CACHE

    assert answer(tmp_path, app, LONGER).configuration == NO_CACHE
    assert not (tmp_path / "before-1").exists()


def test_what_was_open_beside_what_is_deployed_goes_on_with_more_time(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    without: list[Configuration] = []

    class Searching(AtOnce):
        def select(self, n_possible: int, without_: Collection[Configuration] = ()) -> Selected:
            without.extend(without_)
            return super().select(n_possible)

    monkeypatch.setattr(session, "DirectSearch", lambda *_: Searching(NO_CACHE, FIT))
    assert answer(tmp_path, app).configuration == NO_CACHE
    path = tmp_path / ANSWER_FILE
    kept = json.loads(path.read_text())
    (row,) = [one for one in kept["subjects"] if one["label"] == label_of(FIT)]
    row["is_open"] = True
    path.write_text(json.dumps(kept))
    app.shares = {label_of(FIT): 0.8}

    assert answer(tmp_path, app, LONGER).configuration == FIT
    assert set(without) == {NO_CACHE, FIT}, "else they keep others from running"


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_winner_that_fails_beside_itself_with_a_setting_less_is_not_deployed(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
):
    winner = Configuration.of("jemalloc", {"cache": False, "narenas": 2})
    label = label_of(winner)
    app.shares = {label: 0.8}
    app.crashes = lambda step, candidates: (
        step.subject == label and step.round > 0 and "without cache" in candidates
    )
    others = () if is_alone else (NO_CACHE,)
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(winner, *others))

    found = answer(tmp_path, app, LONGER)
    (tmp_path / SELECTION_FILE).touch()
    n_ran = len(app.ran)
    again = answer(tmp_path, app, LONGER)

    assert [found.configuration, again.configuration] == [None if is_alone else NO_CACHE] * 2
    assert len(app.ran) == n_ran
    assert app.ran.count("without narenas") == 2, "then nothing is left to compare with"
    assert {row.label: row.note for row in again.rows}[label] == CRASH
    assert any(f"but it failed: {CRASH}" in line for line in found.lines(200)) is is_alone


@pytest.mark.usefixtures("_deployed")
def test_what_was_moved_aside_counts_with_its_time_but_not_as_run_by_this_call(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))
    n_before = len(app.ran)

    found = answer(tmp_path, app, LONGER)

    assert found.n_runs == FIRST_RUNS + len(app.ran)
    (ran,) = [line for line in said if line.startswith("ran ")]
    assert f"2 settings on the program, {len(app.ran) - n_before} runs, " in ran


@pytest.mark.usefixtures("_deployed")
def test_what_is_deployed_stays_where_another_would_have_no_time_beside_it(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    class Slow(AtOnce):
        def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
            app.now_s += 180.0
            return super().select(n_possible, without)

    monkeypatch.setattr(session, "DirectSearch", lambda *_: Slow(FIT))
    said: list[str] = []
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))

    assert answer(tmp_path, app, LONGER).configuration == NO_CACHE
    assert not (tmp_path / "before-1").exists()
    assert any("too little time is left to run another setting beside" in line for line in said)


@pytest.mark.usefixtures("_deployed")
def test_ctrl_c_while_work_is_counted_loses_no_answer(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session, "gains_of_work", stop)
        with pytest.raises(InterruptedCampaign):
            answer(tmp_path, app, LONGER)
    assert (tmp_path / ANSWER_FILE).exists()

    assert answer(tmp_path, app, LONGER).configuration == FIT


@pytest.mark.usefixtures("_deployed")
def test_an_answer_that_is_searched_on_stands_until_there_is_another(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = recommended(tmp_path)
    assert before
    with monkeypatch.context() as patch:
        patch.setattr(session, "_confirmed", stop)
        with pytest.raises(InterruptedCampaign):
            answer(tmp_path, app, LONGER)
    found = recommended(tmp_path)
    assert found
    assert (found.configuration, found.sentence) == (NO_CACHE, before.sentence)
    assert "goes on to the next answer" in found.note
    assert found.note in " ".join(measured_text(measured_front(tmp_path)).split())

    assert answer(tmp_path, app, LONGER).configuration == FIT
    found = recommended(tmp_path)
    assert found
    assert (found.configuration, found.note) == (FIT, "")


@pytest.mark.usefixtures("_deployed")
@pytest.mark.parametrize("is_turned_down", [False, True])
def test_what_was_deployed_is_named_where_more_time_ends_undecided(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch, *, is_turned_down: bool
):
    proven = session._confirmed  # noqa: SLF001

    def too_late(work: Work, *those: Any, **others: Any) -> Any:
        app.now_s += 500.0
        selected, confirmed = proven(work, *those, **others)
        held_out = HeldOutStanding(next(iter(confirmed.standings.values())), {})
        held_back = {label_of(NO_CACHE): held_out} if is_turned_down else {}
        return selected, replace(confirmed, held_back=held_back)

    monkeypatch.setattr(session, "_confirmed", too_late)

    found = answer(tmp_path, app, LONGER)

    assert found.decision is Decision.UNDECIDED
    words = "jemalloc cache=false was proven better before more was tried, see before-1."
    assert (words in found.reasons) is not is_turned_down


def test_what_is_kept_is_searched_on_for_other_candidates(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    plain = Configuration("jemalloc")
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(plain))
    assert answer(tmp_path, app).decision is Decision.KEEP
    (tmp_path / SELECTION_FILE).touch()
    monkeypatch.setattr(session, "DirectSearch", lambda *_: AtOnce(plain, NO_CACHE))
    n_ran = len(app.ran)
    shorter = replace(REQUEST, seconds=REQUEST.seconds / 2.0)
    kept = [answer(tmp_path, app, one).decision for one in (REQUEST, shorter)]
    assert (kept, len(app.ran)) == ([Decision.KEEP] * 2, n_ran), "it stays in no more time"

    found = answer(tmp_path, app, LONGER)

    assert found.configuration == NO_CACHE
    assert not any(row.label == "jemalloc" and row.is_candidate for row in found.rows)


def test_an_answer_stays_until_a_longer_search_has_candidates(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    answer(tmp_path, app)
    before = (tmp_path / ANSWER_FILE).read_text()
    app.ends_after = len(app.ran) + 3
    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app, LONGER)
    assert (tmp_path / ANSWER_FILE).read_text() == before
    assert Request.load(tmp_path).seconds == REQUEST.seconds, "still a longer time"

    app.ends_after, n_ran = -1, len(app.ran)
    answer(tmp_path, app, LONGER)
    assert len(app.ran) > n_ran, "it goes on"


def test_what_ran_is_said_where_nothing_is_worth_confirming(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))

    found = answer(tmp_path, app, replace(REQUEST, rules=Rules(least=0.5)))

    assert found.decision is Decision.KEEP
    assert f" settings on the program, {found.n_runs - FIRST_RUNS} runs, " in said[-1]
    monkeypatch.setattr(session, "DirectSearch", lambda *_: InTurn(Configuration("jemalloc")))
    answer(tmp_path / "one", app)
    assert "ran        1 setting on the program, " in said[-1]


def test_a_program_that_is_kept_is_not_searched_when_asked_again(tmp_path: Path, app: App):
    request = replace(REQUEST, rules=Rules(least=0.5))
    first = answer(tmp_path, app, request)
    n_ran = len(app.ran)

    again = [answer(tmp_path, app, replace(request, seconds=one)) for one in (100.0, 20.0)]

    assert {one.decision for one in again} == {first.decision} == {Decision.KEEP}
    assert [one.reasons for one in again] == [first.reasons] * 2
    assert len(app.ran) == n_ran


def test_an_answer_that_stands_is_shown_as_it_is(
    tmp_path: Path, app: App, held_out: App, monkeypatch: pytest.MonkeyPatch
):
    def standing(request: Request) -> str | None:
        found = Session(tmp_path, request, environment={}, clock=app).standing()
        return found.sentence if found else None

    assert standing(WITH_HELD_OUT) is None
    sentence = answer(tmp_path, app, WITH_HELD_OUT).sentence
    n_ran = len(app.ran) + len(held_out.ran)

    assert standing(WITH_HELD_OUT) == standing(replace(WITH_HELD_OUT, seconds=1.0)) == sentence
    assert standing(replace(WITH_HELD_OUT, seconds=200.0)) is None
    other = replace(WITH_HELD_OUT, rules=Rules(limits=((PEAK, 0.1),)))
    assert standing(other) is None
    assert len(app.ran) + len(held_out.ran) == n_ran
    app.versions["jemalloc"] = "2"
    with pytest.raises(MissingToolError):
        standing(WITH_HELD_OUT)


def test_an_open_answer_does_not_stand(tmp_path: Path, app: App):
    request = replace(REQUEST, seconds=30.0)
    assert answer(tmp_path, app, request).decision is Decision.UNDECIDED

    assert Session(tmp_path, request, environment={}, clock=app).standing() is None


def test_a_program_that_is_kept_gets_no_candidates_when_asked_again(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "DirectSearch", lambda *_: InTurn())
    assert answer(tmp_path, app).decision is Decision.KEEP
    (tmp_path / SELECTION_FILE).touch()
    monkeypatch.setattr(session, "DirectSearch", lambda *_: InTurn(NO_CACHE))

    assert answer(tmp_path, app).decision is Decision.KEEP
    assert answer(tmp_path, app, LONGER).configuration == NO_CACHE


@pytest.mark.parametrize("is_explored", [False, True])
def test_where_all_candidates_are_out_what_never_ran_has_its_turn_unless_none_may_run(
    tmp_path: Path, app: App, *, is_explored: bool
):
    class Later(InTurn):
        def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
            if without:
                self._those = (Configuration.of("jemalloc", {"cache": False}),)
            return replace(super().select(n_possible), n_untried=1 - len(without))

    if is_explored:
        (tmp_path / EXPLORATION_FILE).touch()
    request = replace(REQUEST, is_direct=False)
    work = Work(tmp_path, request, cast("Tuned", app), Watch(100.0, app))
    one = Session(tmp_path, request, environment={}, clock=app)
    found = one._decide(work, REFERENCE, Later(Configuration("jemalloc")), None)  # noqa: SLF001

    assert found.decision is (Decision.KEEP if is_explored else Decision.DEPLOY)


@pytest.mark.usefixtures("_in_turn")
def test_a_candidate_that_no_time_is_left_for_leaves_the_answer_open(tmp_path: Path, app: App):
    found = answer(tmp_path, app, replace(REQUEST, seconds=30.0))
    more = answer(tmp_path, app)

    assert (found.decision, found.label) == (Decision.UNDECIDED, "jemalloc cache=false")
    assert found.configuration is None
    assert more.decision is Decision.DEPLOY


def seconds_in(folder: Path) -> float:
    return float(json.loads((folder / TIME_FILE).read_text())["seconds"])


WITH_HELD_OUT = replace(REQUEST, held_out=("app", "other"))
INTERRUPT = KeyboardInterrupt(), InterruptedCampaign
FULL = OutputError("no room"), OutputError


@pytest.mark.parametrize(("error", "seen"), [INTERRUPT, FULL], ids=["ctrl-c", "full disk"])
def test_the_time_of_a_call_without_an_answer_counts(
    tmp_path: Path, app: App, error: BaseException, seen: type[TunerError]
):
    app.ends_after, app.error = 5, error
    with pytest.raises(seen):
        answer(tmp_path, app)
    assert seconds_in(tmp_path) == app.now_s == 7.0
    app.ends_after = -1

    found = answer(tmp_path, app, replace(REQUEST, seconds=3.0))

    assert found.seconds == app.now_s
    assert found.given_s == 7.0 + 3.0
    assert seconds_in(tmp_path) == app.now_s


def test_the_time_is_kept_while_it_runs(tmp_path: Path, app: App):
    lost_s = []

    def look() -> None:
        kept_s = seconds_in(tmp_path) if (tmp_path / TIME_FILE).exists() else 0.0
        lost_s.append(app.now_s - kept_s)

    app.does, app.ends_after = look, 15
    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app)

    assert max(lost_s) < 8.0


def test_other_constraints_go_on_with_the_time_that_was_used(tmp_path: Path, app: App):
    answer(tmp_path, app, replace(REQUEST, seconds=10.0))
    rules = Rules(limits=((PEAK, 0.1),), strict=(PEAK,))

    found = answer(tmp_path, app, replace(REQUEST, seconds=10.0, rules=rules))

    assert (tmp_path / "before-1" / ANSWER_FILE).exists()
    assert found.seconds == app.now_s


def test_ctrl_c_in_the_first_runs_says_what_begins_anew(tmp_path: Path, app: App):
    app.ends_after = 0
    with pytest.raises(InterruptedCampaign, match="not kept yet: the same command begins"):
        answer(tmp_path, app)

    app.ends_after = -1
    answer(tmp_path, app, replace(REQUEST, seconds=3.0, command=("another",)))


def test_other_options_do_not_go_on_in_the_folder(tmp_path: Path, app: App):
    answer(tmp_path, app, replace(REQUEST, seconds=3.0))
    n_runs = len(app.ran)

    with pytest.raises(SpecError, match="holds another optimisation, different in --allocators;"):
        answer(tmp_path, app, replace(REQUEST, allocators=("glibc",)))
    assert len(app.ran) == n_runs


def test_a_held_out_input_that_cannot_be_run_shows_before_the_time_is_spent(
    tmp_path: Path, app: App, held_out: App
):
    held_out.ends_after, held_out.error = 0, ProgramError("app: killed by SIGSEGV")

    with pytest.raises(ProgramError, match="the held-out input: app: killed by SIGSEGV"):
        answer(tmp_path, app, WITH_HELD_OUT)

    assert app.ran == []
    assert not (tmp_path / REQUEST_FILE).exists(), "another input may be given"


def test_an_input_to_judge_on_may_be_added(tmp_path: Path, app: App, held_out: App):
    first = answer(tmp_path, app)
    n_runs = len(app.ran)

    found = answer(tmp_path, app, replace(WITH_HELD_OUT, seconds=1.0))

    assert (first.held_out, len(app.ran)) == (None, n_runs)
    assert found.held_out is not None
    assert held_out.n_examined == 1
    assert len(list(tmp_path.glob(HELD_OUT_FILES))) == 1


def test_an_input_whose_judging_was_interrupted_is_judged_with_the_time_that_is_given(
    tmp_path: Path, app: App, held_out: App
):
    answer(tmp_path, app)
    held_out.ends_after = 3
    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app, WITH_HELD_OUT)
    held_out.ends_after = -1

    found = answer(tmp_path, app, WITH_HELD_OUT)

    assert found.held_out is not None
    assert held_out.ran.count(AS_IS) >= 10, "as many rounds as if nothing had interrupted"


def test_where_what_was_deployed_is_not_confirmed_others_follow_its_winner(
    tmp_path: Path, app: App, held_out: App, monkeypatch: pytest.MonkeyPatch
):
    less, other = (Configuration.of(name, {"cache": False}) for name in ("jemalloc", "glibc"))
    winner = Configuration.of("jemalloc", {"cache": False, "narenas": 2})
    monkeypatch.setattr(session, "DirectSearch", lambda *_: InTurn(winner, other))
    app.shares = {label_of(less): 1.0}
    held_out.shares = {label_of(winner): 1.2}
    write_answer(tmp_path, replace(DEPLOY, configuration=less))

    found = answer(tmp_path, app, replace(WITH_HELD_OUT, seconds=400.0))
    (tmp_path / SELECTION_FILE).touch()
    again = answer(tmp_path, app, replace(WITH_HELD_OUT, seconds=1.0))

    assert (found.decision, found.label) == (Decision.DEPLOY, label_of(other))
    assert (again.decision, again.label) == (found.decision, found.label)
    assert held_out.n_examined == 1
    assert found.reasons[0].startswith(f"{label_of(winner)} gains with the tuned input, but")


def test_nothing_runs_beside_what_ran_in_another_environment(
    tmp_path: Path, app: App, held_out: App, monkeypatch: pytest.MonkeyPatch
):
    answer(tmp_path / "begun", app, replace(REQUEST, seconds=3.0))
    first = answer(tmp_path / "ended", app)
    n_runs = len(app.ran)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")

    limited = replace(REQUEST, rules=Rules(limits=((PEAK, 0.1),)))
    for folder, request in (("begun", REQUEST), ("ended", WITH_HELD_OUT), ("ended", limited)):
        with pytest.raises(StoreError, match="start from the same environment"):
            answer(tmp_path / folder, app, request)
    where = Where("dask", None, "tcp://localhost:1")  # where nobody answers: none is asked
    short = replace(REQUEST, seconds=1.0)
    said: list[str] = []
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))
    again = Session(tmp_path / "ended", short, environment={}, clock=app, where=where).answer()
    assert said[-1] == "ran        nothing: judged by the runs that are there"
    assert again.label == first.label
    assert (len(app.ran), held_out.n_examined) == (n_runs, 0)


def test_the_load_of_this_machine_is_not_said_of_runs_on_others(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def make(handout: Any, scene: Any, _: object) -> None:
        while one := handout.next(1):
            while one.left:
                handout.took(one, app.runner(scene().candidates, REFERENCE)(one.left[0]))

    others = SimpleNamespace(known={}, n_at_once=1, wait=lambda: None, make=make)
    monkeypatch.setattr(session, "machines_for", lambda *_: nullcontext(others))
    monkeypatch.setattr(session, "disturbance_words", lambda *_: "Load.")

    assert "Load." not in answer(tmp_path, app).reasons
    monkeypatch.setattr(session, "machines_for", lambda *_: nullcontext(None))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert "Load." not in answer(tmp_path, app, replace(REQUEST, seconds=1.0)).reasons


def test_an_input_that_another_attempt_left_is_examined_anew(
    tmp_path: Path, app: App, held_out: App
):
    answer(tmp_path, app, replace(WITH_HELD_OUT, seconds=3.0))
    (tmp_path / REQUEST_FILE).unlink()

    answer(tmp_path, app, replace(WITH_HELD_OUT, seconds=3.0, held_out=("app", "third")))

    assert held_out.n_examined == 2


class Emulated:
    """A search in emulation that tried nothing, and remembers whose default it was asked for."""

    trials = ()
    record = SimpleNamespace(space=())
    ns_per_instruction = 1.0

    def __init__(self) -> None:
        self.defaults: list[str] = []

    def default_of(self, allocator: str) -> object:
        self.defaults.append(allocator)
        return SimpleNamespace(measurement=None, configuration=Configuration(allocator))


EMULATED = replace(REQUEST, is_direct=False, evaluations=5, seconds=4.0)


def test_the_library_of_an_allocator_is_no_name_of_one(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    emulated = Emulated()
    monkeypatch.setattr(emulation, "search", lambda *_: emulated)

    found = answer(tmp_path, app, replace(EMULATED, allocators=("jemalloc:/opt/lib/libj.so",)))

    assert emulated.defaults == ["jemalloc"]
    assert found.decision is Decision.UNDECIDED


def test_the_time_is_kept_while_it_emulates(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def search(spec: object, run: object, goes_on: object, on_trial: Any, program: object) -> Any:
        app.now_s += 60.0
        on_trial(synthetic_run().campaign, trial(0, Configuration("glibc")))
        assert seconds_in(tmp_path) == app.now_s
        return Emulated()

    monkeypatch.setattr(emulation, "search", search)

    answer(tmp_path, app, EMULATED)


@pytest.mark.parametrize(
    "first_default",
    [emulation.First(26.0, None), emulation.First(0.1, PEAK_BYTES, has_cost=False)],
    ids=["takes too long", "no ptrace"],
)
def test_where_emulation_is_of_no_use_runs_alone_search(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch, first_default: emulation.First
):
    monkeypatch.setattr(emulation, "first_default", lambda _: first_default)
    request = replace(REQUEST, is_direct=False)

    first = answer(tmp_path, app, request)
    monkeypatch.setattr(emulation, "first_default", None)  # it goes on as it was begun
    then = answer(tmp_path, app, request)

    assert first.decision is then.decision is Decision.DEPLOY
    assert "little is live" in first.reasons
    assert "little is live" in then.reasons


def test_nothing_is_emulated_when_the_time_is_over(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def record(*_: object) -> ProgramRecording:
        app.now_s += REQUEST.seconds
        return ProgramRecording("events", ())

    monkeypatch.setattr(app, "record", record)
    monkeypatch.setattr(emulation, "first_default", None)

    assert answer(tmp_path, app, replace(REQUEST, is_direct=False)).decision is Decision.UNDECIDED


def test_emulation_searches_where_there_is_time_for_the_defaults(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    def search(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(emulation, "first_default", lambda _: emulation.First(24.0, None))
    monkeypatch.setattr(emulation, "search", search)

    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app, replace(REQUEST, is_direct=False))


@pytest.mark.parametrize("service", [None, SERVICE.service])
def test_emulation_begins_with_what_is_known_to_suit_a_program_that_ends(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch, service: ServicePlan | None
):
    known = (Configuration.of("glibc", {"arena_max": 1}),)
    monkeypatch.setattr(app, "known", lambda _: known)

    def search(spec: CampaignSpec, *_: object) -> None:
        assert spec.seeds == (() if service else known)
        raise KeyboardInterrupt

    monkeypatch.setattr(emulation, "search", search)

    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app, replace(EMULATED, service=service))


@pytest.mark.parametrize(
    ("allocators", "constraints"),
    [(("glibc", "jemalloc"), ("peak_heap <= 50000 KiB",)), (("jemalloc", "glibc"), ())],
)
def test_emulation_knows_the_guard_of_what_the_program_runs_under(
    tmp_path: Path,
    app: App,
    monkeypatch: pytest.MonkeyPatch,
    allocators: tuple[str, ...],
    constraints: tuple[str, ...],
):
    def search(spec: CampaignSpec, *_: object) -> None:
        assert spec.constraints == constraints
        raise KeyboardInterrupt

    monkeypatch.setattr(emulation, "search", search)

    with pytest.raises(InterruptedCampaign):
        answer(tmp_path, app, replace(EMULATED, allocators=allocators))


def test_traces_of_commands_that_could_not_be_recorded_are_not_those_of_the_next(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(emulation, "search", lambda *_: Emulated())

    def fails(trace: Path, reference: Reference) -> str:
        further_trace(trace, 3).write_text("of the third command")
        raise ProgramError("second: statically linked")

    def records(trace: Path, reference: Reference) -> ProgramRecording:
        assert further_traces(trace) == []
        further_trace(trace, 2).write_text("of the second command")
        trace.write_text("of the first command")
        return ProgramRecording("events")

    monkeypatch.setattr(app, "record", fails)
    with pytest.raises(ProgramError, match="--direct"):
        answer(tmp_path, app, replace(EMULATED, further=(("second",), ("third",))))
    monkeypatch.setattr(app, "record", records)
    answer(tmp_path, app, replace(EMULATED, further=(("third",),)))

    assert [path.name for path in further_traces(tmp_path / TRACE_FILE)] == ["program-2.trace"]


def test_runs_alone_are_not_advised_where_nothing_would_change(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    bare = compile_(tmp_path, "void _start(void) { for (;;) { } }", "-static", "-nostdlib")

    def fails(trace: Path, reference: Reference) -> str:
        raise ProgramError("statically linked")

    reference = replace(app.examine(), command=(str(bare),))
    monkeypatch.setattr(app, "record", fails)
    monkeypatch.setattr(app, "examine", lambda: reference)

    with pytest.raises(ProgramError, match="not with glibc") as caught:
        answer(tmp_path / "run", app, EMULATED)
    assert "--direct" not in str(caught.value)


def test_a_recording_that_stopped_early_is_said_to_be_used(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(emulation, "search", lambda *_: Emulated())
    monkeypatch.setattr(View, "tell", lambda _, line: said.append(line))
    write_trace(tmp_path / TRACE_FILE, np.zeros(0, EVENT), {"stopped": "disk full"})

    answer(tmp_path, app, EMULATED)

    assert any("recording stopped early: disk full" in one for one in said)


def test_what_is_known_of_an_allocator_that_cannot_be_loaded_guides_no_search(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):
    known = (Configuration.of("jemalloc", {"cache": False}),)
    monkeypatch.setattr(app, "known", lambda _: known)
    short = replace(REQUEST, seconds=14.0)

    guided = answer(tmp_path / "guided", app, short)
    monkeypatch.setattr(session, "loadable", lambda *_: ("glibc",))
    blind = answer(tmp_path / "blind", app, short)

    assert guided.rows
    assert blind.missing == "what is left of the time allows fewer than 24 runs of the program"


def test_a_folder_is_free_for_other_allocators_where_none_can_be_loaded(
    tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch
):

    def refuses(*_: object) -> tuple[str, ...]:
        raise ProgramError("app is statically linked; name glibc among --allocators")

    with monkeypatch.context() as patch:
        patch.setattr(session, "loadable", refuses)
        with pytest.raises(ProgramError):
            answer(tmp_path, app, replace(REQUEST, allocators=("jemalloc",)))

    assert answer(tmp_path, app).label == "jemalloc cache=false"


def test_a_search_that_nothing_guides_needs_more_runs():
    assert fewest_runs(is_blind=True) > 4 * FEWEST_RUNS
    assert fewest_runs(is_blind=False) == FEWEST_RUNS


@pytest.mark.parametrize("given", ["input", "load"])
@pytest.mark.parametrize(
    ("decision", "is_said"),
    [(Decision.DEPLOY, False), (Decision.KEEP, True), (Decision.UNDECIDED, True)],
)
def test_an_input_that_was_held_out_and_judged_nothing_is_spoken_of(
    decision: Decision, given: str, *, is_said: bool
):
    answer = Answer(decision, None, "", "glibc", {}, Rules(), None, (), 43, 60.0, reasons=("One.",))

    found = not_held_out(answer, given)

    said = f"Nothing was judged with the held-out {given}: there is no setting to judge."
    assert (found.reasons[-1] == said) is is_said
    assert "not run" not in " ".join(found.reasons), "as it is, it was run"
    assert found.reasons[0] == "One."


def test_the_limit_that_a_service_has_to_get_ready_is_said_as_it_is(tmp_path: Path, app: App):
    told: list[str] = []

    class Told(View):
        def tell(self, line: str) -> None:
            told.append(line)

    Session(tmp_path, replace(SERVICE, seconds=20.0), Told(), {}, app).answer()

    assert told[0] == "waits for  --ready tcp:80, 20 s at most, in each run"


def test_a_service_with_time_for_few_runs_is_not_recorded(tmp_path: Path):
    assert are_runs_all(SERVICE, tmp_path, run_s=25.0)
    assert not are_runs_all(SERVICE, tmp_path, run_s=2.0)
    assert not are_runs_all(replace(SERVICE, evaluations=50), tmp_path, run_s=25.0)
    assert not are_runs_all(replace(SERVICE, service=None), tmp_path, run_s=25.0)


def test_more_time_goes_on_with_what_less_time_began(tmp_path: Path):
    (tmp_path / SELECTION_FILE).touch()
    assert are_runs_all(SERVICE, tmp_path, run_s=2.0)

    (tmp_path / TRACE_FILE).touch()
    assert not are_runs_all(SERVICE, tmp_path, run_s=25.0)
