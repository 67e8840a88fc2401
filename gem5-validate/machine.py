"""A simulated machine, from its JSON description to a board of gem5's standard library.

    description, source   what it stands for, and where its parameters are published
    clock                 of the board: "3GHz"
    cpu                   model (atomic, timing, minor, o3), cores, branch_predictor, tlb
                          (entries: instruction, data), parameters (names and values of gem5's
                          CPU model)
    traffic               instead of a cpu: pattern (linear, random, strided), cores,
                          duration, rate, range, read_percent
    caches                null, or l1i and l1d, then l2, then l3 (shared): size, assoc,
                          latency (cycles), mshrs, prefetcher (a class of gem5)
    memory                model (a function of gem5.components.memory, or "simple" with
                          latency and bandwidth), size

Descriptions are read strictly: an unknown key is an error, and so is a missing one, but for
caches (then there are none), cores (1), branch_predictor, tlb and parameters (gem5's own),
read_percent (100), mshrs (16) and prefetcher (none).
README.md has examples; machines/ has descriptions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import m5.objects
from caches import CacheSpec, ClassicCaches
from gem5.components import memory as memories
from gem5.components.boards.simple_board import SimpleBoard
from gem5.components.boards.test_board import TestBoard
from gem5.components.cachehierarchies.classic.no_cache import NoCache
from gem5.components.memory.simple import SingleChannelSimpleMemory
from gem5.components.processors.cpu_types import get_cpu_type_from_str, get_cpu_types_str_set
from gem5.components.processors.linear_generator import LinearGenerator
from gem5.components.processors.random_generator import RandomGenerator
from gem5.components.processors.strided_generator import StridedGenerator
from gem5.isas import ISA
from m5.defines import buildEnv
from m5.util.convert import toMemorySize

GENERATORS = {"linear": LinearGenerator, "random": RandomGenerator, "strided": StridedGenerator}
SIMPLE_MEMORY = "simple"


class MachineError(Exception):
    """A machine cannot be built: file, key and what is wrong."""


class Table:
    """An object of a JSON file from which every key is taken exactly once."""

    def __init__(self, where: str, values: object) -> None:
        """Check that it is an object."""
        if not isinstance(values, dict):
            raise MachineError(f"{where}: must be an object")
        self.where = where
        self._values = dict(values)

    def take(self, key: str, kind: type, *default: object) -> object:
        """Take a value of a kind; the default when there is none, an error when it has none."""
        if key not in self._values:
            if default:
                return default[0]
            raise MachineError(f"{self.where}: lacks the key {key!r}")
        value = self._values.pop(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise MachineError(f"{self.where}: {key} = {value!r}: must be {kind.__name__}")
        return value

    def table(self, key: str) -> Table | None:
        """Take an object; None when the key is absent or null."""
        value = self._values.pop(key, None)
        return None if value is None else Table(f"{self.where}: {key}", value)

    def end(self) -> None:
        """Complain about keys that were not used."""
        if self._values:
            raise MachineError(f"{self.where}: unknown keys {sorted(self._values)}")


@dataclass(frozen=True)
class Machine:
    """A machine that is ready to be built."""

    clock: str
    cpu: dict | None
    """Keys of the description; None for traffic."""
    traffic: dict | None
    caches: dict[str, CacheSpec] | None
    """By level: l1i, l1d, l2, l3."""
    memory: dict
    where: str

    @property
    def needs_guest(self) -> bool:
        """True for a machine with CPUs."""
        return self.cpu is not None

    @property
    def memory_bytes(self) -> int:
        """Size of the simulated memory."""
        return toMemorySize(self.memory["size"])

    def board(self) -> SimpleBoard | TestBoard:
        """Build the board.

        Raises:
            MachineError: gem5 has no such model or parameter.
        """
        hierarchy = ClassicCaches(self.caches) if self.caches else NoCache()
        memory = self._memory()
        if self.traffic is not None:
            return TestBoard(self.clock, self._generator(), memory, hierarchy)
        return SimpleBoard(self.clock, self._processor(), memory, hierarchy)

    def _processor(self) -> object:
        # A gem5 without an instruction set has no such module, but runs traffic.
        from gem5.components.processors.simple_processor import SimpleProcessor  # noqa: PLC0415

        if self.cpu["model"] not in get_cpu_types_str_set():
            raise MachineError(f"{self.where}: cpu: gem5 has no model {self.cpu['model']!r}")
        cpu_type = get_cpu_type_from_str(self.cpu["model"])
        accept_no_ruby()
        processor = SimpleProcessor(cpu_type, num_cores=self.cpu["cores"], isa=ISA.X86)
        for core in processor.get_cores():
            cpu = core.get_simobject()
            for name, value in self.cpu["parameters"].items():
                set_parameter(cpu, name, value, self.where)
            if self.cpu["tlb"]:
                cpu.mmu.itb.size = self.cpu["tlb"]["instruction"]
                cpu.mmu.dtb.size = self.cpu["tlb"]["data"]
            if self.cpu["branch_predictor"]:
                set_predictor(cpu, self.cpu["branch_predictor"], self.where)
        return processor

    def _generator(self) -> object:
        traffic = self.traffic
        return GENERATORS[traffic["pattern"]](
            num_cores=traffic["cores"],
            duration=traffic["duration"],
            rate=traffic["rate"],
            max_addr=toMemorySize(traffic["range"]),
            rd_perc=traffic["read_percent"],
        )

    def _memory(self) -> object:
        model, size = self.memory["model"], self.memory["size"]
        if model == SIMPLE_MEMORY:
            return SingleChannelSimpleMemory(
                latency=self.memory["latency"],
                latency_var="0ns",
                bandwidth=self.memory["bandwidth"],
                size=size,
            )
        if not hasattr(memories, model):
            raise MachineError(f"{self.where}: memory: this gem5 has no model {model!r}")
        return getattr(memories, model)(size=size)


def read_machine(path: Path, n_cores: int | None = None) -> Machine:
    """Read a description.

    Args:
        path: its file.
        n_cores: cores instead of those described.

    Raises:
        MachineError: it cannot be read, or says something wrong.
    """
    try:
        top = Table(str(path), json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise MachineError(f"{path}: {error}") from error
    top.take("description", str)
    top.take("source", str, "")
    machine = Machine(
        clock=top.take("clock", str),
        cpu=read_cpu(top.table("cpu")),
        traffic=read_traffic(top.table("traffic")),
        caches=read_caches(top.table("caches")),
        memory=read_memory(top.table("memory"), str(path)),
        where=str(path),
    )
    top.end()
    if (machine.cpu is None) == (machine.traffic is None):
        raise MachineError(f"{path}: must have either cpu or traffic")
    if n_cores is not None and machine.cpu is not None:
        machine.cpu["cores"] = n_cores
    return machine


def read_cpu(table: Table | None) -> dict | None:
    """Read the key ``cpu``."""
    if table is None:
        return None
    cpu = {
        "model": table.take("model", str),
        "cores": table.take("cores", int, 1),
        "branch_predictor": table.take("branch_predictor", str, ""),
        "tlb": read_tlb(table.table("tlb")),
        "parameters": table.take("parameters", dict, {}),
    }
    table.end()
    return cpu


def read_tlb(table: Table | None) -> dict | None:
    """Read the key ``tlb``."""
    if table is None:
        return None
    tlb = {kind: table.take(kind, int) for kind in ("instruction", "data")}
    table.end()
    return tlb


def read_traffic(table: Table | None) -> dict | None:
    """Read the key ``traffic``."""
    if table is None:
        return None
    traffic = {
        "pattern": table.take("pattern", str),
        "cores": table.take("cores", int, 1),
        "duration": table.take("duration", str),
        "rate": table.take("rate", str),
        "range": table.take("range", str),
        "read_percent": table.take("read_percent", int, 100),
    }
    table.end()
    if traffic["pattern"] not in GENERATORS:
        allowed = ", ".join(GENERATORS)
        raise MachineError(f"{table.where}: pattern must be one of {allowed}")
    return traffic


def read_caches(table: Table | None) -> dict[str, CacheSpec] | None:
    """Read the key ``caches``."""
    if table is None:
        return None
    levels = {}
    for level in ("l1i", "l1d", "l2", "l3"):
        found = table.table(level)
        if found is not None:
            levels[level] = CacheSpec(
                size=found.take("size", str),
                assoc=found.take("assoc", int),
                latency=found.take("latency", int),
                mshrs=found.take("mshrs", int, 16),
                prefetcher=found.take("prefetcher", str, ""),
            )
            found.end()
            name = levels[level].prefetcher
            if name and not hasattr(m5.objects, name):
                raise MachineError(f"{found.where}: this gem5 has no prefetcher {name!r}")
    table.end()
    if not {"l1i", "l1d"} <= levels.keys() or ("l3" in levels and "l2" not in levels):
        raise MachineError(f"{table.where}: needs l1i and l1d, and l2 below an l3")
    return levels


def read_memory(table: Table | None, where: str) -> dict:
    """Read the key ``memory``."""
    if table is None:
        raise MachineError(f"{where}: lacks the key 'memory'")
    memory = {"model": table.take("model", str), "size": table.take("size", str)}
    if memory["model"] == SIMPLE_MEMORY:
        memory["latency"] = table.take("latency", str)
        memory["bandwidth"] = table.take("bandwidth", str)
    table.end()
    return memory


def accept_no_ruby() -> None:
    """Let the standard library of gem5 24 work in a gem5 that was built without Ruby.

    Before it makes a core it looks up the coherence protocol of Ruby, and fails where there is
    none.  Nothing else reads the name; classic caches have their own protocol.
    """
    if buildEnv.get("PROTOCOL") == "":
        buildEnv["PROTOCOL"] = "MI_example"


def set_parameter(cpu: object, name: str, value: object, where: str) -> None:
    """Set a parameter of a CPU by its name in gem5 24.

    gem5 25.1 keeps the entries of the issue queue in a unit of its own.
    """
    if name == "numIQEntries" and not has_parameter(cpu, name):
        cpu.instQueues = [m5.objects.IQUnit(numEntries=value)]
    elif has_parameter(cpu, name):
        setattr(cpu, name, value)
    else:
        raise MachineError(f"{where}: cpu: this gem5 has no parameter {name!r}")


def set_predictor(cpu: object, name: str, where: str) -> None:
    """Give a CPU a branch predictor; since gem5 25 it predicts directions inside a container."""
    if not hasattr(m5.objects, name):
        raise MachineError(f"{where}: cpu: this gem5 has no branch predictor {name!r}")
    predictor = getattr(m5.objects, name)()
    container = m5.objects.BranchPredictor
    if "conditionalBranchPred" in container._params:  # noqa: SLF001 - gem5 has no other way to ask
        predictor = container(conditionalBranchPred=predictor)
    cpu.branchPred = predictor


def has_parameter(thing: object, name: str) -> bool:
    """Return whether an object of gem5 has a parameter."""
    return name in type(thing)._params  # noqa: SLF001 - gem5 has no other way to ask
