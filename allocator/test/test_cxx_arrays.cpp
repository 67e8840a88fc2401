// test_cxx_arrays.cpp - a program that replaces operator new[](size_t) and operator delete[](void
// *) only: the sized and nothrow forms for arrays lead to its own, the others stay ours.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "test.h"

static int n_blocks;

void *operator new[](std::size_t size) {
    void *block = std::malloc(size);
    if (block == nullptr)
        throw std::bad_alloc();
    n_blocks++;
    return block;
}

void operator delete[](void *block) noexcept {
    n_blocks--;
    std::free(block);
}

int main() {
    void *volatile p = ::operator new[](100);
    ::operator delete[](p, std::size_t{100});
    EXPECT(n_blocks == 0);
    p = ::operator new[](100, std::nothrow);
    EXPECT(n_blocks == 1);
    ::operator delete[](p, std::nothrow);
    EXPECT(n_blocks == 0);
    p = ::operator new(100);
    ::operator delete (p, std::size_t{100});
    EXPECT(n_blocks == 0);
    return test_passed();
}
