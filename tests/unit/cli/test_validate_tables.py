"""The tables of a validation say what was measured, what was claimed and what is out."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.runs import broken, synthetic_run
from tuner.cli.validate_tables import print_details, print_summary
from tuner.metrics import REAL
from tuner.runs import Run
from tuner.validate.decision import GUARDED
from tuner.validate.summary import summarize
from tuner.validate.verdicts import Verdict


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(Path("runs/x"), n_trials=80, validation=True)


Printed = Callable[[Run], str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    def of(run: Run) -> str:
        monkeypatch.setenv("COLUMNS", "160")
        summary = summarize(run, run.validations[-1])
        print_summary(summary, Path("runs/x"), has_details=True)
        print_details(summary)
        return capsys.readouterr().out

    return of


def test_one_screen_says_what_was_decided_first(run: Run, capsys: pytest.CaptureFixture[str]):
    summary = summarize(run, run.validations[-1])
    print_summary(summary, Path("runs/x"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 26
    assert max(map(len, lines)) <= 100
    assert " ".join(lines).startswith(" ".join(summary.decision.sentence.split()))
    assert any(line.startswith("malloc-tuner report runs/x") for line in lines)
    assert sum("note:" in line for line in lines) == len(summary.notices)
    head = next(line for line in lines if "verdict" in line)
    assert all(REAL[name].label in head for name in GUARDED), "what a gain must not cost"


def test_a_figure_keeps_its_unit_where_the_decision_is_broken(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    summary = summarize(run, run.validations[-1])
    words = "Deploy balanced: mean heap -12 % (at least -6.5 %)."
    decided = replace(summary, decision=replace(summary.decision, sentence=words))
    monkeypatch.setenv("COLUMNS", str(words.index("%).") + 1))

    print_summary(decided, Path("runs/x"))

    assert capsys.readouterr().out.splitlines()[1].strip() == "least -6.5 %)."


@pytest.mark.parametrize("columns", [80, 75])
def test_tables_are_as_narrow_as_the_terminal_with_every_figure(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
):
    summary = summarize(run, run.validations[-1])
    first = next(one for one in summary.subjects if one.claims)
    claims = [replace(claim, verdict=Verdict.WORSE) for claim in first.claims]
    worse = replace(first, verdict=Verdict.WORSE, claims=tuple(claims))
    subjects = (worse if s is first else s for s in summary.subjects)
    found = replace(summary, subjects=tuple(subjects))

    def printed(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        print_summary(found, Path("runs/x"))
        return capsys.readouterr().out.split("\n\n")[1].split("note:")[0].splitlines()

    wide, narrow = printed(160), printed(columns)

    assert max(map(len, narrow)) <= columns < max(map(len, wide))
    figures = r"[-+][\d.]+ %|[\d.,]+ [KMG]iB|[\d.]+ ms"
    assert re.findall(figures, "\n".join(narrow)) == re.findall(figures, "\n".join(wide))
    assert "worse" in " ".join(narrow)


def test_details_do_not_name_themselves_as_the_next_command(run: Run, printed: Printed):
    said = printed(run)

    assert "malloc-tuner report runs/x" in said
    assert "--details" not in said


def test_details_are_as_wide_as_a_page(run: Run, capsys: pytest.CaptureFixture[str]):
    print_details(summarize(run, run.validations[-1]))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_other_names_of_a_subject_stand_below_it_as_equal(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    summary = summarize(run, run.validations[-1])
    first = next(one for one in summary.subjects if one.subject.is_pick and one.metrics)
    named = replace(first, subject=replace(first.subject, roles=("balanced", "knee")))
    others = tuple(named if one is first else one for one in summary.subjects)
    monkeypatch.setenv("COLUMNS", "160")

    print_summary(replace(summary, subjects=others), Path("runs/x"))

    assert "= knee" in capsys.readouterr().out


def test_every_subject_metric_and_claim_is_shown(run: Run, printed: Printed):
    text = printed(run)
    summary = summarize(run, run.validations[-1])
    for found in summary.subjects:
        assert text.count(found.subject.label) >= (2 if found.metrics else 1)
    for words in ("mean heap (MiB)", "Claimed and real", "expected", "cost / CPU time", "Kendall"):
        assert words.split()[0] in text
    assert "note:" in text or not summary.notices


def test_a_subject_has_one_verdict(run: Run, capsys: pytest.CaptureFixture[str]):
    summary = summarize(run, run.validations[-1])
    first = next(one for one in summary.subjects if len(one.claims) > 1)
    verdicts = (Verdict.CONFIRMED, Verdict.NOT_CONFIRMED)
    claims = [replace(c, verdict=v) for c, v in zip(first.claims, verdicts, strict=True)]
    mixed = replace(first, verdict=Verdict.NOT_CONFIRMED, claims=tuple(claims))

    print_details(replace(summary, subjects=(summary.subjects[0], mixed)))

    assert f"{REAL[claims[0].metric].label} confirmed \n" in capsys.readouterr().out


def test_rejected_subject_is_named_with_its_reason(run: Run, printed: Printed):
    record = run.validations[-1]
    label = record.samples[-1].label
    samples = (
        *(s for s in record.samples if s.label != label),
        broken(record.samples[-1], "killed by SIGSEGV [x]"),
    )
    changed = replace(run, validations=(replace(record, samples=samples),))
    assert f"{label} is out: killed by SIGSEGV [x]" in printed(changed)


def test_validation_without_a_sample_is_no_crash(run: Run, printed: Printed):
    empty = replace(run, validations=(replace(run.validations[-1], samples=()),))
    assert "0 of" in printed(empty)
