/* toml.c - finds and calls libprofiletoml.so; see toml.h. */
#include "toml.h"

#include "memory.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char LIBRARY[] = "libprofiletoml.so";

int toml_recognise(const char *text, size_t n_bytes) {
    static const char KEY[] = "schema";
    size_t at = 0;
    while (at < n_bytes && (isspace((unsigned char)text[at]) || text[at] == '#')) {
        if (text[at] == '#')
            while (at < n_bytes && text[at] != '\n')
                at++;
        else
            at++;
    }
    return n_bytes - at >= sizeof KEY && memcmp(text + at, KEY, sizeof KEY - 1) == 0 &&
           (isblank((unsigned char)text[at + sizeof KEY - 1]) || text[at + sizeof KEY - 1] == '=');
}

/* Puts the library's name behind the folder of the file; 0 if there is no folder or room. */
static int beside(char *path, size_t path_bytes) {
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof LIBRARY > path_bytes)
        return 0;
    memcpy(slash + 1, LIBRARY, sizeof LIBRARY);
    return 1;
}

static void *load(void) {
    char path[PATH_MAX] = "";
    Dl_info info;
    if (dladdr((const void *)LIBRARY, &info) != 0 && info.dli_fname != NULL)
        snprintf(path, sizeof path, "%s", info.dli_fname);
    void *library = beside(path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library != NULL)
        return library;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return beside(path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

char *toml_as_json(const char *text, size_t n_bytes, size_t *n_json, char *message,
                   size_t message_bytes) {
    static void *library; /* once loaded it stays */
    char *(*as_json)(const char *, size_t, size_t *, char *, size_t) = NULL;
    void (*release)(char *) = NULL;
    if (library == NULL)
        library = load();
    if (library != NULL) {
        /* POSIX's way from an object pointer to a function pointer. */
        *(void **)&as_json = dlsym(library, "profiletoml_as_json");
        *(void **)&release = dlsym(library, "profiletoml_release");
    }
    if (as_json == NULL || release == NULL) {
        snprintf(message, message_bytes, "%s, which reads TOML, is not beside this program",
                 LIBRARY);
        return NULL;
    }
    char *made = as_json(text, n_bytes, n_json, message, message_bytes);
    if (made == NULL)
        return NULL;
    char *json = memory_map(*n_json + 1); /* ends with NUL */
    if (json != NULL)
        memcpy(json, made, *n_json);
    else
        snprintf(message, message_bytes, "no memory for the profile");
    release(made);
    return json;
}
