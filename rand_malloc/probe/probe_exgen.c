/* probe_exgen.c - what exgen made of EXGEN_CONF: its own account, as JSON.
 *
 * exgen_config_json reports the library, its version, every setting in use, and what follows
 * from settings together; see allocator/include/exgen.h.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "probe.h"

void probe_exgen(void) {
    static char text[1 << 14];
    size_t (*config)(char *buffer, size_t capacity);
    *(void **)&config = dlsym(RTLD_DEFAULT, "exgen_config_json");
    if (config && config(text, sizeof text) < sizeof text) {
        json_verbatim(&report, "exgen", text);
    } else {
        json_null(&report, "exgen");
    }
}
