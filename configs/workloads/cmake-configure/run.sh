#!/bin/sh
# Build tool: CMake configures the allocator of this repository, compiler checks included.
# Needs cmake, ninja and a C compiler.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-cmake"
rm -rf "$made"
exec cmake -G Ninja -S "${1:-../../../allocator}" -B "$made"
