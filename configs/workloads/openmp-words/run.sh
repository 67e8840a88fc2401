#!/bin/sh
# OpenMP: four threads count the words of chunks in tables of their own; a task for each pair of
# tables merges and frees them, on whatever thread is idle.  Needs gcc; the program is
# compiled without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-openmp-words"
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    gcc -O2 -fopenmp words.c -o "$made"
) || exit 1
OMP_NUM_THREADS=4 exec "$made" "${1:-24}"
