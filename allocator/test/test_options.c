/* test_options.c - EXGEN_CONF is parsed strictly and reported exactly. */
#include <string.h>

#include "base/options.h"
#include "test.h"

static char lines[8192];

/* Parse; the problems are in `lines`. */
static size_t parse(struct options *o, const char *text) {
    struct text report = {lines, sizeof lines, 0};
    lines[0] = '\0';
    return options_parse(o, text, &report);
}

static void good_entries_take_effect(void) {
    struct options o;
    EXPECT(parse(&o, "purge_delay:0,slab_order:fifo,check:true,superblock_size:65536") == 0);
    EXPECT(o.purge_delay == 0 && o.slab_order == SLAB_ORDER_FIFO && o.check == 1);
    EXPECT(o.superblock_size == 65536);
    EXPECT(lines[0] == '\0');
    EXPECT(parse(&o, "") == 0 && parse(&o, "check:false,") == 0);
    EXPECT(parse(&o, "purge_how:never") == 0 && o.purge_how == PURGE_NEVER);
}

static void bad_values_are_named(void) {
    struct options o;
    EXPECT(parse(&o, "purge_delay:fast") == 1);
    EXPECT(
        strcmp(lines,
               "exgen: EXGEN_CONF: purge_delay:fast: allowed is a number from 0 to 60000 (ms)\n") ==
        0);
    EXPECT(parse(&o, "check:1") == 1);
    EXPECT(strcmp(lines, "exgen: EXGEN_CONF: check:1: allowed is true or false\n") == 0);
    EXPECT(parse(&o, "slab_order:") == 1);
    EXPECT(strcmp(lines,
                  "exgen: EXGEN_CONF: slab_order without a value: allowed is one of lifo|fifo\n") ==
           0);
    EXPECT(parse(&o, "quantum:48") == 1);
    EXPECT(
        strcmp(
            lines,
            "exgen: EXGEN_CONF: quantum:48: allowed is a power of two from 16 to 128 (bytes)\n") ==
        0);
}

static void unknown_keys_are_named(void) {
    struct options o;
    const char *start =
        "exgen: EXGEN_CONF: delays:3: no such setting; allowed are superblock_size ";
    EXPECT(parse(&o, "delays:3") == 1);
    EXPECT(strncmp(lines, start, strlen(start)) == 0);
    EXPECT(parse(&o, "purge_dealy:3,heck:true") == 2);
    EXPECT(strcmp(lines,
                  "exgen: EXGEN_CONF: purge_dealy:3: no such setting; did you mean "
                  "purge_delay?\n"
                  "exgen: EXGEN_CONF: heck:true: no such setting; did you mean check?\n") == 0);
    for (size_t i = 0; i < N_OPTIONS; i++)
        EXPECT(strlen(option_list[i].name) <= 32);
    EXPECT(parse(&o, "purge_delay") == 1);
    EXPECT(parse(&o, "=3,:,,") == 3);
    EXPECT(strstr(lines, "exgen: EXGEN_CONF: empty entry: no such setting; ") != NULL);
}

static void the_form_is_named_where_it_is_another(void) {
    struct options o;
    EXPECT(parse(&o, "purge_delay=0") == 1);
    EXPECT(strcmp(lines, "exgen: EXGEN_CONF: purge_delay=0: the form is name:value,name:value\n") ==
           0);
    EXPECT(parse(&o, "purge_dealy:a=b") == 1 && strstr(lines, ": no such setting; ") != NULL);
}

static void what_was_written_is_shown_on_one_short_line(void) {
    struct options o;
    char text[200];
    EXPECT(parse(&o, "check:a\nb\033[1m\303\244") == 1);
    EXPECT(strcmp(lines, "exgen: EXGEN_CONF: check:a?b?[1m??: allowed is true or false\n") == 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    EXPECT(parse(&o, text) == 1);
    EXPECT(strlen(strstr(lines, "xxx")) > 80);
    EXPECT(strstr(lines, "xxxxx...: no such setting; ") ==
           lines + strlen("exgen: EXGEN_CONF: ") + 75);
}

static void bad_entries_leave_the_others(void) {
    struct options o;
    EXPECT(parse(&o, "commit_step:1,purge_delay:7,nothing:1") == 2);
    EXPECT(o.purge_delay == 7);
    EXPECT(o.commit_step == 4096);
}

static void sizes_are_listed(void) {
    static const char *const good[] = {"classes:", "classes:2048", "classes:16+2048+2112+32768",
                                       "classes:48@2+2048@32"};
    static const char *const bad[] = {
        "classes:16",         "classes:16+16+2048", "classes:24+2048",    "classes:2048+2064",
        "classes:2048+65536", "classes:2048+",      "classes:+2048",      "classes:2048@0",
        "classes:2048@33",    "classes:2048@",      "classes:@2+2048",    "classes:16+2048@1@2",
        "classes:0+2048",     "classes:2048 ",      "classes:4096+2048+", "classes",
        "classes:512+4096"};
    struct options o;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char json[4096];
        struct text t = {json, sizeof json, 0};
        char expected[128];
        EXPECT(parse(&o, good[i]) == 0);
        options_write_json(&t, &o);
        snprintf(expected, sizeof expected, "\"classes\":\"%s\"", good[i] + strlen("classes:"));
        EXPECT(strstr(json, expected) != NULL);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(parse(&o, bad[i]) == 1 && o.classes == 0);
    EXPECT(strstr(lines, "exgen: EXGEN_CONF: classes:512+4096: allowed is a list of sizes") ==
           lines);
}

static void bounds_are_part_of_the_range(void) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *row = &option_list[i];
        char text[128];
        struct options o;
        if (row->kind != OPTION_number)
            continue;
        snprintf(text, sizeof text, "%s:%llu", row->name, (unsigned long long)row->low);
        EXPECT(parse(&o, text) == 0 && option_value(&o, i) == row->low);
        snprintf(text, sizeof text, "%s:%llu", row->name, (unsigned long long)row->high);
        EXPECT(parse(&o, text) == 0 && option_value(&o, i) == row->high);
        snprintf(text, sizeof text, "%s:%llu", row->name, (unsigned long long)row->high + 1);
        EXPECT(parse(&o, text) == 1 && option_value(&o, i) == row->standard);
        if (row->low > 0) {
            snprintf(text, sizeof text, "%s:%llu", row->name, (unsigned long long)row->low - 1);
            EXPECT(parse(&o, text) == 1);
        }
    }
}

static void numbers_are_plain_decimals(void) {
    static const char *const bad[] = {"purge_delay:-1",  "purge_delay:+1",
                                      "purge_delay: 1",  "purge_delay:1k",
                                      "purge_delay:0x1", "purge_delay:99999999999999999999999"};
    struct options o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(parse(&o, bad[i]) == 1);
}

static void values_are_written_as_they_are_read(void) {
    struct options o;
    char json[4096];
    struct text t = {json, sizeof json, 0};
    EXPECT(parse(&o, "slab_order:fifo,check:true,purge_delay:7") == 0);
    options_write_json(&t, &o);
    EXPECT(strstr(json, "\"slab_order\":\"fifo\"") != NULL);
    EXPECT(strstr(json, "\"check\":true") != NULL);
    EXPECT(strstr(json, "\"purge_delay\":7") != NULL);
    EXPECT(t.length == strlen(json) && json[0] == '{' && json[t.length - 1] == '}');
}

int main(void) {
    good_entries_take_effect();
    bad_values_are_named();
    unknown_keys_are_named();
    the_form_is_named_where_it_is_another();
    what_was_written_is_shown_on_one_short_line();
    sizes_are_listed();
    bad_entries_leave_the_others();
    bounds_are_part_of_the_range();
    numbers_are_plain_decimals();
    values_are_written_as_they_are_read();
    return test_passed();
}
