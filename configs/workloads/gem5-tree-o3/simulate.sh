#!/bin/sh
# Simulator: gem5 runs a guest on an out-of-order core.  Needs gem5, named by GEM5, gcc and make.
#
# The trace is of gem5 24.0.0.1 (X86, gem5.fast without tcmalloc) under glibc 2.36, recorded as
#
#   malloc-tuner record -o long.trace -- configs/workloads/gem5-tree-o3/simulate.sh
#   malloc-tuner trace thin long.trace -o gem5-tree-o3.trace --middle 150000 --first 100000 --last 20000
# gem5-tree-o3-long is the same with the argument 6000.
set -e
home=$(cd "$(dirname "$0")/../../.." && pwd)/gem5-validate
away=${TMPDIR:-/tmp}/gem5-tree-o3
make -s -C "$home/guests" OUT="$away/guests"
exec "${GEM5:?names no gem5}" -d "$away/out" "$home/run.py" --machine "$home/machines/o3.json" \
    --guest "$away/guests/tree" -- "${1:-1500}"
