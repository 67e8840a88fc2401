"""What every Python test shares: a clean environment."""

from __future__ import annotations

import os

import pytest

ALLOCATOR_VARIABLES = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_CONF")
"""Settings of the developer's shell that would reach the measured programs."""

ALLOCATOR_PREFIXES = ("TCMALLOC_", "MIMALLOC_", "MALLOC_TUNER_")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove allocator settings and our own debugging variables from the environment."""
    for name in list(os.environ):
        if name in ALLOCATOR_VARIABLES or name.startswith(ALLOCATOR_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
