/* main.c - rand_malloc: replays an allocation trace against any malloc and reports.
 *
 * The invocation a user makes is the supervisor: it decodes the trace, starts this
 * executable again as the replayer (replayer.c) for each run, and prints one JSON object.
 * With REPLAYER_ARGUMENT it is the replayer.
 */
#include "calibrate.h"
#include "huge_pages.h"
#include "instruments/instrument.h"
#include "json.h"
#include "kept.h"
#include "message.h"
#include "replayer.h"
#include "result.h"
#include "warm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ld.so splits LD_PRELOAD at these; it also ignores a missing file. */
static int check_preload_path(const struct options *options) {
    if (options->preload == NULL)
        return EXIT_OK;
    if (strpbrk(options->preload, ": ") != NULL)
        return complain(EXIT_PRELOAD, options->preload,
                        "a path with a colon or a space cannot be preloaded");
    if (strchr(options->preload, '/') == NULL)
        return complain(EXIT_PRELOAD, options->preload, "give the library's path, not its name");
    if (access(options->preload, R_OK) != 0)
        return complain(EXIT_PRELOAD, options->preload, "%m");
    return EXIT_OK;
}

/* What an option overwrites is a plan, of whatever rand_malloc: the last byte counts layouts. */
static int check_output(const char *path) {
    const uint64_t magic = PLAN_MAGIC;
    uint64_t found = 0;
    struct stat status;
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return EXIT_OK;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n_read = descriptor < 0 ? -1 : read(descriptor, &found, sizeof found);
    if (descriptor >= 0)
        close(descriptor);
    if (n_read == 0 || (n_read > 0 && memcmp(&found, &magic, sizeof magic - 1) == 0))
        return EXIT_OK;
    return complain(EXIT_USAGE, path, "holds no plan and is left as it is: name another file");
}

static int run_memory_once(const struct options *options, const struct workload *workload,
                           struct run *run) {
    *run = (struct run){.options = options, .workload = workload, .kind = RUN_MEMORY};
    int code = run_open(run);
    struct huge_pages before = huge_pages_read();
    if (code == EXIT_OK)
        code = run_execute(run, NULL);
    if (options->keeps_thp)
        run->huge_pages = huge_pages_since(before);
    return code == EXIT_OK ? run_verdict(run) : code;
}

/* Again where the kernel was short of huge pages or made some itself meanwhile: the next
 * run need not meet with that. */
static int run_memory(const struct options *options, const struct workload *workload,
                      struct run *run, struct heap_figures *heap) {
    int code = run_memory_once(options, workload, run);
    for (int attempt = 1;
         attempt < HUGE_PAGES_ATTEMPTS && code == EXIT_OK && huge_pages_interfered(run->huge_pages);
         attempt++) {
        run_close(run);
        code = run_memory_once(options, workload, run);
    }
    if (code == EXIT_OK)
        run_print_log(run);
    if (code == EXIT_OK && !heap_figures(run, heap))
        code = complain(EXIT_REPLAY, "result", "not enough memory");
    return code;
}

/* Both runs saw the same contents, or one of them is wrong. */
static int check_agreement(const struct run *memory, const struct counted *counted) {
    if (memory->outcome == NULL || counted->checksum == memory->outcome->checksum)
        return EXIT_OK;
    return complain(EXIT_REPLAY, "replay", "the two runs verified different contents");
}

static int measure(const struct options *options, const struct workload *workload,
                   struct run *memory, struct heap_figures *heap) {
    static struct counted counted;
    struct result result = {.options = options, .workload = workload};
    int code = EXIT_OK;
    if (options->wants_memory) {
        code = run_memory(options, workload, memory, heap);
        result.memory = memory;
        result.heap = heap;
    }
    if (code == EXIT_OK && options->wants_count && options->instrument != INSTRUMENT_NONE) {
        code = instrument_count(options, workload, &counted);
        if (code == EXIT_OK)
            code = check_agreement(memory, &counted);
        result.counted = &counted;
    }
    return code == EXIT_OK ? result_print(&result) : code;
}

static int load(const struct options *options, struct workload *workload) {
    if (options->kept_file == NULL)
        return workload_load(options->trace, options->seed, options->most_events, workload);
    return kept_load(options->kept_file, options->trace, options->seed, options->most_events,
                     workload);
}

static int replay(const struct options *options) {
    struct workload workload;
    struct run memory = {.outcome = NULL};
    struct heap_figures heap = {.curve = NULL};
    int code = check_preload_path(options);
    if (code == EXIT_OK)
        code = check_output(options->kept_file);
    if (code == EXIT_OK)
        code = check_output(options->plan_file);
    if (code == EXIT_OK && options->plan_file == NULL)
        code = run_check_cpu(options);
    if (code != EXIT_OK)
        return code;
    code = load(options, &workload);
    if (code == EXIT_OK && options->plan_file != NULL)
        code = workload_save_plan(&workload, options->touch, options->seed, options->plan_file);
    else if (code == EXIT_OK)
        code = measure(options, &workload, &memory, &heap);
    if (memory.outcome != NULL)
        run_close(&memory);
    workload_release(&workload);
    return code;
}

static int replay_inside(int n_words, char **words) {
    bool is_empty = n_words == 2 && strcmp(words[1], "empty") == 0;
    if (n_words == 0 && fcntl(PLAN_FD, F_GETFD) != -1)
        return replayer_main();
    if (n_words != 1 && !is_empty)
        return complain(EXIT_USAGE, "usage", "%s FILE [empty]", REPLAYER_ARGUMENT);
    return replayer_inside(words[0], is_empty);
}

static int print_warmed(struct warmed warmed) {
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    json_integer(&json, "bytes", warmed.bytes);
    json_number(&json, "ns_per_page", warmed.ns_per_page);
    json_close(&json);
    return finish_output(&json);
}

int main(int argc, char **argv) {
    struct options options;
    if (argc > 1 && strcmp(argv[1], REPLAYER_ARGUMENT) == 0)
        return replay_inside(argc - 2, argv + 2);
    int code = options_parse(argc, argv, &options);
    if (code != EXIT_OK)
        return code;
    switch (options.action) {
    case ACTION_VERSION:
        printf("rand_malloc %s\n", RAND_MALLOC_VERSION);
        break;
    case ACTION_HELP:
        options_print_help();
        break;
    case ACTION_INSTRUMENTS:
        code = instrument_print_all(&options, false);
        break;
    case ACTION_BEST_INSTRUMENT:
        code = instrument_print_all(&options, true);
        break;
    case ACTION_WARM:
        code = print_warmed(memory_warm(options.warm_bytes));
        break;
    case ACTION_CALIBRATE:
        code = calibrate(&options);
        break;
    default:
        code = replay(&options);
    }
    if (fflush(stdout) != 0 && code == EXIT_OK)
        code = complain(EXIT_REPLAY, "standard output", "%m");
    return code;
}
