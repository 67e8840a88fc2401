/* toml.h - profiles that people wrote as TOML, turned into the JSON that parse.c reads.
 *
 * TOML is read by toml++, which is C++ and allocates.  It lives in a shared library of its
 * own, libprofiletoml.so beside the program or library that asks, and is loaded only when a
 * profile is TOML: nothing else carries the C++ run time, and no program under study does.
 */
#ifndef RAND_MALLOC_PROFILE_TOML_H
#define RAND_MALLOC_PROFILE_TOML_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In libprofiletoml.so: JSON of TOML, from malloc, or NULL with a sentence in message. */
__attribute__((visibility("default"))) char *profiletoml_as_json(const char *text, size_t n_bytes,
                                                                 size_t *n_json, char *message,
                                                                 size_t message_bytes);
__attribute__((visibility("default"))) void profiletoml_release(char *json);

/* Does the text begin, behind blanks and comments, with the key schema? */
int toml_recognise(const char *text, size_t n_bytes);

/* The JSON in pages of its own, to be given back with memory_unmap(json, *n_json + 1), a NUL behind
 * it; NULL with a sentence in message. */
char *toml_as_json(const char *text, size_t n_bytes, size_t *n_json, char *message,
                   size_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
