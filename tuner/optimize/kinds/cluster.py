"""Runs of the program on the machines of a Dask cluster: round after round, each on one machine.

Pairs are of one round, so both of a pair ran on the same machine, one after the other.  A machine
runs one program at a time, and is used only after the program as it is has run there as it did
here: that is the default that every machine measures.  What it showed, and what the machine is,
stands in ``machines.json``; every line of a journal names its machine.

A run that was lost is made again, on the same machine if it comes back within `_AWAY_S`; else its
whole round is made elsewhere.  Where the program as it is fails, the machine is not used any more.
Limits: input files of the program have to be where they are on the coordinator; its environment
travels, its core (``--cpu``) is of the same number everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tuner.campaign.executors import Where, scheduler_of
from tuner.compare.apart import Handout, Round
from tuner.compare.plan import Step
from tuner.errors import TunerError
from tuner.measure.executor import MAX_ATTEMPTS, measuring_cpus
from tuner.measure.program import digest
from tuner.measure.remote import Proof, free_core, identity_of
from tuner.measure.workers import Call, LostError, OnNote, Workers
from tuner.optimize.kinds.making import Files, held_out_of, tuned_of
from tuner.optimize.proof.machines import ProgramMachine, Scene, load_machines, save_machines
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample
from tuner.records import Outcome, Status

_AWAY_S: Final = 15.0
"""Time that a round waits for a machine that is gone, before another one makes it anew."""

_LOST: Final = "its worker was lost"

_AHEAD: Final = 2
"""Rounds on their way for each machine: a slow one holds up what is decided, not the others."""


@dataclass(frozen=True)
class ProgramKit:
    """What a machine needs to run the program; see `tuner.measure.remote.SharedKit`."""

    name: str
    request: Request = field(compare=False)
    files: Files = field(compare=False)
    """Adapters of the allocators; located anew on every machine."""
    environment: Mapping[str, str] = field(compare=False)
    """The program's own."""
    folder: Path = field(compare=False)
    """Where it runs."""
    most_per_machine: int | None = field(default=1, compare=False)

    def identity(self) -> dict[str, str]:
        """Return what must be alike: the program, what runs it, the allocators, the folder."""
        found = identity_of(self.files, ["supervise"])
        asked = self.request
        for command in filter(None, (asked.command, *asked.further, asked.held_out)):
            where = shutil.which(command[0], path=self.environment.get("PATH"))
            path = self.folder / (where or command[0])
            found[command[0]] = digest(path) if path.is_file() else "missing"
        found["folder"] = str(self.folder) if self.folder.is_dir() else f"no {self.folder}"
        return found

    def missing(self) -> list[str]:
        """Return nothing: no files are sent."""
        return []

    def content(self, sha256: str) -> bytes:
        """Never called."""
        raise KeyError(sha256)


@dataclass(frozen=True)
class Ran:
    """What became of a run; either an outcome or an error of the machine."""

    outcome: Outcome[Sample] | None
    error: TunerError | None = None


def run_step(kit: ProgramKit, scene: Scene, step: Step[None]) -> Ran:
    """Make one run of a round; called in the workers."""
    try:
        # Nothing is measured in emulation beside it on this core.
        with free_core(measuring_cpus()[:1]):
            return Ran(_runs_of(kit, scene)(step))
    except TunerError as error:
        return Ran(None, error)


def _runs_of(kit: ProgramKit, scene: Scene) -> Runs:
    found = (held_out_of if scene.is_held_out else tuned_of)(
        kit.request, _located(kit), kit.environment, kit.folder
    )
    assert found is not None  # noqa: S101 - what is compared is asked for
    if scene.is_proof:
        found = found.as_deployed(scene.candidates)
    return found.runner(scene.candidates, scene.reference)


@functools.lru_cache(maxsize=4)
def _located(kit: ProgramKit) -> Files:
    return {name: (one, one.locate()) for name, (one, _) in kit.files.items()}


@dataclass(eq=False)
class _Lane:
    """A round that a machine is making."""

    round: Round[None, Sample]
    scene: Scene
    is_running: bool = False
    n_lost: Counter[Step[None]] = field(default_factory=Counter)
    """Attempts at a step of which nothing was heard, or in which the machine failed."""
    away_since_s: float | None = None
    """When its machine was first missed."""


class Machines(Workers[_Lane]):
    """A `RoundExecutor` over the workers of a Dask cluster; use it in a ``with``."""

    def __init__(
        self,
        kit: ProgramKit,
        address: str,
        reference: Reference,
        run: Path,
        on_note: OnNote = lambda _: None,
    ) -> None:
        """Connect to the scheduler.

        Args:
            kit: what the machines need.
            address: of the scheduler.
            reference: the program as it is, on this machine.
            run: the run folder.
            on_note: called with what happens to workers.

        Raises:
            MissingToolError: Dask is not installed, or no scheduler answers there.
            StoreError: what the folder says of machines is damaged.
        """
        super().__init__(kit, address, on_note=on_note)
        self._reference = reference
        self._run = run
        self.known = {one.name: one for one in load_machines(run)}
        """See `RoundExecutor`."""
        self._lanes: list[_Lane] = []

    @property
    def n_at_once(self) -> int:
        """See `RoundExecutor`."""
        return max(1, self.n_workers)

    def wait(self) -> None:
        """See `RoundExecutor`."""
        while not self.n_workers or self.is_preparing:
            self.keep_up()
            self.ended()

    def make(
        self,
        handout: Handout[None, Sample],
        scene: Callable[[], Scene],
        note: Callable[[Step[None], str], None],
    ) -> None:
        """See `RoundExecutor`."""
        self._lanes = []
        while not handout.is_over:
            self.keep_up()
            self._take_as_failed(handout, note)
            self._hand_out(handout, scene)
            for call in self.ended():
                assert call.task is not None  # noqa: S101 - `ended` returns those of tasks
                self._end(handout, call.task, call, note)

    def _take_as_failed(
        self, handout: Handout[None, Sample], note: Callable[[Step[None], str], None]
    ) -> None:
        """Take what was lost too often as failed: it may be what ends its workers."""
        for lane in self._lanes:
            left = lane.round.left
            while not lane.is_running and left and lane.n_lost[left[0]] >= MAX_ATTEMPTS:
                assert lane.round.home is not None  # noqa: S101 - it was lost there
                note(left[0], lane.round.home)
                handout.took(lane.round, Outcome.did_not_succeed(Status.FAILED, _LOST))

    def _hand_out(self, handout: Handout[None, Sample], scene: Callable[[], Scene]) -> None:
        """Give every machine that is free its next run."""
        idle = []
        while self.slots:
            lane = self._lane_for(self.slots[0].machine, handout, scene)
            if lane is None:
                idle.append(self.slots.popleft())
                continue
            lane.is_running, lane.away_since_s = True, None
            self.begin(lane, run_step, self.kit, lane.scene, lane.round.left[0])
        self.slots.extend(idle)

    def _lane_for(
        self, machine: str, handout: Handout[None, Sample], scene: Callable[[], Scene]
    ) -> _Lane | None:
        """Return the round that a machine goes on with, or begins; None when there is none."""
        self._lanes = [one for one in self._lanes if one.round.left]
        waiting = [one for one in self._lanes if not one.is_running]
        for lane in waiting:
            if lane.round.home == machine:
                return lane
        for lane in waiting:
            if self._is_given_up(lane):
                handout.begin_anew(lane.round, machine)
                return lane
        while (found := handout.next(_AHEAD * self.n_at_once)) is not None:
            lane = _Lane(found, scene())
            self._lanes.append(lane)
            found.home = found.home or machine
            if found.home == machine:
                return lane
        return None

    def _is_given_up(self, lane: _Lane) -> bool:
        """Return whether a round has waited for its machine for long enough."""
        if lane.round.home in self.machines_here:
            return False
        now_s = time.monotonic()
        lane.away_since_s = lane.away_since_s or now_s
        return now_s - lane.away_since_s > _AWAY_S

    def _end(
        self,
        handout: Handout[None, Sample],
        lane: _Lane,
        call: Call[_Lane],
        note: Callable[[Step[None], str], None],
    ) -> None:
        """Take what a run showed; one that is lost is made again, a few times."""
        lane.is_running = False
        step = lane.round.left[0]
        try:
            ran: Ran = call.result()
        except LostError:
            ran = Ran(None)
        except TunerError as error:
            ran = Ran(None, error)
        found, reason = ran.outcome, None
        if ran.error is not None:
            reason = str(ran.error)
        elif found is not None and found.good is None and step.subject == AS_IS:
            reason = f"the program as it is: {found.reason}"
        if found is None or reason is not None:
            lane.n_lost[step] += 1
            if reason is not None:
                lane.away_since_s = -math.inf
                self.leave_out(call.worker, f"{call.worker.machine}: {reason}")
            if lane.n_lost[step] < MAX_ATTEMPTS:
                return
            found = found or Outcome.did_not_succeed(Status.FAILED, reason or _LOST)
        if found.reason != _LOST:  # else it is so elsewhere too
            del lane.n_lost[step]
        note(step, call.worker.machine)
        handout.took(lane.round, found)

    def lost(self, task: _Lane, why: str, *, by_worker: bool) -> None:
        """See `Workers.lost`: the run is made again, the third time it counts as failed."""
        del why
        task.is_running = False
        task.n_lost[task.round.left[0]] += by_worker

    # Machines

    def is_admitted(self, machine: str) -> bool:
        """See `Workers.is_admitted`."""
        return machine in self.known

    def first_call(self) -> tuple[Any, ...]:
        """See `Workers.first_call`: run the program as it is."""
        return run_step, self.kit, Scene(self._reference, {}), Step(0, 0, None, AS_IS)

    def admit(self, proof: Proof, found: Ran) -> str:
        """See `Workers.admit`."""
        good = found.outcome.good if found.outcome else None
        if good is None:
            return (
                f"the program as it is: {found.error or (found.outcome and found.outcome.reason)}"
            )
        self.known[proof.machine] = ProgramMachine(proof.machine, proof.facts, dict(good))
        save_machines(self._run, self.known.values())
        return ""


@contextlib.contextmanager
def machines_for(
    where: Where, kit: ProgramKit, reference: Reference, run: Path, on_note: OnNote
) -> Iterator[Machines | None]:
    """Yield the machines that make the runs; None for this one.

    Raises:
        MissingToolError: Dask is not installed, or no scheduler answers.
    """
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(scheduler_of(where))
        if address is None:
            yield None
            return
        yield stack.enter_context(Machines(kit, address, reference, run, on_note))


def kit_of(request: Request, files: Files, environment: Mapping[str, str]) -> ProgramKit:
    """Return the kit of an optimisation in the current folder."""
    return ProgramKit(uuid.uuid4().hex, request, files, dict(environment), Path.cwd())
