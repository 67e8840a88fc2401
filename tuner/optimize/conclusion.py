"""From what the runs prove to the answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from tuner.optimize.answering.answer import (
    EARLY,
    MOST_ADVISED_S,
    Answer,
    Decision,
    minutes_words,
    no_worse_words,
    open_words,
    rows_of,
)
from tuner.optimize.answering.recommendation import recommended_before
from tuner.optimize.answering.table import (
    TURNED_DOWN,
    AnswerRow,
    gain_words,
    limit_words,
    loss_words,
)
from tuner.optimize.answering.turned_down import TurnedDown, constraint, turned_down
from tuner.optimize.choosing.outlook import showable_gains
from tuner.optimize.choosing.proposals import Proposal, score, spread_of
from tuner.optimize.choosing.selected import Selected
from tuner.optimize.choosing.selection import ROUND_OF_SELECTION
from tuner.optimize.confirming.confirmation import Confirmed
from tuner.optimize.confirming.held_out import HeldOutStanding
from tuner.optimize.confirming.race import standings
from tuner.optimize.kinds.counted import changes_of_work, counted_words, disagreement
from tuner.optimize.proof.duets import n_at_once, n_duets
from tuner.optimize.proof.evidence import fewest_rounds, rounds_for
from tuner.optimize.proof.judgement import Gain, Standing, State
from tuner.optimize.proof.noise import RUNS_TO_KNOW, noise_as_it_is, noise_in_rounds
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Reference, growth_of, label_of
from tuner.optimize.work import FIRST_RUNS, Work
from tuner.page import series
from tuner.records import Configuration
from tuner.units import show_percent

_MUCH_UNSEEN = 1.5
"""Times the least effect, from which it is said that smaller gains do not show."""

_BEYOND = 0.5
"""Times the least effect, that the time must hide: no time shows less than what counts, which of a
small program is more than the least effect."""

_BY_TWICE = 1.0 - 1.0 / math.sqrt(2.0)
"""Of what a time hides, that twice as much of it shows: no more is advised for less than counts."""

_MOST_TO_ALLOW = 5.0
"""Times the least effect: a constraint that allows more is not proposed."""

_RUNS_TO_CONFIRM = 28
"""Of a candidate and the program as it is, as a rule."""

_FOR_RUNS = 0.6
"""Of the time of a call; the rest is for emulation, which goes on where nothing was chosen yet."""

_ANEW = "more --time, here or with a new -o,"
"""Shows smaller gains where no candidate is left, so that the same folder goes no further."""


class Conclusion:
    """Answers."""

    def __init__(self, work: Work, reference: Reference, *, most_rounds: int | None = None) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            reference: the program as it is.
            most_rounds: that are made, whatever time they take; None: time is what is given.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._most_rounds = most_rounds

    def nothing_near(self, selected: Selected) -> Answer:
        """Return that nothing came near enough to be confirmed, as far as there was time to see."""
        if self._may_run(selected):
            return self._not_all_ran(selected, self._answer(Decision.UNDECIDED, None, selected))
        answer = self._answer(Decision.KEEP, None, selected)
        remedy = _ANEW if selected.may_show else ""
        unseen = self._unseen(self._showable_of_few(selected), remedy)
        return replace(answer, reasons=(*self._not_run(selected), *unseen, *answer.reasons))

    def _may_run(self, selected: Selected | None) -> bool:
        """Return whether promising settings never ran, and do with more time here."""
        work = self._work
        is_over = work.request.is_direct and work.is_chosen  # nothing is searched beside it
        is_closed = is_over or work.is_settled or work.is_explored or work.has_no_more_confirmations
        return selected is not None and selected.n_untried > 0 and not is_closed

    def _not_all_ran(self, selected: Selected, answer: Answer) -> Answer:
        words = f"{_ran_words(selected)}, and none gains enough"
        n_runs = selected.n_untried + -(-selected.n_untried // ROUND_OF_SELECTION)
        more_s = n_runs * self._work.run_seconds(self._reference)
        return replace(answer, missing=words, more_seconds=more_s)

    def conclude(self, selected: Selected | None, confirmed: Confirmed) -> Answer:
        """Return what the confirmation proves."""
        given = self._work.request.given
        held_back = confirmed.held_back.items()
        back = (_turned_down_words(label, one, given) for label, one in held_back)
        answer = self._concluded(selected, confirmed)
        return replace(answer, reasons=(*back, *answer.reasons))

    def _concluded(self, selected: Selected | None, confirmed: Confirmed) -> Answer:
        best, held_out = confirmed.best, confirmed.held_out
        if best is None or (held_out is not None and held_out.is_bad):
            return self._undecided_or_keep(selected, confirmed)
        given = self._work.request.given
        if held_out is not None and held_out.doubtful:
            answer = self._answer(Decision.UNDECIDED, best, selected, confirmed)
            return replace(
                answer,
                reasons=(_doubt_words(best, held_out, given), *answer.reasons),
                held_out=held_out.gains,
                missing=f"whether {no_worse_words(held_out.doubtful)} with the held-out {given}",
                more_seconds=held_out.more_seconds,
            )
        answer = self._answer(Decision.DEPLOY, best, selected, confirmed)
        where = f" with the tuned {given}" if held_out else ""
        labels = selected.labels if selected and answer.trial is not None else {}
        tried = next((name for name, one in labels.items() if one.trial == answer.trial), "")
        left_out = tuple(confirmed.left_out)
        return replace(
            answer,
            reasons=(
                *self._greater(best, confirmed),
                *self._as_proven(best, confirmed),
                *self._scaled(best, where),
                *counted_words(best),
                *self._not_run(selected),
                *answer.reasons,
            ),
            held_out=held_out.gains if held_out else None,
            effects=tuple((one.setting, one.gains, one.is_needless) for one in confirmed.effects),
            left_out=left_out,
            dropped=tuple(s for s in tried.split() if s not in {*best.label.split(), *left_out}),
            traded=confirmed.traded,
        )

    def proposal_only(self, proposals: Sequence[Proposal], n_wanted: int) -> Answer:
        """Return what emulation proposes, where the time allows fewer runs than wanted."""
        near = spread_of(proposals, self._rules, len(proposals))
        best = min(near, key=lambda p: score(p.expected, self._rules), default=None)
        gains = best is not None and score(best.expected, self._rules) < 0.0
        label = label_of(best.configuration) if best and gains else ""
        words = f"what is left of the time allows fewer than {n_wanted} runs of the program"
        proposed = (f"Emulation proposes {label}, which no run has confirmed.",) if label else ()
        answer = self._answer(Decision.UNDECIDED, None)
        n_runs = max(n_wanted, len(self._work.request.allocators)) + _RUNS_TO_CONFIRM
        return replace(
            answer,
            reasons=(*proposed, *answer.reasons),
            missing=words,
            more_seconds=n_runs * self._work.run_seconds(self._reference) / _FOR_RUNS,
        )

    def _undecided_or_keep(self, selected: Selected | None, confirmed: Confirmed) -> Answer:
        back = [confirmed.standings[label] for label in confirmed.held_back]
        found = {n: one for n, one in confirmed.standings.items() if n not in confirmed.held_back}
        still_open = [one for one in found.values() if self._is_open(one)]
        if selected and self._may_run(selected) and not still_open:
            answer = self._answer(Decision.UNDECIDED, None, selected, confirmed)
            return self._not_all_ran(selected, answer)
        if confirmed.not_run and not still_open:
            answer = self._answer(Decision.UNDECIDED, None, selected, confirmed)
            return self._reserve_open(confirmed, answer)
        if back and not still_open:
            return self._answer(Decision.KEEP, back[0], selected, confirmed)
        if not still_open:
            nearest = max(found.values(), key=self._nearness)
            answer = self._answer(Decision.KEEP, nearest, selected, confirmed)
            few = self._showable_of_few(selected) if selected else {}
            unseen = self._unseen(self._showable(confirmed) or few, self._remedy(confirmed))
            return replace(answer, reasons=(*self._not_run(selected), *unseen, *answer.reasons))
        nearest = max(still_open, key=self._nearness)
        answer = self._answer(Decision.UNDECIDED, nearest, selected, confirmed)
        n_runs = self._rounds_left(nearest, confirmed) * (len(still_open) + 1)
        more_s = max(1.0, n_runs * self._work.run_seconds(self._reference))
        known = (*self._lost_so_far(nearest), *self._sooner(nearest))
        answer = replace(answer, reasons=(*known, *answer.reasons))
        return replace(answer, missing=open_words(nearest), more_seconds=more_s)

    def _reserve_open(self, confirmed: Confirmed, answer: Answer) -> Answer:
        """Return an answer that is open since there was no time left for the next candidate."""
        n_rounds = max(RUNS_TO_KNOW, fewest_rounds(self._rules.error / confirmed.n_claims))
        return replace(
            answer,
            missing=f"whether {confirmed.not_run[0]} gains enough, which no time was left to run",
            more_seconds=2 * n_rounds * self._work.run_seconds(self._reference),
        )

    def _remedy(self, confirmed: Confirmed) -> str:
        """Return what would run more, by the rule that ends a race; nothing where nothing would.

        By the time of all calls: an answer that is asked for again stays.
        """
        given_s = max(self._work.longest_s, self._work.watch.seconds)
        round_s = (1 + len(confirmed.chosen)) * self._work.run_seconds(self._reference)
        course = confirmed.course.first(confirmed.course.n_rounds)  # nobody has left
        for more in (2, 4, 8, 16, 32):
            if more * given_s > MOST_ADVISED_S:
                return ""
            found = standings(
                course, list(confirmed.chosen), self._rules, confirmed.n_claims,
                more * given_s / round_s, counted=confirmed.counted,
                varying=self._work.varying,
            )  # fmt: skip
            is_wanted = (one.state is State.OPEN for one in found.values())
            if confirmed.course.samples and any(is_wanted):
                return f"`--time {minutes_words(more * given_s).replace(' ', '')}` here"
        return "" if self._work.used_s < EARLY * given_s else _ANEW

    def _nearness(self, one: Standing) -> tuple[float, float]:
        """Return what a candidate gains for sure, then as seen: few rounds show mostly luck."""
        return one.sure_score(self._rules), one.score(self._rules)

    def _not_run(self, selected: Selected | None) -> tuple[str, ...]:
        """Say what the time was too short to try: a decided answer stays, but for a longer one."""
        if selected is None or not selected.n_untried:
            return ()
        return (f"{_ran_words(selected)}; a longer --time tries more.",)

    def _scaled(self, best: Standing, where: str) -> Iterator[str]:
        """Say which guards hold only within what the program as it is varies by."""
        for name, share in best.scaled.items():
            lost = min(share, math.expm1(-best.gains[name].low))
            limit = math.expm1(self._rules.margin(name))
            if round(lost - limit, 3) <= 0.0:  # its bounds, as shown, say by now that it holds
                continue
            yield (
                f"{name[0].upper()}{name[1:]} varies from run to run as it is: it is proven at "
                f"most {show_percent(lost)} worse{where}, and the middle of the rounds is within "
                f"{100.0 * limit:.3g} %; `--constraint` sets a limit that always holds."
            )

    def _lost_so_far(self, nearest: Standing) -> tuple[str, ...]:
        """Say which open guards the rounds so far speak against."""
        gains, margin = nearest.gains, self._rules.margin
        lost = [name for name in nearest.unsure if gains[name].middle < -margin(name)]
        if not lost or not nearest.n_rounds:
            return ()
        words = series(f"{name}{limit_words(math.expm1(margin(name)))}" for name in lost)
        verb = "are" if len(lost) > 1 else "is"
        return (f"So far {words} {verb} worse: if that stays so, it is not deployed.",)

    def _sooner(self, nearest: Standing) -> tuple[str, ...]:
        """Say which constraint would settle a gain that is proven, but for guards that are open."""
        lost = self._open_losses(nearest)
        if not self._may_be_allowed(lost):
            return ()
        gains, options = series(nearest.better), self._options(lost)
        return (f"The gain in {gains} is proven; {options} would settle the rest sooner.",)

    def _greater(self, best: Standing, confirmed: Confirmed) -> tuple[str, ...]:
        """Say what gains more than what is deployed, of a candidate whose guards are open."""
        found = self._open_beside(best, confirmed)
        if not found:
            return ()
        one, lost = max(found, key=lambda each: each[0].score(self._rules))
        label, gains = one.label, one.gains
        saved = self._saved(one, best, lost)
        shares = series(f"{show_percent(abs(gains[name].change))} of {name}" for name in saved)
        most = series(_open_loss_words(name, share) for name, share in lost.items())
        words = f"More is open: {label} saves {shares}, but its rounds leave open whether {most}"
        if not self._may_be_allowed(lost):
            return (f"{words}; a longer --time goes on with it.",)
        request = self._work.request
        also = f", if the held-out {request.given} does, too" if request.held_out else ""
        return (f"{words}; {self._options(lost)} would allow it{also}.",)

    def _open_beside(
        self, best: Standing, confirmed: Confirmed
    ) -> list[tuple[Standing, dict[str, float]]]:
        """Return what gains more than the best one, each with its `_open_losses`."""
        found = []
        for label, one in confirmed.standings.items():
            is_out = label in confirmed.held_back or self._broken(one)
            lost = {} if is_out else self._open_losses(one)
            more = one.score(self._rules) - best.score(self._rules)
            worth = self._rules.least, *(lost.values() if self._may_be_allowed(lost) else ())
            if lost and more > max(map(math.log1p, worth)) and self._saved(one, best, lost):
                found.append((one, lost))
        return found

    def _as_proven(self, best: Standing, confirmed: Confirmed) -> tuple[str, ...]:
        """Say why what is proven, too, and seems to gain more, is not what is deployed."""
        more = [
            one
            for one in confirmed.standings.values()
            if one.state is State.CONFIRMED
            and one.label not in confirmed.held_back
            and one.score(self._rules) > best.score(self._rules) + math.log1p(self._rules.least)
        ]
        if not more or confirmed.left_out:  # of which the answer says what it lost
            return ()
        one = max(more, key=lambda each: each.score(self._rules))
        is_surer = best.sure_score(self._rules) > one.sure_score(self._rules)
        why = "is proven to gain less" if is_surer else "has more settings"
        return (f"Proven, too: {one.label}, which seems to gain more than that, but {why}.",)

    def _saved(self, one: Standing, best: Standing, lost: Mapping[str, float]) -> list[str]:
        """Return the goals in which a candidate gains more than the best one, by what counts.

        For sure, where it may lose more than a constraint would be proposed for.
        """
        is_seen = self._may_be_allowed(lost)
        return [
            name
            for name in self._rules.goals
            if (one.gains[name].middle if is_seen else one.gains[name].low)
            - max(0.0, best.gains[name].middle)
            > math.log1p(self._rules.least_of(name))
        ]

    def _open_losses(self, one: Standing) -> dict[str, float]:
        """Return what open guards may lose, a share each, where a gain is proven."""
        if not one.better or one.is_bad:
            return {}
        return {name: math.expm1(max(0.0, -one.gains[name].low)) for name in one.unsure}

    def _may_be_allowed(self, lost: Mapping[str, float]) -> bool:
        """Return whether a constraint would be proposed for what open guards may lose."""
        return bool(lost) and max(lost.values()) <= _MOST_TO_ALLOW * self._rules.least

    def _options(self, lost: Mapping[str, float]) -> str:
        """Return the constraints that allow these losses, as the command takes them."""
        is_service = self._work.request.service is not None
        limits = (constraint(name, lost[name], is_service=is_service) for name in lost)
        return " ".join(f"--constraint '{limit}'" for limit in limits)

    def _is_open(self, standing: Standing) -> bool:
        """Return whether more time may show a gain that seems to be there."""
        if standing.state is State.OPEN:
            return True
        gains, rules = standing.gains, self._rules
        return (
            standing.state is State.OUT_OF_REACH
            and any(gains[goal].middle >= math.log1p(rules.least_of(goal)) for goal in rules.goals)
            and all(gains[name].middle >= -rules.margin(name) for name in rules.guards)
        )

    def _showable(self, confirmed: Confirmed) -> dict[str, float]:
        """Return what the candidates had to gain beyond the threshold of a goal to show it.

        By how much the rounds differ, and no more than half of what they leave open of the
        candidate that they know best.  Nothing where candidates left after too few rounds to know
        that.
        """
        noise = noise_in_rounds(confirmed.course, confirmed.chosen)
        usual = {name: noise[name] for name in self._rules.goals if name in noise}
        if confirmed.counted.keys() >= confirmed.chosen.keys():
            usual.pop(CPU, None)
        in_rounds = Counter(number for number, _, _ in confirmed.course.samples)
        n_in_round = max(in_rounds.values(), default=2)
        found = self._showable_in_all(usual, n_in_round, confirmed.n_claims)
        gains = [one.gains for one in confirmed.standings.values()]
        return {
            name: min(gain, *((one[name].high - one[name].low) / 2 for one in gains if name in one))
            for name, gain in found.items()
        }

    def _showable_of_few(self, selected: Selected) -> dict[str, float]:
        """Return the same by the runs of the selection, for a single candidate.

        In the time of all calls, not in what was left: an answer that is asked for again stays.
        """
        noise = {name: selected.noise[name] for name in selected.beyond}
        return self._showable_in_all(noise, 2, 1)

    def _showable_in_all(
        self, noise: Mapping[str, float], n_in_round: int, n_candidates: float
    ) -> dict[str, float]:
        """Return what shows in rounds of so many runs, of candidates that share the error."""
        n_rounds = self._most_rounds
        if n_rounds is None:
            n_runs = self._work.given_s / self._work.run_seconds(self._reference)
            n_rounds = int(n_runs / n_in_round)
        return showable_gains(self._rules, noise, n_rounds, n_candidates)

    def _unseen(self, beyond: Mapping[str, float], remedy: str) -> tuple[str, ...]:
        """Say which gains would not have shown, if there are such that count.

        Args:
            beyond: goal -> share beyond its threshold, less than which does not show.
            remedy: what shows smaller ones; empty where nothing would run.
        """
        rules = self._rules
        least = {name: math.expm1(rules.threshold(name)) + gain for name, gain in beyond.items()}
        hidden = {
            n: gain
            for n, gain in least.items()
            if gain >= _MUCH_UNSEEN * rules.least and beyond[n] >= _BEYOND * rules.least
        }
        lack, given = "The time was too short", "the time given"
        if self._most_rounds is not None:
            lack, given = "There were too few --rounds", f"{self._most_rounds} rounds"
            remedy = "a higher --rounds"
        if math.inf in hidden.values():
            return (f"{lack} to show any gain of {' or '.join(hidden)}.",)
        if not hidden:
            return ()
        gains = " or ".join(f"{n} below {show_percent(gain)}" for n, gain in hidden.items())
        shown = f"A gain of {gains} does not show in {given}"
        is_worth_it = any(_BY_TWICE * beyond[name] >= rules.least for name in hidden)
        is_advised = remedy and is_worth_it
        return (f"{shown}; {remedy} shows smaller ones." if is_advised else f"{shown}.",)

    def _rounds_left(self, nearest: Standing, confirmed: Confirmed) -> int:
        """Return how many rounds more may settle what is open of a candidate.

        All guards that are open must hold, and of the goals one must gain where none does yet.
        No fewer than ran: what is nearly settled is so by luck as often as not.  Where too few
        ran to know by what they differ, as many as that takes.
        """
        rules = self._rules
        error = rules.error / confirmed.n_claims
        if nearest.n_rounds < RUNS_TO_KNOW:
            least = max(RUNS_TO_KNOW, fewest_rounds(error))
            return max(1, nearest.n_rounds, least - nearest.n_rounds)
        varies = noise_as_it_is(confirmed.course)
        noise = noise_in_rounds(confirmed.course, confirmed.chosen)

        def rounds_to(name: str, limit: float, error: float) -> int:
            noise_of_it = noise.get(name, 0.0)  # it may not have been measured in enough of them
            return _rounds_to(
                limit, nearest, name, noise=noise_of_it, least=rules.least, error=error
            )

        wanted = [fewest_rounds(error)]
        wanted += [
            rounds_to(name, -rules.scaled_margin(name, varies.get(name, 0.0)), error)
            for name in nearest.unsure
        ]
        if not nearest.better:
            goals = {name: rules.threshold(name) for name in rules.goals}
            likely = {n: limit for n, limit in goals.items() if nearest.gains[n].middle > limit}
            each = rules.error_of_gain(confirmed.n_claims)
            wanted.append(
                min(rounds_to(name, limit, each) for name, limit in (likely or goals).items())
            )
        return max(1, nearest.n_rounds, max(wanted) - nearest.n_rounds)

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
        counted: Mapping[str, float] = {}
        if best is not None and label in chosen and best.n_rounds:
            counted = changes_of_work(self._work, self._reference, label, chosen)
        failures = selected.failures if selected else {}
        rows = rows_of(label, found, singles, failures, self._rules.goals)
        if confirmed:
            words = f"{TURNED_DOWN} {self._work.request.given}"
            rows = tuple(
                replace(r, note=words) if r.label in confirmed.held_back else r for r in rows
            )
        if best and confirmed and decision is Decision.DEPLOY:
            still_open = {one.label for one, _ in self._open_beside(best, confirmed)}
            rows = tuple(replace(r, is_open=r.label in still_open) for r in rows)
        note = disagreement(best.gains, counted, self._rules) if best else None
        ran = {row.label for row in rows} | {self._reference.allocator}
        names = [text.partition(":")[0] for text in self._work.request.allocators]
        return Answer(
            decision=decision,
            configuration=chosen.get(label) if decision is Decision.DEPLOY else None,
            label=label,
            as_is=self._reference.malloc_name,
            baseline=self._baseline(selected, confirmed),
            rules=self._rules,
            standing=best,
            rows=rows,
            n_runs=self._work.n_runs,
            seconds=self._work.used_s,
            trial=self._work.trials.get(label),
            command=self._work.tuned.command,
            date=self._date(),
            reasons=(*([note] if note else []), *self._reference.notes),
            turned_down=self._turned_down(rows, best, decision, selected, confirmed),
            counted=counted,
            noise=noise_as_it_is(confirmed.course) if confirmed else {},
            n_duets=n_duets(confirmed.course) if confirmed else 0,
            growth=_growth(confirmed) if confirmed else {},
            given=self._work.request.given,
            given_s=self._work.watch.seconds,
            n_untried=selected.n_untried if selected else 0,
            rounds_of={file: self._work.n_rounds(file) for file in self._work.compared},
            not_run=tuple(sorted({*names} - ran)) if rows else (),
        )

    def _baseline(self, *parts: Selected | Confirmed | None) -> dict[str, float]:
        """Return the middle of all runs of the program as it is; those at once slow each other."""
        samples = [run for one in parts if one for run in one.course.good(None, AS_IS).values()]
        alone = [run for run in samples if n_at_once(run) == 1]
        return {
            name: median([*[value] * FIRST_RUNS, *(run[name] for run in alone if name in run)])
            for name, value in self._reference.values.items()
        }

    def _date(self) -> str:
        """Return the day of the last run: that of the answer before, where this call made none."""
        before = None if self._work.has_run else recommended_before(self._work.run)
        return before.date if before else datetime.now(UTC).date().isoformat()

    def _broken(self, standing: Standing) -> tuple[str, ...]:
        """Return the guards for which a candidate is turned down: what has to be allowed of it.

        The first that is proven worse ends its rounds, so others that seem so count too.
        """
        found = standing.worse or standing.likely_worse
        return tuple(
            name
            for name in self._rules.guards
            if found and (name in found or standing.gains[name].middle < -self._rules.margin(name))
        )

    def _turned_down(
        self,
        rows: Sequence[AnswerRow],
        best: Standing | None,
        decision: Decision,
        selected: Selected | None,
        confirmed: Confirmed | None,
    ) -> tuple[TurnedDown, ...]:
        """Return what gains more but breaks a guard, of all that ran and never failed."""
        standings = confirmed.standings if confirmed else {}
        worse = {label: self._broken(one) for label, one in standings.items()}
        failed = {label for label, one in standings.items() if one.state is State.FAILED}
        failed |= selected.failures.keys() if selected else set()
        expected = None
        if selected is not None and not self._work.request.is_direct:
            expected = {
                label: one.expected
                for label, one in selected.labels.items()
                if one.is_known or one.trial is not None  # else it is what its own run showed
            }
        return turned_down(
            [
                (row.label, row.changes, worse[row.label] if row.is_candidate else None)
                for row in rows
                if row.label not in failed
            ],
            self._rules,
            best.gains if best and decision is Decision.DEPLOY else None,
            selected.noise if selected else {},
            expected=expected,
            is_service=self._work.request.service is not None,
        )


def _open_loss_words(name: str, share: float) -> str:
    """Say what rounds leave open of a quantity: how much worse it may be, if they bound it."""
    how = f"up to {show_percent(share)} worse" if math.isfinite(share) else "no worse"
    return f"{name} is {how}"


def _ran_words(selected: Selected) -> str:
    n_ran = len(selected.labels)
    return f"{n_ran} of {n_ran + selected.n_untried} promising settings ran"


def _turned_down_words(label: str, held_out: HeldOutStanding, given: str) -> str:
    """Say what turns a setting down with the held-out input, or load."""
    found = held_out.standing
    names = found.worse or held_out.doubtful
    bad = found.reason or ", ".join(loss_words(name, found.gains[name]) for name in names)
    verb = "fails" if found.reason else "is worse" if held_out.is_bad else "looks worse"
    doubt = "" if held_out.is_bad else f", which its {found.n_rounds} rounds leave open"
    return f"{label} gains with the tuned {given}, but {verb} with the held-out one: {bad}{doubt}."


def _doubt_words(best: Standing, held_out: HeldOutStanding, given: str) -> str:
    """Say what looks worse with the held-out input, or load, and is not proven to be."""
    gains, n_rounds = held_out.gains, held_out.standing.n_rounds
    worse = series(
        f"{name} {gain_words(gains[name], with_bounds=True)}" for name in held_out.doubtful
    )
    looks = f"look{'s'[: len(held_out.doubtful) == 1]}"
    return (
        f"{best.label} is proven better with the tuned {given}, but with the held-out one {worse} "
        f"{looks} worse, which its {n_rounds} rounds do not prove."
    )


def _rounds_to(
    limit: float, standing: Standing, name: str, *, noise: float, least: float, error: float
) -> int:
    """Return how many rounds show on which side of a limit a gain lies, those that ran included.

    Gain and limit are logarithms; one nearer to it than the least effect counts as that far away.
    """
    gain = standing.gains[name]
    distance = max(abs(gain.middle - limit), least)
    wanted = rounds_for(distance, noise, error)
    if -math.inf < gain.low < limit:
        # Intervals narrow with the square root of the rounds.
        widths = (limit - gain.low) / distance + 1.0
        wanted = max(wanted, math.ceil(standing.n_rounds * widths**2))
    return wanted


def _growth(confirmed: Confirmed) -> dict[str, float]:
    """Return how much each subject grew under load, where that was measured."""
    found = {label: growth_of(confirmed.course, label) for label in (AS_IS, *confirmed.standings)}
    return {label: value for label, value in found.items() if value is not None}
