#!/bin/sh
# Producer and consumers: pigz reads, four threads compress, one writes.  Needs pigz and awk;
# the input is written without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-pigz.txt"
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk 'BEGIN { srand(3); for (i = 0; i < 600000; i++) print i, int(rand() * 1e6), i % 77 }' > "$made"
) || exit 1
exec pigz -n -T -p 4 -b 64 -c "$made"
