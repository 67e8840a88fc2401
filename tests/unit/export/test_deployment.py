"""What is exported: the answer of an optimisation, as it was proven."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.doubles.runs import MIB, synthetic_run, trial
from tuner.errors import SelectionError
from tuner.export.deployment import recommended_deployment
from tuner.export.formats import render
from tuner.optimize.answer import Decision, Recommendation
from tuner.records import Configuration
from tuner.runs import Run

TRIED = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})
PROVEN = Configuration.of("jemalloc", {"narenas": 2})
ANSWER = Recommendation(
    decision=Decision.DEPLOY,
    sentence="Deploy jemalloc with narenas=2.",
    configuration=PROVEN,
    trial=1,
    changes={"mean_memory": (-0.1, (-0.1, -0.1)), "cpu_time": (-0.04, None)},
    command=("./app", "a b"),
    date="2026-01-31",
    n_runs=43,
    least=0.01,
)


def run_of_two() -> Run:
    trials = (trial(0, Configuration("glibc"), 60.0 * MIB), trial(1, TRIED))
    return replace(synthetic_run(n_trials=4), trials=trials)


def test_what_was_proven_is_exported_not_what_was_tried() -> None:
    text = render(recommended_deployment(run_of_two(), ANSWER), "env")

    assert "MALLOC_CONF=narenas:2\n" in text
    assert "proven: 2026-01-31, 43 runs of ./app 'a b'" in text
    assert "mean memory against as it was: -10.00 % [-10.00 %, -10.00 %] on the real" in text
    assert "left out: tcache=false (emulated, they change nothing)" in " ".join(
        text.replace("#", "").split()
    )


def test_the_proof_stands_in_json() -> None:
    document = json.loads(render(recommended_deployment(run_of_two(), ANSWER), "json"))

    assert document["settings"] == {"narenas": 2}
    assert document["proven_by"] == "2026-01-31, 43 runs of ./app 'a b'"
    assert [gain["verdict"] for gain in document["gain"]] == ["proven", "not worse by 1 %"]


@pytest.mark.parametrize("decision", [Decision.KEEP, Decision.UNDECIDED])
def test_an_answer_that_deploys_nothing_is_not_exported(decision: Decision) -> None:
    answer = replace(ANSWER, decision=decision, sentence="Keep glibc as it is.")

    with pytest.raises(SelectionError, match=r"Keep glibc as it is\. .* name its --pick"):
        recommended_deployment(run_of_two(), answer)
