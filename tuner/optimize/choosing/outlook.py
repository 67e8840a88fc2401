"""What the time that is given can show, said before anything runs.

How much the program's CPU time varies is not known yet, so the usual noise is assumed; the
confirmation says it again with what was measured.  Memory of most programs repeats itself, so a
few runs settle it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tuner.optimize.choosing.selection import Budget
from tuner.optimize.proof.evidence import showable_gain
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.noise import USUAL_NOISE
from tuner.optimize.quantities import CPU
from tuner.units import show_percent

FEWEST_RUNS: Final = 5
"""Runs that the time must allow for anything but a proposal."""

_CANDIDATES: Final = 2
"""Of a confirmation, as a rule."""


def outlook_words(seconds: float, run_s: float, rules: Rules, share_of_search: float) -> str:
    """Return about how small a gain of CPU time can be that the time given will show.

    The runs are those of the whole time: how much the first ones, the recording and emulation
    take of it is not known yet.

    Args:
        seconds: given.
        run_s: of one run of the program, its start included, above 0.
        rules: what counts.
        share_of_search: of the time, that goes to other things than selection and confirmation.

    Example:
        >>> head, _, words = outlook_words(300.0, 3.0, Rules(), 0.325).partition(": ")
        >>> head
        'up to 67 runs of 3.0 s'
        >>> words
        'gains in CPU time show from 4.8 % on, if it varies by 3 %; in memory within a few runs'
        >>> outlook_words(120.0, 3.0, Rules(), 0.325)
        'up to 27 runs of 3.0 s: perhaps too few for CPU time; memory that repeats can be settled'
        >>> outlook_words(5.0, 20.0, Rules(), 0.325)
        'up to 0 runs of 20.0 s: too few to settle anything; give it more --time'
    """
    n_runs = int((1.0 - share_of_search) * seconds / run_s)
    n_rounds = (n_runs - Budget.of(n_runs).n_runs) // (_CANDIDATES + 1)
    gain = showable_gains(rules, {CPU: USUAL_NOISE}, n_rounds, _CANDIDATES)[CPU]
    head = f"up to {n_runs} run{'s'[: n_runs != 1]} of {_seconds_words(run_s)}"
    if n_runs < FEWEST_RUNS:
        return f"{head}: too few to settle anything; give it more --time"
    if math.isinf(gain):
        return f"{head}: perhaps too few for CPU time; memory that repeats can be settled"
    noise = show_percent(USUAL_NOISE, 0)
    return (
        f"{head}: gains in CPU time show from {show_percent(gain)} on, if it varies by {noise}; "
        "in memory within a few runs"
    )


def showable_gains(
    rules: Rules, noise: Mapping[str, float], n_rounds: int, n_candidates: float
) -> dict[str, float]:
    """Return what candidates must gain beyond the threshold of a goal for about half to show it.

    Args:
        rules: what counts.
        noise: quantity -> standard deviation of the logarithm of one run.
        n_rounds: that there is time for.
        n_candidates: that share the error, at least 1.

    Returns:
        Quantity -> share, ``inf`` where there is no time for any; see `evidence.showable_gain`.
    """
    error = rules.error_of_gain(n_candidates)
    return {name: showable_gain(one, n_rounds, error) for name, one in noise.items()}


def _seconds_words(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{1000.0 * seconds:.0f} ms"
