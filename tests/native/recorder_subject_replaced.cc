// recorder_subject_replaced.cc - a program whose own new and delete keep a header before a block.
//
// It replaces the two forms to which the others lead by the standard, for a block ("one") or for an
// array ("array"), and frees by the others: a block of another operator would be shifted.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

constexpr std::size_t HEADER = 32;

void *with_header(std::size_t size) {
    void *start = std::malloc(size + HEADER);
    if (!start)
        throw std::bad_alloc();
    return static_cast<char *>(start) + HEADER;
}

void without_header(void *block) {
    if (block)
        std::free(static_cast<char *>(block) - HEADER);
}

template <typename T> T *keep(T *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

} // namespace

#ifdef REPLACES_ARRAY
void *operator new[](std::size_t size) {
    return with_header(size);
}
void operator delete[](void *block) noexcept {
    without_header(block);
}
#else
void *operator new(std::size_t size) {
    return with_header(size);
}
void operator delete(void *block) noexcept {
    without_header(block);
}
void *operator new(std::size_t size, std::align_val_t) {
    return with_header(size);
}
void operator delete(void *block, std::align_val_t) noexcept {
    without_header(block);
}
#endif

int main() {
    const auto wide = std::align_val_t{64};
    ::operator delete (keep(::operator new(11)), std::size_t{11});
    ::operator delete(keep(::operator new(12, std::nothrow)));
    ::operator delete(keep(::operator new(13)), std::nothrow);
    ::operator delete[](keep(::operator new[](14)), std::size_t{14});
    ::operator delete[](keep(::operator new[](15, std::nothrow)));
    ::operator delete[](keep(::operator new[](16)), std::nothrow);
    ::operator delete (keep(::operator new(17, wide)), std::size_t{17}, wide);
    ::operator delete(keep(::operator new(18, wide, std::nothrow)), wide);
    ::operator delete(keep(::operator new(19, wide)), wide, std::nothrow);
    ::operator delete[](keep(::operator new[](20, wide)), std::size_t{20}, wide);
    ::operator delete[](keep(::operator new[](21, wide, std::nothrow)), wide);
    std::vector<int> some(1000);
    for (int &one : some)
        one = std::rand();
    std::stable_sort(some.begin(), some.end()); // takes a buffer with nothrow
    return std::is_sorted(some.begin(), some.end()) ? 0 : 1;
}
