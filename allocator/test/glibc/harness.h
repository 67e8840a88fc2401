/* harness.h - what the malloc tests of the GNU C library need of its test harness, in its place.
 *
 * glibc_tests.py names this file as each header of that harness.  A check that fails is counted and
 * said; main is in driver.h.
 */
#ifndef GLIBC_HARNESS_H
#define GLIBC_HARNESS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_failed __attribute__((unused));

#define EXIT_UNSUPPORTED 77

#define HARNESS_SAY(...)                                                                           \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__),                 \
     fputc('\n', stderr))
#define FAIL(...)              (n_failed++, HARNESS_SAY(__VA_ARGS__))
#define FAIL_RET(...)          return (HARNESS_SAY(__VA_ARGS__), 1)
#define FAIL_EXIT(status, ...) (HARNESS_SAY(__VA_ARGS__), exit(status))
#define FAIL_EXIT1(...)        FAIL_EXIT(1, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...)  FAIL_EXIT(EXIT_UNSUPPORTED, __VA_ARGS__)
#define TEST_VERIFY(condition) ((condition) ? (void)0 : (void)FAIL("not true: %s", #condition))
#define TEST_VERIFY_EXIT(condition)                                                                \
    ((condition) ? (void)0 : (void)FAIL_EXIT1("not true: %s", #condition))
#define TEST_COMPARE(left, right)                                                                  \
    ((left) == (right) ? (void)0 : (void)FAIL("differ: %s, %s", #left, #right))
#define TEST_COMPARE_STRING(left, right) TEST_VERIFY(strcmp((left), (right)) == 0)

#define array_length(array)                   (sizeof(array) / sizeof *(array))
#define DIAG_PUSH_NEEDS_COMMENT               _Static_assert(1, "")
#define DIAG_POP_NEEDS_COMMENT                _Static_assert(1, "")
#define DIAG_IGNORE_NEEDS_COMMENT(v, o)       _Static_assert(1, "")
#define DIAG_IGNORE_Os_NEEDS_COMMENT(v, o)    _Static_assert(1, "")
#define DIAG_IGNORE_O_NEEDS_COMMENT(v, l, o)  _Static_assert(1, "")
#define DIAG_PUSH_NEEDS_COMMENT_CLANG         _Static_assert(1, "")
#define DIAG_POP_NEEDS_COMMENT_CLANG          _Static_assert(1, "")
#define DIAG_IGNORE_NEEDS_COMMENT_CLANG(v, o) _Static_assert(1, "")
#define PTR_ALIGN_UP(address, alignment)                                                           \
    ((__typeof__(address))(((unsigned long)(address) + (alignment)-1) &                            \
                           -(unsigned long)(alignment)))

#define PTR_IS_ALIGNED(address, alignment) (((unsigned long)(address) & ((alignment)-1)) == 0)
#define __attribute_optimization_barrier__ __attribute__((noinline))

static inline void ignore_stderr(void) {
    freopen("/dev/null", "w", stderr);
}

static inline void write_message(const char *text) {
    ssize_t n = write(STDOUT_FILENO, text, strlen(text));
    (void)n;
}

static inline int create_temp_file(const char *name, char **path) {
    static char text[64];
    snprintf(text, sizeof text, "/tmp/%s.XXXXXX", name);
    int file = mkstemp(text);
    *path = text;
    return file;
}

static inline void *require(void *result) {
    if (result == NULL)
        FAIL_EXIT1("no memory");
    return result;
}

static inline void require_zero(int result) {
    if (result != 0)
        FAIL_EXIT1("a call failed: %d", result);
}

#define xmalloc(n)                        require((malloc)(n))
#define xcalloc(n, size)                  require((calloc)((n), (size)))
#define xrealloc(block, n)                require((realloc)((block), (n)))
#define xstrdup(text)                     ((char *)require(strdup(text)))
#define xpthread_join(thread)             harness_join(thread)
#define xpthread_barrier_init(b, a, n)    require_zero(pthread_barrier_init((b), (a), (n)))
#define xpthread_barrier_wait(b)          pthread_barrier_wait(b)
#define xpthread_barrier_destroy(b)       require_zero(pthread_barrier_destroy(b))
#define xpthread_barrierattr_init(a)      require_zero(pthread_barrierattr_init(a))
#define xpthread_barrierattr_destroy(a)   require_zero(pthread_barrierattr_destroy(a))
#define xpthread_barrierattr_setpshared   harness_share
#define xpthread_kill(thread, number)     require_zero(pthread_kill((thread), (number)))
#define xpthread_create(attributes, f, a) harness_create((attributes), (f), (a))
#define xsignal(number, handler)          signal((number), (handler))
#define xmunmap(start, n)                 require_zero(munmap((start), (n)))
#define xsysconf(name)                    sysconf(name)
#define xasprintf                         harness_format

static inline pthread_t harness_create(pthread_attr_t *attributes, void *(*function)(void *),
                                       void *argument) {
    pthread_t thread;
    require_zero(pthread_create(&thread, attributes, function, argument));
    return thread;
}

static inline void *harness_join(pthread_t thread) {
    void *result;
    require_zero(pthread_join(thread, &result));
    return result;
}

static inline void harness_share(pthread_barrierattr_t *attributes, int shared) {
    require_zero(pthread_barrierattr_setpshared(attributes, shared));
}

static inline pid_t xfork(void) {
    pid_t child = fork();
    if (child < 0)
        FAIL_EXIT1("fork: %s", strerror(errno));
    return child;
}

static inline void xwaitpid(pid_t child, int *status, int flags) {
    if (waitpid(child, status, flags) != child)
        FAIL_EXIT1("waitpid: %s", strerror(errno));
}

static inline void xsetrlimit_as(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    require_zero(setrlimit(RLIMIT_AS, &limit));
}

#define harness_format(...)                                                                        \
    ({                                                                                             \
        char *text;                                                                                \
        if (asprintf(&text, __VA_ARGS__) < 0)                                                      \
            FAIL_EXIT1("no memory");                                                               \
        text;                                                                                      \
    })

#endif
