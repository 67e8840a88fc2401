"""Where allocators, strategies, exporters and runners are listed: a new one is a file and a line.

    ALLOCATORS   a class of `tuner.allocators`, for what configs/allocators/NAME.toml says
    STRATEGIES   a class of `tuner.search` with the constructor of `RandomSearch`
    EXPORTERS    a function from a `Deployment` to its text, in `tuner.export`
    EXECUTORS    a function from `Demand` to an `Executor`, in `tuner.campaign.executors`
    RUNNERS      a function or method from a `Step` to an `Outcome`, see `tuner.compare`

Every entry is an import path, followed only when it is used: pymoo takes a third of a second, and
this file is below all others.  The contract suites of the tests run on every entry.  Metrics are
listed in `tuner.metrics`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final


@dataclass(frozen=True)
class Entry:
    """Where a part is found."""

    path: str
    """``module:name``."""
    summary: str = ""
    """One line for help texts."""
    distribution: str | None = None
    """The library it rests on, whose version is recorded; None for our own."""
    is_default: bool = True
    """Of an allocator: it takes part where none is named."""

    def load(self) -> Callable[..., Any]:
        """Import it."""
        module, _, name = self.path.partition(":")
        found: Callable[..., Any] = attrgetter(name)(importlib.import_module(module))
        return found


ALLOCATORS: Final[dict[str, Entry]] = {
    "glibc": Entry("tuner.allocators.glibc:Glibc"),
    "tcmalloc": Entry("tuner.allocators.tcmalloc:Tcmalloc"),
    "jemalloc": Entry("tuner.allocators.jemalloc:Jemalloc"),
    "mimalloc": Entry("tuner.allocators.mimalloc:Mimalloc"),
    "exgen": Entry("tuner.allocators.exgen:Exgen"),
    "exgen-st": Entry("tuner.allocators.exgen:ExgenSt", is_default=False),
}
"""By name, in the order reports use."""

DEFAULT_ALLOCATORS: Final = tuple(name for name, entry in ALLOCATORS.items() if entry.is_default)
"""Those that take part where none is named."""

STRATEGIES: Final[dict[str, Entry]] = {
    "auto": Entry(
        "tuner.search.auto:Auto", "NSGA-II of pymoo, sifted by a model, the default", "pymoo"
    ),
    "nsga2": Entry("tuner.search.pymoo_nsga2:PymooNsga2", "NSGA-II of pymoo", "pymoo"),
    "nsga3": Entry("tuner.search.pymoo_nsga3:PymooNsga3", "NSGA-III of pymoo", "pymoo"),
    "deap-nsga2": Entry("tuner.search.deap_nsga2:DeapNsga2", "NSGA-II of DEAP", "deap"),
    "tpe": Entry("tuner.search.optuna_search:OptunaTpe", "TPE of Optuna", "optuna"),
    "exhaustive": Entry("tuner.search.exhaustive:Exhaustive", "all of a small space"),
    "random": Entry("tuner.search.random_search:RandomSearch", "random search, the baseline"),
}
"""By their names in campaign files."""

EXPORTERS: Final[dict[str, Entry]] = {
    "env": Entry("tuner.export.formats:environment_file"),
    "sh": Entry("tuner.export.formats:shell_wrapper"),
    "systemd": Entry("tuner.export.formats:systemd_drop_in"),
    "docker": Entry("tuner.export.formats:dockerfile_lines"),
    "kubernetes": Entry("tuner.export.formats:kubernetes_env"),
    "json": Entry("tuner.export.formats:json_document"),
}
"""By their names on the command line."""

EXECUTORS: Final[dict[str, Entry]] = {
    "local": Entry("tuner.campaign.executors:on_this_machine", "the cores of this machine"),
    "dask": Entry("tuner.campaign.executors:on_dask", "the workers of a Dask scheduler"),
    "slurm": Entry("tuner.campaign.executors:on_dask", "jobs of Slurm, by dask-jobqueue"),
}
"""What evaluates the trials of a campaign, by the names of ``tune --executor``."""

RUNNERS: Final[dict[str, Entry]] = {
    "program": Entry("tuner.validate.program:ProgramRounds", "a real program under subjects"),
    "gem5": Entry("tuner.validate.gem5:SimulationRounds", "gem5 as the program"),
    "inside": Entry("tuner.validate.inside:InsideRuns", "programs inside gem5"),
    "bench": Entry("tuner.bench.rounds:BenchRounds", "workloads of malloc_bench"),
    "optimize": Entry("tuner.optimize.kinds.program:Program.runner", "a program under candidates"),
    "service": Entry("tuner.optimize.kinds.service:Service.runner", "a service under load"),
}
"""What makes one run of a comparison."""
