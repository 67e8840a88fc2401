// cxx_plugin.cpp - a library in C++ that a C program loads; see test_cxx_late.c.
#include <cstddef>
#include <cstdint>
#include <new>

static volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;
static int n_handler_calls;

static void giving_up_handler() {
    if (++n_handler_calls == 3)
        std::set_new_handler(nullptr);
}

// 1 if the handler was asked three times and then bad_alloc was thrown.
extern "C" int memory_runs_out() {
    std::set_new_handler(giving_up_handler);
    try {
        void *volatile block = ::operator new(too_large);
        (void)block;
    } catch (const std::bad_alloc &) {
        return n_handler_calls == 3;
    }
    return 0;
}
