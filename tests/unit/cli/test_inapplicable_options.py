"""Options that do not apply are refused by every command, and old spellings still work."""

from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tuner.cli.tune import campaign_or_trace
from tuner.errors import SpecError, TraceError

WORKLOADS = Path(__file__).resolve().parents[3] / "configs" / "workloads"
TRACE = str(WORKLOADS / "gem5-suite" / "traces" / "text-minor.trace")
PROFILE = str(WORKLOADS / "pigz-threads" / "pigz-threads.profile.json.zst")
OF_SERVICE = ("--ready", "tcp:{port}", "--load", "load {port}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("bench", "--print", "--rounds", "3"), "--rounds does not apply with --print"),
        (("bench", "--smoke", "--budget", "1 s"), "--budget does not apply with --smoke"),
        (("bench", "--workloads", "ring", "--sizes", "64"), "--sizes does not apply without"),
        (
            ("bench", "--workloads", "overhead,memory", "--threads", "2"),
            "--threads does not apply to overhead and memory",
        ),
        (("emulate", TRACE, "--set", "a=1"), "No such option: --set (Possible options: --setting"),
        (
            ("emulate", TRACE, "--threads", "free", "--instrument", "qemu"),
            "--instrument does not apply with --threads free",
        ),
        (
            ("emulate", TRACE, "--threads", "free", "--cpu", "0"),
            "--cpu does not apply with --threads free",
        ),
        (("vary", PROFILE, "-o", "x", "--aged-share", "0.2"), "--aged-share does not apply"),
        (("fidelity", PROFILE, "--seeds", "2"), "--seeds does not apply without --trace"),
        (
            ("fidelity", PROFILE, "--trace", TRACE, "--rounds", "2"),
            "--rounds does not apply without COMMAND",
        ),
        (("link-advice", "/bin/true", "--choose", "--json"), "--json does not apply with --choose"),
        (("tune", TRACE, "--force"), "--force does not apply to a trace"),
        (("validate", "app.toml", "--", "./server", "x"), "leave out -- ./server x"),
        (
            ("validate", *OF_SERVICE, "--points", "17", "--", "./server"),
            "--points does not apply without the run folder of a campaign",
        ),
        (
            ("validate", *OF_SERVICE, "--front", "2", "--", "./server"),
            "--front does not apply without the run folder of a campaign",
        ),
    ],
)
def test_an_option_that_does_not_apply_is_refused(
    words: tuple[str, ...], expected: str, cli: CommandLine, working_folder: Path
):
    assert expected in " ".join(cli.fails(2, *words).split())
    assert not list(working_folder.iterdir()), "nothing is left behind"


@pytest.mark.parametrize("command", ["tune", "emulate", "fidelity", "bench", "pick"])
def test_allocators_have_one_spelling_and_an_old_one(command: str, cli: CommandLine):
    shown = cli.prints(command, "--help")

    assert "--allocators" in shown
    assert "--allocator " not in shown
    assert "requires an argument" in cli.fails(2, command, "--allocator")


@pytest.mark.parametrize(
    "words",
    [
        ("emulate", "--trace", "no.trace"),
        ("emulate", "--trace=no.trace", "--json"),
        ("fit", "--trace", "no.trace", "-o", "x.toml"),
        ("trace", "info", "--trace", "no.trace"),
        ("trace", "thin", "-o", "x.trace", "--trace", "no.trace"),
        ("tune", "--trace", "no.trace", "-o", "run"),
        ("tune", "no.trace", "-o", "run"),
    ],
    ids=" ".join,
)
def test_a_trace_has_one_spelling_and_an_old_one(
    words: tuple[str, ...], working_folder: Path, cli: CommandLine
):
    assert "no.trace: cannot open the trace" in cli.fails(TraceError.exit_code, *words)
    command = words[: 2 if words[0] == "trace" else 1]
    assert "--trace " not in cli.prints(*command, "--help")


def test_a_trace_is_given_by_its_name_alone(tmp_path: Path):
    campaign = tmp_path / "c.toml"
    campaign.write_text('name = "c"\n')
    profile = tmp_path / "p.toml"
    profile.write_text('schema = "malloc-tuner.profile"\n')

    assert campaign_or_trace(Path(TRACE), None) == (None, Path(TRACE))
    assert campaign_or_trace(Path(PROFILE), None) == (None, Path(PROFILE))
    assert campaign_or_trace(profile, None) == (None, profile)
    assert campaign_or_trace(campaign, Path(TRACE)) == (campaign, Path(TRACE))
    assert campaign_or_trace(tmp_path, None) == (tmp_path, None)
    assert campaign_or_trace(None, Path(TRACE)) == (None, Path(TRACE))
    with pytest.raises(SpecError, match="give one, and the other with --further-trace"):
        campaign_or_trace(Path(TRACE), Path(TRACE))


def test_held_out_stands_behind_the_command(cli: CommandLine):
    assert "stands behind the command, with -o RUN too: -- COMMAND" in cli.fails(
        2, "optimize", "--held-out", "--", "ls"
    )
