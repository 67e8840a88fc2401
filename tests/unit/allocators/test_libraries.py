"""Libraries as the loader knows them."""

from pathlib import Path

from tuner.allocators.libraries import parse_ldconfig


def test_the_cache_of_the_loader_lists_64_bit_libraries():
    lines = [
        "2 libs found in cache `/etc/ld.so.cache'",
        "\tlibjemalloc.so.2 (libc6) => /lib/i386-linux-gnu/libjemalloc.so.2",
        "\tlibjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2",
        "\tlibother.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libother.so.2",
    ]
    expected = [Path("/lib/x86_64-linux-gnu/libjemalloc.so.2")]
    assert expected == list(parse_ldconfig(lines, "libjemalloc.so.2"))
