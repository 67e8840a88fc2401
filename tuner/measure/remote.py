"""What runs on the machines of a cluster: proving that they are alike, and evaluating.

A `Kit` is everything a machine needs to evaluate as the coordinator would: it travels by pickle,
finds libraries and workload again where it arrives, and says what it found by digests.  The
functions below run inside the workers of Dask.

Guarantee: no two evaluations run on one core of a machine, however many workers it has and
whichever campaign they serve: a core is a locked file, freed by the kernel when its holder ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

import tuner
from tuner.allocators import Located
from tuner.errors import MissingToolError, TunerError
from tuner.machine import Machine, read_machine
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.evaluation import Evaluation, Evaluator, Gate, evaluated
from tuner.measure.executor import measuring_cpus
from tuner.measure.offers import can_fix_addresses
from tuner.measure.several import several_workloads
from tuner.output import write_bytes
from tuner.provenance import digest
from tuner.records import Configuration
from tuner.resources import cache_folder, native_file

_LOOK_S: Final = 0.02
"""Time between two looks for a free core."""

_COUNTING: Final = ("rand_malloc", "instruction_count_1.so", "instruction_count_2.so")
"""Native parts that decide what is measured."""


class SharedKit(Protocol):
    """What a machine needs of the coordinator; travels to it, equal to itself by its name."""

    @property
    def name(self) -> str:
        """Unique; a worker keeps one evaluator for each."""
        ...

    @property
    def most_per_machine(self) -> int | None:
        """Tasks at a time on one machine; None for one per core."""
        ...

    def identity(self) -> Mapping[str, str]:
        """Return what must be the same on every machine, as it is on this one."""
        ...

    def missing(self) -> Sequence[str]:
        """Return the digests of the files that this machine lacks."""
        ...

    def content(self, sha256: str) -> bytes:
        """Return one of these files, on the machine that has it."""
        ...


class Kit(SharedKit, Protocol):
    """What a machine needs to evaluate."""

    def evaluator(self) -> Evaluator:
        """Return what evaluates, on this machine."""
        ...


@dataclass(frozen=True)
class EmulationKit:
    """Emulation on one or several workloads."""

    name: str
    emulations: tuple[Emulation, ...] = field(compare=False)
    """As the coordinator has them."""
    digests: tuple[str, ...] = field(compare=False)
    """SHA-256 of each workload's file."""
    most_per_machine: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, emulations: Sequence[Emulation], most_per_machine: int | None) -> EmulationKit:
        """Return the kit of emulations of this machine."""
        digests = tuple(_sha256(one.trace) for one in emulations)
        return cls(uuid.uuid4().hex, tuple(emulations), digests, most_per_machine)

    def identity(self) -> dict[str, str]:
        """See `Kit.identity`."""
        return identity_of(self.emulations[0].allocators, _COUNTING)

    def missing(self) -> list[str]:
        """See `Kit.missing`."""
        pairs = zip(self.emulations, self.digests, strict=True)
        return [sha256 for one, sha256 in pairs if _workload_here(one.trace, sha256) is None]

    def content(self, sha256: str) -> bytes:
        """See `Kit.content`."""
        return self.emulations[self.digests.index(sha256)].trace.read_bytes()

    def evaluator(self) -> Evaluator:
        """See `Kit.evaluator`."""
        adapters = self.emulations[0].allocators
        located: Located = {name: (one, one.locate()) for name, (one, _) in adapters.items()}
        evaluators = []
        for number, (one, sha256) in enumerate(zip(self.emulations, self.digests, strict=True)):
            trace = _workload_here(one.trace, sha256)
            if trace is None:
                raise MissingToolError(f"workload {sha256[:12]} has not arrived")
            here = replace(one, trace=trace, allocators=located, reads_back=number == 0)
            evaluators.append(EmulatorEvaluator(here))
        return several_workloads(evaluators, self.emulations[0])


@dataclass(frozen=True)
class Proof:
    """What a worker is."""

    machine: str
    """Name of its host."""
    facts: Machine
    n_cores: int
    """Tasks that may run there at a time."""
    cpus: frozenset[int]
    """Numbers of the cores that it may measure on."""
    identity: Mapping[str, str]
    missing: tuple[str, ...]
    """Digests of files to send."""


@dataclass(frozen=True)
class Measured:
    """What a worker found; either an evaluation or an error of its machine."""

    evaluation: Evaluation | None
    error: TunerError | None = None


# Called in the workers


def prove(kit: SharedKit) -> Proof:
    """Say what this machine is, and what it lacks."""
    cpus = frozenset(measuring_cpus())
    return Proof(
        machine=platform.node(),
        facts=replace(read_machine(), fixes_addresses=can_fix_addresses()),
        n_cores=kit.most_per_machine or len(cpus),
        cpus=cpus,
        identity=dict(kit.identity()),
        missing=tuple(kit.missing()),
    )


def receive(sha256: str, content: bytes) -> None:
    """Keep a file that the coordinator sent."""
    write_bytes(_received(sha256), content)


def measure(kit: Kit, configuration: Configuration, gate: Gate | None = None) -> Measured:
    """Evaluate a configuration on a free core of this machine, counting what the gate lets by."""
    try:
        with free_core(_places(kit)) as cpu:
            return Measured(evaluated(_kept_evaluator(kit), configuration, cpu, gate))
    except TunerError as error:
        return Measured(None, error)


def _places(kit: Kit) -> list[int]:
    """Return the cores to measure on; for a kit that takes more than there are, numbers."""
    cpus = measuring_cpus()
    most = kit.most_per_machine or 0
    return cpus if most <= len(cpus) else list(range(most))


def _kept_evaluator(kit: Kit) -> Evaluator:
    return _evaluator_of(kit)  # type: ignore[arg-type]  # kits are equal by name, and hashable


@functools.lru_cache(maxsize=4)
def _evaluator_of(kit: Kit) -> Evaluator:
    return kit.evaluator()


@contextlib.contextmanager
def free_core(cpus: Sequence[int], folder: Path | None = None) -> Iterator[int]:
    """Hold a core that no other evaluation of this user holds; wait for one.

    Args:
        cpus: the cores to choose from.
        folder: of the locks; None: one that all of this user's processes agree on, whatever
            their TMPDIR.
    """
    folder = folder or _place_for_all() / f"malloc-tuner-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        for cpu in cpus:
            with (folder / str(cpu)).open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                yield cpu
                return
        time.sleep(_LOOK_S)


def _place_for_all() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is this user's own
    return memory if os.access(memory, os.W_OK | os.X_OK) else Path("/tmp")  # noqa: S108 - so too


# Files


def identity_of(allocators: Located, native: Iterable[str]) -> dict[str, str]:
    """Return versions and digests of what is installed here.

    Args:
        allocators: that take part; they are located anew.
        native: names of native parts; one that is not here is left out.
    """
    found = {"malloc-tuner": tuner.__version__}
    for name in native:
        with contextlib.suppress(MissingToolError):
            found[name] = digest(native_file(name))
    for name, (adapter, _) in allocators.items():
        try:
            here = adapter.locate()
        except TunerError as error:
            found[name] = f"missing: {error}"
        else:
            library = here.library or _c_library()
            found[name] = f"{here.version} {digest(library) if library else 'unknown'}"
    return found


def _workload_here(path: Path, sha256: str) -> Path | None:
    for candidate in (path, _received(sha256)):
        # Another user's folder, which may not be entered, is as good as none.
        with contextlib.suppress(OSError):
            if candidate.is_file() and _sha256(candidate) == sha256:
                return candidate
    return None


def _received(sha256: str) -> Path:
    return cache_folder() / "workloads" / f"{sha256}.trace"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _c_library() -> Path | None:
    """Return the C library of this process, which is glibc's malloc."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libc.so.") and path.is_file():
            return path
    return None
