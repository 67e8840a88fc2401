"""The contract of every runner: list one in the registry, and this suite runs on it."""

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.runners import CASES, OTHER, Compares, Script
from tuner.compare.loop import Observer
from tuner.compare.plan import Step
from tuner.errors import InterruptedCampaign
from tuner.records import Outcome, Status
from tuner.registry import RUNNERS


class Seen:
    """Every sample, in the order it was kept."""

    def __init__(self) -> None:
        self.samples: list[tuple[Step[Any], Outcome[Any]]] = []
        self.observer: Observer[Any, Any] = Observer(
            on_sample=lambda step, outcome: self.samples.append((step, outcome))
        )

    @property
    def places(self) -> list[tuple[int, Any, str]]:
        return [step.key for step, _ in self.samples]

    def of(self, label: str) -> list[Outcome[Any]]:
        return [outcome for step, outcome in self.samples if step.subject == label]


def seen(compares: Compares, folder: Path, script: Script) -> Seen:
    folder.mkdir(parents=True, exist_ok=True)
    found = Seen()
    compares(folder, script, found.observer)
    return found


def check_subjects(compares: Compares, folder: Path) -> None:
    """Every subject is run, in every round, and gives values."""
    found = seen(compares, folder, Script())

    assert len(found.places) == len(set(found.places))
    assert all(outcome.good is not None for _, outcome in found.samples)
    labels = [label for _, _, label in found.places]
    assert len(set(labels)) == 2
    assert labels.count(OTHER) == len(labels) / 2


def check_failures(compares: Compares, folder: Path) -> None:
    """A run that fails is a sample with its reason, no error, and the others go on."""
    whole = seen(compares, folder / "good", Script())
    found = seen(compares, folder / "bad", Script(fails=True))

    failed = found.of(OTHER)
    assert failed
    assert all(outcome.status is not Status.OK and outcome.reason for outcome in failed)
    n_good = sum(outcome.status is Status.OK for _, outcome in found.samples)
    assert n_good == len(whole.samples) - len(whole.of(OTHER))


def check_resume(compares: Compares, folder: Path) -> None:
    """After an end at any moment, what was kept is not run again, and nothing is missing."""
    script = Script()
    whole = seen(compares, folder / "whole", script)
    for n_before in range(script.n_runs):
        part = folder / str(n_before)
        part.mkdir()
        first = Seen()
        with pytest.raises(InterruptedCampaign):
            compares(part, Script(ends_after=n_before), first.observer)
        rest = seen(compares, part, Script())

        assert sorted(map(str, first.places + rest.places)) == sorted(map(str, whole.places))


CHECKS = (check_subjects, check_failures, check_resume)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", list(RUNNERS))
def test_a_runner_keeps_the_contract(name: str, check: Any, tmp_path: Path):
    assert callable(RUNNERS[name].load())
    assert name in CASES, "give it a case in tests/doubles/runners.py"
    check(CASES[name], tmp_path / "run")
