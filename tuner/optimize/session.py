"""One optimisation from its command to its answer; interrupted, the same command goes on.

    examine    the program as it is, twice: what it does, what it uses
    record     its allocations, once
    search     settings in emulation, a quarter of the time
    select     promising settings on the program, once each: they choose, they prove nothing
    confirm    at most three candidates on new runs, round after round until it is decided
    hold out   the winner on an input that was not tuned on

Source of the shares of time and of the numbers of candidates: docs/decisions/optimize.md.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tuner.campaign.progress import clock_text
from tuner.campaign.setup import locate
from tuner.config import CampaignSpec
from tuner.errors import SpecError
from tuner.measure.warm import warm_memory
from tuner.optimize import emulation
from tuner.optimize.answer import Answer, write_answer
from tuner.optimize.candidates import Choosing
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirmation import Confirming
from tuner.optimize.kinds import Files, held_out_of, tuned_of
from tuner.optimize.proposals import Baseline, propose, with_known
from tuner.optimize.request import REQUEST_FILE, Request
from tuner.optimize.tuned import Reference
from tuner.optimize.view import View
from tuner.optimize.work import (
    CONFIRMATION_FILE,
    REFERENCE_FILE,
    SELECTION_FILE,
    TRACE_FILE,
    Watch,
    Work,
    run_seconds,
)
from tuner.output import write_text
from tuner.records import Configuration, Trial
from tuner.store import CampaignRecord

_SHARE_EMULATION = 0.25
_SHARE_PROGRAM = 0.9
_FEWEST_RUNS = 8
"""Runs that the time must allow for anything but a proposal."""

_OVERTIME = 1.3
"""Of the share of emulation, after which it is stopped."""


class Expecting:
    """Shows what is expected of the program under every setting that was emulated."""

    def __init__(self, view: View, reference: Reference) -> None:
        """Take where to show, and the program as it is."""
        self._view = view
        self._reference = reference
        self._baseline: Baseline | None = None

    def trial_ended(self, record: CampaignRecord, trial: Trial) -> None:
        """Show a trial; the default of what the program runs under gives the baseline."""
        base = Configuration(self._reference.brings or "glibc")
        if trial.configuration == base and trial.measurement is not None:
            self._baseline = Baseline(
                self._reference.values, trial, emulation.ns_per_instruction(record)
            )
        found = propose([trial], self._baseline) if self._baseline else []
        self._view.emulated(trial, found[0].expected if found else None)


class Session:
    """One optimisation in one run folder."""

    def __init__(
        self,
        run: Path,
        request: Request,
        view: View | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin, or go on with what the folder holds.

        Args:
            run: the folder; made when missing.
            request: what is asked for.
            view: shows progress; None for none.
            environment: the program's; None for this process's.
            clock: in seconds; only differences count.

        Raises:
            SpecError: the folder holds an optimisation of another command.
            OutputError: it cannot be written.
        """
        self.run = run
        self.request = request
        self._view = view or View()
        self._environment = dict(os.environ if environment is None else environment)
        self._watch = Watch(request.seconds, clock)
        if (run / REQUEST_FILE).exists():
            kept = Request.load(run)
            if _identity(kept) != _identity(request):
                message = f"{run}: holds another optimisation; choose another -o"
                raise SpecError(message)

    def answer(self) -> Answer:
        """Do what is left to do, and return the answer, which is in the folder too.

        Raises:
            ProgramError: the program fails as it is, or cannot be recorded.
            MissingToolError: a library, an instrument or the program is not here.
            InterruptedCampaign: Ctrl-C; everything measured is kept.
            OutputError: the folder cannot be written.
        """
        files = locate(self._spec(self.request.evaluations or 100))
        tuned = tuned_of(self.request, files, self._environment)
        work = Work(self.run, self.request, tuned, self._watch, self._view)
        reference = self._examine(work)
        work.request = replace(self.request, rules=self.request.rules.of(reference.values))
        write_text(self.run / REQUEST_FILE, json.dumps(self.request.as_record(), indent=1) + "\n")
        trace = self.run / TRACE_FILE
        if not trace.exists():
            self._view.begin("recording", None)
            self._view.tell(f"recorded   {tuned.record(trace, reference)}")
        found = self._decide(work, reference, self._search(reference), files)
        write_answer(self.run, found)
        return found

    def _examine(self, work: Work) -> Reference:
        """Return what the program does as it is, from the folder if that is known."""
        path = self.run / REFERENCE_FILE
        work.n_runs += 2
        if path.exists() and (self.run / REQUEST_FILE).exists():
            return Reference.load(path)
        self._view.begin("examining", None)
        warm_memory()
        found = work.tuned.examine()
        write_text(path, json.dumps(found.as_record(), indent=1) + "\n")
        return found

    def _spec(self, evaluations: int) -> CampaignSpec:
        return emulation.campaign_spec(
            self.run / TRACE_FILE, self.request.allocators, self.request.seed, evaluations
        )

    def _search(self, reference: Reference) -> emulation.EmulatedTrials:
        if (self.run / SELECTION_FILE).exists():
            return emulation.load(self.run)
        begun_s = self._watch.used_s
        seconds = _SHARE_EMULATION * self.request.seconds
        wanted = self.request.evaluations or emulation.begun_with(self.run)
        wanted = wanted or emulation.evaluations_within(self._spec(100), seconds)
        limit_s = math.inf if self.request.evaluations else begun_s + _OVERTIME * seconds
        self._view.begin("emulation", wanted)
        found = emulation.search(
            self._spec(wanted),
            self.run,
            lambda: self._watch.used_s < limit_s,
            Expecting(self._view, reference).trial_ended,
        )
        self._view.tell(
            f"searched   {len(found.trials)} settings of {len(self.request.allocators)} allocators "
            f"in emulation, {clock_text(self._watch.used_s - begun_s)}"
        )
        return found

    def _decide(
        self, work: Work, reference: Reference, emulated: emulation.EmulatedTrials, files: Files
    ) -> Answer:
        as_is = reference.brings or "glibc"
        base = as_is if as_is in files else self.request.allocators[0]
        baseline = Baseline(
            reference.whole_values, emulated.default_of(base), emulated.ns_per_instruction
        )
        proposals = with_known(propose(emulated.trials, baseline), work.tuned.known)
        conclusion = Conclusion(work, reference, as_is)
        n_possible = int(_SHARE_PROGRAM * self._watch.left_s / run_seconds(reference))
        if n_possible < _FEWEST_RUNS and not (self.run / SELECTION_FILE).exists():
            return conclusion.proposal_only(proposals, _FEWEST_RUNS)
        begun_s = self._watch.used_s
        choosing = Choosing(work, reference, proposals, emulated)
        selected = choosing.select(n_possible)
        chosen = work.kept(CONFIRMATION_FILE) or choosing.finalists(selected)
        if not chosen:
            return conclusion.nothing_near(selected)
        held_out = held_out_of(self.request, files, self._environment)
        confirmed = Confirming(work, reference, held_out).confirm(chosen)
        self._view.tell(
            f"ran        {len(selected.changes) or len(chosen)} settings on the program, "
            f"{work.n_runs} runs, {clock_text(self._watch.used_s - begun_s)}"
        )
        return conclusion.conclude(selected, confirmed)


def _identity(request: Request) -> tuple[object, ...]:
    """Return what an optimisation that goes on must have in common with how it was begun."""
    return request.command, request.further, request.rules
