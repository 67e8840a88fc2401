/* A program to be measured: does the one thing its first argument names. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    rest(50);
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
    rest(400);
}

static void hold_between_rests(void) {
    rest(300);
    char *memory = touched((size_t)32 * MIB);
    rest(300);
    munmap(memory, (size_t)32 * MIB);
    rest(300);
}

static void leave_a_child_behind(void) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
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

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "exit") == 0)
        return atoi(argv[2]);
    if (strcmp(what, "spike") == 0)
        spike(64);
    else if (strcmp(what, "hold") == 0) {
        touched((size_t)16 * MIB);
        rest(300);
    } else if (strcmp(what, "burn-then-hold") == 0) {
        burn();
        touched((size_t)32 * MIB);
        rest(3000);
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
        rest(3000);
    } else if (strcmp(what, "spike-then-exec") == 0) {
        spike(64);
        execl(argv[0], argv[0], "exit", "0", (char *)NULL);
    } else if (strcmp(what, "first-thread-ends") == 0) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, spike_later, NULL);
        pthread_exit(NULL);
    } else if (strcmp(what, "echo") == 0) {
        const char *value = getenv(argv[2]);
        printf("%s\n", value != NULL ? value : "unset");
    } else if (strcmp(what, "address") == 0) {
        printf("%p\n", (void *)&argc);
    } else if (strcmp(what, "leave-a-child") == 0)
        leave_a_child_behind();
    else if (strcmp(what, "spike-in-a-child") == 0)
        spike_in_a_child();
    else if (strcmp(what, "burn-in-a-child") == 0)
        burn_in_a_child();
    else
        return 99;
    return 0;
}
