/* test_recorder_touch.c - the survey of blocks that are alive, also out of a signal handler.
 *
 * Looks inside touch.c; the spool that it writes to is the fakes below.
 */
#include "touch/touch.c" /* NOLINT(bugprone-suspicious-include): its parts are static */

#include "check.h"

struct real_functions real;
static struct touch_stride answers;

bool file_owns_memory(void) {
    return true;
}

bool file_has_lane(void) {
    return true;
}

bool file_may_take_stride(void) {
    return true;
}

uint64_t file_take_stride(void) {
    return 0;
}

void *file_map_stride(uint64_t stride) {
    (void)stride;
    return &answers;
}

int file_move_high(int fd) {
    return fd;
}

pid_t file_process(void) {
    return getpid();
}

enum {
    BLOCK_BYTES = 1 << 16
};

static void *make_block(uint32_t *number) {
    void *block =
        mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    *number = touch_begin(block, BLOCK_BYTES);
    return block;
}

TEST(a_survey_answers_for_blocks_that_are_alive) {
    uint32_t number;
    char *block = make_block(&number);
    block[0] = 1;
    touch_survey();
    CHECK(number != 0 && answers.touches[number] == BLOCK_BYTES / pages_bytes());
}

/* The handler has come amid the work on the table: who holds the lock will not go on. */
TEST(a_survey_out_of_a_signal_handler_ends) {
    uint32_t number;
    (void)make_block(&number);
    lock_touch();
    touch_survey();
    unlock_touch();
    CHECK(number != 0 && answers.touches[number] == 0);
    touch_survey();
    CHECK(answers.touches[number] != 0);
}

int main(void) {
    alarm(60); /* one that waits for itself would never end */
    touch_start();
    run_tests();
    puts("passed");
    return 0;
}
