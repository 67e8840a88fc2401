/* test_vfork.c - a child of vfork that allocates leaves its parent's heap as it should be.
 *
 * The child borrows the parent's memory and thread, so its blocks are the parent's.  What
 * it allocates the parent frees, and the other way round; then the child runs
 * another program or ends.  Linked with the real library under its standard names.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

static char *volatile from_child;
static char *volatile from_parent;
static char *volatile large_from_child;

static void allocate_in_child(size_t size) {
    free(from_parent);
    from_child = malloc(size);
    memset(from_child, 'c', size);
    large_from_child = calloc(1, 3000000);
    large_from_child[2999999] = 'c';
}

/* Ends by _exit, or by running a shell with `runs_program`; the exit status. */
static int vfork_once(size_t size, int runs_program) {
    from_parent = malloc(size);
    pid_t pid = vfork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        allocate_in_child(size);
        if (runs_program)
            execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(7);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(void) {
    for (size_t i = 0; i < 60; i++) {
        size_t size = 1 + i * i * 40;
        EXPECT(vfork_once(size, (int)(i % 2)) == 7);
        EXPECT(from_child[0] == 'c' && from_child[size - 1] == 'c');
        EXPECT(large_from_child[0] == 0 && large_from_child[2999999] == 'c');
        free(from_child);
        free(large_from_child);
        EXPECT(exgen_validate_heap());
    }
    return test_passed();
}
