/* What the JSON writer writes: commas, escapes, numbers, and what happens without room. */
#include "check.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void require_text(const struct json *json, const char *expected, const char *what) {
    if (json->length == strlen(expected) && memcmp(json->bytes, expected, json->length) == 0)
        return;
    n_failed++;
    fprintf(stderr, "%s: %.*s\n", what, (int)json->length, json->bytes);
}

static void check_values(void) {
    char bytes[256];
    struct json json = json_in(bytes, sizeof bytes);
    json_open(&json, NULL);
    json_integer(&json, "a", UINT64_MAX);
    json_signed(&json, "b", INT64_MIN);
    json_open_list(&json, "c");
    json_number(&json, NULL, 0.1);
    json_number(&json, NULL, NAN);
    json_bool(&json, NULL, true);
    json_close_list(&json);
    json_open(&json, "d");
    json_close(&json);
    json_text(&json, "e", NULL);
    json_verbatim(&json, "f", "[1]");
    json_members(&json, "\"g\":2", 5);
    json_close(&json);
    require_text(&json,
                 "{\"a\":18446744073709551615,\"b\":-9223372036854775808,"
                 "\"c\":[0.10000000000000001,null,true],\"d\":{},\"e\":null,\"f\":[1],\"g\":2}",
                 "values");
}

/* RFC 8259 section 7; what is no UTF-8 (RFC 3629) is escaped byte by byte. */
static void check_texts(void) {
    static const struct {
        const char *text, *expected;
    } CASES[] = {
        {"a\"\\\n", "\"a\\u0022\\u005c\\u000a\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xc3", "\"\\udcc3\""},                                  /* cut off */
        {"\xc0\xaf", "\"\\udcc0\\udcaf\""},                       /* longer than needed */
        {"\xe0\x80\xaf", "\"\\udce0\\udc80\\udcaf\""},            /* the same */
        {"\xed\xa0\x80", "\"\\udced\\udca0\\udc80\""},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\""}, /* beyond U+10FFFF */
        {"\xff\xc3\xa9", "\"\\udcff\xc3\xa9\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char bytes[64];
        struct json json = json_in(bytes, sizeof bytes);
        json_text(&json, NULL, CASES[i].text);
        require_text(&json, CASES[i].expected, "text");
    }
}

static void check_room(void) {
    char bytes[8];
    struct json json = json_in(bytes, sizeof bytes);
    json_text(&json, NULL, "123456");
    require(!json.has_failed, "eight bytes have room in eight");
    json_null(&json, NULL);
    errno = 0;
    require(json.has_failed && !json_finish(&json), "more than eight have not");
}

/* More than the buffer holds reaches the descriptor whole; an error of it is reported. */
static void check_descriptor(void) {
    char line[8] = "";
    FILE *file = tmpfile();
    struct json json = json_to(fileno(file));
    json_open_list(&json, NULL);
    for (int i = 0; i < 100000; i++)
        json_integer(&json, NULL, 7);
    json_close_list(&json);
    require(json_finish(&json), "a file takes it");
    require(lseek(fileno(file), 0, SEEK_END) == 200002, "all of it is there");
    require(pread(fileno(file), line, 4, 199998) == 4 && strcmp(line, ",7]\n") == 0,
            "up to its end");
    fclose(file);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    json = json_to(full);
    json_null(&json, NULL);
    require(!json_finish(&json) && errno == ENOSPC, "a full disk is an error");
    close(full);
}

int main(void) {
    check_values();
    check_texts();
    check_room();
    check_descriptor();
    return verdict();
}
