/* test_dlopen.c - the library may come late: dlopen, use from threads, dlclose.
 *
 * test_dlopen LIBRARY.  The program keeps the C library's malloc for itself, as one that
 * loads exgen through a plug-in does.  Threads that used the library end
 * after dlclose, so its code must still be there for them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

enum {
    N_THREADS = 4
};

static struct {
    void *(*allocate)(size_t);
    void (*release)(void *);
    int (*validate)(void);
} library;

static pthread_barrier_t used;
static pthread_barrier_t closed;

static void *look_up(void *handle, const char *name) {
    void *symbol = dlsym(handle, name);
    EXPECT(symbol != NULL);
    return symbol;
}

static void use(size_t n) {
    for (size_t i = 1; i < n; i++) {
        void *own = malloc(i * 7);
        void *block = library.allocate(i * 31);
        EXPECT(own != NULL && block != NULL);
        memset(own, 1, i * 7);
        memset(block, 2, i * 31);
        library.release(block);
        free(own);
    }
}

static void *use_and_outlive(void *block_of_main) {
    use(2000);
    library.release(block_of_main);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

/* The single-threaded library takes one thread, main. */
static void use_from_threads(void *handle) {
    pthread_t threads[N_THREADS];
    EXPECT(pthread_barrier_init(&used, NULL, N_THREADS + 1) == 0);
    EXPECT(pthread_barrier_init(&closed, NULL, N_THREADS + 1) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, use_and_outlive, library.allocate(100)) == 0);
    pthread_barrier_wait(&used);
    EXPECT(library.validate());
    EXPECT(dlclose(handle) == 0);
    pthread_barrier_wait(&closed);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    void *handle = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    EXPECT(handle != NULL);
    *(void **)&library.allocate = look_up(handle, "exgen_malloc");
    *(void **)&library.release = look_up(handle, "exgen_free");
    *(void **)&library.validate = look_up(handle, "exgen_validate_heap");
    EXPECT(look_up(handle, "malloc") != (void *)malloc);
    use(2000);
    if (strstr(arguments[1], "exgen-st") == NULL)
        use_from_threads(handle);
    else
        EXPECT(dlclose(handle) == 0);
    use(100);
    return test_passed();
}
