#!/bin/sh
# Simulator: gem5 runs one simulation, named by machine and guest: run.sh o3-tree.  GEM5 names
# gem5's program, built for X86; gem5-validate/README.md tells how.  Needs a C compiler and
# make; the guests are built without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-gem5"
suite=../../../gem5-validate
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    make -s -C "$suite/guests" OUT="$made"
) || exit 1
case "$1" in
    o3-tree) scale=15 ;;
    minor-text) scale=10 ;;
    timing-sort) scale=300 ;;
    server-hash) scale=1 ;;
    *) echo "run.sh: '$1': not one of o3-tree minor-text timing-sort server-hash" >&2; exit 2 ;;
esac
exec "${GEM5:?names the program gem5}" -d "$made/out" "$suite/run.py" \
    --machine "$suite/machines/${1%-*}.json" --guest "$made/${1#*-}" -- "${2:-$scale}"
