/* options.c - the settings of exgen, made from options.def; see options.h.
 *
 * Guarantee: whatever the text, every value is inside its row's range, and
 * `report` names each entry that had no effect.  The parser allocates
 * nothing and uses no locale.
 */
#include "base/options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define OPTION(name, group, use, kind, unit, low, high, standard, scale, choices, effect)          \
    _Static_assert((low) <= (standard) && (standard) <= (high),                                    \
                   "default of " #name " out of range");
#include "base/options.def"
#undef OPTION

const struct option option_list[N_OPTIONS] = {
#define OPTION(name_, group, use, kind_, unit_, low_, high_, standard_, scale_, choices_, effect)  \
    {.low = (low_),                                                                                \
     .high = (high_),                                                                              \
     .standard = (standard_),                                                                      \
     .offset = offsetof(struct options, name_),                                                    \
     .kind = OPTION_##kind_,                                                                       \
     .unit = #unit_,                                                                               \
     .scale = #scale_,                                                                             \
     .name = #name_,                                                                               \
     .choices = (choices_)},
#include "base/options.def"
#undef OPTION
};

struct options options = {
#define OPTION(name, group, use, kind, unit, low, high, standard, scale, choices, effect)          \
    .name = (standard),
#include "base/options.def"
#undef OPTION
};

uint64_t option_value(const struct options *o, size_t i) {
    return *(const uint64_t *)((const char *)o + option_list[i].offset);
}

static void set_value(struct options *o, size_t i, uint64_t value) {
    *(uint64_t *)((char *)o + option_list[i].offset) = value;
}

/* A piece of the text that is being parsed; not terminated. */
struct piece {
    const char *start;
    size_t length;
};

static bool piece_is(struct piece p, const char *s) {
    return strlen(s) == p.length && memcmp(p.start, s, p.length) == 0;
}

/* Plain decimal without sign; false for anything else or more than 64 bits. */
static bool parse_number(struct piece p, uint64_t *value) {
    uint64_t n = 0;
    if (p.length == 0)
        return false;
    for (size_t i = 0; i < p.length; i++) {
        unsigned digit = (unsigned char)p.start[i] - (unsigned)'0';
        if (digit > 9 || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *value = n;
    return true;
}

/* The position of `p` among names separated by '|'; false if it is not there. */
static bool parse_choice(struct piece p, const char *choices, uint64_t *value) {
    uint64_t at = 0;
    for (const char *s = choices;; at++) {
        struct piece name = {s, strcspn(s, "|")};
        if (name.length == p.length && memcmp(name.start, p.start, p.length) == 0) {
            *value = at;
            return true;
        }
        if (s[name.length] == '\0')
            return false;
        s += name.length + 1;
    }
}

/* Cut off and return what stands before the first `separator`, or all. */
static struct piece next_piece(struct piece *p, char separator) {
    const char *end = memchr(p->start, separator, p->length);
    struct piece first = {p->start, end != NULL ? (size_t)(end - p->start) : p->length};
    size_t n = first.length + (end != NULL);
    *p = (struct piece){p->start + n, p->length - n};
    return first;
}

/* One "bytes" or "bytes@units" of the list, larger than `previous`. */
static bool parse_class(struct piece p, uint64_t previous, struct listed_class *c) {
    uint64_t bytes;
    uint64_t n_units = 0;
    bool has_units = memchr(p.start, '@', p.length) != NULL;
    struct piece size = next_piece(&p, '@');
    if (!parse_number(size, &bytes) || bytes <= previous || bytes > LISTED_MAX ||
        bytes % (bytes <= LISTED_FINE ? 16 : 64) != 0)
        return false;
    if (has_units && (!parse_number(p, &n_units) || n_units < 1 || n_units > LISTED_UNITS_MAX))
        return false;
    *c = (struct listed_class){(uint16_t)bytes, (uint16_t)n_units};
    return true;
}

/* The whole list; *n is the number of its entries. */
static bool parse_classes(struct piece p, struct listed_class *list, uint64_t *n) {
    size_t n_fine = 0;
    bool has_border = false;
    uint64_t last = 0;
    bool more = p.length > 0;
    for (*n = 0; more; (*n)++) {
        more = memchr(p.start, '+', p.length) != NULL;
        struct piece entry = next_piece(&p, '+');
        if (*n == N_LISTED_MAX || entry.length == 0 || !parse_class(entry, last, &list[*n]))
            return false;
        last = list[*n].bytes;
        n_fine += last <= LISTED_FINE;
        has_border = has_border || last == LISTED_FINE;
    }
    return *n == 0 || (n_fine <= N_LISTED_FINE_MAX && has_border);
}

static bool parse_value(const struct option *row, struct piece p, uint64_t *value) {
    switch (row->kind) {
    case OPTION_flag:
        return parse_choice(p, "false|true", value);
    case OPTION_choice:
        return parse_choice(p, row->choices, value);
    case OPTION_number:
    case OPTION_list:
        break;
    }
    return parse_number(p, value) && *value >= row->low && *value <= row->high &&
           (strcmp(row->scale, "power2") != 0 || is_power_of_two(*value));
}

static void write_allowed(struct text *t, const struct option *row) {
    if (row->kind == OPTION_flag) {
        text_string(t, "true or false");
    } else if (row->kind == OPTION_choice) {
        text_string(t, "one of ");
        text_string(t, row->choices);
    } else if (row->kind == OPTION_list) {
        text_string(
            t, "a list of sizes as in 16+32+48@2+64: rising, multiples of 16 up to 2048 and of 64 "
               "up to 32768, 2048 among them, at most 50 up to there and 112 in all; "
               "@ and 1 to 32 units for a slab");
    } else {
        text_string(t,
                    strcmp(row->scale, "power2") == 0 ? "a power of two from " : "a number from ");
        text_decimal(t, row->low);
        text_string(t, " to ");
        text_decimal(t, row->high);
        text_string(t, " (");
        text_string(t, row->unit);
        text_string(t, ")");
    }
}

/* What the user wrote, on one line and short: bytes that are no printable ASCII as ?. */
static void write_shown(struct text *t, struct piece p) {
    enum {
        N_SHOWN = 80
    };
    for (size_t i = 0; i < p.length && i < N_SHOWN; i++)
        text_bytes(t, p.start[i] >= ' ' && p.start[i] <= '~' ? &p.start[i] : "?", 1);
    text_string(t, p.length > N_SHOWN ? "..." : "");
}

static void report_bad_value(struct text *t, const struct option *row, struct piece value) {
    text_string(t, "exgen: EXGEN_CONF: ");
    text_string(t, row->name);
    text_string(t, value.length > 0 ? ":" : " without a value");
    write_shown(t, value);
    text_string(t, ": allowed is ");
    write_allowed(t, row);
    text_string(t, "\n");
}

enum {
    NAME_MOST = 32, /* letters of a setting's name */
    FAR = 4         /* letters that a name is off by which was hardly meant */
};

/* Letters to be added, left out or changed until `p` is the name (Wagner, Fischer, "The
 * String-to-String Correction Problem", 1974). */
static size_t option_distance(struct piece p, const char *name) {
    size_t n = strlen(name);
    size_t row[NAME_MOST + 1];
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; i < p.length; i++) {
        size_t before = row[0]++;
        for (size_t j = 1; j <= n; j++) {
            size_t changed = before + (p.start[i] != name[j - 1]);
            size_t moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            before = row[j];
            row[j] = changed < moved ? changed : moved;
        }
    }
    return row[n];
}

/* The name that is nearest; NULL if none is near. */
static const char *option_nearest(struct piece p) {
    size_t least = FAR;
    const char *nearest = NULL;
    for (size_t i = 0; i < N_OPTIONS && p.length <= NAME_MOST; i++) {
        size_t distance = option_distance(p, option_list[i].name);
        if (distance < least) {
            least = distance;
            nearest = option_list[i].name;
        }
    }
    return nearest;
}

static void report_unknown_key(struct text *t, struct piece key, struct piece entry) {
    text_string(t, "exgen: EXGEN_CONF: ");
    write_shown(t, entry);
    text_string(t, entry.length > 0 ? ": " : "empty entry: ");
    if (memchr(key.start, '=', key.length) != NULL) {
        text_string(t, "the form is name:value,name:value\n");
        return;
    }
    const char *nearest = option_nearest(key);
    if (nearest != NULL) {
        text_string(t, "no such setting; did you mean ");
        text_string(t, nearest);
        text_string(t, "?\n");
        return;
    }
    text_string(t, "no such setting; allowed are");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        text_string(t, " ");
        text_string(t, option_list[i].name);
    }
    text_string(t, "\n");
}

static size_t find_row(struct piece key) {
    size_t i = 0;
    while (i < N_OPTIONS && !piece_is(key, option_list[i].name))
        i++;
    return i;
}

/* Apply one "key:value"; false if it had no effect. */
static bool parse_entry(struct options *o, struct piece entry, struct text *report) {
    const char *colon = memchr(entry.start, ':', entry.length);
    struct piece key = {entry.start, colon != NULL ? (size_t)(colon - entry.start) : entry.length};
    struct piece text = {key.start + key.length, 0};
    if (colon != NULL)
        text = (struct piece){colon + 1, entry.length - key.length - 1};
    size_t i = find_row(key);
    if (i == N_OPTIONS) {
        report_unknown_key(report, key, entry);
        return false;
    }
    uint64_t value = 0;
    struct listed_class list[N_LISTED_MAX] = {{0}};
    bool is_list = option_list[i].kind == OPTION_list;
    if (colon == NULL || (is_list ? !parse_classes(text, list, &value)
                                  : !parse_value(&option_list[i], text, &value))) {
        report_bad_value(report, &option_list[i], text);
        return false;
    }
    set_value(o, i, value);
    if (is_list)
        memcpy(o->listed, list, sizeof list);
    return true;
}

size_t options_parse(struct options *o, const char *text, struct text *report) {
    size_t n_bad = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        set_value(o, i, option_list[i].standard);
    memset(o->listed, 0, sizeof o->listed);
    while (*text != '\0') {
        struct piece entry = {text, strcspn(text, ",")};
        if (!parse_entry(o, entry, report))
            n_bad++;
        text += entry.length;
        if (*text == ',')
            text++;
    }
    return n_bad;
}

static const char conf_prefix[] = "EXGEN_CONF=";

/* The value of EXGEN_CONF among the whole entries at the start of the buffer, or NULL; these
 * entries leave it.  `passing`: the first one is the rest of one that did not fit. */
static const char *take_entries(char *buffer, size_t *length, bool *passing) {
    char *entry = buffer;
    char *end;
    while ((end = memchr(entry, '\0', *length - (size_t)(entry - buffer))) != NULL) {
        if (!*passing && strncmp(entry, conf_prefix, strlen(conf_prefix)) == 0)
            return entry + strlen(conf_prefix);
        *passing = false;
        entry = end + 1;
    }
    *length -= (size_t)(entry - buffer);
    memmove(buffer, entry, *length);
    return NULL;
}

/* A program may allocate before the C library has set up `environ`; the kernel's
 * copy of the environment is read then.  Returns NULL if EXGEN_CONF is not set,
 * or, with a message, if it does not fit the buffer. */
static const char *conf_from_kernel(char *buffer, size_t capacity) {
    static const char too_long[] = "exgen: EXGEN_CONF: too long for a program that allocates "
                                   "before it has an environment; it has no effect\n";
    int file = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    const char *conf = NULL;
    size_t length = 0;
    bool passing = false;
    ssize_t got;
    while (conf == NULL && (got = read(file, buffer + length, capacity - length)) > 0) {
        length += (size_t)got;
        conf = take_entries(buffer, &length, &passing);
        if (conf != NULL || length < capacity)
            continue;
        if (!passing && memcmp(buffer, conf_prefix, strlen(conf_prefix)) == 0)
            text_to_stderr(&(struct text){(char *)too_long, sizeof too_long, sizeof too_long - 1});
        passing = true;
        length = 0;
    }
    close(file);
    return conf;
}

void options_complete(struct options *o) {
    enum {
        N_SECURE_QUARANTINE = 256
    };
    if (o->secure) {
        o->junk = 1;
        o->large_cache_count = 0;
        if (o->quarantine < N_SECURE_QUARANTINE)
            o->quarantine = N_SECURE_QUARANTINE;
    }
    if (o->junk || o->quarantine > 0)
        o->check = 1;
}

/* Where the lines were cut off. */
COLD static void report_rest(size_t n_bad) {
    char line[128];
    struct text t = {line, sizeof line, 0};
    text_string(&t, "...\nexgen: EXGEN_CONF: ");
    text_decimal(&t, n_bad);
    text_string(&t, " entries have no effect\n");
    text_to_stderr(&t);
}

/* Apply what the environment says.  Apart from options_load, since most programs set nothing: then
 * these buffers and the constants for messages take no memory. */
COLD static void apply(const char *conf) {
    char lines[4096];
    struct text report = {lines, sizeof lines, 0};
    size_t n_bad = options_parse(&options, conf, &report);
    if (n_bad == 0)
        return;
    text_to_stderr(&report);
    if (report.length >= report.capacity)
        report_rest(n_bad);
    if (options.abort_conf)
        fatal("EXGEN_CONF is not valid", NULL);
}

COLD static void apply_from_kernel(void) {
    char environment[16384];
    const char *conf = conf_from_kernel(environment, sizeof environment);
    if (conf != NULL)
        apply(conf);
}

void options_load(void) {
    static char name[] = "EXGEN_CONF"; /* not const, so among data that is used anyway */
    if (getauxval(AT_SECURE) != 0)
        return;
    const char *conf = environ != NULL ? getenv(name) : NULL;
    if (conf != NULL)
        apply(conf);
    else if (environ == NULL)
        apply_from_kernel();
    options_complete(&options);
}

void option_write_value(struct text *t, size_t i, uint64_t value) {
    const struct option *row = &option_list[i];
    if (row->kind == OPTION_flag) {
        text_string(t, value != 0 ? "true" : "false");
    } else if (row->kind == OPTION_choice) {
        const char *s = row->choices;
        for (; value > 0; value--)
            s += strcspn(s, "|") + 1;
        text_bytes(t, s, strcspn(s, "|"));
    } else if (row->kind == OPTION_number) {
        text_decimal(t, value);
    }
}

static void write_list(struct text *t, const struct options *o) {
    for (size_t i = 0; i < o->classes; i++) {
        text_string(t, i == 0 ? "" : "+");
        text_decimal(t, o->listed[i].bytes);
        if (o->listed[i].n_units != 0) {
            text_string(t, "@");
            text_decimal(t, o->listed[i].n_units);
        }
    }
}

void options_write_json(struct text *t, const struct options *o) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        bool is_list = option_list[i].kind == OPTION_list;
        const char *quote = is_list || option_list[i].kind == OPTION_choice ? "\"" : "";
        text_string(t, i == 0 ? "{\"" : ",\"");
        text_string(t, option_list[i].name);
        text_string(t, "\":");
        text_string(t, quote);
        if (is_list)
            write_list(t, o);
        else
            option_write_value(t, i, option_value(o, i));
        text_string(t, quote);
    }
    text_string(t, "}");
}
