/* text.c - reads and unpacks; see text.h.  zstd works in memory of our own, as in reader.c. */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_initStaticDCtx */
#include "text.h"

#include "memory.h"
#include "trace.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

static const char MAGIC[] = {'\x28', '\xb5', '\x2f', '\xfd'};

int text_is_packed(const char *start, size_t n_bytes) {
    return n_bytes >= sizeof MAGIC && memcmp(start, MAGIC, sizeof MAGIC) == 0;
}

static int read_whole(int fd, char *bytes, size_t n_bytes) {
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(fd, bytes + done, n_bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        done += (size_t)n;
    }
    return 1;
}

static int no_memory(const char **why) {
    *why = "no memory for its text";
    return TRACE_ERROR_MEMORY;
}

static int unpack_into(const struct text *packed, const struct text *text, const char **why) {
    size_t workspace_bytes = ZSTD_estimateDCtxSize();
    void *workspace = memory_map(workspace_bytes);
    if (workspace == NULL)
        return no_memory(why);
    ZSTD_DCtx *unpacker = ZSTD_initStaticDCtx(workspace, workspace_bytes);
    size_t n =
        ZSTD_decompressDCtx(unpacker, text->bytes, text->n_bytes, packed->bytes, packed->n_bytes);
    memory_unmap(workspace, workspace_bytes);
    if (n == text->n_bytes)
        return TRACE_OK;
    *why = "damaged: it cannot be unpacked";
    return TRACE_ERROR_FORMAT;
}

/* Replaces the packed text. */
static int unpack(struct text *packed, size_t most_bytes, const char **why) {
    unsigned long long n_bytes = ZSTD_getFrameContentSize(packed->bytes, packed->n_bytes);
    *why = n_bytes == ZSTD_CONTENTSIZE_ERROR     ? "damaged: it cannot be unpacked"
           : n_bytes == ZSTD_CONTENTSIZE_UNKNOWN ? "packed without its size; unpack it first"
           : n_bytes > most_bytes                ? "too large once unpacked"
                                                 : NULL;
    if (*why != NULL)
        return TRACE_ERROR_FORMAT;
    struct text text = {memory_map((size_t)n_bytes + 1), (size_t)n_bytes};
    if (text.bytes == NULL)
        return no_memory(why);
    int status = unpack_into(packed, &text, why);
    text_release(packed);
    *packed = text;
    return status;
}

int text_load(int fd, size_t file_bytes, size_t most_bytes, struct text *text, const char **why) {
    *text = (struct text){NULL, file_bytes};
    if (file_bytes > most_bytes) {
        *why = "too large for a profile";
        return TRACE_ERROR_FORMAT;
    }
    text->bytes = memory_map(file_bytes + 1);
    if (text->bytes == NULL)
        return no_memory(why);
    if (!read_whole(fd, text->bytes, file_bytes)) {
        *why = "cannot be read";
        return TRACE_ERROR_OPEN;
    }
    return text_is_packed(text->bytes, file_bytes) ? unpack(text, most_bytes, why) : TRACE_OK;
}

void text_release(struct text *text) {
    memory_unmap(text->bytes, text->n_bytes + 1);
    *text = (struct text){NULL, 0};
}
