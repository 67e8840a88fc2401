/* The command line: defaults, every option, and what is refused. */
#include "check.h"
#include "options.h"
#include "plan.h"

#include <stdio.h>
#include <string.h>

static int parse(struct options *options, const char *const *words) {
    char *argv[24] = {(char *)(uintptr_t) "rand_malloc"};
    int argc = 1;
    while (words[argc - 1] != NULL) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
        argc++;
    }
    return options_parse(argc, argv, options);
}

static void check_defaults(void) {
    struct options options;
    require(parse(&options, (const char *const[]){"app.trace", NULL}) == EXIT_OK, "plain trace");
    require(strcmp(options.trace, "app.trace") == 0 && options.preload == NULL, "trace");
    require(options.wants_memory && options.wants_count && !options.is_free_running, "both runs");
    require(options.counts_process && options.kept_file == NULL, "all instructions, nothing kept");
    require(options.touch == TOUCH_RECORDED && options.seed == 1 && options.curve_points == 200,
            "rest");
    require(options.cpu == -1 && options.keeps_thp && options.instrument == INSTRUMENT_AUTO,
            "machine");
}

static void check_all(void) {
    struct options options;
    const char *const words[] = {"--preload=/l.so",
                                 "--env=A=1=2",
                                 "--env",
                                 "B=",
                                 "--runs=count",
                                 "--touch=ends",
                                 "--cpu=3",
                                 "--seed=9",
                                 "--thp=never",
                                 "--timeout=.5",
                                 "--keep=k",
                                 "--instructions=allocator",
                                 "t",
                                 NULL};
    require(parse(&options, words) == EXIT_OK, "all options");
    require(strcmp(options.preload, "/l.so") == 0, "preload");
    require(options.n_variables == 2 && strcmp(options.variables[0], "A=1=2") == 0, "variables");
    require(!options.wants_memory && options.wants_count, "runs");
    require(options.touch == TOUCH_ENDS && options.cpu == 3 && options.seed == 9, "numbers");
    require(strcmp(options.kept_file, "k") == 0 && !options.counts_process, "keep, instructions");
    require(!options.keeps_thp && options.timeout_s > 0.49 && options.timeout_s < 0.51, "timeout");
}

static void check_warm(void) {
    struct options options;
    require(parse(&options, (const char *const[]){"--warm=64", NULL}) == EXIT_OK, "warm");
    require(options.action == ACTION_WARM && options.warm_bytes == UINT64_C(64) << 20, "64 MiB");
}

static void check_free_running(void) {
    struct options options;
    require(parse(&options, (const char *const[]){"--threads=free", "t", NULL}) == EXIT_OK, "free");
    require(options.is_free_running && options.wants_memory && !options.wants_count,
            "free-running mode counts no instructions");
}

static void check_refusals(void) {
    struct options options;
    static const char *const REFUSED[][4] = {
        {NULL},
        {"a", "b", NULL},
        {"--nonsense", "t", NULL},
        {"--threads=both", "t", NULL},
        {"--runs=", "t", NULL},
        {"--env=NAME", "t", NULL},
        {"--env==x", "t", NULL},
        {"--env=LD_PRELOAD=/x.so", "t", NULL},
        {"--seed=-1", "t", NULL},
        {"--seed=1x", "t", NULL},
        {"--seed=18446744073709551616", "t", NULL},
        {"--cpu=99999", "t", NULL},
        {"--timeout=nan", "t", NULL},
        {"--timeout=-1", "t", NULL},
        {"--timeout=1s", "t", NULL},
        {"--curve-points=100001", "t", NULL},
        {"--instrument=gprof", "t", NULL},
        {"--calibrate", "t", NULL},
        {"--warm=64", "t", NULL},
        {"--warm=-1", NULL},
        {"--threads=free", "--runs=count", "t", NULL},
        {"--threads=free", "--cpu=0", "t", NULL},
        {"--runs=count", "--instrument=none", "t", NULL},
    };
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        require(parse(&options, REFUSED[i]) == EXIT_USAGE,
                REFUSED[i][0] != NULL ? REFUSED[i][0] : "no trace");
}

int main(void) {
    check_defaults();
    check_all();
    check_free_running();
    check_warm();
    check_refusals();
    return verdict();
}
