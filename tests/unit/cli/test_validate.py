"""Exit codes of a validation, which a build can rely on, what it refuses, and services."""

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.runs import installed_run, synthetic_run, write_run
from tests.unit.optimize.answering.test_answer import DEPLOY, OPEN
from tuner.cli import main
from tuner.cli.services import print_compared
from tuner.cli.validate import check_outcome
from tuner.compare.plan import Course
from tuner.errors import (
    ComparisonError,
    MissingToolError,
    SpecError,
    UnconfirmedVerdict,
    WorseVerdict,
)
from tuner.library import LEAST_EFFECT
from tuner.measure.program import Surroundings
from tuner.optimize import comparison
from tuner.optimize.answering.answer import write_answer
from tuner.optimize.comparison import Compared
from tuner.optimize.confirming.confirmation import Confirmed
from tuner.optimize.kinds import service
from tuner.optimize.kinds.service import Service
from tuner.optimize.tuned import AS_IS
from tuner.optimize.work import Watch
from tuner.records import Configuration, Outcome
from tuner.registry import DEFAULT_ALLOCATORS
from tuner.runs import ANSWER_FILE, REFERENCE_FILE
from tuner.service.lifecycle import ServiceRun
from tuner.service.plan import ServicePlan
from tuner.store import STORE_NAME
from tuner.store.subject import Subject
from tuner.validate.summary import ValidationSummary, summarize
from tuner.validate.verdicts import Claim, MetricSummary, SubjectSummary, Verdict

_RUN = synthetic_run(n_trials=20, validation=True)
_SUMMARY = summarize(_RUN, _RUN.validations[-1])


def claim(verdict: Verdict, metric: str = "mean_heap") -> Claim:
    return Claim(metric, metric, 0.9, 0.9, None, verdict)


def subject(label: str, verdict: Verdict | None, role: str = "knee") -> SubjectSummary:
    chosen = Subject(label, Configuration("glibc"), None, (role,))
    is_rejected = verdict is Verdict.REJECTED
    reason = "crashed" if is_rejected else None
    metrics: tuple[MetricSummary, ...] = () if is_rejected else _SUMMARY.subjects[0].metrics
    claims = (claim(verdict),) if verdict else ()
    return SubjectSummary(chosen, verdict is None, 8, reason, metrics, claims, verdict, ())


def outcome(*subjects: SubjectSummary) -> ValidationSummary:
    return replace(_SUMMARY, subjects=(subject("glibc-default", None, "default"), *subjects))


@pytest.mark.parametrize(
    "subjects",
    [
        [subject("knee", Verdict.WORSE)],
        [subject("knee", Verdict.NOT_CONFIRMED), subject("lean", Verdict.REJECTED)],
        [subject("knee", Verdict.UNDECIDED)],
    ],
)
def test_comparison_that_was_made_ends_with_0(subjects: Sequence[SubjectSummary]):
    check_outcome(outcome(*subjects), worse=False, unconfirmed=False)


@pytest.mark.parametrize(
    "subjects", [[], [subject("knee", Verdict.REJECTED), subject("lean", Verdict.REJECTED)]]
)
def test_nothing_to_compare_is_an_error_of_its_own(subjects: Sequence[SubjectSummary]):
    with pytest.raises(ComparisonError, match="every subject but the baseline is out"):
        check_outcome(outcome(*subjects), worse=False, unconfirmed=False)


def test_what_was_interrupted_before_any_ran_is_not_said_to_be_out():
    found = outcome(replace(subject("lean", Verdict.UNDECIDED), n_samples=0, metrics=()))
    with pytest.raises(ComparisonError, match="nothing was compared yet, see above"):
        check_outcome(found, worse=False, unconfirmed=False)


@pytest.mark.parametrize("verdict", [Verdict.WORSE, Verdict.REJECTED])
def test_worse_picks_fail_when_asked(verdict: Verdict):
    found = outcome(subject("lean", Verdict.CONFIRMED), subject("knee", verdict))
    with pytest.raises(WorseVerdict, match=rf"real program: knee \({verdict}\)$"):
        check_outcome(found, worse=True, unconfirmed=True)


def test_other_verdicts_are_not_worse():
    found = outcome(
        subject("a", Verdict.COSTS),
        subject("b", Verdict.NOT_CONFIRMED),
        subject("jemalloc-default", Verdict.WORSE, "default"),
    )
    check_outcome(found, worse=True, unconfirmed=False)


def test_one_confirmed_pick_is_enough_when_asked():
    found = outcome(subject("a", Verdict.NOT_CONFIRMED), subject("b", Verdict.CONFIRMED))
    check_outcome(found, worse=False, unconfirmed=True)


def test_one_of_two_gains_confirmed_is_enough_and_named():
    half = subject("knee", Verdict.NOT_CONFIRMED)
    half = replace(half, claims=(claim(Verdict.CONFIRMED), claim(Verdict.NOT_CONFIRMED, "cpu")))

    check_outcome(outcome(half), worse=False, unconfirmed=True)

    assert half.verdict_words == "mean heap confirmed"
    costly = replace(half, claims=(claim(Verdict.COSTS), claim(Verdict.NOT_CONFIRMED, "cpu")))
    assert costly.verdict_words == "worse: mean heap"
    traded = replace(
        half,
        verdict=Verdict.CONFIRMED,
        claims=(claim(Verdict.COSTS), claim(Verdict.CONFIRMED, "cpu")),
    )
    assert traded.verdict_words == "CPU time confirmed, mean heap worse"
    worse = outcome(replace(half, verdict=Verdict.WORSE))
    with pytest.raises(UnconfirmedVerdict):
        check_outcome(worse, worse=False, unconfirmed=True)


@pytest.mark.parametrize(
    "verdict", [Verdict.UNDECIDED, Verdict.COSTS, Verdict.BETTER, Verdict.NOT_CONFIRMED]
)
def test_unconfirmed_picks_fail_when_asked(verdict: Verdict):
    found = outcome(
        subject("knee", verdict), subject("jemalloc-default", Verdict.CONFIRMED, "default")
    )
    words = rf"^no gain of a pick is .* picks: knee \({verdict}\)$"
    with pytest.raises(UnconfirmedVerdict, match=words):
        check_outcome(found, worse=False, unconfirmed=True)


def test_a_program_in_place_of_the_run_folder_is_named(cli: CommandLine):
    assert "true is a program: give a run folder before it" in cli.fails(
        2, "validate", "--", "true"
    )


def test_a_file_may_have_the_name_of_a_choice(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    outputs: list[str] = []

    def of_program(*words: Any) -> ValidationSummary:
        outputs.append(words[3].keywords["output"])
        return _SUMMARY

    monkeypatch.setattr("tuner.cli.validate._of_program", of_program)
    monkeypatch.chdir(tmp_path)

    cli.prints("validate", ".", "--output-file", "ignored", "--", "true")

    assert outputs == [str(tmp_path / "ignored")]


# Services

_SERVICE = ("--ready", "tcp:{port}", "--load", "load {port}")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def compare_service(folder: Path, plan: ServicePlan, run: Path | None, **options: Any) -> None:
        found.update(options, folder=folder, plan=plan, run=run)

    monkeypatch.setattr("tuner.library.compare_service", compare_service)
    monkeypatch.setattr("tuner.cli.validate.print_compared", lambda _, **_options: None)
    return found


def test_a_service_without_anything_to_compare_it_with_is_a_wrong_call(
    tmp_path: Path, cli: CommandLine
):
    options = (*_SERVICE, "--allocators", "", "-o", str(tmp_path / "x"))

    assert "nothing to compare with sleep" in cli.fails(
        SpecError.exit_code, "validate", *options, "--", "sleep", "9"
    )


@pytest.mark.parametrize(
    ("options", "said"), [(_SERVICE, "the command of the service behind --"), ([], "give one")]
)
def test_without_a_word_it_says_which_is_missing(
    options: Sequence[str], said: str, cli: CommandLine
):
    assert said in " ".join(cli.fails(2, "validate", *options).split())


def service_file(
    folder: Path, *, top: str = "", program: str = "", constraint: str = "p99 <= default * 1.1"
) -> str:
    path = folder / "app.toml"
    path.write_text(
        f'{top}\n[program]\ncommand = ["server", "{{port}}"]\n{program}\n'
        '[service]\nready = "tcp:{port}"\nload = "load {port}"\n'
        f'constraints = ["{constraint}"]\n'
    )
    return str(path)


@pytest.fixture
def full_file(tmp_path: Path) -> str:
    cpu = min(os.sched_getaffinity(0))
    top = 'name = "shop"\nallocators = ["glibc", "jemalloc"]\nseed = 7'
    return service_file(tmp_path, top=top, program=f'least = "3%"\ncpu = {cpu}')


def test_what_a_file_says_of_its_service_counts(compared: dict[str, Any], full_file: str):
    assert main.run(["validate", full_file]) == 0

    assert compared["plan"] == ServicePlan(("server", "{port}"), "tcp:{port}", "load {port}")
    assert compared["run"] is None
    assert compared["folder"] == Path("runs/shop-service")
    assert compared["allocators"] == ("glibc", "jemalloc")
    assert compared["seed"] == 7
    assert compared["least"] == 0.03
    assert compared["cpu"] == min(os.sched_getaffinity(0))
    assert compared["limits"] == {"p99": pytest.approx(0.1)}


def test_what_is_typed_counts_before_the_file(compared: dict[str, Any], full_file: str):
    typed = ["--allocators", "mimalloc", "--seed", "1", "--rounds", "5", "-o", "here"]
    typed += ["--timeout", "7s"]

    assert main.run(["validate", full_file, *typed]) == 0

    assert compared["allocators"] == ("mimalloc",)
    assert (compared["seed"], compared["rounds"], compared["folder"]) == (1, 5, Path("here"))
    assert (compared["plan"].ready_s, compared["plan"].load_s) == (7.0, 7.0)


def test_a_file_that_says_little_has_the_usual_values(compared: dict[str, Any], tmp_path: Path):
    assert main.run(["validate", service_file(tmp_path)]) == 0

    assert compared["folder"] == Path("runs/app-service")
    assert compared["allocators"] == DEFAULT_ALLOCATORS
    assert (compared["seed"], compared["least"], compared["cpu"]) == (1, LEAST_EFFECT, None)


def test_a_folder_alone_shows_what_was_measured_of_its_service(tmp_path: Path, cli: CommandLine):
    write_answer(tmp_path, DEPLOY)

    assert cli.prints("validate", tmp_path).splitlines() == list(DEPLOY.lines())
    assert json.loads(cli.prints("validate", tmp_path, "--json"))["sentence"] == DEPLOY.sentence
    assert "--details" in cli.fails(2, "validate", tmp_path, "--details")


def test_json_has_what_the_tables_of_a_program_have(tmp_path: Path, cli: CommandLine):
    run = replace(_RUN, folder=tmp_path / "app")
    write_run(run)

    found = json.loads(cli.prints("validate", run.folder, "--json"))

    assert (found["schema"], found["version"]) == ("malloc-tuner.validation", 1)
    decision = _SUMMARY.decision
    assert (found["deploy"], found["sentence"]) == (decision.label, decision.sentence)
    for one, expected in zip(found["subjects"], _SUMMARY.subjects, strict=True):
        assert (one["label"], one["verdict"]) == (expected.subject.label, expected.verdict)
        assert one["measured"] == {m.metric: m.estimate.median for m in expected.metrics}
        real = [c.real_ratio and c.real_ratio.median for c in expected.claims]
        assert [c["real_ratio"] and c["real_ratio"]["median"] for c in one["claims"]] == real
    assert "--details" in cli.fails(2, "validate", run.folder, "--json", "--details")


def test_options_describe_a_service_too(compared: dict[str, Any]):
    options = ["--seed", "3", "--constraint", "p99 <= default * 1.1", "--setting", "glibc x=1"]

    assert main.run(["validate", *_SERVICE, *options, "--", "./server", "word"]) == 0

    assert compared["plan"].command == ("./server", "word"), "not one on PATH"
    assert compared["run"] is None
    assert compared["folder"] == Path("runs/server-service")
    assert compared["limits"] == {"p99": pytest.approx(0.1)}
    assert (compared["seed"], compared["settings"]) == (3, ["glibc x=1"])


def test_a_load_without_quotes_is_named(cli: CommandLine):
    words = ["validate", *_SERVICE[:3], "./load.sh", "{port}", "--", "./server", "{port}"]

    assert "--load './load.sh {port}'" in " ".join(cli.fails(2, *words).split())


def test_points_of_a_campaign_take_part_in_a_service(compared: dict[str, Any], tmp_path: Path):
    (tmp_path / STORE_NAME).touch()
    words = ["validate", str(tmp_path), "--points", "best", *_SERVICE, "--", "./server", "word"]

    assert main.run(words) == 0

    assert compared["plan"].command == ("./server", "word")
    assert (compared["run"], compared["points"]) == (tmp_path, ("best",))
    assert compared["folder"] == tmp_path / "service"


class Server:
    """Needs half as much again under every setting but the one that it has; runs take a minute."""

    def __init__(self) -> None:
        self.n_runs = 0

    def __call__(
        self, plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Outcome[ServiceRun]:
        self.n_runs += 1
        # Noise that repeats itself.
        noise = 1.0 + 0.02 * ((self.n_runs * 7) % 5)
        use = 100e6 * noise * (1.0 if "MALLOC_ARENA_MAX" in environment else 1.5)
        values = dict.fromkeys(("mean", "peak", "floor", "cpu"), use)
        return Outcome.succeeded(ServiceRun({**values, "rate": 1000.0}, wall_s=60.0))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    double = Server()
    monkeypatch.setattr(service, "Service", partial(Service, run=double))
    watch = partial(Watch, clock=lambda: 60.0 * double.n_runs)
    monkeypatch.setattr(comparison, "Watch", watch)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    return double


def answer(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    words = ["validate", "-o", str(folder), "--allocators", "glibc", *options, *_SERVICE]
    assert main.run([*words, "--", "server"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign of this machine's glibc and jemalloc, whose picks are of jemalloc."""
    return installed_run(tmp_path / "run")


def test_a_point_of_an_allocator_that_takes_no_part_is_named(
    cli: CommandLine, campaign: Path, server: Server
):
    words = ["validate", str(campaign), "--points", "best-cost", "--allocators", "glibc"]

    out, _ = cli.run(*words, *_SERVICE, "--", "server")
    refused = "best-cost: jemalloc is not in --allocators"
    assert f"left out: {refused}\n" in out
    out, _ = cli.run(*words, "--json", *_SERVICE, "--", "server")
    document = json.loads(out)
    assert (document["refused"], document["rounds_made"] > 1) == ([refused], True)
    kept = json.loads((campaign / "service" / ANSWER_FILE).read_text())
    assert {name: document[name] for name in kept} == kept


def test_points_run_with_the_library_that_their_campaign_measured(
    cli: CommandLine, campaign: Path, server: Server
):
    with closing(sqlite3.connect(campaign / STORE_NAME)) as store, store:
        store.execute("UPDATE campaign SET allocators = replace(allocators, '5.', '4.')")
    words = ["validate", str(campaign), "--allocators", "glibc,jemalloc"]

    assert "jemalloc: version 4." in cli.fails(
        MissingToolError.exit_code, *words, *_SERVICE, "--", "server"
    )
    assert server.n_runs == 0


def test_a_comparison_does_not_go_on_with_another_version(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, server: Server
):
    answer(capsys, tmp_path)
    n_runs, path = server.n_runs, tmp_path / REFERENCE_FILE
    known = json.loads(path.read_bytes())
    path.write_text(json.dumps({**known, "versions": {"glibc": "2.1"}}))
    words = ["validate", "-o", str(tmp_path), "--allocators", "glibc", *_SERVICE, "--", "server"]

    assert main.run(words) == MissingToolError.exit_code

    assert "glibc: version 2.1 was measured, here is " in capsys.readouterr().err
    assert server.n_runs == n_runs


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ("9", "There were too few --rounds to show any gain of mean memory or idle memory"),
        ("30", "% does not show in 30 rounds; a higher --rounds shows smaller ones."),
    ],
)
def test_gains_that_the_rounds_cannot_show_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, server: Server, rounds: str, said: str
):
    shown = answer(capsys, tmp_path / "v", "--rounds", rounds)

    assert "Keep glibc as it is." in shown
    assert said in shown
    assert "--time" not in shown


@pytest.mark.parametrize(("seconds", "is_advised"), [(250.0, True), (4e5, False)])
def test_more_rounds_are_advised_only_where_they_may_settle_it(
    capsys: pytest.CaptureFixture[str], seconds: float, is_advised: bool
):
    found = replace(OPEN, more_seconds=seconds)
    confirmed = Confirmed({}, {}, Course(AS_IS), None, None)

    print_compared(Compared(Path("runs/x"), found, confirmed, 3))

    shown = capsys.readouterr().out
    assert ("The same command with a higher --rounds goes on from here." in shown) is is_advised
    assert ("cannot be shown here" in shown) is not is_advised


def test_an_answer_names_the_time_of_earlier_calls_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, server: Server
):
    answer(capsys, tmp_path / "v")
    n_runs = server.n_runs

    shown = answer(capsys, tmp_path / "v")

    assert server.n_runs == n_runs
    assert f"{n_runs} runs in {n_runs} min." in shown


def test_the_least_effect_of_a_file_is_what_counts(
    cli: CommandLine, tmp_path: Path, server: Server
):
    file = service_file(tmp_path, program='least = "30%"', constraint="rate >= default - 5 %")
    words = ["validate", file, "-o", str(tmp_path / "v"), "--allocators", "glibc"]

    assert "No setting tried is proven to save 15 % of memory or 30 %" in cli.run(*words)[0]
