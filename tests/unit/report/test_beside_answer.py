"""What the rounds of a validation say of the answer of `optimize`."""

import re
from dataclasses import replace

import pytest

from tests.doubles.runs import broken
from tests.unit.export.test_sources import ANSWER
from tests.unit.validate.test_summary import SUBJECTS, make_record, make_run, summary_of
from tuner.optimize.answering.answer import Decision
from tuner.report.beside_answer import beside_answer
from tuner.validate.summary import summarize

RECORD = make_record()
"""The setting has 20 % less mean heap."""
GAIN = (-0.2, (-0.25, -0.15))
PROVEN = replace(
    ANSWER,
    configuration=SUBJECTS[1].configuration,
    changes={"mean_memory": GAIN, "p99_latency": (0.0, None)},
    command=tuple(RECORD.command),
    n_rounds=23,
)


@pytest.mark.parametrize(
    ("changes", "rounds", "verdict"),
    [
        ({"mean_memory": GAIN}, 8, r"8 rounds confirms that\."),
        ({"mean_memory": GAIN}, 3, r"3 rounds neither confirms nor refutes that\."),
        ({"mean_memory": GAIN}, 1, r"1 round neither confirms nor refutes that\."),
        (
            {"mean_memory": (-0.5, (-0.6, -0.4))},
            8,
            r"contradicts that: mean heap -20\.0 % \(-2.*\)\.",
        ),
        ({"mean_memory": (-0.2, (-0.21, -0.205))}, 8, r"8 rounds confirms that\."),
        (
            {"mean_memory": GAIN, "cpu_time": (-0.4, (-0.5, -0.3))},
            8,
            r"contradicts that: CPU time -20\.0 % \(.*\)\.",
        ),
    ],
)
def test_rounds_confirm_contradict_or_do_neither(
    changes: dict[str, tuple[float, tuple[float, float]]], rounds: int, verdict: str
):
    summary = summarize(make_run(), make_record(rounds=rounds))

    text = beside_answer(replace(PROVEN, changes=changes), summary)

    assert text is not None
    assert text.startswith("`optimize` proved mean heap ")
    assert " of glibc mxfast=0 in 23 rounds; this validation of " in text
    assert re.search(verdict + "$", text)


def test_a_gain_too_small_to_count_is_no_number_of_the_sentence():
    small = replace(PROVEN, changes={"mean_memory": (-0.003, (-0.005, -0.001))})
    text = beside_answer(small, summarize(make_run(), RECORD))
    assert text is not None
    assert text.startswith("`optimize` proved that glibc mxfast=0 gains in 23 rounds; ")


def test_a_setting_that_failed_contradicts_and_one_that_did_not_run_is_named():
    samples = [s for s in RECORD.samples if s.label != "less"]
    failed = next(s for s in RECORD.samples if s.label == "less")
    out = beside_answer(PROVEN, summary_of(RECORD, (*samples, broken(failed, "killed"))))
    assert str(out).endswith(" contradicts that: it is out, killed.")

    without = replace(RECORD, subjects=(SUBJECTS[0], SUBJECTS[2]), samples=tuple(samples))
    text = beside_answer(PROVEN, summarize(make_run(), without))
    assert text == "`optimize` deploys glibc mxfast=0, which this validation did not run."


def test_what_is_not_alike_says_nothing():
    summary = summarize(make_run(), RECORD)
    kept = replace(PROVEN, decision=Decision.KEEP, configuration=None)
    others = (replace(PROVEN, command=("./other",)), replace(PROVEN, as_is="jemalloc"))
    assert [beside_answer(one, summary) for one in (None, kept, *others)] == [None] * 4
