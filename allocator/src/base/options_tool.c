/* options_tool.c - print the list of settings: "json" for the tuner, "markdown" for the README.
 *
 * exgen-options json | markdown.  Exit code 2 for any other use.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

static const char *const effects[N_OPTIONS] = {
#define OPTION(name, kind, unit, low, high, standard, scale, choices, effect) effect,
#include "base/options.def"
#undef OPTION
};

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
    printf("  {\"name\":\"%s\",\"kind\":\"%s\",\"unit\":\"%s\",\"scale\":\"%s\",", o->name,
           kind_names[o->kind], o->unit, o->scale);
    if (o->kind == OPTION_number)
        printf("\"low\":%llu,\"high\":%llu,", (unsigned long long)o->low,
               (unsigned long long)o->high);
    if (o->kind == OPTION_choice) {
        printf("\"choices\":");
        print_json_choices(o->choices);
        printf(",");
    }
    printf("\"default\":%s%s%s,\"effect\":\"%s\"}%s\n", quote, standard, quote, effects[i],
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

static void print_markdown(void) {
    printf("| setting | unit | allowed | default | effect |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_list[i];
        char buffer[64];
        printf("| `%s` | %s | ", o->name, strcmp(o->unit, "none") == 0 ? "" : o->unit);
        print_allowed(o);
        printf("%s | %s | %s |\n", strcmp(o->scale, "power2") == 0 ? ", a power of two" : "",
               value_text(buffer, sizeof buffer, i, o->standard), effects[i]);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "json") == 0) {
        print_json();
    } else if (argc == 2 && strcmp(argv[1], "markdown") == 0) {
        print_markdown();
    } else {
        fprintf(stderr, "exgen-options: usage: exgen-options json|markdown\n");
        return 2;
    }
    return 0;
}
