"""A small comparison for every runner of the registry, whose runs a `Script` decides.

Each has two subjects, `BASE` and `OTHER`.  Put a case into `CASES` for a new runner, and the
contract suite runs on it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.doubles.bench import RING, FakeDriver, result
from tests.doubles.machine import MACHINE
from tests.doubles.program_runs import CRASHED, GOOD
from tests.doubles.runs import synthetic_run, write_run
from tests.doubles.simulated import RESULT, STATISTICS
from tuner.allocators import get_allocator, locate_all
from tuner.bench.plan import BenchPlan
from tuner.bench.rounds import run_missing
from tuner.bench.subjects import BenchSubject
from tuner.compare.journal import Journal
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Rounds, Step
from tuner.config.gem5_suite import Simulation, SimulationRole
from tuner.measure.driver import DriverResult
from tuner.measure.gem5 import Gem5Run
from tuner.measure.gem5_inside import Counted, Gem5Inside, InsideTask, counts_of
from tuner.measure.gem5_stats import parse_statistics
from tuner.measure.program import ProgramRun, ProgramRunner, Surroundings
from tuner.optimize.kinds.program import Program
from tuner.optimize.kinds.service import Service
from tuner.optimize.quantities import SERVICE_NAMES
from tuner.optimize.tuned import AS_IS, Reference
from tuner.optimize.work import SampleKeeper
from tuner.records import Configuration, Outcome, Status
from tuner.service.lifecycle import ServiceRun
from tuner.service.plan import ServicePlan
from tuner.store import Store
from tuner.store.subject import Subject
from tuner.validate.gem5 import validate_on_gem5
from tuner.validate.inside import run_inside
from tuner.validate.program import validate
from tuner.validate.session import ValidationOptions
from tuner.validate.setup import Prepared

BASE: Final = "base"
OTHER: Final = "other"
_NAME: Final = "NAME"
"""Variable that says whose run it is."""


@dataclass
class Script:
    """Says how runs end."""

    fails: bool = False
    """Every run of `OTHER` fails."""
    ends_after: int | None = None
    """Runs before Ctrl-C; None: it does not come."""
    n_runs: int = 0

    def is_good(self, label: str) -> bool:
        """Return whether the next run, of a subject, succeeds."""
        if self.n_runs == self.ends_after:
            raise KeyboardInterrupt
        self.n_runs += 1
        return label == BASE or not self.fails


Compares = Callable[[Path, Script, Observer[Any, Any]], object]
"""Makes what is missing of a comparison that is kept in a folder."""


@dataclass
class _Runner:
    """Runs the program."""

    script: Script

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        return GOOD if self.script.is_good(environment[_NAME]) else CRASHED


def _prepared() -> list[Prepared]:
    return [
        Prepared(
            Subject(label, Configuration.of("glibc", {"mxfast": n}), None, ("knee",)),
            {_NAME: label},
            None,
        )
        for n, label in enumerate((BASE, OTHER))
    ]


def _store(folder: Path) -> Store:
    if not Store.exists(folder):
        write_run(synthetic_run(folder, n_trials=4))
    return Store.open(folder, writable=True)


def _program(folder: Path, script: Script, observer: Observer[Any, Any]) -> None:
    with _store(folder) as store:
        options = ValidationOptions(rounds=2)
        validate(
            store, ["app"], _prepared(), options=options, machine=MACHINE, runner=_Runner(script),
            counter=None, observer=observer,
        )  # fmt: skip


@dataclass
class _Gem5:
    script: Script

    def command(self, simulation: Simulation) -> list[str]:
        return ["gem5.opt", simulation.name]

    def identity(self, simulation: Simulation) -> dict[str, str]:
        return {"program": simulation.name}

    def ask(self, environment: Mapping[str, str]) -> ProgramRun:
        return GOOD

    def simulate(
        self, simulation: Simulation, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Gem5Run:
        if not self.script.is_good(environment[_NAME]):
            return Gem5Run(replace(GOOD, exit_status=1, stderr_tail="panic\n"), None, None, b"")
        heap = replace(
            GOOD, peak_anon_bytes=50_000_000, mean_anon_bytes=4e7, mean_anon_cpu_bytes=4e7
        )
        return Gem5Run(heap, RESULT, STATISTICS, b"42\n")


def _simulations(folder: Path, script: Script, observer: Observer[Any, Any]) -> None:
    simulation = Simulation(name="tree", machine="m.json", role=SimulationRole.TUNE)
    with _store(folder) as store:
        validate_on_gem5(
            store, [simulation], _prepared(), gem5=_Gem5(script), folder=folder / "gem5",
            options=ValidationOptions(rounds=2), machine=MACHINE, counter=None, observer=observer,
        )  # fmt: skip


@dataclass(frozen=True)
class _Inside(Gem5Inside):
    script: Script = field(kw_only=True)

    def identity(self, task: InsideTask, environment: Mapping[str, str]) -> str:
        return f"{task} {environment[_NAME]}"

    def run(self, task: InsideTask, label: str, environment: Mapping[str, str]) -> Outcome[Counted]:
        if not self.script.is_good(label):
            return Outcome.did_not_succeed(Status.FAILED, "gem5 ended with status 1: panic")
        counts = counts_of(parse_statistics(STATISTICS, "stats.txt"))
        return Outcome.succeeded(Counted(output="1", counts=counts))


def _inside(folder: Path, script: Script, observer: Observer[Any, Any]) -> None:
    start = InsideTask("start", Path("/m/server.json"), 1, ("/guests/empty",), None)
    none = Path("none")
    run_inside(
        folder / "inside.jsonl",
        [InsideTask("lists", Path("/m/server.json"), 1, ("/guests/lists",), start)],
        _prepared(),
        gem5=_Inside(none, none, none, ProgramRunner(none), 1.0, script=script),
        facts={"objectives": ("ipc",)}, n_workers=1, observer=observer,
    )  # fmt: skip


class _Driver(FakeDriver):
    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def ending(self, environment: Mapping[str, str]) -> Outcome[DriverResult]:
        if self._script.is_good(environment[_NAME]):
            return Outcome.succeeded(result())
        return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")


def _bench(folder: Path, script: Script, observer: Observer[Any, Any]) -> None:
    subjects = [BenchSubject(label, None, ((_NAME, label),)) for label in (BASE, OTHER)]
    run_missing(BenchPlan((RING,), 0.1, 2), subjects, folder, _Driver(script), observer)


def _candidates(script: Script) -> Callable[[Step[None]], Outcome[Any]]:
    program = _Candidates(("app",), _Runner(script), {}, {})
    reference = Reference(("app",), {}, 0, None, None, 0.1, 10.0)
    return program.runner({OTHER: Configuration("glibc")}, reference)


class _Candidates(Program):
    def environments(
        self, candidates: Mapping[str, Configuration], reference: Reference
    ) -> dict[str, dict[str, str]]:
        return {BASE: {_NAME: BASE}, **{label: {_NAME: label} for label in candidates}}


def _loads(script: Script) -> Callable[[Step[None]], Outcome[Any]]:
    def run(
        plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Outcome[ServiceRun]:
        is_other = any("arena_max" in value for value in environment.values())
        if script.is_good(OTHER if is_other else BASE):
            return Outcome.succeeded(ServiceRun({"mean": 1e8, "growth": -5.0, "cpu": 2e4}))
        return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV under load")

    service = Service(
        ServicePlan(("server",), "tcp:{port}", "load"), {}, locate_all([get_allocator("glibc")]),
        run=run,
    )  # fmt: skip
    values = {SERVICE_NAMES["mean"]: 1e8, SERVICE_NAMES["cpu"]: 2e4}
    reference = Reference(("server",), values, 0, None, None, 0.1, 10.0)
    return service.runner({OTHER: Configuration.of("glibc", {"arena_max": 2})}, reference)


def of_rounds(
    make: Callable[[Script], Callable[[Step[None]], Outcome[Any]]], base: str = BASE
) -> Compares:
    """Return a comparison of two rounds in a journal of its own, for a runner without more.

    Args:
        make: returns the runner.
        base: label of the baseline.
    """

    def compares(folder: Path, script: Script, observer: Observer[Any, Any]) -> None:
        with Journal(folder / "rounds.jsonl", {"schema": "test"}) as journal:
            rounds: Rounds[None] = Rounds((base, OTHER), (None,), 2)
            compare(rounds, make(script), SampleKeeper(journal), observer, baseline=base)

    return compares


CASES: Final[dict[str, Compares]] = {
    "program": _program,
    "gem5": _simulations,
    "inside": _inside,
    "bench": _bench,
    "optimize": of_rounds(_candidates),
    "service": of_rounds(_loads, AS_IS),
}
"""By the runner's name in the registry."""
