#!/bin/sh
# Simulator: gem5 runs a simulation that campaigns tune on, by its name in gem5-validate/suite.toml.
# Needs gem5, named by GEM5, gcc and make.
#
# The traces are of gem5 24.0.0.1 (X86, gem5.fast without tcmalloc) under glibc 2.36, recorded as
#
#   malloc-tuner record -o long.trace -- configs/workloads/gem5-suite/simulate.sh tree-o3
#   malloc-tuner trace thin long.trace -o tree-o3.trace --middle 60000 --first 30000 --last 5000 \
#       --set-up 0.43s --pace 1.48
#
# --set-up is elapsed_s.set_up of the recorded run's result.json, --pace its elapsed_s.simulation
# over that of a run without the recorder: sort-timing 0.35s 1.39, text-minor 0.44s 1.34,
# traffic-random 0.6s 2.49.  The long traces have 30 to 100 MB and are not kept.
set -e
home=$(cd "$(dirname "$0")/../../.." && pwd)/gem5-validate
away=${TMPDIR:-/tmp}/gem5-suite
case "$1" in
    tree-o3) machine=o3 guest=tree scale=700 ;;
    sort-timing) machine=timing guest=sort scale=6000 ;;
    text-minor) machine=minor guest=text scale=300 ;;
    traffic-random) machine=traffic-random guest= ;;
    *) echo "simulate.sh: '$1': not one of tree-o3 sort-timing text-minor traffic-random" >&2; exit 2 ;;
esac
make -s -C "$home/guests" OUT="$away/guests"
exec "${GEM5:?names no gem5}" -d "$away/out" "$home/run.py" --machine "$home/machines/$machine.json" \
    ${guest:+--guest "$away/guests/$guest" -- $scale}
