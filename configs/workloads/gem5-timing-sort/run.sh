#!/bin/sh
# Simulator: gem5 sorts on an in-order core.  GEM5 names gem5's program, built for X86;
# gem5-validate/README.md has the build.  Needs a C compiler and make; the guest is built without
# the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-gem5"
suite=../../../gem5-validate
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    make -s -C "$suite/guests" OUT="$made"
) || exit 1
exec "${GEM5:?names the program gem5}" -d "$made/out" "$suite/run.py" \
    --machine "$suite/machines/timing.json" --guest "$made/sort" -- "${1:-300}"
