"""The command line as a whole: help that teaches, exit codes, and how errors end."""

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import tuner
from tests.doubles.command_line import CommandLine
from tests.doubles.places import ROOT
from tests.doubles.processes import is_soon_gone, printed_by
from tuner.cli import app as application
from tuner.cli import main, record_run
from tuner.cli.epilog import epilog, error_classes, exit_codes
from tuner.errors import (
    InterruptedCampaign,
    OutputError,
    ProgramError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.limits import SERVICE_ROUNDS
from tuner.service.plan import ServicePlan

COMMANDS = [c for c in application.COMMANDS if c != "trace"] + [
    "trace info",
    "trace thin",
    "trace recover",
]
"""Every command a user can call; `trace` is a group."""


@pytest.fixture
def failing_app(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    errors: list[BaseException] = []

    def build(_: str | None) -> typer.Typer:
        app = typer.Typer(pretty_exceptions_enable=False)

        @app.callback()
        def options() -> None: ...

        @app.command("fail")
        def fail() -> None:
            raise errors[0]

        return app

    monkeypatch.setattr(application, "build_app", build)
    return errors


def test_every_listed_command_is_there(cli: CommandLine):
    out, _ = cli.run("--help")

    listed = re.findall(
        r"^  ([a-z0-9-]+)  ", out.split("Commands:")[1].split("Exit codes:")[0], re.MULTILINE
    )
    assert listed == list(application.COMMANDS)
    assert "..." not in out.split("Commands:")[1], "a purpose is too long for its line"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(cli: CommandLine, command: str):
    out, _ = cli.run(*command.split(), "--help")

    usage, purpose = re.split(r"\n\s*\n", out.strip())[:2]
    assert f"malloc-tuner {command}" in usage
    assert purpose.strip()
    examples = out.split("Example", 1)[1].split("Exit codes:", 1)[0]
    assert f"malloc-tuner {command}" in examples
    codes = {
        int(code) for code in re.findall(r"^\s+(\d+)  ", out.split("Exit codes:")[1], re.MULTILINE)
    }
    assert {0, 1, 2} <= codes <= set(exit_codes())


@pytest.mark.parametrize("command", ["", "trace", *COMMANDS])
def test_no_line_of_a_help_is_wider_than_80_columns(
    cli: CommandLine, command: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")

    out, _ = cli.run(*command.split(), "--help")

    assert [line for line in out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_an_example_is_one_of_the_command(cli: CommandLine, command: str):
    out, _ = cli.run(*command.split(), "--help")

    options, examples = re.split(r"\n +Examples?:\n", out.split("Exit codes:")[0])
    lines = examples.replace("\\\n", "").splitlines()
    own = [re.split(r" -- |\$\(", line)[0] for line in lines if line.startswith("    malloc-tuner")]
    used = {word for line in own for word in re.findall(r" (--?[a-z][a-z-]*)", line)}
    records = "".join(re.findall(r"^  -.*", options, re.MULTILINE))
    assert used <= set(re.findall(r"--?[a-z][a-z-]*", records))


def test_an_example_of_two_lines_can_be_pasted(cli: CommandLine):
    out, _ = cli.run("record", "--help")

    example = out.split("Examples:")[1].split("Exit codes:")[0].replace("\\\n", "")
    words = [shlex.split(line)[:2] for line in example.splitlines() if line.strip()]
    assert words == [["malloc-tuner", "record"]] * 3


@pytest.mark.parametrize(
    ("command", "title", "names"),
    [
        ("validate", "Options for services", {"--ready", "--load", "--setting"}),
        ("optimize", "Options for services", {"--ready", "--load", "--held-out-load"}),
        ("record", "Options for a part of the run", {"--from", "--to", "--ready", "--at-most"}),
    ],
)
def test_options_of_one_purpose_stand_under_their_title(
    cli: CommandLine, command: str, title: str, names: set[str]
):
    out, _ = cli.run(command, "--help")

    usual, others = out.split("Example")[0].split(title)
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", others, re.MULTILINE)
    assert names <= set(listed)
    assert "--help" in usual
    assert not re.search(r"^  --ready", usual, re.MULTILINE)


WRITING = ["optimize", "tune", "validate", "gem5", "gem5-inside", "bench"]


@pytest.mark.parametrize("command", WRITING)
def test_help_of_what_writes_as_it_runs_lists_a_full_disk(cli: CommandLine, command: str):
    out, _ = cli.run(command, "--help")

    assert re.search(rf"^\s+{OutputError.exit_code}  ", out.split("Exit codes:")[1], re.MULTILINE)


def test_help_of_validate_has_the_limits_of_a_service(cli: CommandLine):
    out, _ = cli.run("validate", "--help")

    words = " ".join(out.split())
    assert f"Of a service at most so many; default {SERVICE_ROUNDS}." in words
    plan = ServicePlan((), "", "")
    assert f"until it is ready ({plan.ready_s / 60:.0f} min by default) and of the load" in words
    assert f"of the load ({plan.load_s / 60:.0f} min)." in words


def test_exit_codes_are_distinct():
    codes = [error.exit_code for error in error_classes()]

    assert len(codes) == len(set(codes))
    assert not {0, 1, 2} & set(codes)


def test_every_error_says_what_it_means():
    assert all(error.__doc__ for error in error_classes())


def _whole_lines(out: str) -> str:
    """Return a help with the meaning of each exit code on one line."""
    return re.sub(r"\n {9}(?=\S)", " ", out)


def test_help_lists_every_exit_code(cli: CommandLine):
    out, _ = cli.run("--help")

    lines = _whole_lines(out)
    for code, text in exit_codes().items():
        assert re.search(rf"^\s+{code}  {re.escape(text)}$", lines, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "keeps"),
    [("", False), ("emulate", False), ("explain", False), ("tune", True), ("optimize", True)],
)
def test_help_says_what_an_interrupted_command_keeps(cli: CommandLine, command: str, keeps: bool):
    out, _ = cli.run(*command.split(), "--help")

    (words,) = re.findall(r"^ +130  (.*)$", _whole_lines(out), re.MULTILINE)
    assert words == (InterruptedCampaign.__doc__ if keeps else "Interrupted.")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("optimize", "of a file runs/NAME;"),
        ("validate", "of a file runs/NAME-service, with a run folder RUN/service."),
    ],
)
def test_help_names_the_folder_of_a_file(cli: CommandLine, command: str, said: str):
    out, _ = cli.run(command, "--help")

    assert said in " ".join(out.split())


@pytest.mark.parametrize("command", ["record", "optimize"])
def test_help_has_the_exit_code_of_what_cannot_be_recorded(cli: CommandLine, command: str):
    out, _ = cli.run(command, "--help")

    (words,) = re.findall(rf"^ +{ProgramError.exit_code}  (.*)$", _whole_lines(out), re.MULTILINE)
    assert words.endswith("nothing of it was recorded.")
    # Recording keeps what the program's own status was, and ends well.
    assert ("a wrong exit status" in words) is (command == "optimize")


def test_epilog_keeps_its_lines():
    text = epilog("malloc-tuner x 1", "malloc-tuner x 2", errors=(SpecError,))

    assert text.splitlines()[:4] == ["\b", "Examples:", "  malloc-tuner x 1", "  malloc-tuner x 2"]
    assert text.splitlines()[-2] == f"    3  {SpecError.__doc__}"


def test_version(cli: CommandLine):
    assert cli.prints("--version") == f"malloc-tuner {tuner.__version__}\n"


def test_usage_error_exits_2(cli: CommandLine):
    assert "--no-such-option" in cli.fails(2, "doctor", "--no-such-option")


@pytest.mark.parametrize("error", [SpecError("a.toml: seed: not a number"), StoreError("locked")])
def test_an_error_is_one_message_and_its_exit_code(
    cli: CommandLine, failing_app: list[BaseException], error: TunerError
):
    failing_app.append(error)

    assert cli.fails(error.exit_code, "fail") == f"malloc-tuner: {error}\n"


def test_ctrl_c_exits_130(cli: CommandLine, failing_app: list[BaseException]):
    failing_app.append(KeyboardInterrupt())

    assert cli.fails(130, "fail") == "malloc-tuner: interrupted\n"


@pytest.mark.parametrize(
    ("at_first", "then"),
    [(signal.SIG_DFL, signal.default_int_handler), (signal.SIG_IGN, signal.SIG_IGN)],
    ids=["lost connection", "nohup"],
)
def test_sighup_ends_a_command_as_ctrl_c_does_unless_ignored(
    monkeypatch: pytest.MonkeyPatch, at_first: signal.Handlers, then: object
):
    before = signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGHUP, at_first)
    found: list[object] = []

    def app(**_: object) -> None:
        found.append(signal.getsignal(signal.SIGHUP))

    monkeypatch.setattr(application, "build_app", lambda _: app)
    try:
        with pytest.raises(SystemExit):
            main.main()
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])
    assert found == [then]


def test_sigterm_ends_a_command_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch):
    before = signal.getsignal(signal.SIGTERM)

    def app(**_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(application, "build_app", lambda _: app)
    try:
        with pytest.raises(SystemExit, match="130"):
            main.main()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_defect_asks_for_a_report(
    cli: CommandLine, failing_app: list[BaseException], monkeypatch: pytest.MonkeyPatch, debug: str
):
    monkeypatch.setenv(main.DEBUG_VARIABLE, debug)
    failing_app.append(ZeroDivisionError("oops"))

    err = cli.fails(1, "fail")

    assert "malloc-tuner: defect: ZeroDivisionError: oops" in err
    assert main.DEBUG_VARIABLE in err
    assert ("Traceback" in err) == (debug == "1")


@pytest.mark.parametrize(
    ("why", "what"), [("Unable to allocate 1 GiB", " (Unable to allocate 1 GiB)"), ("", "")]
)
def test_want_of_memory_is_no_defect(
    cli: CommandLine, failing_app: list[BaseException], why: str, what: str
):
    failing_app.append(MemoryError(why))

    err = cli.fails(1, "fail")

    assert err == f"malloc-tuner: out of memory{what}; free some, or raise `ulimit -v`\n"


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'scipy', 'vl_convert', 'pymoo', 'deap', 'moocore', 'jinja2'}"
    code = (
        "import sys\nfrom tuner.cli import main\nmain.run(['--help'])\n"
        f"print({heavy} & set(sys.modules), file=sys.stderr)\n"
    )

    assert start("-c", code).stderr == "set()\n"


PLAIN_CALLS = (
    ("-o", "x.trace", "true"),
    ("-o", "x.trace", "--", "true", "-x", "--", "y"),
    ("--follow", "--output", "x.trace", "true", "--output", "y", "--follow"),
    ("--output=x.trace", "--follow", "--", "--", "-o", "y"),
    ("-o", "x", "-o", "y", "true"),
    ("--force", "-o", "x", "true", "--force"),
    ("--output=a=b", "true", ""),
)


def test_a_command_does_not_wait_for_the_others():
    code = (
        "import sys\n"
        "from tuner.cli.main import run\n"
        "assert run(['tune', 'nowhere.trace']) == 5\n"
        "print({m for m in sys.modules if m.startswith(('tuner.cli.', 'tuner.report', "
        "'tuner.export.', 'tuner.validate', 'tuner.optimize', 'tuner.bench'))})\n"
    )

    own = {"main", "app", "tune", "options", "bounds", "epilog", "console", "numerics"}
    own |= {"record_run", "run_folder", "outcome", "tuner.optimize"}
    assert {name.removeprefix("tuner.cli.") for name in ast.literal_eval(printed_by(code))} <= own


def test_a_word_that_is_no_command_is_answered_as_before(cli: CommandLine):
    assert "No such command 'tunes'" in cli.fails(2, "tunes")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_types_of_python(cli: CommandLine, command: str):
    out, _ = cli.run(*command.split(), "--help")

    assert re.findall(r"<(?:path|str|int|float|list)\b.*|list\[", out) == []


@pytest.mark.parametrize("words", PLAIN_CALLS)
def test_a_plain_call_of_record_is_parsed_as_by_typer(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    calls: list[record_run.RecordCall] = []
    monkeypatch.setattr(record_run, "run", calls.append)

    application.build_app()(["record", *words], standalone_mode=False)

    assert record_run.parse_plain(["record", *words]) == calls[0]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["doctor"],
        ["record"],
        ["record", "--help"],
        ["record", "true"],
        ["record", "-o"],
        ["record", "-o", "x"],
        ["record", "-o", "x", "--"],
        ["record", "-o", "--follow", "true"],
        ["record", "--output=", "true"],
        ["record", "-o", "folder/", "true"],
        ["record", "-o", "x", "--unknown", "true"],
        ["record", "-o", "x", "-h", "true"],
        ["record", "--follow=1", "-o", "x", "true"],
        ["--version", "record", "-o", "x", "true"],
    ],
)
def test_any_other_call_is_left_to_typer(words: list[str]):
    assert record_run.parse_plain(words) is None


def test_what_comes_next_names_a_trace_that_looks_like_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    record_run.run(record_run.RecordCall(("ls", "-d", "/"), Path("-d.trace")))

    assert capfd.readouterr().err.endswith("next: malloc-tuner tune ./-d.trace\n")


def test_a_condition_at_its_limit_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MARK", str(tmp_path))
    monkeypatch.setattr(record_run, "_READY_S", 0.1)
    words = record_run.WindowWords(begin="ready", ready="command:sleep 600; true")
    is_ready = record_run.window_plan(words).is_ready

    assert is_ready is not None
    assert not is_ready()
    assert is_soon_gone(str(tmp_path))


def test_a_ctrl_c_after_the_end_ends_it_at_once():
    code = (
        "import atexit, signal; from tuner.cli.main import main;"
        "atexit.register(signal.raise_signal, signal.SIGINT); main()"
    )
    words = [sys.executable, "-c", code, "--version"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert ended.returncode == -signal.SIGINT
    assert ended.stdout.startswith("malloc-tuner ")
    assert ended.stderr == "", "no traceback"


def test_a_plain_call_of_record_imports_nothing_heavy(tmp_path: Path):
    heavy = "{'typer', 'pydantic', 'numpy', 'rich'}"
    code = (
        "import sys\nfrom tuner.cli import main\n"
        f"main.run(['record', '-o', '{tmp_path}/no/folder', 'true'])\n"
        f"print({heavy} & set(sys.modules), file=sys.stderr)\n"
    )

    assert start("-c", code).stderr.splitlines()[-1] == "set()"


def _run_without_reader(*words: str) -> subprocess.CompletedProcess[str]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, "-m", "tuner.cli.main", *words],
            check=False,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize("is_buffered", [True, False])
@pytest.mark.parametrize("words", [("--help",), ("trace", "info"), ("trace", "info", "--json")])
def test_a_reader_that_goes_away_is_no_failure(
    words: tuple[str, ...], is_buffered: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if is_buffered else "1")
    trace = ROOT / "configs/workloads/perl-index/perl-start.trace"
    done = _run_without_reader(*words, *([] if words == ("--help",) else [str(trace)]))

    assert (done.returncode, done.stderr) == (0, "")


def test_completion_completes_a_command():
    environment = os.environ | {
        "_MALLOC_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": "malloc-tuner do",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tuner.cli.main"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )

    assert done.stdout.split() == ["doctor"], done.stderr


def test_a_choice_that_does_not_exist_is_named_without_a_word_of_pydantic(cli: CommandLine):
    text = " ".join(cli.fails(2, "front", "runs/app", "--format", "yaml").split())
    assert "Invalid value for '--format': 'yaml' is not one of 'table', 'json', 'csv'." in text
