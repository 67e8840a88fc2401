/* lanes.c - the buffers of threads.
 *
 * A thread gets a lane at its first event and keeps it to its end; a full buffer
 * is copied into a new stride of the spool by one write.  The lane of an ended
 * thread is taken over by the next new one, so a program that starts a million
 * threads needs as many lanes as it has threads at once.
 *
 * The end of a thread: a key destructor marks the lane, but the thread may go on
 * to allocate (other destructors, libc's own clean-up).  It keeps its lane for
 * that; the lane is free for a successor only when the kernel knows the thread
 * no more.  Its TRACE_THREAD_EXIT is written by the successor, or by build_trace.
 *
 * The lock is taken once per thread, never per event.
 */
#include "thread/record.h"

#include "process/process.h"
#include "spool/file.h"
#include "touch/touch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct lane *own_lane;

static struct {
    struct lane *ended; /* lanes whose thread has ended or is about to */
    pthread_key_t key;  /* its destructor runs when a thread ends */
    bool has_key;
    char lock; /* guards `ended` */
} lanes;

static void lock_lanes(void) {
    while (__atomic_test_and_set(&lanes.lock, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_lanes(void) {
    __atomic_clear(&lanes.lock, __ATOMIC_RELEASE);
}

static void restart_lane(struct lane *lane, uint64_t stamp) {
    uint64_t sequence = (lane->state >> 32) + 1;
    /* Empty before anything else changes: a killed process never shows words with a later clock. */
    __atomic_store_n(&lane->state, sequence << 32, __ATOMIC_RELEASE);
    __atomic_store_n(&lane->first_stamp, stamp, __ATOMIC_RELEASE);
    lane->last_stamp = stamp;
    lane->last_address = 0;
    lane->clock_ns = clock_monotonic_ns();
}

/* Copies the buffer into its own stride and empties it. */
static bool archive_lane(struct lane *lane, uint64_t stamp) {
    size_t n_bytes = LANE_HEADER_BYTES + (uint32_t)lane->state * sizeof lane->words[0];
    if (!process_may_take_stride()) {
        own_lane = NULL;
        return false;
    }
    process_note_title();
    int error = file_write(lane, n_bytes, file_take_stride() * SPOOL_STRIDE_BYTES);
    if (error != 0) {
        own_lane = NULL;
        process_stop(error, "cannot write the spool");
        return false;
    }
    restart_lane(lane, stamp);
    return true;
}

/* Both words become visible at once. */
static void append(struct lane *lane, unsigned code, uint64_t address, uint64_t second) {
    uint64_t state = lane->state;
    uint64_t *words = &lane->words[(uint32_t)state];
    words[0] = RECORD_LONG | (uint64_t)code << LONG_CODE_SHIFT | address << LONG_ADDRESS_SHIFT;
    words[1] = second;
    __atomic_store_n(&lane->state, state + 2, __ATOMIC_RELEASE);
}

static void append_record(struct lane *lane, unsigned code, unsigned align_log2, uint64_t address,
                          uint64_t size, uint64_t stamp, uint32_t touch_number) {
    if ((stamp - lane->last_stamp) >> LONG_ELAPSED_BITS != 0) {
        append(lane, RECORD_CLOCK, 0, stamp);
        lane->last_stamp = stamp;
    }
    if (size >> LONG_SIZE_BITS != 0) {
        append(lane, RECORD_SIZE, 0, size);
        size = 0;
    }
    if (touch_number != 0)
        append(lane, RECORD_TOUCH, 0, touch_number);
    append(lane, code, address,
           size | (uint64_t)align_log2 << LONG_ALIGN_SHIFT |
               (stamp - lane->last_stamp) << LONG_ELAPSED_SHIFT);
    lane->last_stamp = stamp;
    lane->last_address = address;
}

void lanes_record_slowly(unsigned code, unsigned align_log2, uint64_t address, uint64_t size,
                         uint64_t stamp, uint32_t touch_number) {
    enum {
        MOST_WORDS = 8
    }; /* clock, size, touch, the record itself */
    int saved_errno = errno;
    struct lane *lane = own_lane;
    if (lane == NULL)
        lane = lanes_attach();
    else if (!file_owns_memory())
        lane = NULL;
    if (lane != NULL && (uint32_t)lane->state > LANE_WORDS - MOST_WORDS &&
        !archive_lane(lane, stamp))
        lane = NULL;
    if (lane != NULL)
        append_record(lane, code, align_log2, address, size, stamp, touch_number);
    errno = saved_errno;
}

void lanes_record_large(unsigned code, unsigned align_log2, const void *block, size_t size) {
    uint64_t stamp = clock_stamp();
    int saved_errno = errno;
    if (own_lane == NULL)
        lanes_attach();
    errno = saved_errno;
    bool is_measured = own_lane != NULL && size >= TRACE_TOUCH_LEAST_BYTES;
    uint32_t number = is_measured ? touch_begin(block, size) : 0;
    lanes_record_slowly(code, align_log2, (uintptr_t)block, size, stamp, number);
}

/* ---- beginning and end of threads ---- */

static void thread_ends(void *value) {
    struct lane *lane = value;
    if (own_lane != lane || !file_owns_memory()) /* of the parent process, or recording stopped */
        return;
    lock_lanes();
    if (lane->exit_stamp == 0) {
        lane->next = lanes.ended;
        lanes.ended = lane;
    }
    lane->exit_stamp = clock_stamp();
    unlock_lanes();
}

/* A lane whose thread the kernel has forgotten, or NULL. */
static struct lane *take_ended_lane(void) {
    pid_t process = file_process();
    for (struct lane **link = &lanes.ended; *link != NULL; link = &(*link)->next) {
        struct lane *lane = *link;
        if (syscall(SYS_tgkill, process, lane->thread_id, 0) == 0 || errno != ESRCH)
            continue;
        *link = lane->next;
        lane->next = NULL;
        return lane;
    }
    return NULL;
}

static struct lane *make_lane(uint64_t stamp) {
    if (!process_may_take_stride())
        return NULL;
    uint64_t stride = file_take_stride();
    struct lane *lane = file_map_stride(stride);
    if (lane == NULL) {
        process_stop(errno, "cannot extend the spool");
        return NULL;
    }
    lane->home = (uint32_t)stride;
    restart_lane(lane, stamp);
    lane->magic = SPOOL_LANE_MAGIC;
    return lane;
}

static void record_thread(enum trace_op op, uint64_t stamp) {
    lanes_record_slowly(RECORD_CODE(op, TRACE_API_THREAD), 0, 0, 0, stamp, 0);
}

struct lane *lanes_attach(void) {
    if (!process_is_recording() || !file_owns_memory())
        return NULL;
    if (!lanes.has_key)
        lanes.has_key = pthread_key_create(&lanes.key, thread_ends) == 0;
    uint64_t stamp = clock_stamp();
    lock_lanes();
    struct lane *lane = take_ended_lane();
    unlock_lanes();
    bool is_taken_over = lane != NULL;
    if (lane == NULL)
        lane = make_lane(stamp);
    if (lane == NULL)
        return NULL;
    own_lane = lane;
    if (is_taken_over)
        record_thread(TRACE_THREAD_EXIT, lane->exit_stamp);
    lane->exit_stamp = 0;
    lane->thread_id = (int32_t)syscall(SYS_gettid);
    if (lane->home != 1) /* the first lane is the main thread's: it runs from the start */
        record_thread(TRACE_THREAD_START, stamp);
    if (lanes.has_key) /* last: for a high key this allocates, and comes back here */
        pthread_setspecific(lanes.key, lane);
    return own_lane;
}

void lanes_reset(void) {
    lanes.ended = NULL;
    unlock_lanes();
    own_lane = NULL;
    if (lanes.has_key)
        pthread_setspecific(lanes.key, NULL);
}
