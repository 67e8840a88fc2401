"""What emulating a profile costs beside replaying the trace it was fitted to.

Every shipped profile whose trace is at hand runs in pairs, the trace and then the profile, in
interleaved rounds, under the machine's allocator: until the plan of what is to be replayed is
there, the memory run alone, and both runs of an evaluation.  What counts is the processor time
of `rand_malloc` with all its children, as the median of the pairs' ratios with its interval;
waiting for a busy machine is not in it.  The first is what generating costs beside decoding;
in the others the replays differ too, as the model does from the trace: in faults, in turns of
threads, and in how often the heap is read, since events are spread evenly in time.

    benchmarks/generator.py                      all of them, 9 rounds
    benchmarks/generator.py --only NAME,...      only these
    benchmarks/generator.py --rounds 15 --traces FOLDER
    benchmarks/generator.py --print              the table of the last results
    benchmarks/generator.py --write-docs         write it into docs/how-to/profiles.md
    benchmarks/generator.py --smoke              a quick look that it still runs

Target: the geometric mean of all ratios at most 1; exit status 1 when it is missed.  Raw
samples go to ``benchmarks/results/generator.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.fidelity_tables import cells, write_between
from benchmarks.fidelity_traces import find_traces, shipped_profile
from benchmarks.measured import emulation_seconds
from benchmarks.provenance import make_stamp, provenance_lines, write_results
from tuner.measure.warm import warm_memory
from tuner.stats import ratio_estimate
from tuner.trace.file import Trace

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "generator.json"
SCHEMA: Final = "malloc-tuner.benchmark.generator"
TARGET: Final = 1.0
RUNS: Final = {
    "plan": ("until the plan is there", ("--save-plan", os.devnull)),
    "memory": ("memory alone", ("--runs", "memory")),
    "both": ("memory and instructions", ("--runs", "both")),
}
"""What `rand_malloc` does → in words, and its options."""

Samples = dict[str, dict[str, list[float]]]
"""Runs of `rand_malloc` → of the trace or of the profile → seconds, one per round."""


def measure(trace: Path, profile: Path, rounds: int) -> Samples:
    """Return the processor times of a trace and its profile, pair by pair."""
    found: Samples = {runs: {"trace": [], "profile": []} for runs in RUNS}
    for _ in range(rounds):
        for runs, pair in found.items():
            options = RUNS[runs][1]
            pair["trace"].append(emulation_seconds(trace, *options))
            pair["profile"].append(emulation_seconds(profile, *options))
    return found


def _row(name: str, one: Mapping[str, Any]) -> list[str]:
    row = [name, f"{one['events']:,}", str(one["threads"])]
    for runs in RUNS:
        pair = one["seconds"][runs]
        ratio = ratio_estimate(pair["profile"], pair["trace"])
        row += [f"{1000 * statistics.median(pair[which]):.0f} ms" for which in ("trace", "profile")]
        spread = ratio.interval if ratio else None
        row.append(f"{ratio.median:.2f}" if ratio else "-")
        row.append(f"{spread.low:.2f} ... {spread.high:.2f}" if spread else "-")
    return row


def _dearest_first(traces: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the traces by the ratio of a whole evaluation, the greatest first."""

    def ratio(item: tuple[str, Any]) -> float:
        pair = item[1]["seconds"]["both"]
        found = ratio_estimate(pair["profile"], pair["trace"])
        return -found.median if found else 0.0

    return sorted(traces.items(), key=ratio)


def mean_ratio(results: Mapping[str, Any], runs: str) -> float:
    """Return the geometric mean of the medians of all profiles."""
    pairs = [one["seconds"][runs] for one in results["traces"].values()]
    ratios = [ratio_estimate(pair["profile"], pair["trace"]) for pair in pairs]
    return statistics.geometric_mean(ratio.median for ratio in ratios if ratio)


def table(results: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table, and one for each target."""
    titles = ["trace", "events", "threads"]
    for _ in RUNS:
        titles += ["trace", "profile", "ratio", "from ... to"]
    lines = cells(titles, [_row(name, one) for name, one in _dearest_first(results["traces"])])
    lines.append("")
    for runs, (title, _) in RUNS.items():
        mean = mean_ratio(results, runs)
        verdict = "ok" if mean <= TARGET else "MISSED"
        lines.append(f"- {title}, the ratios' geometric mean: {mean:.3f}, "
                     f"target at most {TARGET:.2f}: {verdict}")  # fmt: skip
    return lines


def _measure_all(traces: Sequence[Path], rounds: int) -> dict[str, Any]:
    results: dict[str, Any] = {"schema": SCHEMA, "version": 2, "provenance": [], "traces": {}}
    for trace in traces:
        profile = shipped_profile(trace)
        if profile is None:
            continue
        print(trace.stem, file=sys.stderr, flush=True)
        with Trace(trace) as opened:
            events, threads = opened.totals.n_events, opened.totals.n_threads
        seconds = measure(trace, profile, rounds)
        results["traces"][trace.stem] = {"events": events, "threads": threads, "seconds": seconds}
    stamp = make_stamp("generator", sys.argv, of=results["traces"], rounds=rounds)
    return {**results, "provenance": [stamp]}


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        shipped = find_traces((), ["ghostscript-pages"])
        print("\n".join(table(_measure_all(shipped, 1))))
        return 0
    if options.only_prints or options.write_docs:
        if not RESULTS.exists():
            sys.exit(f"{RESULTS}: no results yet; run benchmarks/generator.py first")
        results = json.loads(RESULTS.read_text())
    else:
        only = [name for name in options.only.split(",") if name]
        warm_memory()
        results = _measure_all(find_traces(options.traces, only), options.rounds)
        write_results(RESULTS, results)
    lines = table(results)
    print("\n".join([*provenance_lines(results["provenance"]), *lines]))
    if options.write_docs:
        write_between(ROOT / "docs" / "how-to" / "profiles.md", "generator", lines)
    return 0 if all(mean_ratio(results, runs) <= TARGET for runs in RUNS) else 1


if __name__ == "__main__":
    sys.exit(main())
