"""What tests of verdicts share."""

from pathlib import Path

import pytest

from tests.doubles.judged import write_mixed_profile


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_mixed_profile(tmp_path)
