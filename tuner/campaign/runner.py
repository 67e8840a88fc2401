"""The tune loop: ask, evaluate, commit, tell, until the budget is spent.

Order of trials: the default of the baseline allocator, the other defaults, the
user's seed configurations, then what the strategies propose.  A trial's number
is its place in that order, which depends on the seed and on earlier results
only; trials are committed the moment they end, in whatever order that is, and
told to the strategy batch by batch in order of number.  On many machines a
batch is not waited for, see `tuner.campaign.ahead`.

Resume is replay: the strategies start again from the seed, and a configuration
that the store holds is answered from it.  When the replay proposes something
else than the store says was proposed, a library changed its behaviour, and the
campaign stops instead of mixing two searches.

The budget counts distinct configurations.  Nothing depends on its size, so a
campaign with a larger budget continues where the smaller one stopped.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace

from tuner.campaign.ahead import Ahead
from tuner.campaign.progress import Listener
from tuner.campaign.purchases import FrontGate, gate_for, told_of
from tuner.campaign.recheck import disagreements, is_repeatable, plan
from tuner.campaign.screening import Estimator, Expected, most_promising
from tuner.campaign.stopping import NO_RULES, Stopping, StopRules
from tuner.campaign.studies import Study, batches, make_studies
from tuner.errors import (
    InterruptedCampaign,
    ProgramError,
    RepeatabilityError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.front.bounds import default_trials
from tuner.front.dominance import reference_point
from tuner.interrupts import graceful
from tuner.measure.evaluation import MAY_NOT_REPEAT, GateOf
from tuner.measure.executor import Attempts, Executor
from tuner.measure.offers import can_fix_addresses
from tuner.objectives import FAILED_VIOLATION, parse_constraint, trial_values, violation
from tuner.records import Configuration, Measurement, Origin, Outcome, Status, Trial
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

_MIN_TRIALS_TO_JUDGE = 20
"""Trials before a share of failures is one."""


class Runner:
    """Runs one campaign to its end, or to the next interrupt."""

    def __init__(
        self,
        store: Store,
        spaces: Sequence[Space],
        executor: Executor,
        listener: Listener,
        screener: Executor | None = None,
        *,
        stop: StopRules = NO_RULES,
    ) -> None:
        """Prepare; nothing is evaluated yet.

        Args:
            store: open for writing; holds the campaign's record and perhaps trials.
            spaces: one space of all allocators for a joint search, else one for each.
            executor: evaluates; the caller closes it.
            listener: follows what happens.
            screener: evaluates on the shrunk workload of the campaign's screening; the
                caller closes it.
            stop: what ends the search before the budget is spent.

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
        self._rules = stop
        self._stopping = Stopping(stop)
        self.stopped_because: str | None = None
        """Which rule ended the search; None: the budget is spent, or the space exhausted."""
        self._constraints = [parse_constraint(text) for text in self._record.constraints]
        self._stored = {trial.number: trial for trial in store.trials()}
        self._machines = {machine.name for machine in store.machines()}
        self._numbers: dict[Configuration, int] = {}
        self._trials: dict[int, Trial] = {}
        defaults = map(Configuration, self._record.allocators)
        n_initial = len({*defaults, *self._record.seed_configurations})
        if self._record.budget < n_initial:
            raise SpecError(
                f"evaluations = {self._record.budget}: the defaults and seed configurations "
                f"alone are {n_initial}; give at least that many"
            )

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
        return self._known()

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
            raise ProgramError(
                f"the default of {baseline} {first.status.value.replace('_', ' ')}: "
                f"{first.reason}; it is what everything is compared with, so nothing can be tuned"
            )
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
        if self._goes_ahead():
            self._search_ahead(studies)
        else:
            self._search_in_batches(studies)

    def _goes_ahead(self) -> bool:
        """Return whether proposals do not wait for results; a campaign goes on as it was begun."""
        if self._store.asks():
            return True
        has_searched = any(t.origin is Origin.SEARCH for t in self._stored.values())
        can = self._executor.runs_ahead and self._store.knows_machines
        return can and not has_searched and self._screener is None

    def _search_ahead(self, studies: Sequence[Study]) -> None:
        gates: dict[Configuration, FrontGate | None] = {}

        def on_asked(study: Study, proposed: Sequence[Configuration]) -> None:
            gates.clear()
            gates.update(dict.fromkeys(proposed, self._gate(study.space, self._ended(), proposed)))

        ahead = Ahead(studies, self._store, self._ended(), on_asked)
        for ended in self._attempts(self._proposed(ahead), gate_of=gates.get):
            ahead.add(self._commit(ended, Origin.SEARCH))
            self._check_failure_rate()
        if len(self._trials) < len(self._numbers):
            raise self._interrupted()

    def _proposed(self, ahead: Ahead) -> Iterator[Configuration]:
        """Yield proposals that are to be evaluated, until the budget is spent."""
        for configuration in ahead.proposals():
            # The budget first: a rule ends only a search that would go on.
            if len(self._numbers) == self._record.budget or self._is_to_stop():
                return
            self._assign_numbers([configuration])
            number = self._numbers[configuration]
            if number not in self._trials and number in self._stored:
                self._keep(self._stored[number], is_new=False)
                ahead.add(self._stored[number])
            elif number not in self._trials:
                yield configuration

    def _search_in_batches(self, studies: Sequence[Study]) -> None:
        estimator = self._estimator()
        for study, genomes in batches(studies):
            configurations = [study.space.decode(genome) for genome in genomes]
            left_out = self._left_out(configurations, estimator)
            wanted = [c for c in configurations if c not in left_out]
            known = self._ended()
            gate_of = functools.partial(self._gate, study.space, known)
            found = self._evaluate(wanted, Origin.SEARCH, gate_of)
            trials = dict(zip(wanted, found, strict=False))
            self._check_failure_rate()
            if len(trials) < len(set(wanted)):
                return
            told = [
                left_out[configuration].told(genome)
                if configuration in left_out
                else told_of(self._record, genome, trials[configuration])
                for genome, configuration in zip(genomes, configurations, strict=True)
            ]
            study.strategy.tell(told)
            if len(self._numbers) == self._record.budget or self._is_to_stop():
                return

    def _is_to_stop(self) -> bool:
        """Return whether a rule ends the search, and remember which."""
        if self._rules == StopRules(failures=self._rules.failures):
            return False
        reference = self._store.campaign().reference
        self.stopped_because = self._stopping.reason(
            self._ended(),
            reference,
            self._defaults(),
            self._record.baseline,
            is_further=not self._trials.keys() <= self._stored.keys(),
        )
        return self.stopped_because is not None

    def _defaults(self) -> dict[str, Measurement]:
        """Return what the defaults measured, by allocator."""
        return {name: trial.measured for name, trial in default_trials(self._ended()).items()}

    def _gate(
        self, space: Space, known: Sequence[Trial], to_do: Sequence[Configuration]
    ) -> FrontGate | None:
        return gate_for(self._record, space, to_do, known) if self._executor.is_gated else None

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
        return Estimator(self._record, self._constraints, self._defaults(), low)

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
        for ended in self._attempts(to_do, self._screener):
            configuration, outcome = ended.configuration, _outcome(ended)
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
        trials = self._known()
        self._withdraw_failures(trials)
        done = {(r.trial, r.repeat): r for r in self._store.rechecks()}
        failed: dict[tuple[int, int], Recheck] = {}
        places: dict[tuple[int, int], str | None] = dict(self._store.places())
        wanted = plan(self._record, trials)
        missing = [pair for pair in wanted if (pair[0].number, pair[1]) not in done]
        self._listener.recheck_started(len(missing))
        for ended in self._attempts([trial.configuration for trial, _ in missing]):
            trial, repeat = missing[ended.index]
            recheck = Recheck(trial.number, repeat, _outcome(ended))
            places[trial.number, repeat] = ended.machine
            if recheck.measurement is None:
                self._note_failure(trial.configuration, len(ended.failures), recheck)
                failed[trial.number, repeat] = recheck
                continue
            self._keep_machine(ended)
            self._store.add_recheck(recheck, ended.machine)
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
        moved = {n for n, repeat in done | failed if places.get((n, repeat)) != places.get((n, 0))}
        steady = [t for t in trials if t.configuration not in shaken and t.number not in moved]
        return self._arbitrated(steady, [*done.values(), *crashed])

    def _arbitrated(self, trials: Sequence[Trial], rechecks: Sequence[Recheck]) -> list[str]:
        """Measure the one that disagrees a third time; return in what no two of three agree.

        The kernel may count a fault of a page that is there already, once in thousands of runs.
        Where several disagree it is no chance, but where addresses are random.
        """
        again = {one.trial: one for one in rechecks if one.measurement is not None}
        differing = [
            trial for trial in trials if trial.number in again and disagreements([trial], rechecks)
        ]
        random = [trial for trial in differing if not self._fixes_addresses(trial)]
        reason = (
            "other numbers when measured again: its machine may not fix addresses, as in "
            f"containers; {MAY_NOT_REPEAT}"
        )
        for trial in random:
            self._store.add_incident(Incident(trial.configuration, 1, reason))
        if random:
            self._listener.failed_attempt(random[0].configuration, reason)
        settled = {trial.number for trial in random}
        differing = [trial for trial in differing if trial.number not in settled]
        for ended in self._attempts([t.configuration for t in differing if len(differing) == 1]):
            trial = differing[ended.index]
            third = Recheck(trial.number, 0, _outcome(ended))
            second = replace(trial, outcome=again[trial.number].outcome)
            agrees = any(not disagreements([one], [third]) for one in (trial, second))
            if agrees or ended.machine != self._store.places().get((trial.number, 0)):
                lines = "; ".join(disagreements([trial], rechecks))
                how = "agrees with one of them" if agrees else "was made on another machine"
                reason = f"{lines}; a third run {how}; {MAY_NOT_REPEAT}"
                self._store.add_incident(Incident(trial.configuration, 1, reason))
                self._listener.failed_attempt(trial.configuration, reason)
                settled.add(trial.number)
        return disagreements([t for t in trials if t.number not in settled], rechecks)

    def _fixes_addresses(self, trial: Trial) -> bool:
        """Return whether runs where a trial was made have the same addresses, as far as known."""
        facts = {machine.name: machine.facts for machine in self._store.machines()}
        found = facts.get(self._store.places().get((trial.number, 0), ""))
        if found is None:
            return can_fix_addresses()
        return not found.seccomp if found.fixes_addresses is None else found.fixes_addresses

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

    def _evaluate(
        self,
        configurations: Sequence[Configuration],
        origin: Origin,
        gate_of: Callable[[Sequence[Configuration]], FrontGate | None] | None = None,
    ) -> list[Trial]:
        """Return the trials of the configurations, from the store or newly evaluated.

        Args:
            configurations: what is wanted.
            origin: why.
            gate_of: gives the gate of what is wanted; None: everything is counted.

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
        # Of all that was proposed: what a kill or the budget left to do must not decide.
        gate = gate_of(configurations) if gate_of is not None and to_do else None
        for ended in self._attempts(to_do, gate_of=lambda _: gate):
            self._commit(ended, origin)
        if any(self._numbers[configuration] not in self._trials for configuration in to_do):
            raise self._interrupted()
        return [self._trials[self._numbers[configuration]] for configuration in wanted]

    def _commit(self, ended: Attempts, origin: Origin) -> Trial:
        trial = self._trial(ended.configuration, origin, _outcome(ended))
        self._keep_machine(ended)
        self._store.add_trial(trial, ended.machine)
        self._keep(trial, is_new=True)
        return trial

    def _keep_machine(self, ended: Attempts) -> None:
        """Commit the machine of an evaluation, unless the store has it.

        Those that were there before it come first, since times are relative to the first of all.
        """
        if ended.machine is None or ended.machine in self._machines:
            return
        for name, machine in self._executor.machines.items():
            if name not in self._machines:
                self._store.add_machine(machine)
                self._machines.add(name)
            if name == ended.machine:
                return

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
                raise StoreError(
                    f"{self._store.path}: trial {number} is {stored.configuration}, but the search "
                    f"now proposes {configuration}; a library has changed since "
                    f"(recorded: {_versions(self._record)}); install those versions, or start a "
                    "new run folder"
                )
            self._numbers[configuration] = number
        return list(configurations)

    def _attempts(
        self,
        configurations: Iterable[Configuration],
        executor: Executor | None = None,
        gate_of: GateOf | None = None,
    ) -> Iterator[Attempts]:
        """Yield evaluations as they end; attempts that do not count are kept as incidents.

        Raises:
            TunerError: the machine failed at every attempt; what else was running
                is yielded before.
        """
        if isinstance(configurations, Sized) and not len(configurations):
            return  # a cluster would be looked at, and may be away
        broken: Attempts | None = None
        executor = executor or self._executor
        for ended in executor.run(configurations, gate_of):
            for attempt, reason in enumerate(ended.failures, start=1):
                self._store.add_incident(Incident(ended.configuration, attempt, reason))
                self._listener.failed_attempt(ended.configuration, reason)
            if ended.error is None:
                yield ended
            elif not executor.is_stopping:
                broken = ended
                executor.stop()
        if broken is not None and broken.error is not None:
            raise type(broken.error)(
                f"evaluating {broken.configuration}: {broken.error}"
            ) from broken.error

    def _trial(
        self, configuration: Configuration, origin: Origin, outcome: Outcome[Measurement]
    ) -> Trial:
        is_counted = outcome.status is not Status.UNCOUNTED
        measurement = outcome.good if is_counted else _bounded(outcome)
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
            objectives=values if is_counted else None,
            violation=excess,
            resolution=self._record.resolution,
            bound=None if is_counted else values,
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

    def _known(self) -> list[Trial]:
        """Return all trials, those of the store too that a rule cuts off this time."""
        known = {**self._stored, **self._trials}
        return [known[number] for number in sorted(known)]

    # Reasons to stop

    def _check_failure_rate(self) -> None:
        trials = self._ended()
        reasons = Counter(trial.reason for trial in trials if trial.has_failed)
        n_failed = reasons.total()
        if len(trials) >= _MIN_TRIALS_TO_JUDGE and n_failed > self._rules.failures * len(trials):
            reason, count = reasons.most_common(1)[0]
            raise ProgramError(
                f"{n_failed} of {len(trials)} trials did not succeed, {count} of them with: "
                f"{reason}; something is wrong with the set-up: try the default with "
                "`malloc-tuner emulate`, narrow the space, or raise the time limit, and use a "
                "new run folder"
            )

    @staticmethod
    def _interrupted() -> InterruptedCampaign:
        message = "interrupted; every trial that ended is kept: the same command goes on from there"
        return InterruptedCampaign(message)

    @staticmethod
    def _report_disagreements(lines: Sequence[str]) -> None:
        listed = "".join(f"\n  {line}" for line in lines)
        raise RepeatabilityError(
            "measured again, the front gave other numbers; both are in the store, and a report "
            f"shows them side by side; please report this as a defect:{listed}"
        )


def _outcome(ended: Attempts) -> Outcome[Measurement]:
    """Return the outcome of attempts that `Runner._attempts` let through."""
    assert ended.outcome is not None  # noqa: S101 - attempts without an error have one
    return ended.outcome


def _bounded(outcome: Outcome[Measurement]) -> Measurement | None:
    """Return what an uncounted evaluation measured, with bounds for the rest."""
    return outcome.values and outcome.values.with_values(**outcome.bound)


def _versions(record: CampaignRecord) -> str:
    return ", ".join(f"{name} {version}" for name, version in record.versions.items())
