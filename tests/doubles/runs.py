"""Synthetic campaigns with the shape of real ones, for tests and for looking at reports.

A small invented model maps settings to numbers: caches cost memory and save
instructions, giving memory back costs faults and system calls.  It has the
structure of the real problem (conditions, plateaus, settings without effect,
failures) and none of its truth.  The same arguments give the same run.

`synthetic_run` stays in memory; `write_run` puts a run through the real store.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.doubles.machine import MACHINE
from tests.doubles.probes import VERSIONS
from tuner import objectives
from tuner.allocators import get_allocator
from tuner.emulation import Calibration, EmulationOptions
from tuner.front.dominance import front, reference_point
from tuner.metrics import METRICS
from tuner.records import (
    Configuration,
    CurvePoint,
    Measurement,
    Origin,
    Outcome,
    Status,
    Trial,
    Value,
)
from tuner.runs import Run
from tuner.store import (
    FINISHED,
    AllocatorRecord,
    CampaignRecord,
    RealMeasurement,
    Recheck,
    Store,
    ValidationRecord,
    ValidationSample,
)
from tuner.validate.subjects import choose_subjects

MIB = 1 << 20
LEVELS: Mapping[str, Mapping[str, tuple[Value | None, ...]]] = {
    "glibc": {
        "mxfast": (None, 0, 32, 64, 160),
        "tcache_count": (None, 0, 1, 7, 64, 512, 4096),
        "tcache_max": (None, 24, 120, 1032, 4104),
        "trim_threshold": (None, 4096, 65536, 1048576, 67108864),
        "top_pad": (None, 0, 65536, 1048576, 16777216),
        "arena_max": (None, 1, 2, 4),
    },
    "tcmalloc": {
        "max_total_thread_cache_bytes": (None, 524288, 4194304, 33554432, 268435456),
        "aggressive_decommit": (None, 0, 1),
        "transfer_num_obj": (None, 1, 32, 512, 8192),
    },
    "jemalloc": {
        "dirty_decay_ms": (None, -1, 0, 10, 1000, 100000),
        "muzzy_decay_ms": (None, -1, 0, 1000),
        "tcache": (None, True, False),
        "tcache_max": (None, 1024, 32768, 1048576),
        "narenas": (None, 1, 2, 4),
        "lg_extent_max_active_fit": (None, 3, 6, 12),
        "metadata_thp": (None, "disabled", "auto", "always"),
    },
    "mimalloc": {
        "decommit_delay": (None, 0, 10, 1000),
        "allow_decommit": (None, 0, 1),
        "eager_commit": (None, 0, 1),
    },
}
"""Settings and levels of each allocator of the model; None is unset."""

_BASE = {  # MiB of overhead at the mean, million instructions
    "glibc": (14.4, 95.8),
    "tcmalloc": (26.5, 58.8),
    "jemalloc": (15.5, 73.5),
    "mimalloc": (25.7, 52.6),
}
_LIVE_MIB = 40.0
_N_CURVE = 160

LIBRARIES = {
    "glibc": None,
    "tcmalloc": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "jemalloc": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "mimalloc": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
    "exgen": "/opt/malloc-tuner/tuner/native/libexgen.so",
}


PRICES = Calibration(
    c_fault=2000.0,
    c_syscall=400.0,
    ns_per_instruction=0.5,
    c_page=300.0,
    c_fault_interval=(1900.0, 2100.0),
    c_page_interval=(290.0, 310.0),
    c_syscall_interval=(380.0, 420.0),
    n_draws=3,
)
"""Prices of which every one has an interval."""


def synthetic_run(  # one parameter per feature of a run
    folder: Path = Path("runs/synthetic"),
    *,
    allocators: Sequence[str] = ("glibc", "tcmalloc", "jemalloc", "mimalloc"),
    names: Sequence[str] = ("mean_heap", "cost"),
    n_trials: int = 300,
    seed: int = 1,
    failures: bool = True,
    rechecks: bool = True,
    validation: bool = False,
    spread: float = 0.0,
) -> Run:
    """Build a finished campaign.

    Args:
        folder: what `Run.folder` shall be; nothing is written.
        allocators: which take part, the baseline first.
        names: the campaign's objectives.
        n_trials: number of distinct configurations.
        seed: of the generator.
        failures: True lets some configurations be refused, fail, time out or be infeasible.
        rechecks: True re-measures the front twice.
        validation: True adds one validation of seven rounds.
        spread: relative standard deviation of noise; makes fronts long.
    """
    rng = np.random.default_rng(seed)
    trials: list[Trial] = []
    for number, configuration in enumerate(_configurations(allocators, n_trials, rng)):
        origin = Origin.DEFAULT if configuration.is_default else Origin.SEARCH
        trials.append(_trial(number, configuration, origin, names, rng, failures, spread))
    defaults = [trial for trial in trials if trial.configuration.is_default]
    record = campaign_record(allocators, names, len(trials))
    record = replace(record, reference=reference_point(defaults))
    run = Run(folder, record, tuple(trials))
    if rechecks:
        run = replace(run, rechecks=tuple(_rechecks(trials, rng)))
    if validation:
        run = replace(run, validations=(_validation(run, rng),))
    return run


def campaign_record(allocators: Sequence[str], names: Sequence[str], budget: int) -> CampaignRecord:
    return CampaignRecord(
        name="ghostscript",
        trace_path="/srv/traces/ghostscript.trace",
        trace_sha256="9f" * 32,
        objectives=tuple(names),
        constraints=("peak_heap <= 256 MiB",),
        strategy="nsga2",
        population=20,
        seed=1,
        search="joint",
        budget=budget,
        recheck_share=0.15,
        space=(),
        emulation=EmulationOptions(instrument="qemu", touch="all", thp="never"),
        allocators={name: AllocatorRecord(LIBRARIES[name], VERSIONS[name]) for name in allocators},
        versions={
            "malloc_tuner": "0.1.0",
            "python": "3.11.7",
            "pymoo": "0.6.2",
            "rand_malloc": "0.1.0",
        },
        machine=MACHINE,
        calibration=Calibration(1650.0, 720.0, ns_per_instruction=0.31),
        created_at="2026-11-20T12:00:00.000+00:00",
        status=FINISHED,
    )


def write_run(run: Run) -> Path:
    """Write a run through the real store and return its folder."""
    record = replace(run.campaign, reference=None)
    with Store.create(run.folder, record) as store:
        for trial in run.trials:
            store.add_trial(trial)
        for recheck in run.rechecks:
            store.add_recheck(recheck)
        for validation in run.validations:
            identifier = store.begin_validation(validation)
            for sample in validation.samples:
                store.add_validation_sample(identifier, sample)
        if run.campaign.reference is not None:
            store.set_reference(run.campaign.reference)
        store.set_status(run.campaign.status)
    return run.folder


def installed_run(folder: Path) -> Path:
    """Write a finished campaign of this machine's glibc and jemalloc, with invented numbers."""
    found = {name: get_allocator(name).locate() for name in ("glibc", "jemalloc")}
    record = replace(
        campaign_record(tuple(found), ("mean_heap", "cost"), 3),
        allocators={
            name: AllocatorRecord(str(i.library) if i.library else None, i.version)
            for name, i in found.items()
        },
    )
    with Store.create(folder, record) as store:
        store.add_trial(trial(0, Configuration("glibc"), 40.0 * MIB, 5e6))
        store.add_trial(trial(1, Configuration("jemalloc"), 42.0 * MIB, 4e6))
        best = Configuration.of("jemalloc", {"dirty_decay_ms": 0})
        store.add_trial(trial(2, best, 39.0 * MIB, 3e6))
        store.set_status(FINISHED)
    return folder


def measurement(
    mean_heap: float = 50.0 * MIB, cost: float | None = 1e8, **changes: float | None
) -> Measurement:
    """Build a measurement whose other fields follow from mean heap and cost."""
    values: dict[str, float | None] = {
        **dict.fromkeys(METRICS, 1),
        "peak_heap": int(mean_heap * 1.3),
        "mean_heap": float(mean_heap),
        "faults": int(mean_heap / 4096),
        "syscalls": 365,
        "instructions": None if cost is None else int(cost * 0.8),
        "process_instructions": None if cost is None else int(cost * 1.5),
        "cost": cost,
        "p99_latency": None,
        "wall": 210_000_000,
        "peak_live": int(mean_heap),
        "fragmentation": 1.3,
    }
    return Measurement({**values, **changes})


def trial(
    number: int,
    configuration: Configuration,
    mean_heap: float = 50.0 * MIB,
    cost: float = 1e8,
    names: Sequence[str] = ("mean_heap", "cost"),
) -> Trial:
    numbers = measurement(mean_heap, cost)
    origin = Origin.DEFAULT if configuration.is_default else Origin.SEARCH
    values = objectives.objective_values(numbers, names)
    return Trial(number, configuration, origin, Outcome.succeeded(numbers), values, 0.0)


def without_counts(trial: Trial) -> Trial:
    """Return a trial as one that was dominated before its instructions were counted."""
    known = trial.measured.with_values(cost=None, instructions=None)
    outcome = Outcome(Status.UNCOUNTED, "dominated", known)
    return replace(trial, outcome=outcome, objectives=None)


def failed_trial(number: int, configuration: Configuration, status: Status, reason: str) -> Trial:
    return Trial(
        number, configuration, Origin.SEARCH, Outcome.did_not_succeed(status, reason), None, 1.0
    )


# The model


def _configurations(
    allocators: Sequence[str], n_trials: int, rng: np.random.Generator
) -> list[Configuration]:
    found = dict.fromkeys(Configuration(name) for name in allocators)
    attempts = 0
    while len(found) < n_trials and attempts < 100 * n_trials:
        attempts += 1
        allocator = allocators[int(rng.integers(len(allocators)))]
        unset = rng.uniform(0.2, 0.9)
        settings = {
            name: None if rng.random() < unset else levels[int(rng.integers(len(levels)))]
            for name, levels in LEVELS[allocator].items()
        }
        found.setdefault(Configuration.of(allocator, settings))
    return list(found)[:n_trials]


def _trial(  # noqa: PLR0917 - internal, one call
    number: int,
    configuration: Configuration,
    origin: Origin,
    names: Sequence[str],
    rng: np.random.Generator,
    failures: bool,
    spread: float,
) -> Trial:
    settings = configuration.as_dict
    if failures and settings.get("trim_threshold") == 4096 and settings.get("arena_max") == 4:
        return failed_trial(
            number, configuration, Status.FAILED, "rand_malloc: malloc returned NULL"
        )
    if failures and settings.get("metadata_thp") == "always" and "narenas" in settings:
        return failed_trial(
            number, configuration, Status.REFUSED, "metadata_thp: asked always, got disabled"
        )
    if (
        failures
        and settings.get("transfer_num_obj") == 1
        and settings.get("aggressive_decommit") == 1
    ):
        return failed_trial(number, configuration, Status.TIMED_OUT, "still running after 60 s")
    numbers = _model(configuration, rng, spread)
    values = objectives.objective_values(numbers, names)
    excess = max(0.0, numbers.value("peak_heap") / (256 * MIB) - 1.0) if failures else 0.0
    return Trial(number, configuration, origin, Outcome.succeeded(numbers), values, excess)


def _model(configuration: Configuration, rng: np.random.Generator, spread: float) -> Measurement:
    overhead, work = _BASE[configuration.allocator]
    faults, syscalls = 20_650.0, 365.0
    for name, value in configuration.settings:
        levels = [level for level in LEVELS[configuration.allocator][name] if level is not None]
        place = levels.index(value) / max(1, len(levels) - 1)
        if name in ("arena_max", "eager_commit", "lg_extent_max_active_fit"):
            continue  # without effect: plateaus
        # More cache: more memory, less work; the first levels give memory back.
        overhead *= 0.62 + 0.75 * place
        work *= 1.045 - 0.075 * math.sqrt(place)
        faults *= 1.0 + 0.9 * (1.0 - place) ** 4
        syscalls *= 1.0 + 2.5 * (1.0 - place) ** 3
    noise = 1.0 + spread * rng.standard_normal(2)
    mean = (_LIVE_MIB * 0.62 + overhead * noise[0]) * MIB
    instructions = int(work * noise[1] * 1e6)
    curve = _curve(overhead)
    return Measurement(
        {
            "peak_heap": max(point.heap_bytes for point in curve),
            "mean_heap": mean,
            "faults": int(faults),
            "syscalls": int(syscalls),
            "instructions": instructions,
            "process_instructions": instructions + 61_000_000,
            "cost": instructions + 1650.0 * int(faults) + 720.0 * int(syscalls),
            "p99_latency": 180.0 + 4.0 * work,
            "wall": int(2.4e6 * work),
            "peak_live": int(_LIVE_MIB * MIB),
            "fragmentation": max(point.heap_bytes for point in curve) / (_LIVE_MIB * MIB),
        },
        curve,
    )


def _curve(overhead_mib: float) -> tuple[CurvePoint, ...]:
    """Grow in three phases of the program; the heap lags behind when memory is freed."""
    points, kept = [], 0.0
    for index in range(_N_CURVE):
        x = index / (_N_CURVE - 1)
        live = _LIVE_MIB * max(0.02, math.sin(min(1.0, x * 1.7) * math.pi / 2) - 0.45 * (x > 0.55))
        live *= 0.86 + 0.14 * math.sin(x * 38.0)
        kept = max(live, kept * (1.0 - 0.16 / (1.0 + overhead_mib / 6.0)))
        heap = kept + overhead_mib * min(1.0, 0.15 + x * 2.0)
        points.append(CurvePoint(index * 1900, int(x * 4.2e9), int(heap * MIB), int(live * MIB)))
    return tuple(points)


def _rechecks(trials: Sequence[Trial], rng: np.random.Generator) -> list[Recheck]:
    found = []
    for one in front(trials):
        assert one.measurement is not None
        for repeat in (1, 2):
            factor = 1.0 + 0.0015 * float(rng.standard_normal())
            heap = one.measurement.value("mean_heap")
            again = one.measurement.with_values(mean_heap=heap * factor)
            found.append(Recheck(one.number, repeat, Outcome.succeeded(again)))
    return found


def _validation(run: Run, rng: np.random.Generator) -> ValidationRecord:
    subjects = choose_subjects(run, ["picks"], 3, 2)
    tried = [(one.label, run.trial(one.trial)) for one in subjects if one.trial is not None]
    samples = [
        _sample(round_, position, label, one, rng)
        for round_ in range(7)
        for position, (label, one) in enumerate(tried)
    ]
    return ValidationRecord(
        command=("gs", "-dBATCH", "-dNOPAUSE", "-sDEVICE=nullpage", "report.ps"),
        rounds=7,
        baseline=subjects[0].label,
        subjects=subjects,
        machine=run.campaign.machine,
        identifier=1,
        created_at="2026-11-20T13:00:00.000+00:00",
        samples=tuple(samples),
    )


def _sample(
    round_: int, position: int, label: str, one: Trial, rng: np.random.Generator
) -> ValidationSample:
    assert one.measurement is not None
    numbers, shift = one.measurement, 9.0 * MIB
    jitter = 1.0 + 0.004 * rng.standard_normal(3)
    peak = int((numbers.value("peak_heap") + shift) * jitter[0])
    cpu = int((1.35e9 + (numbers["cost"] or 0.0) * 0.31) * (1.0 + 0.012 * rng.standard_normal()))
    found = RealMeasurement(
        exit_status=0, output_sha256="ab" * 32,
        peak_rss_bytes=peak + 6 * MIB, peak_heap_bytes=peak,
        mean_heap_bytes=(numbers.value("mean_heap") + shift) * float(jitter[1]),
        faults=int(numbers.value("faults") * 1.1 + 900),
        user_ns=int(cpu * 0.9), system_ns=int(cpu * 0.1), cpu_ns=cpu,
        wall_ns=int(cpu * 1.05), instructions=None,
    )  # fmt: skip
    outcome = Outcome.succeeded(found)
    return ValidationSample(round_, position, label, one.configuration, one.number, outcome)


def seen(sample: ValidationSample) -> RealMeasurement:
    assert sample.outcome.values is not None
    return sample.outcome.values


def changed(sample: ValidationSample, **values: object) -> ValidationSample:
    return replace(sample, outcome=Outcome.succeeded(replace(seen(sample), **values)))  # type: ignore[arg-type]


def broken(sample: ValidationSample, reason: str) -> ValidationSample:
    return replace(sample, outcome=Outcome.did_not_succeed(Status.FAILED, reason))


def valued(
    number: int, values: Sequence[float] | None, violated: float = 0.0, *, default: bool = False
) -> Trial:
    """Build a trial of glibc with these objectives; without any, one that failed."""
    configuration = Configuration.of("glibc", {} if default else {"pad": number})
    if values is None:
        return failed_trial(number, configuration, Status.FAILED, "killed")
    return Trial(
        number,
        configuration,
        Origin.DEFAULT if default else Origin.SEARCH,
        Outcome.succeeded(measurement()),
        tuple(values),
        violated,
    )
