"""The sentences of a report: what was gained, how it was measured, how to do it again."""

import math
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from tuner.front.bounds import constraint_words, count_failures, default_trials
from tuner.front.kept import RECOMMENDED, measured_trial
from tuner.front.picks import NO_REGRET, Pick, first_pick, rule_words
from tuner.front.whole import Whole, seen_ratio
from tuner.measure.evaluation import MAY_NOT_REPEAT
from tuner.metrics import REAL, Metric, find_metrics
from tuner.optimize.answering.recommendation import Recommendation
from tuner.optimize.tuned import label_of
from tuner.page import series
from tuner.records import Configuration, Trial
from tuner.report.columns import MISSING, ratio, show_change, show_expected, show_metric
from tuner.report.parallel import show_value
from tuner.runs import Run
from tuner.stats import TIE
from tuner.store.values import INTERRUPTED
from tuner.units import show_percent, show_size, signed_percent
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import Claim, SubjectSummary


@dataclass(frozen=True)
class ChangeText:
    """One metric of a pick against the baseline."""

    label: str
    value: str
    """With its unit."""
    change: str
    """``-12.3 %``, or a dash."""
    direction: str
    """``better``, ``worse`` or ``same``; empty when the ratio is missing."""
    of: str = ""
    """What the change is of, if not of the metric itself."""


@dataclass(frozen=True)
class PickCard:
    """Settings in words; several picks may share them."""

    names: tuple[str, ...]
    rule: str
    trial: int
    allocator: str
    settings: tuple[tuple[str, str], ...]
    """Names and values; empty for the default."""
    changes: tuple[ChangeText, ...]
    """In emulation; empty where `trial` has more settings."""
    real: tuple[ChangeText, ...] = ()
    """On the real program, `value` being the verdict; empty when it did not run there."""
    reason: str | None = None
    """Why the real program rejected it; None when it did not."""


def headline(
    run: Run, picks: Sequence[Pick], whole: Whole, summary: ValidationSummary | None = None
) -> str:
    """Say what the campaign found, and how little its workload shows if that is so.

    Changes are shares of `whole`, what the program has under the baseline, where that is known.
    What to do about it says `deploy_sentence` where a validation recommends something.
    """
    found = _headline(run, picks, whole, summary)
    said = run.campaign.workload.caveat
    return f"{found} The workload is of {said}." if said else found


def _spoken_of(run: Run, picks: Sequence[Pick], summary: ValidationSummary | None) -> Pick | None:
    """Return what a validation recommends; where that is no trial, the first pick."""
    return _recommended(run, summary) or first_pick(picks)


def _recommended(run: Run, summary: ValidationSummary | None) -> Pick | None:
    found = summary.subject(summary.decision.label or "") if summary else None
    trial = measured_trial(run.trials, found.subject.configuration) if found else None
    rule = "what the validation recommends"
    return Pick(found.subject.label, trial, rule) if found and trial else None


def _headline(
    run: Run, picks: Sequence[Pick], whole: Whole, summary: ValidationSummary | None
) -> str:
    baseline = default_trials(run.trials).get(run.campaign.baseline)
    pick = _spoken_of(run, picks, summary)
    if pick is None:
        return "No configuration succeeded and held every constraint."
    if baseline is None:
        return f"The default of {run.campaign.baseline} could not be measured: no gain is known."
    default = f"{run.campaign.baseline}'s default"
    ratios = _headline_ratios(run, picks, whole)
    if _recommended(run, summary) is not None:
        ratios = _ratios(run, pick, whole)
    elif not any(_is_gain(found) for _, found in ratios):
        labels = series([metric.label for metric in find_metrics(run.campaign.objectives)])
        found = f"o measured configuration gains {100 * TIE:g} % or more at no cost ({labels})."
        if summary is not None:
            return f"In emulation, n{found}"
        trades = any(one.trial.number != baseline.number for one in picks)
        choice = ", or choose a pick that trades one for another" if trades else ""
        return f"N{found} Keep {default}{choice}."
    changes = series([f"{label} by {show_expected(found)}" for label, found in ratios])
    if whole:
        changes = f"{changes} of the whole program"
    who = f"{pick.name} ({_subject(pick.trial)}, trial {pick.trial.number})"
    return f"In emulation, {who} changes {changes}, against {default}."


def validated_sentence(
    run: Run, picks: Sequence[Pick], summary: ValidationSummary | None
) -> str | None:
    """Say what the real program made of what the headline names.

    Returns:
        None when nothing was validated, or not this configuration.
    """
    pick = _spoken_of(run, picks, summary)
    subject = _validated_subject(pick.trial.configuration, summary) if pick and summary else None
    if pick is None or subject is None or subject.is_baseline:
        return None
    if subject.reason is not None:
        return f"On the real program, {pick.name} is rejected: {subject.reason}."
    if not subject.claims:
        return None
    words = series([_real_words(claim) for claim in subject.claims])
    return f"On the real program, {pick.name}: {words}."


def deploy_sentence(
    run: Run, picks: Sequence[Pick], whole: Whole, summary: ValidationSummary | None
) -> str | None:
    """Say what to deploy: what the last validation recommends, or to validate first.

    Returns:
        None when there is nothing to validate, which the headline says.
    """
    if summary is not None:
        return summary.decision.sentence
    has_gain = any(_is_gain(found) for _, found in _headline_ratios(run, picks, whole))
    return "Validate it on the program before you deploy it." if has_gain else None


def _validated_subject(
    configuration: Configuration, summary: ValidationSummary
) -> SubjectSummary | None:
    return next((s for s in summary.subjects if s.subject.configuration == configuration), None)


def _real_words(claim: Claim) -> str:
    change = show_change(claim.real_ratio.median if claim.real_ratio else None)
    return f"{REAL[claim.metric].label} {change} ({claim.verdict.value})"


def _subject(trial: Trial) -> str:
    allocator, n = trial.configuration.allocator, len(trial.configuration.settings)
    if n == 0:
        return f"{allocator} as shipped"
    return f"{allocator} with {n} setting{'s' * (n > 1)}"


def _headline_ratios(
    run: Run, picks: Sequence[Pick], whole: Whole
) -> list[tuple[str, float | None]]:
    """Return label and ratio to the baseline of every objective, if a pick costs nothing."""
    pick = first_pick(picks)
    if pick is None or (pick.name != NO_REGRET and len(run.campaign.objectives) > 1):
        return []
    return _ratios(run, pick, whole)


def _ratios(run: Run, pick: Pick, whole: Whole) -> list[tuple[str, float | None]]:
    baseline = default_trials(run.trials).get(run.campaign.baseline)
    if baseline is None:
        return []
    metrics = find_metrics(run.campaign.objectives)
    return [(m.label, seen_ratio(m, pick.trial, baseline, whole)) for m in metrics]


def _is_gain(found: float | None) -> bool:
    return found is not None and found < 1.0 - TIE


def pick_cards(
    run: Run,
    picks: Sequence[Pick],
    whole: Whole,
    summary: ValidationSummary | None = None,
    answer: Recommendation | None = None,
) -> list[PickCard]:
    """Describe what a validation recommends, then the picks, those of the same settings together.

    What `optimize` deploys is shown with the settings that it deploys; what the program rejected
    is last.
    """
    proven = None if answer else _recommended(run, summary)
    grouped: dict[Configuration, list[Pick]] = {}
    for pick in filter(None, (proven, *picks)):
        deployed = answer.configuration if answer and pick.name == RECOMMENDED else None
        grouped.setdefault(deployed or pick.trial.configuration, []).append(pick)
    cards = [_card(run, found, group, whole, summary) for found, group in grouped.items()]
    if answer is not None:
        pairs = zip(cards, grouped, strict=True)
        cards = [_measured(card, found, answer) for card, found in pairs]
    return sorted(cards, key=lambda card: card.reason is not None)


def _measured(card: PickCard, found: Configuration, answer: Recommendation) -> PickCard:
    """Add what `optimize` measured on the program, unless a validation did."""
    label = label_of(found)
    reason = card.reason or answer.turned_down.get(label)
    ran = [(row, *one) for row in answer.rows if row.label == label for one in row.changes.items()]
    real = tuple(
        ChangeText(
            name,
            row.ran,
            signed_percent(gain.change),
            direction(math.exp(-gain.likely)),
        )
        for row, name, gain in ran
    )
    rule = rule_words(card.rule, costs=any(gain.high < 0.0 for _, _, gain in ran))
    return replace(card, rule=rule, real=card.real or real, reason=reason)


def _card(
    run: Run,
    found: Configuration,
    picks: Sequence[Pick],
    whole: Whole,
    summary: ValidationSummary | None,
) -> PickCard:
    trial = measured_trial((picks[0].trial, *run.trials), found)
    baseline = default_trials(run.trials).get(run.campaign.baseline)
    subject = _validated_subject(found, summary) if summary else None
    names = dict.fromkeys((*run.campaign.objectives, "mean_heap", "peak_heap", "cost"))
    metrics = find_metrics(names) if trial else ()
    return PickCard(
        tuple(dict.fromkeys(pick.name for pick in picks)),
        rule_words("; ".join(pick.rule for pick in picks), costs=_costs(subject)),
        (trial or picks[0].trial).number,
        found.allocator,
        tuple((name, show_value(value)) for name, value in found.settings),
        tuple(_change(metric, trial, baseline, whole) for metric in metrics if trial),
        tuple(_real_change(claim) for claim in subject.claims) if subject else (),
        subject.reason if subject else None,
    )


def _costs(subject: SubjectSummary | None) -> bool:
    """Return whether the program has clearly more of an objective."""
    seen = (one.real_ratio.interval for one in subject.claims if one.real_ratio) if subject else ()
    return any(found.low > 1.0 for found in seen if found)


def _real_change(claim: Claim) -> ChangeText:
    found = claim.real_ratio.median if claim.real_ratio else None
    label = REAL[claim.metric].label
    return ChangeText(label, claim.verdict.value, show_change(found), direction(found))


def _change(metric: Metric, trial: Trial, baseline: Trial | None, whole: Whole) -> ChangeText:
    value = metric.value(trial.measurement)
    found = seen_ratio(metric, trial, baseline, whole) if baseline else None
    of = "of the program" if metric.name in whole else ""
    shown = show_metric(metric, value)
    return ChangeText(metric.label, shown, show_expected(found), direction(found), of)


def direction(found: float | None) -> str:
    """Return ``better``, ``worse`` or ``same`` for a ratio of a minimised metric."""
    if found is None:
        return ""
    return "same" if found == 1.0 else "better" if found < 1.0 else "worse"


# How it was measured

Facts = list[tuple[str, str]]
"""Names and values, in the order of the page."""


def measured_facts(run: Run, *, is_over: bool = False) -> list[tuple[str, Facts]]:
    """Return the facts about a campaign, in titled groups; `is_over`: it does not go on."""
    return [
        ("Program", _program_facts(run)),
        ("Emulation", _emulation_facts(run)),
        ("Search", _search_facts(run, is_over=is_over)),
        ("Machine", _machine_facts(run)),
        ("Versions", _version_facts(run)),
    ]


def _program_facts(run: Run) -> Facts:
    campaign = run.campaign
    facts = [
        ("trace", PurePath(campaign.trace_path).name),
        ("sha256 of the trace", campaign.trace_sha256[:16] + "\N{HORIZONTAL ELLIPSIS}"),
    ]
    facts += [
        ("and the trace", f"{PurePath(further.path).name}, sha256 {further.sha256[:16]}")
        for further in campaign.workload.further
    ]
    if campaign.workload.n_events is not None:
        facts.append(("events", f"{campaign.workload.n_events:,}"))
    if campaign.brought_allocator is not None:
        brought = f"{campaign.brought_allocator}; here, glibc is the C library's malloc instead"
        facts.append(("allocator of the program", brought))
    facts += [
        ("careful" if number else "workload", note)
        for number, note in enumerate(campaign.workload.notes)
    ]
    measured = next((t.measurement for t in run.trials if t.measurement), None)
    if measured:
        facts.append(("peak live bytes", show_size(measured.value("peak_live"))))
    return facts


def _emulation_facts(run: Run) -> Facts:
    facts = [
        (_EMULATION_LABELS.get(name, _words(name)), _EMULATION_TEXTS.get(value, _text(value)))
        for name, value in asdict(run.campaign.emulation).items()
    ]
    prices = run.campaign.calibration
    if prices is not None:
        times = "\N{MULTIPLICATION SIGN}"
        faults = f"{prices.c_fault:,.0f} {times} page faults"
        syscalls = f"{prices.c_syscall:,.0f} {times} memory system calls"
        pages = f"{prices.c_page:,.0f} {times} pages of huge ones"
        facts.append(("cost", f"instructions + {faults} + {pages} + {syscalls}"))
    facts.append(("repeatability", _repeatability(run)))
    return facts


_EMULATION_LABELS = {"thp": "transparent huge pages"}
_EMULATION_TEXTS = {"keep": "as the machine has them"}


def _repeatability(run: Run) -> str:
    again = run.remeasured()
    if not again:
        return "the front was not measured again"
    worst = []
    for metric in find_metrics(run.campaign.objectives):
        differences = [
            abs(found - 1.0)
            for number, measurements in again.items()
            for measurement in measurements
            if (
                found := ratio(
                    metric.value(measurement), metric.value(run.trial(number).measurement)
                )
            )
            is not None
        ]
        if differences:
            worst.append(f"{metric.label} {show_percent(max(differences), 2)}")
    n = sum(map(len, again.values()))
    return f"{n} re-measurements of {len(again)} configurations; greatest difference: " + series(
        worst or ["unknown"]
    )


def _search_facts(run: Run, *, is_over: bool) -> Facts:
    campaign = run.campaign
    failures = count_failures(run.trials)
    is_short = is_over and campaign.status == INTERRUPTED
    status = "ended when its time was up" if is_short else campaign.status
    facts = [
        ("objectives", series([column.label for column in find_metrics(campaign.objectives)])),
        ("constraints", "; ".join(constraint_words(run)) or "none"),
        ("strategy", f"{campaign.strategy}, population {campaign.population}, {campaign.search}"),
        ("seed", str(campaign.seed)),
        ("evaluated", f"{len(run.trials)} of {campaign.budget} distinct configurations"),
        ("status", f"{status}, started {campaign.created_at[:16].replace('T', ' ')} UTC"),
        ("not usable", ", ".join(f"{n} {_words(kind)}" for kind, n in failures.items()) or "none"),
    ]
    n_retried = sum(not one.reason.endswith(MAY_NOT_REPEAT) for one in run.incidents)
    if n_retried:
        facts.append(("retried after a failure of the machine", str(n_retried)))
    return facts


def failure_reasons(run: Run) -> list[tuple[str, int]]:
    """Return the five most frequent reasons of failure with their counts."""
    reasons = Counter(f"{_words(t.status)}: {t.reason}" for t in run.trials if t.has_failed)
    return reasons.most_common(5)


_MACHINE_LABELS = {
    "cpu_model": "processor",
    "n_cpus": "cores online",
    "memory_bytes": "memory",
    "page_bytes": "page size",
    "thp": "transparent huge pages",
    "thp_defrag": "their defragmentation",
    "aslr": "address space randomisation",
    "max_map_count": "vm.max_map_count",
    "libc": "C library",
}
_LEFT_OUT = ("perf_event_paranoid", "ptrace_scope", "seccomp", "cpus_allowed")
"""Facts on which instruments work, not on what they measure."""


def _machine_facts(run: Run) -> Facts:
    facts = []
    machine = run.campaign.machine
    for name, value in asdict(machine).items() if machine else ():
        if name not in _LEFT_OUT and value is not None:
            shown = show_size(value) if name.endswith("_bytes") else _text(value)
            facts.append((_MACHINE_LABELS.get(name, _words(name)), shown))
    return facts


def _version_facts(run: Run) -> Facts:
    facts = [
        (name, f"{record.version}, {record.library or 'the C library itself'}")
        for name, record in run.campaign.allocators.items()
    ]
    return facts + [(_words(name), version) for name, version in run.campaign.versions.items()]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:  # noqa: ANN401 - what JSON holds
    if value is None:
        return MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def commands(
    run: Run, *, is_proven: bool = False, can_export: bool = True
) -> list[tuple[str, str]]:
    """Return what each command does and the command, to do it again or to go on.

    Args:
        run: the campaign.
        is_proven: `optimize` has run the program already.
        can_export: `export` takes the run without the name of a point.
    """
    folder = shlex.quote(str(run.folder))
    campaign = shlex.quote(str(run.folder / "campaign.toml"))
    best, *others = run.campaign.objectives
    bound = f" --max {others[0]}=+1%" if others else ""
    prove = f"malloc-tuner validate {folder} -- PROGRAM ARGUMENTS"
    return [
        ("search again, same seed", f"malloc-tuner tune {campaign} -o NEW-RUN"),
        ("choose a point", f"malloc-tuner pick {folder} --best {best}{bound}"),
        *([] if is_proven else [("prove it on the program", prove)]),
        *([("deploy it", f"malloc-tuner export {folder} -o malloc.env")] if can_export else []),
    ]
