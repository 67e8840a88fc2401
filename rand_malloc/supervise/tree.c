/* All processes below this one: see tree.h.  Source: proc(5), prctl(2). */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

enum {
    PATH_ROOM = 64
};

static void add_children_of_thread(struct tree *tree, pid_t pid, int tid) {
    char path[PATH_ROOM];
    int child = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, tid);
    FILE *children = fopen(path, "re");
    if (children == NULL)
        return;
    while (tree->n < TREE_PROCESSES && fscanf(children, "%d", &child) == 1)
        tree->pids[tree->n++] = child;
    fclose(children);
}

/* Returns how many threads the process has. */
static size_t add_children(struct tree *tree, pid_t pid) {
    char path[PATH_ROOM];
    size_t n_threads = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return 0;
    struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
        int tid = atoi(entry->d_name);
        if (tid > 0) {
            add_children_of_thread(tree, pid, tid);
            n_threads++;
        }
    }
    closedir(tasks);
    return n_threads;
}

void tree_walk(struct tree *tree) {
    tree->n = tree->n_threads = 0;
    (void)add_children(tree, getpid());
    tree->n_own = tree->n;
    for (size_t i = 0; i < tree->n; i++) {
        size_t n_threads = add_children(tree, tree->pids[i]);
        if (n_threads > tree->n_threads)
            tree->n_threads = n_threads;
    }
}

static void add_memory(pid_t pid, struct tree_use *use) {
    struct proc_shares shares;
    struct proc_memory memory;
    if (proc_shares(pid, &shares)) {
        use->anon += shares.anon > shares.lazy ? shares.anon - shares.lazy : 0;
        use->lazy += shares.lazy;
        use->shared += shares.shared;
        use->file += shares.file;
    } else if (proc_memory(pid, &memory)) {
        use->anon += memory.anon;
        use->n_unshared++;
    }
}

void tree_measure(const struct tree *tree, struct tree_use *use) {
    *use = (struct tree_use){0};
    for (size_t i = 0; i < tree->n; i++)
        add_memory(tree->pids[i], use);
}

void tree_end(void) {
    static struct tree tree;
    size_t n_sent; /* to children of ours: one of them comes */
    do {
        n_sent = 0;
        tree_walk(&tree);
        for (size_t i = 0; i < tree.n; i++) { /* one that has become root is left */
            bool is_sent = kill(tree.pids[i], SIGKILL) == 0;
            n_sent += is_sent && i < tree.n_own;
        }
    } while (n_sent > 0 && (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR));
}
