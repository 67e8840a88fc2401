/* test_guards.c - with secure:true there is memory beyond the guards that the system allows.
 *
 * Linux bounds the mappings of a process; half of them may be for guards.  The rest is said once.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "exgen.h"
#include "system/os.h"
#include "test.h"

enum {
    N_MAPPINGS_MOST = 1 << 18 /* with more the test would take too long */
};

/* So many that two mappings for each would be too many. */
static size_t count_blocks(void) {
    return os_most_mappings() / 2 + 2000;
}

static char **blocks;

static void allocate_all(size_t n) {
    blocks = os_map(n * sizeof *blocks);
    for (size_t i = 0; i < n; i++) {
        EXPECT((blocks[i] = exgen_malloc(5000)) != NULL);
        memset(blocks[i], (int)i, 5000);
    }
}

/* Freed in an order that leaves holes first. */
static void free_all(size_t n) {
    for (size_t first = 0; first < 2; first++)
        for (size_t i = first; i < n; i += 2) {
            EXPECT(blocks[i][4999] == (char)i);
            exgen_free(blocks[i]);
        }
}

static uint64_t go_on_without_guards(void) {
    size_t n = count_blocks();
    allocate_all(n);
    char *grown = exgen_realloc(exgen_malloc(20000), 90000);
    EXPECT(grown != NULL);
    exgen_free(grown);
    free_all(n);
    EXPECT(exgen_validate_heap());
    return exgen_check_leaks(1) == 0;
}

static uint64_t have_guards_again(void) {
    size_t n = count_blocks();
    allocate_all(n);
    free_all(n);
    char *p = exgen_malloc(5000);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
    *(volatile char *)(p + 8192) = 1;
    return 0;
}

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

int main(void) {
    if (os_most_mappings() > N_MAPPINGS_MOST)
        return 77;
    struct outcome o = run_in_child(go_on_without_guards, "secure:true");
    fprintf(stderr, "%s", o.output);
    EXPECT(o.status == 0 && o.value == 1);
    EXPECT(count_lines(o.output) == 1);
    o = run_in_child(have_guards_again, "secure:true");
    EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGSEGV);
    return test_passed();
}
