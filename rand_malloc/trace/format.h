/* format.h - the bytes of a trace file, shared by reader and writer.
 *
 *   file   = header (128 bytes) metadata (JSON) checksum (8) block*
 *   block  = block header (40 bytes) zstd frame
 *   frame  = n_columns lengths (4 bytes each), then the columns one after another
 *
 * All numbers are little-endian; the structs below are the file's layout on the
 * little-endian machines we build for.  A varint has seven bits a byte, low bits first; a
 * zigzag varint stores 0, -1, 1, -2, ... as 0, 1, 2, 3, ...  docs/formats.md says what a
 * trace is for.
 */
#ifndef MALLOC_TUNER_TRACE_FORMAT_H
#define MALLOC_TUNER_TRACE_FORMAT_H

#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file layout is little-endian");

/* The first byte is no ASCII and the line ends break under text conversion, so
 * that a damaged transfer differs from a foreign file (idea: PNG, section 5.2). */
#define TRACE_MAGIC "\x93MTTRC\r\n"
enum {
    TRACE_MAGIC_BYTES = 8
};
#define TRACE_BLOCK_MAGIC 0x314b4c42u /* "BLK1" */

enum {
    FORMAT_BLOCK_EVENTS = 65536,         /* most events of a block */
    FORMAT_METADATA_MAX_BYTES = 1 << 24, /* most bytes of metadata */
    FORMAT_IS_COMPLETE = 1,              /* flag: the totals are final */
    FORMAT_KNOWS_START = 2,              /* flag: start_ns is known; since version 3 */
    FORMAT_KNOWS_END = 4,                /* flag: end_ns is known; since version 3 */
    FORMAT_ALL_FLAGS = 7
};

struct format_header {
    char magic[TRACE_MAGIC_BYTES];
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct format_header) */
    uint32_t page_bytes;   /* of the recorded machine */
    uint32_t flags;        /* FORMAT_IS_COMPLETE, ... */
    uint64_t metadata_bytes;
    uint64_t blocks_bytes; /* of all blocks together; 0 until complete, like the rest */
    uint64_t n_events;
    uint64_t duration_ns; /* time of the last event */
    uint64_t peak_live_bytes;
    uint64_t peak_live_blocks;
    uint32_t n_threads;       /* greatest number of a thread plus 1 */
    uint32_t n_slots;         /* the same of a slot */
    uint32_t time_quantum_ns; /* unit of times inside blocks */
    uint32_t reserved;        /* 0 */
    uint64_t start_ns;        /* life of the process; 0 where the flags do not say it is known */
    uint64_t end_ns;
    uint32_t reserved2[4]; /* 0 */
    uint64_t checksum;     /* of all bytes before it */
};
_Static_assert(sizeof(struct format_header) == 128, "file layout");

struct format_block {
    uint32_t magic;
    uint32_t n_events;     /* 1..FORMAT_BLOCK_EVENTS */
    uint32_t raw_bytes;    /* of the columns, unpacked */
    uint32_t packed_bytes; /* of the zstd frame that follows */
    uint64_t time_quanta;  /* time at the start of the block */
    uint32_t thread;       /* thread at the start of the block */
    uint32_t reserved;     /* 0 */
    uint64_t checksum;     /* of the 32 bytes before and the frame */
};
_Static_assert(sizeof(struct format_block) == 40, "file layout");

/* One code byte per record: op in the low three bits, api or marker above. */
enum {
    CODE_OP_BITS = 3,
    CODE_OP_MASK = 7,
    CODE_MARKER = 7,                                /* no event; the kind is in the upper bits */
    CODE_THREAD = CODE_MARKER | 0 << CODE_OP_BITS,  /* extras: the thread from here on */
    CODE_ELAPSED = CODE_MARKER | 1 << CODE_OP_BITS, /* extras: quanta since the last one */
    CODE_TOUCH = CODE_MARKER | 2 << CODE_OP_BITS,   /* extras: touch of the next event, not 0;
                                                     * since version 2 */
};

/* Columns compress better than interleaved records: like stands beside like. */
enum format_column {
    COLUMN_CODES,  /* one byte per record */
    COLUMN_SLOTS,  /* zigzag varint: slot less the thread's previous slot in this block */
    COLUMN_SIZES,  /* varint: requested bytes */
    COLUMN_EXTRAS, /* varints of markers; one byte align_log2 of an aligned allocation */
    N_COLUMNS
};

/* Worst case of one event in each column: three markers and the code; a slot
 * difference; a size; a thread, a time, a touch and an alignment. */
enum {
    CODES_PER_EVENT = 4,
    SLOT_MAX_BYTES = 5,
    SIZE_MAX_BYTES = 7,
    EXTRAS_MAX_BYTES = 3 + 10 + 5 + 1,
    FORMAT_RAW_MAX_BYTES = N_COLUMNS * 4 + FORMAT_BLOCK_EVENTS * (CODES_PER_EVENT + SLOT_MAX_BYTES +
                                                                  SIZE_MAX_BYTES + EXTRAS_MAX_BYTES)
};

/* FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).  Each step is a
 * bijection of the state, so damage inside one byte is always noticed. */
#define FORMAT_CHECKSUM_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t format_checksum(uint64_t state, const void *bytes, uint64_t n_bytes) {
    const unsigned char *byte = bytes;
    for (uint64_t i = 0; i < n_bytes; i++)
        state = (state ^ byte[i]) * UINT64_C(0x100000001b3);
    return state;
}

#endif
