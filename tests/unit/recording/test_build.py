"""Spools become traces, or stay where they are."""

import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.cli.main import run
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.recording import build, record, recover
from tuner.recording.explain import killed_at_start, stopped_early
from tuner.trace.file import Trace


def test_a_folder_without_spools_cannot_be_recovered_and_stays(tmp_path: Path):
    notes = tmp_path / "notes.spool"
    notes.touch()
    with pytest.raises(OutputError, match=r"no recording here; give the folder OUTPUT\.spool"):
        recover(tmp_path, tmp_path / "a.trace")
    assert notes.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("garbage", "not a spool of this version of the recorder"),
        ("", "nothing could be recorded: the disk is full, or"),
    ],
)
def test_what_is_no_spool_is_kept_and_what_a_full_disk_kept_empty_removed(
    tmp_path: Path, text: str, said: str
):
    spool = tmp_path / "a.trace.spool"
    spool.mkdir()
    (spool / "1.spool").write_text(text)
    with pytest.raises(OutputError, match=said):
        recover(spool, tmp_path / "a.trace")
    assert spool.exists() == bool(text)


Record = Callable[..., Path]


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Record a program onto a disk that is full as the traces are built; returns their name."""
    output = tmp_path / "a new" / "folder" / "a.trace"
    real = build.run_build_trace

    def full_disk(*arguments: str) -> dict[str, object]:
        if arguments[0] != "--describe":
            raise OutputError(f"{output}: cannot write: No space left on device")
        return real(*arguments)

    def record_it(*command: str) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(build, "run_build_trace", full_disk)
            words = f"trace recover '{output}.spool' -o '{output}'`"
            with pytest.raises(OutputError, match=f"No space left.*kept.*{words}"):
                record(command, output, follow=True)
        return output

    return record_it


def test_a_trace_that_cannot_be_written_leaves_the_spool(unbuilt: Record):
    output = unbuilt("ls", "/")
    thesis = Path(f"{output}.spool") / "thesis.txt"
    thesis.touch()
    (process,) = recover(thesis.parent, output)
    assert process.totals.n_events > 0
    assert [*thesis.parent.iterdir()] == [thesis], "what is not of the recording stays"


def test_a_trace_that_does_not_fit_leaves_nothing_in_the_way_of_a_second_try(unbuilt: Record):
    output = unbuilt("ls", "/")
    spool, limits = Path(f"{output}.spool"), resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = build.run_build_trace(str(next(spool.glob("*.spool"))), str(output), "{}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (output.stat().st_size - 1, limits[1]))
    output.unlink()
    try:
        with pytest.raises(OutputError, match=r"a\.trace: cannot write: File too large; .*kept"):
            recover(spool, output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    (process,) = recover(spool, output)
    assert process.totals.n_events == whole["totals"]["n_events"]


def test_a_recording_that_fails_leaves_the_trace_that_was_to_be_replaced(
    unbuilt: Record, tmp_path: Path
):
    output = unbuilt("ls", "/")
    spool, limits = Path(f"{output}.spool"), resource.getrlimit(resource.RLIMIT_FSIZE)
    output.write_text("an earlier one")
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"/a\.trace: cannot write: File too large"):
            recover(spool, output, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert output.read_text() == "an earlier one"
    assert {*output.parent.iterdir()} == {output, spool}

    link = tmp_path / "link.trace"
    link.symlink_to(output)
    recover(spool, link, force=True)
    assert link.is_symlink()
    with Trace(output) as trace:
        assert trace.metadata["argv"] == ["ls", "/"]


def test_a_trace_that_is_replaced_keeps_its_mode(tmp_path: Path):
    trace = tmp_path / "a.trace"
    trace.touch(0o600)
    record(["ls", "/"], trace, force=True, is_silent=True)
    assert trace.stat().st_mode & 0o777 == 0o600
    assert trace.stat().st_size > 0


def test_what_a_killed_command_left_beside_its_trace_is_removed(unbuilt: Record):
    output = unbuilt("ls", "/")
    for name in (f".a.trace.{2**22 + 1}", ".a.trace.1", ".a.trace.old", ".b.trace.9999999"):
        output.with_name(name).touch()
    recover(Path(f"{output}.spool"), output)
    names = [".a.trace.1", ".a.trace.old", ".b.trace.9999999", "a.trace"]
    assert sorted(path.name for path in output.parent.iterdir()) == names


def test_a_folder_with_the_name_of_a_further_trace_is_said_and_stays(unbuilt: Record):
    output = unbuilt(sys.executable, "-c", TWO_CHILDREN)
    folder = output.with_name(f"a.2-{Path(sys.executable).name}.trace")
    folder.mkdir()
    with pytest.raises(OutputError, match=r"trace: .*Is a directory.*kept"):
        recover(Path(f"{output}.spool"), output, force=True)
    assert {*output.parent.iterdir()} == {folder, Path(f"{output}.spool")}


def test_a_recording_without_an_event_leaves_the_trace_that_was_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    output, real = tmp_path / "a.trace", build.run_build_trace

    def without_events(*arguments: str) -> dict[str, Any]:
        facts = real(*arguments)
        return facts | {"totals": facts["totals"] | {"n_events": 0}} if "totals" in facts else facts

    output.write_text("an earlier one")
    monkeypatch.setattr(build, "run_build_trace", without_events)
    with pytest.raises(ProgramError):
        record(["ls", "/"], output, force=True)
    assert output.read_text() == "an earlier one"
    assert [*tmp_path.iterdir()] == [output]


TWO_CHILDREN = "import os\nfor _ in 'ab':\n os.fork() or os._exit(len([0] * 99))\n os.wait()"


@pytest.mark.parametrize("name", ["a.trace", "a.2-sort.trace"])
def test_recover_keeps_traces_that_exist(unbuilt: Record, name: str):
    output = unbuilt(sys.executable, "-c", TWO_CHILDREN)
    output.with_name(name).touch()

    with pytest.raises(OutputError, match=f"{name}: exists"):
        recover(Path(f"{output}.spool"), output)
    assert len(recover(Path(f"{output}.spool"), output, force=True)) == 3


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_process_with_the_number_of_an_earlier_one_hides_none(
    unbuilt: Record, *, is_forked: bool
):
    """Programs that posix_spawn starts begin without a fork, as those after an exec do."""
    spawn = "os.waitpid(os.posix_spawn('/bin/ls', ['ls', '/'], os.environ), 0)"
    script = TWO_CHILDREN if is_forked else f"import os\n{spawn}\n{spawn}"
    output = unbuilt(sys.executable, "-c", script)
    _, *spools = sorted(Path(f"{output}.spool").glob("*.spool"), key=lambda path: int(path.stem))
    for born_ticks, spool in enumerate(spools):
        with spool.open("r+b") as file:
            file.seek(16)  # the number in the header
            file.write(struct.pack("=i", 500))
            if not is_forked:
                file.seek(48)
                file.write(struct.pack("=Q", born_ticks))

    assert [process.pid for process in recover(Path(f"{output}.spool"), output)][1:] == [500, 500]


def test_a_program_that_a_full_disk_left_no_room_for_is_said_to_be_missing(
    unbuilt: Record, capfd: pytest.CaptureFixture[str]
):
    output = unbuilt("sh", "-c", "ls /; ls /; true")
    spool = Path(f"{output}.spool")
    next(iter(spool.glob("*.spool"))).with_name("99999999.spool").touch()

    words = ["trace", "recover", str(spool), "-o", str(output)]
    assert run(words) == OutputError.exit_code
    err = capfd.readouterr().err
    assert "malloc-tuner: 1 program could not be recorded: no room on the disk" in err
    assert "INCOMPLETE" not in err, "the traces are whole"
    assert not spool.exists()


def test_native_parts_of_another_version_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = build.run_build_trace

    def old(*words: str) -> dict[str, object]:
        return {name: value for name, value in real(*words).items() if name != "born_ticks"}

    monkeypatch.setattr(build, "run_build_trace", old)
    with pytest.raises(MissingToolError, match="build_trace: is of another version than malloc"):
        record(["ls", "/"], tmp_path / "a.trace", is_silent=True)


def test_every_trace_that_is_incomplete_is_named(tmp_path: Path):
    (whole,) = record(["ls", "/"], tmp_path / "a.trace", is_silent=True).processes
    cut = replace(whole, stopped="File too large")
    said = stopped_early([cut, whole, replace(cut, path=tmp_path / "b.trace")]) or ""
    assert [Path(line.split(":")[0]).name for line in said.splitlines()] == ["a.trace", "b.trace"]


def test_a_process_that_was_killed_as_it_began_does_not_hide_the_others(tmp_path: Path):
    spool = tmp_path / "a.trace.spool"
    begun = ("truncate", "-s", "65536", str(spool / "1.spool"))

    for is_silent in (False, True):
        made = record(begun, tmp_path / "a.trace", is_silent=is_silent, force=True)
        (process,) = made.processes
        assert (process.argv, process.n_lost, process.n_killed) == (begun, 0, 1)
        assert stopped_early([process]) is None, "the trace is whole"
        assert "1 program was not recorded" in (killed_at_start([process]) or "")

    spool.mkdir()
    subprocess.run(begun, check=True)
    with pytest.raises(OutputError, match="ended before its first allocation"):
        recover(spool, tmp_path / "b.trace")


def test_a_command_that_is_too_long_to_keep_is_left_out(tmp_path: Path):
    trace = tmp_path / "a.trace"

    record(["ls", "-d", *["/"] * 40_000], trace, is_silent=True)

    with Trace(trace) as opened:
        assert opened.metadata["command"] is None
        assert opened.metadata["argv"][:2] == ["ls", "-d"]
