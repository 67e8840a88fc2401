"""numpy starts no thread of its own in commands that search, and programs do not hear of it."""

import json
import os
import subprocess
import sys

PROGRAM = """
import json, os
from tuner.cli.numerics import import_numpy
import_numpy()
from threadpoolctl import threadpool_info
threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
print(json.dumps([threads, os.environ.get("OPENBLAS_NUM_THREADS")]))
"""


def imported(**variables: str) -> tuple[list[int], str | None]:
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"} | variables
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True
    )
    threads, seen = json.loads(done.stdout)
    return threads, seen


def test_linear_algebra_has_one_thread_and_children_do_not_see_the_variable():
    threads, seen = imported()
    assert set(threads) <= {1}
    assert seen is None


def test_what_the_user_has_set_stays():
    assert imported(OPENBLAS_NUM_THREADS="2")[1] == "2"
