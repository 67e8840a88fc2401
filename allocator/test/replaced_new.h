/* replaced_new.h - operator new(size_t) and operator delete(void *) that only know each other's
 * blocks. */
#include <cstdlib>
#include <new>

static long n_replaced; /* blocks that the replacement has given out and not got back */

static const unsigned long replaced_magic = 0x1234567887654321;

void *operator new(std::size_t size) {
    unsigned long *head = static_cast<unsigned long *>(std::malloc(size + 16));
    if (head == nullptr)
        throw std::bad_alloc();
    head[0] = replaced_magic;
    n_replaced++;
    return head + 2;
}

void operator delete(void *block) noexcept {
    if (block == nullptr)
        return;
    unsigned long *head = static_cast<unsigned long *>(block) - 2;
    if (head[0] != replaced_magic)
        std::abort();
    n_replaced--;
    std::free(head);
}
