/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/mask.c - see mask.h. */
#include "crypto/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define ROOM ((size_t)64 * 1024) /* bytes read together, beside those that are held back */

/* The tables of one or more streams. */
struct mask_tables {
    struct berth_matcher *matcher;
    size_t longest;
    int refs;
};

/* Bytes from `from` to before `to`, counted from the beginning of the stream. */
struct mask_run {
    uint64_t from, to;
};

/* window.bytes[start] to before window.bytes[window.len] is what was not handed on yet. Room for
 * twice the longest value lets it move seldom: each byte is moved once at most. */
struct berth_mask {
    struct mask_tables *tables;
    struct berth_match match;
    struct berth_locked window;
    size_t start;
    uint64_t base; /* the offset of window.bytes[0] in the stream */
    /* Secret bytes in the window: runs[run_first] to before runs[run_end], in order, with gaps. */
    struct mask_run *runs;
    size_t run_first, run_end, run_cap;
    uint64_t steps;
};

/* Returns the length without ends of lines behind it: a shell leaves them out. */
static size_t bare_len(const struct berth_pattern *value)
{
    size_t len = value->len;
    while (len && (value->bytes[len - 1] == '\n' || value->bytes[len - 1] == '\r'))
        len--;
    return len;
}

static void tables_drop(struct mask_tables *tables)
{
    if (!tables || --tables->refs)
        return;
    berth_matcher_free(tables->matcher);
    free(tables);
}

void berth_mask_free(struct berth_mask *mask)
{
    if (!mask)
        return;
    tables_drop(mask->tables);
    berth_locked_clear(&mask->window);
    free(mask->runs);
    free(mask);
}

/* --- making one --- */

/* Appends a value as a terminal prints it, which makes two bytes of each end of a line. The copy
 * has no bytes when that is the value itself. */
static struct berth_pattern on_terminal(const struct berth_pattern *value, struct berth_locked *to)
{
    size_t start = to->len;
    if (!memchr(value->bytes, '\n', value->len))
        return (struct berth_pattern){0};
    for (size_t i = 0; i < value->len; i++) {
        if (value->bytes[i] == '\n')
            berth_locked_append(to, "\r", 1);
        berth_locked_append(to, value->bytes + i, 1);
    }
    return (struct berth_pattern){to->bytes + start, to->len - start};
}

/* Writes the values that can be masked to `all`, and returns their number. */
static size_t mask_patterns(const struct berth_pattern *values, size_t count,
                            struct berth_pattern *all)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = bare_len(&values[i]);
        if (len >= BERTH_MASKED_BYTES_MIN)
            all[used++] = (struct berth_pattern){values[i].bytes, len};
    }
    return used;
}

/* all[count] to before all[2 * count] is room for the values as a terminal prints them. */
static int tables_new(struct berth_pattern *all, size_t count, struct mask_tables **out,
                      struct berth_error *err)
{
    auto_locked copies = BERTH_LOCKED_INIT;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += memchr(all[i].bytes, '\n', all[i].len) ? 2 * all[i].len : 0;
    int rc = bytes ? berth_locked_new(bytes, &copies, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        all[count + i] = on_terminal(&all[i], &copies);
    auto_free struct mask_tables *tables = calloc(1, sizeof *tables);
    if (!tables)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: mask.");
    for (size_t i = 0; i < 2 * count; i++)
        if (all[i].len > tables->longest)
            tables->longest = all[i].len;
    rc = berth_matcher_new(all, 2 * count, &tables->matcher, err);
    if (rc == BERTH_OK)
        *out = take_ptr(tables);
    return rc;
}

/* Makes a stream over the tables, and takes a reference to them. */
static int stream_new(struct mask_tables *tables, struct berth_mask **out, struct berth_error *err)
{
    size_t held = tables->longest + ROOM;
    struct berth_mask *mask = calloc(1, sizeof *mask);
    if (mask) { /* a run has the bytes of the shortest value, and one behind it; and see runs_move
                 */
        mask->run_cap = 2 * (held / (BERTH_MASKED_BYTES_MIN + 1) + 2);
        mask->runs = calloc(mask->run_cap, sizeof *mask->runs);
    }
    int rc = mask && mask->runs ? berth_locked_new(held + tables->longest, &mask->window, err)
                                : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: mask.");
    if (rc < 0) {
        berth_mask_free(mask);
        return rc;
    }
    mask->tables = tables;
    tables->refs++;
    *out = mask;
    return BERTH_OK;
}

int berth_mask_new(const struct berth_pattern *values, size_t count, struct berth_mask **out,
                   struct berth_error *err)
{
    *out = NULL;
    auto_free struct berth_pattern *all = calloc(2 * count + 1, sizeof *all);
    if (!all)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: mask.");
    size_t used = mask_patterns(values, count, all);
    struct mask_tables *tables = NULL;
    int rc = used ? tables_new(all, used, &tables, err) : BERTH_OK;
    if (!tables)
        return rc;
    tables->refs = 1;
    rc = stream_new(tables, out, err);
    tables_drop(tables);
    return rc;
}

int berth_mask_twin(struct berth_mask *mask, struct berth_mask **out, struct berth_error *err)
{
    *out = NULL;
    return mask ? stream_new(mask->tables, out, err) : BERTH_OK;
}

/* --- reading --- */

/* Where the piece begins in the stream that is being read. */
struct mask_piece {
    struct berth_mask *mask;
    uint64_t from;
};

/* Makes room for one more run. At least half of the array is free, so each is moved once. */
static void runs_move(struct berth_mask *mask)
{
    size_t count = mask->run_end - mask->run_first;
    if (mask->run_end < mask->run_cap)
        return;
    memmove(mask->runs, mask->runs + mask->run_first, count * sizeof *mask->runs);
    mask->steps += count;
    mask->run_first = 0;
    mask->run_end = count;
}

/* Joins the bytes of a match with the runs that they touch. Matches come in the order of their
 * ends, so only the last runs can be touched, and each is joined once. */
static void mask_cover(void *ctx, size_t end, size_t len)
{
    struct mask_piece *piece = ctx;
    struct berth_mask *mask = piece->mask;
    struct mask_run run = {.to = piece->from + end};
    run.from = run.to - len;
    while (mask->run_end > mask->run_first && mask->runs[mask->run_end - 1].to >= run.from) {
        const struct mask_run *last = &mask->runs[--mask->run_end];
        run.from = last->from < run.from ? last->from : run.from;
    }
    runs_move(mask);
    mask->runs[mask->run_end++] = run;
}

/* Writes stars over the runs before `until`, and forgets them. */
static void mask_paint(struct berth_mask *mask, uint64_t until)
{
    for (; mask->run_first < mask->run_end; mask->run_first++) {
        struct mask_run *run = &mask->runs[mask->run_first];
        uint64_t to = run->to < until ? run->to : until;
        if (run->from >= until)
            return;
        memset(mask->window.bytes + (run->from - mask->base), '*', (size_t)(to - run->from));
        mask->steps++;
        run->from = to;
        if (run->to > until) /* the rest of it is painted later */
            return;
    }
}

/* Hands on the window but for its last `keep` bytes. */
static void mask_hand_on(struct berth_mask *mask, size_t keep, berth_mask_out_fn *out, void *ctx)
{
    size_t end = mask->window.len - keep, start = mask->start;
    if (end == start)
        return;
    mask_paint(mask, mask->base + end);
    mask->start = end;
    out(ctx, mask->window.bytes + start, end - start);
}

/* Makes room behind the window by moving what is held back to its beginning. */
static void mask_make_room(struct berth_mask *mask)
{
    if (mask->window.cap - mask->window.len >= ROOM)
        return;
    mask->window.len -= mask->start;
    memmove(mask->window.bytes, mask->window.bytes + mask->start, mask->window.len);
    mask->steps += mask->window.len;
    mask->base += mask->start;
    mask->start = 0;
}

void berth_mask_put(struct berth_mask *mask, const char *bytes, size_t len, berth_mask_out_fn *out,
                    void *ctx)
{
    if (!mask) {
        out(ctx, bytes, len);
        return;
    }
    while (len) {
        mask_make_room(mask);
        size_t part = len < ROOM ? len : ROOM;
        struct mask_piece piece = {mask, mask->base + mask->window.len};
        berth_locked_append(&mask->window, bytes, part);
        berth_matcher_read(mask->tables->matcher, &mask->match, bytes, part, mask_cover, &piece);
        mask_hand_on(mask, berth_matcher_begun(mask->tables->matcher, &mask->match), out, ctx);
        bytes += part;
        len -= part;
    }
}

void berth_mask_end(struct berth_mask *mask, berth_mask_out_fn *out, void *ctx)
{
    if (!mask)
        return;
    mask_hand_on(mask, 0, out, ctx);
    mask->steps += mask->match.steps;
    mask->match = (struct berth_match){0};
    mask->window.len = mask->start = mask->run_first = mask->run_end = 0;
    mask->base = 0;
}

uint64_t berth_mask_steps(const struct berth_mask *mask)
{
    return mask ? mask->steps + mask->match.steps : 0;
}
