#!/bin/sh
# Version control: git packs a repository with four threads, each looking for deltas in a
# part of it.  The pack is not kept: it differs with the turns that threads take.  Needs git
# and awk; the repository is made without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-git"
prepare() (
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    rm -rf "$made"
    git init -q --bare "$made" && awk -f history.awk | git -C "$made" fast-import --quiet --depth=0
)
prepare || exit 1
printf 'main\n' > "$made/asked"
exec git -C "$made" pack-objects --revs --no-reuse-delta --no-reuse-object --threads=4 \
    --window=20 --stdout -q < "$made/asked" > /dev/null 2>&1
