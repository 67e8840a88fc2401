// test_cxx.cpp - every form of new and delete comes from exgen and follows the C++ rules.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "exgen.h"
#include "test.h"

static volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;
static int n_handler_calls;

static void giving_up_handler() {
    if (++n_handler_calls == 3)
        std::set_new_handler(nullptr);
}

static std::size_t blocks_in_use() {
    struct exgen_stats stats;
    exgen_get_stats(&stats, sizeof stats);
    return stats.n_blocks + stats.n_large;
}

static void forms_allocate_and_release() {
    const std::size_t before = blocks_in_use();
    const std::align_val_t line{64};
    void *p[] = {::operator new(40),
                 ::operator new[](40),
                 ::operator new(40, std::nothrow),
                 ::operator new[](40, std::nothrow),
                 ::operator new(40, line),
                 ::operator new[](40, line),
                 ::operator new(40, line, std::nothrow),
                 ::operator new[](40, line, std::nothrow)};
    EXPECT(blocks_in_use() == before + 8);
    for (int i = 4; i < 8; i++)
        EXPECT(reinterpret_cast<std::uintptr_t>(p[i]) % 64 == 0);
    ::operator delete(p[0]);
    ::operator delete[](p[1], static_cast<std::size_t>(40));
    ::operator delete(p[2], std::nothrow);
    ::operator delete[](p[3], std::nothrow);
    ::operator delete(p[4], line);
    ::operator delete[](p[5], static_cast<std::size_t>(40), line);
    ::operator delete(p[6], line, std::nothrow);
    ::operator delete[](p[7], line, std::nothrow);
    EXPECT(blocks_in_use() == before);
}

static void failure_throws_or_returns_null() {
    bool caught = false;
    try {
        void *volatile p = ::operator new(too_large);
        (void)p;
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    EXPECT(caught);
    EXPECT(::operator new(too_large, std::nothrow) == nullptr);
}

static void new_handler_is_asked_until_it_gives_up() {
    std::set_new_handler(giving_up_handler);
    EXPECT(::operator new(too_large, std::nothrow) == nullptr);
    EXPECT(n_handler_calls == 3);
}

static void throwing_handler() {
    throw std::bad_alloc();
}

static void nothrow_forms_catch_what_the_handler_throws() {
    std::set_new_handler(throwing_handler);
    EXPECT(::operator new(too_large, std::nothrow) == nullptr);
    EXPECT(::operator new[](too_large, std::nothrow) == nullptr);
    EXPECT(::operator new (too_large, std::align_val_t{64}, std::nothrow) == nullptr);
    EXPECT(::operator new[](too_large, std::align_val_t{64}, std::nothrow) == nullptr);
    std::set_new_handler(nullptr);
}

static void containers_work() {
    std::vector<std::string> v;
    for (int i = 0; i < 10000; i++)
        v.push_back(std::string(static_cast<std::size_t>(i % 100), 'x') + std::to_string(i));
    EXPECT(v[9999].size() == 99 + 4);
}

int main() {
    forms_allocate_and_release();
    failure_throws_or_returns_null();
    new_handler_is_asked_until_it_gives_up();
    nothrow_forms_catch_what_the_handler_throws();
    containers_work();
    return test_passed();
}
