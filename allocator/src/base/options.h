/* options.h - the settings of exgen: their values, their list, their parser.
 *
 * options.def is the only list of settings.  A value is read from EXGEN_CONF
 * once, before the first block is handed out, and never changes afterwards.
 *
 * Text form: "key:value,key:value".  Numbers are plain decimals; flags are
 * true or false; choices are names; the list of size classes is
 * 16+32+48@2+..., see struct listed_class.  An unknown key, a bad value or a value out
 * of range is reported on stderr in one line that names the key, the value
 * and what is allowed; what was set before then stays, or, with
 * abort_conf:true anywhere in the text, the program ends.  Values are never clamped.
 */
#ifndef EXGEN_OPTIONS_H
#define EXGEN_OPTIONS_H

#include "base/platform.h"
#include "base/text.h"

enum {
    N_LISTED_MAX = 112,     /* high end of `classes` */
    LISTED_FINE = 2048,     /* bytes; listed sizes are multiples of 16 up to here, then of 64 */
    N_LISTED_FINE_MAX = 50, /* sizes up to LISTED_FINE */
    LISTED_MAX = 32768,     /* bytes */
    LISTED_UNITS_MAX = 32
};

/* A size class of the setting `classes`: "bytes" or "bytes@units". */
struct listed_class {
    uint16_t bytes;
    uint16_t n_units; /* of a slab; 0: as slab_blocks says */
};

/* One member per row of options.def, in its unit; of a list, how many entries it has. */
struct options {
#define OPTION(name, ...) uint64_t name;
#include "base/options.def"
#undef OPTION
    struct listed_class listed[N_LISTED_MAX];
};

enum option_kind {
    OPTION_number,
    OPTION_flag,
    OPTION_choice,
    OPTION_list
};

enum {
    SLAB_ORDER_LIFO,
    SLAB_ORDER_FIFO
};
enum {
    BLOCK_ORDER_LIFO,
    BLOCK_ORDER_FIFO,
    BLOCK_ORDER_ADDRESS
};
enum {
    PURGE_DONTNEED,
    PURGE_FREE,
    PURGE_NEVER,
    PURGE_UNMAP
};
enum {
    HUGE_SYSTEM,
    HUGE_NEVER,
    HUGE_ALWAYS,
    HUGE_GROWN
};
enum {
    ADOPT_NEVER,
    ADOPT_THREAD,
    ADOPT_ANY
};

/* A row of options.def, but for its effect, for the parser and the printers.  Without pointers:
 * those would have to be written at each start of a program. */
struct option {
    uint64_t low;      /* smallest value, included */
    uint64_t high;     /* largest value, included */
    uint64_t standard; /* default */
    uint16_t offset;   /* of the value in struct options */
    uint8_t kind;      /* enum option_kind */
    char unit[8];      /* bytes, count, percent, ms or none */
    char scale[9];     /* linear, log, power2, category or never */
    char name[20];     /* key in EXGEN_CONF */
    char choices[32];  /* names separated by '|'; empty unless a choice */
};

enum {
#define OPTION(name, ...) OPTION_AT_##name,
#include "base/options.def"
#undef OPTION
    N_OPTIONS
};

extern const struct option option_list[N_OPTIONS];

/* The values in use; written by options_load only. */
extern struct options options;

/* Set `o` to the defaults, then apply `text`.  Each problem is appended to
 * `report` as one line.  Returns the number of problems. */
size_t options_parse(struct options *o, const char *text, struct text *report);

/* Turn on what other settings need: see secure, junk and quarantine in options.def. */
void options_complete(struct options *o);

/* Read EXGEN_CONF into `options`; reports or aborts as the header above says.
 * The environment of setuid programs is not read. */
void options_load(void);

/* Append the value of option `i`, which is no list, as it is written in EXGEN_CONF. */
void option_write_value(struct text *t, size_t i, uint64_t value);

/* Append {"name":value,...}; flags and numbers bare, choices and lists quoted. */
void options_write_json(struct text *t, const struct options *o);

uint64_t option_value(const struct options *o, size_t i);

#endif
