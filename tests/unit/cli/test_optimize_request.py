"""What is asked of `optimize`: a command, a file with [program], a folder to continue."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.runs import synthetic_run, write_run
from tests.doubles.traces import write_mixed_trace
from tests.unit.optimize.answering.test_answer import DEPLOY
from tuner.cli.optimize_request import read_request
from tuner.errors import SpecError
from tuner.optimize import session
from tuner.optimize.answering.answer import write_answer
from tuner.optimize.options import Options, request_of, service_request
from tuner.optimize.request import Request
from tuner.runs import REQUEST_FILE
from tuner.service.plan import ServicePlan
from tuner.store import STORE_NAME

FILE = """
allocators = ["glibc", "exgen"]
seed = 7

[program]
commands = [["./app", "a"], ["./app", "b"]]
held_out = ["./app", "c"]
time = "5min"
least = "2%"
"""


def asked_by(
    folder: Path, text: str, *, run: Path | None = None, **options: Any
) -> tuple[Path, Request]:
    """Return what a file of this text asks for, and these options."""
    path = folder / "app.toml"
    path.write_text(text)
    return read_request([str(path)], run, Options(**options))


def test_a_file_asks_for_the_same_as_a_command(tmp_path: Path):
    run, request = asked_by(tmp_path, FILE)

    assert run == Path("runs/app")
    assert (request.command, request.further) == (("./app", "a"), (("./app", "b"),))
    assert request.held_out == ("./app", "c")
    assert (request.seconds, request.rules.least, request.seed) == (300.0, 0.02, 7)
    assert request.allocators == ("glibc", "exgen")


def test_options_override_a_file(tmp_path: Path):
    run, request = asked_by(tmp_path, FILE, run=tmp_path, time="10s", seed=1)

    assert (run, request.seconds, request.seed) == (tmp_path, 10.0, 1)
    assert request.rules.least == 0.02


def test_a_command_has_the_usual_values():
    run, request = read_request(["./app", "x", "--held-out", "--", "./app", "y"], None, Options())

    assert run == Path("runs/app")
    assert (request.command, request.held_out) == (("./app", "x"), ("./app", "y"))
    assert (request.seconds, len(request.allocators), request.further) == (600.0, 5, ())


def test_a_folder_goes_on_as_it_was_begun(tmp_path: Path):
    _, request = read_request(["./app"], None, Options(seed=5))
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))

    _, found = read_request([str(tmp_path)], None, Options(time="1h"))

    assert (found.seed, found.seconds) == (5, 3600.0)
    with pytest.raises(SpecError, match=r"--allocators: .* goes on as it was begun"):
        read_request([str(tmp_path)], None, Options(allocators=("glibc",)))
    with pytest.raises(SpecError, match=r"-o other: .* goes on where it is"):
        read_request([str(tmp_path)], Path("other"), Options())


def test_libraries_are_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    _, request = read_request(["./app"], None, Options(allocators=["glibc", "exgen:lib/a.so"]))

    assert request.allocators == ("glibc", f"exgen:{tmp_path}/lib/a.so")


def test_a_folder_with_a_command_is_told_what_it_is(tmp_path: Path, cli: CommandLine):
    (tmp_path / REQUEST_FILE).write_text("{}")

    assert "goes on with its own command" in cli.fails(3, "optimize", tmp_path, "--", "/bin/true")


def test_a_command_whose_program_has_the_name_of_its_folder_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = Path("true")
    run.mkdir()
    _, begun = read_request(["true", "data"], None, Options(time="90s"))
    (run / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    found, request = read_request(["true", "data"], run, Options())

    assert (found, request) == (run, begun), "in no more time, unless it is named"
    assert read_request(["true", "data"], run, Options(time="2min"))[1].seconds == 120.0


SERVICE = """
[program]
command = ["server"]

[service]
ready = "tcp:80"
load = "load"
"""


@pytest.mark.parametrize("text", [FILE.replace('time = "5min"\n', ""), SERVICE])
def test_a_file_without_a_time_goes_on_with_that_of_before(tmp_path: Path, text: str):
    run = tmp_path / "run"
    run.mkdir()
    _, begun = asked_by(tmp_path, text, run=run, time="90s")
    (run / REQUEST_FILE).write_text(json.dumps(begun.as_record()))

    assert asked_by(tmp_path, text, run=run) == (run, begun)
    assert asked_by(tmp_path, text, run=run, time="2min")[1].seconds == 120.0
    timed = text.replace("[program]", '[program]\ntime = "3min"')
    assert asked_by(tmp_path, timed, run=run)[1].seconds == 180.0


def test_a_folder_of_tune_is_told_what_it_is(tmp_path: Path, cli: CommandLine):
    write_run(synthetic_run(tmp_path, n_trials=20))
    assert "a run folder of `tune`, but `optimize` wants" in cli.fails(4, "optimize", tmp_path)


@pytest.fixture
def of_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the run folder of a service; what an optimisation is asked for ends it as an error."""
    plan = ServicePlan(("true",), "line:ready", "load {port}")
    request = service_request(request_of([["true"]], None, Options()), plan, None, None)
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))

    def asked_for(_: Path, asked: Request, *__: object, **___: object) -> None:
        raise SpecError(f"asked for {asked.held_out}")

    monkeypatch.setattr(session, "Session", asked_for)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        # as the held-out input of a program; --ready and --load are in the folder
        (("optimize", "RUN", "--held-out-load", "other {port}"), 3, "asked for ('other {port}',)"),
        (("validate", "RUN", "--", "true"), 3, "does not end by itself: give --ready and --load"),
        # an answer says which --constraint allows what it turned down
        (
            ("optimize", "RUN", "--constraint", "cpu <= default * 2"), 3,
            "its whole command with this one and another -o",
        ),
        (
            ("optimize", "RUN", "--idle", "5s"), 2,
            "--idle does not apply where a file or a run folder describes the service",
        ),
    ],
)  # fmt: skip
def test_only_another_load_to_judge_on_comes_later_to_a_service(
    of_service: Path, cli: CommandLine, words: tuple[str, ...], code: int, said: str
):
    assert said in cli.fails(code, *(of_service if word == "RUN" else word for word in words))


def test_constraints_may_change_later(tmp_path: Path):
    _, request = read_request(["./app"], None, Options(least="2%"))
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))

    _, found = read_request(
        [str(tmp_path)], None, Options(constraints=("peak_memory <= default + 10 %",))
    )

    assert dict(found.rules.limits) == {"peak memory": pytest.approx(0.1)}
    assert found.rules.least == 0.02


def test_a_file_has_constraints(tmp_path: Path):
    _, request = asked_by(tmp_path, FILE + 'constraints = ["cpu_time <= default * 1.05"]\n')

    assert dict(request.rules.limits) == {"CPU time": pytest.approx(0.05)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[program]\n", "give command, or commands"),
        ("[program]\ncommand = []\n", "program.command"),
        ('[program]\ncommand = ["a"]\ntime = "soon"\n', "soon"),
        ('trace = "x"\n[program]\ncommand = ["a"]\n', "trace: unknown key"),
        ('trace = "x"\n', "app.toml: has a trace, .* `malloc-tuner tune .*app.toml`"),
        ("seed = 1\n", "program: this key is required"),
    ],
)
def test_a_wrong_file_is_one_error(tmp_path: Path, text: str, expected: str):
    with pytest.raises(SpecError, match=expected):
        asked_by(tmp_path, text)


def test_a_file_may_do_without_a_recording(tmp_path: Path):
    _, request = asked_by(tmp_path, FILE + "direct = true\n")

    assert request.is_direct
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    assert Request.load(tmp_path) == request


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jemaloc", r"--allocators: 'jemaloc': unknown; did you mean 'jemalloc'\?"),
        ("/opt/lib.so", r"a library is given as NAME:PATH, such as jemalloc:/opt/lib\.so"),
    ],
)
def test_a_misspelt_allocator_is_refused_before_anything_runs(name: str, expected: str):
    with pytest.raises(SpecError, match=expected):
        read_request(["./app"], None, Options(allocators=("glibc", name)))


@pytest.mark.parametrize("names", ["", " ,"])
def test_no_allocators_are_not_all_of_them(cli: CommandLine, names: str):
    """As a variable of a script gives that was never set."""
    assert "--allocators: name one, such as glibc" in cli.fails(
        3, "optimize", "--allocators", names, "--", "/bin/true"
    )


def test_a_script_that_cannot_be_executed_is_told_to_name_its_interpreter(
    tmp_path: Path, cli: CommandLine
):
    script = tmp_path / "words.py"
    script.write_text("print(1)\n")

    assert f"give its interpreter too: -- INTERPRETER {script}" in cli.fails(
        4, "optimize", "--", script
    )


def test_a_program_of_the_current_folder_is_told_its_path(working_folder: Path, cli: CommandLine):
    program = working_folder / "app-of-this-folder"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    for words in (["optimize"], ["record", "-o", "app.trace"]):
        message = cli.fails(4, *words, "--", program.name)
        assert "not in PATH; give ./app-of-this-folder" in message
    for none in ("none", ""):
        assert f"{none}: no such program\n" in cli.fails(4, "record", "-o", "a.trace", "--", none)


def test_a_run_folder_goes_on_where_it_was_begun(working_folder: Path, cli: CommandLine):
    run = working_folder / "run"
    run.mkdir()
    request = request_of([["./app"]], None, Options()).as_record()
    (run / REQUEST_FILE).write_text(json.dumps(request))

    said = cli.fails(4, "optimize", run)
    assert "./app: no such program in this folder; go on where the run folder was begun" in said

    (run / "before-1").mkdir()
    said = cli.fails(4, "optimize", run / "before-1")
    assert f"what an earlier answer of {run} stands on; go on with {run}" in " ".join(said.split())


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("sort some.txt", "without quotes: -- sort some.txt"),
        ("sort a | uniq", "to a shell: -- sh -c 'sort a | uniq'"),
    ],
)
def test_a_command_in_quotes_is_told_how_to_give_it(given: str, advice: str, cli: CommandLine):
    said = cli.fails(4, "optimize", "--", given)

    assert f"{given!r}: is one word; give the command {advice}" in " ".join(said.split())


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "-o", "{}", "--", "true"),
        ("tune", "app.trace", "-o", "{}", "--evaluations", "1"),
        ("validate", "--ready", "tcp:80", "--load", "true", "-o", "{}", "--", "true"),
    ],
)
@pytest.mark.parametrize("is_here", [True, False])
def test_a_run_is_not_put_among_the_files_of_the_user(
    tmp_path: Path,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: tuple[str, ...],
    is_here: bool,
):
    """Fifteen files were, and would have replaced those of the same name."""
    write_mixed_trace(tmp_path / "app.trace", 1, 300)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / ".hidden").touch()
    (folder / "notes").touch()
    monkeypatch.chdir(folder if is_here else tmp_path)
    (folder / "app.trace").symlink_to(tmp_path / "app.trace")
    named = "." if is_here else "mine"

    said = cli.fails(10, *[word.format(named) for word in words])
    assert f"{named}: holds app.trace, which is not a run's; name a folder for the run's" in said
    assert {one.name for one in folder.iterdir()} == {".hidden", "app.trace", "notes"}


@pytest.mark.parametrize(
    "words", [("optimize",), ("validate", "--ready", "tcp:80", "--load", "true")]
)
def test_runs_of_a_program_are_not_put_into_the_folder_of_a_campaign(
    tmp_path: Path, cli: CommandLine, words: tuple[str, ...]
):
    """They were, and the campaign was refused only after the first runs."""
    (tmp_path / STORE_NAME).touch()

    said = cli.fails(9, *words, "-o", tmp_path, "--", "true")
    assert f"{tmp_path}: holds a campaign of `malloc-tuner tune`; name another" in said
    assert [one.name for one in tmp_path.iterdir()] == [STORE_NAME]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "give a command after --"),
        (["app.toml", "app"], r"app\.toml holds the command; 'app' is one word too many"),
    ],
)
def test_nothing_or_two_things_at_once_are_no_request(
    cli: CommandLine, words: list[str], expected: str
):
    assert re.search(expected, cli.fails(2, "optimize", *words))


def test_evaluations_without_emulation_are_refused():
    with pytest.raises(SpecError, match="--evaluations: there are none with --direct"):
        read_request(["./app"], None, Options(direct=True, evaluations=50))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "/bin/true", "--held-out", "--", "/no/such/app"], 4, "/no/such/app: no such prog"),
        (["--fail-if", "p99_latency > 5%", "--", "/bin/true"], 3, "no run measures p99_latency"),
        (["--fail-if", "nope", "--", "/bin/true"], 3, "of mean_memory, peak_memory, cpu_time)"),
    ],
)
def test_what_shows_at_once_is_not_found_after_the_time_is_spent(
    tmp_path: Path, cli: CommandLine, words: list[str], code: int, said: str
):
    folder = tmp_path / "run"

    assert said in cli.run("optimize", "-o", folder, *words, code=code)[1]
    assert not folder.exists()


def test_the_answer_of_a_folder_that_cannot_be_written_is_shown(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    _, request = read_request(["./app"], None, Options())
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    write_answer(tmp_path, DEPLOY)
    monkeypatch.setattr(
        os, "access", lambda _, mode, **__: mode != os.W_OK
    )  # root may write anywhere

    out, err = cli.run("optimize", tmp_path)
    for words in ((), ("--", "./app"), ("--time", "1h", "--", "./app")):
        assert cli.run("optimize", "-o", tmp_path, *words)[0] == out
    monkeypatch.chdir(tmp_path)
    assert cli.run("optimize", "--fail-if", "keep")[0] == out
    for condition in ("deploy", "mean_memory < 0%"):
        assert "hold" in cli.run("optimize", "--fail-if", condition, code=19)[1]
    assert "another optim" in cli.run("optimize", "-o", tmp_path, "--", "/bin/true", code=3)[1]

    assert out.splitlines() == "\n".join(DEPLOY.as_record()["text"]).splitlines()
    assert "cannot be written" in err
    assert json.loads(cli.run("optimize", tmp_path, "--json")[0]) == json.loads(
        json.dumps(DEPLOY.as_record())
    )
