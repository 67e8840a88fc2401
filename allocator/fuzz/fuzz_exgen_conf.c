/* fuzz_exgen_conf.c - whatever EXGEN_CONF says, every value ends up inside its range, the
 * number of problems agrees with the report, and the size classes that follow from a text without
 * problems are valid.
 */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "memory/size_class.h"
#include "memory/superblock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static char lines[65536];

static void values_are_in_range(const struct options *o) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        uint64_t value = option_value(o, i);
        EXPECT(value >= option_list[i].low && value <= option_list[i].high);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct size_classes c;
    struct options o;
    struct text report = {lines, sizeof lines, 0};
    char *text = malloc(size + 1);
    EXPECT(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    size_t n_bad = options_parse(&o, text, &report);
    EXPECT((n_bad > 0) == (report.length > 0));
    options_complete(&o);
    values_are_in_range(&o);
    if (n_bad == 0) {
        memset(&c, 0, sizeof c);
        size_class_init(&c, &o, o.superblock_size / UNIT_BYTES);
        EXPECT(size_classes_are_valid(&c));
    }
    free(text);
    return 0;
}
