"""What a profile's own verdict allows: may a campaign tune with it, and how finely?

The verdict is written into the profile by `malloc-tuner fidelity`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from tuner.errors import SpecError, TraceError
from tuner.profile.fidelity import FamilyFidelity, Fidelity, fidelity_of
from tuner.profile.file import is_profile, profile_sha256, read_profile, workload_sha256
from tuner.trace.file import Trace

LEAST_TAU: Final = 0.8
"""Rank correlation within an allocator below which a profile does not rank a metric.

Over the pairs that truly differ by more than 1 %: nearer ones are ordered by noise.
"""

MOST_REGRET: Final = 0.02
"""What the model's pick may lose on the trace."""

LEAST_SHRUNK_TAU: Final = 0.5
"""Rank correlation over all configurations below which a shrunk profile screens nothing.

At 0.5 three pairs of four are ordered rightly.
"""

USED: Final = ("cpu_s", "peak_anon_bytes", "mean_anon_bytes", "peak_rss_bytes")
"""Metadata that says what the whole program used; of a varied profile none does."""

GUARDED: Final = "peak_heap"
"""The objective that is not tuned for at all on a profile that does not rank it."""


class Beginning(NamedTuple):
    """What a workload says before its events are read."""

    n_events: int
    n_threads: int
    life_ns: int
    is_life_known: bool
    """False where `life_ns` is a bound, and the events say more."""
    is_fork: bool
    """True when its process began with a fork."""


@dataclass(frozen=True)
class Workload:
    """What a campaign is emulated with, and what is to be said about it."""

    path: Path
    """A trace, or a profile that is trusted as far as `notes` say."""
    notes: tuple[str, ...] = ()
    """Sentences for every output of the campaign; none for a trace that was asked for."""
    resolution: Mapping[str, float] | None = None
    """Metric -> relative difference that is the model's noise; None for a trace."""
    caveat: str | None = None
    """What `caveat` says of it; the first of the notes."""
    sha256: str | None = None
    """What `workload_sha256` returns of `path`; None where it was not read."""
    gaps: tuple[str, ...] = ()
    """What is said by `gap_in`; it is not kept in the campaign's store."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """Of the first file: ``n_events`` and the allocator, ``recorded_with``, as a store keeps it."""
    beginnings: tuple[Beginning, ...] = ()
    """Of every file; none where one cannot be read."""


def choose_workload(
    trace: Path,
    allocators: Sequence[str],
    objectives: Sequence[str],
    *,
    exact: Path | None = None,
    is_forced: bool = False,
) -> Workload:
    """Decide whether a campaign uses its profile, or the trace that it was fitted to.

    Args:
        trace: what the campaign names; a trace is used as it is.
        allocators: names of those to be tuned.
        objectives: what is minimised.
        exact: the trace of the profile; None: a file beside it that has the name and the
            content that the profile remembers.
        is_forced: use the profile however bad its verdict is.

    Raises:
        SpecError: the profile does not rank `GUARDED`, which is an objective, the trace is not
            at hand, and it is not forced; or `exact` is a profile itself.
        TraceError: a file cannot be read.
    """
    if exact is not None and is_profile(exact):
        raise SpecError(f"exact_trace = {exact}: a profile; give the trace that was recorded")
    workload = _choose(trace, allocators, objectives, exact, is_forced=is_forced)
    try:
        with Trace(workload.path, is_streamed=True) as opened:
            said, gap = caveat(opened), _gap_in(opened)
            recorded, begins = recorded_facts(opened), beginning(opened)
    except TraceError:  # reported where its events are needed
        return workload
    workload = replace(
        workload, gaps=(gap,) if gap else (), recorded=recorded, beginnings=(begins,)
    )
    return replace(workload, notes=(said, *workload.notes), caveat=said) if said else workload


def join_workloads(first: Workload, others: Sequence[Workload]) -> Workload:
    """Return what is to be said of a campaign on several workloads.

    Returns:
        The first one's path, the notes of all; of each metric the coarsest resolution.
    """
    every = [first, *others]
    known = [one.resolution for one in every if one.resolution]
    metrics = {metric for resolution in known for metric in resolution}
    coarsest = {m: max(resolution.get(m, 0.0) for resolution in known) for m in sorted(metrics)}
    return Workload(
        first.path,
        tuple(dict.fromkeys(note for one in every for note in one.notes)),
        coarsest or None,
        next((one.caveat for one in every if one.caveat), None),
        first.sha256,
        tuple(gap for one in every for gap in one.gaps),
        {**first.recorded, "program": ()},
        tuple(begins for one in every for begins in one.beginnings),
    )


def _choose(
    trace: Path,
    allocators: Sequence[str],
    objectives: Sequence[str],
    exact: Path | None,
    *,
    is_forced: bool,
) -> Workload:
    if not is_profile(trace):
        return Workload(trace)
    profile = read_profile(trace)
    verdict = fidelity_of(profile)
    reasons = list(weaknesses(verdict, allocators, objectives))
    said = f"workload profile {trace.name}: {summary(verdict)}"
    own = Workload(trace, (said,), resolution_of(verdict), sha256=profile_sha256(profile))
    if not reasons:
        return own
    why = "; ".join(reasons)
    if is_forced:
        return replace(own, notes=(said, f"forced although {why}"))
    exact = exact or _trace_beside(trace, profile)
    if exact is not None:
        note = f"exact replay of {exact.name} instead of the profile {trace.name}, because {why}"
        return Workload(exact, (note,))
    if weak_families(verdict, allocators, GUARDED) and GUARDED in objectives:
        raise SpecError(
            f"{trace}: this profile does not rank {GUARDED}: {why}; tune on the trace (exact_trace "
            f"or --exact-trace names it), leave {GUARDED} or these allocators out, or add --force"
        )
    note = f"careful, there is no trace to fall back to: {why}"
    return replace(own, notes=(said, note))


def weaknesses(
    verdict: Fidelity, allocators: Sequence[str], objectives: Sequence[str]
) -> Iterator[str]:
    """Yield in words where a verdict is too bad to tune by it; nothing of an empty one."""
    for name in objectives:
        for allocator, tau in weak_families(verdict, allocators, name).items():
            yield f"{name} of {allocator} has tau {tau:.2f} ({LEAST_TAU:g} is needed)"
        for allocator, family in _families(verdict, name).items():
            if allocator in allocators and family.regret > MOST_REGRET:
                lost = family.regret
                yield f"{name} of {allocator} has regret {lost:.1%} ({MOST_REGRET:.0%} is allowed)"


def weak_families(
    verdict: Fidelity, allocators: Sequence[str], metric: str = GUARDED
) -> dict[str, float]:
    """Return the allocators whose metric the profile does not rank well, with their tau.

    Args:
        verdict: of the profile; by an empty one nothing is known to be weak.
        allocators: names of those to be tuned.
        metric: an objective; of one that was not judged nothing is known.
    """
    return {
        name: family.tau_differing
        for name, family in _families(verdict, metric).items()
        if name in allocators
        and family.tau_differing is not None
        and family.tau_differing < LEAST_TAU
    }


def caveat(workload: Trace) -> str | None:
    """Return the sentence that every output about a low-fidelity workload carries, else None."""
    if not workload.is_low_fidelity:
        return None
    return (
        f"low fidelity ({workload.level}): when the program allocated and freed is guessed, so "
        "peaks, means and ranks of memory may be far off; validate on the program"
    )


def gap_in(workload: Path, *, with_ends: bool = True) -> str | None:
    """Return the sentence on what a trace lacks of its program's run; None when it lacks nothing.

    Args:
        workload: the trace.
        with_ends: whether to say where start or end of the process is not known.

    Raises:
        TraceError: the trace cannot be read.
    """
    with Trace(workload, is_streamed=True) as opened:
        return _gap_in(opened, with_ends=with_ends)


def _gap_in(opened: Trace, *, with_ends: bool = True) -> str | None:
    if not opened.totals.is_complete:
        return f"{opened.path}: the file was cut off; what follows covers its readable part only"
    if opened.metadata.get("stopped"):
        why = opened.metadata["stopped"]
        return f"{opened.path}: recording stopped early: {why}; what follows covers no more of it"
    if with_ends and opened.totals.lacks and not opened.is_low_fidelity:
        return f"{opened.path}: {opened.totals.lacks}"
    return None


def beginning(opened: Trace) -> Beginning:
    """Return what is known of a workload whose events were not read."""
    totals = opened.totals
    is_known, is_fork = totals.end_ns is not None, opened.metadata.get("is_fork") is True
    return Beginning(totals.n_events, totals.n_threads, totals.life_ns, is_known, is_fork)


def recorded_facts(opened: Trace) -> dict[str, Any]:
    """Return what the record of a campaign says of its trace."""
    return {
        "n_events": opened.totals.n_events,
        "recorded_with": opened.metadata.get("allocator"),
        "program": _program(opened.metadata) if opened.totals.is_complete else (),
    }


def _program(metadata: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return what the recorded program used; nothing where the trace is but a part of it."""
    cpu_s, mean_bytes = _number(metadata, "cpu_s"), _number(metadata, "mean_anon_bytes")
    # An older recording has resident memory, files included.
    peak_bytes = _number(metadata, "peak_anon_bytes") or _number(metadata, "peak_rss_bytes")
    is_cut = metadata.get("is_cut") or metadata.get("stopped")
    # With blocks that lived before it begins a window; of a fork nothing is known anyway.
    is_part = is_cut or metadata.get("inherited_blocks") or metadata.get("thinned_from") is not None
    if not cpu_s or not peak_bytes or is_part:
        return ()
    known = ("cost", cpu_s * 1e9), ("peak_heap", float(peak_bytes))
    return (*known, ("mean_heap", float(mean_bytes))) if mean_bytes else known


def _number(metadata: Mapping[str, Any], name: str) -> float | None:
    """Return a number above 0 of the metadata, which people may edit; None if it is none."""
    value = metadata.get(name)
    return value if isinstance(value, int | float) and value > 0 else None


def notes_on(workload: Path) -> tuple[str, ...]:
    """Return what is to be known of a trace, a profile or records: a sentence each.

    Raises:
        TraceError: the workload cannot be read.
    """
    with Trace(workload, is_streamed=True) as opened:
        said, gap = caveat(opened), _gap_in(opened)
    return tuple(filter(None, [gap, said and f"{workload}: {said}"]))


def weak_shrunk(verdict: Fidelity, fidelity: float, objectives: Sequence[str]) -> list[str]:
    """Return the objectives that a shrunk profile does not rank as the whole one does.

    Args:
        verdict: of the whole profile; what was not measured is not known to be weak.
        fidelity: of the shrunk one.
        objectives: names.
    """
    shrunk = next((found for found in verdict.shrunk if found.fidelity == fidelity), None)
    return [
        name
        for name in objectives
        if shrunk
        and (found := shrunk.metrics.get(name))
        and found.tau is not None
        and found.tau < LEAST_SHRUNK_TAU
    ]


def resolution_of(verdict: Fidelity) -> dict[str, float]:
    """Return the relative difference of each metric that is noise; those that are known."""
    return {
        name: found.resolution
        for name, found in verdict.metrics.items()
        if found and found.resolution is not None
    }


def summary(verdict: Fidelity) -> str:
    """Return one line on the verdict of a profile."""
    if not verdict.metrics:
        return "its fidelity is unknown; `malloc-tuner fidelity` measures it"
    parts = []
    for name in ("peak_heap", "mean_heap"):
        found = verdict.metrics.get(name)
        if found:
            shares = (found.median_error or 0.0, found.p90_error or 0.0, found.seed_spread)
            median, p90, seeds = (f"{100 * share:.1f} %" for share in shares)
            parts.append(f"{name} off by {median} (p90 {p90}, seeds {seeds})")
    steps = resolution_of(verdict)
    text = f"{'; '.join(parts)} over {verdict.configurations} configurations"
    if steps:
        shown = ", ".join(f"{name} {100 * step:.2f} %" for name, step in steps.items())
        text += f"; differences below its noise do not count: {shown}"
    return text


def _families(verdict: Fidelity, metric: str) -> Mapping[str, FamilyFidelity]:
    found = verdict.metrics.get(metric)
    return found.families if found else {}


def _trace_beside(profile: Path, members: Mapping[str, Any]) -> Path | None:
    """Return the trace in the profile's folder that the profile was fitted to, if it is there."""
    source = members.get("source") or {}
    known = source.get("trace") or {}
    if source.get("varied"):  # its workload is no longer the trace's
        return None
    name = known.get("name")
    if not isinstance(name, str) or not name or Path(name).name != name:
        return None
    path = profile.parent / name
    if not path.is_file() or workload_sha256(path) != known.get("sha256"):
        return None
    return path
