"""Which instrument the end-to-end tests count with on this machine."""

import functools

import pytest

from tuner.measure.instruments import find_instruments

COUNTING = ("qemu", "cachegrind")
"""Instruments that separate the allocator's instructions from the emulator's."""


@functools.cache
def _working() -> tuple[str, ...]:
    return tuple(found.name for found in find_instruments() if found.works)


def need_instrument(name: str) -> str:
    """Return the name; skip the test if that instrument does not work here."""
    if name not in _working():
        pytest.skip(f"{name} does not work here")
    return name


def counting_instrument() -> str:
    """Return the best instrument that counts the allocator's share; skip without one."""
    for name in COUNTING:
        if name in _working():
            return name
    pytest.skip("neither qemu with plugins nor valgrind is here")
