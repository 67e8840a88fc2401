"""Evaluations over several cores: pinning, order, retries, an orderly and a sudden end."""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.doubles import synthetic
from tests.doubles.waiting import wait_until
from tuner.errors import MissingToolError, ProgramError, SpecError, TunerError
from tuner.measure import executor
from tuner.measure.evaluation import Evaluation, Evaluator
from tuner.measure.executor import (
    MAX_ATTEMPTS,
    Attempts,
    LocalExecutor,
    Tries,
    cores_of_quota,
    measuring_cpus,
)
from tuner.records import Configuration, Outcome, Status


def configurations(n: int) -> list[Configuration]:
    return [Configuration.of("glibc", {"pad": number}) for number in range(n)]


class Recorder:
    """Evaluates by `measure`, and notes which core each evaluation was given."""

    def __init__(self, meet: threading.Barrier | None = None) -> None:
        self.cpus: list[int | None] = []
        self.now: Counter[int | None] = Counter()
        self.most = 0
        self._meet = meet
        self._lock = threading.Lock()

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        with self._lock:
            self.cpus.append(cpu)
            self.now[cpu] += 1
            self.most = max(self.most, self.now[cpu])
        if self._meet:
            self._meet.wait()
        with self._lock:
            self.now[cpu] -= 1
        return Outcome.succeeded(synthetic.measure(configuration))


class Failing:
    """The machine fails, always or until the n-th attempt."""

    def __init__(self, error: TunerError, until: int = 1 << 30) -> None:
        self._error = error
        self._until = until
        self.n_calls = 0

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        self.n_calls += 1
        if self.n_calls < self._until:
            raise self._error
        return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")


def test_every_configuration_has_one_outcome_with_its_index():
    wanted = configurations(9)
    with LocalExecutor(Recorder(), [0, 1]) as executor:
        outcomes = sorted(executor.run(wanted), key=lambda ended: ended.index)

    assert wanted == [ended.configuration for ended in outcomes]
    assert list(range(9)) == [ended.index for ended in outcomes]
    assert all(ended.outcome for ended in outcomes)


def test_workers_run_at_the_same_time_on_cores_of_their_own():
    recorder = Recorder(threading.Barrier(3))

    with LocalExecutor(recorder, [4, 5, 7]) as executor:
        assert len(list(executor.run(configurations(6)))) == 6

    assert {4, 5, 7} == set(recorder.cpus)
    assert recorder.most == 1


def test_an_executor_runs_batch_after_batch():
    with LocalExecutor(Recorder(), [0]) as executor:
        assert [len(list(executor.run(configurations(n)))) for n in (1, 2, 0)] == [1, 2, 0]


def test_outcomes_come_as_they_end():
    go = threading.Event()

    class SlowFirst:
        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            if configuration.as_dict["pad"] == 0:
                assert go.wait()
            return Outcome.did_not_succeed(Status.FAILED, "done")

    with LocalExecutor(SlowFirst(), [0, 1]) as executor:
        outcomes = executor.run(configurations(3))
        early = [next(outcomes).index, next(outcomes).index]
        go.set()
        late = [ended.index for ended in outcomes]

    assert (early, late) == ([1, 2], [0])


def one(evaluator: Evaluator) -> Attempts:
    with LocalExecutor(evaluator, [0]) as executor:
        (ended,) = executor.run(configurations(1))
    return ended


def test_a_failure_of_the_machine_is_retried_and_reported():
    ended = one(Failing(ProgramError("out of processes"), until=3))

    assert ended.outcome is not None
    assert ended.outcome.status is Status.FAILED
    assert ended.failures == ("out of processes",) * 2


def test_an_incident_of_a_success_is_reported_and_not_retried():
    class Short:
        n_calls = 0

        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            self.n_calls += 1
            return Outcome.succeeded(synthetic.measure(configuration), ("no huge pages",))

    evaluator = Short()
    ended = one(evaluator)

    assert evaluator.n_calls == 1
    assert ended.failures == ("no huge pages",)
    assert ended.error is None
    assert ended.outcome is not None


def test_retries_end():
    evaluator = Failing(ProgramError("out of processes"))
    ended = one(evaluator)

    assert ended.outcome is None
    assert isinstance(ended.error, ProgramError)
    assert MAX_ATTEMPTS == evaluator.n_calls == len(ended.failures)


def test_a_time_out_is_tried_once_more_whatever_failed_before():
    """A failure of the machine, time-out, success: what counts is the success."""
    timed_out = Outcome.did_not_succeed(Status.TIMED_OUT, "no end")
    good = Outcome.succeeded(synthetic.measure(Configuration("glibc")))
    answers: Iterator[TunerError | Evaluation]
    answers = iter([ProgramError("out of processes"), timed_out, good])

    class Busy:
        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            answer = next(answers)
            if isinstance(answer, TunerError):
                raise answer
            return answer

    ended = one(Busy())

    assert ended.outcome == good
    assert ended.failures == ("out of processes", "no end")


def test_time_outs_use_up_no_attempt_at_failures_of_the_machine():
    tries = Tries()

    assert tries.goes_on_after_time_out("no end")
    assert tries.goes_on_after("out of processes")
    assert tries.goes_on_after("out of processes")
    assert not tries.goes_on_after("out of processes")


def test_what_no_retry_can_mend_is_not_retried():
    evaluator = Failing(MissingToolError("no instrument"))
    ended = one(evaluator)

    assert isinstance(ended.error, MissingToolError)
    assert evaluator.n_calls == 1


def test_a_failure_of_the_configuration_is_not_retried():
    evaluator = Failing(ProgramError("never raised"), until=0)

    assert one(evaluator).failures == ()
    assert evaluator.n_calls == 1


def test_a_defect_in_an_evaluator_is_not_swallowed():
    class Defect:
        def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
            raise ZeroDivisionError

    def run() -> None:
        with LocalExecutor(Defect(), [0]) as executor:
            list(executor.run(configurations(3)))

    with pytest.raises(ZeroDivisionError):
        run()


def test_after_stop_the_running_end_and_the_waiting_do_not_begin():
    holder: list[LocalExecutor] = []
    evaluator = synthetic.SyntheticEvaluator(before=lambda _: holder[0].stop())
    with LocalExecutor(evaluator, [0]) as executor:
        holder.append(executor)
        outcomes = list(executor.run(configurations(5)))

    assert [ended.index for ended in outcomes] == [0]
    assert executor.is_stopping


class Sleeper:
    """Starts a process group that would outlive any test."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.pids: list[int] = []
        self.exit_statuses: list[int] = []
        self.started = threading.Event()
        self._delay_s = delay_s
        self._command = ["sh", "-c", "sleep 600 & sleep 600"]

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        if self._delay_s:
            self.started.set()
            time.sleep(self._delay_s)
        with subprocess.Popen(self._command, start_new_session=True) as process:
            self.pids.append(process.pid)
            self.started.set()
            self.exit_statuses.append(process.wait())
        return Outcome.did_not_succeed(Status.FAILED, f"signal {-process.returncode}")


def members(group: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(path.parent.name)
    return found


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A run in the background of a shell ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_exception_kills_what_runs_with_its_whole_group():
    sleeper = Sleeper()

    def run() -> None:
        with LocalExecutor(sleeper, [0, 1]) as executor:
            outcomes = executor.run(configurations(4))
            threading.Thread(target=interrupt).start()
            list(outcomes)

    def interrupt() -> None:
        assert sleeper.started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run()

    assert 1 <= len(sleeper.pids) <= 2
    # A killed process is gone only when it has been scheduled once more.
    wait_until(lambda: not any(members(group) for group in sleeper.pids))


def test_an_interrupt_while_work_is_handed_out_kills_what_is_about_to_start():
    sleeper = Sleeper(delay_s=0.3)

    def handed_out() -> Iterator[Configuration]:
        yield configurations(1)[0]
        assert sleeper.started.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), LocalExecutor(sleeper, [0, 1]) as executor:
        list(executor.run(cast("list[Configuration]", handed_out())))

    assert sleeper.exit_statuses == [-signal.SIGKILL]


def test_an_exception_leaves_other_children_alone():
    """They are the caller's, whose program calls the library."""
    sleeper = Sleeper()

    def run() -> None:
        with LocalExecutor(sleeper, [0]) as executor:
            list(executor.run(handed_out()))

    def handed_out() -> Iterator[Configuration]:
        yield configurations(1)[0]
        assert sleeper.started.wait()
        raise ZeroDivisionError

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        with pytest.raises(ZeroDivisionError):
            run()
        said, _ = other.communicate(b"alive")

    assert sleeper.exit_statuses == [-signal.SIGKILL]
    assert said == b"alive"


@pytest.mark.parametrize("cpus", [[], [0, 0]])
def test_cores_are_given_and_distinct(cpus: list[int]):
    with pytest.raises(ValueError, match="each once"):
        LocalExecutor(Recorder(), cpus)


def test_measuring_cpus_are_allowed_and_distinct():
    allowed = os.sched_getaffinity(0)

    assert set(measuring_cpus()) <= allowed
    assert len(measuring_cpus(1)) == 1
    assert sorted(allowed) == sorted(measuring_cpus(len(allowed)))


@pytest.mark.parametrize("n_workers", [0, -1, 100_000])
def test_more_workers_than_cores_are_refused(n_workers: int):
    with pytest.raises(SpecError, match=f"{n_workers} workers: .* give 1 to"):
        measuring_cpus(n_workers)


V1 = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")


@pytest.mark.parametrize(
    ("files", "n_cores"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"a/b/cpu.max": "200000 100000\n", "a/cpu.max": "max 100000\n"}, 2),
        ({"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ({"c/cpu.max": "200000 100000\n"}, None),
        (dict(zip(V1, ("-1\n", "100000\n"), strict=True)), None),
        (dict(zip(V1, ("300000\n", "100000\n"), strict=True)), 3),
        ({"cpu/d/cpu.cfs_quota_us": "200000\n", "cpu/d/cpu.cfs_period_us": "100000\n"}, 2),
    ],
)
def test_no_more_cores_measure_than_control_groups_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], n_cores: int | None
):
    groups = tmp_path / "groups"
    groups.write_text("7:memory:/c\n4:cpuacct,cpu:/d\n0::/a/b\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(executor, "_siblings", str)

    found = cores_of_quota(tmp_path, groups)
    monkeypatch.setattr(executor, "cores_of_quota", lambda: found)

    assert found == n_cores
    assert measuring_cpus() == list(range(n_cores or 8))
    assert measuring_cpus(4) == [0, 1, 2, 3], "as asked"


def test_a_control_group_may_have_a_name_that_is_no_text(tmp_path: Path):
    groups, inside = tmp_path / "groups", tmp_path / os.fsdecode(b"a\xff")
    groups.write_bytes(b"0::/a\xff\n")
    inside.mkdir()
    (inside / "cpu.max").write_text("300000 100000\n")

    assert cores_of_quota(tmp_path, groups) == 3


def test_without_a_list_of_control_groups_the_outermost_counts(tmp_path: Path):
    (tmp_path / "cpu.max").write_text("300000 100000\n")

    assert cores_of_quota(tmp_path, tmp_path / "none") == 3
