"""What every end-to-end test shares."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.cluster import Cluster
from tests.doubles.runs import installed_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a finished campaign of glibc and jemalloc with invented numbers."""
    return installed_run(tmp_path / "run")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a scheduler of Dask; workers are the tests' own."""
    folder = tmp_path / "dask"
    folder.mkdir()
    with Cluster(folder) as made:
        yield made
