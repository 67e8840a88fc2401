/* entry.c - the C allocation functions; what they have in common is in fast.h.
 *
 * Rules kept: C23 7.24.3, POSIX malloc family, and glibc where those leave it
 * open (size 0 gives a block; realloc to 0 frees; memalign rounds a bad
 * alignment up).  free never changes errno.
 */
#include <errno.h>
#include <string.h>

#include "entry/fast.h"
#include "entry/misuse.h"
#include "exgen.h"
#include "heap/kept.h"
#include "heap/supply.h"
#include "heap/trays.h"
#include "heap/visit.h"
#include "memory/canary.h"
#include "memory/junk.h"
#include "memory/large.h"
#include "memory/nothing.h"
#include "system/os.h"
#include "thread/housekeeping.h"
#include "thread/quarantine.h"
#include "thread/refill.h"
#include "thread/remote.h"
#include "thread/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* --- malloc --- */

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* A block above the size classes: units of its own, or a mapping. */
static void *allocate_big(size_t size, size_t alignment, bool *is_zero) {
    void *block = NULL;
    *is_zero = false;
    if (size > PTRDIFF_MAX)
        return out_of_memory();
    bool is_usual = alignment <= UNIT_BYTES;
    bool has_place = is_usual || alignment <= layout.bytes / 4;
    if ((size <= heap_largest_run() && has_place) || (size <= tray_layout.largest && is_usual)) {
        block = refill_run(local.heap, size, alignment, is_zero);
    } else {
        block = refill_large(local.heap, size, alignment, is_zero);
    }
    return block != NULL ? block : out_of_memory();
}

static void *take_block(size_t class) {
    void *block = pop(ready_list(local.heap, &local, class));
    if (block == NULL)
        return refill(local.heap, class);
    hand_out(block);
    return block;
}

/* A block of `class` with a canary behind `size` bytes. */
static void *allocate_with_canary(size_t class, size_t size) {
    size_t bytes = classes.of[class].block_bytes;
    void *block = take_block(class);
    if (block == NULL)
        return out_of_memory();
    junk_hand_out(block, bytes);
    canary_set(block, bytes, size);
    return block;
}

static NOINLINE void *allocate_securely(size_t size) {
    bool is_zero;
    void *block = size == 0 ? nothing_take() : NULL;
    if (block != NULL)
        return block;
    return size <= canary_largest_request()
               ? allocate_with_canary(class_of(size + CANARY_BYTES), size)
               : allocate_big(size, BLOCK_ALIGNMENT, &is_zero);
}

static void *allocate_aligned(size_t alignment, size_t size);

/* A call of a thread that has no heap: its first, or one after its end was seen. */
static NOINLINE void *attach_and(void *(*call)(size_t, size_t), size_t first, size_t second) {
    if (thread_attach() == NULL)
        return out_of_memory();
    void *block = call(first, second);
    thread_end_again();
    return block;
}

/* What is neither at hand nor kept. */
static NOINLINE void *allocate_anew(size_t size) {
    if (unlikely(local.heap == NULL))
        return attach_and(allocate_aligned, 1, size);
    if (unlikely(options.secure))
        return allocate_securely(size);
    if (size > classes.largest) {
        bool is_zero;
        return allocate_big(size, BLOCK_ALIGNMENT, &is_zero);
    }
    size_t class = class_of(size);
    void *block = take_block(class);
    if (unlikely(options.junk) && block != NULL)
        junk_hand_out(block, classes.of[class].block_bytes);
    return block != NULL ? block : out_of_memory();
}

/* The rests of the next functions, which call nothing else, so that they have nothing to save. */
static NOINLINE void *allocate_beyond(struct heap *heap, size_t size) {
    void *block = kept_take_near(heap, size);
    if (unlikely(block == NULL))
        heap->kept.n_taken--; /* counted down by allocate_slowly, but none was taken */
    heap_leave_kept(heap);
    return likely(block != NULL) ? block : allocate_anew(size);
}

/* A block above all that superblocks hold. */
static NOINLINE void *allocate_large(size_t size) {
    bool is_zero;
    void *block = refill_large(local.heap, size, BLOCK_ALIGNMENT, &is_zero);
    return likely(block != NULL) ? block : out_of_memory();
}

static NOINLINE void *allocate_near(struct heap *heap, size_t size) {
    if (size > heap_largest_open_run && size > tray_layout.largest && !options.secure) {
        heap->kept.n_taken--;
        heap_leave_kept(heap);
        return allocate_large(size);
    }
    void *block = size <= tray_layout.largest ? kept_take_soon(heap, size) : NULL;
    if (unlikely(block == NULL))
        return allocate_beyond(heap, size);
    heap_leave_kept(heap);
    return block;
}

void *allocate_slowly(size_t size) {
    struct heap *heap = local.heap; /* without one, another thread may be filling the classes */
    if (unlikely(heap == NULL || size <= classes.largest) || !heap_enter_kept(heap))
        return allocate_anew(size);
    if (housekeeping_counts_kept(heap)) { /* inside: a visitor reads and sets the same count */
        heap_leave_kept(heap);
        return allocate_anew(size);
    }
    void *block = kept_take(heap, size);
    if (unlikely(block == NULL))
        return allocate_near(heap, size);
    heap_leave_kept(heap);
    return block;
}

/* The rest of the next function, in a heap without junk. */
static NOINLINE void *allocate_from_heap(struct heap *heap, size_t class) {
    void *block = refill(heap, class);
    return likely(block != NULL) ? block : out_of_memory();
}

void *allocate_refilled(size_t size, size_t class) {
    struct heap *heap = local.heap;
    if (unlikely(heap == NULL || options.junk))
        return allocate_anew(size);
    if (unlikely(class == CLASS_NOT_QUICK))
        return allocate_slowly(size);
    void *block = heap_take_freed(heap, &local, class);
    return likely(block != NULL) ? block : allocate_from_heap(heap, class);
}

EXPORT void *exgen_malloc(size_t size) {
    return allocate(size);
}

/* --- free --- */

/* Whether the block, which is not NULL, is of a size class, with `secure`. */
static bool has_canary(const void *block) {
    return options.secure && owner_of_any((uintptr_t)block) != OWNER_NONE &&
           slab_of((uintptr_t)block)->class < CLASS_TRAY;
}

/* Whether the calling thread's heap has the block. */
static bool is_own(const void *block) {
    return local.heap != NULL && superblock_owner(superblock_of((uintptr_t)block)) == local.heap;
}

/* Count a slow path of a thread that is not at work on its heap: it may have no other. */
static NOINLINE void count_slow_path(void) {
    heap_enter(local.heap);
    housekeeping_tick(local.heap);
    heap_leave(local.heap);
}

/* The block to be freed now, of those freed so far; NULL if none is. */
static void *hold_back(struct heap *heap, struct slab *slab, void *block) {
    if (slab->class >= CLASS_TRAY)
        return block;
    if (options.junk)
        junk_fill(block, slab->block_bytes);
    else
        link_mark(block);
    return options.quarantine > 0 && heap != NULL ? quarantine_exchange(heap, block) : block;
}

/* A block of another heap than the calling thread's, which is NULL if it has none. */
static void free_others(struct heap *heap, void *block) {
    thread_expect_only();
    bool is_slow = heap == NULL    ? remote_free_slowly(heap, block)
                   : options.check ? remote_free_listed(heap, block)
                                   : remote_free(heap, block);
    if (is_slow && heap != NULL)
        count_slow_path();
}

/* The thread's own block bears the mark of a free one. */
static void verify_marked(const struct slab *slab, const void *block) {
    if (heap_lists(local.heap, &local, slab, block))
        fatal("double free", block);
}

/* A block of a superblock for which no shorter way is open: of a thread without a heap or without a
 * number, and all with check:true. */
static NOINLINE void free_thoroughly(void *block) {
    struct heap *heap = local.heap;
    /* A thread that begins with a free goes on with the heap that another left behind.  At its very
     * end, where glibc frees what it had for others, it would not leave it any more. */
    if (heap == NULL && local.left == NULL && !os_thread_ends())
        heap = thread_attach_to(superblock_owner(superblock_of((uintptr_t)block)));
    struct slab *slab = slab_of((uintptr_t)block);
    const struct heap *owner = superblock_owner(superblock_of((uintptr_t)block));
    if (options.check)
        misuse_check_free(slab, block, owner == heap);
    if (options.junk || options.quarantine > 0) {
        block = hold_back(heap, slab, block);
        if (block == NULL)
            return;
        slab = slab_of((uintptr_t)block);
        owner = superblock_owner(superblock_of((uintptr_t)block));
    }
    if (owner == heap && !options.check && link_is_marked(block))
        verify_marked(slab, block);
    if (owner == heap)
        heap_free(heap, slab, block);
    else
        free_others(heap, block);
}

/* What was freed of large blocks may be kept, and is looked at later. */
static void look_at_large_later(void) {
    if (local.heap == NULL)
        return;
    supply_schedule_purge(local.heap);
    count_slow_path();
}

/* What cannot be the address of a block ends the program. */
static void expect_sound(const void *block) {
    if (likely(link_is_sound(block)))
        return;
    bool is_inside = owner_of_any((uintptr_t)block) != OWNER_NONE;
    fatal(is_inside ? "invalid free, inside a block" : "invalid free, not a block of this heap",
          block);
}

/* Large blocks, what is no block, and what the first owner map does not reach. */
static NOINLINE void free_unmapped(void *block) {
    if (block == NULL)
        return;
    expect_sound(block);
    uint8_t number = owner_of_any((uintptr_t)block);
    if (number == OWNER_NONE) {
        thread_expect_only();
        if (!large_free(block) && !nothing_free(block))
            fatal("invalid free, not a block of this heap", block);
        look_at_large_later();
    } else if (number == local.number) {
        deallocate_mine(block);
    } else {
        free_thoroughly(block);
    }
}

/* The rests of functions below, which call nothing else, so that they have nothing to save. */
static NOINLINE void shed(size_t class) {
    remote_shed(local.heap, class);
    count_slow_path();
}

static NOINLINE void free_remote(void *block) {
    if (remote_free(local.heap, block))
        count_slow_path();
}

/* What does not go to the list of free_mixed: blocks that share a line of cache with others, and
 * those without a size class. */
static NOINLINE void free_apart(void *block) {
    if (owner_at((uintptr_t)block) == local.own_number)
        deallocate_mine(block);
    else if (unlikely(!remote_collect(local.heap, block)))
        free_remote(block);
}

/* A block, of this thread's heap or not, of a thread that frees both kinds by turns: which kind
 * it is cannot be predicted and does not matter to the next malloc. */
ALWAYS_INLINE void free_mixed(void *block) {
    size_t class = class_of_block((uintptr_t)block);
    if (unlikely(class >= N_CLASSES_MAX || class < classes.first_line)) {
        free_apart(block);
        return;
    }
    if (unlikely(link_is_marked(block)))
        remote_add_marked(local.heap, class, block);
    else if (unlikely(!remote_push(&local.mixed[class].foreign, block)))
        shed(class);
}

/* Keep a block of the thread's own heap, which was not counted down, for the next request of its
 * length; false (and nothing done) if that is not all there is to do. */
static bool keep(struct slab *slab, const struct slab *entry, void *block) {
    struct heap *heap = local.heap;
    bool is_kept = false;
    if (slab->class >= CLASS_TRAY && heap_enter_kept(heap)) {
        int32_t countdown = slab->countdown--;
        is_kept = kept_add(heap, slab, entry, slab->class, block);
        if (!is_kept)
            slab->countdown = countdown;
        heap_leave_kept(heap);
    }
    return is_kept;
}

/* With check:true: a block of the thread's own heap that is all it should be takes a short way. */
static NOINLINE void free_checked(void *block) {
    struct slab *entry = unit_slab_of((uintptr_t)block);
    struct slab *slab = (struct slab *)((char *)entry - entry->to_first);
    bool is_held = options.junk || options.quarantine > 0;
    bool is_simple = is_own(block) && !is_held && !link_is_marked(block);
    if (likely(is_simple && misuse_is_in_use(slab, block)))
        heap_free(local.heap, slab, block);
    else if (!is_simple || !keep(slab, entry, block))
        free_thoroughly(block);
}

/* A block that is some heap's, freed by a thread that has no number of its own: with check:true, or
 * when there are more heaps than numbers, or before it has a heap. */
static void free_without_number(void *block, uint8_t owner) {
    if (options.check)
        free_checked(block);
    else if (THREADS && owner == OWNER_IN_HEAD && block != NULL && local.heap != NULL &&
             superblock_owner(superblock_of((uintptr_t)block)) == local.heap)
        deallocate_mine(block);
    else
        free_thoroughly(block);
}

void free_slowly(void *block, uint8_t owner) {
    if (owner == OWNER_NONE)
        free_unmapped(block);
    else if (THREADS && local.mixed != NULL)
        free_mixed(block);
    else if (!THREADS || local.own_number == OWNER_NOBODY)
        free_without_number(block, owner);
    else if (unlikely(!remote_collect(local.heap, block)))
        free_remote(block);
}

/* With check:true: of a block that is not in use no size is known. */
static COLD void check_size(const void *block, size_t size) {
    if (owner_of_any((uintptr_t)block) != OWNER_NONE)
        misuse_check_free(slab_of((uintptr_t)block), block, is_own(block));
    size_t usable = exgen_malloc_usable_size((void *)(uintptr_t)block);
    if (size > usable)
        fatal("size given to free is larger than the block", block);
    if (size < usable && has_canary(block))
        fatal("size given to free is smaller than the block", block);
}

void free_sized_slowly(void *block, size_t size, uint8_t owner) {
    expect_sound(block);
    if (options.check && block != NULL)
        check_size(block, size);
    free_slowly(block, owner);
}

static NOINLINE void free_event_slowly(void *block, struct slab *slab) {
    struct heap *heap = local.heap;
    heap_enter(heap);
    heap_free_event(heap, slab, block);
    if (unlikely(heap_has_fallen(heap)))
        housekeeping_fall(heap);
    else
        housekeeping_tick(heap);
    heap_leave(heap);
}

/* free_event of a block of a tray, in whose unit's entry its length is. */
ALWAYS_INLINE void free_on_tray(void *block, struct slab *slab, const struct slab *entry) {
    struct heap *heap = local.heap;
    bool is_kept = false;
    if (unlikely(link_is_marked(block))) {
        free_marked(block, slab);
        return;
    }
    if (heap_enter_kept(heap)) {
        slab->countdown = -1;
        is_kept = kept_add_block(heap, entry, block);
        heap_leave_kept(heap);
    }
    if (unlikely(!is_kept))
        free_event_slowly(block, slab);
}

/* free_event of a slab with a single block, which is not touched. */
ALWAYS_INLINE void free_run(void *block, struct slab *slab) {
    struct heap *heap = local.heap;
    bool is_kept = false;
    if (heap_enter_kept(heap)) {
        is_kept = kept_add_run(heap, slab, block);
        heap_leave_kept(heap);
    }
    if (unlikely(!is_kept))
        free_event_slowly(block, slab);
}

/* Whether no list can have a block of the slab: a look at one that is freed, whose line is cold, is
 * needless. */
ALWAYS_INLINE bool is_in_no_list(const struct slab *slab) {
    if (slab->class >= CLASS_TRAY || slab->state != SLAB_ASLEEP || slab->free != NULL)
        return false;
    const struct foreign *list = &local.heap->bins[slab->class].foreign;
    return list->free == NULL && !list->has_fed;
}

void free_event(void *block, struct slab *slab, size_t from_first) {
    if (slab->class == CLASS_TRAY) {
        free_on_tray(block, slab, (const struct slab *)((const char *)slab + from_first));
        return;
    }
    if (slab->class == CLASS_UNIT_RUN) {
        free_run(block, slab);
        return;
    }
    if (unlikely(!is_in_no_list(slab) && link_is_marked(block))) {
        free_marked(block, slab);
        return;
    }
    free_event_slowly(block, slab);
}

void free_marked(void *block, struct slab *slab) {
    slab->countdown++;
    verify_marked(slab, block);
    heap_free(local.heap, slab, block);
}

EXPORT void exgen_free(void *block) {
    deallocate(block);
}

EXPORT void exgen_free_sized(void *block, size_t size) {
    deallocate_sized(block, size);
}

EXPORT void exgen_free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    deallocate_sized(block, size);
}

/* --- calloc --- */

/* Clear a new block above FINE_MAX, of which often only the first word is not zero.  That
 * the slab says; of a block from the exchange it would not be true. */
static void clear_block(void *block, size_t size) {
    const struct slab *slab = slab_of((uintptr_t)block);
    bool is_new = slab == local.heap->bins[slab->class].active && slab->zeroed;
    memset(block, 0, is_new ? sizeof(void *) : size);
}

static NOINLINE void *allocate_zeroed_slowly(size_t size) {
    if (unlikely(local.heap == NULL))
        return attach_and(exgen_calloc, 1, size);
    if (size <= (options.secure ? canary_largest_request() : classes.largest)) {
        void *block = allocate(size);
        if (block != NULL)
            clear_block(block, size);
        return block;
    }
    bool is_zero;
    void *block = allocate_big(size, BLOCK_ALIGNMENT, &is_zero);
    if (block != NULL && !is_zero) {
        if (owner_of_any((uintptr_t)block) == OWNER_NONE)
            os_clear(block, size);
        else
            memset(block, 0, size);
    }
    return block;
}

EXPORT void *exgen_calloc(size_t count, size_t size) {
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes)))
        return out_of_memory();
    if (unlikely(bytes > FINE_MAX))
        return allocate_zeroed_slowly(bytes);
    void *block = allocate(bytes);
    if (likely(block != NULL))
        memset(block, 0, bytes);
    return block;
}

/* --- size and realloc --- */

static NOINLINE size_t size_with_canary(const void *block) {
    const struct slab *slab = slab_of((uintptr_t)block);
    size_t offset = (size_t)((const char *)block - slab->start);
    size_t capacity = __atomic_load_n(&slab->capacity, __ATOMIC_RELAXED); /* of another heap's */
    if (offset >= capacity * slab->block_bytes || offset % slab->block_bytes != 0 ||
        link_is_marked(block))
        fatal("not a block of this heap", block);
    return canary_size(block, slab->block_bytes);
}

/* Whether a list of the calling thread's has the block. */
static bool is_listed(const struct slab *slab, const void *block) {
    return local.heap != NULL && heap_lists(local.heap, &local, slab, block);
}

EXPORT size_t exgen_malloc_usable_size(void *block) {
    if (block == NULL || (options.secure && nothing_has(block)))
        return 0;
    if (has_canary(block))
        return size_with_canary(block);
    size_t bytes;
    if (owner_of_any((uintptr_t)block) != OWNER_NONE) {
        const struct slab *slab = slab_of((uintptr_t)block);
        bytes = slab->class == CLASS_TRAY ? tray_block_bytes(slab, block) : slab->block_bytes;
        if (slab_is_kept(slab) || (link_is_marked(block) && is_listed(slab, block)))
            bytes = 0;
    } else {
        bytes = large_bytes(block);
    }
    if (bytes == 0)
        fatal("not a block of this heap", block);
    return bytes;
}

/* What to ask for when a block grows from `old_bytes` to `size`. */
static size_t with_slack(size_t size, size_t old_bytes) {
    bool roomy = size > old_bytes && size > classes.largest && size > tray_layout.largest &&
                 size < PTRDIFF_MAX / 2;
    return roomy ? size + size / 100 * options.realloc_slack : size;
}

/* Make a large block of one with units of its own, without copying. */
static void *move_run_out(void *block, struct slab *slab, size_t size) {
    size_t old_bytes = slab->block_bytes;
    if (((uintptr_t)block & (os_page_bytes() - 1)) != 0 ||
        (old_bytes & (os_page_bytes() - 1)) != 0 || options.secure)
        return NULL;
    void *moved = large_move_in(block, old_bytes, size);
    if (moved == NULL)
        return NULL;
    heap_enter(local.heap);
    slab->clean = true;
    slab->class = CLASS_NONE; /* no longer a block: nothing of it was touched */
    slab->carved = 0;
    slab_set_used(slab, 0, 0);
    supply_give(local.heap, slab);
    heap_leave(local.heap);
    return moved;
}

/* NULL if the block has to move. */
static void *resize_on_tray(void *block, struct slab *slab, size_t size) {
    if (!is_own(block))
        return NULL;
    heap_enter(local.heap);
    bool is_resized = trays_resize(local.heap, slab, block, size);
    heap_leave(local.heap);
    return is_resized ? block : NULL;
}

/* Resize a block with units of its own, to `roomy` bytes or else to `size`;
 * NULL if it has to move. */
static void *resize_run(void *block, struct slab *slab, size_t size, size_t roomy) {
    size_t n = (size + UNIT_BYTES - 1) >> UNIT_SHIFT;
    size_t n_roomy = (roomy + UNIT_BYTES - 1) >> UNIT_SHIFT;
    if (!is_own(block) || size <= classes.largest)
        return NULL;
    if (roomy > heap_largest_run())
        return move_run_out(block, slab, roomy);
    if (size > slab->block_bytes && size > options.grow_min)
        return NULL;
    return refill_resize_run(local.heap, slab, n_roomy) || refill_resize_run(local.heap, slab, n)
               ? block
               : NULL;
}

/* Whether a block of a size class is still a good home for `size`: it may be half idle, but not
 * where it was made as large as it might have to be and now shrinks to what it is: a smaller class
 * that saves an eighth of it is worth the copy, if that is not next to nothing. */
static bool stays_in_class(size_t old_bytes, size_t size) {
    enum {
        LITTLE_BYTES = 128
    };
    size_t bytes = classes.of[class_of(size)].block_bytes;
    return size >= old_bytes / 2 &&
           (bytes + LITTLE_BYTES >= old_bytes || bytes > old_bytes - old_bytes / 8);
}

/* Whether a block of `old_bytes` is still a good home for `size`. */
static bool stays(size_t old_bytes, size_t size) {
    if (size > old_bytes)
        return false;
    if (old_bytes <= classes.largest)
        return stays_in_class(old_bytes, size);
    /* Whole pages are worth giving back. */
    size_t slack = old_bytes / 100 * options.realloc_slack;
    size_t step = old_bytes > tray_layout.largest ? UNIT_BYTES : options.tray_step;
    return size + slack + step >= old_bytes;
}

/* With a canary behind other bytes, if the block is of the class that they would get. */
static void *resize_with_canary(void *block, size_t size) {
    size_t class = slab_of((uintptr_t)block)->class;
    if (size > canary_largest_request() || class_of(size + CANARY_BYTES) != class)
        return NULL;
    canary_set(block, classes.of[class].block_bytes, size);
    return block;
}

/* Resize a large block without copying, to `roomy` bytes or else to `size`; NULL if neither can be.
 */
static void *resize_large(void *block, size_t size, size_t roomy) {
    void *resized = large_resize(block, roomy);
    if (resized == NULL && roomy > size)
        resized = large_resize(block, size);
    if (resized != NULL)
        look_at_large_later();
    return resized;
}

/* Resize without copying if the kind of block allows it; NULL if not. */
static void *resize_in_place(void *block, size_t old_bytes, size_t size) {
    if (has_canary(block))
        return resize_with_canary(block, size);
    if (stays(old_bytes, size))
        return block;
    size_t roomy = with_slack(size, old_bytes);
    if (owner_of_any((uintptr_t)block) == OWNER_NONE)
        return size > heap_largest_run() || size > old_bytes ? resize_large(block, size, roomy)
                                                             : NULL;
    struct slab *slab = slab_of((uintptr_t)block);
    bool may_stay = slab->class >= CLASS_TRAY && size <= old_bytes && size >= old_bytes / 2;
    void *same = slab->class == CLASS_TRAY       ? resize_on_tray(block, slab, size)
                 : slab->class == CLASS_UNIT_RUN ? resize_run(block, slab, size, roomy)
                                                 : NULL; /* a slab that it left may be gone */
    return same == NULL && may_stay ? block : same;
}

/* A block for one of `old_bytes` that is to have `size`: with room to grow on, if it does. */
static void *allocate_resized(size_t old_bytes, size_t size) {
    size_t roomy = with_slack(size, old_bytes);
    void *block = NULL;
    if (size > old_bytes && size > options.grow_min && !options.secure)
        block = large_allocate_to_grow(roomy);
    if (block == NULL)
        block = allocate(roomy);
    return block != NULL || roomy == size ? block : allocate(size);
}

/* Nothing is kept any more: for one large block there may be room, if not for two. */
static COLD void *resize_at_last(void *block, size_t size) {
    void *resized = owner_of_any((uintptr_t)block) == OWNER_NONE ? large_resize(block, size) : NULL;
    if (resized != NULL)
        look_at_large_later();
    return resized;
}

static NOINLINE void *resize(void *block, size_t size) {
    thread_expect_only();
    if (size > PTRDIFF_MAX)
        return out_of_memory();
    size_t old_bytes = exgen_malloc_usable_size(block);
    void *new_block = resize_in_place(block, old_bytes, size);
    if (new_block != NULL)
        return new_block;
    new_block = allocate_resized(old_bytes, size);
    if (new_block == NULL) /* what shrinks may stay */
        return size <= old_bytes ? block : resize_at_last(block, size);
    memcpy(new_block, block, old_bytes < size ? old_bytes : size);
    deallocate(block);
    return new_block;
}

EXPORT void *exgen_realloc(void *block, size_t size) {
    if (block == NULL)
        return allocate(size);
    if (size == 0) {
        deallocate(block);
        return NULL;
    }
    return resize(block, size);
}

EXPORT void *exgen_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return out_of_memory();
    return exgen_realloc(block, bytes);
}

/* --- alignment --- */

/* A block at a multiple of `alignment`, a power of two; errno as for malloc. */
static void *allocate_aligned(size_t alignment, size_t size) {
    if (alignment <= BLOCK_ALIGNMENT)
        return allocate(size);
    if (local.heap == NULL)
        return attach_and(allocate_aligned, alignment, size);
    bool is_small = size <= (options.secure ? canary_largest_request() : classes.largest);
    size_t class = is_small ? class_of_aligned(size + canary_bytes(), alignment) : CLASS_NONE;
    if (class != CLASS_NONE)
        return options.secure ? allocate_with_canary(class, size)
                              : allocate(classes.of[class].block_bytes);
    size_t least = options.secure ? 1 : classes.largest + 1; /* a guard is right behind a block */
    bool is_zero;
    return allocate_big(size > least ? size : least, alignment, &is_zero);
}

EXPORT void *exgen_aligned_alloc(size_t alignment, size_t size) {
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return allocate_aligned(alignment, size);
}

EXPORT void *exgen_memalign(size_t alignment, size_t size) {
    if (alignment > (size_t)PTRDIFF_MAX + 1) {
        errno = EINVAL;
        return NULL;
    }
    return allocate_aligned(alignment <= 1 ? 1 : (size_t)1 << log2_ceil(alignment), size);
}

EXPORT int exgen_posix_memalign(void **block, size_t alignment, size_t size) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    void *new_block = allocate_aligned(alignment, size);
    if (new_block == NULL)
        return ENOMEM;
    *block = new_block;
    return 0;
}

/* Known once the allocator has started. */
static size_t page_bytes(void) {
    allocator_start();
    return os_page_bytes();
}

EXPORT void *exgen_valloc(size_t size) {
    return allocate_aligned(page_bytes(), size);
}

EXPORT void *exgen_pvalloc(size_t size) {
    size_t page = page_bytes();
    if (size > PTRDIFF_MAX - page)
        return out_of_memory();
    return allocate_aligned(page, size == 0 ? page : round_up(size, page));
}

#include "entry/libc_names.h"
