"""What probes and the loader print."""

from __future__ import annotations

from tuner.allocators.probe import Tunable, parse_tunables


def test_the_list_of_the_loader_is_read_in_hexadecimal_and_decimal() -> None:
    text = (
        "glibc.malloc.trim_threshold: 0xffffffffffffffff (min: 0x0, max: 0xffffffffffffffff)\n"
        "glibc.malloc.check: 0 (min: 0, max: 3)\nnoise\n"
    )
    assert parse_tunables(text) == {
        "glibc.malloc.trim_threshold": Tunable(2**64 - 1, 0, 2**64 - 1),
        "glibc.malloc.check": Tunable(0, 0, 3),
    }
