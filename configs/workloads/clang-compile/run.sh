#!/bin/sh
# Compiler: clang compiles one C++ translation unit to assembly, all in one process.
# Needs clang and g++'s headers.
cd "$(dirname "$0")" && exec clang++ -O0 -std=c++17 -S "${1:-../cxx-compile/containers.cpp}" -o -
