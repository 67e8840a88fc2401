"""The functions of `import tuner`: lazy, typed, the same that the commands call."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import Mock

import pytest

import tuner
from tests.doubles.answers import write_record
from tests.doubles.command_line import CommandLine
from tests.doubles.places import ROOT
from tests.doubles.processes import printed_by
from tests.doubles.runs import PRICES, measurement, synthetic_run, write_run
from tuner import library
from tuner.campaign.executors import Where
from tuner.campaign.setup import CAMPAIGN_FILE
from tuner.cli.optimize_request import read_request
from tuner.config import CampaignSpec, campaign_from_options, dump_campaign
from tuner.errors import SelectionError, SpecError, StoreError
from tuner.explain import explanation
from tuner.library import read_campaign, usual_folder
from tuner.measure.executor import Attempts
from tuner.optimize import session as of_session
from tuner.optimize.options import Options, request_of, service_request
from tuner.optimize.request import Request
from tuner.records import Configuration, Outcome
from tuner.runs import REQUEST_FILE
from tuner.service.plan import ServicePlan
from tuner.store import ClusterMachine, store_path

PAGE = ROOT / "docs" / "how-to" / "library.md"
TRACE = ROOT / "configs/workloads/perl-index/perl-start.trace"


def test_the_package_gives_its_functions():
    assert {name: getattr(tuner, name) for name in tuner.__all__} == {
        name: getattr(library, name) for name in tuner.__all__
    }


@pytest.mark.parametrize("name", tuner.__all__)
def test_every_function_is_typed_and_explained(name: str):
    function = getattr(tuner, name)
    signature = inspect.signature(function)

    assert "Raises:" in (function.__doc__ or "")
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_the_page_lists_every_function():
    functions = [name for name in library.__all__ if name.islower()]
    text = PAGE.read_text()

    assert [name for name in functions if f"`{name}(" not in text] == []


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import tuner; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(new - set(sys.stdlib_module_names))"
    )

    assert printed_by(code) == "{'tuner'}"


def test_a_package_of_the_same_name_does_not_take_the_place_of_a_function():
    code = (
        "import tuner, tuner.export.formats, tuner.compare.plan\n"
        "print(*(callable(getattr(tuner, name)) for name in tuner.__all__))"
    )

    assert set(printed_by(code).split()) == {"True"}


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'measures'"):
        tuner.measures  # noqa: B018 - reading it is the test


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is run as it stands, with a program of this machine and fewer evaluations."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    small = "".join(examples).replace('"./app", "--input", "data"', '"ls", "/"')
    small = small.replace('time="5min"', 'time="5s"')
    small = re.sub(r"evaluations=\d+", "evaluations=8", small).replace(
        "compare(run, program)", "compare(run, program, rounds=1, most_dominated=0)"
    )
    monkeypatch.chdir(tmp_path)

    subprocess.run([sys.executable, "-c", small], check=True)

    assert (tmp_path / "malloc.env").read_text().startswith("# ")


# Answers


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Request, Where]]:
    """What sessions are begun with; none of them does anything."""
    found: list[tuple[Path, Request, Where]] = []

    def session(run: Path, request: Request, _view: object, *, where: Where) -> SimpleNamespace:
        found.append((run, request, where))
        return SimpleNamespace(answer=lambda: "an answer")

    monkeypatch.setattr(of_session, "Session", session)
    return found


def test_optimize_asks_for_what_the_command_does(asked: list[tuple[Path, Request, Where]]):
    constraints = ["peak_memory <= default * 1.1"]
    answer: object = tuner.optimize(
        ["./app", "a"], held_out=["./app", "b"], time="5min", constraints=constraints
    )

    options = Options(time="5min", constraints=constraints)
    wanted = read_request(["./app", "a", "--held-out", "--", "./app", "b"], None, options)
    assert (answer, asked) == ("an answer", [(*wanted, Where())])


def test_optimize_goes_on_in_a_folder(tmp_path: Path, asked: list[tuple[Path, Request, Where]]):
    begun = request_of([["./app"]], None, Options(seed=5))
    (tmp_path / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    tuner.optimize(output=tmp_path, time="20min")

    assert asked == [(tmp_path, replace(begun, seconds=1200.0), Where())]
    with pytest.raises(SpecError, match="the run folder to continue"):
        tuner.optimize()


def test_optimize_goes_on_with_the_time_of_before(
    tmp_path: Path, asked: list[tuple[Path, Request, Where]]
):
    begun = request_of([["./app"]], None, Options(time="90s"))
    (tmp_path / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    tuner.optimize(["./app"], output=tmp_path)
    tuner.optimize(["./app"], output=tmp_path, time="2min")

    assert [request.seconds for _, request, _ in asked] == [90.0, 120.0]


@pytest.mark.parametrize(
    "options",
    [
        {"held_out": ["./app", "b"]},
        {"further": [["./app", "b"]]},
        {"service": ServicePlan(("server",), "tcp:80", "load")},
        {"held_out_load": "other"},
    ],
)
def test_a_folder_to_continue_takes_no_other_program(
    tmp_path: Path, asked: list[tuple[Path, Request, Where]], options: dict[str, Any]
):
    begun = request_of([["./app"]], None, Options())
    (tmp_path / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    with pytest.raises(SpecError, match=f"^{next(iter(options))}: "):
        tuner.optimize(output=tmp_path, **options)
    assert not asked


def test_a_service_to_continue_takes_another_load_to_judge_on(
    tmp_path: Path, asked: list[tuple[Path, Request, Where]]
):
    plan = ServicePlan(("server",), "tcp:80", "load")
    begun = service_request(request_of([["server"]], None, Options()), plan, None, None)
    (tmp_path / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    tuner.optimize(output=tmp_path, held_out_load="other")

    assert asked == [(tmp_path, replace(begun, held_out=("other",)), Where())]


def test_optimize_takes_a_service(asked: list[tuple[Path, Request, Where]]):
    plan = ServicePlan(("server",), "tcp:80", "load")

    tuner.optimize(
        ["server"], service=plan, held_out_load="other", constraints=["p99 <= default * 1.02"]
    )

    ((run, request, _),) = asked
    assert (run, request.service, request.held_out) == (Path("runs/server"), plan, ("other",))
    assert dict(request.rules.limits)["p99 latency"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time": "0s"}, "--time: '0s' is not from 1 s"),
        ({"least": "5"}, "--least: "),
        ({"timeout": "soon"}, "--timeout: "),
        ({"allocators": []}, "--allocators: name one"),
        ({"constraints": ["peak <= 1"]}, "peak"),
        ({"constraints": "peak_memory <= default"}, "constraints 'peak_memory"),
        ({"held_out": "./app other"}, "command './app other': give a list of words"),
        ({"cpu": 4096}, "--cpu 4096: give one of"),
        ({"held_out_load": "other"}, "held_out_load: applies to a service"),
        ({"tmie": "5min"}, "tmie: unknown option; did you mean 'time'?"),
    ],
)
def test_optimize_refuses_what_the_command_refuses(
    asked: list[tuple[Path, Request, Where]], options: dict[str, Any], said: str
):
    with pytest.raises(SpecError, match=said):
        tuner.optimize(["./app"], **options)
    assert not asked


@pytest.mark.parametrize("command", ["./app data", [], ["./app", 3], Path("./app")])
def test_a_command_is_a_list_of_words(command: Any):
    record = partial(tuner.record, output="app.trace")
    for call in (record, tuner.optimize, partial(tuner.compare, synthetic_run())):
        with pytest.raises(SpecError, match="give a list of words"):
            call(command)


def test_one_text_is_no_list_of_allocators_or_settings():
    with pytest.raises(SpecError, match=r"allocators 'exgen': give a list"):
        tuner.emulate(TRACE, "exgen")
    with pytest.raises(SpecError, match=r"settings 'jemalloc narenas=1': give a list"):
        tuner.emulate(TRACE, settings="jemalloc narenas=1")


def test_a_comparison_passes_over_no_argument():
    compare = partial(tuner.compare, synthetic_run(n_trials=8), ["./app"])
    with pytest.raises(SpecError, match="rounds 0: give 1 to 10,000"):
        compare(rounds=0)
    with pytest.raises(SpecError, match="instrument 'perf': give one of auto, cachegrind, none"):
        compare(instrument="perf")
    with pytest.raises(SpecError, match="points 'knee': give a list of words"):
        compare(points="knee")


def test_a_comparison_of_a_service_passes_over_none_either(tmp_path: Path):
    with pytest.raises(SpecError, match="rounds 0: give 1"):
        library.compare_service(tmp_path, Mock(), rounds=0)
    with pytest.raises(SpecError, match="'p98' is no limit of a service"):
        library.compare_service(tmp_path, Mock(), limits={"p98": 0.1})


def test_a_form_that_there_is_not_is_refused():
    with pytest.raises(SpecError, match="form 'josn': give one of env, sh"):
        tuner.export(synthetic_run(), form="josn")


# Campaigns


def test_a_program_has_another_folder_than_a_campaign_on_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """After `record` and `tune`, `optimize` was refused for the folder that it took itself."""
    monkeypatch.chdir(tmp_path)
    Path("runs/app").mkdir(parents=True)
    store_path(Path("runs/app")).touch()

    assert usual_folder(["./app"]) == Path("runs/app-optimize")
    Path("runs/app", REQUEST_FILE).touch()
    assert usual_folder(["./app"]) == Path("runs/app")


def test_a_campaign_file_runs_in_the_folder_of_its_name(campaign: Path):
    spec, folder = read_campaign(campaign, None, {})

    assert Path("runs/demo") == folder
    assert campaign.with_name("demo.trace") == spec.trace
    assert spec.evaluations == 200


def test_options_replace_keys_of_the_file(campaign: Path):
    options = {"evaluations": 50, "constraints": ["cost <= default"], "seed": 7}

    spec, folder = read_campaign(campaign, Path("elsewhere"), options)

    assert Path("elsewhere") == folder
    assert (spec.evaluations, spec.constraints, spec.seed) == (50, ("cost <= default",), 7)
    assert spec.allocators == ("glibc", "jemalloc")


def test_an_option_of_a_table_keeps_the_rest_of_the_table(campaign: Path):
    campaign.write_text(campaign.read_text() + '[emulation]\ntimeout = "5 s"\n')
    options = {"emulation": {"threads": "free"}, "objectives": ["p99_latency"]}

    spec, _ = read_campaign(campaign, None, options)

    assert (spec.emulation.threads, spec.emulation.timeout_ns) == ("free", 5 * 10**9)


def test_a_trace_alone_is_a_campaign_of_all_allocators():
    spec, folder = read_campaign(None, None, {"trace": "/data/app.trace"})

    assert Path("runs/app") == folder
    assert spec.allocators == ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
    assert spec.objectives == ("mean_heap", "cost")


def test_a_run_folder_continues_itself(campaign: Path, tmp_path: Path):
    spec, _ = read_campaign(campaign, None, {})
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / CAMPAIGN_FILE).write_text(dump_campaign(spec))

    again, same_folder = read_campaign(folder, None, {"evaluations": 400})

    assert folder == same_folder
    assert spec.model_copy(update={"evaluations": 400}) == again


def test_a_folder_without_a_campaign_says_so(tmp_path: Path):
    with pytest.raises(SpecError, match="holds no campaign; give a run folder"):
        read_campaign(tmp_path, None, {})


def test_neither_campaign_nor_trace_is_an_error():
    with pytest.raises(SpecError, match="give a trace or a campaign file"):
        read_campaign(None, None, {})


def test_a_front_has_the_points_and_the_defaults():
    run = synthetic_run(n_trials=40)

    table = library.front(run, ["mean_heap"])

    assert table.objectives == ("mean_heap",)
    assert any(row.is_default for row in table.rows)
    assert [row.state for row in table.rows].count("front") == 1


def test_a_run_may_be_named_by_its_folder(tmp_path: Path):
    folder = write_run(replace(synthetic_run(n_trials=40), folder=tmp_path / "run"))

    assert tuner.front(str(folder)) == tuner.front(tuner.load(folder))
    with pytest.raises(StoreError, match="no such folder"):
        library.compare_runs([folder, tmp_path / "none"])
    with pytest.raises(SelectionError, match="has no trial 999"):
        tuner.explain(folder, 999)


def test_what_optimize_deploys_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_record(tmp_path, decision="deploy", configuration='["glibc",{"x":1}]')
    check = Mock(side_effect=SpecError)
    monkeypatch.setattr("tuner.validate.subjects.check_subjects", check)

    with pytest.raises(SpecError):
        library.compare(replace(synthetic_run(n_trials=8), folder=tmp_path), ["./app"])
    assert "recommended" in [subject.label for subject in check.call_args[0][1]]


def test_a_core_that_may_not_be_used_is_refused_as_the_command_does():
    with pytest.raises(SpecError, match="--cpu 99999: give one of 0"):
        tuner.emulate("none.trace", cpu=99999)


@pytest.mark.parametrize("cost", [1e8, None])
def test_what_the_machine_did_is_said_and_the_cost_explained_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine, cost: float | None
):
    found = Outcome.succeeded(measurement(cost=cost), ("the kernel was busy",))
    monkeypatch.setattr("tuner.library.EmulatorEvaluator.evaluate", lambda *_: found)
    monkeypatch.setattr(library, "load_calibration", lambda: PRICES)

    out, err = cli.run("emulate", TRACE)
    assert "glibc default: the kernel was busy" in err
    assert ("cost = instructions + " in " ".join(out.split())) == (cost is not None)
    (one,) = json.loads(cli.run("emulate", TRACE, "--json")[0])["evaluations"]
    assert one["incidents"] == ["the kernel was busy"]


# How many evaluations run side by side


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return of each executor of this machine, which has four cores, how many it uses."""
    found: list[int] = []

    class Executor:
        def __init__(self, _: object, cpus: Sequence[int]) -> None:
            found.append(len(cpus))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *exception: object) -> None:
            pass

        def run(self, configurations: Sequence[Configuration]) -> Iterator[Attempts]:
            for index, one in enumerate(configurations):
                yield Attempts(index, one, Outcome.succeeded(measurement()))

    def cores(n_workers: int | None = None) -> list[int]:
        return list(range(n_workers or 4))

    for module in ("tuner.campaign.executors", "tuner.measure.executor"):
        monkeypatch.setattr(f"{module}.LocalExecutor", Executor)
        monkeypatch.setattr(f"{module}.measuring_cpus", cores)
    return found


MEMORY = {"objectives": ["peak_heap"]}
LATENCY = {"objectives": ["peak_heap", "p99_latency"]}


def spec_of(**options: Any) -> CampaignSpec:
    return campaign_from_options(trace="a.trace", allocators=["glibc"], **options)


class OfNoCluster(nullcontext[None]):
    """Stands for a store."""

    def machines(self) -> list[ClusterMachine]:
        return []


@pytest.mark.parametrize(
    ("options", "wanted", "expected"), [(MEMORY, None, 4), (MEMORY, 1, 1), (LATENCY, None, 1)]
)
def test_screening_has_the_workers_of_the_search(
    workers: list[int],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    wanted: int | None,
    expected: int,
):
    """Side by side, replays would measure each other's load."""
    ready = SimpleNamespace(
        store=OfNoCluster(), evaluator=None, emulations=(), screener=object(), spaces=(),
        warmth=None,
        idle=(),
    )  # fmt: skip
    search = SimpleNamespace(run=list, stopped_because=None)
    nothing = SimpleNamespace(notes=(), gaps=())
    monkeypatch.setattr("tuner.campaign.setup.with_workload", lambda spec, **_: (spec, nothing))
    monkeypatch.setattr("tuner.campaign.setup.open_campaign", lambda *_: ready)
    monkeypatch.setattr("tuner.campaign.runner.Runner", lambda *_, **__: search)
    monkeypatch.setattr(library, "run_with", lambda *_: None)

    library.run_campaign(spec_of(**options), Path("run"), workers=wanted)

    assert workers == [expected, expected]


def test_what_explain_measures_runs_alone_where_the_campaign_did(
    workers: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / CAMPAIGN_FILE).write_text(dump_campaign(spec_of(**LATENCY)))
    monkeypatch.setattr("tuner.campaign.setup.evaluator_again", lambda _: None)
    for name in ("material_of", "explain_run"):
        monkeypatch.setattr(explanation, name, lambda *_: None)
    run = synthetic_run(tmp_path, n_trials=40)

    with pytest.raises(SpecError, match="--workers 2 does not apply where time is measured"):
        library.explain(run, measure=True, workers=2)
    library.explain(run, measure=True)

    assert set(workers) == {1}
