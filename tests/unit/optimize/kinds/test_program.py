"""What the program does as it is."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from tests.doubles.program_runs import GOOD
from tests.doubles.programs import JEMALLOC, calls_jemalloc
from tuner.allocators import Allocator, Installation, get_allocator, locate_all
from tuner.compare.plan import Step
from tuner.errors import ProgramError
from tuner.measure.program import ProgramRun, RunsPrograms, Surroundings
from tuner.optimize.kinds import program as of_program
from tuner.optimize.kinds.counted import FAULTS, SYSCALLS
from tuner.optimize.kinds.driver import ChildWork
from tuner.optimize.kinds.known import LARGE_BACK, LEAN, OF_THREADS
from tuner.optimize.kinds.program import Program, recorded_of
from tuner.optimize.kinds.suite import ProgramSuite
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS
from tuner.recording import RecordedTotals, Recording
from tuner.recording.explain import small_objects_words
from tuner.recording.program import Ending
from tuner.records import Configuration, Status, Value


def program(
    *runs: ProgramRun, expect_status: int = 0, of: Sequence[str] = ("glibc",), **environment: str
) -> Program:
    """Return a program that runs so, one run after the other."""
    made = iter(runs)

    class Played:
        def run(self, *_: object, **_named: object) -> ProgramRun:
            return next(made)

    played = cast("RunsPrograms", Played())
    files = locate_all([get_allocator(name) for name in of])
    return Program(("app",), played, environment, files, expect_status=expect_status)


LITTLE = {PEAK: 40.0 * 2**20, MEAN: 20.0 * 2**20, CPU: 3e8}
ALONE = replace(GOOD, user_ns=4_000_000, system_ns=0, children_cpu_ns=0)


@pytest.mark.parametrize(("first_ns", "cpu_ns"), [(5_000_000, 4.5e6), (800_000_000, 4e6)])
def test_a_first_run_that_sets_something_up_is_left_out(first_ns: int, cpu_ns: float):
    assert program(replace(ALONE, user_ns=first_ns), ALONE).examine().values[CPU] == cpu_ns


def test_names_of_jemalloc_that_a_program_calls_are_said(tmp_path: Path):
    """Redis and Valkey crash under allocators that lack them."""
    run = replace(ALONE, malloc_libraries=(JEMALLOC,), program=calls_jemalloc(tmp_path))
    (note,) = program(run, run).examine().notes

    assert "calls jemalloc by its own names (mallocx), which exgen has" in note
    other = replace(run, program=sys.executable)
    assert program(other, other).examine().notes == ()


def test_another_exit_status_than_the_expected_one_is_a_failure():
    failing = replace(ALONE, exit_status=2, stderr_tail="one\nFILE: not found\n")

    with pytest.raises(ProgramError) as error:
        program(failing, failing).examine()
    assert str(error.value) == (
        "app: exit status 2 before anything was changed\n"
        "  it printed last: one / FILE: not found\n"
        "  run it once by hand in this folder, as here with no input or terminal "
        "(</dev/null | cat); if it should end so, give --expect-status 2"
    )
    assert program(failing, failing, expect_status=2).examine().exit_status == 2
    with pytest.raises(ProgramError, match=r"(?s)^app: exit status 0 before.*so, leave --expect"):
        program(ALONE, ALONE, expect_status=2).examine()


def test_a_program_that_prints_the_time_is_told_so():
    """Its first two runs may print the same."""
    later = replace(ALONE, output_sha256="other")
    one = program(ALONE, ALONE, later, later)
    run = one.runner({"same": Configuration("glibc")}, one.examine())

    reasons = [run(Step(0, at, None, label)).reason for at, label in enumerate((AS_IS, "same"))]
    assert str(reasons[0]).startswith("prints something else than at first; if that is a time")
    assert reasons[1] == "prints something else than the program as it is"


def test_output_that_differs_from_run_to_run_is_not_compared_and_said():
    first, second, third = (replace(ALONE, output_sha256=text) for text in "abc")
    one = program(first, second, third)
    reference = one.examine()
    run = one.runner({"same": Configuration("glibc")}, reference)

    assert reference.notes == (
        "It does not print the same each time, so its output was not compared.",
    )
    assert run(Step(0, 0, None, "same")).reason is None


def test_a_command_that_sets_an_allocator_itself_refuses_its_settings_alone():
    sets = replace(ALONE, changed_variables=("MALLOC_ARENA_MAX",))
    one = program(*[sets] * 5, of=("glibc", "exgen"))
    candidates = {name: Configuration(name) for name in ("glibc", "exgen")}
    reference = one.examine()
    run = one.runner(candidates, reference)

    assert reference.notes[0].startswith("Settings of glibc are not compared: what starts")
    found = [run(Step(0, at, None, label)) for at, label in enumerate((AS_IS, *candidates))]
    assert [one.reason is None for one in found] == [True, False, True]
    assert str(found[1].reason).startswith("settings of glibc do not reach it as given: what")


def test_a_program_that_no_settings_reach_is_refused_at_its_first_run():
    given: list[Mapping[str, str]] = []

    class Cleared:
        def run(self, _: object, environment: Mapping[str, str], *_more: object) -> ProgramRun:
            given.append(environment)
            return replace(ALONE, changed_variables=tuple(environment))

    with pytest.raises(ProgramError, match=r"^app: no settings reach it: .* `env -i` or a script"):
        Program(("app",), cast("RunsPrograms", Cleared()), {}, {}).examine()
    assert len(given) == 1


@pytest.mark.parametrize("of", ["exgen", "glibc"])
def test_a_program_that_brings_the_library_of_a_candidate_is_that_default_as_it_is(of: str):
    files = locate_all([get_allocator("exgen")])
    brings = replace(ALONE, malloc_libraries=(str(files["exgen"][1].library),))

    reference = program(brings, brings, of=(of,)).examine()

    assert reference.allocator == "exgen"
    assert reference.is_of(Configuration("exgen")) == (of == "exgen")
    assert not reference.is_of(Configuration.of("exgen", {"purge_delay": 0}))


def test_a_program_that_finds_its_own_output_in_the_way_is_quoted():
    second = replace(ALONE, exit_status=1, stderr_tail="out.dat: File exists\n")

    with pytest.raises(ProgramError) as error:
        program(ALONE, second).examine()
    assert str(error.value) == (
        "app: exit status 0, then exit status 1, as it is\n"
        "  it printed last: out.dat: File exists\n"
        "  a program that does not do the same again cannot be compared; if it stumbles over its "
        "own files, remove them first: -- sh -c 'rm -f FILE; exec ./app'"
    )


def test_a_program_that_a_signal_ends_is_to_be_run_by_hand():
    killed = replace(ALONE, exit_status=None, signal=11)

    with pytest.raises(ProgramError, match=r"(?s)SIGSEGV before .*\n  run it once by hand in this"):
        program(killed).examine()


def test_settings_of_the_callers_environment_are_said_to_be_of_the_program_as_it_is():
    found = program(ALONE, ALONE, HOME="/root", MALLOC_CONF="a:1", MALLOC_ARENA_MAX="1").examine()

    assert found.steered == ("MALLOC_ARENA_MAX", "MALLOC_CONF")
    (note,) = found.notes
    assert note.startswith("As it is, its environment has MALLOC_ARENA_MAX and MALLOC_CONF;")


def test_a_switch_of_the_programs_own_allocator_is_said_to_be_under_every_setting():
    found = program(ALONE, ALONE, PYTHONMALLOC="malloc").examine()

    assert (found.steered, found.beside) == ((), {"PYTHONMALLOC": "malloc"})
    (note,) = found.notes
    assert note.startswith("The program ran with PYTHONMALLOC=malloc, as it was and under every")


def test_what_else_is_preloaded_is_under_candidates_too():
    files = locate_all([get_allocator("glibc"), get_allocator("exgen")])
    one = Program(("app",), cast("RunsPrograms", None), {"LD_PRELOAD": "shim.so"}, files)
    reference = program(ALONE, ALONE, LD_PRELOAD="shim.so").examine()

    found = one.environments({name: Configuration(name) for name in files}, reference)

    assert reference.beside == {"LD_PRELOAD": "shim.so"}
    assert found["glibc"] == found[AS_IS]
    assert found["exgen"]["LD_PRELOAD"].endswith("/libexgen.so:shim.so")


def test_a_program_that_becomes_a_daemon_is_not_what_is_measured():
    left = replace(ALONE, leaves_others=True)

    assert program(ALONE, ALONE).examine().notes == ()
    (note,) = program(left, left).examine().notes
    assert note.startswith("It leaves processes behind")


def test_the_kernels_work_is_not_counted_where_children_work_too():
    counted = replace(ALONE, faults=7, syscalls=5)
    parent = replace(counted, children_cpu_ns=1_000_000)
    reference = program(ALONE, ALONE).examine()

    assert program(counted).count_kernel({}, reference, AS_IS) == {FAULTS: 7, SYSCALLS: 5}
    assert program(parent).count_kernel({}, reference, AS_IS) == {}


@pytest.mark.parametrize(("live_mib", "is_little"), [(2, True), (6, False)])
def test_a_program_whose_memory_is_not_mallocs_is_said_to_be_so(live_mib: int, *, is_little: bool):
    words, notes = recorded_of(RecordedTotals(3211, 1, live_mib << 20), LITTLE, 0.6)

    assert words.startswith("3,211 events of malloc and free of 1 thread in 0.6 s; the program: ")
    said = "At most 2.0 MiB of its memory (10 % of the mean) is in malloc"
    assert list(notes) == [f"{said}; no setting changes the rest."] * is_little


def test_an_interpreter_that_keeps_its_objects_is_told_how_malloc_gets_them():
    """It was said of a compiler, too, that CPython and PHP have an allocator of their own."""
    app, php = (small_objects_words(program, {}) for program in ("app", "php8.2"))
    totals = RecordedTotals(3211, 1, 2 << 20)

    (short,) = recorded_of(totals, LITTLE, 0.6, keeps=app).notes
    (note,) = recorded_of(totals, LITTLE, 0.6, keeps=php).notes

    assert short.endswith("no setting changes the rest.")
    assert note.startswith(f"{short.removesuffix('.')}, but PHP keeps small objects itself: with ")


@pytest.mark.parametrize(
    ("words", "cpu_ns", "output", "is_said"),
    [
        ((".",), 2e7, b"", True),
        ((".", __file__), 2e7, b"", False),
        (("-c", f"wc < {__file__}"), 2e7, b"", False),
        ((), 3e8, b"", False),
        ((), 2e7, b"0", False),
    ],
)
def test_a_program_that_prints_nothing_at_once_may_have_wanted_input(
    words: Sequence[str], cpu_ns: float, output: bytes, *, is_said: bool
):
    run = replace(ALONE, user_ns=int(cpu_ns), output_sha256=sha256(output).hexdigest())
    one = program(run, run)
    one.command = ("app", *words)

    notes = one.examine().notes

    said = "It prints nothing, and takes 20 ms of CPU time. Its standard input is empty "
    assert [note.startswith(said) for note in notes] == [True] * is_said
    uses = {PEAK: 8e6, MEAN: 6e6, CPU: cpu_ns}
    (few,) = recorded_of(RecordedTotals(1, 1, 5 << 20), {**uses, CPU: 2e7}, 0.6, is_told=True).notes
    assert few == "It has few events of malloc and free (1)."


@pytest.mark.parametrize(
    ("n_events", "cpu_ns", "is_said"), [(1999, 2e7, True), (2000, 2e7, False), (1999, 3e8, False)]
)
def test_a_program_that_did_next_to_nothing_may_have_wanted_input(
    n_events: int, cpu_ns: float, *, is_said: bool
):
    uses = {PEAK: 8e6, MEAN: 6e6, CPU: cpu_ns}

    notes = recorded_of(RecordedTotals(n_events, 1, 5 << 20), uses, 0.6, "no a.txt").notes

    assert any("standard input is empty in every run" in one for one in notes) is is_said
    assert any(one.endswith(" It printed last: no a.txt") for one in notes) is is_said


@pytest.mark.parametrize(
    ("n_threads", "suits"), [(1, [LARGE_BACK]), (2, OF_THREADS), (None, OF_THREADS)]
)
def test_what_suits_threads_takes_part_where_a_program_may_have_some(
    n_threads: int | None, suits: Sequence[Configuration]
):
    """What gives large blocks back suits those with one, too."""
    files = locate_all([get_allocator("glibc")])
    one = Program(("app",), cast("RunsPrograms", None), {}, files)
    reference = replace(program(ALONE, ALONE).examine(), n_threads=n_threads)

    found = one.known(reference)

    assert found == tuple(known for known in suits if known.allocator == "glibc")


def test_exgen_that_gives_back_at_once_takes_part_for_every_program_that_ends():
    files = locate_all([get_allocator("exgen")])
    one = Program(("app",), cast("RunsPrograms", None), {}, files)
    reference = replace(program(ALONE, ALONE).examine(), n_threads=1)

    assert one.known(reference) == LEAN


@pytest.mark.parametrize(
    ("status", "by", "words"),
    [
        (None, "SIGSEGV", "was ended by SIGSEGV while it was recorded"),
        (3, None, "exited with status 3 while it was recorded, else with status 0"),
    ],
)
def test_a_recording_that_ends_otherwise_than_the_program_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    status: int | None,
    by: str | None,
    words: str,
):
    ending = Ending(status, by, wall_s=1.0, cpu_s=1.0, end_ns=1)
    trace = tmp_path / "program.trace"
    trace.touch()
    monkeypatch.setattr(of_program, "record", lambda *_, **__: Recording((), ending))
    one = program(GOOD, GOOD)

    with pytest.raises(ProgramError, match=words):
        one.record(trace, one.examine())

    assert not trace.exists()


@pytest.mark.parametrize(("children_ns", "is_refused"), [(2_800_000, False), (3_200_000, True)])
def test_a_command_whose_children_do_nearly_all_is_refused_and_no_other(
    monkeypatch: pytest.MonkeyPatch, children_ns: int, *, is_refused: bool
):
    """Of a shell script, glibc was to be kept: its own memory hardly changed.

    Nor does a child stand for it that leaves the work to others in turn; it is not advised.
    """
    workers = [ChildWork(("make", "-s"), 0.6), ChildWork(("cc1", "a.c"), 0.4)]
    monkeypatch.setattr(of_program, "workers_of", lambda *_: workers)
    run = replace(ALONE, children_cpu_ns=children_ns)

    if is_refused:
        with pytest.raises(ProgramError) as error:
            program(run, run, run, run).examine()
        what, heaviest, advice = str(error.value).split("\n  ")
        assert what.startswith("app: 80 % of the CPU time is that of child processes")
        assert heaviest == "the heaviest by CPU time: make -s (60 %), cc1 a.c (40 %)"
        assert "malloc-tuner optimize -- cc1 a.c" in advice
    else:
        (note,) = program(run, run, run, run).examine().notes
        assert note.startswith("70 % of the CPU time is that of child processes")


@pytest.mark.parametrize(("cpu_ns", "command"), [(17_000_000, "app2"), (300_000_000, "app")])
def test_the_child_of_a_short_command_is_found_by_its_calls(
    monkeypatch: pytest.MonkeyPatch, cpu_ns: int, command: str
):
    monkeypatch.setattr(of_program, "workers_of", lambda *_: [ChildWork(("app2",), 0.9)])
    run = replace(ALONE, user_ns=cpu_ns)

    assert program(run, run, run, run).examine().command == (command,)


def test_a_suite_tries_what_its_programs_do():
    files = locate_all([get_allocator("glibc")])
    one = Program(("app",), cast("RunsPrograms", None), {}, files)
    threaded = replace(program(ALONE, ALONE).examine(), n_threads=2)

    assert ProgramSuite([one, one]).known(threaded) == one.known(threaded) != ()


def test_to_stop_a_program_is_to_stop_what_runs_it_on_any_core():
    stopped = []

    class Stoppable:
        def run(self, *_: object, **_named: object) -> ProgramRun:
            return GOOD

        def stop(self) -> None:
            stopped.append(self)

    runner = Stoppable()
    one = Program(("app",), cast("RunsPrograms", runner), {}, {})

    one.on_core(0).stop()
    ProgramSuite([one, one]).stop()
    program().stop()  # what runs it cannot

    assert stopped == [runner] * 3


def watched(
    files: Mapping[str, tuple[Allocator, Installation]],
) -> tuple[Program, list[Surroundings]]:
    """Return a program, and the surroundings of its runs as they are made."""
    seen: list[Surroundings] = []

    class Watched:
        def run(self, _: object, _environment: object, surroundings: Surroundings) -> ProgramRun:
            seen.append(surroundings)
            return ALONE

    return Program(("app",), cast("RunsPrograms", Watched()), {}, files), seen


@pytest.mark.parametrize(
    ("allocator", "settings", "aslr"),
    [
        ("glibc", {"hugetlb": 1}, "on"),
        ("jemalloc", {"thp": "always"}, "on"),
        ("glibc", {"tcache_count": 9}, "off"),
        ("exgen", {"huge_pages": "always"}, "off"),
    ],
)
def test_huge_pages_for_all_memory_are_proven_at_random_addresses(
    allocator: str, settings: Mapping[str, Value], aslr: str
):
    """At fixed ones a heap had as many huge pages each time, and none like those when deployed."""
    files = locate_all([get_allocator(allocator)])
    one, seen = watched(files)
    candidates = {"x": Configuration.of(allocator, settings)}
    reference = one.examine()

    for deployed in (one.as_deployed(candidates), ProgramSuite([one]).as_deployed(candidates)):
        seen.clear()
        part = replace(reference, parts=(reference,))
        deployed.runner(candidates, part)(Step(0, 0, None, AS_IS))
        assert [each.aslr for each in seen] == [aslr]


@pytest.mark.parametrize(("prints", "status"), [(True, Status.OK), (False, Status.FAILED)])
def test_what_prints_its_addresses_is_not_compared_where_these_are_random(
    prints: bool, status: Status
):
    files = locate_all([get_allocator("glibc")])
    candidates = {"x": Configuration.of("glibc", {"hugetlb": 1})}

    class Printing:
        """Prints an address, or something else under the candidate alone."""

        def run(
            self, _: object, environment: Mapping[str, str], surroundings: Surroundings
        ) -> ProgramRun:
            is_else = surroundings.aslr == "on" if prints else "GLIBC_TUNABLES" in environment
            return replace(ALONE, output_sha256="other" if is_else else "same")

    one = Program(("app",), cast("RunsPrograms", Printing()), {}, files)
    runs = one.as_deployed(candidates).runner(candidates, one.examine())

    assert runs(Step(0, 0, None, AS_IS)).status is Status.OK
    assert runs(Step(0, 1, None, "x")).status is status


@pytest.mark.parametrize(("wall_s", "sample_ms"), [(0.05, 1), (1.0, 2)])
def test_memory_of_a_short_program_is_sampled_more_often(wall_s: float, sample_ms: int):
    one, seen = watched({})
    reference = replace(one.examine(), wall_s=wall_s)

    one.runner({}, reference)(Step(0, 0, None, AS_IS))

    assert seen[-1].sample_ms == sample_ms
