"""What evaluates a campaign, by name: options that go together, jobs of Slurm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.doubles import synthetic
from tests.doubles.command_line import CommandLine
from tests.doubles.machine import MACHINE
from tests.doubles.synthetic import SyntheticEvaluator
from tests.unit.campaign.test_runner import DEFAULTS, OnTheSecond
from tuner.campaign.executors import (
    Demand,
    Where,
    check_executor,
    on_dask,
    on_this_machine,
    scheduler_of,
)
from tuner.errors import MissingToolError, SpecError, StoreError
from tuner.measure.cluster import ClusterExecutor
from tuner.measure.evaluation import Evaluation
from tuner.measure.executor import LocalExecutor
from tuner.measure.remote import Measured, Proof
from tuner.records import Configuration, Outcome
from tuner.store import ClusterMachine, Store


@pytest.mark.parametrize(
    ("name", "workers", "scheduler", "expected"),
    [
        ("cloud", None, None, "--executor cloud: choose among local, dask, slurm"),
        ("local", None, "tcp://x:1", "--scheduler does not apply with --executor local"),
        ("slurm", None, "tcp://x:1", "--scheduler does not apply with --executor slurm"),
        ("dask", None, None, "needs --scheduler tcp://HOST:8786"),
        ("dask", 2, "tcp://x:1", "--workers does not apply with --executor dask"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    name: str, workers: int | None, scheduler: str | None, expected: str
):
    with pytest.raises(SpecError, match=expected):
        check_executor(Where(name, workers, scheduler))


def test_several_at_a_time_are_refused_where_time_is_measured():
    with pytest.raises(SpecError, match="--workers 2 does not apply where time is measured"):
        check_executor(Where(workers=2), is_alone=True)
    for where in (Where(workers=1), Where(), Where("slurm", 2)):
        check_executor(where, is_alone=True)


def test_they_are_refused_before_anything_is_begun(tmp_path: Path, cli: CommandLine):
    trace = Path(__file__).parents[3] / "configs/workloads/gem5-suite/traces/text-minor.trace"

    assert "needs --scheduler" in cli.fails(
        SpecError.exit_code, "tune", trace, "-o", tmp_path / "run", "--executor", "dask"
    )
    assert not list(tmp_path.iterdir())


def demand(store: Store, **changes: Any) -> Demand:
    fields: dict[str, Any] = {
        "store": store, "evaluator": SyntheticEvaluator(), "emulations": (), "is_alone": False,
        "where": Where(), "on_note": lambda _: None,
    }  # fmt: skip
    return Demand(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes", [{"where": Where(workers=1)}, {"is_alone": True}], ids=["asked for", "time counts"]
)
def test_one_evaluation_at_a_time_runs_nothing_ahead(tmp_path: Path, changes: dict[str, Any]):
    with (
        Store.create(tmp_path, synthetic.record()) as store,
        on_this_machine(demand(store, **changes)) as executor,
    ):
        assert executor.n_workers == 1
        assert not executor.runs_ahead


class Larger(SyntheticEvaluator):
    """Measures a heap that is some per cent larger."""

    def __init__(self, percent: float) -> None:
        super().__init__()
        self._factor = 1.0 + percent / 100.0

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        found = super().evaluate(configuration, cpu)
        assert found.values is not None
        heap = self._factor * found.values.value("mean_heap")
        return Outcome.succeeded(found.values.with_values(mean_heap=heap))


def begun(folder: Path, kind: type[LocalExecutor]) -> Store:
    """Return the store of a campaign, open for writing."""
    synthetic.run(folder, synthetic.record(budget=4), kind=kind)
    return Store.open(folder, writable=True)


@pytest.mark.parametrize("percent", [0.4, 0.6])
def test_a_campaign_of_a_cluster_goes_on_here_only_with_the_same_numbers(
    tmp_path: Path, percent: float
):
    evaluator = Larger(percent)
    with (
        begun(tmp_path, OnTheSecond) as store,
        on_this_machine(demand(store, evaluator=evaluator)) as executor,
    ):
        assert list(executor.run([])) == []
        assert evaluator.evaluated == []
        if percent > 0.5:
            with pytest.raises(StoreError, match=r"on a cluster, .* mean heap is .* --executor"):
                list(executor.run(DEFAULTS[1:]))
        else:
            found = [*executor.run(DEFAULTS[1:]), *executor.run(DEFAULTS[1:])]
            assert [one.configuration for one in found] == DEFAULTS[1:] * 2
            assert evaluator.evaluated == [DEFAULTS[0], *DEFAULTS[1:] * 2]


def test_times_of_a_cluster_are_not_mixed_with_those_of_this_machine(tmp_path: Path):
    with (
        begun(tmp_path, OnTheSecond) as store,
        on_this_machine(demand(store, is_alone=True)) as executor,
        pytest.raises(StoreError, match="times here cannot be compared"),
    ):
        list(executor.run(DEFAULTS))


def test_times_of_a_campaign_that_was_begun_here_are_relative_to_this_machine(tmp_path: Path):
    with begun(tmp_path, LocalExecutor) as store:
        store.add_machine(ClusterMachine("later", MACHINE, synthetic.measure(DEFAULTS[1])))
        with on_this_machine(demand(store, is_alone=True)) as executor:
            assert len(list(executor.run(DEFAULTS))) == 2


@pytest.mark.parametrize(("kind", "is_used"), [(LocalExecutor, False), (None, True)])
def test_a_cluster_goes_on_with_a_campaign_of_one_machine_only_with_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[LocalExecutor] | None,
    is_used: bool,
):
    """None: nothing was measured before."""
    monkeypatch.setattr("tuner.measure.remote.EmulationKit.identity", lambda _: {})
    client = SimpleNamespace(close=lambda timeout: None)
    monkeypatch.setattr("tuner.measure.workers._connected", lambda _: client)
    opened = begun(tmp_path, kind) if kind else Store.create(tmp_path, synthetic.record())
    with (
        opened as store,
        on_dask(demand(store, where=Where("dask", scheduler="tcp://x:1"))) as executor,
    ):
        assert isinstance(executor, ClusterExecutor)
        proof = Proof("other", MACHINE, 1, frozenset({0}), {}, ())
        why = executor.admit(proof, Measured(Larger(0.6).evaluate(DEFAULTS[0], 0)))

    assert (why == "") is is_used


class Jobs:
    """Stands for dask_jobqueue.SLURMCluster."""

    made: Jobs

    def __init__(self) -> None:
        Jobs.made = self
        self.scheduler_address = "tcp://127.0.0.1:1"
        self.n_jobs = 0
        self.is_open = True

    def scale(self, jobs: int) -> None:
        self.n_jobs = jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False


def test_slurm_starts_jobs_and_ends_them_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=Jobs))
    monkeypatch.setattr(shutil, "which", Path)
    monkeypatch.setattr("tuner.measure.remote.EmulationKit.identity", lambda _: {})
    monkeypatch.setattr("tuner.measure.workers._ANSWER_S", 0.4)
    with (
        Store.create(tmp_path, synthetic.record()) as store,
        pytest.raises(MissingToolError, match="no scheduler of Dask answers"),
        on_dask(demand(store, where=Where("slurm", workers=20))),
    ):
        pass

    assert Jobs.made.n_jobs == 20
    assert not Jobs.made.is_open


def test_a_machine_without_slurm_waits_for_no_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=Jobs))
    monkeypatch.setenv("PATH", str(tmp_path))

    with (
        pytest.raises(MissingToolError, match="sbatch is not on this machine"),
        scheduler_of(Where("slurm")),
    ):
        pass


def test_a_cluster_without_a_set_up_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def cluster() -> None:
        raise ValueError("You must specify how many cores to use per job")

    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=cluster))
    monkeypatch.setattr(shutil, "which", Path)
    with (
        Store.create(tmp_path, synthetic.record()) as store,
        pytest.raises(SpecError, match=r"how many cores .*docs/how-to/cluster\.md"),
        on_dask(demand(store, where=Where("slurm"))),
    ):
        pass
