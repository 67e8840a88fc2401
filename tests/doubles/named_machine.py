"""Gives a worker of Dask the name of another machine; see `Cluster.start_worker`."""

import os
import platform

platform.node = lambda: os.environ["TEST_MACHINE"]
