"""A whole recording; real programs are in tests/end_to_end/test_record.py."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tuner.recording
from tests.doubles.processes import printed_by
from tuner.errors import InterruptedCampaign
from tuner.recording import record


def test_recording_needs_neither_numpy_nor_the_reader_of_programs():
    code = "import sys, tuner.recording; print({'numpy', 'elftools', 'scipy'} & set(sys.modules))"

    assert printed_by(code) == "set()"


def test_the_trace_may_be_named_by_a_text(tmp_path: Path):
    recording = record([sys.executable, "-c", ""], str(tmp_path / "app.trace"), is_silent=True)

    assert recording.processes[0].path == tmp_path / "app.trace"


def test_what_was_recorded_stays_when_the_system_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spool = tmp_path / "app.trace.spool" / "1.spool"

    def fails(*_: object, **__: object) -> None:
        spool.write_bytes(b"MTSPOOL")
        raise BlockingIOError

    monkeypatch.setattr(tuner.recording, "run_program", fails)
    with pytest.raises(BlockingIOError):
        record(["ls"], tmp_path / "app.trace")
    assert spool.exists()


def test_an_interrupt_while_traces_are_built_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spool = tmp_path / "app.trace.spool"

    def is_interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner.recording, "build_traces", is_interrupted)
    with pytest.raises(InterruptedCampaign, match=f"interrupted; .+ recover {spool}"):
        record([sys.executable, "-c", ""], tmp_path / "app.trace")
    assert spool.is_dir()


def test_any_thread_may_record(tmp_path: Path):
    with ThreadPoolExecutor() as threads:
        recording = threads.submit(record, [sys.executable, "-c", ""], tmp_path / "app.trace")

    assert recording.result().processes
