"""The campaign of an optimisation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.optimize.emulation import campaign_spec


@pytest.mark.parametrize(
    ("program", "name"), [("/usr/bin/sort", "sort"), ("./my app.py", "my-app"), (None, "program")]
)
def test_it_is_named_after_the_program(tmp_path: Path, program: str | None, name: str) -> None:
    assert campaign_spec(tmp_path / "program.trace", ["glibc"], 1, 9, program).name == name
