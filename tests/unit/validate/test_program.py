"""Rounds of a real program, with a program that does what the test says."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.machine import MACHINE
from tests.doubles.prepared import NAMES, Counter, of_glibc
from tests.doubles.program_runs import GOOD
from tests.doubles.runs import seen
from tuner.compare.loop import Observer
from tuner.compare.plan import order
from tuner.errors import InterruptedCampaign, ProgramError, ProgramTimeoutError, SpecError
from tuner.measure.program import ProgramRun, Surroundings
from tuner.records import Configuration, Outcome, Status
from tuner.resources import native_file
from tuner.store import Store, ValidationRecord, ValidationSample
from tuner.store.subject import AS_IT_IS, Subject
from tuner.trace.program import Recorded
from tuner.validate import program
from tuner.validate.program import judge_run, validate
from tuner.validate.session import IGNORED, ValidationOptions, find_unfinished
from tuner.validate.setup import Prepared


class Program:
    def __init__(self, behave: Callable[[str, int], ProgramRun | BaseException]) -> None:
        self.behave = behave
        self.calls: list[str] = []
        self.surroundings: list[Surroundings] = []

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        name = environment["NAME"]
        self.calls.append(name)
        self.surroundings.append(surroundings)
        found = self.behave(name, self.calls.count(name))
        if isinstance(found, BaseException):
            raise found
        return found


CHANGED = (
    "settings of glibc do not reach it as given: what starts it changes GLIBC_TUNABLES and "
    "MALLOC_ARENA_MAX; where that is `env` or a script, name the command behind it, or take that "
    "out"
)
PREPARED = [of_glibc(name) for name in NAMES]


def run_all(store: Store, runner: Program, **changes: Any) -> int:
    fields: dict[str, Any] = {
        "options": ValidationOptions(rounds=3),
        "machine": MACHINE,
        "counter": None,
        **changes,
    }
    prepared = fields.pop("prepared", PREPARED)
    return validate(store, ["app", "-x"], prepared, runner=runner, **fields)


def always(run: ProgramRun) -> Callable[[str, int], ProgramRun]:
    return lambda name, call: run


def good_runs() -> Program:
    return Program(always(GOOD))


def samples(store: Store, identifier: int) -> list[ValidationSample]:
    (record,) = (r for r in store.validations() if r.identifier == identifier)
    return list(record.samples)


def test_every_subject_runs_once_in_every_round(store: Store):
    identifier = run_all(store, good_runs())
    found = sorted((sample.round, sample.label) for sample in samples(store, identifier))
    assert found == sorted((number, name) for number in range(3) for name in NAMES)


def test_numbers_of_a_run_are_kept(store: Store):
    sample = samples(store, run_all(store, good_runs()))[0]
    found = seen(sample)
    assert sample.outcome.status is Status.OK
    assert (found.peak_rss_bytes, found.peak_heap_bytes) == (3000, 2000)
    assert (found.mean_heap_bytes, found.faults) == (1500.5, 10)
    assert (found.user_ns, found.system_ns, found.cpu_ns, found.wall_ns) == (700, 300, 1000, 1100)
    assert (found.exit_status, found.output_sha256) == (0, "aa")
    assert found.curve == GOOD.curve


def test_baseline_warms_up_and_shows_that_it_repeats_before_the_first_round(store: Store):
    runs = good_runs()
    identifier = run_all(store, runs)
    assert runs.calls[:2] == ["base", "base"]
    assert runs.calls[2:] == [sample.label for sample in samples(store, identifier)]


def test_every_round_is_shuffled_the_first_one_too(store: Store):
    run_all(store, good_runs())
    assert store.validations()[0].is_shuffled


def test_runs_that_are_left_are_counted_at_the_start_and_when_one_is_out(store: Store):
    plans: list[int] = []
    bad = replace(GOOD, output_sha256="bb")
    run_all(
        store,
        Program(lambda name, call: bad if name == "good" else GOOD),
        observer=Observer(on_left=plans.append),
    )
    assert plans[0] == 9
    (left,) = plans[1:]
    ended = [s.label for s in store.validations()[0].samples].index("good") + 1
    assert left == 7 - ended


def test_order_differs_between_seeds_but_not_between_processes():
    assert order(5, 2, 1) == order(5, 2, 1) == [4, 1, 2, 3, 0]
    assert order(5, 2, 7) != order(5, 2, 1)


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (
            {"exit_status": 3, "stderr_tail": "a\noh no\n"},
            Status.FAILED,
            'exit status 3, but exit status 0 with the baseline: "oh no"',
        ),
        (
            {"exit_status": None, "signal": 11},
            Status.FAILED,
            "killed by SIGSEGV, but exit status 0 with the baseline",
        ),
        ({"output_sha256": "bb"}, Status.FAILED, "its output (stdout) differs from the baseline's"),
        ({"timed_out": True}, Status.TIMED_OUT, "stopped at the time limit"),
        (
            {"preload_mapped": False},
            Status.REFUSED,
            "the library was not loaded: is the program static, or its environment cleaned?",
        ),
        ({"changed_variables": ("GLIBC_TUNABLES", "MALLOC_ARENA_MAX")}, Status.REFUSED, CHANGED),
    ],
)
def test_run_that_does_something_else_is_rejected(
    change: dict[str, Any], status: Status, reason: str
):
    assert judge_run(replace(GOOD, **change), GOOD, "stdout", "glibc") == (status, reason)


def test_a_script_that_sets_an_allocator_itself_refuses_its_settings_but_no_baseline(store: Store):
    sets = replace(GOOD, changed_variables=("GLIBC_TUNABLES", "MALLOC_ARENA_MAX"))
    others = [
        Prepared(Subject(role, Configuration(name), None, (role,)), {"NAME": role}, None)
        for name, role in (("jemalloc", "knee"), ("glibc", AS_IT_IS))
    ]
    identifier = run_all(store, Program(always(sets)), prepared=[*PREPARED[:2], *others])
    reasons = {one.label: one.outcome.reason for one in samples(store, identifier)}
    assert reasons == {"base": None, "good": CHANGED, "knee": None, AS_IT_IS: None}
    (notice,) = store.validations()[0].notices
    assert notice == (
        "settings of glibc are not compared: what starts the program changes GLIBC_TUNABLES and "
        "MALLOC_ARENA_MAX"
    )


@pytest.mark.parametrize(
    ("names", "whose"),
    [
        (("MALLOC_ARENA_MAX", "MIMALLOC_VERBOSE"), "settings of glibc and mimalloc"),
        (("OF_NONE",), "settings of who reads that"),
    ],
)
def test_whose_settings_a_script_changes_is_said(names: tuple[str, ...], whose: str):
    words = replace(GOOD, changed_variables=names).changes
    why = f"what starts the program changes {' and '.join(names)}"
    assert words == f"{whose} are not compared: {why}"


def test_ignored_output_may_differ():
    found = judge_run(replace(GOOD, output_sha256="bb"), GOOD, IGNORED)
    assert found == (Status.OK, None)


def test_rejected_subject_leaves_one_record_and_is_not_run_again(store: Store):
    bad = replace(GOOD, output_sha256="bb")
    runs = Program(lambda name, call: bad if name == "good" else GOOD)
    identifier = run_all(store, runs)
    labels = [sample.label for sample in samples(store, identifier)]
    assert (labels.count("base"), labels.count("good"), labels.count("other")) == (3, 1, 3)


def test_refused_setting_is_recorded_without_a_run(store: Store):
    runs = good_runs()
    prepared = [of_glibc("base"), of_glibc("good", "mxfast was not taken")]
    identifier = run_all(store, runs, prepared=prepared)
    (sample,) = (s for s in samples(store, identifier) if s.label == "good")
    assert (sample.outcome.status, sample.outcome.reason) == (
        Status.REFUSED,
        "mxfast was not taken",
    )
    assert "good" not in runs.calls


def test_interrupted_validation_is_continued_where_it_stopped(store: Store):
    n_done = 5

    def interrupt(name: str, call: int) -> ProgramRun | BaseException:
        return KeyboardInterrupt() if len(stopped.calls) > n_done + 2 else GOOD

    stopped = Program(interrupt)
    with pytest.raises(InterruptedCampaign, match="the same command goes on"):
        run_all(store, stopped)
    continued = good_runs()
    identifier = run_all(store, continued)
    assert len(store.validations()) == 1
    assert len(samples(store, identifier)) == 9
    assert len(continued.calls) == 2 + 9 - n_done
    straight = run_all(store, good_runs())
    assert [s.label for s in samples(store, identifier)] == [
        s.label for s in samples(store, straight)
    ]


def test_finished_validation_is_not_continued(store: Store):
    assert run_all(store, good_runs()) == 1
    assert run_all(store, good_runs()) == 2


def interrupted(store: Store, **changes: Any) -> None:
    behave = Program(lambda name, call: KeyboardInterrupt() if call > 3 else GOOD)
    with pytest.raises(InterruptedCampaign):
        run_all(store, behave, **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"options": ValidationOptions(rounds=4)},
        {"options": ValidationOptions(rounds=3, seed=2)},
        {"options": ValidationOptions(rounds=3, output=IGNORED)},
        {"options": ValidationOptions(rounds=3, surroundings=Surroundings(cpu=1))},
        {"machine": replace(MACHINE, kernel="7")},
        {"prepared": PREPARED[:2]},
        {
            "prepared": [
                replace(one, environment={**one.environment, "LD_PRELOAD": "libutil.so.1"})
                for one in PREPARED
            ]
        },
    ],
)
def test_other_options_begin_a_new_validation(store: Store, change: dict[str, Any]):
    interrupted(store)
    run_all(store, good_runs(), **change)
    assert len(store.validations()) == 2


def test_a_program_with_other_output_begins_a_new_validation(store: Store):
    interrupted(store)

    assert run_all(store, Program(always(replace(GOOD, output_sha256="bb")))) == 2
    assert {seen(s).output_sha256 for s in samples(store, 2)} == {"bb"}


def test_a_rebuilt_program_begins_a_new_validation(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "app").write_text("one")
    (tmp_path / "app").chmod(0o755)
    interrupted(store)
    (tmp_path / "app").write_text("two")
    assert run_all(store, good_runs()) == 2


def test_another_working_folder_begins_a_new_validation(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    interrupted(store)
    monkeypatch.chdir(tmp_path)
    assert run_all(store, good_runs()) == 2


def test_ignored_output_may_differ_between_the_parts_of_a_validation(store: Store):
    options = ValidationOptions(rounds=3, output=IGNORED)
    interrupted(store, options=options)
    other = Program(always(replace(GOOD, output_sha256="bb")))
    assert run_all(store, other, options=options) == 1


def test_time_limit_is_a_multiple_of_the_first_run(store: Store):
    runs = Program(always(replace(GOOD, wall_ns=8 * 10**9)))
    run_all(store, runs)
    assert [s.timeout_s for s in runs.surroundings[:2]] == [None, 80.0]


def test_program_that_crashes_with_the_baseline_is_an_error(store: Store):
    crash = replace(GOOD, exit_status=None, signal=6, stderr_tail="abort: x\n")
    with pytest.raises(ProgramError, match='app: killed by SIGABRT with the baseline: "abort: x"'):
        run_all(store, Program(always(crash)))
    assert store.validations() == []


def test_program_that_hangs_with_the_baseline_is_an_error(store: Store):
    options = ValidationOptions(surroundings=Surroundings(timeout_s=2.0))
    with pytest.raises(ProgramTimeoutError, match="still running after 2 s"):
        run_all(store, Program(always(replace(GOOD, timed_out=True))), options=options)


def test_output_that_never_repeats_is_noticed_before_a_subject_is_blamed(store: Store):
    runs = Program(lambda name, call: replace(GOOD, output_sha256=str(call)))
    with pytest.raises(ProgramError, match="--ignore-output or --output-file"):
        run_all(store, runs)
    assert runs.calls == ["base", "base"]


def test_a_baseline_that_crashes_later_is_not_said_to_print_times(store: Store):
    crash = replace(GOOD, exit_status=None, signal=11)
    runs = Program(lambda name, call: GOOD if name != "base" or call < 3 else crash)
    with pytest.raises(ProgramError, match=r"killed by SIGSEGV, but exit status 0 .* baseline$"):
        run_all(store, runs)


def test_file_to_compare_must_be_written_by_the_program(store: Store, tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(ProgramError, match="not written by app"):
        run_all(store, good_runs(), options=ValidationOptions(output=str(path)))


def test_a_file_that_has_the_time_of_another_one_is_written(store: Store, tmp_path: Path):
    """As gzip gives it that of its input."""
    path = tmp_path / "out"

    def write(name: str, call: int) -> ProgramRun:
        path.write_text("same")
        os.utime(path, (0, 0))
        return GOOD

    identifier = run_all(store, Program(write), options=ValidationOptions(3, output=str(path)))
    assert {s.outcome.status for s in samples(store, identifier)} == {Status.OK}


def test_a_folder_is_no_file_to_compare(store: Store, tmp_path: Path):
    runs = good_runs()
    with pytest.raises(SpecError, match="is a folder; name the file that app writes"):
        run_all(store, runs, options=ValidationOptions(output=str(tmp_path)))
    assert not runs.calls


def test_file_written_by_the_program_is_compared(store: Store, tmp_path: Path):
    path = tmp_path / "out"

    def write(name: str, call: int) -> ProgramRun:
        path.unlink(missing_ok=True)
        path.write_text("bad" if name == "other" else "same")
        return replace(GOOD, output_sha256=str(call))  # standard output differs each time

    options = ValidationOptions(rounds=2, output=str(path))
    identifier = run_all(store, Program(write), options=options)
    failed = {s.label for s in samples(store, identifier) if s.outcome.status is not Status.OK}
    assert failed == {"other"}


def test_a_subject_that_fails_before_it_writes_its_file_is_out_alone(store: Store, tmp_path: Path):
    path = tmp_path / "out"

    def write(name: str, call: int) -> ProgramRun:
        if name == "other":
            return replace(GOOD, exit_status=1, stderr_tail="no memory\n")
        if name == "base":
            path.unlink(missing_ok=True)
            path.write_text("same")
        return GOOD

    identifier = run_all(store, Program(write), options=ValidationOptions(3, output=str(path)))

    found = samples(store, identifier)
    reasons = {s.label: s.outcome.reason for s in found if s.outcome.status is Status.FAILED}
    assert reasons == {
        "other": 'exit status 1, but exit status 0 with the baseline: "no memory"',
        "good": f"{path} was not written",
    }
    assert [s.label for s in found].count("base") == 3


def test_instructions_are_counted_once_per_subject(store: Store):
    counter = Counter()
    options = ValidationOptions(rounds=3, instrument="cachegrind")
    identifier = run_all(store, good_runs(), options=options, counter=counter)
    assert sorted(counter.names) == sorted(NAMES)
    counted = [(s.round, seen(s).instructions) for s in samples(store, identifier)]
    assert set(counted) == {(0, 42), (1, None), (2, None)}


def test_a_run_that_dies_under_cachegrind_counts_nothing(store: Store):
    options = ValidationOptions(rounds=2, instrument="cachegrind")
    counter = Counter(exit_status=139)
    identifier = run_all(store, good_runs(), options=options, counter=counter)
    assert {seen(s).instructions for s in samples(store, identifier)} == {None}


@pytest.mark.parametrize(("instrument", "expected"), [("auto", 77), ("none", None)])
def test_hardware_counts_instructions_in_every_run(
    store: Store, instrument: str, expected: int | None
):
    options = ValidationOptions(rounds=2, instrument=instrument)
    identifier = run_all(store, good_runs(), options=options)
    assert {seen(s).instructions for s in samples(store, identifier)} == {expected}


def test_allocator_that_the_program_brings_gives_way_to_libcs(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    def put_in_front(prepared: Sequence[Prepared]) -> list[Prepared]:
        return [replace(p, environment={**p.environment, "LD_PRELOAD": "libc"}) for p in prepared]

    monkeypatch.setattr(program, "with_libc_malloc", put_in_front)
    seen: list[bool] = []

    class Linked(Program):
        def run(
            self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
        ) -> ProgramRun:
            seen.append("LD_PRELOAD" in environment)
            return super().run(command, environment, surroundings)

    linked = replace(GOOD, malloc_libraries=("/usr/lib/libjemalloc.so.2",))
    run_all(store, Linked(always(linked)))
    assert store.validations()[0].brought_allocators == ("libjemalloc.so.2",)
    assert seen == [False] + [True] * 11
    (notice,) = store.validations()[0].notices
    assert notice.startswith("the program brings libjemalloc.so.2 of its own")


def test_baseline_that_is_preloaded_is_not_the_programs_own(store: Store):
    library = "/usr/lib/libjemalloc.so.2"
    prepared = [replace(p, environment={**p.environment, "LD_PRELOAD": library}) for p in PREPARED]
    run_all(store, Program(always(replace(GOOD, malloc_libraries=(library,)))), prepared=prepared)
    assert store.validations()[0].notices == ()


def test_a_switch_of_the_programs_own_allocator_is_kept(store: Store):
    switch = {"PYTHONMALLOC": "malloc"}
    base = replace(PREPARED[0], environment={**PREPARED[0].environment, **switch})
    run_all(store, good_runs(), prepared=[base, *PREPARED[1:]])
    assert store.validations()[0].conditions.beside == switch


def test_notices_are_kept_and_not_said_beside(store: Store):
    said: list[str] = []
    run = replace(
        GOOD,
        exit_status=1,
        children_cpu_ns=900,
        peak_is_exact=False,
        has_fixed_addresses=False,
        leaves_others=True,
    )
    recorded = Recorded((), 1)
    run_all(store, Program(always(run)), recorded=recorded, on_notice=said.append)
    assert len(store.validations()[0].notices) == 5
    assert said == []


@pytest.mark.parametrize(("wants", "aslr"), [(True, "on"), (False, "off")])
def test_where_a_subject_wants_huge_pages_all_run_at_random_addresses(
    store: Store, wants: bool, aslr: str
):
    runs = Program(always(replace(GOOD, has_fixed_addresses=not wants)))
    prepared = [*PREPARED[:2], replace(PREPARED[2], wants_huge_pages=wants)]
    run_all(store, runs, prepared=prepared)
    (record,) = store.validations()
    assert {one.aslr for one in runs.surroundings} == {aslr}
    assert record.conditions.surroundings.aslr == aslr
    assert ["asks for huge pages" in one for one in record.notices] == [True] * wants


def test_a_program_with_a_malloc_of_its_own_is_noticed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    shutil.copyfile(native_file("libexgen.so"), tmp_path / "app")
    (tmp_path / "app").chmod(0o755)
    run_all(store, good_runs())
    monkeypatch.delenv("PATH")
    run_all(store, Program(always(replace(GOOD, program=str(tmp_path / "app")))))
    for record in store.validations():
        (notice,) = record.notices
        assert notice.startswith("the program has a malloc of its own")


@pytest.mark.parametrize("recorded", [Recorded(("app",), 0), Recorded(("app",), None), None])
@pytest.mark.parametrize("status", [1, 3])
def test_a_program_that_ends_otherwise_than_recorded_or_expected_is_refused(
    store: Store, status: int, recorded: Recorded | None
):
    runs = Program(always(replace(GOOD, exit_status=status, stderr_tail="no corpus\n")))
    with pytest.raises(ProgramError, match=f'exit status {status}, but 0 is expected: "no corpus"'):
        run_all(store, runs, recorded=recorded)
    assert store.validations() == []
    assert runs.calls == ["base"]


def test_an_exit_status_that_is_expected_is_none_to_refuse(store: Store):
    runs = Program(always(replace(GOOD, exit_status=3)))
    run_all(store, runs, recorded=Recorded(("app",), 3))
    assert len(store.validations()) == 1


@pytest.mark.parametrize(
    ("command", "is_same"), [(("/usr/bin/app", "-y"), True), (("sh", "-c", "app"), False)]
)
def test_a_validation_knows_whether_it_ran_the_recorded_program(
    store: Store, command: tuple[str, ...], is_same: bool
):
    run_all(store, good_runs(), recorded=Recorded(command, 0))
    record = store.validations()[0]
    assert record.is_recorded_program is is_same
    words = "other arguments" if is_same else "another program"
    assert any(notice.startswith(words) for notice in record.notices)


def test_a_program_with_an_allocator_of_its_own_is_compared_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(program, "with_libc_malloc", lambda prepared: prepared)
    own = of_glibc("other")
    own = replace(own, subject=Subject("as-it-is", Configuration("jemalloc"), None, (AS_IT_IS,)))
    linked = replace(GOOD, malloc_libraries=("/usr/lib/libjemalloc.so.2",))
    brought: list[Path] = []

    def as_it_is(path: Path, prepared: Sequence[Prepared]) -> list[Prepared]:
        brought.append(path)
        return [own, *prepared[:2]]

    run_all(store, Program(always(linked)), as_it_is=as_it_is)
    (record,) = store.validations()
    assert brought == [Path("/usr/lib/libjemalloc.so.2")]
    assert record.baseline == "as-it-is"
    assert {sample.label for sample in record.samples} == {"as-it-is", "base", "good"}
    assert "is a subject and the baseline" in record.notices[0]


def test_a_new_answer_of_other_figures_continues_a_validation_that_was_kept():
    deployed = replace(of_glibc("base").subject, expected=(("peak_heap", 0.9), ("cost", 0.8)))
    wanted = ValidationRecord(("app",), 2, "base", (deployed,))
    kept = replace(Subject.from_record(deployed.as_record()), expected=(("cost", 0.7),))

    assert find_unfinished([replace(wanted, subjects=(kept,), identifier=7)], wanted) == 7


def test_validation_whose_baseline_failed_is_not_continued():
    wanted = ValidationRecord(("app",), 2, "base", (of_glibc("base").subject,))
    failure = Outcome.did_not_succeed(Status.FAILED, "x")
    sample = ValidationSample(0, 0, "base", Configuration("glibc"), None, failure)
    assert find_unfinished([replace(wanted, identifier=7)], wanted) == 7
    assert find_unfinished([replace(wanted, identifier=7, samples=(sample,))], wanted) is None
