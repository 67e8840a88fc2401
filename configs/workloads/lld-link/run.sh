#!/bin/sh
# Linker: LLVM lld, which has threads, links a C++ program statically against the C and C++ libraries.
# Needs g++ and lld; the object is compiled first, without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-link"
prepare() (
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    mkdir -p "$made"
    g++ -O1 -g -std=c++17 -c ../cxx-compile/containers.cpp -o "$made/containers.o"
)
file() { g++ -print-file-name="$1"; }
[ -e "$made/containers.o" ] || prepare || exit 1
exec "${LINKER:-ld.lld}" -static -o "$made/linked" "$(file crt1.o)" "$(file crti.o)" \
    "$(file crtbeginT.o)" "$made/containers.o" "$(file libstdc++.a)" "$(file libm.a)" \
    --start-group "$(file libgcc.a)" "$(file libgcc_eh.a)" "$(file libc.a)" --end-group \
    "$(file crtend.o)" "$(file crtn.o)"
