"""What the rounds of a validation say of the answer of `optimize`."""

import re
from dataclasses import replace

import pytest

from tests.doubles.runs import broken
from tests.unit.export.test_sources import ANSWER
from tests.unit.validate.test_summary import SUBJECTS, make_record, make_run, summary_of
from tuner.optimize.answering.answer import Decision
from tuner.report.beside_answer import Agreement, beside_answer
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
    ("changes", "rounds", "agreement", "verdict"),
    [
        ({"mean_memory": GAIN}, 8, Agreement.CONFIRMS, r"8 rounds confirms that\."),
        (
            {"mean_memory": GAIN, "peak_memory": (-0.05, (-0.1, -0.02))},
            8,
            Agreement.CONFIRMS,
            r"8 rounds recommends it, too\.",
        ),
        (
            {"mean_memory": GAIN},
            3,
            Agreement.OPEN,
            r"3 rounds neither confirms nor refutes that\.",
        ),
        ({"mean_memory": GAIN}, 1, Agreement.OPEN, r"1 round neither confirms nor refutes that\."),
        (
            {"mean_memory": (-0.5, (-0.6, -0.4))},
            8,
            Agreement.CONTRADICTS,
            r"contradicts that: mean heap -20\.0 % \(-2.*\)\.",
        ),
        (
            {"mean_memory": (-0.2, (-0.21, -0.205))},
            8,
            Agreement.CONFIRMS,
            r"8 rounds confirms that\.",
        ),
        (
            {"mean_memory": GAIN, "cpu_time": (-0.4, (-0.5, -0.3))},
            8,
            Agreement.CONTRADICTS,
            r"contradicts that: CPU time -20\.0 % \(.*\)\.",
        ),
    ],
)
def test_rounds_confirm_contradict_or_do_neither(
    changes: dict[str, tuple[float, tuple[float, float]]],
    rounds: int,
    agreement: Agreement,
    verdict: str,
):
    summary = summarize(make_run(), make_record(rounds=rounds))

    found = beside_answer(replace(PROVEN, changes=changes), summary)

    assert found is not None
    assert found.agreement is agreement
    text = found.sentence
    assert text.startswith("`optimize` proved mean memory ")
    assert " of glibc mxfast=0 in 23 rounds; this validation of " in text
    assert re.search(verdict + "$", text)


def test_a_gain_too_small_to_count_is_no_number_of_the_sentence():
    small = replace(PROVEN, changes={"mean_memory": (-0.003, (-0.005, -0.001))})
    found = beside_answer(small, summarize(make_run(), RECORD))
    assert found is not None
    assert found.sentence.startswith("`optimize` proved that glibc mxfast=0 gains in 23 rounds; ")


def test_of_memory_half_of_the_least_effect_is_a_gain():
    half = replace(PROVEN, changes={"mean_memory": (-0.008, (-0.009, -0.006))}, least=0.01)
    found = beside_answer(half, summarize(make_run(), RECORD))
    assert found is not None
    assert found.sentence.startswith("`optimize` proved mean memory -0.8 % (at least -0.6 %) of ")


def test_a_setting_that_failed_contradicts_and_one_that_did_not_run_is_named():
    samples = [s for s in RECORD.samples if s.label != "less"]
    failed = next(s for s in RECORD.samples if s.label == "less")
    out = beside_answer(PROVEN, summary_of(RECORD, (*samples, broken(failed, "killed"))))
    assert out is not None
    assert out.agreement is Agreement.CONTRADICTS
    assert out.sentence.endswith(" contradicts that: it is out, killed.")

    without = replace(RECORD, subjects=(SUBJECTS[0], SUBJECTS[2]), samples=tuple(samples))
    found = beside_answer(PROVEN, summarize(make_run(), without))
    text = "`optimize` deploys glibc mxfast=0, which this validation did not run."
    assert found == (Agreement.NOT_RUN, text)


def test_what_is_not_alike_says_nothing():
    summary = summarize(make_run(), RECORD)
    kept = replace(PROVEN, decision=Decision.KEEP, configuration=None)
    others = (replace(PROVEN, command=("./other",)), replace(PROVEN, as_is="jemalloc"))
    assert [beside_answer(one, summary) for one in (None, kept, *others)] == [None] * 4
