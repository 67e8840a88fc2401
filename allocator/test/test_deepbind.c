/* test_deepbind.c - what is loaded with RTLD_DEEPBIND uses exgen too; else dlopen is as ever.
 *
 * test_deepbind FLAVOUR FOLDER [kept].  FOLDER, which no search path but their own names, has
 * deep_module.so and deep_sibling.so, which is linked with exgen.  "kept" is for deepbind:true.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "test.h"

enum {
    N_THREADS = 4
};

extern void *new_of_exgen(size_t size) __asm__("_Znwm");
extern void delete_of_exgen(void *block) __asm__("_ZdlPv");

typedef void *opener(const char *file, int mode);

static char module[4096];
static char sibling[4096];
static pthread_barrier_t ready;

static void *look_up(void *handle, const char *name) {
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;
    if (symbol == NULL)
        fprintf(stderr, "%s\n", dlerror());
    EXPECT(symbol != NULL);
    return symbol;
}

static bool uses_exgen(void *handle) {
    return ((void *(*)(void))look_up(handle, "malloc_here"))() == (void *)malloc;
}

static void exchange_blocks(void *handle) {
    void (*free_there)(void *) = (void (*)(void *))look_up(handle, "free_here");
    void (*delete_there)(void *) = (void (*)(void *))look_up(handle, "delete_here");
    free(((char *(*)(const char *))look_up(handle, "copy_here"))("of the module"));
    free_there(((char *(*)(const char *))look_up(handle, "copy_here"))("of the module"));
    free_there(strdup("of the program"));
    delete_of_exgen(((void *(*)(void))look_up(handle, "new_here"))());
    delete_there(new_of_exgen(100));
}

static void *use_module(void *barrier) {
    if (barrier != NULL)
        pthread_barrier_wait(barrier);
    void *handle = dlopen(module, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    EXPECT(uses_exgen(handle));
    exchange_blocks(handle);
    return NULL;
}

/* The single-threaded library takes one thread, main. */
static void use_from_threads(void) {
    pthread_t threads[N_THREADS];
    EXPECT(pthread_barrier_init(&ready, NULL, N_THREADS) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, use_module, &ready) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void expect_not_found(opener *open_it) {
    EXPECT(open_it("deep_nothing.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
    EXPECT(strcmp(dlerror(), "deep_nothing.so: cannot open shared object file: No such file or "
                             "directory") == 0);
    EXPECT(dlerror() == NULL);
}

/* A library finds another one by its own search path, in its own namespace. */
static void open_neighbour(void *handle, const char *name) {
    opener *open_there = (opener *)look_up(handle, "open_here");
    void *neighbour = open_there(name, RTLD_NOW | RTLD_LOCAL);
    Lmid_t here;
    Lmid_t there;
    look_up(neighbour, "malloc_here");
    EXPECT(dlinfo(handle, RTLD_DI_LMID, &here) == 0);
    EXPECT(dlinfo(neighbour, RTLD_DI_LMID, &there) == 0);
    EXPECT(here == there);
}

int main(int count, char **arguments) {
    EXPECT(count == 3 || count == 4);
    snprintf(module, sizeof module, "%s/deep_module.so", arguments[2]);
    snprintf(sibling, sizeof sibling, "%s/deep_sibling.so", arguments[2]);
    if (count == 4) {
        EXPECT(!uses_exgen(dlopen(module, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)));
        return test_passed();
    }
    if (strcmp(arguments[1], "exgen") == 0)
        use_from_threads();
    use_module(NULL);
    EXPECT(look_up(dlopen(NULL, RTLD_NOW), "malloc") == (void *)malloc);
    expect_not_found(dlopen);
    EXPECT(dlopen("deep_sibling.so", RTLD_NOW) == NULL);
    EXPECT(dlopen(sibling, RTLD_NOW | RTLD_NOLOAD) == NULL);
    void *deep = dlopen(module, RTLD_NOW | RTLD_NOLOAD);
    expect_not_found((opener *)look_up(deep, "open_here"));
    open_neighbour(deep, "deep_sibling.so");
    EXPECT(dlopen(sibling, RTLD_NOW | RTLD_NOLOAD) != NULL);
    void *elsewhere = dlmopen(LM_ID_NEWLM, sibling, RTLD_NOW | RTLD_LOCAL);
    EXPECT(look_up(elsewhere, "malloc") != (void *)malloc);
    open_neighbour(elsewhere, "deep_module.so");
    return test_passed();
}
