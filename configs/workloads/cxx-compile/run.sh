#!/bin/sh
# Compiler: GCC's C++ front and middle end, run without its driver so that the
# measured process is the compiler itself.  Needs g++.
cd "$(dirname "$0")" || exit 1
exec "$(g++ -print-prog-name=cc1plus)" -quiet -imultiarch "$(g++ -print-multiarch)" \
    -D_GNU_SOURCE -O1 -std=c++17 "${1:-containers.cpp}" -o -
