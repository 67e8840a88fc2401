"""The command line, results and targets that all benchmarks share."""

import signal
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import calibration, gem5_inside, gem5_scaling, harness, mimalloc_bench, results
from benchmarks.harness import Benchmark, Call, Target, checked, outcome_of, peer_subject, table
from benchmarks.results import Parts, changes_since, read_results
from benchmarks.rounds import Figures, failed, run_rounds
from tests.doubles.program_runs import CRASHED, GOOD
from tests.unit.benchmarks.test_results import committed, git
from tuner.bench.subjects import BenchSubject
from tuner.errors import InterruptedCampaign, ProgramError, SpecError
from tuner.stats import Interval


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


def run(one: Benchmark, keep: Path, *words: str) -> int:
    return one.run([*words, "--keep", str(keep)])


def test_parts_are_measured_in_rounds_and_kept_with_one_stamp(keep: Path):
    assert run(ONE, keep) == 0

    found = read_results(keep)
    assert {name: len(rows) for name, rows in found["parts"].items()} == {"a": 6, "b": 6}
    assert [(s["of"], s["rounds"]) for s in found["provenance"]] == [(["a", "b"], 3)]


def test_a_part_measured_anew_leaves_the_others(keep: Path):
    run(ONE, keep)
    run(ONE, keep, "a", "--rounds", "1")

    found = read_results(keep)["parts"]
    assert (len(found["a"]), len(found["b"])) == (2, 6)


def test_a_missed_target_is_the_exit_status_and_comes_first(
    keep: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(ONE, keep, "a") == 1
    assert "MISSED parts: 1 (>= 2)\n0 of 1 targets reached" in capsys.readouterr().out


def test_print_runs_nothing_and_smoke_keeps_nothing(keep: Path):
    assert run(ONE, keep, "--smoke") == 0
    assert not keep.exists()
    assert run(ONE, keep, "--print") == 0
    assert not keep.exists()


def test_a_part_that_does_not_exist_is_an_error_and_no_missed_target(
    keep: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(ONE, keep, "c") == SpecError.exit_code
    assert capsys.readouterr().err == "one: c: there is no such part; there are a, b\n"


def test_a_benchmark_that_crashes_has_not_missed_a_target(
    keep: Path, capsys: pytest.CaptureFixture[str]
):
    """`make bench` goes on after exit status 1."""

    def crash(_: Parts) -> Iterator[Target]:
        raise KeyError("p99")

    assert run(replace(ONE, targets=crash), keep) == 70
    assert "KeyError: 'p99'" in capsys.readouterr().err


@pytest.mark.parametrize("one", [calibration, mimalloc_bench, gem5_inside, gem5_scaling])
def test_a_benchmark_of_one_part_knows_no_other(one: ModuleType, tmp_path: Path):
    options = Namespace(parts=["c"], smoke=True, programs="all", gem5=None)

    with pytest.raises(SpecError, match="c: there is no such part"):
        one.measure(Call(one.BENCHMARK, options, tmp_path, {}))


class StopsOnce:
    """Stops the benchmark at the n-th run of a part, once."""

    def __init__(self, part: str, at: int) -> None:
        self.place = part, at
        self.runs: dict[str, int] = {}

    def __call__(self, part: str) -> Figures:
        self.runs[part] = self.runs.get(part, 0) + 1
        if (part, self.runs[part]) == self.place:
            raise KeyboardInterrupt
        return Figures.succeeded({"v": 1})

    def measure(self, call: Call) -> None:
        for part in call.choose(["a", "a-b"], []):
            rows = run_rounds(call, part, ["t"], ["x"], lambda *_, part=part: self(part))
            call.keep(part, rows, rounds=call.rounds)

    def benchmark(self) -> Benchmark:
        return Benchmark("one", "One.", "", ("x.c",), self.measure, lines, rounds=3)


def test_what_was_kept_before_a_stop_is_not_measured_again(keep: Path):
    stops = StopsOnce("a-b", 2)
    one = stops.benchmark()

    assert run(one, keep) == InterruptedCampaign.exit_code
    assert run(one, keep) == 0
    assert stops.runs == {"a": 3, "a-b": 3 + 1}, "the run that was stopped is made again"

    run(one, keep)
    assert stops.runs == {"a": 6, "a-b": 7}, "the command had ended"


def test_another_command_or_other_sources_measure_all_parts(keep: Path, tmp_path: Path):
    stops = StopsOnce("a-b", 2)
    one = stops.benchmark()
    run(one, keep)

    run(one, keep, "--rounds", "2")
    assert stops.runs["a"] == 3 + 2

    (tmp_path / "x.c").write_text("int y;\n")
    run(one, keep)
    assert stops.runs["a"] == 3 + 2 + 3


def test_the_journal_of_a_part_outlives_one_whose_name_begins_alike(keep: Path):
    stops = StopsOnce("a-b", 2)
    one = stops.benchmark()
    assert run(one, keep) == InterruptedCampaign.exit_code
    assert run(one, keep, "a") == 0

    assert run(one, keep, "a-b") == 0

    assert stops.runs["a-b"] == 3 + 1


def test_a_stamp_is_of_the_commit_at_which_its_part_was_begun(keep: Path, tmp_path: Path):
    one = StopsOnce("a", 2).benchmark()
    first = results.commit()
    run(one, keep)
    (tmp_path / "x.c").write_text("int y;\n")
    git(tmp_path, "commit", "-qam", "second")

    run(one, keep)

    stamps = {part: stamp for stamp in read_results(keep)["provenance"] for part in stamp["of"]}
    assert stamps["a"]["commit"] == first
    assert stamps["a-b"]["commit"] == results.commit() != first
    assert changes_since(("x.c",), stamps["a"]) == ["x.c"]
    assert changes_since(("x.c",), stamps["a-b"]) == []


def test_a_run_that_is_taken_again_has_the_stamp_of_its_begin(keep: Path, tmp_path: Path):
    def measure_run(call: Call) -> None:
        folder = call.run_folder("a", "campaign")
        folder.mkdir(exist_ok=True)
        call.keep("a", [folder.name])

    one = Benchmark("one", "One.", "", ("x.c",), measure_run, lines)
    first = results.commit()
    run(one, keep)
    (tmp_path / "x.c").write_text("int y;\n")
    git(tmp_path, "commit", "-qam", "second")
    run(one, keep)

    (stamp,) = read_results(keep)["provenance"]
    assert stamp["commit"] == first

    (tmp_path / "runs" / "one" / "campaign").rmdir()
    run(one, keep)

    (stamp,) = read_results(keep)["provenance"]
    assert stamp["commit"] == results.commit()


def test_rounds_beyond_those_asked_for_are_left_out(keep: Path):
    one = StopsOnce("a", 3).benchmark()
    run(one, keep, "a")

    run(one, keep, "a", "--rounds", "1")

    assert [row["round"] for row in read_results(keep)["parts"]["a"]] == [0]


def test_a_stopped_run_goes_on_where_it_was(
    keep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
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
    assert run(again, keep) == InterruptedCampaign.exit_code
    assert "one: interrupted" in capsys.readouterr().err
    run(again, keep)

    # Of four runs two were kept, one of a subject that failed and is out.
    assert n_runs == 4
    rows = read_results(keep)["parts"]["a"]
    assert sorted(row["status"] for row in rows) == ["failed", "ok", "ok"]
    assert not list((tmp_path / "runs" / "one").iterdir())


def test_what_is_kept_round_by_round_outlives_a_stop(keep: Path, tmp_path: Path):
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
    assert run(one, keep) == InterruptedCampaign.exit_code
    found = read_results(keep)
    assert sorted(row["v"] for row in found["parts"]["a"]) == [1, 2]
    assert found["provenance"][0]["rounds"] == 1

    run(one, keep)

    found = read_results(keep)
    kept = [(row["subject"], row["round"]) for row in found["parts"]["a"]]
    assert kept == [("x", 0), ("x", 1), ("y", 0), ("y", 1)], "what is alike lies together"
    assert sorted(row["v"] for row in found["parts"]["a"]) == [1, 2, 3, 5]
    assert [stamp["rounds"] for stamp in found["provenance"]] == [2]
    assert not list((tmp_path / "runs" / "one").iterdir())


def test_an_outcome_names_few_values_and_counts_many_targets():
    good, bad = Target("a", 1.0, 2.0, form=".1f"), Target("b", 3.0, 2.0, form=".1f")

    assert outcome_of([]) == "not shown yet"
    assert outcome_of([good]) == "reached: a: 1.0"
    assert outcome_of([good, bad]) == "**missed**: a: 1.0; b: 3.0 (aim: at most 2.0)"
    assert outcome_of([good] * 4) == "4 of 4 targets reached"
    assert outcome_of([good] * 4 + [bad]) == "**missed**: 4 of 5 targets reached"


def test_what_is_not_told_apart_from_its_limit_is_neither_reached_nor_missed():
    reached, missed, doubtful = (
        Target("a", 1.0, 1.0, at_least=True, interval=Interval(*ends))
        for ends in ((1.0, 1.2), (0.8, 0.99), (0.9, 1.1))
    )

    assert [t.is_met for t in (reached, missed, doubtful)] == [True, False, False]
    assert [t.is_missed for t in (reached, missed, doubtful)] == [False, True, False]
    assert outcome_of([reached] * 4 + [doubtful]) == (
        "in doubt: 4 of 5 targets reached, 0 missed, 1 not to be told apart from their limit"
    )
    assert outcome_of([reached] * 3 + [missed, doubtful]) == (
        "**missed**: 3 of 5 targets reached, 1 missed, 1 not to be told apart from their limit"
    )


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [(1, "partly shown: parts: 1"), (2, "**missed**: parts: 1 (aim: at least 2)")],
)
def test_without_a_part_that_it_needs_a_claim_is_shown_in_part(limit: int, outcome: str):
    def targets(parts: Parts) -> Iterator[Target]:
        yield Target("parts", len(parts), limit, at_least=True, form=".0f")

    one = replace(ONE, needs=("a", "b", "c"), targets=targets)

    assert one.outcome_text({"b": []}) == f"{outcome}; not measured: a, c"
    whole = replace(one, outcome=lambda _, verdict: f"{verdict}!")
    assert whole.outcome_text(dict.fromkeys("abc")) == "reached!"
    assert whole.outcome_text({"b": []}) == f"{outcome.partition(':')[0]}!; not measured: a, c"


@pytest.mark.parametrize(
    "part",
    [
        [],
        {"rows": [{"status": "ok"}, {"status": "failed"}]},
        ['{"kind": "run", "status": "timeout"}'],
    ],
)
def test_a_smoke_run_fails_with_a_run_that_failed_or_without_any(part: object, keep: Path):
    def smoke(kept: object) -> int:
        one = replace(ONE, measure=lambda call: call.keep("a", kept), lines=lambda _: ())
        return run(one, keep, "--smoke")

    assert smoke(part) == 1
    assert smoke({"rows": [{"status": "ok"}], "samples": ['{"status": "ok"}']}) == 0


def test_a_smoke_run_without_parts_fails_unless_something_is_not_there(keep: Path):
    assert run(replace(ONE, measure=lambda _: None), keep, "--smoke") == 1
    assert run(replace(ONE, measure=lambda call: call.leave_out("a", "no b")), keep, "--smoke") == 0


def test_a_peer_without_a_version_is_refused(tmp_path: Path):
    library = tmp_path / "libpeer.so"
    library.write_bytes(b"")

    assert peer_subject(f"peer={library}@1.2").version == "1.2"
    with pytest.raises(SpecError, match=r"figures need a version.*@VERSION"):
        peer_subject(f"peer={library}")


def test_a_peer_that_serves_one_thread_runs_no_program_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows: list[Figures] = []

    def run_one(*words: Any, **_: object) -> list[object]:
        rows.append(words[4]("threads", "dlmalloc"))
        return []

    program = mimalloc_bench.Program("threads", ("threads",), 2)
    monkeypatch.setattr(mimalloc_bench, "_programs", lambda _: [program])
    subject = BenchSubject("dlmalloc", None)
    monkeypatch.setattr(mimalloc_bench, "chosen_subjects", lambda *_: [subject])
    monkeypatch.setattr(mimalloc_bench, "run_rounds", run_one)
    options = Namespace(parts=[], smoke=True, programs=None, sources=None)

    mimalloc_bench.measure(Call(mimalloc_bench.BENCHMARK, options, tmp_path, {}))

    assert [row.reason for row in rows] == ["serves one thread"]


def test_columns_of_a_table_are_even():
    assert list(table(["", "b"], [["long", "1"], ["x", "22"]])) == [
        "|      |   b |",
        "| ---- | --: |",
        "| long |   1 |",
        "| x    |  22 |",
    ]


def test_a_run_that_failed_is_no_measurement():
    assert checked(GOOD) is GOOD
    with pytest.raises(ProgramError, match="the program failed: killed by SIGSEGV: oh"):
        checked(CRASHED)
    with pytest.raises(ProgramError, match="the program failed: the library was not loaded"):
        checked(replace(GOOD, preload_mapped=False))
