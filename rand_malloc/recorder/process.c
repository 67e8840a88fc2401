/* process.c - what there is once per process: settings, spool file, fork, stop.
 *
 * Settings come from MALLOC_TUNER_RECORD="FOLLOW:TIME:FOLDER" (FOLLOW is 0 or 1, TIME is
 * CLOCK_MONOTONIC in ns just before the exec), read
 * from /proc/self/environ because the first allocation may come before libc has
 * set up `environ`.  Without FOLLOW the variable and our LD_PRELOAD entry are taken
 * out of the environment, so the program's children run bare, and a child made
 * by fork stops recording at once (exec in the process itself: hooks_exec.c); with it, each process
 * has its own spool, and the spool of a forked child names its parent's as its history.
 *
 * The program may close or reuse any descriptor: before each use ours is
 * compared with the file it should be and opened again if it is not.
 * All system calls go through syscall(): no cancellation points are added.
 */
#include "recorder.h"

#include "real.h"
#include "touch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HIGH_DESCRIPTOR = 700, /* out of the way of programs that count them */
    ENVIRONMENT_MAX_BYTES = 16 << 20,
    FOLDER_BYTES = 4096,
    PATH_BYTES = FOLDER_BYTES + SPOOL_NAME_BYTES,
    MESSAGE_BYTES = PATH_BYTES + 256,
};

enum state {
    NOT_STARTED,
    RECORDING,
    OFF
};

static struct {
    enum state state; /* atomic */
    int fd;
    dev_t device; /* of the spool file */
    ino_t inode;
    bool is_following;
    pid_t pid;
    volatile char *mark;         /* 1 in our memory, 0 in the copy that a child gets; or NULL */
    struct spool_header *header; /* mapped shared */
    uint64_t fork_stamp;         /* taken before the latest fork */
    char library[FOLDER_BYTES];  /* path of this library */
    uint64_t exec_ns;            /* TIME of the settings; 0: not told */
    char folder[FOLDER_BYTES];
    char name[SPOOL_NAME_BYTES]; /* file name in folder */
} process = {.fd = -1};

static const char setting_name[] = "MALLOC_TUNER_RECORD=";
static const char preload_name[] = "LD_PRELOAD=";

/* The page is cleared in every child that has memory of its own, however it was made.  A
 * child of vfork is in our memory and heap: what it allocates is part of the recording. */
static void set_mark(void) {
    size_t n_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (process.mark == NULL) {
        void *page =
            mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return;
        if (madvise(page, n_bytes, MADV_WIPEONFORK) != 0) { /* before Linux 4.14 */
            munmap(page, n_bytes);
            return;
        }
        process.mark = page;
    }
    *process.mark = 1;
}

/* False in a child made behind fork()'s back. */
bool process_owns_memory(void) {
    return process.mark != NULL ? *process.mark == 1 : getpid() == process.pid;
}

void process_stop(int error_number, const char *what) {
    char text[MESSAGE_BYTES];
    if (__atomic_exchange_n(&process.state, OFF, __ATOMIC_ACQ_REL) == OFF)
        return;
    touch_stop();
    if (!process_owns_memory()) /* not our recording */
        return;
    if (process.header != NULL) {
        process.header->stop_errno = error_number;
        process.header->stop_stamp = clock_stamp();
    }
    int n =
        snprintf(text, sizeof text,
                 "malloc-tuner: recording of process %d stopped, the program goes on: %s in %s: "
                 "%s\n",
                 (int)process.pid, what, process.folder, strerror(error_number));
    if (n > 0)
        syscall(SYS_write, STDERR_FILENO, text, (size_t)n < sizeof text ? (size_t)n : sizeof text);
}

/* ---- the spool file ---- */

static void spool_path(char *path) {
    snprintf(path, PATH_BYTES, "%s/%s", process.folder, process.name);
}

static bool remember_file(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return false;
    process.device = status.st_dev;
    process.inode = status.st_ino;
    return true;
}

static bool is_our_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == process.device &&
           status.st_ino == process.inode;
}

int process_move_high(int fd) {
    int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (high < 0)
        return fd;
    syscall(SYS_close, fd);
    return high;
}

/* Our descriptor, opened again if the program took it away; -1 and errno. */
static int spool_descriptor(void) {
    char path[PATH_BYTES];
    int fd = process.fd;
    if (is_our_file(fd))
        return fd;
    spool_path(path);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!is_our_file(fd)) {
        syscall(SYS_close, fd);
        errno = ESTALE;
        return -1;
    }
    process.fd = process_move_high(fd);
    return process.fd;
}

/* Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which kills.  The program did
 * nothing to deserve it: hold the signal back while we write and swallow ours. */
static void hold_file_size_signal(sigset_t *before) {
    sigset_t file_size;
    sigemptyset(&file_size);
    sigaddset(&file_size, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &file_size, before);
}

static void release_file_size_signal(const sigset_t *before, int error) {
    const struct timespec at_once = {0, 0};
    sigset_t file_size;
    sigemptyset(&file_size);
    sigaddset(&file_size, SIGXFSZ);
    if (error == EFBIG && !sigismember(before, SIGXFSZ))
        syscall(SYS_rt_sigtimedwait, &file_size, NULL, &at_once, _NSIG / 8);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static int write_all(int fd, const char *from, size_t n_bytes, uint64_t offset) {
    while (n_bytes > 0) {
        long n = syscall(SYS_pwrite64, fd, from, n_bytes, offset);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            from += n;
            n_bytes -= (size_t)n;
            offset += (uint64_t)n;
        }
    }
    return 0;
}

int process_write(const void *bytes, size_t n_bytes, uint64_t offset) {
    sigset_t before;
    if (!process_owns_memory())
        return ESRCH;
    int fd = spool_descriptor();
    if (fd < 0)
        return errno;
    hold_file_size_signal(&before);
    int error = write_all(fd, bytes, n_bytes, offset);
    release_file_size_signal(&before, error);
    return error;
}

uint64_t process_take_stride(void) {
    return __atomic_fetch_add(&process.header->n_strides, 1, __ATOMIC_RELAXED);
}

void *process_map_stride(uint64_t stride) {
    int fd = spool_descriptor();
    if (fd < 0)
        return NULL;
    off_t offset = (off_t)(stride * SPOOL_STRIDE_BYTES);
    /* Allocated before it is mapped: a full disk is an error here, not a SIGBUS later. */
    sigset_t before;
    hold_file_size_signal(&before);
    int error = posix_fallocate(fd, offset, SPOOL_STRIDE_BYTES);
    release_file_size_signal(&before, error);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    void *mapped = mmap(NULL, SPOOL_STRIDE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Creates PID.spool, or PID-2.spool, ... after an exec. */
static bool create_file(void) {
    char path[PATH_BYTES];
    for (int i = 1; i < 10000; i++) {
        if (i == 1)
            snprintf(process.name, sizeof process.name, "%d.spool", (int)process.pid);
        else
            snprintf(process.name, sizeof process.name, "%d-%d.spool", (int)process.pid, i);
        spool_path(path);
        int fd =
            (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        process.fd = fd < 0 ? fd : process_move_high(fd);
        return process.fd >= 0 && remember_file(process.fd);
    }
    return false;
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
        if (strncmp(at, setting_name, sizeof setting_name - 1) == 0)
            use_setting(at + sizeof setting_name - 1);
    munmap(environment, ENVIRONMENT_MAX_BYTES);
    return process.folder[0] != '\0';
}

/* CLOCK_MONOTONIC when the kernel made the process, rounded down to its clock tick; 0 if it does
 * not tell. */
static uint64_t creation_ns(void) {
    enum {
        START_TIME = 20 /* fields behind the name, see proc(5) */
    };
    char text[1024] = "";
    unsigned long long ticks = 0;
    struct timespec boot;
    read_file("/proc/self/stat", text, sizeof text - 1);
    char *at = strrchr(text, ')'); /* the name may hold anything */
    for (int field = 0; at != NULL && field < START_TIME; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return 0;
    ticks = strtoull(at + 1, NULL, 10);
    uint64_t now_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
    uint64_t age_ns = now_ns - ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t monotonic_ns = clock_monotonic_ns();
    return ticks == 0 || age_ns > monotonic_ns ? 0 : monotonic_ns - age_ns;
}

/* When the process began to run this program.  A process that was made without our exec functions
 * has inherited the time of another one's exec, which is before it was made. */
static uint64_t life_ns(uint64_t now_ns) {
    uint64_t created_ns = creation_ns();
    uint64_t begin_ns = process.exec_ns > created_ns ? process.exec_ns : created_ns;
    return begin_ns < now_ns ? begin_ns : now_ns;
}

static void describe_process(struct spool_header *header) {
    Dl_info found;
    void *function;
    header->version = SPOOL_VERSION;
    header->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    header->pid = process.pid;
    header->parent_pid = getppid();
    header->start_clock_ns = clock_monotonic_ns();
    header->start_stamp = clock_stamp();
    header->life_ns = life_ns(header->start_clock_ns);
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
    process.pid = getpid();
    process.header = NULL;
    set_mark();
    if (!create_file()) {
        process_stop(errno, "cannot create the spool");
        return false;
    }
    struct spool_header *header = process_map_stride(0);
    if (header == NULL) {
        process_stop(errno, "cannot extend the spool");
        return false;
    }
    header->n_strides = 1;
    describe_process(header);
    process.header = header;
    touch_start();
    return true;
}

bool process_is_recording(void) {
    if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == NOT_STARTED) {
        process.state = OFF; /* what we call below may allocate */
        bool is_open = read_settings();
        process.state = RECORDING;
        if (!is_open)
            process.state = OFF;
        else
            open_spool();
    }
    return __atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == RECORDING;
}

bool process_continues_in_new_image(void) {
    return process.library[0] != '\0' && process.state == RECORDING &&
           (process.is_following || getpid() == process.pid);
}

pid_t process_number(void) {
    return process.pid;
}

const char *process_library(void) {
    return process.library;
}

size_t process_setting_bytes(void) {
    enum {
        MOST_DIGITS = 20
    };
    return sizeof setting_name + sizeof "0::" + MOST_DIGITS + strlen(process.folder);
}

/* Runs between vfork and exec: no printf. */
void process_write_setting(char *setting) {
    char digits[24];
    char *digit = digits + sizeof digits - 1;
    *digit = '\0';
    for (uint64_t left = clock_monotonic_ns(); left > 0; left /= 10)
        *--digit = (char)('0' + left % 10);
    char *end = stpcpy(setting, setting_name);
    end = stpcpy(stpcpy(end, process.is_following ? "1:" : "0:"), digit);
    stpcpy(stpcpy(end, ":"), process.folder);
}

void process_ends(bool is_at_end) {
    if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == RECORDING && process.header != NULL &&
        process_owns_memory() && getpid() == process.pid)
        process.header->end_stamp = is_at_end ? clock_stamp() : 0;
}

__attribute__((destructor)) static void end(void) {
    process_ends(true);
}

/* ---- children ---- */

static void before_fork(void) {
    process.fork_stamp = clock_stamp();
}

/* In the child of a fork; its only thread is the one that forked. */
static void after_fork_in_child(void) {
    struct spool_header *parent = process.header;
    char parent_name[SPOOL_NAME_BYTES];
    uint32_t fork_lane = own_lane != NULL ? own_lane->home : 0;
    if (process.state != RECORDING)
        return;
    memcpy(parent_name, process.name, sizeof parent_name);
    lanes_reset();
    if (!process.is_following) {
        process.state = OFF;
        touch_stop();
        return;
    }
    syscall(SYS_close, process.fd);
    munmap(parent, SPOOL_STRIDE_BYTES);
    if (!open_spool())
        return;
    memcpy(process.header->parent_spool, parent_name, sizeof parent_name);
    process.header->fork_lane = fork_lane;
    process.header->fork_stamp = process.fork_stamp;
}

/* fork() runs the handlers; this one is made to run none. */
RECORDER_EXPORT pid_t _Fork(void) {
    static pid_t (*real_fork)(void);
    if (real_fork == NULL) {
        void *found = dlsym(RTLD_NEXT, "_Fork");
        memcpy(&real_fork, &found, sizeof found);
    }
    if (real_fork == NULL) {
        errno = ENOSYS;
        return -1;
    }
    before_fork();
    pid_t child = real_fork();
    if (child == 0)
        after_fork_in_child();
    return child;
}

static bool is_our_path(const char *path, size_t n_bytes) {
    static const char name[] = "librecorder.so";
    size_t n = sizeof name - 1;
    return n_bytes >= n && memcmp(path + n_bytes - n, name, n) == 0 &&
           (n_bytes == n || path[n_bytes - n - 1] == '/');
}

/* Takes our entry out of a list separated by colons or spaces, in place. */
static void remove_our_path(char *list) {
    char *to = list;
    for (char *from = list; *from != '\0';) {
        size_t n = strcspn(from, ": ");
        size_t with_separator = n + (from[n] != '\0');
        if (!is_our_path(from, n)) {
            memmove(to, from, with_separator);
            to += with_separator;
        }
        from += with_separator;
    }
    while (to > list && (to[-1] == ':' || to[-1] == ' '))
        to--;
    *to = '\0';
}

/* Leaves the environment as the program would have it without us. */
static void clean_environment(void) {
    char **to = environ;
    for (char **from = environ; *from != NULL; from++) {
        char *variable = *from;
        if (strncmp(variable, setting_name, sizeof setting_name - 1) == 0)
            continue;
        if (strncmp(variable, preload_name, sizeof preload_name - 1) == 0) {
            remove_our_path(variable + sizeof preload_name - 1);
            if (variable[sizeof preload_name - 1] == '\0')
                continue;
        }
        *to++ = variable;
    }
    *to = NULL;
}

__attribute__((constructor)) static void start(void) {
    if (!process_is_recording())
        return;
    Dl_info found;
    if (dladdr(&process, &found) != 0 && found.dli_fname != NULL)
        snprintf(process.library, sizeof process.library, "%s", found.dli_fname);
    pthread_atfork(before_fork, NULL, after_fork_in_child);
    if (!process.is_following)
        clean_environment();
}
