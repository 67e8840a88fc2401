/* options.c - parses the command line strictly; see options.h. */
#include "options.h"

#include "workloads.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum option_key {
    KEY_THREADS = 256,
    KEY_SECONDS,
    KEY_OPERATIONS,
    KEY_SIZE,
    KEY_SEED,
    KEY_SAMPLES,
    KEY_ASLR,
    KEY_VERSION,
    KEY_HELP
};

static const struct option LONG_OPTIONS[] = {
    {"threads", required_argument, NULL, KEY_THREADS},
    {"seconds", required_argument, NULL, KEY_SECONDS},
    {"operations", required_argument, NULL, KEY_OPERATIONS},
    {"size", required_argument, NULL, KEY_SIZE},
    {"seed", required_argument, NULL, KEY_SEED},
    {"samples", required_argument, NULL, KEY_SAMPLES},
    {"aslr", required_argument, NULL, KEY_ASLR},
    {"version", no_argument, NULL, KEY_VERSION},
    {"help", no_argument, NULL, KEY_HELP},
    {NULL, 0, NULL, 0},
};

static const uint64_t MOST_BYTES = UINT64_C(1) << 30;
static const double MOST_SECONDS = 1e6;

static int refuse(const char *what, const char *why, ...) __attribute__((format(printf, 2, 3)));

static int refuse(const char *what, const char *why, ...) {
    va_list list;
    va_start(list, why);
    (void)fprintf(stderr, "malloc_bench: %s: ", what);
    (void)vfprintf(stderr, why, list);
    (void)fputc('\n', stderr);
    va_end(list);
    return EXIT_USAGE;
}

static int parse_count(const char *option, const char *text, uint64_t least, uint64_t most,
                       uint64_t *value) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < least ||
        number > most)
        return refuse(option, "'%s' is not a whole number from %llu to %llu", text,
                      (unsigned long long)least, (unsigned long long)most);
    *value = number;
    return EXIT_OK;
}

static int parse_seconds(const char *text, double *seconds) {
    char *end = NULL;
    *seconds = strtod(text, &end);
    if (end != text && *end == '\0' && *seconds > 0 && *seconds <= MOST_SECONDS)
        return EXIT_OK;
    return refuse("--seconds", "'%s' is not a number of seconds above 0", text);
}

static int parse_aslr(const char *text, struct settings *settings) {
    if (strcmp(text, "off") != 0 && strcmp(text, "keep") != 0)
        return refuse("--aslr", "'%s' is not one of off, keep", text);
    settings->keeps_aslr = strcmp(text, "keep") == 0;
    return EXIT_OK;
}

static int parse_option(int key, const char *text, struct settings *settings) {
    uint64_t value = 0;
    int code = EXIT_OK;
    switch (key) {
    case KEY_THREADS:
        code = parse_count("--threads", text, 1, MAX_THREADS, &value);
        settings->threads = (uint32_t)value;
        return code;
    case KEY_SECONDS:
        return parse_seconds(text, &settings->seconds);
    case KEY_OPERATIONS:
        return parse_count("--operations", text, 1, UINT64_MAX - 1, &settings->operations);
    case KEY_SIZE:
        code = parse_count("--size", text, 1, MOST_BYTES, &value);
        settings->size = (size_t)value;
        return code;
    case KEY_SEED:
        return parse_count("--seed", text, 1, UINT64_MAX, &settings->seed);
    case KEY_SAMPLES:
        code = parse_count("--samples", text, 0, 100000, &value);
        settings->samples = (uint32_t)value;
        return code;
    case KEY_ASLR:
        return parse_aslr(text, settings);
    default:
        return EXIT_USAGE; /* getopt has complained */
    }
}

static const struct workload *find_workload(const char *name) {
    for (const struct workload *workload = WORKLOADS; workload->name != NULL; workload++) {
        if (strcmp(workload->name, name) == 0)
            return workload;
    }
    return NULL;
}

static int check_whole(const struct settings *settings) {
    const struct workload *workload = settings->workload;
    if (workload->needs_others && settings->threads < 2)
        return refuse(workload->name, "needs at least 2 threads");
    if (workload->run == NULL && settings->threads != 1)
        return refuse(workload->name, "runs in one thread");
    if (workload->wants_size != (settings->size != 0))
        return refuse(workload->name, workload->wants_size ? "needs --size" : "takes no --size");
    return EXIT_OK;
}

int options_parse(int argc, char **argv, struct settings *settings, enum action *action) {
    *settings =
        (struct settings){.threads = 1, .seconds = 0.5, .operations = UINT64_MAX, .seed = 1};
    *action = ACTION_RUN;
    for (int key; (key = getopt_long(argc, argv, "", LONG_OPTIONS, NULL)) != -1;) {
        if (key == KEY_HELP || key == KEY_VERSION) {
            *action = key == KEY_HELP ? ACTION_HELP : ACTION_VERSION;
            return EXIT_OK;
        }
        int code = parse_option(key, optarg, settings);
        if (code != EXIT_OK)
            return code;
    }
    if (argc - optind != 1)
        return refuse("usage", "exactly one WORKLOAD is needed; see malloc_bench --help");
    settings->workload = find_workload(argv[optind]);
    if (settings->workload == NULL)
        return refuse(argv[optind], "there is no such workload; see malloc_bench --help");
    return check_whole(settings);
}

void options_print_help(void) {
    (void)fputs(
        "Usage: malloc_bench [options] WORKLOAD\n"
        "Runs a workload on whatever malloc the process has and prints one JSON object.\n\n"
        "  --threads N      threads of the workload (default 1)\n"
        "  --seconds S      length of the counting phase (default 0.5); warming up takes a\n"
        "                   fifth of it before, timing single calls half of it after\n"
        "  --operations N   let each thread end after N operations instead; times no calls\n"
        "  --size N         bytes of a block, for sizes and overhead\n"
        "  --seed N         seed of sizes and choices (default 1)\n"
        "  --samples N      points of the curve of resident memory (default 0)\n"
        "  --aslr off|keep  address randomisation (default off, where permitted)\n"
        "  --version, --help\n\nWorkloads:\n",
        stdout);
    for (const struct workload *workload = WORKLOADS; workload->name != NULL; workload++)
        printf("  %-16s %s\n", workload->name, workload->what);
    (void)fputs("\nExit codes: 0 ok, 1 the run failed, 2 usage.\n"
                "Example: LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 \\\n"
                "             malloc_bench --threads 16 larson\n",
                stdout);
}
