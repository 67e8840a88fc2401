"""A search that never waits: slow evaluations, kills, other budgets."""

import functools
import statistics
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.doubles import synthetic
from tests.doubles.strategies import IN_EITHER_SEARCH, INSTALLED
from tests.doubles.synthetic import SyntheticEvaluator
from tests.unit.campaign.test_runner import InterruptAfter
from tuner.campaign.progress import Listener
from tuner.errors import InterruptedCampaign
from tuner.front.dominance import hypervolume, points_of
from tuner.measure.executor import Attempts, LocalExecutor
from tuner.records import Configuration, Trial
from tuner.store import FINISHED, Store


class AheadExecutor(LocalExecutor):
    """Cores of this machine, as if they were many machines."""

    runs_ahead = True


run = functools.partial(synthetic.run, cpus=(0, 1, 2), kind=AheadExecutor)


def asks(folder: Path) -> list[tuple[int, ...]]:
    with Store.open(folder) as store:
        return store.asks()


@pytest.mark.parametrize(("strategy", "search"), IN_EITHER_SEARCH)
def test_every_number_is_a_trial_and_no_configuration_comes_twice(
    tmp_path: Path, strategy: str, search: str
):
    trials = run(tmp_path, synthetic.record(strategy=strategy, search=search))

    assert list(range(60)) == [trial.number for trial in trials]
    assert len({trial.configuration for trial in trials}) == 60
    assert asks(tmp_path)


def test_a_slow_evaluation_holds_nobody(tmp_path: Path):
    """One of the first proposals ends only when nearly all others have ended."""
    enough = threading.Event()
    first: list[Configuration] = []

    def wait(configuration: Configuration) -> None:
        if not configuration.is_default and not first:
            first.append(configuration)
            assert enough.wait()

    class Counting(Listener):
        n = 0

        def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
            self.n += 1
            if self.n == 55:
                enough.set()

    trials = run(tmp_path, evaluator=SyntheticEvaluator(before=wait), listener=Counting())

    assert len(trials) == 60
    (slow,) = (trial for trial in trials if trial.configuration == first[0])
    assert slow.number < 16
    assert all(slow.number not in told for told in asks(tmp_path)[:-1])


@pytest.mark.parametrize(
    ("kind", "strategy"), [(AheadExecutor, name) for name in INSTALLED] + [(LocalExecutor, "auto")]
)
def test_a_stopped_campaign_goes_on_with_the_same_search(
    tmp_path: Path, strategy: str, kind: type[LocalExecutor]
):
    """On many machines or on this one: what was proposed is evaluated, once."""
    record = synthetic.record(strategy=strategy)
    before: list[Trial] = []
    for n in (10, 25):
        with pytest.raises(InterruptedCampaign):
            run(tmp_path, record, listener=InterruptAfter(n))
        with Store.open(tmp_path) as store:
            found = store.trials()
        assert all(trial in found for trial in before)
        before = found
    evaluator = SyntheticEvaluator()

    trials = run(tmp_path, record, evaluator, kind=kind)

    assert list(range(60)) == [trial.number for trial in trials]
    assert not {trial.configuration for trial in before} & {
        *evaluator.evaluated[: 60 - len(before)]
    }
    with Store.open(tmp_path) as store:
        assert store.campaign().status == FINISHED


def test_a_larger_budget_goes_on(tmp_path: Path):
    run(tmp_path, synthetic.record(budget=40))
    first = asks(tmp_path)

    trials = run(tmp_path, synthetic.record(budget=80))

    assert list(range(80)) == [trial.number for trial in trials]
    assert asks(tmp_path)[: len(first)] == first


@pytest.mark.parametrize("kind", [LocalExecutor, AheadExecutor])
def test_what_the_store_answers_asks_no_executor(tmp_path: Path, kind: type[LocalExecutor]):
    class Away(kind):  # type: ignore[misc, valid-type]
        """Nobody is there to evaluate: what is handed in must be nothing."""

        def run(self, configurations: Iterable[Configuration], *_: object) -> Iterator[Attempts]:
            assert not isinstance(configurations, list)
            assert list(configurations) == []
            yield from ()

    trials = run(tmp_path, kind=kind)

    assert run(tmp_path, kind=Away) == trials


def test_a_campaign_that_was_begun_in_batches_goes_on_in_batches(tmp_path: Path):
    run(tmp_path, synthetic.record(budget=40), kind=LocalExecutor)

    trials = run(tmp_path, synthetic.record(budget=80))

    assert len(trials) == 80
    assert asks(tmp_path) == []


def test_it_learns_as_well(tmp_path: Path):
    """Beyond random search by as much as in batches, or nearly.

    In which order trials end differs from run to run, so several seeds are put together.
    """

    def volume(strategy: str, kind: type[LocalExecutor]) -> float:
        return statistics.fmean(volume_of(strategy, kind, seed) for seed in range(1, 5))

    def volume_of(strategy: str, kind: type[LocalExecutor], seed: int) -> float:
        folder = tmp_path / f"{strategy}-{kind.__name__}-{seed}"
        record = synthetic.record(strategy=strategy, budget=200, seed=seed)
        trials = run(folder, record, kind=kind)
        return hypervolume(points_of([t for t in trials if t.is_feasible]), (60.0 * 2**20, 1.5e8))

    chance = volume("random", LocalExecutor)

    assert volume("nsga2", AheadExecutor) - chance > 0.5 * (volume("nsga2", LocalExecutor) - chance)
