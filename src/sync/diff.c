/* SPDX-License-Identifier: Apache-2.0
 * src/sync/diff.c - see diff.h. */
#include "sync/diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "sync/line_match.h"

#define CONTEXT_LINES ((size_t)3)
#define BINARY_PROBE_BYTES ((size_t)8000) /* where git looks for a NUL */

/* Lines [old_at, old_end) are replaced by lines [now_at, now_end). */
struct change {
    size_t old_at, old_end, now_at, now_end;
};

struct change_list {
    struct change *at;
    size_t count;
};

static void change_list_clear(struct change_list *changes)
{
    free(changes->at);
    *changes = (struct change_list){0};
}
#define auto_changes __attribute__((cleanup(change_list_clear))) struct change_list

/* Where a difference goes. */
struct diff_writer {
    const struct berth_diff_side *old, *now;
    struct berth_buf *out;
    size_t begin, bytes_max; /* the length of `out` before; how many bytes may be appended */
    size_t kept;             /* the length of `out` behind the last part with room for the notice */
    const struct berth_buf *notice; /* says that hunks are left out */
    bool *cut;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many bytes may still be appended. */
static size_t room_left(const struct diff_writer *w)
{
    return w->bytes_max - (w->out->len - w->begin);
}

/* --- labels --- */

/* Returns the length of a character that can be shown as it is, or 0. */
static size_t label_step(const char *p)
{
    size_t step;
    uint32_t c = berth_utf8_decode(p, &step);
    bool plain = berth_utf8_step(p) && !berth_utf8_is_control(c) && c != '"' && c != '\\';
    return plain ? step : 0;
}

static bool label_is_plain(const char *label)
{
    size_t step;
    while (*label && (step = label_step(label)))
        label += step;
    return !*label;
}

static void put_escaped(unsigned char c, struct berth_buf *out)
{
    static const char letters[] = "abtnvfr"; /* for the bytes from 7 to 13 */
    if (c == '"' || c == '\\')
        berth_buf_printf(out, "\\%c", c);
    else if (c >= 7 && c <= 13)
        berth_buf_printf(out, "\\%c", letters[c - 7]);
    else
        berth_buf_printf(out, "\\%03o", c);
}

/* Writes a label, in quotes where git puts it in quotes. Printable UTF-8 stays as it is, as with
 * git's core.quotePath=false. */
static void put_label(const char *label, struct berth_buf *out)
{
    if (label_is_plain(label)) {
        berth_buf_puts(out, label);
        return;
    }
    berth_buf_puts(out, "\"");
    while (*label) {
        size_t plain = label_step(label), step;
        if (plain)
            berth_buf_append(out, label, plain);
        (void)berth_utf8_decode(label, &step);
        for (size_t i = 0; !plain && i < step; i++)
            put_escaped((unsigned char)label[i], out);
        label += step;
    }
    berth_buf_puts(out, "\"");
}

static void put_labels(const struct diff_writer *w, const char *before, const char *behind,
                       struct berth_buf *out)
{
    berth_buf_puts(out, before);
    put_label(w->old->label, out);
    berth_buf_puts(out, " and ");
    put_label(w->now->label, out);
    berth_buf_puts(out, behind);
}

/* Writes "--- LABEL" or "+++ LABEL". Without the tab, patch would end a label at its first blank.
 */
static void put_header(const char *mark, const char *label, struct berth_buf *out)
{
    berth_buf_puts(out, mark);
    put_label(label, out);
    berth_buf_puts(out, strchr(label, ' ') ? "\t\n" : "\n");
}

/* --- changes --- */

/* Lists the runs of lines that are not kept. */
static int list_changes(const struct berth_line_list *old, const struct berth_line_list *now,
                        struct change_list *out, struct berth_error *err)
{
    size_t count = 0, i = 0, j = 0;
    for (size_t k = 0; k < old->count; k++)
        count += old->kept[k]; /* at most one change before each kept line, and one at the end */
    struct change *list =
        calloc(smaller(count, old->count + now->count - 2 * count) + 1, sizeof *list);
    if (!list)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: list of changed lines.");
    *out = (struct change_list){.at = list};
    while (i < old->count || j < now->count) {
        struct change c = {i, i, j, j};
        while (c.old_end < old->count && !old->kept[c.old_end])
            c.old_end++;
        while (c.now_end < now->count && !now->kept[c.now_end])
            c.now_end++;
        if (c.old_end > c.old_at || c.now_end > c.now_at)
            list[out->count++] = c;
        i = c.old_end + 1;
        j = c.now_end + 1;
    }
    return BERTH_OK;
}

/* Moves the lines [*at, *end) of one side down while the result is the same, but not into the line
 * before `limit`. Returns by how many lines. */
static size_t slide_lines(const struct berth_line_list *lines, size_t *at, size_t *end,
                          size_t limit)
{
    size_t moved = 0;
    while (*end + 1 < limit && berth_line_equal(&lines->at[*at], &lines->at[*end])) {
        ++*at;
        ++*end;
        moved++;
    }
    return moved;
}

/* Moves pure insertions and deletions down as far as possible, as git does. An inserted function
 * then ends with its own closing brace, and does not begin with the brace of the one before. */
static void slide_changes(const struct berth_line_list *old, const struct berth_line_list *now,
                          struct change_list *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        struct change *c = &changes->at[i], *next = i + 1 < changes->count ? c + 1 : NULL;
        size_t moved;
        if (c->old_at == c->old_end) {
            moved = slide_lines(now, &c->now_at, &c->now_end, next ? next->now_at : now->count + 1);
            c->old_at += moved;
            c->old_end += moved;
        } else if (c->now_at == c->now_end) {
            moved = slide_lines(old, &c->old_at, &c->old_end, next ? next->old_at : old->count + 1);
            c->now_at += moved;
            c->now_end += moved;
        }
    }
}

/* --- hunks --- */

static void put_line(char mark, const struct berth_line *line, struct berth_buf *out)
{
    berth_buf_append(out, &mark, 1);
    berth_buf_append(out, line->at, line->len);
    if (line->at[line->len - 1] != '\n')
        berth_buf_puts(out, "\n\\ No newline at end of file\n");
}

static void put_lines(char mark, const struct berth_line_list *lines, size_t at, size_t end,
                      struct berth_buf *out)
{
    for (; at < end && !out->failed; at++)
        put_line(mark, &lines->at[at], out);
}

/* Writes which lines of a side a hunk covers. No lines are given by the line before them. */
static void put_range(char mark, size_t at, size_t end, struct berth_buf *out)
{
    berth_buf_printf(out, "%c%zu", mark, end > at ? at + 1 : at);
    if (end - at != 1)
        berth_buf_printf(out, ",%zu", end - at);
}

/* Returns how many changes from the first one on share a hunk, because their context meets. */
static size_t hunk_changes(const struct change *first, size_t left)
{
    size_t count = 1;
    while (count < left && first[count].old_at - first[count - 1].old_end <= 2 * CONTEXT_LINES)
        count++;
    return count;
}

static void put_hunk(const struct berth_line_list *old, const struct berth_line_list *now,
                     const struct change *changes, size_t count, struct berth_buf *out)
{
    const struct change *last = &changes[count - 1];
    size_t before = smaller(CONTEXT_LINES, changes[0].old_at);
    size_t behind = smaller(CONTEXT_LINES, old->count - last->old_end);
    size_t at = changes[0].old_at - before;
    berth_buf_puts(out, "@@ ");
    put_range('-', at, last->old_end + behind, out);
    berth_buf_puts(out, " ");
    put_range('+', changes[0].now_at - before, last->now_end + behind, out);
    berth_buf_puts(out, " @@\n");
    for (size_t i = 0; i < count; i++) {
        put_lines(' ', old, at, changes[i].old_at, out);
        put_lines('-', old, changes[i].old_at, changes[i].old_end, out);
        put_lines('+', now, changes[i].now_at, changes[i].now_end, out);
        at = changes[i].old_end;
    }
    put_lines(' ', old, at, at + behind, out);
}

/* Ends the output with the notice, which may take the place of the last hunks. */
static void cut_output(struct diff_writer *w)
{
    *w->cut = true;
    berth_buf_truncate(w->out, w->kept);
    if (w->notice->len <= w->bytes_max - (w->kept - w->begin))
        berth_buf_append(w->out, w->notice->data, w->notice->len);
}

/* Appends a part that is only written whole, or cuts the output when the part does not fit. */
static int append_part(struct diff_writer *w, const struct berth_buf *part, struct berth_error *err)
{
    if (part->failed && !part->too_long)
        return berth_buf_check(part, "difference of two contents", err);
    if (part->failed) {
        cut_output(w);
    } else {
        berth_buf_append(w->out, part->data, part->len);
        if (w->notice->len <= room_left(w))
            w->kept = w->out->len;
    }
    return berth_buf_check(w->out, "difference of two contents", err);
}

static int append_hunks(struct diff_writer *w, const struct berth_line_list *old,
                        const struct berth_line_list *now, const struct change_list *changes,
                        struct berth_error *err)
{
    int rc = BERTH_OK;
    for (size_t i = 0, count; i < changes->count && rc == BERTH_OK && !*w->cut; i += count) {
        auto_buf hunk = BERTH_BUF_INIT(room_left(w));
        count = hunk_changes(&changes->at[i], changes->count - i);
        if (i == 0) {
            put_header("--- ", w->old->label, &hunk);
            put_header("+++ ", w->now->label, &hunk);
        }
        put_hunk(old, now, &changes->at[i], count, &hunk);
        rc = append_part(w, &hunk, err);
    }
    return rc;
}

/* --- which kind --- */

static bool begins_binary(const struct berth_diff_side *side)
{
    return side->len && memchr(side->bytes, '\0', smaller(side->len, BINARY_PROBE_BYTES));
}

/* Does what berth_utf8_valid_bytes does, for bytes that no NUL follows. */
static bool is_utf8(const struct berth_diff_side *side)
{
    for (size_t at = 0, step; at < side->len; at += step) {
        char next[5] = {0};
        step = 1;
        if ((unsigned char)side->bytes[at] < 0x80)
            continue;
        memcpy(next, side->bytes + at, smaller(4, side->len - at));
        step = berth_utf8_step(next);
        if (!step)
            return false;
    }
    return true;
}

/* Appends the one line of contents that are not compared by lines. */
static int append_differ(struct diff_writer *w, const char *what, struct berth_error *err)
{
    auto_buf line = BERTH_BUF_INIT(room_left(w));
    put_labels(w, what, " differ\n", &line);
    return append_part(w, &line, err);
}

static int append_text(struct diff_writer *w, struct berth_line_list *old,
                       struct berth_line_list *now, struct berth_error *err)
{
    auto_changes changes = {0};
    uint64_t steps;
    int rc = berth_line_list_match(old, now, &steps, err);
    if (rc < 0 || (rc = list_changes(old, now, &changes, err)) < 0)
        return rc;
    slide_changes(old, now, &changes);
    return append_hunks(w, old, now, &changes, err);
}

static int append_contents(struct diff_writer *w, struct berth_error *err)
{
    auto_line_list old = {0}, now = {0};
    if (begins_binary(w->old) || begins_binary(w->now))
        return append_differ(w, "Binary files ", err);
    int rc = berth_line_list_split(w->old->bytes, w->old->len, &old, err);
    if (rc == BERTH_OK)
        rc = berth_line_list_split(w->now->bytes, w->now->len, &now, err);
    if (rc == BERTH_E_TOO_LARGE)
        return append_differ(w, "Files ", err);
    if (rc < 0)
        return rc;
    if (!is_utf8(w->old) || !is_utf8(w->now))
        return append_differ(w, "Binary files ", err);
    return append_text(w, &old, &now, err);
}

int berth_diff_append(const struct berth_diff_side *old, const struct berth_diff_side *now,
                      size_t bytes_max, struct berth_buf *out, bool *cut, struct berth_error *err)
{
    *cut = false;
    if (old->len == now->len && (!old->len || memcmp(old->bytes, now->bytes, old->len) == 0))
        return BERTH_OK;
    auto_buf notice = BERTH_BUF_INIT(SIZE_MAX);
    struct diff_writer w = {.old = old,
                            .now = now,
                            .out = out,
                            .begin = out->len,
                            .bytes_max = bytes_max,
                            .kept = out->len,
                            .notice = &notice,
                            .cut = cut};
    put_labels(&w, "The rest of the difference between ", " is left out\n", &notice);
    int rc = berth_buf_check(&notice, "difference of two contents", err);
    if (rc == BERTH_OK)
        rc = append_contents(&w, err);
    if (rc < 0)
        berth_buf_truncate(out, w.begin);
    return rc;
}
