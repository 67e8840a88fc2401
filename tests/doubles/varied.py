"""A server's trace, its profile, and variations of it."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.doubles.traces import TraceMaker, load
from tuner.profile.file import write_profile
from tuner.profile.fit import FitOptions, fit
from tuner.profile.variation import Variation, vary
from tuner.trace.file import Events, Trace
from tuner.trace.lives import Lives, find_lives


def read(path: Path) -> tuple[Events, Lives]:
    events = load(path)
    return events, find_lives(events)


def fitted(trace: Path) -> Path:
    path = trace.with_suffix(".profile.json")
    with Trace(trace) as opened:
        write_profile(path, fit(opened, FitOptions(most_fixed=100)))
    return path


def varied(profile: Path, **changes: Any) -> tuple[Events, Lives]:
    path = profile.with_name("varied.json")
    write_profile(path, vary(profile, Variation(**changes)))
    return read(path)


def write_server_trace(path: Path, n_requests: int = 400) -> Path:
    """Write a program that fills a table, serves requests at a level heap, and empties it."""
    rng = np.random.default_rng(3)
    maker = TraceMaker()
    table = [maker.allocate(int(size)) for size in rng.integers(16, 3000, 600)]
    kept: list[int] = []
    for _ in range(n_requests):
        short = [maker.allocate(int(size)) for size in rng.integers(16, 500, 20)]
        kept.append(maker.allocate(200))
        for slot in short:
            maker.free(slot)
        if len(kept) > 60:
            maker.free(kept.pop(0))
    for slot in table + kept:
        maker.free(slot)
    return maker.write(path)
