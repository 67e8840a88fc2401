// recorder_subject_new.cc - all forms of operator new and delete, for test_record.py.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <unistd.h>

namespace {

struct alignas(64) Wide {
    char bytes[64];
};

template <typename T> T *keep(T *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

bool throws_bad_alloc(std::size_t size) {
    try {
        ::operator delete(keep(::operator new(size)));
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

} // namespace

int main() {
    const auto wide = std::align_val_t{64};
    std::free(keep(std::malloc(123457)));
    ::operator delete(keep(::operator new(11)));
    ::operator delete[](keep(::operator new[](12)));
    ::operator delete(keep(::operator new(13, std::nothrow)), std::nothrow);
    ::operator delete[](keep(::operator new[](14, std::nothrow)), std::nothrow);
    ::operator delete (keep(::operator new(15)), std::size_t{15});
    ::operator delete[](keep(::operator new[](16)), std::size_t{16});
    ::operator delete(keep(::operator new(64, wide)), wide);
    ::operator delete[](keep(::operator new[](128, wide)), wide);
    ::operator delete(keep(::operator new(192, wide, std::nothrow)), wide, std::nothrow);
    ::operator delete[](keep(::operator new[](256, wide, std::nothrow)), wide, std::nothrow);
    ::operator delete (keep(::operator new(320, wide)), std::size_t{320}, wide);
    ::operator delete[](keep(::operator new[](384, wide)), std::size_t{384}, wide);
    std::free(keep(std::malloc(123458)));
    if (!throws_bad_alloc(SIZE_MAX / 2) || keep(::operator new(SIZE_MAX / 2, std::nothrow)))
        return 1;
    delete keep(new Wide);
    _exit(0);
}
