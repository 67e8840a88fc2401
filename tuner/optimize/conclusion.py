"""From what the runs prove to the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tuner.compare.plan import Course
from tuner.optimize.ablation import effects_of
from tuner.optimize.answer import Answer, Decision, label_of, open_words, rows_of
from tuner.optimize.candidates import Selected
from tuner.optimize.confirmation import Confirmed
from tuner.optimize.counted import change_of_work, disagreement
from tuner.optimize.evidence import rounds_for
from tuner.optimize.judgement import Gain, Standing, State
from tuner.optimize.proposals import Proposal, score, spread_of
from tuner.optimize.quantities import TABLE
from tuner.optimize.selection import noise_of
from tuner.optimize.tuned import AS_IS, Reference, Sample, growth_of, values_of
from tuner.optimize.work import Work, run_seconds
from tuner.records import Configuration


class Conclusion:
    """Answers."""

    def __init__(self, work: Work, reference: Reference, as_is: str) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            reference: the program as it is.
            as_is: its allocator.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._as_is = as_is

    def nothing_near(self, selected: Selected) -> Answer:
        """Return that nothing came near enough to be confirmed."""
        return self._answer(Decision.KEEP, None, selected)

    def conclude(self, selected: Selected | None, confirmed: Confirmed) -> Answer:
        """Return what the confirmation proves."""
        if confirmed.best is None:
            return self._undecided_or_keep(selected, confirmed)
        best, held_out = confirmed.best, confirmed.held_out
        if held_out is not None and held_out.worse:
            bad = ", ".join(
                f"{name} {100.0 * held_out.gains[name].change:+.1f} %" for name in held_out.worse
            )
            reason = f"{best.label} gains on the tuned input, but on the held-out one: {bad}."
            answer = self._answer(Decision.KEEP, best, selected, confirmed)
            return replace(answer, reasons=(reason, *answer.reasons))
        answer = self._answer(Decision.DEPLOY, best, selected, confirmed)
        found = effects_of(self._work, self._reference, confirmed.chosen[best.label])
        return replace(
            answer,
            held_out=held_out.gains if held_out else None,
            effects=tuple((one.setting, one.gains, one.is_needless) for one in found),
        )

    def proposal_only(self, proposals: Sequence[Proposal], n_wanted: int) -> Answer:
        """Return what emulation proposes, where the time allows fewer runs than wanted."""
        near = spread_of(proposals, self._rules, len(proposals))
        ranked = sorted(near, key=lambda p: score(p.expected, self._rules))
        label = label_of(ranked[0].configuration) if ranked else ""
        words = f"there is time for no more than {n_wanted - 1} runs of the program"
        proposed = (f"Emulation proposes {label}, which no run has confirmed.",) if label else ()
        answer = self._answer(Decision.UNDECIDED, None)
        return replace(
            answer,
            reasons=(*proposed, *answer.reasons),
            missing=words,
            more_seconds=4.0 * n_wanted * run_seconds(self._reference),
        )

    def _undecided_or_keep(self, selected: Selected | None, confirmed: Confirmed) -> Answer:
        found = confirmed.standings
        still_open = [one for one in found.values() if one.state is State.OPEN]
        if not still_open:
            nearest = max(found.values(), key=lambda one: one.score(self._rules))
            return self._answer(Decision.KEEP, nearest, selected, confirmed)
        nearest = max(still_open, key=lambda one: one.score(self._rules))
        answer = self._answer(Decision.UNDECIDED, nearest, selected, confirmed)
        n_runs = self._rounds_left(nearest, confirmed) * (len(confirmed.chosen) + 1)
        more_s = n_runs * run_seconds(self._reference)
        return replace(answer, missing=open_words(nearest), more_seconds=more_s)

    def _rounds_left(self, nearest: Standing, confirmed: Confirmed) -> int:
        """Return how many rounds more may settle what is open of a candidate."""
        rules = self._rules
        error = rules.error / len(confirmed.chosen)
        base = values_of(confirmed.course, AS_IS)
        open_names = nearest.unsure or rules.goals
        wanted = 0
        for name in (name for name in open_names if name in base):
            noise = noise_of(base[name], has_floor=not TABLE[name].is_memory)
            limit = rules.margin(name) if nearest.unsure else -rules.threshold(name)
            distance = abs(nearest.gains[name].middle + limit)
            wanted = max(wanted, rounds_for(max(distance, rules.least), noise, error))
        return max(1, wanted - nearest.n_rounds)

    def _answer(
        self,
        decision: Decision,
        best: Standing | None,
        selected: Selected | None = None,
        confirmed: Confirmed | None = None,
    ) -> Answer:
        label = best.label if best else ""
        chosen: Mapping[str, Configuration] = confirmed.chosen if confirmed else {}
        found = list(confirmed.standings.values()) if confirmed else []
        singles: Mapping[str, Mapping[str, Gain]] = selected.changes if selected else {}
        counted = None
        if best is not None and label in chosen and best.n_rounds:
            counted = change_of_work(self._work, self._reference, label, chosen)
        note = disagreement(best.gains, counted, self._rules) if best else None
        return Answer(
            decision=decision,
            configuration=chosen.get(label),
            label=label,
            as_is=self._as_is,
            baseline=self._reference.values,
            rules=self._rules,
            standing=best,
            rows=rows_of(label, found, singles, selected.failures if selected else {}),
            n_runs=self._work.n_runs,
            seconds=self._work.watch.used_s,
            trial=self._work.trials.get(label),
            command=self._work.tuned.command,
            date=datetime.now(UTC).date().isoformat(),
            reasons=(*([note] if note else []), *self._reference.notes),
            counted=counted,
            noise=_noise(confirmed.course) if confirmed else {},
            growth=_growth(confirmed) if confirmed else {},
            given_s=self._work.watch.seconds,
        )


def _growth(confirmed: Confirmed) -> dict[str, float]:
    """Return how much each subject grew under load, where that was measured."""
    found = {label: growth_of(confirmed.course, label) for label in (AS_IS, *confirmed.standings)}
    return {label: value for label, value in found.items() if value is not None}


def _noise(course: Course[None, Sample]) -> dict[str, float]:
    """Return how much the program as it is varies from run to run."""
    return {
        name: noise_of(values, has_floor=False) for name, values in values_of(course, AS_IS).items()
    }
