/* spool_reader.c - see spool_reader.h. */
#include "builder/spool_reader.h"

#include "base/clock.h"
#include "memory.h" /* memory_map */
#include "trace.h"  /* enum trace_op */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>  /* snprintf */
#include <stdlib.h> /* qsort */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct lane *stride_at(const struct spool *spool, uint32_t number) {
    return (const void *)(spool->bytes + (size_t)number * SPOOL_STRIDE_BYTES);
}

/* ---- opening ---- */

static bool map_file(struct spool *spool, const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        close(fd);
        return false;
    }
    spool->fd = fd;
    spool->bytes = bytes;
    spool->n_bytes = (size_t)status.st_size;
    return true;
}

/* Order: lane, sequence, and of two copies of one buffer the fuller first, the
 * home before the archive: a copy that a full disk cut short is never chosen. */
static int compare_strides(const void *left, const void *right) {
    const struct spool_stride *a = left;
    const struct spool_stride *b = right;
    if (a->home != b->home)
        return a->home < b->home ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    if (a->n_words != b->n_words)
        return a->n_words > b->n_words ? -1 : 1;
    return (b->number == b->home) - (a->number == a->home);
}

/* What a stride begins with; 0: nothing was written.  A full disk leaves holes, and to read a
 * hole of a full tmpfs through the mapping would need room there: SIGBUS. */
static uint32_t magic_of(const struct spool *spool, uint32_t number) {
    uint32_t magic = 0;
    off_t start = (off_t)number * SPOOL_STRIDE_BYTES;
    return pread(spool->fd, &magic, sizeof magic, start) == sizeof magic ? magic : 0;
}

static bool is_lane(const struct spool *spool, uint32_t number) {
    size_t start = (size_t)number * SPOOL_STRIDE_BYTES;
    if (start >= spool->n_bytes || spool->n_bytes - start < LANE_HEADER_BYTES ||
        magic_of(spool, number) != SPOOL_LANE_MAGIC)
        return false;
    uint64_t n_words = (uint32_t)stride_at(spool, number)->state;
    return n_words <= LANE_WORDS &&
           LANE_HEADER_BYTES + n_words * sizeof(uint64_t) <= spool->n_bytes - start;
}

/* Notes the strides of answers; there are fewer than strides. */
static void note_touches(struct spool *spool, uint32_t number) {
    size_t start = (size_t)number * SPOOL_STRIDE_BYTES;
    const struct touch_stride *stride = (const void *)(spool->bytes + start);
    if (spool->n_bytes - start < SPOOL_STRIDE_BYTES ||
        magic_of(spool, number) != SPOOL_TOUCH_MAGIC || stride->index >= spool->n_touches)
        return;
    spool->touches[stride->index].stride = stride;
}

static bool list_strides(struct spool *spool) {
    size_t n_strides = (spool->n_bytes + SPOOL_STRIDE_BYTES - 1) / SPOOL_STRIDE_BYTES;
    spool->strides = memory_map((n_strides + 1) * sizeof *spool->strides);
    spool->touches = memory_map((n_strides + 1) * sizeof *spool->touches);
    if (spool->strides == NULL || spool->touches == NULL || n_strides > UINT32_MAX)
        return false;
    spool->n_touches = n_strides;
    for (uint32_t i = 1; i < n_strides; i++) {
        note_touches(spool, i);
        if (!is_lane(spool, i))
            continue;
        const struct lane *lane = stride_at(spool, i);
        spool->strides[spool->n_strides++] = (struct spool_stride){
            lane->home, (uint32_t)(lane->state >> 32), i, (uint32_t)lane->state};
    }
    qsort(spool->strides, spool->n_strides, sizeof *spool->strides, compare_strides);
    size_t n_kept = 0;
    for (size_t i = 0; i < spool->n_strides; i++) {
        const struct spool_stride *last = &spool->strides[n_kept - (n_kept > 0)];
        const struct spool_stride *stride = &spool->strides[i];
        if (n_kept == 0 || last->home != stride->home || last->sequence != stride->sequence)
            spool->strides[n_kept++] = *stride;
    }
    spool->n_strides = n_kept;
    return true;
}

static void list_lanes(struct spool *spool) {
    for (size_t i = 0; i < spool->n_strides; i++) {
        const struct spool_stride *stride = &spool->strides[i];
        if (i == 0 || stride[-1].home != stride->home) {
            struct spool_lane *lane = &spool->lanes[spool->n_lanes++];
            lane->strides = stride;
            lane->home = stride->home;
            if (is_lane(spool, stride->home))
                lane->exit_stamp = stride_at(spool, stride->home)->exit_stamp;
        }
        spool->lanes[spool->n_lanes - 1].n_strides++;
    }
}

bool spool_open(struct spool *spool, const char *path, char *message, size_t message_bytes) {
    memset(spool, 0, sizeof *spool);
    spool->until_stamp = UINT64_MAX;
    if (!map_file(spool, path)) {
        snprintf(message, message_bytes, "%.300s: cannot read the spool: %s", path,
                 strerror(errno));
        return false;
    }
    spool->header = (const void *)spool->bytes;
    if (spool->n_bytes < sizeof *spool->header ||
        memcmp(spool->header->magic, SPOOL_MAGIC, sizeof spool->header->magic) != 0 ||
        spool->header->version != SPOOL_VERSION) {
        snprintf(message, message_bytes, "%.300s: not a spool of this version of the recorder",
                 path);
        spool_close(spool);
        return false;
    }
    bool is_good = list_strides(spool);
    spool->lanes = memory_map((spool->n_strides + 1) * sizeof *spool->lanes);
    spool->heads = memory_map((spool->n_strides + 1) * sizeof *spool->heads);
    spool->heap = memory_map((spool->n_strides + 1) * sizeof *spool->heap);
    if (!is_good || spool->lanes == NULL || spool->heads == NULL || spool->heap == NULL) {
        snprintf(message, message_bytes, "%.300s: no memory to read the spool", path);
        spool_close(spool);
        return false;
    }
    list_lanes(spool);
    if (spool->header->stop_stamp != 0)
        spool->until_stamp = spool->header->stop_stamp;
    return true;
}

void spool_close(struct spool *spool) {
    if (spool->bytes != NULL) {
        munmap((void *)spool->bytes, spool->n_bytes);
        close(spool->fd);
    }
    size_t n = spool->n_strides + 1; /* at most what was mapped; the rest ends with us */
    memory_unmap(spool->strides, n * sizeof *spool->strides);
    memory_unmap(spool->touches, (spool->n_touches + 1) * sizeof *spool->touches);
    memory_unmap(spool->lanes, n * sizeof *spool->lanes);
    memory_unmap(spool->heads, n * sizeof *spool->heads);
    memory_unmap(spool->heap, n * sizeof *spool->heap);
    memset(spool, 0, sizeof *spool);
}

/* ---- lanes ---- */

static void read_short(struct spool_lane *lane, uint64_t word, struct spool_event *event) {
    int64_t distance = (int64_t)word >> SHORT_ADDRESS_SHIFT;
    lane->address += (uint64_t)distance << ADDRESS_UNIT_BITS;
    lane->clock += word >> SHORT_ELAPSED_SHIFT & ((1u << SHORT_ELAPSED_BITS) - 1);
    event->code = record_codes[word & RECORD_LONG];
    event->size = word >> SHORT_SIZE_SHIFT & ((1u << SHORT_SIZE_BITS) - 1);
}

/* False for a mark, which changes only how the next record is read. */
static bool read_long(struct spool_lane *lane, const uint64_t *words, struct spool_event *event) {
    uint64_t second = words[1];
    event->code = (uint8_t)(words[0] >> LONG_CODE_SHIFT);
    if (event->code == RECORD_CLOCK)
        lane->clock = second;
    else if (event->code == RECORD_SIZE)
        lane->giant_size = second;
    else if (event->code == RECORD_TOUCH)
        lane->touch_number = second;
    else {
        lane->address = words[0] >> LONG_ADDRESS_SHIFT;
        lane->clock += second >> LONG_ELAPSED_SHIFT;
        event->size = lane->giant_size != 0 ? lane->giant_size : second & UINT32_MAX;
        event->align_log2 = second >> LONG_ALIGN_SHIFT & ((1u << LONG_ALIGN_BITS) - 1);
        lane->giant_size = 0;
        return true;
    }
    return false;
}

/* Begins the next buffer of the lane; false when there is none. */
static bool next_stride(const struct spool *spool, struct spool_lane *lane) {
    if (lane->n_strides == 0)
        return false;
    const struct lane *stride = stride_at(spool, lane->strides->number);
    lane->words = stride->words;
    lane->words_end = stride->words + lane->strides->n_words;
    lane->clock = stride->first_stamp;
    lane->address = 0;
    lane->n_strides--;
    lane->strides++;
    return true;
}

/* The answer of that number (not 0), if it was given; 0: not known. */
static uint32_t find_touch(const struct spool *spool, uint64_t number, uint64_t size) {
    uint64_t index = number / TOUCHES_PER_STRIDE;
    if (index >= spool->n_touches || spool->touches[index].stride == NULL ||
        spool->header->page_bytes == 0)
        return 0;
    uint32_t touch = spool->touches[index].stride->touches[number % TOUCHES_PER_STRIDE];
    return touch > 1 && touch - 1 > size / spool->header->page_bytes ? 0 : touch;
}

/* Reads a record of two words; false for a mark, and for one whose second word is missing. */
static bool take_long(struct spool_lane *lane, struct spool_event *event) {
    const uint64_t *words = lane->words;
    bool is_whole = lane->words_end - words >= 2;
    lane->words = is_whole ? words + 2 : lane->words_end;
    return is_whole && read_long(lane, words, event);
}

/* The next record of the lane; false at its end. */
static bool read_record(const struct spool *spool, struct spool_lane *lane,
                        struct spool_event *event) {
    for (;;) {
        if (lane->words == lane->words_end) {
            if (!next_stride(spool, lane))
                return false;
        } else if ((*lane->words & RECORD_LONG) != RECORD_LONG) {
            read_short(lane, *lane->words++, event);
            break;
        } else if (take_long(lane, event)) {
            break;
        }
    }
    event->address = lane->address;
    event->stamp = lane->clock;
    if (lane->touch_number != 0)
        event->touch = find_touch(spool, lane->touch_number, event->size);
    lane->touch_number = 0;
    return true;
}

/* The exit of the lane's last thread, unless it is known already. */
static bool make_exit(struct spool_lane *lane, struct spool_event *event) {
    if (lane->exit_stamp == 0)
        return false;
    event->stamp = lane->exit_stamp;
    event->code = TRACE_THREAD_EXIT | TRACE_API_THREAD << 3;
    lane->exit_stamp = 0;
    return true;
}

/* Loads the head of the lane; false at its end. */
static bool load_head(struct spool *spool, uint32_t index) {
    struct spool_lane *lane = &spool->lanes[index];
    struct spool_event *head = &spool->heads[index];
    *head = (struct spool_event){.lane = index};
    if (!read_record(spool, lane, head) && !make_exit(lane, head))
        return false;
    if (head->stamp < lane->last_stamp)
        head->stamp = lane->last_stamp;
    lane->last_stamp = head->stamp;
    return head->stamp <= spool->until_stamp;
}

/* ---- merge ---- */

static bool is_before(const struct spool *spool, uint32_t a, uint32_t b) {
    uint64_t stamp_a = spool->heads[a].stamp;
    uint64_t stamp_b = spool->heads[b].stamp;
    return stamp_a != stamp_b ? stamp_a < stamp_b : a < b;
}

static void sift_down(struct spool *spool, size_t place) {
    uint32_t *heap = spool->heap;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= spool->n_heap)
            return;
        if (child + 1 < spool->n_heap && is_before(spool, heap[child + 1], heap[child]))
            child++;
        if (!is_before(spool, heap[child], heap[place]))
            return;
        uint32_t lane = heap[place];
        heap[place] = heap[child];
        heap[child] = lane;
        place = child;
    }
}

void spool_limit(struct spool *spool, uint64_t until_stamp) {
    if (until_stamp < spool->until_stamp)
        spool->until_stamp = until_stamp;
}

static void fill_heap(struct spool *spool) {
    for (uint32_t i = 0; i < spool->n_lanes; i++)
        if (load_head(spool, i))
            spool->heap[spool->n_heap++] = i;
    for (size_t place = spool->n_heap; place-- > 0;)
        sift_down(spool, place);
}

/* The lane whose head comes next behind that of the first lane; there are two lanes or more. */
static uint32_t second_lane(const struct spool *spool) {
    const uint32_t *heap = spool->heap;
    return spool->n_heap > 2 && is_before(spool, heap[2], heap[1]) ? heap[2] : heap[1];
}

/* Hands out events of the first lane until one of another lane comes before; the heap is put
 * in order only then. */
static size_t read_run(struct spool *spool, struct spool_event *events, size_t capacity) {
    uint32_t lane = spool->heap[0];
    bool is_only = spool->n_heap == 1;
    uint32_t second = is_only ? lane : second_lane(spool);
    size_t n = 0;
    do {
        events[n++] = spool->heads[lane];
        if (!load_head(spool, lane)) {
            spool->heap[0] = spool->heap[--spool->n_heap];
            break;
        }
    } while (n < capacity && (is_only || is_before(spool, lane, second)));
    sift_down(spool, 0);
    return n;
}

size_t spool_read(struct spool *spool, struct spool_event *events, size_t capacity) {
    if (!spool->is_started) {
        spool->is_started = true;
        fill_heap(spool);
    }
    size_t n = 0;
    while (n < capacity && spool->n_heap > 0)
        n += read_run(spool, events + n, capacity - n);
    return n;
}

/* ---- clocks ---- */

static bool is_this_boot(const struct spool_header *header) {
    char boot_id[40] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot_id, 36);
    if (fd >= 0)
        close(fd);
    return n == 36 && memcmp(boot_id, header->boot_id, 36) == 0;
}

double spool_ns_per_stamp(const struct spool *spool) {
    const struct spool_header *header = spool->header;
    uint64_t stamp = header->start_stamp;
    uint64_t clock_ns = header->start_clock_ns;
    for (size_t i = 0; i < spool->n_strides; i++) {
        const struct lane *lane = stride_at(spool, spool->strides[i].number);
        if (lane->first_stamp > stamp) {
            stamp = lane->first_stamp;
            clock_ns = lane->clock_ns;
        }
    }
    if (is_this_boot(header)) {
        stamp = clock_stamp();
        clock_ns = clock_monotonic_ns();
    }
    if (stamp <= header->start_stamp || clock_ns <= header->start_clock_ns)
        return 1.0;
    return (double)(clock_ns - header->start_clock_ns) / (double)(stamp - header->start_stamp);
}
