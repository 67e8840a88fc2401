"""Runs inside simulated machines: each once, kept as it ends, judged, summarised."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gem5_inside import judge, page_lines
from tests.doubles.program_runs import GOOD
from tests.doubles.runs import MIB, campaign_record, trial
from tuner.compare.loop import Observer
from tuner.errors import InterruptedCampaign, OutputError, StoreError
from tuner.measure.gem5 import Gem5Result, Gem5Run, file_digest
from tuner.measure.gem5_inside import (
    Counted,
    Gem5Inside,
    InsideTask,
    guest_environments,
    judge_inside,
)
from tuner.measure.program import ProgramRunner
from tuner.records import Configuration, Outcome, Status
from tuner.report.gem5 import out_lines
from tuner.runs import Run
from tuner.store.subject import Subject
from tuner.validate.gem5_summary import Gem5Summary
from tuner.validate.inside import read_inside, run_inside
from tuner.validate.inside_summary import summarize_inside
from tuner.validate.setup import Prepared

SERVER = Path("/machines/server.json")
START = InsideTask("start", SERVER, 1, ("/guests/empty",), None)
LISTS = InsideTask("lists", SERVER, 1, ("/guests/lists", "100"), START)
LIBRARY = "/lib/libjemalloc.so.2"
STATISTICS = """
---------- Begin Simulation Statistics ----------
simInsts {instructions} # x
simTicks {ticks} # x
board.clk_domain.clock 100 # x
board.cache_hierarchy.l1dcaches.demandMshrMisses::processor.cores.core.data {l1d} # x
board.cache_hierarchy.l2caches.demandMshrMisses::processor.cores.core.data {l2} # x

---------- End Simulation Statistics   ----------
"""
KINDS = ("heap", "python", "program", "preloaded", "simulated", "files")
Numbers = tuple[int, int, int, int]
"""Instructions, cycles, L1D misses, L2 misses."""
COUNTED: Mapping[tuple[str, str], Numbers] = {
    ("start", "glibc-default"): (1000, 2000, 10, 5),
    ("lists", "glibc-default"): (11_000, 12_000, 110, 55),
    ("start", "jemalloc-default"): (50_000, 60_000, 500, 300),
    ("lists", "jemalloc-default"): (58_000, 68_000, 580, 340),
    ("start", "knee"): (50_000, 60_000, 500, 300),
    ("lists", "knee"): (55_000, 64_000, 530, 320),
}


class FakeRunner(ProgramRunner):
    """Is asked to stop what runs."""

    def __init__(self) -> None:
        self.n_stops = 0

    def stop(self) -> None:
        self.n_stops += 1


@dataclass(frozen=True)
class FakeInside(Gem5Inside):
    program: Path = Path("gem5.opt")
    scripts: Path = Path("scripts")
    outputs: Path = Path("outputs")
    runner: FakeRunner = field(default_factory=FakeRunner)
    timeout_s: float = 1.0
    bad: dict[tuple[str, str], Gem5Run] = field(default_factory=dict)
    interrupt_at: int | None = None
    ran: list[tuple[str, str]] = field(default_factory=list)
    version: str = "1"
    files: Mapping[str, str] = field(default_factory=dict)

    def identity(self, task: InsideTask, environment: Mapping[str, str]) -> str:
        return f"{task} {sorted(environment.items())} {self.version}"

    def run(self, task: InsideTask, label: str, environment: Mapping[str, str]) -> Outcome[Counted]:
        if self.interrupt_at == len(self.ran):
            raise KeyboardInterrupt
        key = (task.program, label)
        self.ran.append(key)
        found = self.bad.get(key) or good_run(COUNTED[key], environment.get("LD_PRELOAD"))
        outcome = judge_inside(found, environment)
        if outcome.good is None:
            return outcome
        return Outcome.succeeded(outcome.good.model_copy(update={"files": self.files}))


def good_run(
    numbers: Numbers, library: str | None, cut: int | None = None, output: bytes = b"lists 1\n"
) -> Gem5Run:
    instructions, cycles, l1d, l2 = numbers
    text = STATISTICS.format(instructions=instructions, ticks=cycles * 100, l1d=l1d, l2=l2)
    result = Gem5Result.model_validate(
        {
            "schema": "gem5-validate.result",
            "version": 1,
            "gem5": "24.0.0.1",
            "machine": "server",
            "guest": "lists",
            "arguments": (),
            "cause": "exiting with last active thread context",
            "guest_status": 0,
            "ticks": cycles * 100,
            "guest_files": ("/tuner/native/rand_malloc", *([library] if library else [])),
            "memory_bytes": dict.fromkeys(KINDS, 0),
        }
    )
    return Gem5Run(GOOD, result, text[:cut], output)


def guest(label: str, environment: Mapping[str, str], refusal: str | None = None) -> Prepared:
    allocator = "jemalloc" if environment else "glibc"
    settings = {"dirty_decay_ms": 0} if label == "knee" else {}
    subject = Subject(label, Configuration.of(allocator, settings), None, ("default",))
    return Prepared(subject, environment, refusal)


GLIBC = guest("glibc-default", {})
JEMALLOC = guest("jemalloc-default", {"LD_PRELOAD": LIBRARY})
KNEE = guest("knee", {"LD_PRELOAD": LIBRARY, "MALLOC_CONF": "dirty_decay_ms:0"})


def execute(
    path: Path,
    gem5: FakeInside | None = None,
    guests: tuple[Prepared, ...] = (GLIBC, JEMALLOC, KNEE),
    tasks: tuple[InsideTask, ...] = (LISTS,),
) -> list[tuple[str, Outcome[Counted]]]:
    ended: list[tuple[str, Outcome[Counted]]] = []
    run_inside(
        path,
        tasks,
        guests,
        gem5=gem5 or FakeInside(),
        facts={"machine": {"cpus_allowed": (0, 1)}, "objectives": ("l1d_mpki", "ipc")},
        n_workers=1,
        observer=Observer(lambda step, run: ended.append((step.subject, run))),
    )
    return ended


def summary_of(path: Path, run: Run | None = None) -> Gem5Summary:
    return summarize_inside(path, run)[-1]


def values_of(summary: Gem5Summary, label: str, *names: str) -> list[float | None]:
    (row,) = (row for row in summary.subjects if row.subject.label == label)
    return [change.value if (change := row.change(name)) else None for name in names]


def ratio_of(summary: Gem5Summary, label: str, name: str) -> float | None:
    (row,) = (row for row in summary.subjects if row.subject.label == label)
    change = row.change(name)
    return change.ratio.median if change and change.ratio else None


def failures(path: Path) -> list[str]:
    return list(out_lines(summary_of(path)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gem5" / "inside.jsonl"


def test_every_run_is_made_once_and_kept(path: Path):
    gem5 = FakeInside()
    assert len(execute(path, gem5)) == 6
    before = path.read_bytes()
    assert execute(path, gem5) == []
    assert len(gem5.ran) == 6
    assert path.read_bytes() == before


def test_subjects_with_equal_settings_share_a_run(path: Path):
    gem5 = FakeInside()
    execute(path, gem5, (GLIBC, KNEE, guest("balanced", KNEE.environment)))
    assert len(gem5.ran) == 4
    summary = summary_of(path)
    assert (
        values_of(summary, "balanced", "cycles") == values_of(summary, "knee", "cycles") != [None]
    )


def test_a_session_that_asks_for_the_same_adds_nothing(path: Path):
    execute(path)
    before = path.read_bytes()
    execute(path)
    assert path.read_bytes() == before


def test_run_is_repeated_when_what_decides_it_changes(path: Path):
    execute(path)
    assert len(execute(path, FakeInside(version="2"))) == 6


def test_run_is_repeated_when_a_file_of_its_program_changes(path: Path, tmp_path: Path):
    library = tmp_path / "libother.so"
    library.write_text("new")
    new = {str(library): file_digest(library)}
    execute(path, FakeInside(files={str(library): "old"}))
    assert len(execute(path, FakeInside(files=new))) == 6
    assert execute(path, FakeInside(files=new)) == []


def test_start_is_subtracted_and_compared_with_the_baseline(path: Path):
    execute(path)
    (summary,) = summarize_inside(path)
    assert summary.title == "lists on server"
    counted = ("instructions", "cycles", "l1d_misses", "start")
    assert values_of(summary, "glibc-default", *counted) == [10_000, 10_000, 100, 1000]
    assert values_of(summary, "jemalloc-default", *counted) == [8000, 8000, 80, 50_000]
    assert ratio_of(summary, "jemalloc-default", "l1d_mpki") == pytest.approx(1.0)
    assert ratio_of(summary, "knee", "l1d_mpki") == pytest.approx(0.6)
    assert ratio_of(summary, "knee", "l2_mpki") == pytest.approx(0.8)
    assert ratio_of(summary, "knee", "ipc") == pytest.approx(1.25)
    assert ratio_of(summary, "knee", "l3_mpki") is None


def test_best_in_the_chosen_objectives_is_printed(path: Path):
    execute(path)
    (notice,) = summary_of(path).notices
    assert notice == "Best in L1D MPKI, IPC, none better in all: knee."


def test_what_misses_nothing_is_the_best_though_it_has_no_ratio(path: Path):
    nothing = good_run((55_000, 64_000, COUNTED["start", "knee"][2], 320), LIBRARY)
    execute(path, FakeInside(bad={("lists", "knee"): nothing}))

    (notice,) = summary_of(path).notices

    assert notice == "Best in L1D MPKI, IPC, none better in all: knee."


def test_over_several_programs_changes_are_geometric_means(path: Path):
    bad = {}
    for label in ("glibc-default", "jemalloc-default", "knee"):
        numbers = (58_000, 68_000, 580, 0) if label == "knee" else COUNTED["lists", label]
        run = good_run(numbers, None if label == "glibc-default" else LIBRARY)
        assert run.statistics is not None
        statistics = run.statistics.replace("l2caches", "other")
        bad["pair", label] = replace(run, statistics=statistics)
    execute(path, FakeInside(bad=bad), tasks=(LISTS, replace(LISTS, program="pair")))
    lists, pair, over_all = summarize_inside(path)
    assert [lists.title, pair.title] == ["lists on server", "pair on server"]
    assert values_of(pair, "knee", "l2_misses") == [None]
    assert ratio_of(over_all, "knee", "l1d_misses") == pytest.approx((0.3 * 0.8) ** 0.5)
    assert ratio_of(over_all, "knee", "l2_misses") == ratio_of(lists, "knee", "l2_misses")
    assert over_all.notices


def test_what_the_baseline_failed_on_is_not_counted(path: Path):
    broken = Gem5Run(replace(GOOD, exit_status=1), None, None, b"")
    bad = {("pair", entry.subject.label): broken for entry in (GLIBC, JEMALLOC, KNEE)}
    execute(path, FakeInside(bad=bad), tasks=(LISTS, replace(LISTS, program="pair")))
    assert summary_of(path).title.startswith("over 1 of 2:")


def test_emulated_values_are_ranked(path: Path):
    execute(path)
    trials = (
        trial(0, Configuration("glibc"), 40.0 * MIB, 5e6),
        trial(1, Configuration("jemalloc"), 42.0 * MIB, 4e6),
        trial(2, Configuration.of("jemalloc", {"dirty_decay_ms": 0}), 39.0 * MIB, 3e6),
    )
    run = Run(path.parent, campaign_record(("glibc", "jemalloc"), ("mean_heap", "cost"), 3), trials)
    found = {(r.objective, r.metric): r for r in summary_of(path, run).rankings}
    assert found["cost", "cycles"].tau == pytest.approx(1.0)
    assert found["cost", "cycles"].n == 3
    assert ("mean_heap", "l1d_mpki") in found


def test_library_that_was_not_loaded_is_refused(path: Path):
    unloaded = good_run(COUNTED["lists", "knee"], None)
    execute(path, FakeInside(bad={("lists", "knee"): unloaded}))
    (line,) = failures(path)
    reason = f"{LIBRARY} was not loaded: is the program statically linked?"
    assert line == f"knee is out of lists on server: {reason}"


def test_program_with_a_malloc_of_its_own_is_refused():
    found = good_run((1, 1, 1, 1), "/lib/libtcmalloc.so.4")
    outcome = judge_inside(found, GLIBC.environment)
    assert (outcome.status, outcome.values) == (Status.REFUSED, None)
    assert "libtcmalloc" in (outcome.reason or "")


def test_setting_is_run_once_it_is_not_refused(path: Path):
    gem5 = FakeInside()
    execute(path, gem5, (GLIBC, replace(KNEE, refusal="dirty_decay_ms was clipped")))
    assert {label for _, label in gem5.ran} == {"glibc-default"}
    assert failures(path) == ["knee is out of lists on server: dirty_decay_ms was clipped"]
    execute(path, gem5, (GLIBC, KNEE))
    assert [label for _, label in gem5.ran[2:]] == ["knee"] * 2


def test_failure_is_one_record_and_not_tried_again(path: Path):
    broken = Gem5Run(replace(GOOD, exit_status=1, stderr_tail="panic\n"), None, None, b"")
    reason = 'gem5: exit status 1: "panic"'
    gem5 = FakeInside(bad={("lists", "knee"): broken})
    (failed,) = [run for _, run in execute(path, gem5) if run.status is not Status.OK]
    assert (failed.status, failed.reason) == (Status.FAILED, reason)
    assert execute(path, gem5) == []
    assert failures(path) == [f"knee is out of lists on server: {reason}"]


@pytest.mark.parametrize(
    "change", [{"timed_out": True}, {"exit_status": 2}, {"exit_status": None, "signal": 9}]
)
def test_run_that_the_machine_stopped_is_tried_again(path: Path, change: dict[str, Any]):
    late = Gem5Run(replace(GOOD, **change), None, None, b"")
    execute(path, FakeInside(bad={("lists", "knee"): late}))
    ((label, again),) = execute(path)
    assert (label, again.status) == ("knee", Status.OK)


def test_other_output_than_the_baselines_is_reported(path: Path):
    other = good_run(COUNTED["lists", "knee"], LIBRARY, output=b"lists 2\n")
    execute(path, FakeInside(bad={("lists", "knee"): other}))
    (line,) = failures(path)
    assert "printed something else than under the baseline" in line


def test_incomplete_statistics_are_a_failure(path: Path):
    cut = good_run(COUNTED["lists", "knee"], LIBRARY, cut=20)
    execute(path, FakeInside(bad={("lists", "knee"): cut}))
    assert "no complete statistics" in failures(path)[0]


def test_interrupted_session_goes_on_where_it_stopped(path: Path):
    gem5 = FakeInside(interrupt_at=2)
    with pytest.raises(InterruptedCampaign, match="the same command goes on"):
        execute(path, gem5)
    assert gem5.runner.n_stops == 1
    assert "not run yet" in failures(path)[0]
    assert len(execute(path)) == 4
    assert failures(path) == []


def test_line_that_a_kill_cut_off_is_dropped(path: Path):
    execute(path)
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert len(execute(path)) == 1
    assert len(read_inside(path)[0]) == 6


def test_counts_survive_a_journal_and_older_ones_lack_lines_moved(path: Path):
    execute(path)
    before = summary_of(path).subjects
    text = path.read_text()
    assert '"l2_misses":5,' in text
    path.write_text(text.replace(',"lines_moved":null', ""))
    assert summary_of(path).subjects == before
    assert "lines_moved" not in path.read_text()


def test_damaged_journal_is_an_error(path: Path):
    path.parent.mkdir()
    path.write_text('{"kind":"run"}\n')
    with pytest.raises(StoreError, match="is damaged"):
        read_inside(path)
    header = '{"kind":"header","schema":"malloc-tuner.gem5-inside","version":1}\n'
    path.write_text(header + '{"kind":"run","identity":"x","status":"ok","output":"1"}\n')
    with pytest.raises(StoreError, match=r": line 2 is damaged \(counts: Field required\); remove"):
        read_inside(path)
    path.write_text(header.replace("1}", "2}"))
    with pytest.raises(StoreError, match="not of version 1"):
        read_inside(path)


def test_journal_that_cannot_be_written_is_an_error(tmp_path: Path):
    (tmp_path / "gem5").write_text("a file in the place of the folder")
    with pytest.raises(OutputError, match="cannot be written"):
        execute(tmp_path / "gem5" / "inside.jsonl", FakeInside())


def test_environments_are_equally_long():
    short, long = guest_environments([{}, {"LD_PRELOAD": LIBRARY, "MALLOC_CONF": "x" * 300}])
    assert len(short) == len(long)
    assert sum(map(len, (*short, *short.values()))) == sum(map(len, (*long, *long.values())))
    (alone,) = guest_environments([{}])
    assert alone == short


def test_benchmark_prints_and_judges_tables(path: Path):
    ours = replace(KNEE, subject=replace(KNEE.subject, label="exgen"))
    numbers = {
        ("start", "exgen"): COUNTED["start", "knee"],
        ("lists", "exgen"): (52_000, 63_000, 520, 301),
    }
    fake = FakeInside(bad={key: good_run(value, LIBRARY) for key, value in numbers.items()})
    execute(path, fake, (GLIBC, JEMALLOC, ours))
    summaries = summarize_inside(path)
    lines = list(page_lines(summaries))
    assert "**lists on server**" in lines
    row = next(line for line in lines if line.startswith("| glibc"))
    assert row.split()[:4] == ["|", "glibc", "|", "10.00"]
    judged = {j.what: j for j in judge(summaries)}
    assert judged[
        "exgen: lists on server: L1D MPKI / best of the 2 compared"
    ].value == pytest.approx(1.0)
    assert judged["exgen: lists on server: L2 MPKI / best of the 2 compared"].is_met
