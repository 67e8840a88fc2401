"""What several unit tests share."""

from pathlib import Path

import pytest


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign file; its trace is not there."""
    path = tmp_path / "demo.toml"
    path.write_text(
        'name = "demo"\ntrace = "demo.trace"\nallocators = ["glibc", "jemalloc"]\n'
        'evaluations = 200\nconstraints = ["peak_heap <= 2 GiB"]\n'
    )
    return path
