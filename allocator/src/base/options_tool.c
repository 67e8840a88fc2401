/* options_tool.c - print the list of settings.
 *
 * exgen-options json       all, for the tuner
 * exgen-options markdown   those for production, for the README
 * exgen-options others     the others by groups, for SETTINGS.md
 * exgen-options header     those for production, for exgen.h
 *
 * Exit code 2 for any other use.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

/* What the library itself does not need. */
static const struct about {
    const char *group;
    const char *use;
    const char *effect;
} about[N_OPTIONS] = {
#define OPTION(name, group, use, kind, unit, low, high, standard, scale, choices, effect)          \
    {#group, #use, effect},
#include "base/options.def"
#undef OPTION
};

static const char *const groups[][2] = {
    {"shape", "what blocks and slabs look like"},
    {"reuse", "which free block is used next"},
    {"return", "when memory goes back to the system"},
    {"safety", "what is verified and said"},
};
enum {
    N_GROUPS = sizeof groups / sizeof *groups
};

static bool is_for_production(size_t i) {
    return strcmp(about[i].use, "production") == 0;
}

static const char *const kind_names[] = {"number", "flag", "choice", "list"};

/* The value of row `i` as text; the buffer is the caller's. */
static const char *value_text(char *buffer, size_t capacity, size_t i, uint64_t value) {
    struct text t = {buffer, capacity, 0};
    buffer[0] = '\0';
    option_write_value(&t, i, value);
    return buffer;
}

static void print_json_choices(const char *choices) {
    printf("[");
    for (const char *s = choices; *s != '\0';) {
        size_t n = strcspn(s, "|");
        printf("%s\"%.*s\"", s == choices ? "" : ",", (int)n, s);
        s += n + (s[n] == '|');
    }
    printf("]");
}

static void print_json_row(size_t i) {
    const struct option *o = &option_list[i];
    char buffer[64];
    const char *standard = value_text(buffer, sizeof buffer, i, o->standard);
    const char *quote = o->kind == OPTION_choice || o->kind == OPTION_list ? "\"" : "";
    printf("  {\"name\":\"%s\",\"group\":\"%s\",\"use\":\"%s\",\"kind\":\"%s\",\"unit\":\"%s\",",
           o->name, about[i].group, about[i].use, kind_names[o->kind], o->unit);
    printf("\"scale\":\"%s\",", o->scale);
    if (o->kind == OPTION_number)
        printf("\"low\":%llu,\"high\":%llu,", (unsigned long long)o->low,
               (unsigned long long)o->high);
    if (o->kind == OPTION_choice) {
        printf("\"choices\":");
        print_json_choices(o->choices);
        printf(",");
    }
    printf("\"default\":%s%s%s,\"effect\":\"%s\"}%s\n", quote, standard, quote, about[i].effect,
           i + 1 < N_OPTIONS ? "," : "");
}

static void print_json(void) {
    printf("{\"format\":1,\"environment\":\"EXGEN_CONF\",\"options\":[\n");
    for (size_t i = 0; i < N_OPTIONS; i++)
        print_json_row(i);
    printf("]}\n");
}

static void print_allowed(const struct option *o) {
    if (o->kind == OPTION_flag)
        printf("true, false");
    else if (o->kind == OPTION_list)
        printf("rising sizes, 2048 among them");
    else if (o->kind == OPTION_number)
        printf("%llu to %llu", (unsigned long long)o->low, (unsigned long long)o->high);
    else
        for (const char *s = o->choices; *s != '\0'; s++)
            printf(*s == '|' ? ", " : "%c", *s);
}

static void print_table_row(size_t i) {
    const struct option *o = &option_list[i];
    char buffer[64];
    printf("| `%s` | %s | ", o->name, strcmp(o->unit, "none") == 0 ? "" : o->unit);
    print_allowed(o);
    printf("%s | %s | %s |\n", strcmp(o->scale, "power2") == 0 ? ", a power of two" : "",
           value_text(buffer, sizeof buffer, i, o->standard), about[i].effect);
}

static void print_table_head(void) {
    printf("| setting | unit | allowed | default | effect |\n|---|---|---|---|---|\n");
}

static void print_markdown(void) {
    print_table_head();
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (is_for_production(i))
            print_table_row(i);
}

static void print_others(void) {
    for (size_t g = 0; g < N_GROUPS; g++) {
        printf("%s## %c%s: %s\n\n", g == 0 ? "" : "\n", groups[g][0][0] + 'A' - 'a',
               groups[g][0] + 1, groups[g][1]);
        print_table_head();
        for (size_t i = 0; i < N_OPTIONS; i++)
            if (!is_for_production(i) && strcmp(about[i].group, groups[g][0]) == 0)
                print_table_row(i);
    }
}

static void print_header(void) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char buffer[64];
        if (is_for_production(i))
            printf(" *   %-20s %-10s %s\n", option_list[i].name,
                   value_text(buffer, sizeof buffer, i, option_list[i].standard), about[i].group);
    }
}

static const struct {
    const char *name;
    void (*print)(void);
} forms[] = {
    {"json", print_json},
    {"markdown", print_markdown},
    {"others", print_others},
    {"header", print_header},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(argv[1], forms[i].name) == 0) {
            forms[i].print();
            return 0;
        }
    fprintf(stderr, "exgen-options: usage: exgen-options json|markdown|others|header\n");
    return 2;
}
