/* recorder_subject.c - a program whose allocations are known, for test_record.py.
 *
 * usage: recorder_subject
 *     calls|threads|churn|fork|generations|raw-fork|vfork|title [ROOT]|keep-descriptors
 *     own-stderr FILE|forever|crash|many|late|exec|exec-fails|fail|touch|tight|plain
 * To be built with -fno-builtin: the compiler must not drop a pair of calls.
 * Whatever happens before main allocates MARKER bytes is start-up, not of the test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MARKER = 123457,
    N_BLOCKS = 1000,
    N_THREADS = 4,
    N_CHURN = 300
};

void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

/* Every function once, each size once. */
static void call_everything(void) {
    volatile size_t nothing = 0;
    void *aligned = NULL;
    void *a = malloc(101);
    void *b = calloc(3, 34);
    void *c = realloc(NULL, 103);
    c = realloc(c, 104000);
    c = reallocarray(c, 5, 21);
    void *d = memalign(64, 106);
    void *e = aligned_alloc(128, 256);
    if (posix_memalign(&aligned, 4096, 108) != 0)
        abort();
    void *f = valloc(109);
    void *g = pvalloc(110);
    // NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): allowed, and recorded
    free(malloc(nothing));
    if (malloc(SIZE_MAX / 2) != NULL || calloc(SIZE_MAX, 2) != NULL ||
        realloc(a, SIZE_MAX / 2) != NULL || reallocarray(a, SIZE_MAX, 2) != NULL)
        abort();
    free(NULL);
    free(a);
    if (realloc(b, 0) != NULL)
        abort();
    free(c);
    if (free_sized != NULL && free_aligned_sized != NULL) {
        free_sized(d, 106);
        free_aligned_sized(e, 128, 256);
    }
    free(aligned);
    free(f);
    free(g);
}

/* ---- threads: blocks made in main are freed elsewhere ---- */

static void *blocks[N_THREADS][N_BLOCKS];

static void *free_all(void *of_thread) {
    void **list = of_thread;
    for (int i = 0; i < N_BLOCKS; i++)
        free(list[i]);
    return malloc(77);
}

static void run_threads(void) {
    pthread_t threads[N_THREADS];
    for (int t = 0; t < N_THREADS; t++)
        for (int i = 0; i < N_BLOCKS; i++)
            blocks[t][i] = malloc(48);
    for (int t = 0; t < N_THREADS; t++)
        pthread_create(&threads[t], NULL, free_all, blocks[t]);
    for (int t = 0; t < N_THREADS; t++) {
        void *last;
        pthread_join(threads[t], &last);
        free(last);
    }
}

/* ---- churn: many threads, few at once; each leaves work to a key destructor ---- */

static pthread_key_t late_key;

static void allocate_late(void *value) {
    free(value);
    free(malloc(55));
}

static void *short_life(void *unused) {
    (void)unused;
    pthread_setspecific(late_key, malloc(66));
    return NULL;
}

static void churn_threads(void) {
    pthread_key_create(&late_key, allocate_late);
    for (int i = 0; i < N_CHURN; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, short_life, NULL);
        pthread_join(thread, NULL);
    }
}

/* ---- touching: of each block a part that is known; sizes identify the blocks ---- */

enum {
    PAGE = 4096,
    MIB = 1 << 20
};

static void *made(size_t bytes, size_t touched) {
    return memset(malloc(bytes), 1, touched);
}

static void *touch_in_thread(void *block) {
    memset(block, 1, 10 * PAGE);
    free(block);
    return NULL;
}

static void touch_parts(void) {
    pthread_t thread;
    free(made(1000000, 1000000));
    free(malloc(1000001));
    free(made(1000002, 100 * PAGE));
    for (int i = 2; i >= 0; i--) /* the same memory again and again */
        free(made(50000, (size_t)i * 4 * PAGE));
    char *zeros = calloc(1, MIB);
    volatile char read = zeros[MIB / 2]; /* of a page of zeros: not resident */
    zeros[MIB / 4] = read + 1;
    for (int i = 0; i < MIB; i++)
        if (zeros[i] != (i == MIB / 4))
            abort();
    free(zeros);
    char *grown = made(200000, 30 * PAGE);
    char *between = malloc(200001); /* so that it must move */
    grown = realloc(grown, 40 * MIB);
    grown[30 * MIB] = 1;
    if (grown[0] != 1 || grown[29 * PAGE] != 1)
        abort();
    grown = realloc(grown, 300000);
    if (realloc(grown, SIZE_MAX / 2) != NULL)
        abort();
    memset(grown, 2, 60 * PAGE);
    char *small = made(20000, 20000);
    small = realloc(small, 400000);
    free(small);
    pthread_create(&thread, NULL, touch_in_thread, malloc(500000));
    pthread_join(thread, NULL);
    made(600000, 20 * PAGE); /* alive at the end, as are `grown` and `between` */
    free(memalign(PAGE, 700000));
    if (fork() == 0) { /* is not recorded, and says nothing of its copies */
        memset(between, 3, 200001);
        free(between);
        _exit(0);
    }
    wait(NULL);
}

/* Buffers that come and go all the time, each filled to its end. */
static void touch_without_rest(void) {
    for (int i = 0; i < 20000; i++)
        free(made(100000, 100000));
}

/* ---- processes ---- */

static void allocate_for(long n) {
    for (long i = 0; i < n || n < 0; i++) {
        free(malloc(40));
        if (i == 100000)
            (void)!write(STDOUT_FILENO, "busy\n", 5);
    }
}

static void fork_child(void) {
    void *inherited = malloc(2222);
    pid_t child = fork();
    if (child == 0) {
        free(inherited);
        free(malloc(3333));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    free(inherited);
}

/* Each generation forks the next one and keeps a block of its own; the last frees all of them. */
static void fork_generations(void) {
    enum {
        N_FORKS = 70
    };
    void *blocks[N_FORKS];
    for (int i = 0; i < N_FORKS; i++) {
        blocks[i] = malloc(3000 + (size_t)i);
        pid_t child = fork();
        if (child != 0) {
            waitpid(child, NULL, 0);
            return;
        }
    }
    for (int i = 0; i < N_FORKS; i++)
        free(blocks[i]);
}

/* A worker that writes its role over its arguments, as services do: "subject: worker 7".  With a
 * root, which has nothing in it, it locks itself up there in the end. */
static void title_worker(int argc, char **argv) {
    static const char title[] = "subject: worker 7";
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);
    char root[4096] = "";
    if (argc > 2)
        strncpy(root, argv[2], sizeof root - 1);
    pid_t child = fork();
    if (child == 0) {
        memset(argv[0], 0, (size_t)(end - argv[0]));
        memcpy(argv[0], title, sizeof title);
        allocate_for(20000); /* more than a buffer of the recorder holds */
        if (root[0] != '\0' && chroot(root) != 0)
            abort();
        free(malloc(3333));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* A child that libc does not know of. */
static void raw_fork_child(void) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        for (int i = 0; i < 1000; i++)
            free(malloc(7777));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 10; i++)
        free(malloc(8888));
}

/* Closes all descriptors, as daemons do, and opens its own; 0 if they are in its child what they
 * were. */
static int keep_descriptors(void) {
    int status;
    struct stat found;
    close_range(3, UINT_MAX, 0);
    while (open("/dev/null", O_RDONLY) < 10)
        continue;
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 3; fd <= 10; fd++)
            if (fstat(fd, &found) != 0 || !S_ISCHR(found.st_mode))
                _exit(1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* What it opens after it has closed its streams has their numbers. */
static void own_stderr(const char *path) {
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    while (open(path, O_RDWR | O_CREAT | O_APPEND, 0600) < 2)
        continue;
    for (int i = 0; i < 500000; i++)
        free(malloc(40));
}

/* More than a buffer of the recorder holds, in a child that is in our memory. */
static void vfork_child(void) {
    pid_t child = vfork();
    if (child == 0) {
        for (int i = 0; i < 10000; i++)
            free(malloc(4444));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 10000; i++)
        free(malloc(5555));
}

/* As Python's subprocess looks for a program; returns the errno that its child got. */
static int exec_fails(void) {
    char *const words[] = {"/nonexistent", NULL};
    int status;
    pid_t child = vfork();
    if (child == 0) {
        close_range(3, UINT_MAX, 0);
        execve(words[0], words, environ);
        _exit(errno);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* Runs before the constructors of all libraries. */
static void exec_early(int argc, char **argv, char **environment) {
    if (argc < 2 || strcmp(argv[1], "early") != 0)
        return;
    execle(argv[0], argv[0], "plain", (char *)NULL, environment);
    _exit(9);
}
__attribute__((section(".preinit_array"), used)) static void (*early)(int, char **,
                                                                      char **) = exec_early;

static void exec_env(void) {
    execlp("env", "env", (char *)NULL);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "plain";
    free(malloc(MARKER));
    if (strcmp(mode, "calls") == 0)
        call_everything();
    else if (strcmp(mode, "threads") == 0)
        run_threads();
    else if (strcmp(mode, "churn") == 0)
        churn_threads();
    else if (strcmp(mode, "fork") == 0)
        fork_child();
    else if (strcmp(mode, "generations") == 0)
        fork_generations();
    else if (strcmp(mode, "title") == 0)
        title_worker(argc, argv);
    else if (strcmp(mode, "raw-fork") == 0)
        raw_fork_child();
    else if (strcmp(mode, "keep-descriptors") == 0)
        _exit(keep_descriptors());
    else if (strcmp(mode, "own-stderr") == 0)
        own_stderr(argv[2]);
    else if (strcmp(mode, "exec-fails") == 0)
        _exit(exec_fails());
    else if (strcmp(mode, "vfork") == 0)
        vfork_child();
    else if (strcmp(mode, "exec") == 0)
        exec_env();
    else if (strcmp(mode, "many") == 0)
        allocate_for(500000);
    else if (strcmp(mode, "late") == 0)
        allocate_for(10000), run_threads(), allocate_for(20000);
    else if (strcmp(mode, "forever") == 0)
        allocate_for(-1);
    else if (strcmp(mode, "crash") == 0)
        free(malloc(77777)), free(malloc(0)), made(88888, PAGE), raise(SIGSEGV);
    else if (strcmp(mode, "touch") == 0)
        touch_parts();
    else if (strcmp(mode, "tight") == 0)
        touch_without_rest();
    else if (strcmp(mode, "fail") == 0)
        return 3;
    _exit(0); /* what stdio and libc free at exit is not of the test */
}
