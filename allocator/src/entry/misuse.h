/* misuse.h - the checks of check:true on pointers that a program hands back. */
#ifndef EXGEN_MISUSE_H
#define EXGEN_MISUSE_H

#include "memory/link.h"
#include "memory/size_class.h"

/* Whether `block`, of the calling thread's heap and without the mark of a free one, is a block of a
 * size class that is in use for certain; false: see misuse_check_free. */
ALWAYS_INLINE bool misuse_is_in_use(const struct slab *slab, const void *block) {
    size_t class = slab->class;
    size_t offset = (size_t)((const char *)block - slab->start);
    size_t bytes = slab->block_bytes;
    return class < CLASS_TRAY && offset < bytes * slab->carved &&
           size_class_number(classes.of[class].inverse, offset) * bytes == offset &&
           (slab->countdown >= 0 || slab->asleep > 0);
}

/* End the program unless `block` starts a block of `slab` that is in use; `is_own`: of the calling
 * thread's heap. */
void misuse_check_free(const struct slab *slab, const void *block, bool is_own);

#endif
