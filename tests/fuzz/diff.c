/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/diff.c - the difference of two contents, which the first 0xfe byte separates. The
 * first byte chooses whether the output has little room, and whether a side is absent. What is
 * written has the form of a difference, keeps its bound, and its hunks have as many lines as their
 * headers say. */
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "sync/diff.h"

#define ROOM_SMALL ((size_t)200)
#define ROOM_LARGE ((size_t)64 * 1024 * 1024)

/* Returns the bytes behind the line at `at`. */
static const char *next_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    CHECK(newline);
    return newline + 1;
}

/* Reads "MARK BEGIN[,COUNT]" and returns the count. */
static unsigned long read_count(const char **at, char mark)
{
    char *end;
    CHECK(**at == mark);
    (void)strtoul(*at + 1, &end, 10);
    unsigned long count = *end == ',' ? strtoul(end + 1, &end, 10) : 1;
    *at = end + 1;
    return count;
}

/* Returns the end of the hunk at `at`. */
static const char *check_hunk(const char *at, const char *end)
{
    const char *p = at + 3;
    unsigned long old = read_count(&p, '-'), now = read_count(&p, '+');
    CHECK(old || now);
    for (at = next_line(at, end); old || now; at = next_line(at, end)) {
        CHECK(*at == ' ' || *at == '-' || *at == '+' || *at == '\\');
        CHECK((*at != ' ' && *at != '-') || old);
        CHECK((*at != ' ' && *at != '+') || now);
        old -= *at == ' ' || *at == '-';
        now -= *at == ' ' || *at == '+';
    }
    return at < end && *at == '\\' ? next_line(at, end) : at;
}

static void check_diff(const struct berth_buf *out, bool cut)
{
    const char *at = out->data, *end = at + out->len;
    if (strncmp(at, "--- ", 4) == 0) {
        at = next_line(at, end);
        CHECK(strncmp(at, "+++ ", 4) == 0);
        at = next_line(at, end);
        while (at < end && strncmp(at, "@@ ", 3) == 0)
            at = check_hunk(at, end);
    } else if (!cut) {
        CHECK(strncmp(at, "Binary files ", 13) == 0 || strncmp(at, "Files ", 6) == 0);
        at = next_line(at, end);
    }
    if (cut) {
        CHECK(strncmp(at, "The rest ", 9) == 0);
        at = next_line(at, end);
    }
    CHECK(at == end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *bytes = (const char *)data + 1, *end = bytes + size - 1;
    const char *gap = memchr(bytes, 0xfe, size - 1);
    size_t room = data[0] & 1 ? ROOM_SMALL : ROOM_LARGE;
    struct berth_diff_side old = {"a/\"f\n", bytes, (size_t)((gap ? gap : end) - bytes)};
    struct berth_diff_side now = {"b/f f", gap ? gap + 1 : end, gap ? (size_t)(end - gap - 1) : 0};
    if (data[0] & 2)
        old = (struct berth_diff_side){"/dev/null", NULL, 0};
    auto_buf out = BERTH_BUF_INIT(ROOM_LARGE);
    struct berth_error err;
    bool cut;
    CHECK(berth_diff_append(&old, &now, room, &out, &cut, &err) == BERTH_OK);
    CHECK(out.len <= room);
    if (old.len == now.len && (!old.len || memcmp(old.bytes, now.bytes, old.len) == 0))
        CHECK(out.len == 0 && !cut);
    else
        check_diff(&out, cut);
    return 0;
}
