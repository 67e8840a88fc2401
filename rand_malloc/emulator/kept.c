/* kept.c - a decoded workload in a file; see kept.h.
 *
 * Layout: plan, event_of_op if there is one, sample_live, padding, struct tail.
 */
#include "kept.h"
#include "message.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_MAGIC UINT64_C(0x3374706b6d74006d)

/* What a file is of; two of them are equal byte by byte. */
struct identity {
    uint64_t magic;
    uint64_t workload_bytes; /* of the struct: another one is of another rand_malloc */
    uint64_t device, inode, file_bytes, changed_s, changed_ns; /* of the trace */
    uint64_t seed, most_events;
};

struct tail {
    struct workload workload; /* its pointers mean nothing */
    uint64_t has_event_of_op;
    struct identity identity;
};

static bool identify(const char *trace, uint64_t seed, uint64_t most_events,
                     struct identity *identity) {
    struct stat status;
    if (stat(trace, &status) != 0)
        return false;
    *identity = (struct identity){.magic = KEPT_MAGIC ^ PLAN_MAGIC,
                                  .workload_bytes = sizeof(struct workload),
                                  .device = (uint64_t)status.st_dev,
                                  .inode = (uint64_t)status.st_ino,
                                  .file_bytes = (uint64_t)status.st_size,
                                  .changed_s = (uint64_t)status.st_mtim.tv_sec,
                                  .changed_ns = (uint64_t)status.st_mtim.tv_nsec,
                                  .seed = seed,
                                  .most_events = most_events};
    return true;
}

/* ---- reading ---- */

static bool read_tail(int descriptor, const struct identity *identity, struct tail *tail) {
    off_t size = lseek(descriptor, 0, SEEK_END);
    return size > (off_t)sizeof *tail &&
           pread(descriptor, tail, sizeof *tail, size - (off_t)sizeof *tail) ==
               (ssize_t)sizeof *tail &&
           memcmp(&tail->identity, identity, sizeof *identity) == 0;
}

/* A copy of the next bytes of the file, owned by the caller; NULL if memory is short. */
static void *copy_next(const char **next, uint64_t bytes) {
    void *copy = malloc((size_t)bytes + 1);
    if (copy != NULL)
        memcpy(copy, *next, (size_t)bytes);
    *next += bytes;
    return copy;
}

static bool adopt(int descriptor, const struct tail *tail, struct workload *workload) {
    size_t size = (size_t)lseek(descriptor, 0, SEEK_END);
    void *mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED)
        return false;
    const struct plan *plan = mapped;
    const char *next = (const char *)mapped + plan->file_bytes;
    bool has_events = tail->has_event_of_op != 0;
    *workload = tail->workload;
    workload->plan = plan;
    workload->plan_fd = descriptor;
    workload->event_of_op = has_events ? copy_next(&next, plan->n_ops * sizeof(uint32_t)) : NULL;
    workload->sample_live = copy_next(&next, plan->n_samples * sizeof(uint64_t));
    return (workload->event_of_op != NULL || !has_events) && workload->sample_live != NULL;
}

/* ---- writing ---- */

static bool write_all(int descriptor, const void *bytes, uint64_t n_bytes) {
    const char *next = bytes;
    while (n_bytes > 0) {
        ssize_t written = write(descriptor, next, n_bytes);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            next += written;
            n_bytes -= (uint64_t)written;
        }
    }
    return true;
}

static bool keep(int descriptor, const struct identity *identity, const struct workload *workload) {
    const struct plan *plan = workload->plan;
    struct tail tail;
    memset(&tail, 0, sizeof tail); /* padding included */
    tail.workload = *workload;
    tail.has_event_of_op = workload->event_of_op != NULL;
    tail.identity = *identity;
    uint64_t n_samples = plan->n_samples;
    return ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0 &&
           write_all(descriptor, plan, plan->file_bytes) &&
           (workload->event_of_op == NULL ||
            write_all(descriptor, workload->event_of_op, plan->n_ops * sizeof(uint32_t))) &&
           write_all(descriptor, workload->sample_live, n_samples * sizeof(uint64_t)) &&
           write_all(descriptor, &tail, sizeof tail);
}

/* What is kept is of anything else.  Whoever replays that goes on with it: the file stays as it is
 * then, and nobody waits.  Of nothing it can only be looked at, or be about to be written. */
static bool lock_to_write(int descriptor, const struct tail *found) {
    bool is_of_another = found->identity.magic == (KEPT_MAGIC ^ PLAN_MAGIC);
    return flock(descriptor, is_of_another ? LOCK_EX | LOCK_NB : LOCK_EX) == 0;
}

enum {
    KEPT_BY_ANOTHER = -1
};

/* Decodes the trace and keeps it, if nobody uses what was found in the file; EXIT_OK,
 * KEPT_BY_ANOTHER meanwhile, or another exit code. */
static int load_and_keep(const char *file, const char *trace, const struct identity *identity,
                         const struct tail *found, struct workload *workload) {
    struct tail tail;
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return complain(EXIT_REPLAY, file, "%m");
    bool may_write = lock_to_write(descriptor, found);
    int code = KEPT_BY_ANOTHER;
    if (!may_write || !read_tail(descriptor, identity, &tail))
        code = workload_load(trace, identity->seed, identity->most_events, workload);
    if (code == EXIT_OK && may_write && !keep(descriptor, identity, workload)) {
        code = complain(EXIT_REPLAY, file, "cannot keep the workload: %m");
        workload_release(workload);
    }
    close(descriptor); /* the lock ends with it */
    return code;
}

/* The replayers inherit the descriptor, and the lock on what it shows: until the workload is
 * released and they are gone nobody writes there. */
static int open_to_read(const char *file) {
    int descriptor = open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor >= 0 && flock(descriptor, LOCK_SH) == 0)
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

int kept_load(const char *file, const char *trace, uint64_t seed, uint64_t most_events,
              struct workload *workload) {
    struct identity identity;
    struct tail tail = {.has_event_of_op = 0};
    *workload = (struct workload){.plan_fd = -1};
    if (!identify(trace, seed, most_events, &identity))
        return workload_load(trace, seed, most_events, workload); /* says what is wrong with it */
    for (;;) {
        int descriptor = open_to_read(file);
        if (descriptor < 0)
            return complain(EXIT_REPLAY, file, "%m");
        if (read_tail(descriptor, &identity, &tail))
            return adopt(descriptor, &tail, workload) ? EXIT_OK : complain(EXIT_REPLAY, file, "%m");
        close(descriptor);
        int code = load_and_keep(file, trace, &identity, &tail, workload);
        if (code != KEPT_BY_ANOTHER)
            return code;
    }
}
