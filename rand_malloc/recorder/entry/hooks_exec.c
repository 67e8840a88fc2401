/* hooks_exec.c - exec in the recorded process goes on recording.
 *
 * Start scripts end in `exec program`: the program that matters is the last image
 * of the process.  Our variables are not in the environment the program sees
 * (start.c takes them out), so the exec functions put them into the copy that
 * the new image gets.  Children that are made to run something else are other
 * processes: they get nothing, unless all are followed; then those of posix_spawn
 * get it, too, whose environment may be one of their own.
 *
 * The functions may run between vfork and exec: they only use the stack.
 * Limit: a program that makes the system call itself is not continued.
 */
#include "base/symbols.h"
#include "process/process.h"
#include "touch/touch.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
                           const posix_spawnattr_t *, char *const[], char *const[]);

static struct {
    int (*execve)(const char *path, char *const argv[], char *const envp[]);
    int (*execvpe)(const char *file, char *const argv[], char *const envp[]);
    int (*fexecve)(int fd, char *const argv[], char *const envp[]);
    int (*execveat)(int folder, const char *path, char *const argv[], char *const envp[],
                    int flags);
    spawn_function *posix_spawn;
    spawn_function *posix_spawnp;
} real_exec;

/* dlsym is not made for the time after a vfork: look up before the program runs. */
__attribute__((constructor)) static void look_up(void) {
    void *found[] = {dlsym(RTLD_NEXT, "execve"),      dlsym(RTLD_NEXT, "execvpe"),
                     dlsym(RTLD_NEXT, "fexecve"),     dlsym(RTLD_NEXT, "execveat"),
                     dlsym(RTLD_NEXT, "posix_spawn"), dlsym(RTLD_NEXT, "posix_spawnp")};
    _Static_assert(sizeof found == sizeof real_exec, "one pointer for each");
    memcpy(&real_exec, found, sizeof real_exec);
}

/* The constructor of another library may exec before ours has run. */
static bool is_ready(void) {
    if (real_exec.execve == NULL)
        look_up();
    return real_exec.execve != NULL;
}

static int missing(void) {
    errno = ENOSYS;
    return -1;
}

/* ---- the environment of the new image ---- */

/* The value of LD_PRELOAD in envp, or "". */
static const char *preload_of(char *const envp[]) {
    for (; envp != NULL && *envp != NULL; envp++)
        if (strncmp(*envp, PRELOAD_VARIABLE, sizeof PRELOAD_VARIABLE - 1) == 0)
            return *envp + sizeof PRELOAD_VARIABLE - 1;
    return "";
}

static size_t count_words(char *const words[]) {
    size_t n = 0;
    while (words != NULL && words[n] != NULL)
        n++;
    return n;
}

/* Room for the list: what is there, two more, and the end. */
static size_t list_length(char *const envp[]) {
    return count_words(envp) + 3;
}

static size_t text_length(char *const envp[]) {
    return sizeof PRELOAD_VARIABLE + strlen(process_library()) + 1 + strlen(preload_of(envp)) +
           process_setting_bytes();
}

/* Puts us in front of the libraries that envp preloads, unless we are among them; returns the end
 * of the text, its NUL included. */
static char *write_preload(char *const envp[], char *text) {
    const char *theirs = preload_of(envp);
    char *end = stpcpy(text, PRELOAD_VARIABLE);
    if (strstr(theirs, process_library()) != NULL) /* followed: it is there already */
        return stpcpy(end, theirs) + 1;
    end = stpcpy(end, process_library());
    if (theirs[0] != '\0')
        end = stpcpy(stpcpy(end, ":"), theirs);
    return end + 1;
}

/* Fills list and text (of the lengths above) with envp and our variables; returns
 * envp itself where recording does not go on. */
static char *const *with_variables(char *const envp[], char **list, char *text) {
    if (!process_continues_in_new_image())
        return envp;
    char *setting = write_preload(envp, text);
    process_write_setting(setting);
    size_t n = 0;
    list[n++] = text;
    list[n++] = setting;
    for (; envp != NULL && *envp != NULL; envp++)
        if (strncmp(*envp, PRELOAD_VARIABLE, sizeof PRELOAD_VARIABLE - 1) != 0 &&
            strncmp(*envp, RECORD_VARIABLE, sizeof RECORD_VARIABLE - 1) != 0)
            list[n++] = *envp;
    list[n] = NULL;
    return list;
}

/* The same for this process, which ends as what it is. */
static char *const *with_recorder(char *const envp[], char **list, char *text) {
    touch_survey();
    process_ends(true);
    return with_variables(envp, list, text);
}

/* An exec that returns has failed, with the errno that says why. */
static int returned(int status) {
    int saved_errno = errno;
    process_goes_on();
    errno = saved_errno;
    return status;
}

/* ---- functions that take a list of arguments ---- */

RECORDER_EXPORT int execve(const char *path, char *const argv[], char *const envp[]) {
    char *list[list_length(envp)];
    char text[text_length(envp)];
    if (!is_ready())
        return missing();
    return returned(real_exec.execve(path, argv, with_recorder(envp, list, text)));
}

RECORDER_EXPORT int execv(const char *path, char *const argv[]) {
    return execve(path, argv, environ);
}

RECORDER_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[]) {
    char *list[list_length(envp)];
    char text[text_length(envp)];
    if (!is_ready() || real_exec.execvpe == NULL)
        return missing();
    return returned(real_exec.execvpe(file, argv, with_recorder(envp, list, text)));
}

RECORDER_EXPORT int execvp(const char *file, char *const argv[]) {
    return execvpe(file, argv, environ);
}

RECORDER_EXPORT int fexecve(int fd, char *const argv[], char *const envp[]) {
    char *list[list_length(envp)];
    char text[text_length(envp)];
    if (!is_ready() || real_exec.fexecve == NULL)
        return missing();
    return returned(real_exec.fexecve(fd, argv, with_recorder(envp, list, text)));
}

RECORDER_EXPORT int execveat(int folder, const char *path, char *const argv[], char *const envp[],
                             int flags) {
    char *list[list_length(envp)];
    char text[text_length(envp)];
    if (!is_ready() || real_exec.execveat == NULL)
        return missing();
    return returned(real_exec.execveat(folder, path, argv, with_recorder(envp, list, text), flags));
}

static int spawn(spawn_function *const *real, pid_t *pid, const char *path,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const argv[], char *const envp[]) {
    if (!is_ready() || *real == NULL)
        return ENOSYS;
    if (!process_is_following()) /* on the stack of the program's alone */
        return (*real)(pid, path, actions, attributes, argv, envp);
    char *list[list_length(envp)];
    char text[text_length(envp)];
    int status = (*real)(pid, path, actions, attributes, argv, with_variables(envp, list, text));
    int saved_errno = errno;
    process_has_spawned();
    errno = saved_errno;
    return status;
}

RECORDER_EXPORT int posix_spawn(pid_t *pid, const char *path,
                                const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const argv[],
                                char *const envp[]) {
    return spawn(&real_exec.posix_spawn, pid, path, actions, attributes, argv, envp);
}

RECORDER_EXPORT int posix_spawnp(pid_t *pid, const char *file,
                                 const posix_spawn_file_actions_t *actions,
                                 const posix_spawnattr_t *attributes, char *const argv[],
                                 char *const envp[]) {
    return spawn(&real_exec.posix_spawnp, pid, file, actions, attributes, argv, envp);
}

/* ---- functions that take their arguments one by one ---- */

/* Words up to the NULL, the first one included. */
static size_t count_arguments(const char *first, va_list arguments) {
    size_t n = first != NULL;
    while (n > 0 && va_arg(arguments, char *) != NULL)
        n++;
    return n;
}

/* Runs execve or execvpe with a list of words; an environment follows their NULL, or the
 * program's own is taken. */
static int exec_list(int (*run)(const char *, char *const[], char *const[]), const char *path,
                     const char *first, va_list arguments, bool has_environment) {
    va_list counted;
    va_copy(counted, arguments);
    size_t n = count_arguments(first, counted);
    va_end(counted);
    char *argv[n + 1];
    memcpy(argv, &first, sizeof first); /* drops the const that execv does not have */
    for (size_t i = 1; i <= n; i++)
        argv[i] = va_arg(arguments, char *);
    return run(path, argv, has_environment ? va_arg(arguments, char *const *) : environ);
}

RECORDER_EXPORT int execl(const char *path, const char *first, ...) {
    va_list arguments;
    va_start(arguments, first);
    int status = exec_list(execve, path, first, arguments, false);
    va_end(arguments);
    return status;
}

RECORDER_EXPORT int execlp(const char *file, const char *first, ...) {
    va_list arguments;
    va_start(arguments, first);
    int status = exec_list(execvpe, file, first, arguments, false);
    va_end(arguments);
    return status;
}

RECORDER_EXPORT int execle(const char *path, const char *first, ...) {
    va_list arguments;
    va_start(arguments, first);
    int status = exec_list(execve, path, first, arguments, true);
    va_end(arguments);
    return status;
}

/* ---- end without exit handlers ---- */

/* The real one, or the system call that it is. */
static _Noreturn void end_process(int status) {
    touch_survey();
    process_ends(true);
    for (;;)
        syscall(SYS_exit_group, status);
}

RECORDER_EXPORT _Noreturn void _exit(int status) {
    end_process(status);
}

RECORDER_EXPORT _Noreturn void _Exit(int status) {
    end_process(status);
}
