"""What tests of validations share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.runs import synthetic_run, write_run
from tuner.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    folder = write_run(synthetic_run(tmp_path / "run", n_trials=8))
    with Store.open(folder, writable=True) as store:
        yield store
