"""`malloc-tuner trace info`: text, JSON, picture, and its errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.command_line import CommandLine
from tuner.cli.main import run
from tuner.errors import SpecError, TraceError
from tuner.trace.file import EVENT, Api, Op, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.trace"
    events = np.array(
        [
            (0, 100, 0, 0, 0, Op.MALLOC, Api.MALLOC, 0, 0, 0, 0),
            (10_000, 0, 0, 1, 1, Op.THREAD_START, Api.THREAD, 0, 0, 0, 0),
            (20_000, 0, 0, 1, 0, Op.FREE, Api.FREE, 0, 0, 0, 0),
            (2_000_000, 4096, 0, 1, 1, Op.ALIGNED, Api.NEW, 6, 0, 0, 0),
        ],
        EVENT,
    )
    write_trace(path, events, {"argv": ["/usr/bin/app", "-x"], "signal": "SIGTERM"})
    return path


def test_text_names_the_program_and_its_figures(trace: Path, cli: CommandLine):
    lines = [" ".join(line.split()) for line in cli.prints("trace", "info", trace).splitlines()]
    for expected in (
        "program /usr/bin/app -x",
        "it ended with SIGTERM",
        "events 4",
        "threads at once 2 (2 in all)",
        "last event at 0.002 s",
        "peak live 4.0 KiB in 1 block",
        "cross-thread frees 1 (100.0 % of frees)",
        "never freed 1 block, 4.0 KiB",
        "4096..8191 1 50.0 % 4.0 KiB 97.6 % ###############",
    ):
        assert expected in lines


def test_json_has_a_schema_and_everything(trace: Path, cli: CommandLine):
    value = json.loads(cli.prints("trace", "info", "--json", trace))
    assert (value["schema"], value["version"]) == ("malloc-tuner.trace-info", 1)
    assert value["totals"]["n_events"] == 4
    assert value["events_per_op"]["free"] == 1
    assert value["curve"]["live_bytes"] == [100, 100, 0, 4096]
    assert value["lifetime_events"] == [{"from": 2, "to": 3, "blocks": 1, "bytes": 100.0}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")]
)
def test_the_suffix_chooses_the_kind_of_picture(trace: Path, suffix: str, start: bytes):
    picture = trace.with_suffix(f".{suffix}")
    assert run(["trace", "info", str(trace), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(start)


@pytest.mark.slow
def test_a_picture_of_an_empty_trace_can_be_drawn(tmp_path: Path):
    write_trace(tmp_path / "empty.trace", np.zeros(0, EVENT), {})
    picture = tmp_path / "empty.png"
    assert run(["trace", "info", str(tmp_path / "empty.trace"), "--plot", str(picture)]) == 0
    assert picture.exists()


def test_an_unknown_kind_of_picture_is_a_wrong_option(trace: Path, cli: CommandLine):
    words = ("trace", "info", trace, "--plot", "a.jpeg")
    assert "a.jpeg: unknown kind of picture; use one of .png, .svg, .pdf" in cli.fails(
        SpecError.exit_code, *words
    )


def test_a_damaged_trace_is_a_trace_error(trace: Path, cli: CommandLine):
    content = bytearray(trace.read_bytes())
    content[-1] ^= 1
    trace.write_bytes(content)
    assert "the checksum does not match; the file is damaged; record it again" in cli.fails(
        TraceError.exit_code, "trace", "info", trace
    )


def test_a_trace_without_a_readable_event_is_an_error(trace: Path, cli: CommandLine):
    trace.write_bytes(trace.read_bytes()[:-60])

    out, err = cli.run("trace", "info", trace, code=TraceError.exit_code)
    assert out == ""
    assert "the file was cut off after" in err
    assert "none can be read; it is of /usr/bin/app -x" in err


def test_what_can_be_read_of_a_trace_that_was_cut_off_is_printed_first(
    tmp_path: Path, cli: CommandLine
):
    path = tmp_path / "long.trace"
    n_blocks = 1 << 17
    events = np.zeros(n_blocks, EVENT)
    events["size"] = np.random.default_rng(1).integers(1, 1 << 20, n_blocks)
    events["slot"] = np.arange(n_blocks)
    events["owner"] = 0
    write_trace(path, events, {"argv": ["app"]}, life=(0, 1))
    path.write_bytes(path.read_bytes()[:-1000])

    words = ["thin", str(path), "-o", str(tmp_path / "thin.trace"), "--first", "0", "--last", "0"]
    assert (
        "the file was cut off; what follows covers" in cli.run("trace", *words, "--middle", "9")[1]
    )
    first = next(
        line
        for line in cli.prints("trace", "info", path).splitlines()
        if line.startswith((" INC", " pro"))
    )
    assert "INCOMPLETE" in first
    assert " events can be read" in first
    assert f"{n_blocks:,} events" not in first
    said = " ".join(cli.prints("trace", "info", path).split())
    assert "lacks end of the process lost with what was cut off: means over time are" in said


def test_the_life_of_the_process_is_shown(tmp_path: Path, cli: CommandLine):
    path = tmp_path / "a.trace"
    write_trace(path, np.zeros(1, EVENT), {}, life=(0, 1_500_000_000))
    text = " ".join(cli.prints("trace", "info", path).split())
    assert "life 1.500 s" in text
    assert "lacks" not in text
    write_trace(path, np.zeros(1, EVENT), {}, life=(0, None))
    text = " ".join(cli.prints("trace", "info", path).split())
    assert "lacks end of the process not recorded: means over time are to its last event" in text
    write_trace(path, np.zeros(1, EVENT), {}, life=(0, 1_500_000_000))
    totals = json.loads(cli.prints("trace", "info", "--json", path))["totals"]
    assert (totals["start_ns"], totals["end_ns"]) == (0, 1_500_000_000)


def test_metadata_that_were_taken_out_or_are_of_another_kind_are_borne(
    tmp_path: Path, cli: CommandLine
):
    path = tmp_path / "a.trace"
    for metadata, expected in (
        ({"argv": None, "imported": {"from": "log", "lost": 5}}, "program unknown"),
        ({"argv": "app", "imported": "log", "thinned_from": "many"}, "program app"),
    ):
        write_trace(path, np.zeros(1, EVENT), metadata)
        assert expected in " ".join(cli.prints("trace", "info", path).split())


def test_a_profile_of_a_trace_without_a_readable_event_is_not_made(trace: Path, cli: CommandLine):
    trace.write_bytes(trace.read_bytes()[:-60])

    output = trace.with_suffix(".json")
    assert "none can be read; it is of /usr/bin/app -x" in cli.fails(
        TraceError.exit_code, "fit", trace, "-o", output
    )
    assert not output.exists()


def test_a_trace_in_place_of_a_command_is_told_the_command(trace: Path, cli: CommandLine):
    said = " ".join(cli.fails(2, "trace", trace).split())
    assert f"give a command too, such as: malloc-tuner trace info {trace}" in said
