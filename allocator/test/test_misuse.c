/* test_misuse.c - each mistake a program can make with free ends in its message and SIGABRT. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "exgen.h"
#include "test.h"

static char in_static_memory[64];

static uint64_t double_free_at_once(void) {
    char *keep = exgen_malloc(40);
    char *p = exgen_malloc(40);
    exgen_free(p);
    expect_message("double free", p);
    exgen_free(p);
    return keep != NULL;
}

static uint64_t double_free_later(void) {
    char *keep = exgen_malloc(40);
    char *p = exgen_malloc(40);
    char *q = exgen_malloc(40);
    exgen_free(p);
    exgen_free(q);
    expect_message("double free", p);
    exgen_free(p);
    return keep != NULL;
}

static uint64_t double_free_of_last_block(void) {
    char *keep = exgen_malloc(40);
    char *p = exgen_malloc(3000);
    exgen_free(p);
    exgen_purge();
    expect_message("double free", p);
    exgen_free(p);
    return keep != NULL;
}

static uint64_t double_free_of_run(void) {
    char *p = exgen_malloc(100000);
    exgen_free(p);
    expect_message("double free", p);
    exgen_free(p);
    return 0;
}

static uint64_t double_free_of_large(void) {
    char *p = exgen_malloc(10000000);
    exgen_free(p);
    expect_message("invalid free, not a block of this heap", p);
    exgen_free(p);
    return 0;
}

static uint64_t free_of_static_memory(void) {
    expect_message("invalid free, not a block of this heap", in_static_memory + 16);
    exgen_free(in_static_memory + 16);
    return 0;
}

static uint64_t free_of_stack(void) {
    char local[64];
    memset(local, 1, sizeof local);
    void *volatile p = local;
    exgen_free(exgen_malloc(1));
    expect_message("invalid free, not a block of this heap", p);
    exgen_free(p);
    return 0;
}

static uint64_t free_of_interior(void) {
    char *p = exgen_malloc(100);
    expect_message("invalid free, inside a block", p + 16);
    exgen_free(p + 16);
    return 0;
}

static uint64_t free_of_interior_of_run(void) {
    char *p = exgen_malloc(100000);
    expect_message("invalid free, inside a block", p + 65536);
    exgen_free(p + 65536);
    return 0;
}

static uint64_t free_of_untouched(void) {
    char *p = exgen_malloc(100);
    expect_message("invalid free, not a block of this heap", p + 112 * 100);
    exgen_free(p + 112 * 100);
    return 0;
}

static uint64_t free_of_wrong_size(void) {
    char *p = exgen_malloc(100);
    expect_message("size given to free is larger than the block", p);
    exgen_free_sized(p, 200);
    return 0;
}

static uint64_t realloc_of_foreign(void) {
    expect_message("not a block of this heap", in_static_memory + 16);
    return exgen_realloc(in_static_memory + 16, 10) != NULL;
}

/* --- links of free blocks that a program overwrites --- */

/* Free two blocks, overwrite a link with `wrong`, allocate until it is used. */
static uint64_t use_overwritten_link(uintptr_t wrong, size_t n_bytes) {
    void *volatile keep = exgen_malloc(40);
    char *p = exgen_malloc(40);
    char *volatile q = exgen_malloc(40);
    memset(keep, 1, 40); /* used, so that it does not look like the overwritten one */
    exgen_free(p);
    exgen_free(q);
    memcpy(q, &wrong, n_bytes);
    expect_message("corrupted free list", q);
    for (size_t i = 0; i < 1000; i++)
        exgen_malloc(40);
    return keep != NULL;
}

static uint64_t overwritten_link_text(void) {
    return use_overwritten_link((uintptr_t)0x4141414141414141, sizeof(uintptr_t));
}

static uint64_t overwritten_link_zero(void) {
    return use_overwritten_link(0, sizeof(uintptr_t));
}

static uint64_t overwritten_link_pointer(void) {
    return use_overwritten_link((uintptr_t)exgen_malloc(40), sizeof(uintptr_t));
}

static char *sent[100];

static void *free_sent(void *unused) {
    for (size_t i = 0; i < 100; i++)
        exgen_free(sent[i]);
    return unused;
}

static uint64_t overwritten_link_of_sent_block(void) {
    pthread_t thread;
    for (size_t i = 0; i < 100; i++)
        sent[i] = exgen_malloc(40);
    pthread_create(&thread, NULL, free_sent, NULL);
    pthread_join(thread, NULL);
    memset(sent[50], 'A', 40);
    expect_message("corrupted free list", sent[50]);
    for (size_t i = 0; i < 1000; i++)
        exgen_malloc(40);
    return 0;
}

static const struct {
    const char *conf;
    scenario run;
} cases[] = {
    {"", double_free_at_once},
    {"check:true", double_free_at_once},
    {"check:true", double_free_later},
    {"", double_free_of_last_block},
    {"check:true", double_free_of_last_block},
    {"", double_free_of_run},
    {"check:true", double_free_of_run},
    {"", double_free_of_large},
    {"", free_of_static_memory},
    {"", free_of_stack},
    {"check:true", free_of_interior},
    {"check:true", free_of_interior_of_run},
    {"check:true", free_of_untouched},
    {"check:true", free_of_wrong_size},
    {"", realloc_of_foreign},
    {"", overwritten_link_text},
    {"", overwritten_link_zero},
    {"", overwritten_link_pointer},
    {"", overwritten_link_of_sent_block},
};

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = run_in_child(cases[i].run, cases[i].conf);
        fprintf(stderr, "case %zu: %s", i, o.output);
        EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGABRT);
        EXPECT(strcmp(o.output, o.expected) == 0);
    }
    return test_passed();
}
