"""What every end-to-end test shares."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cold_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Touch no gigabyte before what is timed: no test looks at how fast a program was."""
    monkeypatch.setattr("tuner.measure.warm.warm_memory", lambda: None)
