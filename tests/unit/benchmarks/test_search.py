"""The search benchmark: problems, rivals, scores, targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import search
from benchmarks.search_problem import GROUPS, INVENTED, RECORDED, WRITTEN, make_task, task_names
from benchmarks.search_rivals import OptunaNsga2, StockPymoo
from tuner.search import Strategy

WRITTEN_PROBLEM = """
import os
SCALE = 2.0 if os.environ["ALLOC_VARIANT"] == "b" else 1.0
PARAMS = {
    "policy": ("cat", ["best", "first"], None),
    "scan": ("int", (2, 5), ("policy", ["first"])),
    "cache": ("cat", [False, True], None),
    "decay": ("real", (0.0, 5.0), None),
}
DEFAULTS = [dict(policy="first", scan=3, cache=True, decay=1.1)]
def evaluate(c):
    return SCALE * (10 + c.get("scan", 0)), 20 - c["decay"] + (c["cache"] is True)
"""


def rows(*volumes: float, task: str = "invented-0") -> dict[str, Any]:
    found = [
        {"task": f"{task} {seed}", "volume": {"100": v, "200": v}, "cpu_s": {"200": 0.4}}
        for seed, v in enumerate(volumes)
    ]
    fronts, references = {task: [[1.0, 1.0]]}, {task: [np.e**2 * 2 - 1] * 2}
    return {"rows": found, "fronts": fronts, "references": references, "known": {task: 0.0}}


def test_a_problem_of_another_file_is_searched_by_its_own_names(tmp_path: Path):
    file = tmp_path / "heap.py"
    file.write_text(WRITTEN_PROBLEM)

    assert task_names(WRITTEN, file, 2) == ["heap-a", "heap-b"]
    one, other = (make_task(name, file) for name in task_names(WRITTEN, file, 2))
    (genome,) = one.initial
    settings = one.space.decode(genome).as_dict

    assert settings["policy"] == "first"
    assert settings["scan"] == 8
    assert settings["cache"] is True
    assert one.evaluate(genome).objectives == pytest.approx((13.0, 20.0))
    assert other.evaluate(genome).objectives == pytest.approx((26.0, 20.0))


def test_without_a_file_there_are_invented_and_recorded_problems():
    assert task_names(WRITTEN, None, 2) == []
    assert task_names(INVENTED, None, 2) == ["invented-0", "invented-1"]
    assert GROUPS == (WRITTEN, RECORDED, INVENTED)


@pytest.mark.parametrize("rival", [StockPymoo, OptunaNsga2])
def test_rivals_never_pay_twice_for_one_configuration(rival: type[Any]):
    task = make_task("invented-0", None)
    made: Strategy = rival(task.space, 2, 20, 1, list(task.initial))

    asked = []
    for _ in range(4):
        genomes = made.ask()
        made.tell([task.evaluate(genome) for genome in genomes])
        asked += [task.space.decode(genome) for genome in genomes]

    assert len(asked) > 40
    assert len(set(asked)) == len(asked)


def test_scores_are_in_percent_of_the_best_front_of_all_searches():
    best = (2.0) ** 2  # of the front (1, 1): logarithms of 1 + x against the reference
    parts = {"auto@invented": rows(0.95 * best, 0.9 * best), "tpe@invented": rows(0.5 * best)}

    scores = search.scores_of(parts)["invented-0"]

    assert scores["auto"][100] == pytest.approx([95.0, 90.0])
    assert scores["tpe"][200] == pytest.approx([50.0])
    assert any("92.5 (90)" in line for line in search.lines(parts))


def test_targets_are_of_the_worst_problem_and_the_best_other():
    parts = {
        "auto@recorded": rows(3.8, 3.6, task="compiler"),
        "auto@invented": rows(3.8, 3.0),
        "tpe@invented": rows(3.9),
        "random@invented": rows(1),
    }

    found = {target.what: target for target in search.targets(parts)}

    worst = found["worst seed at 200, %"]
    assert worst.value == pytest.approx(90.0)
    assert worst.note == "compiler"  # what a seed misses of an invented front is shown only
    assert not worst.is_met
    behind = found["points behind the best other at 100"]
    assert behind.value == pytest.approx(97.5 - 85.0)
    assert behind.note == "invented-0, tpe"
