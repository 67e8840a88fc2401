/* registry.c - model: heaps that two threads leave are taken over once each, as they were left, and
 * who gets a number that was another's reads it nowhere but where it is his.  Who walks over all
 * heaps finds a new one as it was made. */
#include "model.h"

#include "thread/registry.c"

enum {
    SCARCE = 7 /* the only number that there is */
};

struct options options = {.adopt = ADOPT_ANY};

static struct superblock superblocks[2];
static struct heap old, young; /* the first has the number, the other none */
static uint8_t bytes[2];       /* atomic: of their superblocks in the owner map */
static _Atomic int n_taken[2];

static int index_of(const struct heap *heap) {
    return heap == &young;
}

void superblock_set_owner(struct superblock *sb, struct heap *owner, uint8_t number) {
    (void)sb;
    __atomic_store_n(&bytes[index_of(owner)], number, __ATOMIC_RELAXED);
}

struct superblock *superblock_create_for_heap(size_t n) {
    (void)n;
    return NULL;
}

void *superblock_heap_place(struct superblock *sb) {
    return sb;
}

static struct heap added;

void *os_map(size_t n) {
    (void)n;
    return &added;
}

size_t os_page_bytes(void) {
    return 4096;
}

size_t heap_bytes(void) {
    return sizeof(struct heap);
}

void heap_init(struct heap *heap, uint8_t number) {
    heap->number = number;
    heap->n_units_peak = 3;
}

void supply_link(struct heap *heap, struct superblock *sb) {
    heap->superblocks = sb;
}

bool heap_is_valid(const struct heap *heap) {
    return heap != NULL;
}

static void leave(struct heap *heap) {
    heap->n_units = 1;
    registry_end(heap);
    registry_leave(heap);
}

static void take(void) {
    struct heap *heap = registry_take(NULL);
    if (heap == NULL)
        return;
    int i = index_of(heap);
    assert(heap->n_units == 1);
    heap->n_units = 2;
    n_taken[i]++;
    if (heap->number == SCARCE)
        assert(__atomic_load_n(&bytes[1 - i], __ATOMIC_RELAXED) != SCARCE);
}

static void *leave_and_take(void *is_second) {
    leave(is_second == NULL ? &old : &young);
    take();
    if (is_second == NULL)
        registry_add();
    else if (registry_next(NULL) != NULL)
        assert(registry_next(NULL)->n_units_peak == 3);
    return NULL;
}

int main(void) {
    registry.n_heaps = N_NUMBERS + 1;
    for (size_t i = 0; i < 4; i++)
        registry.taken[i] = UINT64_MAX;
    old.number = bytes[0] = SCARCE;
    young.number = bytes[1] = OWNER_IN_HEAD;
    old.superblocks = &superblocks[0];
    young.superblocks = &superblocks[1];
    run_two(leave_and_take, leave_and_take);
    take();
    take();
    assert(n_taken[0] == 1 && n_taken[1] == 1);
    return 0;
}
