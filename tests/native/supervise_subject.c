/* A program to be measured: does the one thing its first argument names. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MIB = 1 << 20
};

static void rest(long ms) {
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

/* Time since this process began, in ms; 0 if /proc does not say. */
static long age_ms(void) {
    char line[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL)
        return 0;
    char *end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    (void)fclose(file);
    for (int field = 2; end != NULL && field < 22; field++)
        end = strchr(end + 1, ' ');
    struct timespec now;
    if (end == NULL || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    double began_s = strtod(end, NULL) / (double)sysconf(_SC_CLK_TCK);
    return (long)(1e3 * ((double)now.tv_sec + (double)now.tv_nsec / 1e9 - began_s));
}

/* Rests for the most of the program's life, however slowly a busy machine let it begin. */
static void rest_for_long(void) {
    long most = 4 * age_ms();
    rest(most > 300 ? most : 300);
}

static char *touched(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    memset(memory, 1, bytes);
    return memory;
}

/* Touched and gone at once: no sample can be relied on to see it. */
static void spike(size_t mib) {
    munmap(touched(mib * MIB), mib * MIB);
}

static void *spike_later(void *unused) {
    rest(50);
    spike(40);
    rest_for_long();
    exit(0);
    return unused;
}

static void burn(void) {
    volatile unsigned long n = 0;
    while (n < 300000000UL)
        n++;
}

static void lazy_free(void) {
    char *memory = touched((size_t)32 * MIB);
    (void)madvise(memory, (size_t)32 * MIB, MADV_FREE);
    rest_for_long();
}

static void hold_between_rests(void) {
    rest(300);
    char *memory = touched((size_t)32 * MIB);
    rest(300);
    munmap(memory, (size_t)32 * MIB);
    rest(300);
}

static void leave_a_child_behind(bool is_ending) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (is_ending)
            usleep(10000);
        else
            pause();
        _exit(0);
    }
    printf("%d\n", (int)child);
}

static void spike_in_a_child(void) {
    if (fork() == 0) {
        spike(64);
        _exit(0);
    }
    wait(NULL);
}

static void burn_in_a_child(void) {
    if (fork() == 0) {
        burn();
        _exit(0);
    }
    wait(NULL);
}

static void use_a_core_for_200_ms(void) {
    while (clock() < CLOCKS_PER_SEC / 5)
        continue;
}

/* The child that does has lost its parent; returns when somebody else has waited for it. */
static void work_in_an_orphan(void) {
    int ends[2];
    pid_t orphan = 0;
    if (pipe(ends) != 0)
        abort();
    if (fork() == 0) {
        orphan = fork();
        if (orphan == 0)
            use_a_core_for_200_ms();
        else
            (void)write(ends[1], &orphan, sizeof orphan);
        _exit(0);
    }
    wait(NULL);
    if (read(ends[0], &orphan, sizeof orphan) != sizeof orphan)
        abort();
    while (kill(orphan, 0) == 0)
        rest(1);
}

/* Freed before the fork: the pages are those of all five; each child has some of its own. */
static void lazy_then_fork(void) {
    char *memory = touched((size_t)64 * MIB);
    (void)madvise(memory, (size_t)64 * MIB, MADV_FREE);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            (void)touched((size_t)24 * MIB);
            rest(1000);
            _exit(0);
        }
    while (wait(NULL) > 0)
        continue;
}

/* One child after the other uses 0.2 s, and nobody inherits it. */
static void ignore_children(void) {
    (void)signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            use_a_core_for_200_ms();
            _exit(0);
        }
        (void)wait(NULL); /* returns when it has ended */
    }
    rest(100);
}

static int become_another(void *program) {
    execl(program, program, "hold", (char *)NULL);
    return 1;
}

/* After the end of a child that ends without a signal, as a thread does, and runs `program`. */
static void spike_after(char *program) {
    static _Alignas(16) char stack[65536];
    int child = clone(become_another, stack + sizeof stack, 0, program);
    if (child < 0 || waitpid(child, NULL, __WALL) != child)
        abort();
    spike(64);
}

static void *become_another_after_a_spike(void *program) {
    spike(64);
    (void)become_another(program);
    return NULL;
}

static void *call_the_system(void *n) {
    for (long i = 0; i < *(const long *)n; i++)
        (void)syscall(SYS_getppid);
    return NULL;
}

/* From two threads. */
static void call_the_system_twice(const char *text) {
    long n = atol(text);
    pthread_t thread;
    (void)pthread_create(&thread, NULL, call_the_system, &n);
    (void)call_the_system(&n);
    (void)pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "exit") == 0)
        return atoi(argv[2]);
    if (strcmp(what, "spike") == 0)
        argc > 2 ? spike_after(argv[0]) : spike(64);
    else if (strcmp(what, "hold") == 0) {
        touched((size_t)16 * MIB);
        rest_for_long();
    } else if (strcmp(what, "burn-then-hold") == 0) {
        burn();
        touched((size_t)32 * MIB);
        rest_for_long();
    } else if (strcmp(what, "rest-hold-rest") == 0)
        hold_between_rests();
    else if (strcmp(what, "lazy") == 0)
        lazy_free();
    else if (strcmp(what, "crash") == 0)
        raise(SIGSEGV);
    else if (strcmp(what, "hang") == 0)
        pause();
    else if (strcmp(what, "hang-in-another-group") == 0) {
        (void)setpgid(0, getpgid(getppid()));
        rest(600000);
    } else if (strcmp(what, "spike-then-exec") == 0) {
        spike(64);
        execl(argv[0], argv[0], "exit", "0", (char *)NULL);
    } else if (strcmp(what, "spike-then-exec-in-a-thread") == 0) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, become_another_after_a_spike, argv[0]);
        pause();
    } else if (strcmp(what, "first-thread-ends") == 0) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, spike_later, NULL);
        pthread_exit(NULL);
    } else if (strcmp(what, "syscalls") == 0) {
        call_the_system_twice(argv[2]);
    } else if (strcmp(what, "echo") == 0) {
        const char *value = getenv(argv[2]);
        printf("%s\n", value != NULL ? value : "unset");
    } else if (strcmp(what, "address") == 0) {
        printf("%p\n", (void *)&argc);
    } else if (strcmp(what, "leave-a-child") == 0)
        leave_a_child_behind(false);
    else if (strcmp(what, "leave-a-child-that-ends") == 0)
        leave_a_child_behind(true);
    else if (strcmp(what, "spike-in-a-child") == 0)
        spike_in_a_child();
    else if (strcmp(what, "burn-in-a-child") == 0)
        burn_in_a_child();
    else if (strcmp(what, "work-in-an-orphan") == 0) {
        work_in_an_orphan();
        if (argc > 2)
            execl(argv[0], argv[0], argv[2], (char *)NULL);
    } else if (strcmp(what, "burn-child-then-exec") == 0) {
        burn_in_a_child();
        execl(argv[0], argv[0], "exit", "0", (char *)NULL);
    } else if (strcmp(what, "lazy-then-fork") == 0)
        lazy_then_fork();
    else if (strcmp(what, "ignore-children") == 0)
        ignore_children();
    else
        return 99;
    return 0;
}
