"""Model of a campaign file: which trace, which allocators, what to minimise, how long.

Paths are relative to the file.  ``[space.<allocator>]`` narrows the shipped search space;
``space_files`` replaces it.  The same model is built from the options of the command line,
so both ways have the same checks and the same messages.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from tuner.config.allocator_file import (
    AllocatorFile,
    Narrowing,
    load_allocator_file,
    shipped_allocator_file,
)
from tuner.config.allocator_interface import Scalar
from tuner.config.reading import (
    StrictModel,
    check_is_utf8,
    closest,
    problems_error,
    read_toml,
    show,
    unknown_key,
    validate,
)
from tuner.errors import SpecError
from tuner.limits import MOST_EVALUATIONS, MOST_SEED, RUN_TIME, USUAL_EVALUATIONS
from tuner.metrics import METRICS, objective_names
from tuner.page import series
from tuner.records import Configuration
from tuner.registry import ALLOCATORS, STRATEGIES
from tuner.resources import workload_file
from tuner.units import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CONSTRAINT = re.compile(r"\s*(?P<objective>\w+)\s*<=\s*\S")
"""Head of a constraint: the objective it bounds."""


def _one_of(word: str, allowed: Sequence[str]) -> str:
    if word not in allowed:
        message = f"unknown{closest(word, allowed)} allowed: {', '.join(allowed)}"
        raise ValueError(message.replace("unknown allowed", "unknown; allowed"))
    return word


def _no_kind(name: str) -> str:
    """Say of which kinds a library can be, as the NAME of ``NAME:PATH``."""
    kinds = [one for one in ALLOCATORS if one != "glibc"]
    return (
        f"{name!r} is no known kind of allocator{closest(name, kinds) or ';'} NAME in NAME:PATH "
        f"says whose settings the library takes: {series(kinds, 'or')}"
    )


def _objective(word: str) -> str:
    return _one_of(word, objective_names())


def _strategy(word: str) -> str:
    return _one_of(word, tuple(STRATEGIES))


def _allocator(text: str) -> str:
    AllocatorChoice.parse(text)
    return text


def _constraint(text: str) -> str:
    """Check the form; `tuner.objectives.parse_constraint` reads the limit."""
    match = _CONSTRAINT.match(text)
    if match is None:
        raise ValueError('not understood; write "peak_heap <= 2 GiB" or "cost <= default * 1.02"')
    _objective(match["objective"])
    return text


def _bounded(constraints: Iterable[str]) -> frozenset[str]:
    """Return the objectives that constraints of the right form bound."""
    heads = filter(None, map(_CONSTRAINT.match, constraints))
    return frozenset(head["objective"] for head in heads)


def _duration(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('must be a duration with its unit, such as "60 s"')  # noqa: TRY004 - pydantic collects ValueErrors
    return parse_duration(value)


def _run_time(value: object) -> object:
    return RUN_TIME.check(value) if isinstance(value, str) else value


def _distinct(words: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [word for word, count in Counter(words).items() if count > 1]
    if repeated:
        raise ValueError(f"{', '.join(repeated)} given twice")
    return words


def _distinct_allocators(texts: tuple[str, ...]) -> tuple[str, ...]:
    _distinct(tuple(text.partition(":")[0] for text in texts))
    return texts


Duration = Annotated[int, BeforeValidator(_duration), PlainSerializer(format_duration)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Objectives = Annotated[
    tuple[Annotated[str, AfterValidator(_objective)], ...],
    Field(min_length=1),
    AfterValidator(_distinct),
]
Allocators = Annotated[
    tuple[Annotated[str, AfterValidator(_allocator)], ...],
    Field(min_length=1),
    AfterValidator(_distinct_allocators),
]


@dataclass(frozen=True)
class AllocatorChoice:
    """An allocator as users name it: ``jemalloc``, or ``jemalloc:/opt/lib/libjemalloc.so``."""

    name: str
    """Name of the adapter."""
    library: Path | None
    """Library to use instead of the distribution's, an absolute path; None = find it."""

    @classmethod
    def parse(cls, text: str) -> AllocatorChoice:
        """Read ``NAME`` or ``NAME:PATH``.

        Raises:
            ValueError: the name is unknown, or the path cannot be one; says what can.
        """
        name, colon, path = text.partition(":")
        if colon and not path:
            raise ValueError(f"{text!r} names no library; leave the colon out")
        if "/" in name:
            raise ValueError(f"a library is given as NAME:PATH, such as jemalloc:{text}")
        if path and name not in ALLOCATORS:
            raise ValueError(_no_kind(name))
        _one_of(name, tuple(ALLOCATORS))
        if path and name == "glibc":
            raise ValueError(
                "glibc is the C library that programs run with; name it without a path"
            )
        library = Path(path).absolute() if path else None
        if any(letter in str(library) for letter in ": "):
            raise ValueError(f"{library}: a path with a colon or a blank cannot be preloaded")
        check_is_utf8(str(library))
        return cls(name, library)


class EmulationSpec(StrictModel):
    """How each evaluation is run."""

    instrument: Literal["auto", "perf", "qemu", "cachegrind", "none"] = "auto"
    timeout_ns: Annotated[Duration, BeforeValidator(_run_time)] = Field(
        default=60 * 10**9, alias="timeout"
    )
    """Limit of one replay."""
    threads: Literal["baton", "free"] = "baton"
    """baton: deterministic; free: contention and latency, no instruction count."""
    thp: Literal["never", "keep"] = "keep"
    """Transparent huge pages: as the machine is set, with the settings that depend on them, or
    off."""
    touch: Literal["recorded", "all", "ends", "none", "zeros"] = "recorded"
    """Which pages of a block are written; recorded: those the program touched, all where that is
    not known; zeros: all of them, every other block with zeros."""
    count: Literal["needed", "all"] = "needed"
    """Evaluations whose instructions are counted: those that could be on the front, or all."""
    combine: Literal["mean", "worst"] = "mean"
    """Several workloads: the geometric mean of a figure, or the worst relative to the default."""
    seeds: Annotated[int, Field(ge=1, le=16)] = 1
    """Traces that are generated of each profile; each is a workload."""


class RecheckSpec(StrictModel):
    """How much of the budget measures the front again."""

    share: Annotated[float, Field(ge=0, le=0.5)] = 0.15
    """Share of the evaluations."""


class ScreeningSpec(StrictModel):
    """A shrunk workload on which proposals are measured before the whole one."""

    fidelity: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Allocations of the shrunk workload over those of the whole; 0: no screening."""
    keep: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the proposals of a batch that are measured in full."""


class StopSpec(StrictModel):
    """What ends a campaign before its evaluations are spent, whichever comes first."""

    time_ns: Annotated[Duration, Field(gt=0)] | None = Field(default=None, alias="time")
    """Elapsed time of one call; the same command goes on."""
    plateau: Annotated[int, Field(ge=1)] | None = None
    """Evaluations in a row that gain less than 0.1 % of hypervolume."""
    target: tuple[Annotated[str, AfterValidator(_constraint)], ...] = ()
    """Limits, written as constraints; reached when one trial holds them all."""
    failures: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of at least 20 trials that fail above which something is wrong with the set-up."""


class SeedConfiguration(StrictModel):
    """A configuration to evaluate right after the defaults."""

    allocator: Annotated[str, AfterValidator(_allocator)]
    settings: dict[str, Scalar]


class CampaignSpec(StrictModel):
    """A whole campaign."""

    name: Name
    trace: Path
    """A trace, or a profile."""
    further_traces: tuple[Path, ...] = ()
    """Traces or profiles beside it; a figure is then its geometric mean over all of them."""
    held_out_traces: tuple[Path, ...] = ()
    """Traces or profiles that nothing is tuned for; the picks are measured on them in the end."""
    exact_trace: Path | None = None
    """The trace that takes the place of a profile whose verdict is bad; None: one beside it."""
    allocators: Allocators
    objectives: Objectives = ("mean_heap", "cost")
    constraints: tuple[Annotated[str, AfterValidator(_constraint)], ...] = ()
    evaluations: Annotated[int, Field(ge=1, le=MOST_EVALUATIONS)] = USUAL_EVALUATIONS
    """Number of distinct configurations to measure."""
    strategy: Annotated[str, AfterValidator(_strategy)] = "auto"
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] = 1
    search: Literal["joint", "separate"] = "joint"
    emulation: EmulationSpec = EmulationSpec()
    recheck: RecheckSpec = RecheckSpec()
    screening: ScreeningSpec = ScreeningSpec()
    stop: StopSpec = StopSpec()
    space: dict[str, dict[str, Narrowing]] = Field(default_factory=dict)
    """Allocator -> parameter -> what to keep of it."""
    space_files: tuple[Path, ...] = ()
    """Search-space files that replace the shipped ones."""
    warm_start: tuple[Path, ...] = ()
    """Earlier run folders, or folders of them: the front of the one whose workload is most like
    this one becomes seed configurations."""
    seed_configurations: tuple[SeedConfiguration, ...] = ()

    @model_validator(mode="after")
    def _objectives_fit_the_mode(self) -> CampaignSpec:
        wanted = sorted(self.metrics | _bounded(self.stop.target))
        lacking = [n for n in wanted if METRICS[n].is_counted or METRICS[n].is_of_baton]
        if self.emulation.threads == "free" and lacking:
            words = ", ".join(lacking)
            raise ValueError(
                f'{words} cannot be measured with emulation.threads = "free"; use "baton"'
            )
        return self

    @model_validator(mode="after")
    def _target_is_measured(self) -> CampaignSpec:
        metrics = (METRICS[name] for name in sorted(_bounded(self.stop.target)))
        lacking = [
            metric.name
            for metric in metrics
            if (metric.is_counted and not self.is_counted)
            or (not metric.is_repeatable and not self.measures_time)
        ]
        if lacking:
            words = ", ".join(lacking)
            raise ValueError(f"stop.target: {words} is not measured; name it among objectives too")
        return self

    @model_validator(mode="after")
    def _traces_differ(self) -> CampaignSpec:
        _distinct(tuple(map(str, (*self.traces, *self.held_out_traces))))
        return self

    @model_validator(mode="after")
    def _screening_has_one_trace(self) -> CampaignSpec:
        if (self.further_traces or self.emulation.seeds > 1) and self.screening.fidelity > 0:
            raise ValueError(
                "further_traces, emulation.seeds: screening shrinks one workload; leave one of the "
                "two out"
            )
        return self

    @property
    def traces(self) -> tuple[Path, ...]:
        """All workloads, that of `trace` first."""
        return (self.trace, *self.further_traces)

    @property
    def metrics(self) -> frozenset[str]:
        """The objectives and what constraints bound: all that must be measured."""
        return frozenset(self.objectives) | _bounded(self.constraints)

    @property
    def measures_time(self) -> bool:
        """True when threads run freely in any replay, so that other work would be measured too."""
        return self.emulation.threads == "free" or self.has_latency

    @property
    def has_latency(self) -> bool:
        """True when a metric is wanted that does not repeat: an elapsed time."""
        return not all(METRICS[name].is_repeatable for name in self.metrics)

    @property
    def is_counted(self) -> bool:
        """True when a metric is wanted that takes a count of instructions."""
        return any(METRICS[name].is_counted for name in self.metrics)

    @property
    def choices(self) -> tuple[AllocatorChoice, ...]:
        """The allocators with their library paths, in campaign order."""
        return tuple(AllocatorChoice.parse(text) for text in self.allocators)

    @property
    def seeds(self) -> tuple[Configuration, ...]:
        """The seed configurations, typed; `load_campaign` has checked them."""
        files = allocator_files(self)
        return tuple(
            Configuration.of(
                seed.allocator,
                {k: files[seed.allocator].find(k).coerce(v) for k, v in seed.settings.items()},
            )
            for seed in self.seed_configurations
        )


def load_campaign(path: Path, overrides: Mapping[str, Any] | None = None) -> CampaignSpec:
    """Read a campaign file.

    Args:
        path: the TOML file; relative paths inside it are relative to its folder.
        overrides: keys that replace those of the file, as TOML values (paths in them
            relative to the working folder); of a table only the keys it names.

    Raises:
        SpecError: the file is unreadable or wrong; every problem is named.
        MissingToolError: it names a shipped workload that is not installed.
    """
    data = read_toml(path)
    tables = [f"[{name}]" for name in ("program", "service") if isinstance(data.get(name), dict)]
    if tables:
        raise SpecError(
            f"{path}: has {' and '.join(tables)}, so it describes a program to run and no "
            f"campaign: `malloc-tuner optimize {shlex.quote(str(path))}`"
        )
    _anchor(data, path.parent)
    changes = dict(overrides or {})
    _anchor(changes, Path.cwd())
    changed = dict(data)
    for key, value in changes.items():
        is_table = isinstance(value, dict) and isinstance(data.get(key), dict)
        changed[key] = {**data[key], **value} if is_table else value
    source = str(path)
    if changes:
        with contextlib.suppress(SpecError):
            _checked(data, source)
            source = "options"  # the file alone is right
    return _checked(changed, source)


def campaign_from_options(**options: Any) -> CampaignSpec:
    """Build a campaign from command-line options, named as the keys of a campaign file.

    Args:
        options: at least ``trace`` and ``allocators``; an option of None is absent;
            ``name`` defaults to the name of the trace.

    Raises:
        SpecError: an option is wrong; says which and what is allowed.

    Example:
        >>> spec = campaign_from_options(trace="app.trace", allocators=["glibc"])
        >>> spec.name, spec.evaluations
        ('app', 300)
    """
    data = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in options.items()
        if value is not None
    }
    if "trace" in data:
        data.setdefault("name", name_after(Path(str(data["trace"]))))
    _anchor(data, Path.cwd())
    return _checked(data, "options")


def name_after(file: Path) -> str:
    """Return the name of a file up to its first dot, with what names may not have as dashes."""
    stem = file.name.partition(".")[0]
    return re.sub("[^A-Za-z0-9_-]+", "-", stem).strip("-_") or "campaign"


def allocator_files(spec: CampaignSpec) -> dict[str, AllocatorFile]:
    """Return the search-space file of every allocator of a campaign.

    Raises:
        SpecError: a file of `space_files` is wrong, or of no allocator of the campaign.
    """
    names = [choice.name for choice in spec.choices]
    given: dict[str, AllocatorFile] = {}
    for path in spec.space_files:
        file = load_allocator_file(path)
        if file.name not in names or file.name in given:
            why = "given twice" if file.name in given else "not in this campaign"
            raise SpecError(f"{path}: name = {show(file.name)}: {why}{closest(file.name, names)}")
        given[file.name] = file
    return {name: given.get(name) or shipped_allocator_file(name) for name in names}


def _anchor(data: dict[str, Any], folder: Path) -> None:
    """Make the paths of a campaign absolute; values of a wrong type are left to the model."""
    base = folder.absolute()

    def anchored(path: object) -> object:
        return str(workload_file(base / path)) if isinstance(path, str | Path) else path

    for key in ("trace", "exact_trace"):
        if key in data:
            data[key] = anchored(data[key])
    for key in ("further_traces", "held_out_traces", "space_files", "warm_start"):
        if isinstance(data.get(key), list | tuple):
            data[key] = [anchored(path) for path in data[key]]
    if isinstance(data.get("allocators"), list | tuple):
        data["allocators"] = [_anchored_library(one, base) for one in data["allocators"]]


def _anchored_library(allocator: object, base: Path) -> object:
    """Return ``NAME:PATH`` with an absolute path, and all else as it is."""
    name, _, path = allocator.partition(":") if isinstance(allocator, str) else ("", "", "")
    return f"{name}:{base / path}" if path else allocator


def _checked(data: Mapping[str, Any], source: str) -> CampaignSpec:
    """Validate a campaign, then what it says about the parameters of its allocators."""
    spec = validate(CampaignSpec, data, source)
    files = allocator_files(spec)
    problems = [*_space_problems(spec, files), *_seed_problems(spec, files)]
    if problems:
        raise problems_error(source, problems)
    return spec


def _space_problems(spec: CampaignSpec, files: Mapping[str, AllocatorFile]) -> list[str]:
    problems = []
    for allocator, narrowings in spec.space.items():
        if allocator not in files:
            problems.append(unknown_key(f"space.{allocator}", list(files)))
            continue
        for name, narrowing in narrowings.items():
            problem = files[allocator].narrowing_problem(name, narrowing)
            if problem:
                problems.append(f"space.{allocator}.{name}: {problem}")
    return problems


def _seed_problems(spec: CampaignSpec, files: Mapping[str, AllocatorFile]) -> list[str]:
    problems = []
    for index, seed in enumerate(spec.seed_configurations):
        path = f"seed_configurations[{index}]"
        if seed.allocator not in files:
            problems.append(f"{path}.allocator = {show(seed.allocator)}: not in this campaign")
            continue
        for name, value in seed.settings.items():
            try:
                files[seed.allocator].setting(name).coerce(value)
            except ValueError as error:
                problems.append(f"{path}.settings.{name} = {show(value)}: {error}")
    return problems


def dump_campaign(spec: CampaignSpec) -> str:
    """Return a campaign as TOML; `load_campaign` of the text gives an equal campaign."""
    data = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["space"] = {
        allocator: {name: _narrowing_value(narrowing) for name, narrowing in table.items()}
        for allocator, table in data["space"].items()
    }
    return tomli_w.dumps(data)


def _narrowing_value(narrowing: Mapping[str, Any]) -> object:
    if narrowing["form"] != "part":
        return narrowing["form"]
    if "values" in narrowing:
        return narrowing["values"]
    return {key: narrowing[key] for key in ("low", "high") if key in narrowing}
