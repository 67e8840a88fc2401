/* options.c - parses the command line strictly; see options.h. */
#include "options.h"
#include "message.h"
#include "plan.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "Usage: rand_malloc [options] TRACE|PROFILE\n"
    "Replays a recorded allocation trace, or one generated from a profile, and prints one JSON "
    "object about it.\n\n"
    "  --preload PATH        allocator library for the replayer (default: libc's malloc)\n"
    "  --env NAME=VALUE      variable for the replayer, whose environment is else empty; "
    "repeatable\n"
    "  --threads baton|free  one runnable thread, repeatable (default), or real concurrency\n"
    "  --runs memory|count|both  which measurements (default both; free: memory)\n"
    "  --instrument auto|qemu|cachegrind|perf|none  what counts instructions (default auto)\n"
    "  --instructions all|allocator  whose are counted (default all; allocator takes less time\n"
    "                        under qemu)\n"
    "  --cpu N               pin the replay to this processor (default: first allowed)\n"
    "  --cpus N              processors the allocator sees (default: those online)\n"
    "  --thp keep|never      transparent huge pages: as the machine is set (default), or off\n"
    "  --touch recorded|all|ends|none|zeros  what is written of each block (default recorded: the\n"
    "                        pages that the recorded program touched; where that is not known\n"
    "                        those of the last block like it, or else all); zeros: all pages, and\n"
    "                        every other block is zero between its ends\n"
    "  --seed N              seed of the block contents and of what a profile generates (default "
    "1)\n"
    "  --curve-points N      points of the heap curve, 0 to 100000 (default 200)\n"
    "  --timeout SECONDS     limit of each child process's CPU time (default 600, 0 = none); ten\n"
    "                        times as much elapsed time stops a child that hangs\n"
    "  --first N             take only the first N events\n"
    "  --keep FILE           take the decoded workload from FILE, or keep it there for next time\n"
    "  --save-plan FILE      replay nothing: write what would be replayed\n"
    "  --replay-plan FILE [empty]  replay such a file in this process and measure nothing, for\n"
    "                        simulated machines; takes no other option; empty: only the start\n"
    "  --instruments         print which instruments work here, best first, as JSON\n"
    "  --best-instrument     the same up to the first that works\n"
    "  --warm MIB            touch that much memory and give it back: what is timed next then "
    "gets\n"
    "                        pages that were used before; print the cost of a page as JSON\n"
    "  --calibrate           print the cost of faults and system calls here, as JSON\n"
    "  --version, --help\n\n"
    "Exit codes: 0 ok, 1 the replay failed, 2 usage, 3 trace unreadable, 4 timed out,\n"
    "5 instrument not available, 6 library cannot be preloaded.\n"
    "Example: rand_malloc --preload /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 \\\n"
    "             --env MALLOC_CONF=narenas:1 app.trace\n";

enum option_key {
    KEY_PRELOAD = 256,
    KEY_ENV,
    KEY_THREADS,
    KEY_RUNS,
    KEY_INSTRUMENT,
    KEY_COUNT,
    KEY_CPU,
    KEY_CPUS,
    KEY_THP,
    KEY_TOUCH,
    KEY_SEED,
    KEY_CURVE,
    KEY_TIMEOUT,
    KEY_FIRST,
    KEY_KEEP,
    KEY_SAVE_PLAN,
    KEY_INSTRUMENTS,
    KEY_BEST_INSTRUMENT,
    KEY_WARM,
    KEY_CALIBRATE,
    KEY_VERSION,
    KEY_HELP
};

static const struct option LONG_OPTIONS[] = {
    {"preload", required_argument, NULL, KEY_PRELOAD},
    {"env", required_argument, NULL, KEY_ENV},
    {"threads", required_argument, NULL, KEY_THREADS},
    {"runs", required_argument, NULL, KEY_RUNS},
    {"instrument", required_argument, NULL, KEY_INSTRUMENT},
    {"instructions", required_argument, NULL, KEY_COUNT},
    {"cpu", required_argument, NULL, KEY_CPU},
    {"cpus", required_argument, NULL, KEY_CPUS},
    {"thp", required_argument, NULL, KEY_THP},
    {"touch", required_argument, NULL, KEY_TOUCH},
    {"seed", required_argument, NULL, KEY_SEED},
    {"curve-points", required_argument, NULL, KEY_CURVE},
    {"timeout", required_argument, NULL, KEY_TIMEOUT},
    {"first", required_argument, NULL, KEY_FIRST},
    {"keep", required_argument, NULL, KEY_KEEP},
    {"save-plan", required_argument, NULL, KEY_SAVE_PLAN},
    {"instruments", no_argument, NULL, KEY_INSTRUMENTS},
    {"best-instrument", no_argument, NULL, KEY_BEST_INSTRUMENT},
    {"warm", required_argument, NULL, KEY_WARM},
    {"calibrate", no_argument, NULL, KEY_CALIBRATE},
    {"version", no_argument, NULL, KEY_VERSION},
    {"help", no_argument, NULL, KEY_HELP},
    {NULL, 0, NULL, 0},
};

static const char *const THREADS[] = {"baton", "free", NULL};
static const char *const RUNS[] = {"memory", "count", "both", NULL};
static const char *const INSTRUMENTS[] = {"auto", "qemu", "cachegrind", "perf", "none", NULL};
static const char *const COUNTED[] = {"allocator", "all", NULL};
static const char *const THP[] = {"never", "keep", NULL};
static const char *const TOUCH[] = {"all", "ends", "none", "zeros", "recorded", NULL};

const char *options_touch_name(uint32_t touch) {
    return TOUCH[touch];
}

/* Index of text among the names, or -1 with a message that lists them. */
static int choose(const char *option, const char *text, const char *const names[]) {
    char allowed[128] = "";
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
        strncat(allowed, i > 0 ? ", " : "", sizeof allowed - strlen(allowed) - 1);
        strncat(allowed, names[i], sizeof allowed - strlen(allowed) - 1);
    }
    complain(0, option, "'%s' is not one of %s", text, allowed);
    return -1;
}

static bool parse_count(const char *option, const char *text, uint64_t limit, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > limit) {
        complain(0, option, "'%s' is not a whole number from 0 to %llu", text,
                 (unsigned long long)limit);
        return false;
    }
    *value = number;
    return true;
}

static bool parse_seconds(const char *text, double *seconds) {
    char *end = NULL;
    *seconds = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(*seconds) && *seconds >= 0)
        return true;
    complain(0, "--timeout", "'%s' is not a number of seconds", text);
    return false;
}

static bool add_variable(struct options *options, const char *text) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        complain(0, "--env", "'%s' is not NAME=VALUE", text);
        return false;
    }
    if (strncmp(text, "LD_", 3) == 0) {
        complain(0, "--env", "'%s': the loader's variables are fixed; use --preload", text);
        return false;
    }
    if (options->n_variables == OPTIONS_MAX_VARIABLES) {
        complain(0, "--env", "more than %d variables", OPTIONS_MAX_VARIABLES);
        return false;
    }
    options->variables[options->n_variables++] = text;
    return true;
}

static bool parse_choice(int key, const char *text, struct options *options) {
    int chosen = -1;
    if (key == KEY_THREADS && (chosen = choose("--threads", text, THREADS)) >= 0)
        options->is_free_running = chosen == 1;
    if (key == KEY_RUNS && (chosen = choose("--runs", text, RUNS)) >= 0) {
        options->wants_memory = chosen != 1;
        options->wants_count = chosen != 0;
    }
    if (key == KEY_INSTRUMENT && (chosen = choose("--instrument", text, INSTRUMENTS)) >= 0)
        options->instrument = (enum instrument_choice)chosen;
    if (key == KEY_COUNT && (chosen = choose("--instructions", text, COUNTED)) >= 0)
        options->counts_process = chosen == 1;
    if (key == KEY_THP && (chosen = choose("--thp", text, THP)) >= 0)
        options->keeps_thp = chosen == 1;
    if (key == KEY_TOUCH && (chosen = choose("--touch", text, TOUCH)) >= 0)
        options->touch = (uint32_t)chosen;
    return chosen >= 0;
}

static bool parse_number(int key, const char *text, struct options *options) {
    uint64_t value = 0;
    bool is_good = false;
    if (key == KEY_CPU && (is_good = parse_count("--cpu", text, CPU_SETSIZE - 1, &value)))
        options->cpu = (int)value;
    if (key == KEY_CPUS && (is_good = parse_count("--cpus", text, CPU_SETSIZE, &value)))
        options->cpus = (uint32_t)value;
    if (key == KEY_SEED && (is_good = parse_count("--seed", text, UINT64_MAX, &value)))
        options->seed = value;
    if (key == KEY_CURVE && (is_good = parse_count("--curve-points", text, 100000, &value)))
        options->curve_points = (uint32_t)value;
    if (key == KEY_WARM && (is_good = parse_count("--warm", text, UINT32_MAX, &value))) {
        options->action = ACTION_WARM;
        options->warm_bytes = value << 20;
    }
    if (key == KEY_FIRST && (is_good = parse_count("--first", text, UINT32_MAX, &value)))
        options->most_events = value;
    return is_good;
}

static bool parse_option(int key, const char *text, struct options *options) {
    switch (key) {
    case KEY_PRELOAD:
        options->preload = text[0] != '\0' ? text : NULL;
        return true;
    case KEY_ENV:
        return add_variable(options, text);
    case KEY_TIMEOUT:
        return parse_seconds(text, &options->timeout_s);
    case KEY_KEEP:
        options->kept_file = text;
        return true;
    case KEY_SAVE_PLAN:
        options->plan_file = text;
        return true;
    case KEY_INSTRUMENTS:
        options->action = ACTION_INSTRUMENTS;
        return true;
    case KEY_BEST_INSTRUMENT:
        options->action = ACTION_BEST_INSTRUMENT;
        return true;
    case KEY_CALIBRATE:
        options->action = ACTION_CALIBRATE;
        return true;
    case KEY_VERSION:
        options->action = ACTION_VERSION;
        return true;
    case KEY_HELP:
        options->action = ACTION_HELP;
        return true;
    case KEY_CPU:
    case KEY_CPUS:
    case KEY_SEED:
    case KEY_CURVE:
    case KEY_FIRST:
    case KEY_WARM:
        return parse_number(key, text, options);
    case '?':
    case ':':
        return false; /* getopt has complained */
    default:
        return parse_choice(key, text, options);
    }
}

/* What only makes sense together. */
static bool is_consistent(const struct options *options, bool names_runs, int n_files) {
    if (options->action != ACTION_REPLAY)
        return n_files == 0 || complain(0, "usage", "this option takes no TRACE") != 0;
    if (n_files != 1)
        return complain(0, "usage", "exactly one TRACE is needed; see rand_malloc --help") != 0;
    if (options->is_free_running && names_runs && options->wants_count)
        return complain(0, "--runs", "instructions cannot be counted with --threads free") != 0;
    if (options->is_free_running && options->cpu >= 0)
        return complain(0, "--cpu", "threads run on all processors with --threads free") != 0;
    if (!options->wants_memory && options->instrument == INSTRUMENT_NONE)
        return complain(0, "--runs", "count measures nothing with --instrument none") != 0;
    return true;
}

int options_parse(int argc, char **argv, struct options *options) {
    bool names_runs = false;
    *options = (struct options){.wants_memory = true,
                                .keeps_thp = true,
                                .wants_count = true,
                                .counts_process = true,
                                .cpu = -1,
                                .touch = TOUCH_RECORDED,
                                .seed = 1,
                                .curve_points = 200,
                                .timeout_s = 600,
                                .most_events = UINT64_MAX};
    optind = 0; /* GNU: start anew, so that tests may call this twice */
    for (int key; (key = getopt_long(argc, argv, "", LONG_OPTIONS, NULL)) != -1;) {
        if (!parse_option(key, optarg, options))
            return EXIT_USAGE;
        names_runs = names_runs || key == KEY_RUNS;
    }
    if (!is_consistent(options, names_runs, argc - optind))
        return EXIT_USAGE;
    options->trace = options->action == ACTION_REPLAY ? argv[optind] : NULL;
    if (options->is_free_running)
        options->wants_count = false;
    return EXIT_OK;
}

void options_print_help(void) {
    fputs(HELP, stdout);
}
