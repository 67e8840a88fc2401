"""A campaign of four trials whose front, defaults and gains are plain to see."""

from dataclasses import replace

from tests.doubles.runs import MIB, campaign_record, synthetic_run, trial
from tuner.front.dominance import reference_point
from tuner.records import Configuration, Trial
from tuner.runs import Run


def run_of(*trials: Trial, names: tuple[str, ...] = ("mean_heap", "cost")) -> Run:
    record = campaign_record(("glibc", "jemalloc"), names, len(trials))
    defaults = [one for one in trials if one.configuration.is_default]
    record = replace(record, reference=reference_point(defaults))
    return replace(synthetic_run(n_trials=4), campaign=record, trials=trials, rechecks=())


def tried(number: int, heap_mib: float, cost: float, **settings: int) -> Trial:
    return trial(number, Configuration.of("glibc", settings), heap_mib * MIB, cost)


BASELINE = tried(0, 100.0, 1e8)
BETTER = tried(1, 80.0, 0.9e8, mxfast=0)
DOMINATED = tried(2, 120.0, 1.2e8, mxfast=32)
SMALL = tried(3, 50.0, 2e8, mxfast=0, top_pad=0)
RUN = run_of(BASELINE, BETTER, DOMINATED, SMALL)
