"""What every end-to-end test shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.runs import installed_run


@pytest.fixture(autouse=True)
def cold_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Touch no gigabyte before what is timed: no test looks at how fast a program was."""
    monkeypatch.setattr("tuner.measure.warm.warm_memory", lambda: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a finished campaign of glibc and jemalloc with invented numbers."""
    return installed_run(tmp_path / "run")
