/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/json.c - whatever the reader accepts has one canonical text, which reads back as the
 * same value. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "fuzz.h"

/* The value, or NULL when it is refused in the way the contract names. */
static struct berth_json *parse(const char *text, size_t len, enum berth_json_mode mode)
{
    struct berth_json *value = NULL;
    struct berth_error err;
    int rc = berth_json_parse(text, len, mode, &value, &err);
    if (rc == BERTH_OK) {
        CHECK(value);
        return value;
    }
    CHECK(!value);
    CHECK(rc == err.code && err.message[0]);
    CHECK(rc == BERTH_E_INVALID || rc == BERTH_E_TOO_LARGE || rc == BERTH_E_NO_MEMORY);
    return NULL;
}

static void check_round_trip(const struct berth_json *value, enum berth_json_mode mode)
{
    auto_free char *text = berth_json_canonical(value);
    CHECK(text);
    auto_json *again = parse(text, strlen(text), mode);
    CHECK(again);
    CHECK(berth_json_equal(value, again));
    auto_free char *same = berth_json_canonical(again);
    CHECK(same && strcmp(text, same) == 0);
    auto_json *copy = berth_json_copy(value);
    CHECK(copy && berth_json_equal(value, copy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = malloc(size ? size : 1); /* no NUL behind it: reading on would be seen */
    CHECK(text);
    if (size)
        memcpy(text, data, size);
    auto_json *ours = parse(text, size, BERTH_JSON_OURS);
    auto_json *foreign = parse(text, size, BERTH_JSON_FOREIGN);
    if (ours) {
        CHECK(foreign && berth_json_equal(ours, foreign)); /* the second mode only takes more */
        check_round_trip(ours, BERTH_JSON_OURS);
    }
    if (foreign)
        check_round_trip(foreign, BERTH_JSON_FOREIGN);
    return 0;
}
