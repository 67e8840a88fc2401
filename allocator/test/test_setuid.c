/* test_setuid.c - a program with more rights than its caller ignores the caller's settings.
 *
 * The program copies itself, gives the copy to another user with the set-user-ID bit and runs it:
 * the kernel then sets AT_SECURE.  Needs root and a file system that honours the bit;
 * elsewhere the test says so and is skipped.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    SKIPPED = 77, /* as CTest is told */
    NOT_SECURE = 3,
    ANYBODY = 65534
};

static char configuration[16384];

static const char *read_configuration(void) {
    exgen_free(exgen_malloc(1));
    exgen_config_json(configuration, sizeof configuration);
    return configuration;
}

/* In the copy: 0 if the setting of the caller had no effect. */
static int in_copy(void) {
    if (getauxval(AT_SECURE) == 0)
        return NOT_SECURE;
    return strstr(read_configuration(), "\"purge_delay\":4321") == NULL ? 0 : 1;
}

static void copy_program(const char *path) {
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    EXPECT(from >= 0 && to >= 0);
    while (sendfile(to, from, NULL, (size_t)1 << 20) > 0) {
    }
    EXPECT(fchown(to, ANYBODY, ANYBODY) == 0 && fchmod(to, 04755) == 0);
    close(from);
    close(to);
}

static int run(char *path) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        char *arguments[] = {path, "copy", NULL};
        char *environment[] = {"EXGEN_CONF=purge_delay:4321", NULL};
        execve(path, arguments, environment);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "copy") == 0)
        _exit(in_copy()); /* without a look for leaks at exit, which such a program may not take */
    if (geteuid() != 0) {
        printf("skipped: only root can give a program to another user\n");
        return SKIPPED;
    }
    char folder[] = "/tmp/exgen-setuid-XXXXXX";
    char path[sizeof folder + 8];
    EXPECT(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0);
    snprintf(path, sizeof path, "%s/copy", folder);
    copy_program(path);
    int status = run(path);
    unlink(path);
    rmdir(folder);
    if (status == NOT_SECURE) {
        printf("skipped: /tmp does not honour the set-user-ID bit\n");
        return SKIPPED;
    }
    EXPECT(status == 0);

    /* The same setting counts where the caller has the same rights. */
    setenv("EXGEN_CONF", "purge_delay:4321", 1);
    EXPECT(strstr(read_configuration(), "\"purge_delay\":4321") != NULL);
    return test_passed();
}
