/* test_libc_report.c - mallinfo2 and its relatives speak of our heap, in every library.
 *
 * The C library's own would speak of its heap, in which next to nothing is.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    N_BLOCKS = 1000,
    BYTES = 1000,
    LARGE = 50000000,
    ARENA_LEAST = 1 << 20
};

static char *blocks[N_BLOCKS];

static void count_blocks(void) {
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = memset(malloc(BYTES), 1, BYTES);
    char *large = malloc(LARGE);
    struct mallinfo2 after = mallinfo2();
    EXPECT(after.uordblks - before.uordblks >= (size_t)N_BLOCKS * BYTES);
    EXPECT(after.uordblks - before.uordblks < (size_t)N_BLOCKS * BYTES * 5 / 4);
    EXPECT(after.hblks == before.hblks + 1 && after.hblkhd - before.hblkhd >= LARGE);
    EXPECT(after.arena >= ARENA_LEAST && after.uordblks + after.fordblks == after.arena);
    free(large);
    EXPECT(mallinfo2().hblks == before.hblks);
}

static void count_in_ints(void) {
    char *large = malloc((size_t)3 << 30); /* beyond an int; never touched */
    EXPECT(large != NULL && mallinfo2().hblkhd >= (size_t)3 << 30);
    struct mallinfo info = mallinfo();
    EXPECT(info.hblkhd == 0x7fffffff && info.uordblks > N_BLOCKS * BYTES);
    free(large);
}

static void print_xml(void) {
    char xml[4096] = "";
    unsigned long n = 0;
    unsigned long bytes = 0;
    char *large = malloc(LARGE);
    FILE *file = tmpfile();
    EXPECT(file != NULL && malloc_info(0, file) == 0);
    rewind(file);
    EXPECT(fread(xml, 1, sizeof xml - 1, file) > 0);
    const char *mapped = strstr(xml, "<total type=\"mmap\"");
    EXPECT(strncmp(xml, "<malloc version=\"1\">", 20) == 0 && mapped != NULL);
    EXPECT(sscanf(mapped, "<total type=\"mmap\" count=\"%lu\" size=\"%lu\"/>", &n, &bytes) == 2);
    EXPECT(n >= 1 && bytes >= LARGE);
    errno = 0;
    EXPECT(malloc_info(1, file) != 0 && errno == EINVAL);
    fclose(file);
    free(large);
}

static void print_stats(void) {
    char text[4096] = "";
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    EXPECT(file != NULL && saved >= 0 && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
    malloc_stats();
    dup2(saved, STDERR_FILENO);
    rewind(file);
    EXPECT(fread(text, 1, sizeof text - 1, file) > 0);
    EXPECT(strstr(text, "exgen: blocks in use:") != NULL);
    fclose(file);
    close(saved);
}

static void give_back(void) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        free(blocks[i]);
    EXPECT(malloc_trim(0) == 1);
    EXPECT(malloc_trim(0) == 0);
}

/* Neither malloc, the first one either, nor malloc_stats may be a cancellation point: programs hold
 * locks there. */
static void is_no_cancellation_point(void (*call)(void)) {
    enum {
        REACHED = 7
    };
    int status = 0;
    int state;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        pthread_cancel(pthread_self());
        call();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        _exit(REACHED);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == REACHED);
}

static void allocate(void) {
    blocks[0] = malloc(1);
}

int main(void) {
    is_no_cancellation_point(allocate);
    is_no_cancellation_point(malloc_stats);
    count_blocks();
    count_in_ints();
    print_xml();
    print_stats();
    EXPECT(mallopt(M_TRIM_THRESHOLD, -1) == 1); /* real-time programs end at 0 */
    give_back();
    return test_passed();
}
