"""One optimisation from its command to its answer; interrupted, the same command goes on.

    examine    the program as it is, twice: what it does, what it uses; with the held-out input too
    record     its allocations, once
    search     settings in emulation, at most a quarter of the time
    select     promising settings on the program, once each: they choose, they prove nothing
    explore    where runs are short, further settings by what all of these showed (exploration.py)

    in place of these four, where nothing is recorded or the time is too short for it:
    search     settings on the program, and again what is best, nearly half of the time (direct.py)

    confirm    at most three candidates at once on new runs, round after round until it is decided,
               then others where these are given up and time is left
    hold out   the winner on an input that was not tuned on; where that turns it down, the race
               goes on without it
    reduce     the winner to the settings that do something, again on new runs

Source of the shares of time and of the numbers of candidates: docs/decisions/optimize.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from tuner.campaign.executors import Where, check_executor
from tuner.campaign.progress import clock_text
from tuner.campaign.setup import locate
from tuner.compare.loop import INTERRUPTED, interruptible
from tuner.config import CampaignSpec, shipped_allocator_file
from tuner.errors import ProgramError, ProgramTimeoutError, SpecError
from tuner.measure.clocks import snapshot
from tuner.optimize.answering.answer import Answer, Decision, minutes_words, write_answer
from tuner.optimize.answering.recommendation import (
    Recommendation,
    deployed_before,
    recommended_before,
)
from tuner.optimize.aside import move_to_before
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.candidates import Choosing, affordable, trade
from tuner.optimize.choosing.direct import DirectSearch, space_of
from tuner.optimize.choosing.direct_plan import SHARE_OF_LOOKS, SHARE_OF_TIME
from tuner.optimize.choosing.expecting import Expecting
from tuner.optimize.choosing.exploration import Exploring
from tuner.optimize.choosing.outlook import FEWEST_RUNS, outlook_words
from tuner.optimize.choosing.proposals import Baseline, Proposal, propose, with_known
from tuner.optimize.choosing.selected import Selected
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirming.confirmation import Confirmed, Confirming
from tuner.optimize.confirming.held_out import SHARE_HELD_OUT, HeldOutInput, least_seconds
from tuner.optimize.confirming.reduced import reduced
from tuner.optimize.kinds.cluster import kit_of, machines_for
from tuner.optimize.kinds.counted import gains_of_work
from tuner.optimize.kinds.examination import (
    examine,
    examine_held_out,
    loadable,
    noted,
    static_part,
)
from tuner.optimize.kinds.making import Files, held_out_of, plan_of, tuned_of
from tuner.optimize.kinds.program import TOO_SHORT
from tuner.optimize.kinds.suite import further_traces
from tuner.optimize.proof.disturbance import disturbance_words
from tuner.optimize.proof.duets import n_duets
from tuner.optimize.proof.noise import varying_under
from tuner.optimize.quantities import CPU, emulated_values
from tuner.optimize.request import Request, check_goes_on
from tuner.optimize.tuned import Reference, Tuned, label_of
from tuner.optimize.used_time import UsedTime
from tuner.optimize.view import View
from tuner.optimize.work import (
    ABLATION_FILE,
    EXPLORATION_FILE,
    FEWER_FILE,
    HELD_OUT_FILES,
    REDUCED_FILE,
    TRACE_FILE,
    Watch,
    Work,
    run_seconds,
)
from tuner.output import folder_if_used, write_text
from tuner.profile.trust import gap_in
from tuner.recording.spool import remove_left
from tuner.records import Configuration, Trial
from tuner.runs import (
    ANSWER_FILE,
    CONFIRMATION_FILE,
    CONFIRMATION_FILES,
    REQUEST_FILE,
    SELECTION_FILE,
)
from tuner.store import CampaignRecord

_DOZEN = 12.0
"""Runs that `TOO_SHORT` speaks of."""

_SHARE_EMULATION = 0.25
_MOST_FOR_DEFAULTS = 0.5
"""Of what is left, that emulating the allocators' defaults may take: without, runs alone search."""

_SHARE_PROGRAM = 0.9
_FEWEST_DIRECT_RUNS = 24
"""Runs that the time must allow where runs alone search; see `fewest_runs`."""

_FEW_RUNS = 60
"""Of a service in the time given: all of them are needed, for settings that are known to suit and
to confirm one of these."""

_KNOWN = "the answer is known; a longer --time searches on"

_PROVEN = (*CONFIRMATION_FILES, FEWER_FILE, REDUCED_FILE)
"""Journals whose candidates ran until the answer was known."""

_OF_PROOF = (*_PROVEN, ABLATION_FILE)
"""What proves an answer, beside runs on the held-out input, which hold for a setting whatever else
is tried.  The answer itself stays until there is another."""

_OF_RULES = (SELECTION_FILE, EXPLORATION_FILE, HELD_OUT_FILES, *_OF_PROOF, ANSWER_FILE)
"""What holds for one set of constraints only, as patterns."""

_INTERRUPTED_EARLY = (
    "interrupted in the first runs, which are not kept yet: the same command begins anew"
)

_OVERTIME = 1.3
"""Of the share of emulation, after which it is stopped."""


class Chooses(Protocol):
    """What runs settings to choose the candidates of the confirmation."""

    @property
    def proposals(self) -> Sequence[Proposal]:
        """What is expected of settings before they run."""
        ...

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        """Run settings once each, of so many runs that there is time for.

        Args:
            n_possible: those runs.
            without: candidates that are out: where no other is near, what never ran does.
        """
        ...

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        """Return the candidates by label.

        Args:
            selected: what the runs showed.
            without: candidates of before.
        """
        ...

    @property
    def n_waiting(self) -> int:
        """How many of these candidates, the last ones, run where one before them is out."""
        ...

    def smaller(self, configuration: Configuration) -> Iterable[Configuration]:
        """Return what may stand for a candidate, with fewer settings, by all runs so far.

        Args:
            configuration: the candidate.
        """
        ...


class Session:
    """One optimisation in one run folder."""

    def __init__(
        self,
        run: Path,
        request: Request,
        view: View | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        where: Where | None = None,
    ) -> None:
        """Begin, or go on with what the folder holds.

        Args:
            run: the folder; made when missing.
            request: what is asked for.
            view: shows progress; None for none.
            environment: the program's; None for this process's.
            clock: in seconds; only differences count.
            where: which machines run the program; None for this one.

        Raises:
            SpecError: the folder holds an optimisation of another command, or with other options,
                or a comparison; or a service is to run on other machines.
            StoreError: what it was begun with is damaged.
        """
        self.run = run
        self.request = request
        self._view = view or View()
        self._environment = dict(os.environ if environment is None else environment)
        self._watch = Watch(request.seconds, clock)
        self._where = where or Where()
        check_executor(self._where)
        if request.service is not None and self._where.executor != "local":
            message = f"--executor {self._where.executor}: a service runs on this machine only"
            raise SpecError(message)
        self._begun_with = Request.load(run) if (run / REQUEST_FILE).exists() else None
        if self._begun_with and self._begun_with.is_comparison:
            message = f"{run}: holds a comparison of `malloc-tuner validate`; choose another -o"
            raise SpecError(message)
        if self._begun_with:
            check_goes_on(run, self._begun_with, request)

    def standing(self) -> Recommendation | None:
        """Return the answer that the folder holds, where asking again changes nothing; else None.

        Raises:
            SpecError: the program's file has changed since, or one that a command names.
            MissingToolError: a library is not here, or of another version.
            StoreError: what the folder holds is damaged.
        """
        if not self._is_settled:
            return None
        files = locate(self._spec(self.request.evaluations or 100))
        tuned = tuned_of(self.request, files, self._environment)
        self._examine(tuned, files)
        other = held_out_of(self.request, files, self._environment)
        if other is not None:
            self._examine_held_out(other, is_begun=True)
        self._view.tell(f"ran        nothing: {_KNOWN}")
        return self._recommended

    def answer(self) -> Answer:
        """Do what is left to do, and return the answer, which is in the folder too.

        Raises:
            ProgramError: the program fails as it is, with the held-out input too, or cannot be
                recorded.
            ProgramTimeoutError: its first runs take longer than the time that was given.
            MissingToolError: a library, an instrument or the program is not here.
            StoreError: what the folder holds is damaged, or was run in another environment, or
                another process is at work in it.
            InterruptedCampaign: Ctrl-C; everything measured is kept.
            OutputError: the folder cannot be written.
        """
        with (
            folder_if_used(self.run),
            interruptible(self._interrupted),
            UsedTime(self.run, self._watch) as used,
        ):
            found = self._answer_of_call(used)
            found = replace(found, given_s=used.before_s + found.given_s)
            write_answer(self.run, found)
        return found

    def _interrupted(self) -> str:
        return INTERRUPTED if (self.run / REQUEST_FILE).exists() else _INTERRUPTED_EARLY

    def _answer_of_call(self, used: UsedTime) -> Answer:
        """Return the answer, with the time that this call alone was given."""
        files = locate(self._spec(self.request.evaluations or 100))
        tuned = tuned_of(self.request, files, self._environment)
        work = Work(
            self.run, self.request, tuned, self._watch, self._view,
            on_kept=used.keep, before_s=used.before_s,
        )  # fmt: skip
        reference = self._examine(tuned, files)
        work.environment = reference.environment
        is_anew, work.is_searched_on = self._is_judged_anew, self._is_searched_on
        if is_anew or work.is_searched_on or not (self.run / SELECTION_FILE).exists():
            work.check_environment()
        held_out = self._held_out(work, files)
        work.known = tuned.known(reference)
        work.request = replace(self.request, rules=self.request.rules.of(reference.values))
        if is_anew:
            move_to_before(self.run, _OF_RULES)
        self._write_request(work)
        work.longest_s = self._begun_with.seconds if self._begun_with else 0.0
        work.is_settled = self._is_settled
        if work.is_settled:
            self._watch.end()
        kit = kit_of(self.request, files, self._environment)
        # In another environment nothing runs, nor is a machine admitted by what it does there.
        where = Where() if work.is_elsewhere else self._where
        with machines_for(where, kit, reference, self.run, self._view.tell) as machines:
            work.machines = machines
            return self._answered(work, reference, files, held_out)

    def _examine(self, tuned: Tuned, files: Files) -> Reference:
        """Return what the program as it is does."""
        return examine(
            self.run,
            tuned,
            self._view,
            is_begun=bool(self._begun_with),
            installations=[installation for _, installation in files.values()],
            service=plan_of(self.request),
        )

    def _write_request(self, work: Work) -> None:
        """Keep what is asked for, with the longest time in which candidates were chosen."""
        seconds = [self._begun_with.seconds] if self._begun_with else []
        if not work.is_searched_on:
            seconds.append(self.request.seconds)
        kept = replace(self.request, seconds=max(seconds))
        write_text(self.run / REQUEST_FILE, json.dumps(kept.as_record(), indent=1) + "\n")

    def _answered(
        self, work: Work, reference: Reference, files: Files, held_out: HeldOutInput | None
    ) -> Answer:
        is_direct = are_runs_all(self.request, self.run, run_seconds(reference))
        work.request = replace(work.request, is_direct=is_direct)
        self._tell_outlook(work, reference)
        if not is_direct:
            reference = self._recorded(work.tuned, reference)
            work.request = replace(work.request, is_direct=not self._is_emulated())
        if work.request.is_direct:
            if work.request.service is None:
                self._leave_out_unloadable(work, reference, files)
            choosing: Chooses = DirectSearch(work, reference, partial(space_of, files, reference))
        else:
            choosing = self._emulated(work, reference, files)
        answer = self._decide(work, reference, choosing, held_out)
        if held_out is None or any(self.run.glob(HELD_OUT_FILES)):
            return answer
        return not_held_out(answer, self.request.given)

    def _leave_out_unloadable(self, work: Work, reference: Reference, files: Files) -> None:
        """Let those allocators alone take part that the program can have."""
        try:
            texts = loadable(work.request.allocators, files, reference, self._view)
        except ProgramError:
            (self.run / REQUEST_FILE).unlink()  # the folder is free for other allocators
            raise
        names = {text.partition(":")[0] for text in texts}
        work.request = replace(work.request, allocators=texts)
        work.known = tuple(one for one in work.known if one.allocator in names)

    def _tell_outlook(self, work: Work, reference: Reference) -> None:
        """Say what the time can show, unless runs of an earlier call have shown it."""
        if CPU not in reference.values or (self.run / SELECTION_FILE).exists():
            return
        is_direct = work.request.is_direct
        share = SHARE_OF_TIME + SHARE_OF_LOOKS if is_direct else _SHARE_EMULATION
        not_for_runs = 1.0 - _SHARE_PROGRAM * (1.0 - share)
        words = outlook_words(
            self.request.seconds, run_seconds(reference), work.request.rules, not_for_runs
        )
        self._view.tell(f"time for   {words}")

    def _recorded(self, tuned: Tuned, reference: Reference) -> Reference:
        """Record the program, unless that was done, and return what is known of it then."""
        trace = self.run / TRACE_FILE
        if trace.exists():
            if gap := gap_in(trace, with_ends=False):
                self._view.tell(f"note       {gap}: a new -o records all of it")
            return reference
        if 3.0 * reference.wall_s > self.request.patience_s:
            message = (
                f"{self.request.command[0]}: a run takes {reference.wall_s:.1f} s, so two of them "
                f"and a recording take all of --time {self.request.seconds:g}s; {TOO_SHORT}, "
                f"{minutes_words(_DOZEN * reference.wall_s)} here"
            )
            raise ProgramTimeoutError(message)
        self._view.begin("recording", None)
        remove_left(trace)
        for left in further_traces(trace):  # of other commands, none of which could be recorded
            left.unlink()
        try:
            found = tuned.record(trace, reference)
        except ProgramError as error:
            (self.run / REQUEST_FILE).unlink()  # the folder is free for another attempt
            static_part(reference)  # of which runs alone would say no more
            message = f"{error}; `malloc-tuner optimize --direct` does without a recording"
            raise ProgramError(message) from error
        self._view.tell(f"recorded   {found.words}")
        for note in found.notes:
            self._view.tell(f"note       {note}")
        return noted(self.run, reference, found.notes)

    def _is_emulated(self) -> bool:
        """Return whether emulation searches: as it was begun, or where it can and has the time."""
        if self.request.evaluations or emulation.begun(self.run):
            return True
        if (self.run / SELECTION_FILE).exists() or self._watch.left_s <= 0.0:
            return False
        if not self._first_default.has_cost:
            self._view.tell(
                "note       this machine forbids ptrace, without which nothing has a cost in "
                "emulation: settings run on the program instead"
            )
            return False
        needed_s = len(self.request.allocators) * self._first_default.seconds
        left_s, its_share_s = self._watch.left_s, _SHARE_EMULATION * self.request.seconds
        if needed_s <= max(_MOST_FOR_DEFAULTS * left_s, its_share_s):
            return True
        self._view.tell(
            f"note       to emulate every allocator's default takes {clock_text(needed_s)}: "
            "settings run on the program instead"
        )
        return False

    @cached_property
    def _first_default(self) -> emulation.First:
        """What emulating the first allocator's default took and showed."""
        self._view.begin("emulation", None)
        return emulation.first_default(self._spec(100))

    @property
    def _is_judged_anew(self) -> bool:
        """Whether the constraints are others than those that the folder was begun with."""
        begun = self._begun_with
        return begun is not None and dict(begun.rules.limits) != dict(self.request.rules.limits)

    @cached_property
    def _recommended(self) -> Recommendation | None:
        """What the folder recommended before this call; None where that is judged anew."""
        return None if self._is_judged_anew else recommended_before(self.run)

    @property
    def _is_searched_on(self) -> bool:
        """Whether more time is given than ever, and the answer is decided: there may be better."""
        begun, before = self._begun_with, self._recommended
        is_longer = begun is not None and begun.seconds < self.request.seconds
        return is_longer and before is not None and before.decision is not Decision.UNDECIDED

    @property
    def _is_settled(self) -> bool:
        """Whether a decided answer stays: in no more time, and judged as is asked for."""
        begun, before = self._begun_with, self._recommended
        if begun is None or before is None or begun.held_out != self.request.held_out:
            return False
        if before.decision is Decision.DEPLOY and begun.held_out and not before.is_held_out:
            return False  # it was given later, and the call that judged ended early
        return before.decision is not Decision.UNDECIDED and not self._is_searched_on

    def _held_out(self, work: Work, files: Files) -> HeldOutInput | None:
        """Return the held-out input, and what the program as it is does with it."""
        tuned = held_out_of(self.request, files, self._environment)
        if tuned is None:
            return None
        begun = self._begun_with
        is_begun = begun is not None and begun.held_out == self.request.held_out
        if not is_begun:
            work.check_environment()
        found = self._examine_held_out(tuned, is_begun=is_begun)
        least_s = least_seconds(found)
        if least_s > SHARE_HELD_OUT * self.request.seconds:
            words = f"each setting that wins runs {minutes_words(least_s)} or more, past --time too"
            self._view.tell(f"held out   {words}")
        return HeldOutInput(tuned, found)

    def _examine_held_out(self, tuned: Tuned, *, is_begun: bool) -> Reference:
        """Return what the program as it is does with the held-out input."""
        return examine_held_out(
            self.run,
            tuned,
            self._view,
            is_begun=is_begun,
            given=self.request.given,
            texts=self.request.held_out or (),
        )

    def _spec(
        self,
        evaluations: int,
        constraints: Sequence[str] = (),
        seeds: Sequence[Configuration] = (),
    ) -> CampaignSpec:
        return emulation.campaign_spec(
            self.run / TRACE_FILE,
            self.request.allocators,
            self.request.seed,
            evaluations,
            self.request.command[0],
            goals=self.request.rules.goals,
            constraints=constraints,
            seeds=seeds,
        )

    def _search(self, work: Work, reference: Reference) -> emulation.EmulatedTrials:
        begun = emulation.begun(self.run)
        if begun and (self.run / SELECTION_FILE).exists():
            return emulation.load(self.run)
        begun_s = self._watch.used_s
        seconds = min(_SHARE_EMULATION * self.request.seconds, max(0.0, self._watch.left_s))
        wanted = self.request.evaluations or max(
            begun.budget if begun else 0,
            emulation.evaluations_within(self._spec(100), seconds, self._first_default.seconds),
        )
        expecting = Expecting(self._view, reference, work.request.rules)

        def goes_on() -> bool:
            if self.request.evaluations:
                return True
            return not expecting.is_flat and self._watch.used_s < begun_s + _OVERTIME * seconds

        def trial_ended(record: CampaignRecord, trial: Trial) -> None:
            expecting.trial_ended(record, trial)
            work.on_kept()

        self._view.begin("emulation", wanted)
        found = emulation.search(
            self._spec(wanted, self._constraints(work, reference, begun), self._seeds(work, begun)),
            self.run,
            goes_on,
            trial_ended,
            self._program_values(reference),
        )
        n, n_of = len(found.trials), len(self.request.allocators)
        self._view.tell(
            f"searched   {n} setting{'s'[: n != 1]} of {n_of} allocator{'s'[: n_of != 1]} "
            f"in emulation, {clock_text(self._watch.used_s - begun_s)}"
        )
        return found

    def _constraints(
        self, work: Work, reference: Reference, begun: CampaignRecord | None
    ) -> tuple[str, ...]:
        """Return the guards that emulation knows, unless the program runs under something else."""
        if begun:
            return begun.constraints
        if reference.allocator != self.request.allocators[0].partition(":")[0]:
            return ()
        peak_bytes = self._first_default.peak_bytes
        return emulation.peak_constraints(work.request.rules, reference.whole_values, peak_bytes)

    def _seeds(self, work: Work, begun: CampaignRecord | None) -> Sequence[Configuration]:
        """Return what the search begins with: what is known to suit, but of a service.

        Emulation does not see what makes settings suit services.
        """
        if begun:
            return begun.seed_configurations
        return () if self.request.service else work.known

    def _program_values(self, reference: Reference) -> dict[str, float]:
        """Return what the whole program uses, memory without files: a peak may have some."""
        values = emulated_values(reference.whole_values)
        if self.request.service is None:
            values.pop("peak_heap", None)
        return values

    def _emulated(self, work: Work, reference: Reference, files: Files) -> Exploring:
        """Search in emulation, and return what chooses among what it found."""
        emulated = self._search(work, reference)
        base = reference.allocator if reference.allocator in files else next(iter(files))
        baseline = Baseline(
            reference.whole_values,
            emulated.default_of(base),
            emulated.ns_per_instruction,
            is_plain=reference.is_of(Configuration(base)),
        )
        proposals = with_known(propose(emulated.trials, baseline), work.known, baseline.values)
        choosing = Choosing(work, reference, proposals, emulated, baseline)
        return Exploring(work, reference, choosing, emulated.record.space)

    def _decide(
        self, work: Work, reference: Reference, choosing: Chooses, held_out: HeldOutInput | None
    ) -> Answer:
        conclusion = Conclusion(work, reference)
        if work.machines is not None:
            work.machines.wait()
        n_possible = int(_SHARE_PROGRAM * self._watch.left_s / work.run_seconds(reference))
        n_fewest = fewest_runs(is_blind=work.request.is_direct and not work.known)
        if n_possible < n_fewest and not (self.run / SELECTION_FILE).exists():
            return conclusion.proposal_only(choosing.proposals, n_fewest)
        begun_s = self._watch.used_s
        before = snapshot()
        ran_before = self._candidates_before(work) if work.is_searched_on else []
        selected = _selected(work, choosing, n_possible, ran_before)
        chosen = self._better(work, reference, choosing, selected) or work.kept(CONFIRMATION_FILE)
        if not (chosen or work.is_settled):
            chosen = choosing.finalists(selected) or trade(work, reference, selected)
        confirmed = None
        if chosen:
            fewest_s = n_fewest * work.run_seconds(reference)
            selected, confirmed = _confirmed(
                work, reference, held_out, choosing, selected, chosen=chosen, fewest_s=fewest_s
            )
        took_s = self._watch.used_s - begun_s
        answer = (
            conclusion.conclude(selected, confirmed)
            if confirmed
            else conclusion.nothing_near(selected)
        )
        self._tell_what_ran(work, selected, confirmed, answer, took_s)
        if answer.decision is not Decision.DEPLOY and (words := self._deployed_before(confirmed)):
            answer = replace(answer, reasons=(words, *answer.reasons))
        if work.machines is not None or not work.has_run:
            return answer
        n_cores = os.cpu_count() or 1
        said = disturbance_words(
            before,
            snapshot(),
            n_cores,
            reference.n_threads,
            by_clock=_deployed_by_clock(answer),
        )
        return replace(answer, reasons=(*answer.reasons, said)) if said else answer

    def _candidates_before(self, work: Work) -> list[Configuration]:
        """Return what is deployed, and what ran as a candidate in an earlier call."""
        before = self._recommended
        found = [one for file in _PROVEN for one in work.ran(file)]
        if before is None or before.configuration is None:
            return found
        if before.trial is not None:
            work.trials[label_of(before.configuration)] = before.trial
        return [before.configuration, *found]

    def _better(
        self, work: Work, reference: Reference, choosing: Chooses, selected: Selected
    ) -> dict[str, Configuration]:
        """Return candidates that a search which went on found, beside what is deployed.

        All of them are proven anew, on runs of their own.  Those that ran as candidates before are
        out, unless the answer says that they are open.  None are where there is no time to run one
        beside what is deployed.
        """
        if not work.is_searched_on:
            return {}
        before = self._recommended
        deployed = before.configuration if before else None
        ran = self._candidates_before(work)
        still_open = {row.label for row in before.rows if row.is_open} if before else set[str]()
        n_at_once = affordable(work, reference, work.watch.left_s).at_once
        found: dict[str, Configuration] = {}
        words = "nothing else promises to gain more"
        if deployed is None:
            found = choosing.finalists(selected, ran)
        elif n_at_once > 1:
            found = {label_of(one): one for one in ran if label_of(one) in still_open}
            found |= choosing.finalists(selected, ran)
        else:
            words = "too little time is left to run another setting beside what is deployed"
        if not found:
            self._view.tell(f"note       {words}: the answer stays")
        if deployed and found:
            found = {label_of(deployed): deployed, **found}
        if found:
            gains_of_work(work, reference, found)  # takes long, and is kept: before files move
            move_to_before(self.run, _OF_PROOF, copied=ANSWER_FILE)
        work.is_searched_on = False
        self._write_request(work)
        return found

    def _deployed_before(self, confirmed: Confirmed | None) -> str:
        """Say what was deployed before it was searched on; nothing where it is turned down now."""
        found = deployed_before(self.run)
        if found is None or found[1].configuration is None:
            return ""
        label = label_of(found[1].configuration)
        if confirmed and label in confirmed.held_back:
            return ""
        return f"{label} was proven better before more was tried, see {found[0].name}."

    def _tell_what_ran(
        self,
        work: Work,
        selected: Selected,
        confirmed: Confirmed | None,
        answer: Answer,
        seconds: float,
    ) -> None:
        if work.has_run:
            known = {*selected.changes, *(confirmed.standings if confirmed else ())}
            n_settings = len(known & work.made.keys())
            duets = _duet_words(confirmed) if confirmed else ""
            self._view.tell(
                f"ran        {n_settings} setting{'s'[: n_settings != 1]} on the program, "
                f"{work.made.total()} runs, {clock_text(seconds)}{duets}{_machine_words(work)}"
            )
        elif answer.decision is not Decision.UNDECIDED:
            words = _KNOWN
            if work.is_elsewhere or self._is_judged_anew:
                words = "judged by the runs that are there"
            self._view.tell(f"ran        nothing: {words}")


def _deployed_by_clock(answer: Answer) -> str:
    """Return the allocator that is deployed, if it gives freed memory back by the clock."""
    one = answer.configuration
    if answer.decision is not Decision.DEPLOY or one is None:
        return ""
    waits = shipped_allocator_file(one.allocator).purges_by_clock(one.as_dict)
    return one.allocator if waits else ""


def _confirmed(
    work: Work,
    reference: Reference,
    held_out: HeldOutInput | None,
    choosing: Chooses,
    selected: Selected,
    *,
    chosen: Mapping[str, Configuration],
    fewest_s: float,
) -> tuple[Selected, Confirmed]:
    """Confirm candidates, or others where these are given up, the winner in few settings.

    Returns:
        What ran until then, and what the rounds prove.
    """
    while True:
        confirming = Confirming(work, reference, held_out)
        confirmed = confirming.confirm(chosen, n_waiting=choosing.n_waiting)
        tried = dict(chosen)
        for number, file in enumerate(CONFIRMATION_FILES[1:], start=1):
            others = work.kept(file)
            # An answer that is asked for again stays, where there is no time for more.
            may_follow = work.has_run or fewest_s < work.watch.left_s
            if confirmed.is_out and not others and may_follow:
                selected, others = _others(work, choosing, selected, tried.values())
            if not others or confirmed.best is not None:
                break
            tried |= others
            confirmed = confirmed.followed_by(
                confirming.confirm(others, number, n_waiting=choosing.n_waiting)
            )
        before = confirmed.best
        confirmed = reduced(work, reference, confirming, confirmed, choosing.smaller)
        has_failed = before is not None and confirmed.best is None
        if not (confirmed.deployed or has_failed):
            return selected, confirmed


def _selected(
    work: Work, choosing: Chooses, n_possible: int, without: Collection[Configuration] = ()
) -> Selected:
    """Return what the runs that choose show; what they do not repeat is known from then on."""
    found = choosing.select(n_possible, without)
    work.varying = varying_under(found.course, work.request.rules)
    return found


def _others(
    work: Work, choosing: Chooses, selected: Selected, tried: Collection[Configuration]
) -> tuple[Selected, dict[str, Configuration]]:
    """Return what ran until then, and the candidates that follow those that were tried."""
    others = choosing.finalists(selected, tried)
    is_closed = work.request.is_direct or work.is_explored
    if not (others or is_closed) and selected.n_untried:
        selected = _selected(work, choosing, 0, tried)  # what may run is known
        others = choosing.finalists(selected, tried)
    return selected, others


def are_runs_all(request: Request, run: Path, run_s: float) -> bool:
    """Return whether nothing is recorded: as asked for, or since a service has time for few runs.

    Args:
        request: what is asked for.
        run: its folder; an optimisation goes on as it was begun.
        run_s: of one run, in seconds.
    """
    if request.service is None or request.evaluations or (run / TRACE_FILE).exists():
        return request.is_direct
    is_begun = (run / SELECTION_FILE).exists()
    return request.is_direct or is_begun or request.seconds < _FEW_RUNS * run_s


def not_held_out(answer: Answer, given: str) -> Answer:
    """Return an answer that says why what is held out judged nothing, where it deploys nothing.

    Args:
        answer: the answer.
        given: see `Request.given`.
    """
    if answer.decision is Decision.DEPLOY:
        return answer
    words = f"Nothing was judged with the held-out {given}: there is no setting to judge."
    return replace(answer, reasons=(*answer.reasons, words))


def fewest_runs(*, is_blind: bool) -> int:
    """Return how many runs the time must allow for anything but a proposal.

    Args:
        is_blind: neither emulation nor settings that are known to suit say where to search.
    """
    return _FEWEST_DIRECT_RUNS if is_blind else FEWEST_RUNS


def _duet_words(confirmed: Confirmed) -> str:
    n = n_duets(confirmed.course)
    return f"; {n} round{'s'[: n != 1]} side by side on one core" if n else ""


def _machine_words(work: Work) -> str:
    return f", on {', '.join(work.machines.known)}" if work.machines else ""
