"""Claims of emulation and claims of runs of `optimize`, side by side."""

from dataclasses import replace
from functools import cache

import pytest

from tests.doubles.runs import synthetic_run
from tuner.records import Configuration
from tuner.report.claims import claims_context, claims_figures
from tuner.validate.summary import ValidationSummary, summarize

_PEAK = "peak heap"
_RSS = "peak RSS"


@cache
def claims(*, is_first: bool) -> ValidationSummary:
    run = synthetic_run(n_trials=40, names=("peak_heap", "cost"), validation=True)
    (record,) = run.validations
    baseline, *others, last = record.subjects
    unknown = Configuration.of("glibc", {"mxfast": 8})
    deployed = replace(
        last, configuration=unknown, trial=None, roles=("recommended",),
        expected=(("cost", 1.1), ("peak_heap", 0.9)),
    )  # fmt: skip
    subjects = (baseline, deployed, *others) if is_first else (baseline, *others, deployed)
    return summarize(run, replace(record, subjects=subjects))


@pytest.mark.parametrize("is_first", [True, False])
def test_every_claim_has_a_column_and_says_what_it_is_of(*, is_first: bool):
    found = claims_context(claims(is_first=is_first))

    assert found["claim_heads"] == [_PEAK, "CPU time, claimed as cost", _RSS]
    assert _RSS not in found["real_heads"]
    claimed = [c for s in found["rows"] if s["subject"].claims for c in s["claims"] if c["claimed"]]
    assert len(claimed) == sum(len(s["subject"].claims) for s in found["rows"])
    (deployed,) = (s["claims"] for s in found["rows"] if s["subject"].subject.trial is None)
    assert deployed[0]["claimed"] == ""
    assert [cell["source"] for cell in deployed[1:]] == ["claimed by runs of optimize"] * 2
    assert all("claimed" in row["claims"][2] and row["claims"][2]["real"] for row in found["rows"])


def test_figures_keep_the_peak_of_the_process_from_that_of_the_heap():
    figures = {figure.name: figure for figure in claims_figures(claims(is_first=True))}

    assert {name: figure.title for name, figure in figures.items()} == {
        "claims-peak_heap": _PEAK,
        "claims-cost": "CPU time, claimed as cost",
        "claims-peak_heap-peak_rss": _RSS,
    }
    tips = str(figures["claims-peak_heap-peak_rss"].spec)
    assert "claimed, by runs of optimize: -10" in tips
    assert "of heap or cost alone" not in tips
