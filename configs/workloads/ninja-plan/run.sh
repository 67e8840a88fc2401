#!/bin/sh
# Build tool: ninja reads a tree of several thousand targets and plans to build it all.
# Needs ninja and awk; the tree is written without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-ninja"
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    rm -rf "$made" && mkdir -p "$made" && awk -f tree.awk > "$made/build.ninja"
) || exit 1
exec ninja -C "$made" -n -v
