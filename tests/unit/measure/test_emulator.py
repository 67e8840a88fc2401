"""Evaluations with a stand-in for rand_malloc: numbers, failures, command line, environment."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.messages import assert_is_one_line
from tests.doubles.waiting import wait_until
from tuner.allocators import Allocator, Installation, get_allocator
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import (
    MissingToolError,
    ProgramError,
    ProgramTimeoutError,
    SettingError,
    TraceError,
)
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.evaluation import Evaluation, Refusal
from tuner.measure.executor import LocalExecutor
from tuner.measure.several import SeveralWorkloads
from tuner.records import Configuration, CurvePoint, Measurement, Status

_DOUBLE = Path(__file__).parents[2] / "doubles" / "rand_malloc"
_LIBRARY = Path("/lib/libjemalloc.so.2")


class Trace:
    """A trace that says how the stand-in behaves, and knows how it was called."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def orders(self, **orders: Any) -> None:
        self.path.write_text(json.dumps(orders))

    def calls(self) -> list[dict[str, Any]]:
        text = self.path.with_name(self.path.name + ".calls").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def arguments(self) -> list[str]:
        (call,) = self.calls()
        arguments: list[str] = call["arguments"]
        return arguments

    def option(self, name: str) -> str:
        arguments = self.arguments()
        return arguments[arguments.index(name) + 1]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    trace = Trace(tmp_path / "app.trace")
    trace.orders()
    return trace


def evaluator(
    trace: Trace, calibration: Calibration | None = None, **changes: Any
) -> EmulatorEvaluator:
    allocators: dict[str, tuple[Allocator, Installation]] = {
        "glibc": (get_allocator("glibc"), Installation("glibc", None, "2.36")),
        "jemalloc": (get_allocator("jemalloc"), Installation("jemalloc", _LIBRARY, "5.3.0")),
    }
    fields: dict[str, Any] = {"emulator": _DOUBLE, "reads_back": False, **changes}
    calibration = calibration or Calibration(c_fault=100.0, c_syscall=10.0)
    return EmulatorEvaluator(Emulation(trace.path, allocators, calibration, **fields))


def of_glibc(trace: Trace, **how: Any) -> Evaluation:
    return evaluator(trace, **how).evaluate(Configuration("glibc"))


def measured(trace: Trace, **how: Any) -> Measurement:
    found = of_glibc(trace, **how).good
    assert found is not None
    return found


def test_numbers_become_a_measurement(trace: Trace):
    measurement = measured(trace)
    assert measurement["peak_heap"] == 1000
    assert measurement["mean_heap"] == 800.5
    assert (measurement["faults"], measurement["syscalls"]) == (7, 3)
    assert (measurement["instructions"], measurement["process_instructions"]) == (5000, 9000)
    assert measurement["cost"] == 5000 + 7 * 100.0 + 3 * 10.0
    assert measurement["p99_latency"] is None
    assert measurement.curve == (CurvePoint(0, 0, 10, 0), CurvePoint(4, 900, 1000, 500))


def test_a_trace_without_events_is_no_trace_to_measure(trace: Trace):
    trace.orders(result={"trace": {"events": 0}, "fragmentation_at_peak": None})
    with pytest.raises(TraceError, match=r"app\.trace: holds no events"):
        of_glibc(trace)
    trace.orders(result={"trace": {"events": 0, "complete": False}, "fragmentation_at_peak": None})
    with pytest.raises(TraceError, match=r"app\.trace: was cut off and holds no events"):
        of_glibc(trace)


def test_no_live_bytes_at_the_peak_have_no_fragmentation(trace: Trace):
    trace.orders(result={"fragmentation_at_peak": None})
    measurement = measured(trace)
    assert measurement["fragmentation"] is None


def test_without_a_counter_there_is_no_cost(trace: Trace):
    trace.orders(result={"instructions": None})
    measurement = measured(trace)
    assert measurement["instructions"] is None
    assert measurement["cost"] is None


def test_library_settings_and_core_reach_the_emulator(trace: Trace):
    configuration = Configuration.of("jemalloc", {"dirty_decay_ms": 0})
    evaluator(trace).evaluate(configuration, cpu=1)
    assert trace.option("--preload") == str(_LIBRARY)
    assert "dirty_decay_ms:0" in trace.option("--env")
    assert trace.option("--env").startswith("MALLOC_CONF=")
    assert trace.option("--cpu") == "1"
    assert trace.option("--thp") == "keep"
    assert trace.option("--runs") == "both"
    assert trace.option("--instructions") == "allocator"
    assert trace.arguments()[-1] == str(trace.path)


def test_default_of_libc_has_neither_library_nor_settings(trace: Trace):
    of_glibc(trace)
    assert not {"--preload", "--env", "--cpu"} & set(trace.arguments())


def test_huge_pages_are_off_where_the_campaign_wants_none(trace: Trace):
    never = EmulationOptions(thp="never")
    evaluator(trace, options=never).evaluate(Configuration.of("jemalloc", {"thp": "always"}))
    assert trace.option("--thp") == "never"


def test_pages_that_came_with_huge_ones_have_their_price(trace: Trace):
    without = measured(trace)
    trace.orders(result={"huge_pages": {"pages": 511, "fallbacks": 0, "collapses": 0}})
    prices = Calibration(c_fault=100.0, c_syscall=10.0, c_page=2.0)
    found = of_glibc(trace, calibration=prices)
    assert found.values is not None
    assert found.values.value("cost") == without.value("cost") + 2 * 511
    assert found.incidents == ()


def test_kernel_that_was_short_of_huge_pages_is_an_incident(trace: Trace):
    trace.orders(result={"huge_pages": {"pages": 0, "fallbacks": 3, "collapses": 1}})
    (incident,) = of_glibc(trace).incidents
    assert "gave small ones (3 times)" in incident
    assert "made huge pages out of small ones (1 times)" in incident


def test_allocator_variables_of_the_user_stay_outside(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    monkeypatch.setenv("MALLOC_CONF", "narenas:1")
    of_glibc(trace)
    (call,) = trace.calls()
    assert not {"GLIBC_TUNABLES", "MALLOC_CONF"} & set(call["environment"])


def test_latency_takes_a_second_free_running_replay(trace: Trace):
    options = EmulationOptions(with_latency=True)
    measurement = measured(trace, options=options)
    assert measurement["p99_latency"] == 30.0
    assert measurement["instructions"] == 5000
    modes = [call["arguments"][call["arguments"].index("--threads") + 1] for call in trace.calls()]
    assert modes == ["baton", "free"]


def test_free_running_threads_are_not_counted_and_have_no_core(trace: Trace):
    options = EmulationOptions(threads="free")
    measurement = evaluator(trace, options=options).evaluate(Configuration("glibc"), 1).good
    assert measurement is not None
    assert (measurement["p99_latency"], measurement["cost"]) == (30.0, None)
    assert measurement["syscalls"] is None
    assert trace.option("--runs") == "memory"
    assert "--cpu" not in trace.arguments()


def test_replay_that_fails_is_a_failed_trial(trace: Trace):
    trace.orders(exit=1, stderr="<jemalloc>: oops\nrand_malloc: replay: killed by SIGABRT\nbye")
    found = of_glibc(trace)
    assert (found.status, found.reason) == (Status.FAILED, "replay: killed by SIGABRT")


def test_replay_over_its_limit_timed_out(trace: Trace):
    trace.orders(late=1)
    options = EmulationOptions(timeout_s=2.5)
    found = of_glibc(trace, options=options)
    expected = (Status.TIMED_OUT, "replay: no end after 60 s of CPU time")
    assert (found.status, found.reason) == expected
    assert trace.option("--timeout") == "2.5"


@pytest.mark.parametrize(("n_late", "status"), [(1, Status.OK), (2, Status.TIMED_OUT)])
def test_a_time_out_is_tried_once_more(trace: Trace, n_late: int, status: Status):
    """What happened before is reported; a second time-out is the configuration's."""
    trace.orders(late=n_late)
    with LocalExecutor(evaluator(trace), [0]) as executor:
        (ended,) = executor.run([Configuration("glibc")])
    assert ended.outcome is not None
    assert ended.outcome.status is status
    assert ended.failures == ("replay: no end after 60 s of CPU time",)
    assert len(trace.calls()) == 2


def test_an_emulator_that_hangs_is_no_result(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    """The emulator limits its children itself; if it does not end, the machine failed."""
    monkeypatch.setattr("tuner.measure.emulator._GRACE_S", 0.2)
    trace.orders(hangs=True)
    options = EmulationOptions(timeout_s=0.001)
    with pytest.raises(ProgramTimeoutError, match="rand_malloc hangs"):
        of_glibc(trace, options=options)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (2, ProgramError),
        (3, TraceError),
        (5, MissingToolError),
        (6, MissingToolError),
        (9, ProgramError),
    ],
)
def test_broken_set_up_is_an_error(trace: Trace, code: int, error: type[Exception]):
    trace.orders(exit=code, stderr="rand_malloc: x.trace: bad things")
    with pytest.raises(error, match=r"x\.trace: bad things"):
        of_glibc(trace)


@pytest.mark.parametrize(
    "orders",
    [
        {"stdout": "no json"},
        {"stdout": ""},
        {"result": {"version": 2}},
        {"result": {"schema": "other"}},
        {"result": {"faults": "7"}},
        {"result": {"mean_heap_bytes": None}},
        {"result": {"curve": {"event": [1], "time_ns": [], "heap_bytes": [], "live_bytes": []}}},
    ],
)
def test_result_of_another_form_is_refused(trace: Trace, orders: dict[str, Any]):
    trace.orders(**orders)
    with pytest.raises(ProgramError, match="not understood") as caught:
        of_glibc(trace)
    assert_is_one_line(str(caught.value))


def test_refused_setting_is_not_replayed(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise SettingError("narenas = 7 was not taken")

    monkeypatch.setattr(Allocator, "read_back", refuse)
    found = evaluator(trace, reads_back=True).evaluate(Configuration.of("jemalloc", {"narenas": 7}))
    assert (found.status, found.reason) == (Status.REFUSED, "narenas = 7 was not taken")
    assert not trace.path.with_name("app.trace.calls").exists()


def test_allocator_that_is_not_set_up_is_named(trace: Trace):
    with pytest.raises(MissingToolError, match="mimalloc: not set up"):
        evaluator(trace).evaluate(Configuration("mimalloc"))


def test_missing_emulator_is_an_error(trace: Trace, tmp_path: Path):
    with pytest.raises(MissingToolError, match="cannot be started"):
        of_glibc(trace, emulator=tmp_path / "none")


def test_stop_ends_a_running_replay(trace: Trace):
    trace.orders(hangs=True)
    tested = evaluator(trace)
    errors: list[BaseException] = []

    def evaluate() -> None:
        try:
            tested.evaluate(Configuration("glibc"))
        except ProgramError as error:
            errors.append(error)

    thread = threading.Thread(target=evaluate)
    thread.start()
    wait_until(trace.path.with_name("app.trace.calls").exists)
    tested.stop()
    thread.join()
    assert len(errors) == 1


def test_replays_share_one_decoded_workload(trace: Trace):
    measuring = evaluator(trace, counts_process=True)
    measuring.evaluate(Configuration("glibc"))
    measuring.evaluate(Configuration("glibc", ()))
    words = [call["arguments"] for call in trace.calls()]
    first, second = (arguments[arguments.index("--keep") + 1] for arguments in words)
    assert first == second
    assert words[0][words[0].index("--instructions") + 1] == "all"


class _Always:
    """A gate that refuses everything, or nothing."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses
        self.kernel_cost: float | None = 0.0

    def refusal(
        self, configuration: Configuration, known: Measurement, kernel_cost: float | None
    ) -> Refusal | None:
        assert configuration == Configuration("glibc")
        assert (known["instructions"], known["cost"]) == (None, None)
        self.kernel_cost = kernel_cost
        return Refusal("dominated", {"cost": 9.0}) if self.refuses else None


def test_two_purchases_measure_what_one_evaluation_does(trace: Trace):
    gate = _Always(refuses=False)
    found = evaluator(trace).evaluate_gated(Configuration("glibc"), 1, gate)
    whole = evaluator(trace).evaluate(Configuration("glibc"), 1)
    assert found.good == whole.good
    assert gate.kernel_cost == 7 * 100.0 + 3 * 10.0
    runs = [c["arguments"][c["arguments"].index("--runs") + 1] for c in trace.calls()]
    assert runs == ["memory", "count", "both"]


def test_without_system_calls_no_run_has_a_cost(trace: Trace):
    trace.orders(result={"syscalls": None})
    gate = _Always(refuses=False)
    one = evaluator(trace)

    found = one.evaluate_gated(Configuration("glibc"), 1, gate)
    joined = SeveralWorkloads([one, one]).evaluate_gated(Configuration("glibc"), 1, gate)

    assert gate.kernel_cost is None
    assert found.good == one.evaluate(Configuration("glibc"), 1).good
    for each in (found.good, joined.good):
        assert each is not None
        assert (each["cost"], each["instructions"]) == (None, 5000)


def test_what_one_of_several_workloads_did_not_count_the_mean_does_not_know(trace: Trace):
    other = Trace(trace.path.with_name("other.trace"))
    other.orders(result={"syscalls": None})
    gate = _Always(refuses=False)
    both = SeveralWorkloads([evaluator(trace), evaluator(other)])

    found = both.evaluate_gated(Configuration("glibc"), 1, gate)

    assert gate.kernel_cost is None
    assert found.good is not None
    assert found.good["cost"] is None


def test_refused_evaluation_keeps_what_is_known(trace: Trace):
    found = evaluator(trace).evaluate_gated(Configuration("glibc"), 1, _Always(refuses=True))
    assert (found.status, found.reason, found.good) == (Status.UNCOUNTED, "dominated", None)
    assert found.values is not None
    assert (found.values["mean_heap"], found.values["instructions"]) == (800.5, None)
    assert found.bound == {"cost": 9.0}
    assert trace.option("--runs") == "memory"


def test_two_purchases_of_several_workloads_are_means(trace: Trace):
    both = SeveralWorkloads([evaluator(trace), evaluator(trace)])
    found = both.evaluate_gated(Configuration("glibc"), 1, _Always(refuses=False))
    assert found.good is not None
    assert found.good["cost"] == pytest.approx(5000 + 730)
    refused = both.evaluate_gated(Configuration("glibc"), 1, _Always(refuses=True))
    assert refused.status is Status.UNCOUNTED
    runs = [c["arguments"][c["arguments"].index("--runs") + 1] for c in trace.calls()]
    assert runs == ["memory", "memory", "count", "count", "memory", "memory"]


def test_memory_run_that_fails_is_the_outcome(trace: Trace):
    trace.orders(exit=4, stderr="too long")
    found = evaluator(trace).evaluate_gated(Configuration("glibc"), 1, _Always(refuses=False))
    assert found.status is Status.TIMED_OUT
