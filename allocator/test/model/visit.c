/* visit.c - model: a visitor is never on a heap while its own thread is, from before the heap has
 * that thread until after.
 *
 * What membarrier does to the owner, a fence in the place of the compiler's barrier stands for:
 * the two may only differ between two owners, who share nothing. */
#include "model.h"

#undef __atomic_signal_fence
#define __atomic_signal_fence __atomic_thread_fence
#include "heap/visit.c"

static struct heap heap;
static int units; /* of the heap, that its thread and visitors work on */

bool os_fence_threads(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

static void give_back(struct heap *visited) {
    assert(visited == &heap);
    units++;
}

static void work(void) {
    heap_enter(&heap);
    units++;
    heap_enter(&heap);
    heap_leave(&heap);
    units++;
    heap_leave(&heap);
}

static void work_at_kept(void) {
    if (heap_enter_kept(&heap)) {
        units++;
        heap_leave_kept(&heap);
    }
}

static void *own(void *argument) {
    units++;
    heap_set_occupied(&heap, true);
    work();
    work_at_kept();
    work_at_kept();
    heap_enter(&heap);
    heap_set_occupied(&heap, false);
    heap_leave(&heap);
    units++;
    return argument;
}

static void visit(void) {
    struct heap *const heaps[] = {&heap};
    bool is_locked = heap_visits_lock(true);
    assert(is_locked);
    heap_visit(heaps, 1, give_back);
    heap_visits_unlock();
}

static void *visit_twice(void *argument) {
    visit();
    visit();
    return argument;
}

int main(void) {
    run_two(own, visit_twice);
    return 0;
}
