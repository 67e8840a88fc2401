"""`malloc-tuner emulate` on real allocators: numbers, JSON, and every kind of refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.traces import write_mixed_trace
from tuner.errors import SettingError
from tuner.trace.file import Trace, write_trace

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a process whose life is known, as recordings are."""
    path = write_mixed_trace(tmp_path_factory.mktemp("emulate") / "mixed.trace", 2, 3000)
    with Trace(path) as mixed:
        events, metadata = mixed.read_all(), mixed.metadata
    write_trace(path, events, metadata, life=(0, int(events["time_ns"][-1])))
    return path


def document(cli: CommandLine, trace: Path, *words: str) -> dict[str, Any]:
    out, _ = cli.run("emulate", trace, "--json", *words)
    found: dict[str, Any] = json.loads(out)
    return found


def test_defaults_stand_beside_the_settings(cli: CommandLine, trace: Path):
    asked = ("--setting", "jemalloc dirty_decay_ms=0", "--setting", "exgen purge_delay=0")
    found = document(cli, trace, *asked, "-a", "exgen")
    columns = [(e["allocator"], e["settings"]) for e in found["evaluations"]]
    assert columns[:2] == [("jemalloc", {"dirty_decay_ms": 0}), ("exgen", {"purge_delay": 0})]
    assert columns[2:] == [("jemalloc", {}), ("exgen", {}), ("glibc", {})]
    for evaluation in found["evaluations"]:
        assert evaluation["status"] == "ok"
        assert evaluation["measurement"]["peak_heap_bytes"] > 100_000
        assert evaluation["measurement"]["cost"] > evaluation["measurement"]["instructions"] > 0
    first, _, default, *_ = (e["measurement"] for e in found["evaluations"])
    assert first["syscalls"] > default["syscalls"]


def test_same_evaluation_gives_the_same_numbers(cli: CommandLine, trace: Path):
    def numbers() -> list[dict[str, Any]]:
        found = document(cli, trace, "-a", "mimalloc")["evaluations"]
        for evaluation in found:
            del evaluation["measurement"]["wall_ns"]
        return list(found)

    assert numbers() == numbers()


def test_table_names_the_metrics_and_the_change(
    cli: CommandLine, trace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "140")
    out, _ = cli.run("emulate", trace, "--setting", "glibc trim_threshold=64MiB")
    for words in ("peak heap", "mean heap", "instructions", "cost", "change", "glibc 2."):
        assert words in out
    assert "trim_threshold=67108864" in out


def test_free_running_threads_have_a_latency(cli: CommandLine, trace: Path):
    found = document(cli, trace, "--threads", "free")
    (evaluation,) = found["evaluations"]
    assert evaluation["measurement"]["p99_latency_ns"] > 0
    assert evaluation["measurement"]["instructions"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--setting", "jemalloc dirty_decay=0"), 3, "jemalloc has no setting 'dirty_decay'"),
        (("--setting", "jemalloc dirty_decay_ms=soon"), 3, "dirty_decay_ms"),
        (("--setting", "glibc trim_threshold"), 3, "write it like 'jemalloc narenas=2"),
        (("-a", "jemalloc:/nonexistent.so"), 4, "/nonexistent.so"),
        (("--setting", "glibc mxfast=0", "--setting", "jemalloc narenas=0"), 6, "narenas"),
    ],
)
def test_mistake_is_named_with_its_exit_code(
    cli: CommandLine, trace: Path, words: tuple[str, ...], code: int, message: str
):
    err = cli.fails(code, "emulate", trace, *words)
    assert message in err
    assert err.startswith("malloc-tuner: ")
    assert err.count("\n") == 1


def test_missing_or_damaged_trace_is_an_error(cli: CommandLine, trace: Path, tmp_path: Path):
    damaged = tmp_path / "damaged.trace"
    damaged.write_bytes(b"nonsense" + trace.read_bytes()[8:])
    for path in (tmp_path / "none.trace", damaged):
        assert path.name in cli.run("emulate", path, code=5)[1]


def test_a_trace_that_was_cut_off_gives_a_warning(cli: CommandLine, trace: Path, tmp_path: Path):
    whole = write_mixed_trace(tmp_path / "whole.trace", 1, 200_000).read_bytes()
    cut = tmp_path / "cut.trace"
    cut.write_bytes(whole[: len(whole) // 2])

    assert f"{cut}: the file was cut off" in cli.run("emulate", cut)[1]
    assert not cli.run("emulate", trace)[1]


def test_a_refused_setting_is_named_once(cli: CommandLine, trace: Path):
    words = ("--setting", "jemalloc lg_extent_max_active_fit=99999")
    _, err = cli.run("emulate", trace, *words, code=SettingError.exit_code)
    assert err.count("jemalloc lg_extent_max_active_fit=99999") == 1
