"""The tune loop: ask, evaluate, commit, tell, until the budget is spent.

Order of trials: the default of the baseline allocator, the other defaults, the
user's seed configurations, then what the strategies propose.  A trial's number
is its place in that order, which depends on the seed and on earlier results
only; trials are committed the moment they end, in whatever order that is, and
told to the strategy batch by batch in order of number.

Resume is replay: the strategies start again from the seed, and a configuration
that the store holds is answered from it.  When the replay proposes something
else than the store says was proposed, a library changed its behaviour, and the
campaign stops instead of mixing two searches.

The budget counts distinct configurations.  Nothing depends on its size, so a
campaign with a larger budget continues where the smaller one stopped.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tuner.campaign.interrupts import graceful
from tuner.campaign.progress import Listener
from tuner.campaign.recheck import disagreements, is_repeatable, plan
from tuner.campaign.screening import Estimator, Expected, most_promising
from tuner.campaign.studies import batches, make_studies
from tuner.errors import (
    InterruptedCampaign,
    ProgramError,
    RepeatabilityError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.front.dominance import reference_point
from tuner.measure.evaluation import MAY_NOT_REPEAT
from tuner.measure.executor import Attempts, LocalExecutor
from tuner.objectives import parse_constraint, trial_values, violation
from tuner.records import Configuration, Measurement, Origin, Outcome, Status, Trial
from tuner.search import Told
from tuner.space import Space
from tuner.store import (
    FINISHED,
    INTERRUPTED,
    RUNNING,
    CampaignRecord,
    Incident,
    Recheck,
    ScreeningRecord,
    Store,
)

FAILED_VIOLATION = 1.0
"""Violation of a trial that did not succeed."""

_MIN_TRIALS_TO_JUDGE = 20
_MAX_FAILURE_RATE = 0.8
"""A campaign stops when more of its trials fail than this, once there are enough to judge."""


class Runner:
    """Runs one campaign to its end, or to the next interrupt."""

    def __init__(
        self,
        store: Store,
        spaces: Sequence[Space],
        executor: LocalExecutor,
        listener: Listener,
        screener: LocalExecutor | None = None,
    ) -> None:
        """Prepare; nothing is evaluated yet.

        Args:
            store: open for writing; holds the campaign's record and perhaps trials.
            spaces: one space of all allocators for a joint search, else one for each.
            executor: evaluates; the caller closes it.
            listener: follows what happens.
            screener: evaluates on the shrunk workload of the campaign's screening; the
                caller closes it.

        Raises:
            SpecError: a constraint is wrong, or the budget is too small for the
                defaults and the seed configurations.
        """
        self._store = store
        self._record = store.campaign()
        self._spaces = spaces
        self._executor = executor
        self._listener = listener
        self._screener = screener
        self._screened = store.screenings()
        self._constraints = [parse_constraint(text) for text in self._record.constraints]
        self._stored = {trial.number: trial for trial in store.trials()}
        self._numbers: dict[Configuration, int] = {}
        self._trials: dict[int, Trial] = {}
        n_initial = len(self._record.allocators) + len(self._record.seed_configurations)
        if self._record.budget < n_initial:
            message = (
                f"evaluations = {self._record.budget}: the defaults and seed configurations "
                f"alone are {n_initial}; give at least that many"
            )
            raise SpecError(message)

    def run(self) -> list[Trial]:
        """Run to the end and return all trials by number.

        Raises:
            InterruptedCampaign: the user stopped it; everything measured is kept.
            ProgramError: the baseline's default failed, or nearly everything does.
            MissingToolError: an objective cannot be measured here.
            RepeatabilityError: the front was measured again with other numbers.
            StoreError: the store holds another search than the seed gives.
            TunerError: the machine failed several times at one configuration.
        """
        self._listener.started(self._record, len(self._stored), self._executor.n_workers)
        self._store.set_status(RUNNING)
        try:
            with graceful(self._stop):
                self._measure_initial()
                self._search()
                found = self._recheck()
        except BaseException as error:
            with contextlib.suppress(TunerError):  # the disk may be full
                self._store.set_status(INTERRUPTED)
            if isinstance(error, KeyboardInterrupt):
                raise self._interrupted() from None
            raise
        self._store.set_status(FINISHED)
        if found:
            self._report_disagreements(found)
        return self._ended()

    def _stop(self) -> None:
        self._executor.stop()
        if self._screener is not None:
            self._screener.stop()
        self._listener.stopping()

    # Stages

    def _measure_initial(self) -> None:
        baseline = self._record.baseline
        names = [baseline, *(name for name in self._record.allocators if name != baseline)]
        self._withdraw_dead_baseline()
        # The baseline alone: limits may be multiples of its values.
        (first,) = self._evaluate([Configuration(baseline)], Origin.DEFAULT)
        if first.measurement is None:
            message = (
                f"the default of {baseline} {first.status.value.replace('_', ' ')}: "
                f"{first.reason}; it is what everything is compared with, so nothing can be tuned"
            )
            raise ProgramError(message)
        self._evaluate([Configuration(name) for name in names], Origin.DEFAULT)
        reference = self._record.reference
        if reference is None:
            reference = reference_point([t for t in self._ended() if t.origin is Origin.DEFAULT])
            if reference is not None:
                self._store.set_reference(reference)
        if reference is not None:
            self._listener.reference_known(reference)
        self._evaluate(list(self._record.seed_configurations), Origin.SEED)

    def _withdraw_dead_baseline(self) -> None:
        """Measure the baseline's default again where it failed: nothing else was measured."""
        dead = self._stored.get(0)
        if dead is not None and dead.measurement is None:
            self._store.withdraw_trial(dead)
            del self._stored[0]

    def _search(self) -> None:
        studies = make_studies(self._record, self._spaces, list(self._numbers))
        estimator = self._estimator()
        for study, genomes in batches(studies):
            configurations = [study.space.decode(genome) for genome in genomes]
            left_out = self._left_out(configurations, estimator)
            wanted = [c for c in configurations if c not in left_out]
            trials = dict(zip(wanted, self._evaluate(wanted, Origin.SEARCH), strict=False))
            self._check_failure_rate()
            if len(trials) < len(set(wanted)):
                return
            told = [
                left_out[configuration].told(genome)
                if configuration in left_out
                else Told(genome, trials[configuration].objectives, trials[configuration].violation)
                for genome, configuration in zip(genomes, configurations, strict=True)
            ]
            study.strategy.tell(told)
            if len(self._numbers) == self._record.budget:
                return

    def _estimator(self) -> Estimator | None:
        """Return what estimates by the shrunk workload; None where nothing is screened."""
        if self._screener is None:
            return None
        defaults = [Configuration(name) for name in self._record.allocators]
        screened = self._screen(defaults)
        low = {
            configuration.allocator: found
            for configuration in defaults
            if (found := screened[configuration].good) is not None
        }
        full = {
            trial.configuration.allocator: trial.measurement
            for trial in self._ended()
            if trial.configuration.is_default and trial.measurement is not None
        }
        return Estimator(self._record, self._constraints, full, low)

    def _left_out(
        self, configurations: Sequence[Configuration], estimator: Estimator | None
    ) -> dict[Configuration, Expected]:
        """Return the proposals that are not worth a trial, with what is expected of them."""
        if estimator is None:
            return {}
        unknown = [
            configuration
            for configuration in dict.fromkeys(configurations)
            if configuration not in self._numbers and estimator.can_estimate(configuration)
        ]
        if not unknown:
            return {}
        screened = self._screen(unknown)
        estimates = [estimator.estimate(one, screened[one]) for one in unknown]
        kept = set(most_promising(estimates, self._ended(), self._screening.keep))
        return {
            configuration: estimates[place]
            for place, configuration in enumerate(unknown)
            if place not in kept
        }

    def _screen(
        self, configurations: Sequence[Configuration]
    ) -> Mapping[Configuration, Outcome[Measurement]]:
        """Return how configurations fared on the shrunk workload, by the store or newly measured.

        Raises:
            InterruptedCampaign: stopped before all were measured.
        """
        to_do = [c for c in configurations if c not in self._screened]
        for configuration, outcome in self._outcomes(to_do, self._screener):
            self._store.add_screening(configuration, self._screening.fidelity, outcome)
            self._screened[configuration] = outcome
        if any(configuration not in self._screened for configuration in to_do):
            raise self._interrupted()
        return self._screened

    @property
    def _screening(self) -> ScreeningRecord:
        found = self._record.workload.screening
        assert found is not None  # noqa: S101 - a campaign with a screener has one
        return found

    def _recheck(self) -> list[str]:
        """Measure the front again and return in what it disagrees."""
        trials = self._ended()
        self._withdraw_failures(trials)
        done = {(r.trial, r.repeat): r for r in self._store.rechecks()}
        failed: dict[tuple[int, int], Recheck] = {}
        wanted = plan(self._record, trials)
        missing = [pair for pair in wanted if (pair[0].number, pair[1]) not in done]
        self._listener.recheck_started(len(missing))
        for ended in self._attempts([trial.configuration for trial, _ in missing]):
            trial, repeat = missing[ended.index]
            recheck = Recheck(trial.number, repeat, _outcome(ended))
            if recheck.measurement is None:
                self._note_failure(trial.configuration, len(ended.failures), recheck)
                failed[trial.number, repeat] = recheck
                continue
            self._store.add_recheck(recheck)
            self._listener.recheck_ended(recheck)
            done[trial.number, repeat] = recheck
        if any((t.number, repeat) not in done | failed for t, repeat in missing):
            raise self._interrupted()
        crashed = [one for one in failed.values() if one.status is not Status.TIMED_OUT]
        if not is_repeatable(self._record):
            return []
        shaken = {
            incident.configuration
            for incident in self._store.incidents()
            if incident.reason.endswith(MAY_NOT_REPEAT)
        }
        steady = [trial for trial in trials if trial.configuration not in shaken]
        return disagreements(steady, [*done.values(), *crashed])

    def _withdraw_failures(self, trials: Sequence[Trial]) -> None:
        """Make incidents of re-measurements without numbers, which are then measured again."""
        configurations = {trial.number: trial.configuration for trial in trials}
        for recheck in self._store.rechecks():
            if recheck.measurement is None:
                incident = Incident(configurations[recheck.trial], 1, str(recheck.reason))
                self._store.withdraw_recheck(recheck, incident)

    def _note_failure(self, configuration: Configuration, n_before: int, recheck: Recheck) -> None:
        """Keep a re-measurement without numbers as an incident: the trial has its numbers."""
        reason = str(recheck.reason)
        self._store.add_incident(Incident(configuration, n_before + 1, reason))
        self._listener.failed_attempt(configuration, reason)

    # Evaluating

    def _evaluate(self, configurations: Sequence[Configuration], origin: Origin) -> list[Trial]:
        """Return the trials of the configurations, from the store or newly evaluated.

        Returns:
            In the order given; shorter when the budget ends within the batch.

        Raises:
            InterruptedCampaign: stopped before all were evaluated.
        """
        wanted = self._assign_numbers(configurations)
        to_do: list[Configuration] = []
        for configuration in dict.fromkeys(wanted):
            number = self._numbers[configuration]
            if number in self._trials:
                continue
            if number in self._stored:
                self._keep(self._stored[number], is_new=False)
            else:
                to_do.append(configuration)
        for configuration, outcome in self._outcomes(to_do):
            trial = self._trial(configuration, origin, outcome)
            self._store.add_trial(trial)
            self._keep(trial, is_new=True)
        if any(self._numbers[configuration] not in self._trials for configuration in to_do):
            raise self._interrupted()
        return [self._trials[self._numbers[configuration]] for configuration in wanted]

    def _assign_numbers(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Give the new configurations numbers, and cut the list off where the budget ends."""
        for place, configuration in enumerate(configurations):
            if configuration in self._numbers:
                continue
            number = len(self._numbers)
            if number == self._record.budget:
                return list(configurations[:place])
            stored = self._stored.get(number)
            if stored is not None and stored.configuration != configuration:
                message = (
                    f"{self._store.path}: trial {number} is {stored.configuration}, but the search "
                    f"now proposes {configuration}; a library has changed since "
                    f"(recorded: {_versions(self._record)}); install those versions, or start a "
                    "new run folder"
                )
                raise StoreError(message)
            self._numbers[configuration] = number
        return list(configurations)

    def _outcomes(
        self, configurations: Sequence[Configuration], executor: LocalExecutor | None = None
    ) -> Iterator[tuple[Configuration, Outcome[Measurement]]]:
        """Yield configurations with their outcomes; see `_attempts`."""
        for ended in self._attempts(configurations, executor):
            yield ended.configuration, _outcome(ended)

    def _attempts(
        self, configurations: Sequence[Configuration], executor: LocalExecutor | None = None
    ) -> Iterator[Attempts]:
        """Yield evaluations as they end; attempts that do not count are kept as incidents.

        Raises:
            TunerError: the machine failed at every attempt; what else was running
                is yielded before.
        """
        broken: Attempts | None = None
        executor = executor or self._executor
        for ended in executor.run(configurations):
            for attempt, reason in enumerate(ended.failures, start=1):
                self._store.add_incident(Incident(ended.configuration, attempt, reason))
                self._listener.failed_attempt(ended.configuration, reason)
            if ended.error is None:
                yield ended
            elif not executor.is_stopping:
                broken = ended
                executor.stop()
        if broken is not None and broken.error is not None:
            message = f"evaluating {broken.configuration}: {broken.error}"
            raise type(broken.error)(message) from broken.error

    def _trial(
        self, configuration: Configuration, origin: Origin, outcome: Outcome[Measurement]
    ) -> Trial:
        measurement = outcome.good
        values: tuple[float, ...] | None = None
        excess = FAILED_VIOLATION
        if measurement is not None:
            steps = self._record.resolution
            values = trial_values(measurement, self._record.objectives, steps)
            baseline = self._default_of(self._record.baseline, configuration, measurement)
            own = self._default_of(configuration.allocator, configuration, measurement)
            excess = violation(self._constraints, measurement, baseline, own)
        return Trial(
            number=self._numbers[configuration],
            configuration=configuration,
            origin=origin,
            outcome=outcome,
            objectives=values,
            violation=excess,
            resolution=self._record.resolution,
        )

    def _default_of(
        self, allocator: str, configuration: Configuration, measurement: Measurement
    ) -> Measurement | None:
        """Return the measurement of an allocator's default, which this one may be itself."""
        default = Configuration(allocator)
        if configuration == default:
            return measurement
        number = self._numbers.get(default)
        trial = None if number is None else self._trials.get(number)
        return None if trial is None else trial.measurement

    def _keep(self, trial: Trial, *, is_new: bool) -> None:
        self._trials[trial.number] = trial
        self._listener.trial_ended(trial, is_new=is_new)

    def _ended(self) -> list[Trial]:
        """Return the trials of this run of the program so far, by number."""
        return [self._trials[number] for number in sorted(self._trials)]

    # Reasons to stop

    def _check_failure_rate(self) -> None:
        trials = self._ended()
        reasons = Counter(trial.reason for trial in trials if trial.status is not Status.OK)
        n_failed = reasons.total()
        if len(trials) >= _MIN_TRIALS_TO_JUDGE and n_failed > _MAX_FAILURE_RATE * len(trials):
            reason, count = reasons.most_common(1)[0]
            message = (
                f"{n_failed} of {len(trials)} trials did not succeed, {count} of them with: "
                f"{reason}; something is wrong with the set-up: try the default with "
                "`malloc-tuner emulate`, narrow the space, or raise the time limit, and use a "
                "new run folder"
            )
            raise ProgramError(message)

    def _interrupted(self) -> InterruptedCampaign:
        message = (
            f"interrupted; all {len(self._trials)} trials that ended are kept: run the same "
            "command again to continue"
        )
        return InterruptedCampaign(message)

    @staticmethod
    def _report_disagreements(lines: Sequence[str]) -> None:
        listed = "".join(f"\n  {line}" for line in lines)
        message = (
            "measured again, the front gave other numbers; both are in the store, and a report "
            f"shows them side by side; please report this as a defect:{listed}"
        )
        raise RepeatabilityError(message)


def _outcome(ended: Attempts) -> Outcome[Measurement]:
    """Return the outcome of attempts that `Runner._attempts` let through."""
    assert ended.outcome is not None  # noqa: S101 - attempts without an error have one
    return ended.outcome


def _versions(record: CampaignRecord) -> str:
    return ", ".join(f"{name} {version}" for name, version in record.versions.items())
