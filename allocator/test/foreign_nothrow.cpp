/* foreign_nothrow.cpp - new with nothrow as another allocator would have it: blocks not of exgen.
 */
#include <new>

static char block[64];

void *operator new(std::size_t, const std::nothrow_t &) noexcept {
    return block;
}
