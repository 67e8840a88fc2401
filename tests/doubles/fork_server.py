"""Processes of their own, forked from a server that has imported the slow modules once."""

import multiprocessing
from typing import Final

FORK_SERVER: Final = multiprocessing.get_context("forkserver")
"""There is one server, hence one list of what it imports."""

FORK_SERVER.set_forkserver_preload([
    "tests.end_to_end.test_resume",
    "tuner.search.auto",
    "tuner.search.optuna_search",
    "tests.doubles.cluster",
    "tuner.measure.remote",
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
])  # fmt: skip
