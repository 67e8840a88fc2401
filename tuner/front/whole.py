"""What a change of the heap is for the whole program: shares of its memory and CPU time.

While a program is recorded, or measured by `optimize`, its anonymous memory, peak and mean, and
its CPU time are taken, as validations take them; of older recordings the peak of resident memory is
known, files included.  What it has beyond the heap that emulation sees, and beyond the allocator's
work, stays when settings change, so a change is divided by the whole.  Recorded figures hold the
recorder's own memory and time, so that shares are rather too small than too large.

A share is never greater than that of the heap or the allocator alone, and no change takes away
more than all there is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tuner.front.bounds import default_trials
from tuner.metrics import METRICS, Metric
from tuner.records import Measurement, Trial
from tuner.store import CampaignRecord

_MEAN, _PEAK, _COST = "mean_heap", "peak_heap", "cost"

OF_A_PROGRAM: Final = (_PEAK, _MEAN, _COST)
"""Metrics of which the whole program's may be known."""

ALL_OF_IT: Final = "at least all of it"
"""What an expected ratio of 0 reads as, the least that there is."""

USUAL_NS_PER_INSTRUCTION: Final = 0.3
"""For prices that were measured before this one was."""

Whole = Mapping[str, float]
"""Metric -> how much of it the whole program has under a baseline, in the unit of the metric;
nothing of what is not known."""


def ns_per_instruction(record: CampaignRecord) -> float:
    """Return the CPU time of an instruction of the allocator."""
    return record.prices.ns_per_instruction or USUAL_NS_PER_INSTRUCTION


def whole_program(record: CampaignRecord, trials: Iterable[Trial], baseline: Trial | None) -> Whole:
    """Return what the whole program has of memory and work under a baseline.

    Args:
        record: the campaign.
        trials: of it, any status.
        baseline: the trial that others are compared with; None where it was not measured.
    """
    if baseline is None or baseline.measurement is None:
        return {}
    defaults = default_trials(trials)
    brought = record.brought_allocator or "glibc"
    recorded = next((trial for name, trial in defaults.items() if name in brought), baseline)
    program, reference = dict(record.workload.program), recorded.measurement
    return whole_of(record, program, baseline.measurement, reference or baseline.measurement)


def whole_of(
    record: CampaignRecord, program: Whole, baseline: Measurement, reference: Measurement
) -> Whole:
    """Return what a recorded program has under a baseline.

    Args:
        record: the campaign, for its prices.
        program: what it used while it was recorded, CPU time in ns; empty where not known.
        baseline: emulated.
        reference: emulated, of the allocator that it was recorded with.
    """
    found = {
        _PEAK: program.get(_PEAK) or _other(_PEAK, _MEAN, program, reference),
        _MEAN: program.get(_MEAN) or _other(_MEAN, _PEAK, program, reference),
        _COST: program[_COST] / ns_per_instruction(record) if _COST in program else None,
    }
    whole = {}
    for name, value in found.items():
        mine = METRICS[name].value(baseline)
        theirs = METRICS[name].value(reference)
        if value is not None and mine is not None and theirs is not None:
            whole[name] = max(value + mine - theirs, mine)
    return whole


def campaign_whole(record: CampaignRecord, trials: Iterable[Trial]) -> Whole:
    """Return the same under the default of the campaign's baseline."""
    trials = list(trials)
    return whole_program(record, trials, default_trials(trials).get(record.baseline))


def expected_ratio(
    whole: Whole, name: str, value: float | None, baseline: float | None
) -> float | None:
    """Return what is expected of the whole program, relative to the baseline.

    Args:
        whole: of `whole_program`.
        name: of the metric.
        value: emulated, of what is compared.
        baseline: emulated, of the baseline.

    Returns:
        At least 0, which says that emulation saves as much as this program uses, or more: it
        is another program, or a smaller input, or prices are too high.  None where one of the
        figures is not known.
    """
    if value is None or baseline is None or not whole.get(name):
        return None
    return max(0.0, 1.0 + (value - baseline) / whole[name])


def expected_words(ratio: float, show: Callable[[float], str]) -> str:
    """Return an expected ratio as a reader has it.

    Args:
        ratio: of `expected_ratio`.
        show: writes a ratio as a change.
    """
    return ALL_OF_IT if ratio == 0.0 else show(ratio)


def seen_ratio(metric: Metric, trial: Trial, baseline: Trial, whole: Whole) -> float | None:
    """Return the ratio to the baseline: of the whole program where that is known."""
    value, base = metric.value(trial.measurement), metric.value(baseline.measurement)
    return expected_ratio({metric.name: base or 0.0, **whole}, metric.name, value, base)


def _other(name: str, known: str, program: Whole, reference: Measurement) -> float | None:
    """Return one of peak and mean: that of the heap, and all that the other has beyond its heap."""
    whole, heap = program.get(known), METRICS[known].value(reference)
    mine = METRICS[name].value(reference)
    if whole is None or heap is None or mine is None:
        return None
    return mine + max(0.0, whole - heap)
