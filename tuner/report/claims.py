"""Claims against what the real program did: figures, and a table as texts."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from tuner.drawing.figure import WIDTH, Figure, Spec, category, layer, quantity
from tuner.drawing.style import CONTRAST, INK, MUTED
from tuner.metrics import REAL, find_metric
from tuner.report.beside_answer import BesideAnswer
from tuner.report.columns import MISSING, scale_for, show_change, show_estimate, show_expected
from tuner.report.grid import ranking_grid
from tuner.stats import Estimate
from tuner.validate.session import IGNORED
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import Claim, SubjectSummary, Verdict

_REAL: Final = ("mean_heap", "peak_heap", "peak_rss", "cpu", "instructions", "faults", "wall")
"""Metrics of the real program in the table, in this order."""

_VERDICT_CLASSES: Final = {
    Verdict.CONFIRMED: "better",
    Verdict.EXCEEDED: "better",
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.REJECTED: "worse",
}
"""Style of a verdict in the page; the text itself says the same."""

_ROW_PX: Final = 26
_BAR: Final = "M-0.2,-1.5H0.2V1.5H-0.2Z"
"""An upright bar, as a path: the legend shows it too."""

_EXPECTED: Final = "expected of the program"
_REAL_SERIES: Final = "real, with interval"


def claim_title(claim: Claim) -> str:
    """Name an objective and the metric it was checked with."""
    emulated, real = find_metric(claim.objective).label, REAL[claim.metric].label
    is_same = emulated == real or not claim.is_emulated
    return real if is_same else f"{real}, claimed as {emulated}"


def _checks(summary: ValidationSummary) -> dict[tuple[str, str], str]:
    """Return title by objective and metric of all claims, those of emulation first."""
    claims = [claim for subject in summary.subjects for claim in subject.claims]
    found: dict[tuple[str, str], str] = {}
    for claim in sorted(claims, key=lambda claim: not claim.is_emulated):
        found.setdefault(claim.check, claim_title(claim))
    return found


# Figures


def claims_figures(summary: ValidationSummary) -> list[Figure]:
    """Draw, for each objective and what checks it, the expected and the real change."""
    figures: dict[str, Figure] = {}
    for check, title in _checks(summary).items():
        claims = [
            (subject.subject.label, claim)
            for subject in summary.subjects
            for claim in subject.claims
            if claim.check == check and claim.real_ratio is not None
        ]
        name = f"claims-{check[0]}"
        name = f"{name}-{check[1]}" if name in figures else name
        if claims:
            figures[name] = Figure(name, title, _spec(claims))
    return list(figures.values())


def _spec(claims: Sequence[tuple[str, Claim]]) -> Spec:
    position = {
        "x": quantity("x", "change against the baseline (%)", axis={"format": "+~r"}),
        "y": category("label", title=None, sort=[label for label, _ in claims]),
    }
    spans = [
        {"label": label, "x": percent(interval.low), "end": percent(interval.high)}
        for label, claim in claims
        if claim.real_ratio and (interval := claim.real_ratio.interval)
    ]
    series = [_EXPECTED, _REAL_SERIES]
    looks = {
        "color": category("series", scale={"domain": series, "range": [INK, CONTRAST]}),
        "shape": category("series", scale={"domain": series, "range": [_BAR, "circle"]}),
        "tooltip": {"field": "tip"},
    }
    mark = {"type": "point", "filled": True, "opacity": 1, "size": 100}
    marks = [one for name in series for one in _marks(claims, name)]
    return {
        "width": WIDTH - 260,
        "height": {"step": _ROW_PX},
        "layer": [
            zero_line("x"),
            layer(spans, {"type": "rule", "color": CONTRAST}, **position, x2={"field": "end"}),
            layer(marks, mark, **position, **looks),
        ],
    }


def _marks(claims: Sequence[tuple[str, Claim]], series: str) -> Iterator[dict[str, Any]]:
    for label, claim in claims:
        real = claim.real_ratio.median if claim.real_ratio else None
        ratio = claim.expected_ratio if series == _EXPECTED else real
        if ratio is not None:
            tip = "\n".join(
                (
                    label,
                    f"{_source(claim)}: {show_change(claim.claimed_ratio)}",
                    f"{_EXPECTED}: {show_expected(claim.expected_ratio)}",
                    f"real: {show_estimate(claim.real_ratio)}, {claim.verdict.value}",
                )
            )
            yield {"label": label, "series": series, "x": percent(ratio), "tip": tip}


def _source(claim: Claim) -> str:
    return f"claimed, {'of heap or cost alone' if claim.is_emulated else 'by runs of optimize'}"


def zero_line(channel: str) -> Spec:
    """Return the line of no change."""
    return layer([{"zero": 0}], {"type": "rule", "color": MUTED}, **{channel: quantity("zero")})


def percent(ratio: float) -> float:
    """Return the change in percent that a ratio stands for."""
    return (ratio - 1.0) * 100.0


# The table, and the same for programs

SCHEMA = "malloc-tuner.validation"
VERSION = 1
"""Schema and version of the JSON form; docs/formats.md describes it."""


def claims_json(summary: ValidationSummary, beside: BesideAnswer | None = None) -> str:
    """Write what a validation shows as one JSON object; what is not known is null.

    Args:
        summary: of the validation.
        beside: what it makes of the answer of `optimize`; None where there is none to speak of.
    """
    record = summary.record
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "validation": record.identifier,
        "deploy": summary.decision.label,
        "sentence": summary.decision.sentence,
        "command": list(record.command),
        "date": record.created_at,
        "rounds": summary.n_rounds,
        "rounds_wanted": record.rounds,
        "baseline": summary.baseline.label,
        "units": {name: metric.unit for name, metric in REAL.items()},
        "subjects": [_subject_document(one) for one in summary.subjects],
        "notices": list(summary.notices),
        "answer": beside and beside._asdict(),
    }
    return json.dumps(document, indent=2)


def _subject_document(one: SubjectSummary) -> dict[str, Any]:
    subject = one.subject
    return {
        "label": subject.label,
        "chosen_as": list(subject.roles),
        "trial": one.trial,
        "allocator": subject.configuration.allocator,
        "settings": subject.configuration.as_dict,
        "runs": one.n_samples,
        "reason": one.reason,
        "verdict": one.verdict,
        "measured": {m.metric: m.estimate.median for m in one.metrics},
        "ratio_to_baseline": {m.metric: _estimate_document(m.ratio) for m in one.metrics},
        "claims": [
            {**asdict(claim), "real_ratio": _estimate_document(claim.real_ratio)}
            for claim in one.claims
        ],
    }


def _estimate_document(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else {**asdict(found), "is_range": found.is_range}


def claims_context(summary: ValidationSummary) -> dict[str, Any]:
    """Return heads and cells of the table, as texts."""
    checks = _checks(summary)
    claimed = [metric for _, metric in checks]
    measured = [
        name
        for name in _REAL
        if name not in claimed and any(s.metric(name) for s in summary.subjects)
    ]
    return {
        "summary": summary,
        "command": shlex.join(summary.record.command),
        "date": summary.record.created_at[:16].replace("T", " "),
        "ignores_output": summary.record.conditions.output == IGNORED,
        "claim_heads": list(checks.values()),
        "real_heads": [REAL[name].label for name in measured],
        "rows": [
            {
                "subject": subject,
                "verdict": subject.verdict_words,
                "class": _VERDICT_CLASSES.get(subject.verdict, "") if subject.verdict else "",
                "claims": [_claim_cell(subject, check) for check in checks],
                "reals": [_real_cell(subject, name) for name in measured],
            }
            for subject in summary.subjects
        ],
        "rankings": ranking_grid(summary.rankings, "the program does")
        if summary.rankings
        else None,
    }


def _claim_cell(subject: SubjectSummary, check: tuple[str, str]) -> dict[str, str]:
    """Show claim, reality and verdict; without a claim reality alone."""
    claim = next((claim for claim in subject.claims if claim.check == check), None)
    if claim is None:
        return {"claimed": "", "real": _real_cell(subject, check[1]), "verdict": "", "class": ""}
    return {
        "source": "claimed" if claim.is_emulated else "claimed by runs of optimize",
        "claimed": show_change(claim.claimed_ratio),
        "expected": show_expected(claim.expected_ratio),
        "real": show_estimate(claim.real_ratio),
        "verdict": claim.verdict.value,
        "class": _VERDICT_CLASSES.get(claim.verdict, ""),
    }


def _real_cell(subject: SubjectSummary, name: str) -> str:
    """Show the baseline's own value, and the change of all others."""
    found = subject.metric(name)
    if found is None:
        return MISSING
    if not subject.is_baseline:
        return show_change(found.ratio.median if found.ratio else None)
    return scale_for(REAL[name].kind, [found.estimate.median]).show_with_unit(found.estimate.median)
