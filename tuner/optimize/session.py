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
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuner.campaign.progress import clock_text
from tuner.campaign.setup import locate
from tuner.compare.journal import Journal, read_journal
from tuner.compare.loop import compare
from tuner.compare.plan import Course, Rounds
from tuner.config import CampaignSpec
from tuner.errors import SpecError
from tuner.measure.program import ProgramRunner
from tuner.measure.warm import warm_memory
from tuner.optimize import emulation
from tuner.optimize.answer import (
    Answer,
    Decision,
    label_of,
    open_words,
    rows_of,
    write_answer,
)
from tuner.optimize.correction import corrected
from tuner.optimize.evidence import rounds_for
from tuner.optimize.judgement import CPU, QUANTITIES, Gain, Standing, State
from tuner.optimize.program import (
    AS_IS,
    Program,
    Reference,
    Sample,
    find_surroundings,
    logs_of,
    values_of,
)
from tuner.optimize.proposals import Baseline, Proposal, finalists, propose, score, spread_of
from tuner.optimize.race import Race, choose, standings
from tuner.optimize.request import REQUEST_FILE, Request
from tuner.optimize.selection import Selection, keeper_of, noise_of
from tuner.output import write_text
from tuner.recording import record
from tuner.records import Configuration

TRACE_FILE = "program.trace"
SELECTION_FILE = "selection.jsonl"
CONFIRMATION_FILE = "confirmation.jsonl"
HELD_OUT_FILE = "held-out.jsonl"
REFERENCE_FILE = "reference.json"
"""What a run folder holds beside its campaign."""

_SHARE_EMULATION = 0.25
_SHARE_PROGRAM = 0.9
_SHARE_HELD_OUT = 0.15
_MOST_SELECTED = 24
_FINALISTS = 3
_FEWEST_RUNS = 8
"""Runs that the time must allow for anything but a proposal."""

_HELD_OUT_ROUNDS = 10
_HELD_OUT_ERROR = 0.2
"""Of calling a loss on the held-out input one where there is none: the cautious side."""

_CHILDREN_SHARE = 0.5
"""Of the CPU time, above which the program is a driver of others."""


CHILDREN = (
    "Most CPU time was spent in child processes, whose memory and settings this does not see; "
    "name the command of the child (for gcc, what `gcc -###` prints)."
)
"""For a program that is a driver of others."""


def _silent(_: str) -> None:
    """Show nothing."""


class Session:
    """One optimisation in one run folder."""

    def __init__(
        self,
        run: Path,
        request: Request,
        tell: Callable[[str], None] = _silent,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin, or go on with what the folder holds.

        Args:
            run: the folder; made when missing.
            request: what is asked for.
            tell: shows a line of progress.
            environment: the program's; None for this process's.
            clock: in seconds; only differences count.

        Raises:
            SpecError: the folder holds an optimisation of another command.
            OutputError: it cannot be written.
        """
        self.run = run
        self.request = request
        self._tell = tell
        self._environment = dict(os.environ if environment is None else environment)
        self._clock = clock
        self._begun_s = clock()
        self._n_runs = 0
        if (run / REQUEST_FILE).exists():
            kept = Request.load(run)
            if (kept.command, kept.rules) != (request.command, request.rules):
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
        trace = self.run / TRACE_FILE
        spec = self._spec(trace, self.request.evaluations or 100)
        files = locate(spec)
        surroundings = find_surroundings(self.request.timeout_s, self.request.cpu)
        program = Program(
            self.request.command, ProgramRunner(), self._environment, files, surroundings
        )
        reference = self._examine(program)
        write_text(self.run / REQUEST_FILE, json.dumps(self.request.as_record(), indent=1) + "\n")
        if not trace.exists():
            self._record(trace)
        emulated = self._search(trace)
        as_is = reference.brings or "glibc"
        base = as_is if as_is in files else self.request.allocators[0]
        baseline = Baseline(
            reference.values, emulated.default_of(base), emulated.ns_per_instruction
        )
        proposals = propose(emulated.trials, baseline)
        found = _Answering(
            self, program, reference, proposals=proposals, emulated=emulated, as_is=as_is
        ).answer()
        write_answer(self.run, found)
        return found

    def _examine(self, program: Program) -> Reference:
        """Return what the program does as it is, from the folder if that is known."""
        path = self.run / REFERENCE_FILE
        self._n_runs += 2
        if path.exists() and (self.run / REQUEST_FILE).exists():
            return Reference.load(path)
        warm_memory()
        found = program.examine()
        write_text(path, json.dumps(found.as_record(), indent=1) + "\n")
        return found

    def _spec(self, trace: Path, evaluations: int) -> CampaignSpec:
        return emulation.campaign_spec(
            trace, self.request.allocators, self.request.seed, evaluations
        )

    def _record(self, trace: Path) -> None:
        begun_s = self._clock()
        recording = record(self.request.command, trace, is_silent=True)
        first = recording.processes[0]
        self._tell(
            f"recorded   {first.totals.n_events:,} events of malloc and free in "
            f"{self._clock() - begun_s:.1f} s"
        )

    def _search(self, trace: Path) -> emulation.Emulated:
        if (self.run / SELECTION_FILE).exists():
            return emulation.load(self.run)
        begun_s = self._clock()
        seconds = _SHARE_EMULATION * self.request.seconds
        spec = self._spec(trace, 100)
        wanted = self.request.evaluations or emulation.begun_with(self.run)
        wanted = wanted or emulation.evaluations_within(spec, seconds)
        spec = self._spec(trace, wanted)
        limit_s = math.inf if self.request.evaluations else begun_s + 1.3 * seconds
        found = emulation.search(spec, self.run, lambda: self._clock() < limit_s)
        self._tell(
            f"searched   {len(found.trials)} settings of {len(self.request.allocators)} allocators "
            f"in emulation, {clock_text(self._clock() - begun_s)}"
        )
        return found

    def left_s(self) -> float:
        """Return what is left of the time."""
        return self.request.seconds - (self._clock() - self._begun_s)

    def used_s(self) -> float:
        """Return what was used of the time."""
        return self._clock() - self._begun_s

    def tell(self, line: str) -> None:
        """Show a line of progress."""
        self._tell(line)

    def count_runs(self, course: Course[None, Sample]) -> Course[None, Sample]:
        """Count the runs of a comparison, those of earlier calls too."""
        self._n_runs += len(course.samples)
        return course

    @property
    def n_runs(self) -> int:
        """Runs of the program so far."""
        return self._n_runs


class _Answering:
    """From proposals to the answer."""

    def __init__(
        self,
        session: Session,
        program: Program,
        reference: Reference,
        *,
        proposals: Sequence[Proposal],
        emulated: emulation.Emulated,
        as_is: str,
    ) -> None:
        self._session = session
        self._run = session.run
        self._request = session.request
        self._rules = session.request.rules
        self._program = program
        self._reference = reference
        self._proposals = proposals
        self._emulated = emulated
        self._as_is = as_is
        self._singles: dict[str, dict[str, Gain]] = {}
        self._notes: dict[str, str] = {}
        self._trials: dict[str, int] = {}
        """Of candidates, by label."""

    def answer(self) -> Answer:
        n_possible = int(_SHARE_PROGRAM * self._session.left_s() / self._run_s())
        confirmation = self._run / CONFIRMATION_FILE
        if n_possible < _FEWEST_RUNS and not (self._run / SELECTION_FILE).exists():
            return self._proposal_only()
        begun_s = self._session.used_s()
        selected = self._select(n_possible)
        chosen = self._kept(confirmation) or self._finalists(*selected)
        if not chosen:
            return self._answer(Decision.KEEP, None, [])
        course = self._confirm(chosen)
        found = standings(course, list(chosen), self._rules)
        self._session.tell(
            f"ran        {len(self._singles) or len(chosen)} settings on the program, "
            f"{self._session.n_runs} runs, {clock_text(self._session.used_s() - begun_s)}"
        )
        return self._conclude(chosen, found, course)

    # select

    def _select(self, n_possible: int) -> tuple[Course[None, Sample], dict[str, Proposal]]:
        """Run every candidate once: those that were begun with, or a new choice."""
        kept = self._kept(self._run / SELECTION_FILE)
        known = {p.configuration: p for p in self._proposals}
        wanted = min(_MOST_SELECTED, max(2, n_possible // 3))
        candidates = [known[one] for one in kept.values() if one in known]
        if not kept:
            candidates = self._runnable(spread_of(self._proposals, self._rules, wanted))
        labels = {label_of(p.configuration): p for p in candidates}
        configurations = {label: p.configuration for label, p in labels.items()}
        environments = self._program.environments(configurations, self._reference)
        header = self._header("malloc-tuner.selection", configurations)
        with Journal(self._run / SELECTION_FILE, header, same=("candidates",)) as journal:
            course = compare(
                Selection(tuple(labels), self._request.seed),
                self._program.runner(environments, self._reference),
                keeper_of(journal),
                baseline=AS_IS,
            )
        self._session.count_runs(course)
        self._remember(course, list(labels))
        return course, labels

    def _runnable(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Leave out what is the program as it is, or is refused by its allocator."""
        return [
            p
            for p in proposals
            if not self._is_as_is(p.configuration)
            and self._program.refusal(p.configuration) is None
        ]

    def _is_as_is(self, configuration: Configuration) -> bool:
        return configuration == Configuration("glibc") and self._reference.brings is None

    def _remember(self, course: Course[None, Sample], labels: Sequence[str]) -> None:
        base = values_of(course, AS_IS)
        for label in labels:
            values = values_of(course, label)
            self._singles[label] = {
                name: Gain(math.log(statistics.median(base[name]) / found[0]), -math.inf, math.inf)
                for name, found in values.items()
                if found and base[name]
            }
            failed = course.out.get((None, label))
            if failed:
                self._notes[label] = failed

    def _finalists(
        self, course: Course[None, Sample], labels: Mapping[str, Proposal]
    ) -> dict[str, Configuration]:
        failed = {label for (_, label) in course.out}
        usable = [p for p in self._proposals if label_of(p.configuration) not in failed]
        values = {name: self._corrected(course, usable, name) for name in QUANTITIES}
        measured = [p for p in usable if label_of(p.configuration) in labels]
        index = {id(p): i for i, p in enumerate(usable)}
        rows = {name: [values[name][index[id(p)]] for p in measured] for name in QUANTITIES}
        chosen = finalists(measured, rows, self._rules, _FINALISTS)
        smallest = dict(self._smallest(p) for p in chosen)
        return {label: one for label, one in smallest.items() if not self._is_as_is(one)}

    def _smallest(self, proposal: Proposal) -> tuple[str, Configuration]:
        spec = emulation.campaign_spec(
            self._run / TRACE_FILE, self._request.allocators, self._request.seed, 100
        )
        found = emulation.smallest(spec, self._run, self._emulated, proposal.configuration)
        self._trials.setdefault(label_of(found), proposal.trial)
        return label_of(found), found

    def _corrected(
        self, course: Course[None, Sample], proposals: Sequence[Proposal], name: str
    ) -> Sequence[float]:
        measured = {}
        for index, proposal in enumerate(proposals):
            logs = logs_of(course, label_of(proposal.configuration))[name]
            if logs:
                measured[index] = [-x for x in logs]
        noise = noise_of(values_of(course, AS_IS)[name], is_time=name == CPU)
        groups = [p.configuration.allocator for p in proposals]
        found = corrected(groups, [p.expected[name] for p in proposals], measured, noise)
        return [float(value) for value in found]

    # confirm

    def _kept(self, path: Path) -> dict[str, Configuration]:
        """Return the candidates that a comparison of an earlier call began with."""
        content = read_journal(path)
        kept = content.header.get("candidates", {}) if content else {}
        self._trials |= content.header.get("trials", {}) if content else {}
        return {label: Configuration.from_key(key) for label, key in kept.items()}

    def _confirm(self, chosen: Mapping[str, Configuration]) -> Course[None, Sample]:
        environments = self._program.environments(chosen, self._reference)
        header = self._header("malloc-tuner.confirmation", chosen)
        race = Race(list(chosen), self._rules, self._has_time, self._request.seed)
        with Journal(self._run / CONFIRMATION_FILE, header, same=("candidates",)) as journal:
            return self._session.count_runs(
                compare(
                    race,
                    self._program.runner(environments, self._reference),
                    keeper_of(journal),
                    baseline=AS_IS,
                )
            )

    def _has_time(self, n_runs: int) -> bool:
        reserved = _SHARE_HELD_OUT * self._request.seconds if self._request.held_out else 0.0
        return self._session.left_s() - reserved > n_runs * self._run_s()

    def _run_s(self) -> float:
        return self._reference.wall_s + 0.02

    # answer

    def _conclude(
        self,
        chosen: Mapping[str, Configuration],
        found: Mapping[str, Standing],
        course: Course[None, Sample],
    ) -> Answer:
        sizes = {label: len(one.settings) for label, one in chosen.items()}
        rows = list(found.values())
        best = choose(found, sizes, self._rules)
        if best is not None:
            held_out = self._hold_out(best.label, chosen[best.label])
            if held_out is None:
                return self._answer(Decision.DEPLOY, best, rows, chosen)
            if held_out.worse:
                bad = ", ".join(
                    f"{name} {100.0 * held_out.gains[name].change:+.1f} %"
                    for name in held_out.worse
                )
                reason = f"{best.label} gains on the tuned input, but on the held-out one: {bad}."
                return self._answer(Decision.KEEP, best, rows, chosen, reasons=(reason,))
            return self._answer(Decision.DEPLOY, best, rows, chosen, held_out=held_out.gains)
        still_open = [one for one in found.values() if one.state is State.OPEN]
        if not still_open:
            nearest = max(found.values(), key=lambda one: one.score(self._rules))
            return self._answer(Decision.KEEP, nearest, rows, chosen)
        nearest = max(still_open, key=lambda one: one.score(self._rules))
        answer = self._answer(Decision.UNDECIDED, nearest, rows, chosen)
        more_s = self._rounds_left(nearest, course, len(chosen)) * (len(chosen) + 1) * self._run_s()
        return replace(answer, missing=open_words(nearest), more_seconds=more_s)

    def _rounds_left(
        self, nearest: Standing, course: Course[None, Sample], n_candidates: int
    ) -> int:
        """Return how many rounds more may settle what is open of a candidate."""
        noise = noise_of(values_of(course, AS_IS)[CPU], is_time=True)
        distance = abs(nearest.gains[CPU].middle + math.log1p(self._rules.least))
        wanted = rounds_for(
            max(distance, self._rules.least), noise, self._rules.error / n_candidates
        )
        return max(1, wanted - nearest.n_rounds)

    def _hold_out(self, label: str, configuration: Configuration) -> Standing | None:
        """Compare the winner with the program as it is on the held-out input; kept once made."""
        command = self._request.held_out
        if command is None:
            return None
        program = self._program.on(command)
        reference = program.examine()
        environments = program.environments({label: configuration}, reference)
        header = {
            **self._header("malloc-tuner.held-out", {label: configuration}),
            "command": list(command),
        }
        path = self._run / HELD_OUT_FILE
        with Journal(path, header, same=("candidates", "command")) as journal:
            course = compare(
                Rounds((AS_IS, label), (None,), _HELD_OUT_ROUNDS),
                program.runner(environments, reference),
                keeper_of(journal),
                baseline=AS_IS,
            )
        self._session.count_runs(course)
        cautious = replace(self._rules, error=_HELD_OUT_ERROR)
        return standings(course, [label], cautious)[label]

    def _proposal_only(self) -> Answer:
        near = spread_of(self._proposals, self._rules, len(self._proposals))
        ranked = sorted(near, key=lambda p: score(p.expected, self._rules))
        label = label_of(ranked[0].configuration) if ranked else ""
        words = (
            f"the time allows no more than {_FEWEST_RUNS - 1} runs of the program. "
            f"Emulation proposes {label}, which no run has confirmed"
        )
        return replace(
            self._answer(Decision.UNDECIDED, None, []),
            missing=words,
            more_seconds=4.0 * _FEWEST_RUNS * self._run_s(),
        )

    def _answer(
        self,
        decision: Decision,
        best: Standing | None,
        found: Sequence[Standing],
        chosen: Mapping[str, Configuration] | None = None,
        *,
        reasons: tuple[str, ...] = (),
        held_out: Mapping[str, Gain] | None = None,
    ) -> Answer:
        label = best.label if best else ""
        if self._reference.children_share > _CHILDREN_SHARE:
            reasons = (*reasons, CHILDREN)
        return Answer(
            decision=decision,
            configuration=(chosen or {}).get(label),
            label=label,
            as_is=self._as_is,
            baseline=self._reference.values,
            rules=self._rules,
            standing=best,
            rows=rows_of(label, found, self._singles, self._notes),
            n_runs=self._session.n_runs,
            seconds=self._session.used_s(),
            trial=self._trials.get(label),
            command=self._request.command,
            date=datetime.now(UTC).date().isoformat(),
            held_out=held_out,
            reasons=reasons,
        )

    def _header(self, schema: str, candidates: Mapping[str, Configuration]) -> dict[str, Any]:
        return {
            "schema": schema,
            "version": 1,
            "candidates": {label: one.key for label, one in candidates.items()},
            "trials": {name: n for name, n in self._trials.items() if name in candidates},
            "command": list(self._request.command),
        }
