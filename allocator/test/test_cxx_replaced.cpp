/* test_cxx_replaced.cpp - in a program that replaces operator new(size_t) and operator delete(void
 * *), and nothing else, every form without an alignment leads there, wherever the replacement is.
 *
 * With REPLACED_IN_PROGRAM it is in this file, else in a library; replaced_blocks() counts there.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef REPLACED_IN_PROGRAM
#include "replaced_new.h"
static long replaced_blocks() {
    return n_replaced;
}
#else
long replaced_blocks();
#endif

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);          \
            std::_Exit(1);                                                                         \
        }                                                                                          \
    } while (0)

struct alignas(256) wide {
    char bytes[256];
};

/* The replacement counts `n_more` blocks for each form, or none where another library's come first.
 */
static void use_all_forms(long n_more) {
    long before = replaced_blocks();
    void *one = ::operator new(100);
    EXPECT(replaced_blocks() == before + n_more);
    void *many = ::operator new[](100);
    EXPECT(replaced_blocks() == before + 2 * n_more);
    void *quiet = ::operator new(100, std::nothrow);
    void *many_quiet = ::operator new[](100, std::nothrow);
    EXPECT(replaced_blocks() == before + 4 * n_more);
    ::operator delete (one, std::size_t{100});
    ::operator delete[](many, std::size_t{100});
    ::operator delete(quiet, std::nothrow);
    ::operator delete[](many_quiet, std::nothrow);
    EXPECT(replaced_blocks() == before);
    ::operator delete(::operator new[](50));
    ::operator delete[](::operator new(50));
    EXPECT(replaced_blocks() == before);
    delete new wide;
    delete[] new wide[3];
    EXPECT(replaced_blocks() == before);
}

int main(int, char **argv) {
    use_all_forms(std::strcmp(argv[1], "behind") != 0 ? 1 : 0);
    std::puts("passed");
    return 0;
}
