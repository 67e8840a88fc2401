/* test_early.c - a program that allocates before it has an environment gets its settings, too.
 *
 * Functions of .preinit_array run before the C library sets up `environ`.  The program runs itself
 * again with EXGEN_CONF behind more and more of an environment, so that it lies across every
 * border of what is read at a time.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    LONGEST = 70000,
    WITH_SETTING = 0,
    WITHOUT_SETTING = 3
};

static void allocate_early(void) {
    exgen_free(exgen_malloc(1));
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = allocate_early;

static int run_behind(char *program, size_t n) {
    static char filling[LONGEST + 3];
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        char *arguments[] = {program, "again", NULL};
        char *environment[] = {filling, "EXGEN_CONF=abort_conf:true,purge_delay:4321", NULL};
        memset(filling, 'x', n + 2);
        filling[1] = '=';
        execve(program, arguments, environment);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int count, char **arguments) {
    static char json[16384];
    if (count == 2) {
        exgen_config_json(json, sizeof json);
        return strstr(json, "\"purge_delay\":4321") != NULL ? WITH_SETTING : WITHOUT_SETTING;
    }
    for (size_t n = 16300; n < 16400; n++)
        EXPECT(run_behind(arguments[0], n) == WITH_SETTING);
    EXPECT(run_behind(arguments[0], 0) == WITH_SETTING);
    EXPECT(run_behind(arguments[0], LONGEST) == WITH_SETTING);
    return test_passed();
}
