"""Gives a worker of Dask the name of another machine; see `Cluster.start_worker`."""

import os
import platform

if name := os.environ.get("TEST_MACHINE"):
    platform.node = lambda: str(name)
