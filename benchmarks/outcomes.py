"""What this project claims of its figures, and what the last results say to each claim.

One row for each results file.  An outcome is worked out from the file alone; a claim with a
target says whether it was reached, and how far off it is where it was not.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import (
    calibration,
    campaigns,
    false_alarms,
    fidelity,
    fidelity_tables,
    gem5_case_judgements,
    gem5_inside,
    generator,
    heap_curves,
    mimalloc_bench,
    overhead,
    presets,
    record,
    screening,
    touching,
)
from benchmarks.allocator_tables import Judgement, judge_all, medians, subjects_of
from benchmarks.provenance import (
    changes_since,
    provenance_lines,
    results_path,
    rounds_in_words,
    stamps_of,
)
from tuner.validate.inside import InsideJournal
from tuner.validate.inside_summary import summarize_inside

Results = Mapping[str, Any]

NOT_KEPT: Final = "not kept yet"


@dataclass(frozen=True)
class Claim:
    """One claim and where its figures are."""

    name: str
    """Of the results file and of the benchmark."""
    words: str
    """Markdown."""
    outcome: Callable[[Results], str]
    """What the results say."""

    @property
    def text(self) -> str:
        """What the last results say, or that there are none."""
        path = results_path(self.name)
        if not path.exists():
            return NOT_KEPT
        is_lines = path.suffix == ".jsonl"
        return self.outcome({} if is_lines else json.loads(path.read_text(encoding="utf-8")))


def table_lines() -> list[str]:
    """Return the table of all claims as Markdown."""
    head = ["| What is claimed | Outcome of the last full run | Measured at | Command |"]
    rows = [
        f"| {c.words} | {c.text} | {_commits(c.name)} | `benchmarks/{c.name}.py` |" for c in CLAIMS
    ]
    return [*head, "|---|---|---|---|", *rows]


def block_lines(name: str) -> list[str]:
    """Return what a page that shows figures says about where they come from."""
    stamps = stamps_of(results_path(name))
    lines = provenance_lines(stamps)
    pairs = zip(lines, stamps, strict=True)
    return [f"- {line}{age_words(changes_since(name, stamp))}" for line, stamp in pairs]


def age_words(changed: Sequence[str] | None) -> str:
    """Return what makes results old, for a page: nothing where they are not, or nobody can tell."""
    parts = dict.fromkeys(place.partition("/")[0] for place in changed or ())
    return f"; **older than {', '.join(parts)} of this tree**" if parts else ""


def without_age(text: str) -> str:
    """Return a page's text without what `age_words` added when it was written.

    That changes with the tree; the rest only with the results.
    """
    return re.sub(r"; \*\*older than [^*]* of this tree\*\*", "", text)


def _commits(name: str) -> str:
    """Return the commits of a results file, and what is newer than they are."""
    stamps = stamps_of(results_path(name))
    if not stamps:
        return "-"
    commits = dict.fromkeys((one["commit"] or "unknown commit")[:14] for one in stamps)
    shown = [one if one.startswith("unknown") else one[:7] for one in commits]
    words = shown[0] if len(shown) == 1 else f"{len(shown)} commits: {', '.join(shown)}"
    changed = [place for one in stamps for place in changes_since(name, one) or ()]
    return words + age_words(changed)


def _met(verdicts: Iterable[bool]) -> str:
    """Return how many targets were reached, those missed first."""
    found = list(verdicts)
    n_met = sum(found)
    text = f"{n_met} of {len(found)} targets reached"
    return f"**missed**: {text}" if n_met < len(found) else text


def _judged(judgements: Iterable[Judgement]) -> str:
    return _met(judgement.is_met for judgement in judgements)


def _record(results: Results) -> str:
    figures, lost = results["figures"], results["lost_events"]
    shares = [row["added_share"][0] for row in figures if row["added_share"]]
    most = max(row["bytes_per_event"] for row in figures)
    n_lost = sum(counts["lost"] for counts in lost.values())
    words = "reached" if not record.missed_targets(figures, lost) else "**missed**"
    shown = f"{max(shares):.2f}" if shares else "not measurable"
    told = record.command_share(figures)
    whole = f"; whole command: {told or 'not measured yet'}"
    return (
        f"{words}: at most {shown} of heaptrack's time in {len(shares)} of {len(figures)} "
        f"programs (in the others that is within the noise){whole}; {most:.1f} bytes; "
        f"{n_lost} lost"
    )


def _overhead(results: Results) -> str:
    share = statistics.median(map(overhead.share_of, results["samples"]))
    return f"{'reached' if share <= overhead.TARGET else '**missed**'}: {share:.1%}"


def _campaigns(results: Results) -> str:
    rows = results["campaigns"]
    n_met = sum(any(point["succeeds"] for point in row["points"]) for row in rows)
    allocators = {name for row in rows for name in row["allocators"]}
    without = "" if "exgen" in allocators else "; without exgen, which is younger"
    words = "reached" if n_met >= campaigns.TARGET else "**missed**"
    return f"{words}: {n_met} of {len(rows)} campaigns gain memory and work{without}"


def _calibration(results: Results) -> str:
    change = calibration.change(results["draws"], "c_fault")
    words = "reached" if abs(change) <= calibration.TARGET else "**missed**"
    return f"{words}: {change:+.1%}"


def _search(results: Results) -> str:
    samples = results["samples"]
    last = list(samples[0]["scores"])[-1]
    by_title: dict[str, list[float]] = {}
    for sample in samples:
        by_title.setdefault(sample["strategy"], []).append(sample["scores"][last])
    best = max(by_title, key=lambda title: statistics.median(by_title[title]))
    median = statistics.median(by_title[best])
    return f"{best}: {median:.1f} % of the best hypervolume after {last} evaluations"


def _fidelity(results: Results) -> str:
    targets = fidelity_tables.targets(list(fidelity_tables.judged(results, fidelity.FITTED)))
    return _met("MISSED" not in line for line in targets)


def _touching(results: Results) -> str:
    shown = [known for known in results["programs"].values() if touching.is_comparable(known)]
    found = []
    for figure in touching.FIGURES:
        told = [touching.median_error(shown, figure, touch) for touch in touching.TOUCHES]
        found.append(f"{figure} heap: error {told[0]:.1%} → {told[1]:.1%}")
    return "; ".join(found)


def _heap_curves(results: Results) -> str:
    found = heap_curves.judgements(results["programs"].values())
    is_met = all(value <= most for _, value, most in found)
    text = ", ".join(f"{name} {value:.1%}" for name, value, _ in found)
    return f"{'reached' if is_met else '**missed**'}: {text}"


def _generator(results: Results) -> str:
    ratios = {runs: generator.mean_ratio(results, runs) for runs in generator.RUNS}
    text = ", ".join(f"{generator.RUNS[runs][0]} {ratio:.2f}" for runs, ratio in ratios.items())
    is_met = all(ratio <= generator.TARGET for ratio in ratios.values())
    return f"{'reached' if is_met else '**missed**'}: {text} times as much"


def _screening(results: Results) -> str:
    gains = []
    for found in results["workloads"].values():
        by_arm = screening.scores(found)
        gains.append(float(statistics.median(by_arm[True][:, -1] - by_arm[False][:, -1])))
    shown = ", ".join(f"{gain:+.1f}" for gain in gains)
    return f"nothing on {', '.join(results['workloads'])}: {shown} points of hypervolume"


def _allocators(results: Results) -> str:
    parts = results["parts"]
    return _judged(judge_all(parts, subjects_of(parts)))


def _mimalloc_bench(results: Results) -> str:
    samples = results["samples"]
    times, peaks = medians(samples, "time_s"), medians(samples, "peak_rss_bytes")
    labels = [s["label"] for s in results["subjects"] if s["label"] != mimalloc_bench.OURS]
    shared = {label: mimalloc_bench.shared_ratios(times, peaks, label) for label in labels}
    faster = sum(pair[0] < 1 for pair in shared.values())
    leaner = sum(pair[1] < 1 for pair in shared.values())
    return (
        f"{rounds_in_words(len({s['round'] for s in samples}))}: of {len(labels)} allocators "
        f"{faster} need less time than exgen and {leaner} less memory, as geometric means"
    )


def _stress(results: Results) -> str:
    n_runs = sum(sample["n_runs"] for sample in results["samples"])
    n_failed = sum(sample["failed_seed"] is not None for sample in results["samples"])
    return f"{n_runs} runs, {n_failed} failed"


def _gem5_case(results: Results) -> str:
    return _met(judgement.is_met for judgement in gem5_case_judgements.judgements(results))


def _gem5_inside(results: Results) -> str:
    del results  # a journal, read by its own class
    summary = summarize_inside(InsideJournal(gem5_inside.RESULTS))
    return NOT_KEPT if summary is None else _judged(gem5_inside.judge(summary))


def _false_alarms(results: Results) -> str:
    cells = false_alarms.cells_of(results)
    words = "**missed**" if false_alarms.are_too_many(cells) else "reached"
    n_false, n_all = sum(c.n_false for c in cells), sum(c.n_validations for c in cells)
    return f"{words}: {n_false / n_all:.1%} of {n_all:,} validations without any difference"


def _presets(results: Results) -> str:
    worst = presets.worst_distance(results)
    words = "reached" if worst <= presets.TARGET else "**missed**"
    return f"{words}: {worst:.1%}"


CLAIMS: Final = (
    Claim(
        "record",
        "Recording adds to the program at most a third of the time that heaptrack adds, takes at "
        "most 4 bytes an event, and loses none.",
        _record,
    ),
    Claim(
        "overhead",
        "At most 5 % of a campaign's CPU time is anything but measured replays.",
        _overhead,
    ),
    Claim(
        "campaigns",
        "At least two of the shipped campaigns find a setting that gains memory and work on the "
        "real program.",
        _campaigns,
    ),
    Claim(
        "calibration",
        "The price of a page fault is within 10 % with two busy loops beside its calibration.",
        _calibration,
    ),
    Claim("search", "How fast each search strategy reaches the front.", _search),
    Claim(
        "fidelity",
        "[Profiles](docs/how-to/profiles.md#how-good-they-are) stand for the traces of 39 "
        "programs, beside naive models.",
        _fidelity,
    ),
    Claim(
        "touching",
        "An emulation that leaves [untouched pages](docs/how-to/profiles.md#what-is-touched) "
        "untouched is nearer to the program.",
        _touching,
    ),
    Claim(
        "heap_curves",
        "The emulated [mean heap](docs/decisions/measuring.md#the-real-mean-heap) of small "
        "programs of known heap errs by at most 5 % in the median and 15 % at the most.",
        _heap_curves,
    ),
    Claim(
        "false_alarms",
        "At most 5 % of validations show a difference where there is none.",
        _false_alarms,
    ),
    Claim(
        "generator",
        "Generating events from a profile costs no more than decoding a trace.",
        _generator,
    ),
    Claim(
        "screening",
        "What screening on shrunk profiles gains in a campaign of the same cost.",
        _screening,
    ),
    Claim(
        "allocators",
        "exgen needs no more than glibc, mimalloc, jemalloc, tcmalloc and others: time, memory, "
        "cache misses, threads.",
        _allocators,
    ),
    Claim(
        "mimalloc_bench",
        "exgen and others on the programs of mimalloc-bench, which is not shipped: time and peak "
        "memory.",
        _mimalloc_bench,
    ),
    Claim("stress", "An hour of random operations on exgen, with its checks on.", _stress),
    Claim(
        "gem5_case",
        "What tuning the malloc of gem5 brings, per allocator, on simulations no campaign has "
        "seen: [case study](docs/case-study-gem5.md).",
        _gem5_case,
    ),
    Claim(
        "gem5_inside",
        "exgen has no more cache misses and cycles than others inside simulated machines.",
        _gem5_inside,
    ),
    Claim(
        "presets",
        "exgen's default is at most 10 % from the best settings found for each of five workloads.",
        _presets,
    ),
)
"""In the order of README's table."""
