"""Rounds of simulations, with a gem5 that does what the test says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.machine import MACHINE
from tests.doubles.prepared import NAMES, Counter, of_glibc
from tests.doubles.program_runs import GOOD
from tests.doubles.runs import seen
from tests.doubles.simulated import RESULT, STATISTICS
from tuner.config.gem5_suite import Simulation, SimulationRole
from tuner.errors import InterruptedCampaign, ProgramError
from tuner.measure.gem5 import Gem5Run
from tuner.measure.preloads import PRELOAD
from tuner.measure.program import ProgramRun, Surroundings
from tuner.records import CurvePoint, Status
from tuner.runs import load_run
from tuner.store import Store, ValidationRecord, ValidationSample
from tuner.validate.gem5 import validate_on_gem5
from tuner.validate.gem5_summary import gem5_records
from tuner.validate.session import ValidationOptions

_RUN = replace(
    GOOD,
    peak_rss_bytes=9000,
    peak_anon_bytes=50_000_000,
    mean_anon_bytes=40_000_000.5,
    mean_anon_cpu_bytes=42_000_000.5,
    curve=(CurvePoint(0, 5, 50_000_000, 0), CurvePoint(0, 6, 100, 0)),
)
_GOOD = Gem5Run(_RUN, RESULT, STATISTICS, b"42\n")
_DRIFT = replace(_GOOD, statistics=STATISTICS.replace("500 ", "501 "))
_CRASH = Gem5Run(replace(_RUN, exit_status=1, stderr_tail="a\npanic: oh\n"), None, None, b"")

Behaviour = Callable[[str, str, int], Gem5Run | BaseException]
"""From simulation, subject and number of its run on that simulation."""


class Simulator:
    def __init__(self, behave: Behaviour, libraries: tuple[str, ...] = ()) -> None:
        self.behave = behave
        self.libraries = libraries
        self.calls: list[tuple[str, str]] = []
        self.limits: list[float | None] = []
        self.aslr = set[str]()
        self.guest = "1"

    def command(self, simulation: Simulation) -> list[str]:
        return ["gem5.opt", simulation.name]

    def identity(self, simulation: Simulation) -> dict[str, str]:
        return {"program": "2", "guest": self.guest}

    def ask(self, environment: Mapping[str, str]) -> ProgramRun:
        return replace(_RUN, malloc_libraries=self.libraries)

    def simulate(
        self, simulation: Simulation, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Gem5Run:
        call = (simulation.name, environment["NAME"])
        self.calls.append(call)
        self.limits.append(surroundings.timeout_s)
        self.aslr.add(surroundings.aslr)
        self.preload = environment.get(PRELOAD)
        found = self.behave(*call, self.calls.count(call))
        if isinstance(found, BaseException):
            raise found
        return found


def simulation(name: str, role: SimulationRole = SimulationRole.TUNE) -> Simulation:
    return Simulation(name=name, machine="m.json", role=role)


SIMULATIONS = [simulation("tree"), simulation("hash", SimulationRole.HELD_OUT)]


def run_all(store: Store, gem5: Simulator, **changes: Any) -> list[str]:
    notices: list[str] = []
    fields: dict[str, Any] = {
        "options": ValidationOptions(rounds=3),
        "machine": MACHINE,
        "counter": None,
        "on_notice": notices.append,
        **changes,
    }
    prepared = fields.pop("prepared", [of_glibc(name) for name in NAMES])
    simulations = fields.pop("simulations", SIMULATIONS)
    validate_on_gem5(
        store, simulations, prepared, gem5=gem5, folder=store.path.parent / "gem5", **fields
    )
    return notices


def always(found: Gem5Run) -> Behaviour:
    return lambda simulation, name, number: found


def good_runs() -> Simulator:
    return Simulator(always(_GOOD))


def test_where_a_subject_wants_huge_pages_gem5_runs_at_random_addresses(store: Store):
    gem5 = good_runs()
    run_all(
        store, gem5, prepared=[of_glibc("base"), replace(of_glibc("good"), wants_huge_pages=True)]
    )
    assert gem5.aslr == {"on"}


def records(store: Store) -> dict[str, ValidationRecord]:
    return {r.simulation.simulation: r for r in store.validations() if r.simulation}


def samples(store: Store, name: str, label: str) -> list[ValidationSample]:
    return [sample for sample in records(store)[name].samples if sample.label == label]


def test_every_subject_runs_once_per_round_on_every_simulation(store: Store):
    gem5 = good_runs()
    run_all(store, gem5)
    names = ["base", *NAMES * 3]
    assert sorted(gem5.calls) == sorted((s.name, n) for s in SIMULATIONS for n in names)
    for record in records(store).values():
        found = sorted((sample.round, sample.label) for sample in record.samples)
        assert found == sorted((number, name) for number in range(3) for name in NAMES)
        assert record.is_shuffled


def test_rounds_alternate_between_the_simulations(store: Store):
    gem5 = good_runs()
    run_all(store, gem5)
    before, of_round = ["tree"] * 4 + ["hash"] * 4, ["tree"] * 3 + ["hash"] * 3
    assert [name for name, _ in gem5.calls] == before + of_round * 2
    assert gem5.calls[0] == ("tree", "base")
    assert gem5.calls[4] == ("hash", "base")


def test_no_subject_comes_first_in_every_first_round(store: Store):
    for seed in range(6):
        run_all(store, good_runs(), options=ValidationOptions(rounds=1, seed=seed))
    found = [one for record in store.validations() for one in record.samples]
    assert len({sample.label for sample in found if sample.position == 0}) > 1
    assert all(record.is_shuffled for record in store.validations())


def test_heap_is_without_the_part_of_the_program(store: Store):
    run_all(store, good_runs())
    sample = samples(store, "tree", "good")[0]
    own = 3_190_784 + 16_302_080  # "program" and "python" of result.json
    assert seen(sample).peak_heap_bytes == 50_000_000 - own
    assert seen(sample).mean_heap_bytes == 40_000_000.5 - own  # over the life of the process
    assert [point.heap_bytes for point in seen(sample).curve] == [50_000_000 - own, 0]
    assert (seen(sample).peak_rss_bytes, seen(sample).faults, seen(sample).instructions) == (
        9000,
        10,
        77,
    )


def test_other_simulated_results_reject_the_subject_on_that_simulation(store: Store):
    gem5 = Simulator(lambda s, n, _: _DRIFT if (s, n) == ("hash", "good") else _GOOD)
    run_all(store, gem5)
    (sample,) = samples(store, "hash", "good")
    assert sample.outcome.status is Status.FAILED
    assert sample.outcome.reason == (
        "1 simulated statistics differ from the baseline's: board.clk_domain.clock is 501, not 500"
    )
    assert len(samples(store, "tree", "good")) == 3
    assert len(samples(store, "hash", "other")) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"guest_output": b"43\n"}, "the guest's output differs from the baseline's"),
        (
            {"statistics": ""},
            "stats.txt: holds no complete statistics; the simulation ended too early",
        ),
    ],
)
def test_another_output_or_missing_results_reject(
    store: Store, change: dict[str, Any], reason: str
):
    other = replace(_GOOD, **change)
    run_all(store, Simulator(lambda s, n, _: other if n == "good" else _GOOD))
    (sample,) = samples(store, "tree", "good")
    assert sample.outcome.reason == reason


def test_statistics_of_the_host_may_differ(store: Store):
    other = replace(_GOOD, statistics=STATISTICS.replace("0.19", "0.99"))
    run_all(store, Simulator(lambda s, n, _: other if n == "good" else _GOOD))
    assert all(s.outcome.status is Status.OK for s in samples(store, "tree", "good"))


def test_a_failed_simulation_is_one_record_and_the_others_go_on(store: Store):
    run_all(store, Simulator(lambda s, n, _: _CRASH if s == "tree" else _GOOD))
    (sample,) = records(store)["tree"].samples
    assert (sample.label, sample.outcome.status) == ("base", Status.FAILED)
    assert sample.outcome.reason == 'exit status 1: "panic: oh"'
    assert len(records(store)["hash"].samples) == 9


def test_a_simulation_that_does_not_repeat_itself_is_out(store: Store):
    drift = Simulator(lambda s, n, call: _DRIFT if (n, call) == ("base", 3) else _GOOD)
    run_all(store, drift)
    failed = [s for s in records(store)["tree"].samples if s.outcome.status is not Status.OK]
    assert [s.label for s in failed] == ["base"]
    assert "differ from its own of the first run: board.clk_domain.clock" in str(
        failed[0].outcome.reason
    )
    assert not [s for s in records(store)["tree"].samples if s.round == 2]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"timed_out": True, "exit_status": None, "signal": 9}, Status.TIMED_OUT),
        ({"preload_mapped": False}, Status.REFUSED),
        ({"exit_status": None, "signal": 11}, Status.FAILED),
    ],
)
def test_runs_that_end_badly_are_rejected(store: Store, change: dict[str, Any], status: Status):
    bad = replace(_GOOD, run=replace(_RUN, **change))
    run_all(store, Simulator(lambda s, n, _: bad if n == "good" else _GOOD))
    (sample,) = samples(store, "tree", "good")
    assert sample.outcome.status is status


def interrupted(store: Store, round_: int) -> Simulator:
    stopped = "hash", "good", round_
    stop = Simulator(lambda *run: KeyboardInterrupt() if run == stopped else _GOOD)
    with pytest.raises(InterruptedCampaign):
        run_all(store, stop)
    return stop


def test_same_command_continues_where_it_stopped(store: Store):
    stop = interrupted(store, 2)
    again = good_runs()
    notices = run_all(store, again)
    assert len(stop.calls) - 1 + len(again.calls) == 20
    assert len(store.validations()) == 2
    assert notices == ["tree: continuing: validation 1", "hash: continuing: validation 2"]


def test_simulations_that_are_complete_are_not_begun_again(store: Store):
    interrupted(store, 3)
    again = good_runs()
    notices = run_all(store, again)
    assert {name for name, _ in again.calls} == {"hash"}
    assert len(store.validations()) == 2
    assert notices == ["tree: is complete: validation 1", "hash: continuing: validation 2"]


def test_when_all_are_complete_all_begin_anew(store: Store):
    options = ValidationOptions(rounds=1)
    run_all(store, good_runs(), options=options)
    again = good_runs()
    run_all(store, again, options=options)
    assert len(again.calls) == 8
    assert len(store.validations()) == 4


def test_a_further_simulation_leaves_complete_ones_as_they_are(store: Store):
    options = ValidationOptions(rounds=1)
    run_all(store, good_runs(), options=options, simulations=SIMULATIONS[:1])
    more = good_runs()
    run_all(store, more, options=options)
    assert {name for name, _ in more.calls} == {"hash"}


def test_continued_rounds_compare_with_the_first_ones(store: Store):
    stop = Simulator(lambda s, n, call: KeyboardInterrupt() if s == "hash" else _GOOD)
    with pytest.raises(InterruptedCampaign):
        run_all(store, stop)
    run_all(store, Simulator(lambda s, n, _: _DRIFT if s == "tree" else _GOOD))
    failed = [s for s in records(store)["tree"].samples if s.outcome.status is not Status.OK]
    assert failed
    assert "board.clk_domain.clock is 501, not 500" in str(failed[0].outcome.reason)


def test_another_guest_is_another_validation(store: Store):
    run_all(store, good_runs(), options=ValidationOptions(rounds=1))
    other = good_runs()
    other.guest = "3"
    run_all(store, other, options=ValidationOptions(rounds=1))
    assert len(store.validations()) == 4


def test_limit_follows_the_baseline_where_only_a_candidate_ran_before(store: Store):
    slow = replace(_GOOD, run=replace(_RUN, wall_ns=20_000_000_000))
    options = ValidationOptions(rounds=3, seed=6)  # the baseline comes last in round 0

    def stops(simulation: str, name: str, number: int) -> Gem5Run | BaseException:
        return KeyboardInterrupt() if (name, number) == ("base", 2) else slow

    with pytest.raises(InterruptedCampaign):
        run_all(store, Simulator(stops), simulations=SIMULATIONS[:1], options=options)
    assert {sample.label for sample in records(store)["tree"].samples} == {"good", "other"}
    again = Simulator(always(slow))
    run_all(store, again, simulations=SIMULATIONS[:1], options=options)
    assert again.limits == [3600.0, *[200.0] * 6]


def test_instructions_are_counted_once_per_subject_and_simulation(store: Store):
    counter = Counter()
    options = ValidationOptions(rounds=2, instrument="cachegrind")
    run_all(store, good_runs(), counter=counter, options=options)
    assert len(counter.names) == 6
    assert [seen(s).instructions for s in samples(store, "tree", "good")] == [42, None]


def test_malloc_of_the_libc_is_put_before_one_that_gem5_brings(store: Store):
    gem5 = Simulator(always(_GOOD), libraries=("/usr/lib/libtcmalloc.so.4",))
    (notice,) = run_all(store, gem5, options=ValidationOptions(rounds=1))
    assert "gem5 is linked with libtcmalloc.so.4" in notice
    assert gem5.preload is not None
    assert "libc" in gem5.preload


def test_a_program_that_is_no_gem5_is_an_error(store: Store):
    class NoGem5(Simulator):
        def ask(self, environment: Mapping[str, str]) -> ProgramRun:
            return replace(_RUN, exit_status=2)

    with pytest.raises(ProgramError, match="prints no version: exit status 2"):
        run_all(store, NoGem5(always(_GOOD)))


def test_last_comparable_validations_are_found_again(store: Store):
    run_all(store, good_runs(), options=ValidationOptions(rounds=1))
    run_all(store, good_runs(), options=ValidationOptions(rounds=2))
    found = gem5_records(load_run(store.path.parent))
    assert [record.rounds for record in found] == [2, 2]
