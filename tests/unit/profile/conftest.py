"""What tests of profiles share."""

from pathlib import Path
from typing import Any

import pytest

from tests.doubles import fitted, varied
from tests.doubles.traces import write_mixed_trace
from tuner.profile.file import read_profile


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fit one program for all tests; each writes what it varies anew."""
    return varied.fitted(
        varied.write_server_trace(tmp_path_factory.mktemp("server") / "server.trace")
    )


@pytest.fixture
def profile(tmp_path: Path) -> dict[str, Any]:
    return read_profile(fitted.fitted(write_mixed_trace(tmp_path / "mixed.trace", 2, 500)))
