/* replaced_library.cpp - a library that replaces operator new(size_t) and operator delete(void *).
 */
#include "replaced_new.h"

long replaced_blocks();
long replaced_blocks() {
    return n_replaced;
}

/* For a program that loads it with a scope of its own. */
extern "C" void use_arrays() {
    delete[] new (std::nothrow) char[100];
    delete[] new char[100];
    delete static_cast<int *>(new int(1));
}
