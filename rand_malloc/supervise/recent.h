/* Memory of the last samples, for CPU time that is known only from time to time.
 *
 * Some kernels account the time of a running program at clock ticks, of 1 to 10 ms, alone.  Most
 * samples then find no CPU time, and the next one that of several.  A program ran last before its
 * time became known: that much of the time before has its weight.
 */
#ifndef SUPERVISE_RECENT_H
#define SUPERVISE_RECENT_H

#include <stddef.h>
#include <stdint.h>

enum {
    RECENT_PIECES = 32
};

struct recent_piece {
    uint64_t ns; /* elapsed time */
    double mean; /* memory over it, bytes */
};

struct recent {
    size_t n_pieces; /* added since the start, of which the last RECENT_PIECES are known */
    struct recent_piece pieces[RECENT_PIECES];
};

void recent_start(struct recent *recent);
void recent_add(struct recent *recent, uint64_t ns, double mean);

/* Mean over the last `ns` of elapsed time, or of all that is known if that is less; of pieces
 * without time it is the last one's, of none 0. */
double recent_mean(const struct recent *recent, uint64_t ns);

#endif
