/* process.c - what there is once per process: settings, start, end and stop of the recording.
 *
 * Settings come from MALLOC_TUNER_RECORD="FOLLOW:TIME,FD,INODE:FOLDER" (FOLLOW is 0 or 1, TIME is
 * CLOCK_MONOTONIC in ns just before the exec, FD a descriptor of FOLDER, whose inode it must have;
 * both may be missing), read from /proc/self/environ because the first allocation may come before
 * libc has set up `environ`.  With FOLLOW each process has its own
 * spool, and the spool of a forked child names its parent's as its history; without it the
 * child stops recording at once.
 */
#include "process/process.h"

#include "base/clock.h"
#include "base/real.h"
#include "spool/file.h"
#include "touch/touch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ENVIRONMENT_MAX_BYTES = 16 << 20,
    FOLDER_BYTES = 4096,
    MESSAGE_BYTES = FOLDER_BYTES + 256,
    MOST_DIGITS = 20, /* of 2^64 */
};

enum state {
    NOT_STARTED,
    RECORDING,
    OFF
};

static struct {
    enum state state; /* atomic */
    bool is_following;
    uint64_t exec_ns;           /* TIME of the settings; 0: not known */
    char library[FOLDER_BYTES]; /* path of this library */
    char folder[FOLDER_BYTES];  /* of the spool */
    int folder_fd;              /* given by whoever executed us; as folder_inode is */
    uint64_t folder_inode;      /* 0: nothing was given */
    bool has_stderr;            /* it was open at the start: */
    dev_t stderr_device;
    ino_t stderr_inode;
} process;

/* A daemon may have closed it and opened a file of its own there. */
static bool is_still_stderr(void) {
    struct stat status;
    return process.has_stderr && fstat(STDERR_FILENO, &status) == 0 &&
           status.st_dev == process.stderr_device && status.st_ino == process.stderr_inode;
}

static void remember_stderr(void) {
    struct stat status;
    process.has_stderr = fstat(STDERR_FILENO, &status) == 0;
    if (process.has_stderr) {
        process.stderr_device = status.st_dev;
        process.stderr_inode = status.st_ino;
    }
}

void process_stop(int error_number, const char *what) {
    char text[MESSAGE_BYTES];
    if (__atomic_exchange_n(&process.state, OFF, __ATOMIC_ACQ_REL) == OFF)
        return;
    touch_stop();
    if (!file_owns_memory()) /* not our recording */
        return;
    struct spool_header *header = file_header();
    if (header != NULL) {
        header->stop_errno = error_number;
        header->stop_stamp = clock_stamp();
    }
    if (error_number == 0 || !is_still_stderr()) /* 0: the recording was over */
        return;
    int n =
        snprintf(text, sizeof text,
                 "malloc-tuner: recording of process %d stopped, the program goes on: %s in %s: "
                 "%s\n",
                 (int)file_process(), what, process.folder, strerror(error_number));
    if (n > 0)
        file_print(text, (size_t)n < sizeof text ? (size_t)n : sizeof text);
}

/* ---- start ---- */

static size_t read_file(const char *path, char *buffer, size_t capacity) {
    size_t n_bytes = 0;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    while (n_bytes < capacity) {
        long n = syscall(SYS_read, fd, buffer + n_bytes, capacity - n_bytes);
        if (n <= 0)
            break;
        n_bytes += (size_t)n;
    }
    syscall(SYS_close, fd);
    return n_bytes;
}

static void use_setting(const char *value) {
    process.is_following = value[0] == '1';
    if (value[0] == '\0' || value[1] != ':')
        return;
    char *end;
    process.exec_ns = strtoull(value + 2, &end, 10);
    if (*end == ',')
        process.folder_fd = (int)strtol(end + 1, &end, 10);
    if (*end == ',')
        process.folder_inode = strtoull(end + 1, &end, 10);
    if (*end == ':')
        snprintf(process.folder, sizeof process.folder, "%s", end + 1);
}

/* Sets folder and is_following from the environment the process was started with. */
static bool read_settings(void) {
    char *environment = mmap(NULL, ENVIRONMENT_MAX_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (environment == MAP_FAILED)
        return false;
    size_t n_bytes = read_file("/proc/self/environ", environment, ENVIRONMENT_MAX_BYTES - 1);
    for (char *at = environment; at < environment + n_bytes; at += strlen(at) + 1)
        if (strncmp(at, RECORD_VARIABLE, sizeof RECORD_VARIABLE - 1) == 0)
            use_setting(at + sizeof RECORD_VARIABLE - 1);
    munmap(environment, ENVIRONMENT_MAX_BYTES);
    return process.folder[0] != '\0';
}

/* When the kernel made the process, in its ticks since the boot; 0 if it does not show. */
static uint64_t creation_ticks(void) {
    enum {
        START_TIME = 20 /* fields behind the name, see proc(5) */
    };
    char text[1024] = "";
    read_file("/proc/self/stat", text, sizeof text - 1);
    char *at = strrchr(text, ')'); /* the name may hold anything */
    for (int field = 0; at != NULL && field < START_TIME; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

/* CLOCK_MONOTONIC at a tick since the boot, rounded down; 0 if it is not known. */
static uint64_t tick_ns(uint64_t ticks) {
    struct timespec boot;
    if (clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return 0;
    uint64_t now_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
    uint64_t age_ns = now_ns - ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t monotonic_ns = clock_monotonic_ns();
    return ticks == 0 || age_ns > monotonic_ns ? 0 : monotonic_ns - age_ns;
}

/* When the process began to run this program.  A process that was made without our exec functions
 * has inherited the time of another one's exec, which is before it was made. */
static uint64_t life_ns(const struct spool_header *header) {
    uint64_t created_ns = tick_ns(header->born_ticks);
    uint64_t now_ns = header->start_clock_ns;
    uint64_t begin_ns = process.exec_ns > created_ns ? process.exec_ns : created_ns;
    return begin_ns < now_ns ? begin_ns : now_ns;
}

static void describe_process(struct spool_header *header) {
    Dl_info found;
    void *function;
    header->version = SPOOL_VERSION;
    header->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    header->pid = file_process();
    header->parent_pid = getppid();
    header->start_clock_ns = clock_monotonic_ns();
    header->start_stamp = clock_stamp();
    header->born_ticks = creation_ticks();
    header->life_ns = life_ns(header);
    header->n_command_bytes =
        (uint32_t)read_file("/proc/self/cmdline", header->command, sizeof header->command);
    read_file("/proc/sys/kernel/random/boot_id", header->boot_id, 36);
    real_prepare();
    memcpy(&function, &real.malloc, sizeof function);
    if (dladdr(function, &found) != 0 && found.dli_fname != NULL)
        snprintf(header->allocator, sizeof header->allocator, "%s", found.dli_fname);
    memcpy(header->magic, SPOOL_MAGIC, sizeof header->magic);
}

static bool open_spool(void) {
    const char *what;
    struct spool_header *header = file_create(&what);
    if (header == NULL) {
        process_stop(errno, what);
        return false;
    }
    describe_process(header);
    touch_start();
    return true;
}

bool process_is_recording(void) {
    if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == NOT_STARTED) {
        process.state = OFF; /* what we call below may allocate */
        bool is_open = read_settings();
        remember_stderr();
        process.state = RECORDING;
        if (is_open)
            file_use_folder(process.folder, process.folder_fd, process.folder_inode);
        if (!is_open || !open_spool())
            process.state = OFF;
    }
    return __atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == RECORDING;
}

bool process_continues_in_new_image(void) {
    return process.library[0] != '\0' && process.state == RECORDING &&
           (process.is_following || getpid() == file_process()) &&
           /* Behind another root, or for another user, its loader would complain. */
           syscall(SYS_faccessat, AT_FDCWD, process.library, R_OK) == 0;
}

const char *process_library(void) {
    return process.library;
}

size_t process_setting_bytes(void) {
    return sizeof RECORD_VARIABLE + sizeof "0:,,:" + 3 * (size_t)MOST_DIGITS +
           strlen(process.folder);
}

/* Writes the number and returns the end of it. */
static char *write_number(char *to, uint64_t number) {
    char digits[MOST_DIGITS + 1];
    char *digit = digits + MOST_DIGITS;
    *digit = '\0';
    do
        *--digit = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return stpcpy(to, digit);
}

/* Runs between vfork and exec: no printf. */
void process_write_setting(char *setting) {
    int fd;
    uint64_t inode;
    file_pass_folder(true, &fd, &inode);
    char *end = stpcpy(setting, RECORD_VARIABLE);
    end = write_number(stpcpy(end, process.is_following ? "1:" : "0:"), clock_monotonic_ns());
    if (inode != 0) {
        end = write_number(stpcpy(end, ","), (uint64_t)fd);
        end = write_number(stpcpy(end, ","), inode);
    }
    stpcpy(stpcpy(end, ":"), process.folder);
}

void process_has_spawned(void) {
    int fd;
    uint64_t inode;
    file_pass_folder(false, &fd, &inode);
}

void process_goes_on(void) {
    process_has_spawned();
    process_ends(false);
}

void process_note_title(void) {
    struct spool_header *header = file_header();
    size_t n_bytes =
        header == NULL ? 0 : read_file("/proc/self/cmdline", header->title, sizeof header->title);
    if (n_bytes > 0) /* where it changed its root, nothing can be read */
        header->n_title_bytes = (uint32_t)n_bytes;
}

bool process_may_take_stride(void) {
    bool may_take = file_may_take_stride();
    if (!may_take)
        process_stop(0, "");
    return may_take;
}

void process_ends(bool is_at_end) {
    struct spool_header *header = file_header();
    if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == RECORDING && header != NULL &&
        file_owns_memory() && getpid() == file_process()) {
        header->end_stamp = is_at_end ? clock_stamp() : 0;
        process_note_title();
    }
}

__attribute__((destructor)) static void end(void) {
    process_ends(true);
}

void process_forked(uint64_t fork_stamp, uint32_t fork_lane) {
    char parent[SPOOL_NAME_BYTES];
    if (process.state != RECORDING)
        return;
    if (!process.is_following) {
        process.state = OFF;
        touch_stop();
        return;
    }
    memcpy(parent, file_name(), sizeof parent);
    file_leave();
    if (!open_spool())
        return;
    struct spool_header *header = file_header();
    memcpy(header->parent_spool, parent, sizeof parent);
    header->fork_lane = fork_lane;
    header->fork_stamp = fork_stamp;
}

bool process_start(void) {
    Dl_info found;
    if (!process_is_recording())
        return false;
    if (dladdr(&process, &found) != 0 && found.dli_fname != NULL)
        snprintf(process.library, sizeof process.library, "%s", found.dli_fname);
    return true;
}

bool process_is_following(void) {
    return process.is_following;
}
