"""What the shipped campaigns find, and what the real programs make of it.

Runs each campaign of ``configs/campaigns`` and validates its picks on the program the trace was
recorded from.  A campaign succeeds when one of its points needs less memory and less work than
glibc's default in emulation, and both gains are confirmed on the program.  The runs stay in
``runs/campaigns/``, where `malloc-tuner report` finds them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from benchmarks.harness import Benchmark, Call, Target, installed, malloc_tuner, relative, table
from benchmarks.results import Parts
from benchmarks.sources import EMULATOR, EXGEN, SEARCH, VALIDATE
from tuner.config import load_campaign
from tuner.resources import configs_dir
from tuner.runs import load_run
from tuner.store import ValidationSample
from tuner.validate.summary import summarize
from tuner.validate.verdicts import Claim, SubjectSummary, Verdict

LEAST_SUCCESSES: Final = 2
_KEPT: Final = ("round", "position", "label", "status", "reason", "peak_rss_bytes",
                "peak_heap_bytes", "mean_heap_bytes", "faults", "user_ns", "system_ns", "cpu_ns",
                "wall_ns", "instructions")  # fmt: skip
"""Of a sample: what a claim can be about."""
_SMOKE: Final = ("--evaluations", "8")


def measure(call: Call) -> None:
    """Tune and validate every campaign but those of gem5_case.py."""
    names = sorted(path.stem for path in (configs_dir() / "campaigns").glob("*.toml"))
    names = [name for name in names if not name.startswith("gem5-")]
    for name in call.choose(names, ["demo"]):
        kept = _run(call, name)
        call.keep(name, kept, allocators=installed(kept["allocators"]), rounds=kept["rounds"])


def _run(call: Call, name: str) -> dict[str, Any]:
    """Tune and validate one campaign; return what is kept of it."""
    file = configs_dir() / "campaigns" / f"{name}.toml"
    folder = call.run_folder(name, name)
    program = load_campaign(file).trace.resolve().parent / "run.sh"
    malloc_tuner("tune", file, "-o", folder, "--quiet", *(_SMOKE if call.is_smoke else ()))
    malloc_tuner("validate", folder, "--rounds", call.rounds, "--", program)
    run = load_run(folder)
    summary = summarize(run, run.validations[-1])
    return {
        "program": str(program.relative_to(configs_dir().resolve())),
        "evaluations": len(run.trials),
        "rounds": summary.n_rounds,
        "trace_sha256": run.campaign.trace_sha256,
        "allocators": list(run.campaign.allocators),
        "points": [_point(subject) for subject in summary.subjects if not subject.is_baseline],
        "taus": {r.objective: r.tau for r in summary.rankings if r.allocator is None},
        "samples": [_sample(sample) for sample in run.validations[-1].samples],
    }


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
    outcome = sample.outcome
    values = asdict(outcome.values) if outcome.values else {}
    known = {**asdict(sample), "status": outcome.status, "reason": outcome.reason, **values}
    return {name: known[name] for name in _KEPT if known.get(name) is not None}


def lines(parts: Parts) -> Iterator[str]:
    """Yield every pick: claimed change, change on the program with its interval, verdict."""
    rows = []
    for name, campaign in parts.items():
        for point in campaign["points"]:
            if point["is_pick"]:
                known = [name, point["label"], point["configuration"]]
                rows += [[*known, *_cells(claim)] for claim in point["claims"]]
    yield from table(
        ["campaign", "pick", "settings", "objective", "claimed", "on the program", "verdict"], rows
    )
    yield ""
    for name, campaign in parts.items():
        taus = (f"{key} {tau:.2f}" for key, tau in campaign["taus"].items() if tau is not None)
        yield f"{name}: {campaign['rounds']} rounds; Kendall's tau: {', '.join(taus) or '-'}"


def _cells(claim: dict[str, Any]) -> list[str]:
    real = claim["real_ratio"]
    text = f"{claim['metric']} {relative(real['median'])}" if real else "-"
    if real and real["interval"] is not None:
        text += f" [{relative(real['interval']['low'])}, {relative(real['interval']['high'])}]"
    return [claim["objective"], relative(claim["claimed_ratio"]), text, claim["verdict"]]


def targets(parts: Parts) -> Iterator[Target]:
    """Yield how many campaigns have a point that is better in all objectives, confirmed."""
    n_met = sum(any(point["succeeds"] for point in one["points"]) for one in parts.values())
    what = f"campaigns that gain memory and work, of {len(parts)}"
    note = "" if any("exgen" in one["allocators"] for one in parts.values()) else "without exgen"
    yield Target(what, n_met, LEAST_SUCCESSES, at_least=True, note=note, form=".0f")


BENCHMARK: Final = Benchmark(
    name="campaigns",
    about=__doc__,
    claim="At least two of the shipped campaigns find a setting that gains memory and work on the "
    "real program.",
    depends_on=(
        *EXGEN,
        *EMULATOR,
        *SEARCH,
        *VALIDATE,
        "configs/allocators",
        "configs/campaigns",
    ),
    measure=measure,
    lines=lines,
    targets=targets,
    rounds=11,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
