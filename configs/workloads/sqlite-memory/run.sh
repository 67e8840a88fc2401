#!/bin/sh
# In-memory database under load: sqlite3 fills, joins, updates and deletes.  Needs
# sqlite3 and awk; the statements are written without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-statements-$$.sql"
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk -v rows="${1:-4000}" -f statements.awk > "$made"
) || exit 1
exec 3< "$made" && rm "$made"
exec sqlite3 -batch :memory: < /dev/fd/3
