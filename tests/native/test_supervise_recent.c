/* What memory was over the last time, whatever was added before. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "recent.h"

static int n_failed;

static void expect(const char *what, double found, double wanted) {
    if (fabs(found - wanted) > 1e-9) {
        fprintf(stderr, "%s: %g instead of %g\n", what, found, wanted);
        n_failed++;
    }
}

int main(void) {
    struct recent recent;
    recent_start(&recent);
    expect("nothing", recent_mean(&recent, 4), 0.0);
    recent_add(&recent, 0, 7.0);
    expect("no time", recent_mean(&recent, 4), 7.0);
    for (int i = 1; i <= 5; i++)
        recent_add(&recent, 2, i);
    expect("the last piece", recent_mean(&recent, 2), 5.0);
    expect("a part of one", recent_mean(&recent, 3), (2.0 * 5.0 + 4.0) / 3.0);
    expect("all", recent_mean(&recent, 10), 3.0);
    expect("more than all", recent_mean(&recent, 1000), 3.0);
    for (int i = 0; i < 3 * RECENT_PIECES; i++)
        recent_add(&recent, 2, i % 2);
    expect("more than is kept", recent_mean(&recent, UINT64_MAX), 0.5);
    recent_add(&recent, 0, 100.0);
    expect("no time has no weight", recent_mean(&recent, 2), 1.0);
    recent_start(&recent);
    expect("afresh", recent_mean(&recent, 4), 0.0);
    return n_failed == 0 ? 0 : 1;
}
