"""What all stages of an optimisation share: the folder, what is tuned, the time, the runs."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import platform
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.compare.apart import Handout, compare_apart
from tuner.compare.journal import Content, Journal, JournalKeeper, Record, read_journal
from tuner.compare.loop import Observer, compare, ignore
from tuner.compare.plan import Course, Plan, Step
from tuner.errors import ProgramError, StoreError
from tuner.front.kept import read_answer
from tuner.measure.program import steering_digest
from tuner.optimize.aside import is_searched_on, move_aside
from tuner.optimize.proof.abreast import Abreast, abreast_on, cores_abreast
from tuner.optimize.proof.duets import Duets, duets_of
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.machines import Relative, RoundExecutor, Scene, relative_to
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned
from tuner.optimize.view import View
from tuner.records import Configuration, Outcome, Status
from tuner.runs import CONFIRMATION_FILE, CONFIRMATION_FILES, SELECTION_FILE

TRACE_FILE = "program.trace"
EXPLORATION_FILE = "exploration.jsonl"
HELD_OUT_FILES = "held-out.*.jsonl"
"""Pattern of what `held_out_file` returns."""

ABLATION_FILE = "ablation.jsonl"
FEWER_FILE = "fewer.jsonl"
REDUCED_FILE = "reduced.jsonl"
HELD_OUT_REFERENCE_FILE = "held-out-reference.json"
"""What a run folder holds beside its campaign."""

_ENVIRONMENT = "preloads_and_allocator_variables"

_OF_ONE_WINNER = (ABLATION_FILE, FEWER_FILE, REDUCED_FILE)
"""Of these, what is begun anew where another candidate wins."""

FIRST_RUNS = 2
"""Of the program as it is, see `Tuned.examine`."""

_START_S = 0.02
"""Of a run, what it takes beside the program."""


class Watch:
    """The time that was given and how much of it is used."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start.

        Args:
            seconds: given.
            clock: in seconds; only differences count.
        """
        self.seconds = seconds
        self._clock = clock
        self._begun_s = clock()
        self._is_over = False

    @property
    def used_s(self) -> float:
        """What was used."""
        return self._clock() - self._begun_s

    @property
    def left_s(self) -> float:
        """What is left; below 0, or 0, when it is over."""
        return 0.0 if self._is_over else self.seconds - self.used_s

    def end(self) -> None:
        """Leave nothing of it: what is asked for is known."""
        self._is_over = True


@dataclass
class Work:
    """One optimisation under way."""

    run: Path
    request: Request
    tuned: Tuned
    watch: Watch
    view: View = field(default_factory=View)
    made: Counter[str] = field(default_factory=Counter)
    """Subject -> runs of it that this call made, without those that examine the program."""
    known: tuple[Configuration, ...] = ()
    """Settings that take part whatever emulation says of them."""
    compared: list[str] = field(default_factory=list)
    """Files of the comparisons of this call."""
    trials: dict[str, int] = field(default_factory=dict)
    """Label of a candidate -> trial of the campaign that it comes from."""
    uncounted: set[tuple[str, str]] = field(default_factory=set)
    """Label and what could not be counted of it: it is not tried again in this call."""
    machines: RoundExecutor | None = None
    """Make the runs; None: this machine does."""
    on_kept: Callable[[], None] = ignore
    """Is called when something that was measured is kept."""
    before_s: float = 0.0
    """Time that earlier calls took."""
    environment: str = ""
    """Digest of what steers allocators in the runs that are there; empty: not known."""
    is_searched_on: bool = False
    """Settings run beside a confirmation that is over: there may be better than what it proved."""
    is_settled: bool = False
    """The answer is known and asked for again: nothing runs, and it stays."""
    longest_s: float = 0.0
    """Longest time that an earlier call was given."""
    varying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Allocator -> what the runs that chose candidates did not repeat; see `varying_under`."""
    asked: Rules = field(init=False)
    """Rules as they were asked for; `request` has those of what the tuned input shows."""

    def __post_init__(self) -> None:
        """Keep what was asked for."""
        self.asked = self.request.rules

    @property
    def has_run(self) -> bool:
        """This call made a run."""
        return bool(self.made)

    @property
    def n_runs(self) -> int:
        """Runs of the program in all calls: what was moved aside took some of the time, too."""
        journals = itertools.chain(*(self.run.glob(f"{at}*.jsonl") for at in ("", "before-*/")))
        return FIRST_RUNS + sum(map(_n_runs_in, journals))

    @property
    def used_s(self) -> float:
        """Time that all calls took so far."""
        return self.before_s + self.watch.used_s

    @property
    def given_s(self) -> float:
        """Time that was given in all; an answer that is asked for again is given no more."""
        if self.is_settled:
            return max(self.before_s, self.longest_s)
        return self.before_s + self.watch.seconds

    def run_seconds(self, reference: Reference) -> float:
        """Return how long one of many runs takes, where several machines make them at once."""
        return run_seconds(reference) / (self.machines.n_at_once if self.machines else 1)

    @property
    def is_explored(self) -> bool:
        """Whether runs alone went on where emulation ended: what that proposed runs no more."""
        return (self.run / EXPLORATION_FILE).exists()

    @property
    def is_chosen(self) -> bool:
        """Whether the answer is known, or a confirmation has begun: nothing is searched beside."""
        is_begun = (self.run / CONFIRMATION_FILE).exists() and not self.is_searched_on
        return is_begun or self.is_settled

    @property
    def has_no_more_confirmations(self) -> bool:
        """Whether as many candidates followed others as may: no error is left for more."""
        return all((self.run / file).exists() for file in CONFIRMATION_FILES)

    @property
    def is_elsewhere(self) -> bool:
        """Whether allocators are steered otherwise than in the runs that are there."""
        return self.environment not in ("", steering_digest(os.environ))

    def check_environment(self) -> None:
        """Refuse to run anything beside runs of another environment.

        Raises:
            StoreError: those that are there had another one.
        """
        if self.is_elsewhere:
            raise _other_environment(self.run)

    def kept(self, file: str) -> dict[str, Configuration]:
        """Return the candidates that a comparison of an earlier call began with."""
        content = read_journal(self.run / file)
        if content is None:
            return {}
        self.trials |= content.header.get("trials", {})
        return _candidates_of(content)

    def ran(self, file: str) -> list[Configuration]:
        """Return those of the candidates of a comparison that had a run."""
        content = read_journal(self.run / file)
        ran = {one["subject"] for one in content.records} if content else set()
        return [one for label, one in self.kept(file).items() if label in ran]

    def n_rounds(self, file: str) -> int:
        """Return how many rounds a journal has, the last one perhaps in part."""
        content = read_journal(self.run / file)
        return len({one["round"] for one in content.records}) if content else 0

    def is_answered(self, file: str) -> bool:
        """Return whether an earlier call ended with an answer that knew all rounds of a journal."""

        def knew(record: Mapping[str, Any]) -> bool:
            return bool(record["rounds_of"].get(file) == self.n_rounds(file))

        with contextlib.suppress(StoreError):
            return not is_searched_on(self.run) and bool(read_answer(self.run, knew))
        return False

    def tuned_in(
        self, file: str, candidates: Mapping[str, Configuration], tuned: Tuned | None = None
    ) -> Tuned:
        """Return what runs in a comparison: what proves something is as it will be deployed.

        Args:
            file: of the journal.
            candidates: label -> setting.
            tuned: what runs; None: what is tuned.
        """
        what = tuned or self.tuned
        return what if file == SELECTION_FILE else what.as_deployed(candidates)

    def compare(
        self,
        file: str,
        plan: Plan[None, Sample],
        candidates: Mapping[str, Configuration],
        reference: Reference,
        tuned: Tuned | None = None,
        *,
        duets: Duets | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> Course[None, Sample]:
        """Make the runs of a comparison that are missing.

        What follows on a winner, and was made of another one, is moved aside.

        Args:
            file: of the journal in the run folder; what is before its first dot names the
                comparison.
            plan: what runs when.
            candidates: label -> setting.
            reference: what runs must equal.
            tuned: what runs; None: what is tuned.
            duets: make the runs; None: as `tuned` does.
            counts: name -> number, kept of the call that begins it; None: none.

        Raises:
            ProgramError: a run of the program as it is failed.
            StoreError: runs are missing, and those that are there had another environment.
            InterruptedCampaign: Ctrl-C; everything measured is kept.
            OutputError: the journal cannot be written.
        """
        what = self.tuned_in(file, candidates, tuned)
        scene = Scene(
            reference, candidates, is_held_out=tuned is not None, is_proof=file != SELECTION_FILE
        )
        header = {
            "candidates": {label: one.key for label, one in candidates.items()},
            "trials": {name: n for name, n in self.trials.items() if name in candidates},
            "command": list(what.command),
            **(counts or {}),
        }
        if file in _OF_ONE_WINNER and self._is_of_others(file, candidates):
            move_aside(self.run / file)
        runs = duets.runs if duets else what.runner(candidates, reference)
        return self._made(file, header, plan, runs, lambda: scene)

    def _is_of_others(self, file: str, candidates: Mapping[str, Configuration]) -> bool:
        content = read_journal(self.run / file)
        return content is not None and _candidates_of(content) != candidates

    def explore(
        self,
        file: str,
        plan: Plan[None, Sample],
        scene: Callable[[], Scene],
        cores: Sequence[int | None] = (),
    ) -> Course[None, Sample]:
        """Make the runs of a search that are missing; what runs is not known beforehand.

        Args:
            file: of the journal in the run folder.
            plan: what runs when.
            scene: returns what is compared in the round that the plan yielded last.
            cores: on each of which a run is made at the same time, see `search_cores`; none: one
                run at a time.

        Raises:
            TunerError: as `compare`.
        """
        header = {"candidates": {}, "command": list(self.tuned.command)}

        def on(tuned: Tuned) -> Runs:
            def run(step: Step[None]) -> Outcome[Sample]:
                now = scene()
                return tuned.runner(now.candidates, now.reference)(step)

            return run

        abreast = abreast_on(cores, self.tuned, on)
        runs = abreast.runs if abreast else on(self.tuned)
        return self._made(file, header, plan, runs, scene, abreast=abreast)

    def _made(
        self,
        file: str,
        header: Mapping[str, Any],
        plan: Plan[None, Sample],
        runs: Runs,
        scene: Callable[[], Scene],
        *,
        abreast: Abreast | None = None,
    ) -> Course[None, Sample]:
        kind = {"schema": f"malloc-tuner.{file.partition('.')[0]}", "version": 1}
        now = steering_digest(os.environ)
        header = {**kind, **header, _ENVIRONMENT: self.environment or now}
        with Journal(self.run / file, header, ("candidates", "command")) as journal:
            kept = journal.content.header.get(_ENVIRONMENT, now)
            self.environment = self.environment or kept
            if {kept, self.environment} != {now}:
                plan = _NoMoreRuns(plan, self.run)
            keeper = SampleKeeper(journal, relative_to(scene().reference, self.run))
            observer = self._observer(journal)
            if self.machines is None:
                course = compare(
                    plan, keeper.made_here(runs), keeper, observer,
                    baseline=AS_IS, workers=abreast.n_cores if abreast else 1,
                    stop=abreast.stop if abreast else ignore, is_of_here=keeper.is_of_here,
                )  # fmt: skip
            else:
                lanes = _Lanes(self.machines, scene, keeper)
                course = compare_apart(plan, lanes, keeper, observer, baseline=AS_IS)
        if file not in self.compared:
            self.compared.append(file)
        return course

    def _observer(self, journal: Journal) -> Observer[None, Sample]:
        n_left: list[int] = [0]

        def on_left(n_runs: int) -> None:
            n_left[0] = n_runs

        def on_sample(step: Step[None], sample: Outcome[Sample]) -> None:
            n_left[0] -= 1
            self.made[step.subject] += 1
            self.view.ran(step.subject, sample.reason, max(n_left[0], 0))
            self.on_kept()
            _check_as_is(journal, step.subject, sample)

        return Observer(on_sample, on_left)


class _NoMoreRuns:
    """A plan of which nothing runs: what is there was run in another environment."""

    def __init__(self, plan: Plan[None, Sample], run: Path) -> None:
        self._plan, self._run = plan, run

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        for block in self._plan.blocks(course):
            if any(map(course.wants, block)):
                raise _other_environment(self._run)
            yield block

    def n_left(self, course: Course[None, Sample]) -> int:
        return self._plan.n_left(course)


def _other_environment(run: Path) -> StoreError:
    return StoreError(
        f"{run}: LD_PRELOAD, PYTHONMALLOC or variables of allocators differ from those of its "
        "runs; start from the same environment, or choose another -o"
    )


def _check_as_is(journal: Journal, subject: str, sample: Outcome[Sample]) -> None:
    """Refuse to go on where the program as it is failed: nothing is left to compare with.

    Raises:
        ProgramError: it did.
    """
    if subject == AS_IS and sample.good is None:
        command = shlex.join(journal.content.header["command"])
        raise ProgramError(
            f"{command}: a run of it as it is: {sample.reason}; what does not do the same each "
            "time cannot be compared. If that was an accident, the same command goes on with "
            "that run again"
        )


def held_out_file(configuration: Configuration) -> str:
    """Return the name of the journal of a setting's runs on the held-out input.

    Each has its own, so that what was judged once stays judged.
    """
    digest = hashlib.sha256(configuration.key.encode()).hexdigest()
    return f"held-out.{digest[:12]}.jsonl"


def _candidates_of(content: Content) -> dict[str, Configuration]:
    """Return the candidates that a journal was begun with."""
    kept = content.header.get("candidates", {})
    return {label: Configuration.from_key(key) for label, key in kept.items()}


def _n_runs_in(journal: Path) -> int:
    """Return how many runs a journal holds; 0 where it is damaged or something else."""
    with contextlib.suppress(StoreError, KeyError):
        content = read_journal(journal)
        return len({(one["round"], one["subject"]) for one in content.records}) if content else 0
    return 0


def duets_for(
    work: Work, file: str, candidates: Mapping[str, Configuration], reference: Reference
) -> Duets | None:
    """Return what runs subjects of a comparison at once; see `duets_of`.

    None where other machines make the runs: what their cores are is not known here.
    """
    if work.machines is not None:
        return None
    tuned = work.tuned_in(file, candidates)
    return duets_of(tuned, candidates, reference, work.request.cpu, work.request.seed)


def search_cores(work: Work, reference: Reference) -> list[int | None]:
    """Return the cores that a search makes a run on at the same time; see `cores_abreast`.

    None where other machines make the runs.
    """
    if work.machines is not None:
        return []
    return cores_abreast(work.tuned, reference, work.request.cpu)


def search_seconds(work: Work, reference: Reference) -> float:
    """Return how long one of many runs of a search takes, as every core makes some."""
    return work.run_seconds(reference) / max(1, len(search_cores(work, reference)))


def run_seconds(reference: Reference) -> float:
    """Return how long one run takes, its start included."""
    return reference.wall_s + _START_S


_KeptSample = tuple[tuple[int, None, str], Outcome[Sample]]
"""Round, task and subject, and the sample."""


class SampleKeeper(JournalKeeper[None, Sample]):
    """Keeps samples in a journal as they were measured, each with its machine.

    What is read again is relative to this machine.
    """

    def __init__(self, journal: Journal, relative: Relative = lambda _, sample: sample) -> None:
        """Read what is kept.

        Args:
            journal: open.
            relative: from a machine and a sample to what it would have been here.
        """
        self._relative = relative
        self.made_on: dict[tuple[int, None, str], str] = {}
        """Place of a sample -> its machine; this one where it says nothing."""
        super().__init__(journal, self._encode_run, self._decode_run)
        self._kept = _without_accidents(self._kept)

    def _encode_run(self, step: Step[None], sample: Outcome[Sample]) -> Record:
        return {
            "round": step.round,
            "subject": step.subject,
            "status": sample.status.value,
            "reason": sample.reason,
            "values": dict(sample.values or {}),
            "machine": self.made_on.get(step.key, platform.node()),
        }

    def _decode_run(self, record: Record) -> _KeptSample:
        outcome = Outcome(Status(record["status"]), record["reason"], record["values"] or None)
        key = record["round"], None, record["subject"]
        if _is_failed_as_is(key, outcome):
            return key, outcome
        self.made_on[key] = record["machine"]
        return key, self.relative(key, outcome)

    def is_of_here(self, step: Step[None]) -> bool:
        """Return whether a sample that is kept was measured on this machine."""
        return self.made_on.get(step.key, platform.node()) == platform.node()

    def made_here(self, runs: Runs) -> Runs:
        """Return what makes a run, and notes that this machine made it."""

        def run(step: Step[None]) -> Outcome[Sample]:
            self.made_on[step.key] = platform.node()
            return runs(step)

        return run

    def relative(self, key: tuple[int, None, str], sample: Outcome[Sample]) -> Outcome[Sample]:
        """Return a sample as if it had been measured on this machine."""
        return self._relative(self.made_on.get(key), sample)


def _without_accidents(samples: Iterable[_KeptSample]) -> list[_KeptSample]:
    """Leave out failed runs of the program as it is: each ended a call, and is made again.

    So are the runs that failed before it in its round: it may be one accident that ended them all.
    """
    found: list[_KeptSample] = []
    for key, sample in samples:
        if _is_failed_as_is(key, sample):
            found = [one for one in found if one[0][0] != key[0] or one[1].good is not None]
        else:
            found.append((key, sample))
    return found


def _is_failed_as_is(key: tuple[int, None, str], sample: Outcome[Sample]) -> bool:
    return key[2] == AS_IS and sample.good is None


class _Lanes:
    """Machines that make the rounds of one comparison; see `MakesRounds`."""

    def __init__(
        self, machines: RoundExecutor, scene: Callable[[], Scene], keeper: SampleKeeper
    ) -> None:
        self._machines, self._scene, self._keeper = machines, scene, keeper

    def made_on(self, step: Step[None]) -> str | None:
        return self._keeper.made_on.get(step.key)

    def relative(self, step: Step[None], sample: Outcome[Sample]) -> Outcome[Sample]:
        return self._keeper.relative(step.key, sample)

    def make(self, handout: Handout[None, Sample]) -> None:
        def note(step: Step[None], machine: str) -> None:
            self._keeper.made_on[step.key] = machine

        self._machines.make(handout, self._scene, note)
