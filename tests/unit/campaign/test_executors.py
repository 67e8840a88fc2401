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
from tests.doubles.synthetic import SyntheticEvaluator
from tuner.campaign.executors import (
    Demand,
    Where,
    check_executor,
    on_dask,
    on_this_machine,
    scheduler_of,
)
from tuner.errors import MissingToolError, SpecError
from tuner.store import Store


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
