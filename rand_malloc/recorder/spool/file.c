/* file.c - see file.h. */
#include "spool/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h> /* snprintf */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HIGH_DESCRIPTOR = 700, /* out of the way of programs that count them */
    PATH_BYTES = 4096 + SPOOL_NAME_BYTES,
};

static struct {
    int fd;
    dev_t device;
    ino_t inode;
    pid_t pid;
    struct spool_header *header; /* mapped shared */
    const char *folder;          /* of the caller */
    int folder_fd;               /* -1: the path has to do */
    ino_t folder_inode;
    struct spool_control *control; /* mapped shared; NULL: there is none */
    char name[SPOOL_NAME_BYTES];
} file = {.fd = -1, .folder_fd = -1};

static volatile char no_page = 1; /* before Linux 4.14: the process's number has to do */
volatile char *file_mark = &no_page;

/* The page is cleared in every child that has memory of its own, however it was made.  A
 * child of vfork is in our memory and heap: what it allocates is part of the recording. */
static void set_mark(void) {
    size_t n_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (file_mark == &no_page) {
        void *page =
            mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return;
        if (madvise(page, n_bytes, MADV_WIPEONFORK) != 0) {
            munmap(page, n_bytes);
            return;
        }
        file_mark = page;
    }
    *file_mark = 1;
}

bool file_owns_memory(void) {
    return file_mark != &no_page ? *file_mark != 0 : getpid() == file.pid;
}

/* ---- the folder ---- */

static bool is_folder(int fd, ino_t inode) {
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) &&
           (inode == 0 || status.st_ino == inode);
}

void file_use_folder(const char *folder, int fd, uint64_t inode) {
    struct stat status;
    file.folder = folder;
    if (inode == 0 || !is_folder(fd, (ino_t)inode))
        fd = (int)syscall(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &status) != 0)
        return;
    file.folder_fd = file_move_high(fd);
    file.folder_inode = status.st_ino;
}

void file_pass_folder(bool is_passed, int *fd, uint64_t *inode) {
    bool is_there = is_folder(file.folder_fd, file.folder_inode);
    if (is_there)
        syscall(SYS_fcntl, file.folder_fd, F_SETFD, is_passed ? 0 : FD_CLOEXEC);
    *fd = is_there ? file.folder_fd : 0;
    *inode = is_there ? (uint64_t)file.folder_inode : 0;
}

/* Opens a file of the folder.  By its descriptor this works for a user who may not come there,
 * which is what a service has become that gave up the rights of root. */
static int open_inside(const char *name, int flags, int mode) {
    char path[PATH_BYTES];
    if (is_folder(file.folder_fd, file.folder_inode))
        return (int)syscall(SYS_openat, file.folder_fd, name, flags | O_CLOEXEC, mode);
    snprintf(path, sizeof path, "%s/%s", file.folder, name);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

/* ---- what all processes of the recording share ---- */

static void map_control(void) {
    if (file.control != NULL)
        return;
    int fd = open_inside(SPOOL_CONTROL, O_RDWR, 0);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *file.control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    file.control = mapped == MAP_FAILED ? NULL : mapped;
    syscall(SYS_close, fd);
}

bool file_is_over(void) {
    return file.control != NULL && __atomic_load_n(&file.control->is_over, __ATOMIC_ACQUIRE) != 0;
}

bool file_may_take_stride(void) {
    struct spool_control *control = file.control;
    if (control == NULL)
        return true;
    if (file_is_over())
        return false;
    if (__atomic_add_fetch(&control->n_strides, 1, __ATOMIC_RELAXED) <= control->most_strides)
        return true;
    __atomic_store_n(&control->is_over, 1, __ATOMIC_RELEASE);
    return false;
}

static bool remember_file(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return false;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    return true;
}

static bool is_our_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == file.device && status.st_ino == file.inode;
}

int file_move_high(int fd) {
    int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (high < 0) {
        syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
        return fd;
    }
    syscall(SYS_close, fd);
    return high;
}

/* Our descriptor, opened again if the program took it away; -1 and errno. */
static int spool_descriptor(void) {
    int fd = file.fd;
    if (is_our_file(fd))
        return fd;
    fd = open_inside(file.name, O_RDWR, 0);
    if (fd < 0)
        return -1;
    if (!is_our_file(fd)) {
        syscall(SYS_close, fd);
        errno = ESTALE;
        return -1;
    }
    file.fd = file_move_high(fd);
    return file.fd;
}

/* Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, and SIGPIPE where nobody reads: they kill.  The
 * program did nothing to deserve it: hold them back while we write and swallow ours. */
static void hold_signals(sigset_t *before) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGXFSZ);
    sigaddset(&ours, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &ours, before);
}

static void release_signals(const sigset_t *before, int error) {
    const struct timespec at_once = {0, 0};
    int ours = error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    if (ours != 0 && !sigismember(before, ours)) {
        sigset_t sent;
        sigemptyset(&sent);
        sigaddset(&sent, ours);
        syscall(SYS_rt_sigtimedwait, &sent, NULL, &at_once, _NSIG / 8);
    }
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

int file_write(const void *bytes, size_t n_bytes, uint64_t offset) {
    sigset_t before;
    if (!file_owns_memory())
        return ESRCH;
    int fd = spool_descriptor();
    if (fd < 0)
        return errno;
    hold_signals(&before);
    int error = write_all(fd, bytes, n_bytes, offset);
    release_signals(&before, error);
    return error;
}

void file_print(const char *text, size_t n_bytes) {
    sigset_t before;
    hold_signals(&before);
    long n = syscall(SYS_write, STDERR_FILENO, text, n_bytes);
    release_signals(&before, n < 0 ? errno : 0);
}

uint64_t file_take_stride(void) {
    return __atomic_fetch_add(&file.header->n_strides, 1, __ATOMIC_RELAXED);
}

void *file_map_stride(uint64_t stride) {
    int fd = spool_descriptor();
    if (fd < 0)
        return NULL;
    off_t offset = (off_t)(stride * SPOOL_STRIDE_BYTES);
    /* Allocated before it is mapped: a full disk is an error here, not a SIGBUS later. */
    sigset_t before;
    hold_signals(&before);
    int error;
    do
        error = posix_fallocate(fd, offset, SPOOL_STRIDE_BYTES);
    while (error == EINTR); /* a signal of the program's, on some file systems */
    release_signals(&before, error);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    void *mapped = mmap(NULL, SPOOL_STRIDE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Creates PID.spool, or PID-2.spool, ... after an exec. */
static bool create_file(void) {
    for (int i = 1; i < 10000; i++) {
        if (i == 1)
            snprintf(file.name, sizeof file.name, "%d.spool", (int)file.pid);
        else
            snprintf(file.name, sizeof file.name, "%d-%d.spool", (int)file.pid, i);
        int fd = open_inside(file.name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        file.fd = fd < 0 ? fd : file_move_high(fd);
        return file.fd >= 0 && remember_file(file.fd);
    }
    return false;
}

struct spool_header *file_create(const char **what) {
    file.pid = getpid();
    file.header = NULL;
    map_control();
    set_mark();
    errno = 0; /* no failure, if there is no room for one more */
    if (!file_may_take_stride())
        return NULL;
    *what = "cannot create the spool";
    if (!create_file())
        return NULL;
    *what = "cannot extend the spool";
    file.header = file_map_stride(0);
    if (file.header != NULL)
        file.header->n_strides = 1;
    return file.header;
}

void file_leave(void) {
    if (is_our_file(file.fd))
        syscall(SYS_close, file.fd);
    munmap(file.header, SPOOL_STRIDE_BYTES);
    file.header = NULL;
}

struct spool_header *file_header(void) {
    return file.header;
}

const char *file_name(void) {
    return file.name;
}

pid_t file_process(void) {
    return file.pid;
}

bool file_has_lane(void) {
    return __atomic_load_n(&file.header->n_strides, __ATOMIC_RELAXED) > 1;
}
