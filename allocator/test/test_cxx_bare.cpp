// test_cxx_bare.cpp - new throws in a program that uses nothing else of the C++ library.
//
// Linked statically, nothing but exgen asks for what throws bad_alloc.
#include <cstddef>
#include <cstdint>
#include <new>

#include "test.h"

static volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;

int main() {
    bool caught = false;
    try {
        void *volatile p = ::operator new(too_large);
        (void)p;
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    EXPECT(caught);
    return test_passed();
}
