"""A program whose memory falls where jemalloc does not cache, to search settings with."""

import math
import random
from collections.abc import Mapping, Sequence

from tests.doubles.clock import Clock
from tests.doubles.synthetic import PARTS
from tuner.compare.plan import Step
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import Reference, Runs, Sample
from tuner.records import Configuration, Outcome, Status
from tuner.space import Space, joint_space

USES = {MEAN: 100e6, PEAK: 120e6, CPU: 1e9}
REFERENCE = Reference(("app",), USES, 0, None, None, wall_s=1.0, timeout_s=30.0)


class App:
    """Its memory falls by a tenth without jemalloc's cache; nothing else that is set matters."""

    command = ("app",)

    def __init__(
        self,
        clock: Clock,
        *,
        missing: str = "",
        fails: Configuration | None = None,
        refused: str = "",
        flaky: bool = False,
        known: tuple[Configuration, ...] = (),
        slower: float = 1.0,
        lucky: str = "",
        luck: float = 0.95,
        quick: str = "",
        noise: float = 0.0,
        peaks: float | None = None,
        low_peaks: float = 0.0,
        undelayed: float = 1.0,
    ) -> None:
        self.known = known
        self._undelayed = undelayed
        """Of the mean, where jemalloc's decay is 0."""
        self._peaks = peaks
        """Of the peak, without jemalloc's cache and without slack; memory then repeats itself."""
        self._low_peaks = low_peaks
        """How likely such a peak is 1 % below that of the program as it is instead."""
        self._noise = noise
        self._random = random.Random(1)
        self._quick = quick
        self._lucky = lucky
        self._luck = luck
        self._slower = slower
        self._clock = clock
        self._missing, self._fails = missing, fails
        self._flaky = flaky
        """No setting runs a second time."""
        self._refused = refused
        self.ran: list[str] = []

    def refusal(self, configuration: Configuration) -> str | None:
        return "refused" if self._refused in configuration.as_dict else None

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        def run(step: Step[None]) -> Outcome[Sample]:
            self.ran.append(step.subject)
            self._clock.now_s += 1.0
            configuration = candidates.get(step.subject, Configuration("glibc"))
            if self._flaky and step.subject in candidates and self.ran.count(step.subject) > 1:
                return Outcome.did_not_succeed(Status.FAILED, "crashed")
            if configuration.allocator == self._missing or configuration == self._fails:
                return Outcome.did_not_succeed(Status.FAILED, "not loaded")
            noise = 1.0 + 0.001 * ((len(self.ran) * 7) % 5)
            is_cached = configuration.as_dict.get("cache") is not False
            share = dict.fromkeys(reference.values, 1.0 if is_cached else 0.9)
            share[CPU] *= 1.0 if is_cached else self._slower
            share[MEAN] *= self._undelayed if configuration.as_dict.get("decay") == 0 else 1.0
            share[CPU] *= 0.9 if step.subject == self._quick else 1.0
            share[CPU] *= math.exp(self._noise * self._random.gauss(0.0, 1.0))
            share[MEAN] *= self._luck if step.subject == self._lucky else 1.0
            if self._peaks is not None:
                is_high = not is_cached and "slack" not in configuration.as_dict
                is_low = self._random.random() < self._low_peaks
                share[PEAK] = (0.99 if is_low else self._peaks) if is_high else 1.0
                share[MEAN], share[PEAK] = share[MEAN] / noise, share[PEAK] / noise
            return Outcome.succeeded({n: v * noise * share[n] for n, v in reference.values.items()})

        return run


def make_space(names: Sequence[str]) -> Space:
    return joint_space({name: PARTS[name] for name in names})
