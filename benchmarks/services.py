"""What settings of malloc do to real services, on a load that was not tuned on.

Redis, PostgreSQL, nginx, gunicorn, Node and puma as `configs/services` describes them.  `optimize`
answers for each within --seconds under the load of its file, and sees no other; then every subject
runs under the file's other load, in interleaved rounds: the service as it is, the default of every
allocator, the settings that people copy, what emulation alone would have exported, and the answer.
Memory is that of all processes, shared pages counted once.  Every run is kept.

One service comes after the other, and its results are kept after each round.  An estimate of how
long all of it takes is printed first; the same command goes on where it stopped, and with an answer
that was not decided.  --judge asks for no answer that is there or in the results, so that answers
and rounds can be had at different times.  Where time is short: --direct, --few, and loads of
--window seconds.

Targets: no answer is worse than the service as it is beyond doubt, that is with its whole 95 %
interval, or of fewer than six rounds in all of them (memory by 1 %, CPU and throughput by 2 %,
latency by 5 %); and on three services mean or idle memory is less by 15 %, and neither throughput
nor p99 is worse by 2 %, also with their whole intervals; without a latency that is in doubt.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.harness import ALLOCATORS, Benchmark, Call, Target, digits_of, installed, table
from benchmarks.results import Parts
from benchmarks.rounds import (
    Change,
    Figures,
    Row,
    changes_of,
    column,
    is_any_worse,
    is_out,
    run_rounds,
    runner_of,
    worse_target,
)
from benchmarks.sources import EXGEN, SEARCH
from tuner.campaign.progress import clock_text
from tuner.campaign.setup import locate
from tuner.cli.services import service_of_file
from tuner.config.program_file import ProgramFile, ServiceTable, load_program_file
from tuner.errors import MissingToolError, SpecError
from tuner.front.picks import select_balanced
from tuner.optimize.answering.answer import Decision
from tuner.optimize.answering.recommendation import Recommendation, recommended
from tuner.optimize.choosing import emulation
from tuner.optimize.kinds.known import COPIED
from tuner.optimize.kinds.making import tuned_of
from tuner.optimize.kinds.service import Service
from tuner.optimize.options import service_request
from tuner.optimize.quantities import SERVICE_NAMES, TABLE
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS, Reference, label_of
from tuner.optimize.work import TRACE_FILE
from tuner.records import Configuration
from tuner.resources import configs_dir
from tuner.service.constraints import DEFAULTS
from tuner.stats import Interval
from tuner.units import show_size

SERVICES: Final = ("redis", "postgresql", "nginx", "gunicorn", "node", "puma")
OURS, EMULATED = "answer", "emulation alone"
FELT: Final = tuple(SERVICE_NAMES[name] for name in ("mean", "floor"))
"""Memory that users complain about."""
SHOWN: Final = tuple(SERVICE_NAMES[name] for name in ("mean", "floor", "peak", "cpu", "rate"))
LATENCIES: Final = tuple(SERVICE_NAMES[name] for name in ("p99", "p95", "latency"))
"""The first of these that a load prints is judged."""

_LIMITS: Final = {SERVICE_NAMES[name]: share for name, share in DEFAULTS.items()}
_LEAST: Final = 0.01
"""Share of memory that counts."""

_GAIN: Final = 0.15
_EQUAL: Final = 0.02
"""Change of p99 and throughput beside which a gain of memory counts."""

_FEWEST_GAINS: Final = 3


@dataclass(frozen=True)
class Prepared:
    """A service that runs."""

    name: str
    request: Request
    held_out: str
    """The load that is not tuned on."""
    tuned: Service
    """Under that load."""
    reference: Reference
    """Of that load."""


def measure(call: Call) -> None:
    """See that every service runs, say how long all will take, then measure one by one."""
    prepared = list(_prepared(call, call.choose(SERVICES, ["redis"])))
    seconds = {one.name: _estimate(call, one) for one in prepared}
    each = ", ".join(f"{name} {clock_text(value)}" for name, value in seconds.items())
    print(f"services: about {clock_text(sum(seconds.values()))} ({each})", file=sys.stderr)
    for one in prepared:
        _measure(call, one)


def _prepared(call: Call, names: Sequence[str]) -> Iterator[Prepared]:
    """Yield the services that this machine can run."""
    for name in names:
        try:
            yield _prepare(call, name)
        except (MissingToolError, SpecError) as error:  # such as a service that needs root
            call.leave_out(name, error)


def file_of(name: str) -> tuple[ProgramFile, ServiceTable]:
    """Return what ships of a service."""
    file = load_program_file(configs_dir() / "services" / f"{name}.toml")
    if file.service is None:  # they all have one
        raise ValueError(f"{name}: no [service]")
    return file, file.service


def _prepare(call: Call, name: str) -> Prepared:
    file, service = file_of(name)
    options = call.options
    plan = service_of_file(file)
    loads = [of_seconds(load, options.window) for load in (plan.load, service.held_out_load or "")]
    if call.is_smoke:
        plan = replace(plan, idle_s=0.2)
        loads = [short_load(load) for load in loads]
    plan = replace(plan, load=loads[0])
    evaluations = 8 if call.is_smoke else None
    seconds = 3.0 if call.is_smoke else float(options.seconds)
    plain = Request(
        plan.command, seconds, ALLOCATORS, evaluations=evaluations, is_direct=options.direct
    )
    request = service_request(plain, plan, service.constraints, None)
    files = locate(emulation.campaign_spec(Path(TRACE_FILE), ALLOCATORS, 1, 100))
    tuned = tuned_of(replace(request, service=replace(plan, load=loads[1])), files, os.environ)
    if not isinstance(tuned, Service):  # it is what requests with a service ask for
        raise TypeError(name)
    return Prepared(name, request, loads[1], tuned, tuned.examine())


def of_seconds(load: str, seconds: float) -> str:
    """Return a load of so many seconds where it says how long it is; those that count stay."""
    load = re.sub(r"(-d|-z )\d+s", rf"\g<1>{seconds:g}s", load)
    return re.sub(r"-T \d+", f"-T {max(1, round(seconds))}", load)


def short_load(load: str) -> str:
    """Return a load of a moment."""
    return re.sub(r"-([nt]) \d+", r"-\1 200", of_seconds(load, 1))


def _estimate(call: Call, one: Prepared) -> float:
    """Return about how many seconds a service takes."""
    n_subjects = 2 + len(COPIED) + (0 if call.options.few else len(ALLOCATORS))
    return one.request.seconds + call.rounds * n_subjects * one.reference.wall_s


def _measure(call: Call, one: Prepared) -> None:
    """Ask for an answer, then judge it; all is kept after every round."""
    head = call.parts.get(one.name) if call.options.judge else None
    if head is None or _run_of(call, one).exists():
        head = _asked(call, one)
    known: dict[str, str] = head["subjects"]
    subjects = {label: Configuration.from_key(key) for label, key in known.items()}
    for rounds in range(1, call.rounds + 1):
        rows = run_rounds(
            call,
            one.name,
            [one.name],
            [AS_IS, *subjects],
            _runner(one, subjects),
            same=[known, one.held_out, _digest(one.request)],
            rounds=rounds,
            baseline=AS_IS,
            shown=SERVICE_NAMES["mean"],
        )
        is_done = rounds == call.rounds
        kept = {**head, "rows": rows}
        call.keep(one.name, kept, allocators=installed(ALLOCATORS), rounds=rounds, is_done=is_done)


def _run_of(call: Call, one: Prepared) -> Path:
    return call.folder / f"{one.name}-{_digest(one.request)}"


def _asked(call: Call, one: Prepared) -> Mapping[str, Any]:
    """Ask for an answer where there is none; return it, and what is judged beside it."""
    run = call.run_folder(one.name, _run_of(call, one).name)
    found = recommended(run)
    if found is None or (found.decision is Decision.UNDECIDED and not call.options.judge):
        Session(run, one.request).answer()
        found = recommended(run)
    if found is None:  # a session leaves one
        raise FileNotFoundError(run)
    subjects = _subjects(run, one, found, is_few=call.options.few or call.is_smoke)
    return {
        "decision": str(found.decision),
        "sentence": found.sentence,
        "seconds": one.request.seconds,
        "brings": one.reference.allocator,
        "subjects": {label: configuration.key for label, configuration in subjects.items()},
    }


def _digest(request: Request) -> str:
    """Return what tells requests apart that differ in more than time, or in the allocators."""
    return digits_of([replace(request, seconds=0.0).as_record(), installed(ALLOCATORS)])


def _subjects(
    run: Path, one: Prepared, answer: Recommendation, *, is_few: bool
) -> dict[str, Configuration]:
    """Return what runs beside the service as it is, by label."""
    brought = one.reference.allocator
    names = () if is_few else ALLOCATORS
    found = {name: Configuration(name) for name in names if name != brought}
    found |= {label_of(copied): copied for copied in COPIED}
    if emulation.begun(run):
        emulated = emulation.load(run)
        balanced = select_balanced(
            emulated.trials, emulation.OBJECTIVES, emulated.default_of(ALLOCATORS[0])
        )
        found[EMULATED] = balanced.configuration
    if answer.decision is Decision.DEPLOY and answer.configuration is not None:
        found[OURS] = answer.configuration
    return {label: it for label, it in found.items() if one.tuned.refusal(it) is None}


def _runner(one: Prepared, subjects: Mapping[str, Configuration]) -> Callable[[str, str], Figures]:
    return runner_of(one.tuned.runner(subjects, one.reference))


# What is shown


@dataclass(frozen=True)
class Judged:
    """A subject under the load that was not tuned on."""

    service: str
    subject: str
    changes: Mapping[str, Change]
    """By quantity, against the service as it is; empty where it failed."""
    is_out: bool
    """Whether it failed."""

    @property
    def latency(self) -> Change | None:
        """Of the quantity that is judged."""
        return next((self.changes[name] for name in LATENCIES if name in self.changes), None)

    def is_worse(self) -> bool | None:
        """Return whether something is worse beyond doubt, or it failed; None: in doubt."""
        return self.is_out or is_any_worse([
            one.is_worse(_LIMITS.get(name, _LEAST), is_more_better=TABLE[name].is_more_better)
            for name, one in self.changes.items()
        ])  # fmt: skip

    def is_gain(self, *, by_medians: bool = False) -> bool | None:
        """Return whether memory is less by `_GAIN`, latency and throughput equal, nothing worse.

        Args:
            by_medians: as if they were exact.

        Returns:
            None: in doubt, as where a load printed no latency.
        """
        if self.is_worse():
            return False
        felt = [self.changes[name] for name in FELT if name in self.changes]
        least = min(felt, key=lambda one: one.median, default=None)
        found = least, self.changes.get(SERVICE_NAMES["rate"]), self.latency
        less, rate, latency = (one and one.exact if by_medians else one for one in found)
        misses = is_any_worse([
            None if less is None else less.is_worse(-_GAIN),
            None if rate is None else rate.is_worse(_EQUAL, is_more_better=True),
            None if latency is None else latency.is_worse(_EQUAL),
        ])  # fmt: skip
        return None if misses is None else not misses

    def cell(self, quantity: str) -> str:
        """Return what it changes, for a table."""
        return self.shown(self.changes.get(quantity))

    def shown(self, change: Change | None) -> str:
        """Return one of its changes, for a table; None: it has none."""
        return str(change or ("failed" if self.is_out else "-"))


def judged_of(parts: Parts) -> list[Judged]:
    """Return every subject of every service with its changes."""
    names = (*SHOWN, *LATENCIES)
    return [
        Judged(
            service,
            label,
            changes_of(kept["rows"], label, AS_IS, names),
            is_out(kept["rows"], label, AS_IS),
        )
        for service, kept in _kept(parts)
        for label in kept["subjects"]
    ]


def _kept(parts: Parts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from ((name, parts[name]) for name in SERVICES if name in parts)


def tables(parts: Parts) -> Iterator[str]:
    """Yield the answer of each service, and what every subject changes.

    The answer comes first, then what has the least memory.
    """
    if not parts:
        yield "No results are kept yet."
    for name, kept in _kept(parts):
        yield ""
        yield f"**{name}**: {kept['sentence']} As it is ({kept['brings']}): {_as_is(kept['rows'])}."
        yield ""
        mine = _ranked(parts, name)
        shown = [*SHOWN, next((n for n in LATENCIES if any(n in o.changes for o in mine)), "p99")]
        rows = [[one.subject, *map(one.cell, shown)] for one in mine]
        yield from table([name, *shown], rows)


def first_of_each(parts: Parts) -> Iterator[str]:
    """Yield the answer of each service, and of `tables` the first row of each."""
    for name, kept in _kept(parts):
        yield f"- **{name}**: {kept['sentence']}"
    yield ""
    names = [*FELT, SERVICE_NAMES["cpu"]]
    rows = []
    for service, _ in _kept(parts):
        for one in _ranked(parts, service)[:1]:
            cells = [*map(one.cell, names), one.shown(one.latency)]
            rows.append([service, one.subject, *cells])
    yield from table(["service", "setting", *names, "p99, or mean, latency"], rows)


def _ranked(parts: Parts, service: str) -> list[Judged]:
    return sorted((one for one in judged_of(parts) if one.service == service), key=_rank)


def _rank(one: Judged) -> tuple[bool, float]:
    """Return the order of tables: the answer, then by the sum of mean and idle memory."""
    found = [one.changes[name].median for name in FELT if name in one.changes]
    return one.subject != OURS, sum(found) if found else 9.0


def _as_is(rows: Sequence[Row]) -> str:
    """Return the medians of the service as it is."""
    words = []
    for name in (*SHOWN, *LATENCIES):
        found = column(rows, name, subject=AS_IS)
        if found:
            words.append(f"{name} {_shown(name, median(found))}")
    return ", ".join(words)


def _shown(name: str, value: float) -> str:
    unit = TABLE[name].unit
    if unit == "bytes":
        return show_size(value)
    return f"{value:.0f}" if unit == "1/s" else f"{value / 1e6:.3g} ms"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield how many answers are worse than the service as it is, and how many gain."""
    own = [one for one in judged_of(parts) if one.subject == OURS]
    note = f"{len(own)} of {len(parts)} services with a setting to deploy"
    yield worse_target([one.is_worse() for one in own], note)
    gains = [one.is_gain() for one in own]
    n_proven, n_open = (sum(one is it for one in gains) for it in (True, None))
    what = "services with 15 % less mean or idle memory at equal p99 and throughput by medians "
    what += f"({n_proven} proven, {n_open} in doubt)"
    n_gains = sum(one.is_gain(by_medians=True) is True for one in own)
    yield Target(what, n_gains, _FEWEST_GAINS, at_least=True, form=".0f",
                 interval=Interval(n_proven, n_proven + n_open))  # fmt: skip


def _options(parser: argparse.ArgumentParser) -> None:
    for name, kind, default, words in (
        ("--seconds", float, 1200.0, "for each answer"),
        ("--window", float, 30.0, "seconds of a load that says how long it is"),
    ):
        parser.add_argument(name, type=kind, default=default, help=f"{words}; default: %(default)s")
    for flag, words in (
        ("--direct", "neither record nor emulate: search with the service alone"),
        ("--judge", "ask for no answer that is there or in the results, decided or not"),
        ("--few", "judge no allocator's default, only what people copy and the answer"),
    ):
        parser.add_argument(flag, action="store_true", help=words)


BENCHMARK: Final = Benchmark(
    name="services",
    about=__doc__,
    claim="Answers for six real services hold under another load: 15 % less memory at equal p99 "
    "and throughput on three, nothing worse beyond doubt.",
    depends_on=(
        *(*EXGEN, "rand_malloc", *SEARCH),
        *("tuner/measure", "tuner/optimize", "tuner/service", "configs/services"),
    ),
    measure=measure,
    needs=SERVICES,
    lines=tables,
    targets=targets,
    options=_options,
    rounds=5,
    blocks={"answers": first_of_each},
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
