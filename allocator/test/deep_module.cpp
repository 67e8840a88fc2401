// deep_module.cpp - a library that is loaded with RTLD_DEEPBIND; see test_deepbind.c.
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

extern "C" {
void *malloc_here() {
    return reinterpret_cast<void *>(&std::malloc);
}

char *copy_here(const char *string) {
    return strdup(string);
}

void free_here(void *block) {
    std::free(block);
}

void *new_here() {
    return ::operator new(40);
}

void delete_here(void *block) {
    ::operator delete(block);
}

void *open_here(const char *file, int mode) {
    void *volatile handle = dlopen(file, mode); // so not by a jump
    return handle;
}
}
