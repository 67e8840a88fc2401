"""What the shipped campaigns find, and what the real programs make of it.

Runs each campaign of ``configs/campaigns`` and validates its picks on the program
the trace was recorded from.  A campaign succeeds when one of its points needs
less memory and less work than glibc's default in emulation, and both gains are
confirmed on the program.

    benchmarks/campaigns.py                      tune and validate all of them
    benchmarks/campaigns.py demo threads         only these
    benchmarks/campaigns.py --rounds 15
    benchmarks/campaigns.py --print              the table of the last results, nothing is run
    benchmarks/campaigns.py --smoke              a few evaluations, no judgement

Target: at least two campaigns succeed.  Exit status 1 when fewer do.  The runs stay in
``runs/campaigns/``, where `malloc-tuner report` finds them; raw samples of every round
go to ``benchmarks/results/campaigns.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.provenance import (
    installed,
    make_stamp,
    merge_stamps,
    provenance_lines,
    stamps_of,
    write_results,
)
from tuner.config import load_campaign
from tuner.resources import configs_dir
from tuner.runs import load_run
from tuner.store import ValidationSample
from tuner.validate.summary import SubjectSummary, summarize
from tuner.validate.verdicts import Claim, Verdict

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "campaigns.json"
SCHEMA: Final = "malloc-tuner.benchmark.campaigns"
TARGET: Final = 2
"""Campaigns with a point that is better in both objectives, on the real program too."""


def main() -> int:
    """Run what was asked for, print the table and return the exit status."""
    options = _parse(sys.argv[1:])
    if options.print:
        rows = json.loads(RESULTS.read_text())["campaigns"]
    elif options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            extra = ["--evaluations", "8", "--quiet"]
            rows = [_run("demo", Path(folder), rounds=1, tune_options=extra)]
    else:
        rows = [
            _run(name, ROOT / "runs" / "campaigns", options.rounds, ["--quiet"])
            for name in options.names or _all_names()
        ]
        _keep(rows)
    if not options.smoke:
        print("\n".join(provenance_lines(stamps_of(RESULTS))))
    _print_table(rows)
    n_successes = sum(any(point["succeeds"] for point in row["points"]) for row in rows)
    print(f"\n{n_successes} of {len(rows)} campaigns succeed; target: at least {TARGET}")
    return 0 if options.smoke or n_successes >= TARGET else 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tune and validate the shipped campaigns.")
    parser.add_argument("names", nargs="*", metavar="CAMPAIGN", help="default: all")
    parser.add_argument("--rounds", type=int, default=11, help="rounds on the program")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
    return parser.parse_args(arguments)


def _keep(rows: list[dict[str, Any]]) -> None:
    """Write the results; campaigns that were not run keep their last ones."""
    kept = json.loads(RESULTS.read_text())["campaigns"] if RESULTS.exists() else []
    merged = {row["campaign"]: row for row in [*kept, *rows]}
    stamps = stamps_of(RESULTS)
    for row in rows:
        stamp = make_stamp(
            "campaigns",
            sys.argv,
            of=[row["campaign"]],
            allocators=installed(row["allocators"]),
            rounds=row["rounds"],
        )
        stamps = merge_stamps(stamps, stamp)
    document = {"schema": SCHEMA, "version": 2, "provenance": stamps}
    write_results(RESULTS, {**document, "campaigns": list(merged.values())})


def _all_names() -> list[str]:
    names = sorted(path.stem for path in (configs_dir() / "campaigns").glob("*.toml"))
    return [name for name in names if not name.startswith("gem5-")]  # of gem5_case.py


def _run(name: str, runs: Path, rounds: int, tune_options: list[str]) -> dict[str, Any]:
    """Tune and validate one campaign; return what is kept of it."""
    file = configs_dir() / "campaigns" / f"{name}.toml"
    folder = runs / name
    program = load_campaign(file).trace.resolve().parent / "run.sh"
    _malloc_tuner("tune", file, "-o", folder, *tune_options)
    _malloc_tuner("validate", folder, "--rounds", rounds, "--", program)
    run = load_run(folder)
    summary = summarize(run, run.validations[-1])
    return {
        "campaign": name,
        "program": str(program.relative_to(configs_dir().resolve())),
        "evaluations": len(run.trials),
        "rounds": summary.n_rounds,
        "trace_sha256": run.campaign.trace_sha256,
        "allocators": {key: asdict(value) for key, value in run.campaign.allocators.items()},
        "notices": list(summary.notices),
        "points": [_point(subject) for subject in summary.subjects if not subject.is_baseline],
        "rankings": [asdict(ranking) for ranking in summary.rankings],
        "samples": [_sample(sample) for sample in run.validations[-1].samples],
    }


def _malloc_tuner(*words: object) -> None:
    command = [sys.executable, "-m", "tuner.cli.main", *map(str, words)]
    print("$ malloc-tuner", *words, file=sys.stderr)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def _point(subject: SubjectSummary) -> dict[str, Any]:
    """Return one validated configuration with its claims."""
    return {
        "label": subject.subject.label,
        "configuration": str(subject.subject.configuration),
        "is_pick": subject.subject.is_pick,
        "claims": [_claim(claim) for claim in subject.claims],
        "succeeds": len(subject.claims) > 1 and all(map(_is_confirmed_gain, subject.claims)),
    }


def _is_confirmed_gain(claim: Claim) -> bool:
    return claim.is_gain and claim.verdict is Verdict.CONFIRMED


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "objective": claim.objective,
        "metric": claim.metric,
        "claimed_ratio": claim.claimed_ratio,
        "expected_ratio": claim.expected_ratio,
        "real_ratio": None if claim.real_ratio is None else asdict(claim.real_ratio),
        "verdict": claim.verdict.value,
    }


def _sample(sample: ValidationSample) -> dict[str, Any]:
    fields = asdict(sample)
    fields.pop("curve", None)  # long, and in the run folder
    return {key: value for key, value in fields.items() if value is not None}


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print every pick: claimed change, change on the program with its interval, verdict."""
    for row in rows:
        print(f"\n{row['campaign']}: {row['program']}, {row['rounds']} rounds")
        for point in row["points"]:
            if not point["is_pick"]:
                continue
            mark = "better in all" if point["succeeds"] else ""
            print(f"  {point['label']:24} {point['configuration']}  {mark}")
            for claim in point["claims"]:
                print(f"    {claim['objective']:12} {_words(claim)}")
        for ranking in row["rankings"]:
            if ranking["allocator"] is None and ranking["tau"] is not None:
                print(f"  Kendall tau of {ranking['objective']}: {ranking['tau']:.2f}")


def _words(claim: dict[str, Any]) -> str:
    real = claim["real_ratio"]
    text = f"claimed {claim['claimed_ratio'] - 1:+7.1%}"
    if real is None:
        return text
    text += f", {claim['metric']} on the program {real['median'] - 1:+7.1%}"
    if real["interval"] is not None:
        text += f" [{real['interval']['low'] - 1:+.1%}, {real['interval']['high'] - 1:+.1%}]"
    return f"{text}: {claim['verdict']}"


if __name__ == "__main__":
    sys.exit(main())
