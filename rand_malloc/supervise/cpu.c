/* CPU time: see cpu.h.  Source: proc(5), getrusage(2). */
#include "cpu.h"

#include <unistd.h>

#include "proc.h"

/* The entry of that process; started 0: whichever has the number. */
static struct cpu_entry *find(struct cpu_account *account, pid_t pid, uint64_t started) {
    for (size_t i = 0; i < account->n; i++) {
        struct cpu_entry *entry = &account->entries[i];
        if (entry->pid == pid && (started == 0 || entry->started == started))
            return entry;
    }
    return NULL;
}

static struct cpu_entry *append(struct cpu_account *account, pid_t pid, uint64_t started) {
    if (account->n == sizeof account->entries / sizeof account->entries[0])
        return NULL;
    struct cpu_entry *entry = &account->entries[account->n++];
    *entry = (struct cpu_entry){.pid = pid, .started = started};
    return entry;
}

/* One that ended after the walk counts as it was, unless its parent has its time already. */
static void keep_until_next_walk(struct cpu_account *account, pid_t pid) {
    struct cpu_entry *entry = find(account, pid, 0);
    if (entry == NULL)
        return;
    const struct cpu_entry *parent = find(account, entry->parent, 0);
    entry->is_there = parent == NULL || !parent->inherits;
}

static void read_process(struct cpu_account *account, pid_t pid) {
    struct proc_counts counts;
    uint64_t own_ns = proc_cpu_ns(pid);
    if (!proc_counts(pid, &counts)) {
        keep_until_next_walk(account, pid);
        return;
    }
    uint64_t children_ns = counts.children_user_ns + counts.children_system_ns;
    struct cpu_entry *entry = find(account, pid, counts.started);
    bool is_known = entry != NULL;
    if (!is_known)
        entry = append(account, pid, counts.started);
    if (entry == NULL)
        return;
    entry->inherits = is_known && children_ns != entry->children_ns;
    entry->parent = counts.parent;
    entry->children_ns = children_ns;
    entry->used_ns = (own_ns > 0 ? own_ns : counts.user_ns + counts.system_ns) + children_ns;
    entry->is_there = true;
}

/* Moves what the processes used that are gone to their parents, as long as these show nothing. */
static void remove_gone(struct cpu_account *account) {
    size_t n = 0;
    for (size_t i = 0; i < account->n; i++) {
        const struct cpu_entry *gone = &account->entries[i];
        struct cpu_entry *parent = find(account, gone->parent, 0);
        if (!gone->is_there && parent != NULL && parent->is_there)
            parent->missing_ns += gone->used_ns;
    }
    for (size_t i = 0; i < account->n; i++)
        if (account->entries[i].is_there)
            account->entries[n++] = account->entries[i];
    account->n = n;
}

/* Nobody will inherit what should have shown by now. */
static void take_lost(struct cpu_account *account) {
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    for (size_t i = 0; i < account->n; i++) {
        struct cpu_entry *entry = &account->entries[i];
        if (!entry->inherits && entry->missing_ns < 2 * tick_ns)
            continue;
        account->lost_ns += entry->inherits ? 0 : entry->missing_ns;
        entry->missing_ns = 0;
    }
}

static uint64_t ns_of(struct timeval time) {
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * UINT64_C(1000);
}

struct cpu_use cpu_of(const struct rusage *usage) {
    return (struct cpu_use){ns_of(usage->ru_utime), ns_of(usage->ru_stime)};
}

struct cpu_use cpu_reaped(void) {
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    return cpu_of(&usage);
}

uint64_t cpu_of_tree(struct cpu_account *account, const struct tree *tree) {
    struct cpu_use ended = cpu_reaped();
    uint64_t total_ns = ended.user_ns + ended.system_ns + account->lost_ns;
    for (size_t i = 0; i < account->n; i++)
        account->entries[i].is_there = false;
    for (size_t i = 0; i < tree->n; i++)
        read_process(account, tree->pids[i]);
    remove_gone(account);
    take_lost(account);
    for (size_t i = 0; i < account->n; i++)
        total_ns += account->entries[i].used_ns;
    if (total_ns > account->total_ns)
        account->total_ns = total_ns;
    return account->total_ns;
}
