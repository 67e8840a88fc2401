"""The command line, results and targets that all benchmarks share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import harness, results
from benchmarks.harness import Benchmark, Call, Target, outcome_of, peer_subject, table
from benchmarks.results import Parts, read_results
from benchmarks.rounds import Figures, failed, run_rounds
from tests.unit.benchmarks.test_results import committed
from tuner.errors import SpecError


def measure(call: Call) -> None:
    for part in call.choose(["a", "b"], ["a"]):
        rows = run_rounds(
            call, part, ["t"], ["x", "y"], lambda _, who: Figures.succeeded({"v": len(who)})
        )
        call.keep(part, rows, rounds=call.rounds)


def lines(parts: Parts) -> Iterator[str]:
    yield from (f"{name}: {len(rows)} rows" for name, rows in parts.items())


def targets(parts: Parts) -> Iterator[Target]:
    yield Target("parts", len(parts), 2, at_least=True, form=".0f")


ONE = Benchmark("one", "One.", "A claim.", ("x.c",), measure, lines, targets, rounds=3)


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where results go, in a checkout of their own."""
    for module in (results, harness):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "x.c").write_text("int x;\n")
    committed(tmp_path)
    return tmp_path / "kept" / "one.json.zst"


def test_parts_are_measured_in_rounds_and_kept_with_one_stamp(keep: Path) -> None:
    assert ONE.run(["--keep", str(keep)]) == 0

    found = read_results(keep)
    assert {name: len(rows) for name, rows in found["parts"].items()} == {"a": 6, "b": 6}
    assert [(s["of"], s["rounds"]) for s in found["provenance"]] == [(["a", "b"], 3)]


def test_a_part_measured_anew_leaves_the_others(keep: Path) -> None:
    ONE.run(["--keep", str(keep)])
    ONE.run(["a", "--rounds", "1", "--keep", str(keep)])

    found = read_results(keep)["parts"]
    assert (len(found["a"]), len(found["b"])) == (2, 6)


def test_a_missed_target_is_the_exit_status_and_comes_first(
    keep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ONE.run(["a", "--keep", str(keep)]) == 1
    assert "MISSED parts: 1 (>= 2)\n0 of 1 targets reached" in capsys.readouterr().out


def test_print_runs_nothing_and_smoke_keeps_nothing(keep: Path) -> None:
    assert ONE.run(["--smoke", "--keep", str(keep)]) == 0
    assert not keep.exists()
    assert ONE.run(["--print", "--keep", str(keep)]) == 0
    assert not keep.exists()


def test_a_part_that_does_not_exist_is_an_error(keep: Path) -> None:
    with pytest.raises(SystemExit, match="one: c: there is no such part; there are a, b"):
        ONE.run(["c", "--keep", str(keep)])


def test_a_stopped_run_goes_on_where_it_was(keep: Path, tmp_path: Path) -> None:
    n_runs = 0

    def stop(_task: str, _who: str) -> Figures:
        nonlocal n_runs
        n_runs += 1
        if n_runs == 3:
            signal.raise_signal(signal.SIGTERM)
        return failed("x") if n_runs == 1 else Figures.succeeded({"v": 1})

    def stopped(call: Call) -> None:
        call.keep("a", run_rounds(call, "a", ["t"], ["x", "y"], stop))

    again = Benchmark("one", "One.", "", ("x.c",), stopped, lines, rounds=2)
    with pytest.raises(SystemExit, match="interrupted"):
        again.run(["--keep", str(keep)])
    again.run(["--keep", str(keep)])

    # Of four runs two were kept, one of a subject that failed and is out.
    assert n_runs == 4
    assert [row["status"] for row in read_results(keep)["parts"]["a"]] == ["failed", "ok", "ok"]
    assert not list((tmp_path / "runs" / "one").iterdir())


def test_what_is_kept_round_by_round_outlives_a_stop(keep: Path, tmp_path: Path) -> None:
    n_runs = 0

    def stop(_task: str, _who: str) -> Figures:
        nonlocal n_runs
        n_runs += 1
        if n_runs == 4:
            raise KeyboardInterrupt
        return Figures.succeeded({"v": n_runs})

    def round_by_round(call: Call) -> None:
        for rounds in (1, 2):
            rows = run_rounds(call, "a", ["t"], ["x", "y"], stop, rounds=rounds)
            call.keep("a", rows, rounds=rounds, is_done=rounds == 2)

    one = Benchmark("one", "One.", "", ("x.c",), round_by_round, lines, rounds=2)
    with pytest.raises(SystemExit, match="interrupted"):
        one.run(["--keep", str(keep)])
    found = read_results(keep)
    assert [row["v"] for row in found["parts"]["a"]] == [1, 2]
    assert found["provenance"][0]["rounds"] == 1

    one.run(["--keep", str(keep)])

    found = read_results(keep)
    assert [row["v"] for row in found["parts"]["a"]] == [1, 2, 3, 5]
    assert [stamp["rounds"] for stamp in found["provenance"]] == [2]
    assert not list((tmp_path / "runs" / "one").iterdir())


def test_an_outcome_names_few_values_and_counts_many_targets() -> None:
    good, bad = Target("a", 1.0, 2.0, form=".1f"), Target("b", 3.0, 2.0, form=".1f")

    assert outcome_of([good]) == "reached: a: 1.0"
    assert outcome_of([good, bad]) == "**missed**: a: 1.0; b: 3.0 (aim: at most 2.0)"
    assert outcome_of([good] * 4) == "4 of 4 targets reached"
    assert outcome_of([good] * 4 + [bad]) == "**missed**: 4 of 5 targets reached"


def test_a_peer_without_a_version_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libpeer.so"
    library.write_bytes(b"")

    assert peer_subject(f"peer={library}@1.2").version == "1.2"
    with pytest.raises(SpecError, match=r"figures need a version.*@VERSION"):
        peer_subject(f"peer={library}")


def test_columns_of_a_table_are_even() -> None:
    assert list(table(["", "b"], [["long", "1"], ["x", "22"]])) == [
        "|      |   b |",
        "| ---- | --: |",
        "| long |   1 |",
        "| x    |  22 |",
    ]
