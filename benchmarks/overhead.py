"""Share of a campaign's CPU time that is not measured replays.

Runs ``malloc-tuner tune`` on the demo's campaign, with few evaluations and with many, once a round,
and on other shipped campaigns, whose workloads take longer to replay, for comparison.  The CPU time
of every child is accounted by what it was: a replay of the trace is what a campaign is for,
everything else is overhead: Python itself, search, store, progress, looking for libraries and
instruments, reading settings back.  Calibration is shown and not counted: its draws are kept, and
campaigns of the same day share them.  The package is compiled first, as pip compiles what it
installs.
"""

import compileall
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

import tuner
from benchmarks.accounting import CALIBRATION, REPLAYS, tuned
from benchmarks.harness import Benchmark, Call, Target, percent, table
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, failed, failures, run_rounds, spread
from benchmarks.sources import EMULATOR, SEARCH
from tuner.resources import configs_dir
from tuner.stats import median_estimate

CAMPAIGNS: Final = {
    "demo": ("demo", 60),
    "demo-300": ("demo", 300),
    **{name: (name, 60) for name in ("server", "compiler", "document", "threads")},
}
"""Campaign and evaluations of each part."""
_JUDGED: Final = ("demo", "demo-300")
"""Parts that have a target; the others show how the share depends on the workload."""
MOST_SHARE: Final = 0.05
_SMOKE_EVALUATIONS: Final = 8


def measure(call: Call) -> None:
    """Run each campaign once a round, each in a folder that is thrown away."""
    compileall.compile_dir(Path(tuner.__file__).parent, quiet=1)
    for part in call.choose(list(CAMPAIGNS), ["demo"]):
        campaign, usual = CAMPAIGNS[part]
        evaluations = _SMOKE_EVALUATIONS if call.is_smoke else usual

        def run(
            _task: str, _subject: str, campaign: str = campaign, evaluations: int = evaluations
        ) -> Figures:
            return _accounts(campaign, evaluations)

        rows = run_rounds(call, part, ["tune"], [part], run, same=evaluations)
        call.keep(part, rows, rounds=call.rounds)


def _accounts(campaign: str, evaluations: int) -> Figures:
    """Return where the CPU time of a shipped campaign went."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "accounts.json"
        words = [configs_dir() / "campaigns" / f"{campaign}.toml", "--output", Path(folder) / "run"]
        words += ["--evaluations", evaluations, "--quiet"]
        if status := tuned(result, words):
            return failed(f"tune: exit status {status}")
        return Figures.succeeded(json.loads(result.read_text(encoding="utf-8")))


def share_of(cpu_s: Mapping[str, float]) -> float:
    """Return the share of a campaign's CPU time that is not measured replays."""
    counted = {kind: used_s for kind, used_s in cpu_s.items() if kind != CALIBRATION}
    return 1.0 - counted.get(REPLAYS, 0.0) / sum(counted.values())


def lines(parts: Parts) -> Iterator[str]:
    """Yield where the CPU time of the last campaign of each part went."""
    for part, rows in _measured(parts):
        campaign, evaluations = CAMPAIGNS[part]
        shares = list(map(share_of, column(rows, "cpu_s")))
        share = percent(median(shares)) if shares else "nothing"
        yield f"{campaign}, {evaluations} evaluations, {share} of it no replay:"
        yield ""
        for cpu_s, children in list(
            zip(*(column(rows, n) for n in ("cpu_s", "n_children")), strict=True)
        )[-1:]:
            yield from table(["CPU time", "runs", "s", "share"], _cells(cpu_s, children))
        yield from failures(rows)
        yield ""


def _measured(parts: Parts) -> Iterator[tuple[str, list[Row]]]:
    return ((part, parts[part]) for part in CAMPAIGNS if part in parts)


def _cells(cpu_s: Mapping[str, float], children: Mapping[str, Any]) -> Iterator[list[str]]:
    total_s = sum(cpu_s.values())
    for name, used_s in sorted(cpu_s.items(), key=lambda item: -item[1]):
        yield [name, str(children.get(name, 1)), f"{used_s:.2f}", percent(used_s / total_s, 2)]


def targets(parts: Parts) -> Iterator[Target]:
    """Yield the median share of all rounds of each part."""
    for part, rows in _measured(parts):
        found = median_estimate(list(map(share_of, column(rows, "cpu_s"))))
        if part in _JUDGED and found:
            what = f"share that is no replay at {CAMPAIGNS[part][1]} evaluations"
            yield Target(what, found.median, MOST_SHARE, form=".1%", interval=spread(found))


BENCHMARK: Final = Benchmark(
    name="overhead",
    about=__doc__,
    claim="At most 5 % of a campaign's CPU time is anything but measured replays, calibration "
    "apart.",
    depends_on=(*EMULATOR, *SEARCH, "tuner/store", "tuner/cli", "tuner/allocators"),
    measure=measure,
    needs=list(CAMPAIGNS),
    lines=lines,
    targets=targets,
    rounds=3,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
