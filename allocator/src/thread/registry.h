/* registry.h - all heaps: how many there are, their numbers, and those without a thread.
 *
 * A heap whose thread ended is an orphan if it has superblocks (blocks in use by others, or it is
 * parked, see thread.c), else idle.  Heaps are never unmapped, because other threads may still send
 * blocks to them.
 *
 * A heap has a number of its own in the owner map while there are enough of them; when there were
 * more heaps than numbers, one without a thread has none (OWNER_IN_HEAD), so that threads that come
 * later do.
 */
#ifndef EXGEN_REGISTRY_H
#define EXGEN_REGISTRY_H

#include "heap/heap.h"

/* Take over a heap without a thread: `wanted` if it is an orphan, else the orphan that was left
 * last, else an idle one.  NULL if there is none, or the settings forbid it. */
struct heap *registry_take(struct heap *wanted);

/* The same for a thread that left `heap`, and gets it whatever the settings, unless others have. */
struct heap *registry_take_again(struct heap *heap);

/* Take an orphan out, however full it is; NULL if there is none. */
struct heap *registry_take_orphan(void);

/* The orphan that was left first, if there are so many that another one is to go into it, else
 * NULL. */
struct heap *registry_take_for_merge(void);

/* A new heap; NULL if out of memory. */
struct heap *registry_add(void);

/* The thread of a heap ends: others may have its number, if numbers are scarce. */
void registry_end(struct heap *heap);

/* Leave a heap behind that has no thread.  Never waits. */
void registry_leave(struct heap *heap);

/* Call `visit` for up to `n` heaps that have no thread, but blocks in their inboxes or memory whose
 * time has come; no thread takes these over meanwhile.  It looks at a bounded number and goes on
 * there the next time.  True if there may be more, in one of those, too, where `visit` is true.
 * With `n` SIZE_MAX it looks at all, parked ones whose time has not come, too, and waits for the
 * lock, else for none. */
bool registry_visit(bool (*visit)(struct heap *heap, uint64_t now_ms), uint64_t now_ms, size_t n);

/* Whether there are heaps without a thread that may hold memory, and how many. */
bool registry_has_orphans(void);
size_t registry_count_orphans(void);

/* The heap that was made before `heap`, or the last if that is NULL; NULL after the first. */
struct heap *registry_next(const struct heap *heap);

/* Number of heaps ever made: as many as there were threads at once. */
size_t registry_count(void);

/* Number of heaps that have a thread, at least 1; the other one also counts those whose thread a
 * fork left behind, in which there is memory to give back. */
size_t registry_count_threads(void);
size_t registry_count_with_lost(void);
bool registry_has_threads(void);

/* In the child of a fork: the other threads are gone. */
void registry_forget_others(bool has_heap);

/* The walkers over all orphans. */
bool registry_is_valid(void);

/* For the moment of a fork. */
void registry_lock(void);
void registry_unlock(void);

#endif
