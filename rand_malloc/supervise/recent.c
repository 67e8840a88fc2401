/* Memory of the last samples: see recent.h. */
#include "recent.h"

void recent_start(struct recent *recent) {
    recent->n_pieces = 0;
}

void recent_add(struct recent *recent, uint64_t ns, double mean) {
    recent->pieces[recent->n_pieces % RECENT_PIECES] = (struct recent_piece){ns, mean};
    recent->n_pieces++;
}

double recent_mean(const struct recent *recent, uint64_t ns) {
    size_t n_known = recent->n_pieces < RECENT_PIECES ? recent->n_pieces : RECENT_PIECES;
    uint64_t left_ns = ns;
    double area = 0.0;
    for (size_t back = 1; back <= n_known && left_ns > 0; back++) {
        const struct recent_piece *piece =
            &recent->pieces[(recent->n_pieces - back) % RECENT_PIECES];
        uint64_t part_ns = piece->ns < left_ns ? piece->ns : left_ns;
        area += piece->mean * (double)part_ns;
        left_ns -= part_ns;
    }
    if (left_ns < ns)
        return area / (double)(ns - left_ns);
    return n_known > 0 ? recent->pieces[(recent->n_pieces - 1) % RECENT_PIECES].mean : 0.0;
}
