/* thread.h - which heap a thread has, from its first allocation to its end. */
#ifndef EXGEN_THREAD_H
#define EXGEN_THREAD_H

#include "heap/heap.h"
#include "thread/registry.h"

/* Give the calling thread a heap, and start the allocator if this is the
 * process's first call.  NULL if out of memory.  In the single-threaded
 * library a second thread ends the program here. */
struct heap *thread_attach(void);

/* The same; `wanted` if no thread has it. */
struct heap *thread_attach_to(struct heap *wanted);

/* End the program, of which a second thread called the single-threaded library. */
COLD __attribute__((noreturn)) void thread_end_second(void);

/* For what the single-threaded library lets only the thread do that has the heap. */
ALWAYS_INLINE void thread_expect_only(void) {
    if (!THREADS && unlikely(local.heap == NULL) && registry_count() > 0)
        thread_end_second();
}

/* For after each call of a thread that got a heap in it: one whose end was seen leaves it at once.
 */
void thread_end_again(void);

/* Start the allocator without giving the caller a heap.  False if out of memory. */
bool allocator_start(void);

/* Move one superblock of an ended thread to `heap`.  False if there is none, or
 * the settings forbid it. */
bool thread_adopt(struct heap *heap);

/* Whether there are heaps with the lists of ended threads, which are to be looked at. */
bool thread_has_parked(void);

/* Put the blocks of these lists back into their slabs. */
void thread_return_parked(void);

/* Free what was sent to up to `n` heaps without a thread, of each a bounded number of blocks, and
 * purge them if it is time.  True if there may be more.  Waits for no lock, and leaves nothing, if
 * `n` is SIZE_MAX; with `now_ms` UINT64_MAX all that is free goes back to the system. */
bool thread_collect(uint64_t now_ms, size_t n);

/* Give back what heaps hold that nobody is at: of threads that rest, of threads that ended, of the
 * process.  For a thread without a heap. */
bool thread_look_at_all(void);

/* Start the thread that does so again and again, if the setting asks for it and it does not run.
 * Allocates. */
COLD void thread_start_timer(void);

#endif
