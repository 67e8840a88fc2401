/* registry.h - all heaps: how many there are, and those without a thread.
 *
 * A heap whose thread ended is an orphan if it has superblocks (blocks in use by others), else
 * idle.  Heaps are never unmapped, because other threads may still send blocks to them.
 */
#ifndef EXGEN_REGISTRY_H
#define EXGEN_REGISTRY_H

#include "heap/heap.h"

/* Take over a heap without a thread: `wanted` if it is an orphan, else the orphan that was left
 * last, else an idle one.  NULL if there is none, or the settings forbid it. */
struct heap *registry_take(struct heap *wanted);

/* Take an orphan out, however full it is; NULL if there is none. */
struct heap *registry_take_orphan(void);

/* A new heap; NULL if out of memory. */
struct heap *registry_add(void);

/* Leave a heap behind that has no thread.  Never waits. */
void registry_leave(struct heap *heap);

/* Call `visit` for up to `n` heaps without a thread that have blocks in their inboxes or memory
 * whose time has come; no thread takes these over meanwhile.  True if there may be more.  Waits for
 * no lock, unless `n` is SIZE_MAX. */
bool registry_visit(void (*visit)(struct heap *heap, uint64_t now_ms), uint64_t now_ms, size_t n);

/* Whether there are heaps without a thread that may hold memory, and how many. */
bool registry_has_orphans(void);
size_t registry_count_orphans(void);

/* Number of heaps ever made: as many as there were threads at once. */
size_t registry_count(void);

/* The walkers over all orphans. */
bool registry_is_valid(void);

/* For the moment of a fork. */
void registry_lock(void);
void registry_unlock(void);

#endif
