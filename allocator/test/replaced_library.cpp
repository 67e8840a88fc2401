/* replaced_library.cpp - a library that replaces operator new(size_t) and operator delete(void *).
 */
#include "replaced_new.h"

long replaced_blocks();
long replaced_blocks() {
    return n_replaced;
}
