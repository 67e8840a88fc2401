"""Verdicts of experiments with known differences, from what is kept of them."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import noise
from benchmarks.noise import (
    COUNTS,
    LITTLE,
    SAME,
    Cost,
    Experiment,
    Experiments,
    half_width,
    lines,
    narrower,
    targets,
    verdict,
    verdicts_of,
)
from tests.doubles.program_runs import CRASHED
from tuner.compare.loop import compare
from tuner.compare.plan import Course, Step
from tuner.errors import ProgramError
from tuner.records import Outcome


def rows(kind: str, share: float, n: int, n_rounds: int = 60) -> list[dict[str, object]]:
    rng = np.random.default_rng(3)
    return [
        {
            "mode": "pairs",
            "kind": kind,
            "experiment": number,
            "round": at,
            "first_ns": 3e8 * rng.normal(1.0, 0.01),
            "second_ns": 3e8 * (1.0 + share) * rng.normal(1.0, 0.01),
        }
        for number in range(n)
        for at in range(n_rounds)
    ]


def test_a_known_difference_is_called_by_its_sign():
    assert verdict([0.02] * 30) == "faster"
    assert verdict([-0.02] * 30) == "slower"
    assert verdict([0.01, -0.01] * 15) is None


def test_a_count_needs_one_round():
    assert verdict([-0.01], COUNTS) == "slower"
    assert verdict([0.01], COUNTS) == "faster"
    assert verdict([0.0005], COUNTS) is None


def test_counted_work_is_found_under_load():
    counted = [
        {
            "mode": COUNTS,
            "kind": kind,
            "experiment": number,
            "round": 0,
            "first_instructions": 1_000_000 + number,
            "second_instructions": round(1_000_000 * (1.0 + share)),
        }
        for kind, share in ((SAME, 0.0), (LITTLE, 0.01))
        for number in range(20)
    ]

    found = {one.what: one for one in targets({"counted": counted})}

    assert found["2 % of added work found under load, by counting"].value == pytest.approx(1.0)
    assert found["false verdicts under load, by counting"].value == pytest.approx(0.0)
    assert "nan" not in "".join(lines({"counted": counted}))


def test_targets_count_false_verdicts_and_what_was_found():
    loaded = [*rows(SAME, 0.0, 40), *rows(LITTLE, 0.02, 20)]

    found = {one.what: one for one in targets({"quiet": loaded, "loaded": loaded})}

    false = found["false verdicts under load"]
    assert (false.value, false.is_met, false.is_missed) == (0.0, False, False), "40 are few"
    assert found["2 % of added work found under load"].value == pytest.approx(1.0)
    assert found["verdicts under load as quiet"].value == pytest.approx(1.0)


def test_an_experiment_ends_when_it_is_decided_or_its_time_is_over():
    def run(step: Step[Experiment]) -> Outcome[Cost]:
        is_more = step.task.kind == LITTLE and step.subject == "second"
        return Outcome.succeeded(Cost(102 if is_more else 100, 10**8))

    class Nowhere:
        def kept(self) -> tuple[()]:
            return ()

        def keep(self, step: Step[Experiment], run: Outcome[Cost]) -> None:
            pass

    both = [Experiment(SAME, "pairs", 0), Experiment(LITTLE, "pairs", 0)]
    course: Course[Experiment, Cost] = compare(Experiments(both, 10.0), run, Nowhere())

    n_runs = {kind: sum(key[1].kind == kind for key in course.samples) for kind in (SAME, LITTLE)}
    assert n_runs[SAME] == 100
    assert n_runs[LITTLE] < 40
    assert Experiment.parse(str(both[1])) == both[1]


def test_a_program_that_fails_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(noise, "ProgramRunner", lambda: Namespace(run=lambda *_: CRASHED))

    with pytest.raises(ProgramError, match="killed by SIGSEGV"):
        noise._runner(tmp_path / "added_work.so", ("true",))  # noqa: SLF001 - the check itself


def test_the_interval_of_a_mode_is_shown_where_nothing_differs():
    """It narrows with the rounds that the time gives, and takes some to begin with."""
    rng = np.random.default_rng(3)
    differences = [float(x) for x in rng.normal(0.0, 0.03, 80)]

    assert half_width(differences[:3]) == float("inf")
    assert half_width(differences[:20]) > half_width(differences) > 0.0
    first, *shown = [line for line in lines({"quiet": rows(SAME, 0.0, 2)}) if "|" in line]
    assert "interval" in first
    assert shown[-1].split("|")[-3].strip().endswith("%")


def test_the_targets_judge_the_narrower_mode():
    wide = [{**row, "first_ns": 3e8 * (1.0 + 0.5 * (row["round"] % 2))} for row in rows(SAME, 0, 2)]  # type: ignore[operator]
    duets = [{**row, "mode": "duets", "load": 3.5} for row in rows(SAME, 0.0, 2)]

    found = narrower(verdicts_of({"loaded": [*wide, *duets]}))

    assert {(one.mode, one.load) for one in found} == {("duets", 3.5)}
