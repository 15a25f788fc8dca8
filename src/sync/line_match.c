/* SPDX-License-Identifier: Apache-2.0
 * src/sync/line_match.c - see line_match.h. The search is the greedy one of E. Myers, "An O(ND)
 * difference algorithm and its variations" (1986). A point (x, y) of it says that x lines of the
 * old content and y lines of the new one have been passed. Row d holds the points that are furthest
 * with d insertions and deletions: point i of the row lies on the diagonal x - y = 2 * i - d. */
#include "sync/line_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"

#define POINTS_FIRST 1024 /* the room that the rows begin with */
#define UNREACHABLE (-1)

/* The lines of one content that the search compares. */
struct shared_lines {
    uint32_t *numbers; /* equal lines have equal numbers */
    uint32_t *places;  /* where each line is in the content */
    int32_t count;
    bool *kept; /* of the content */
};

/* A line during the sort. */
struct sorted_line {
    struct berth_line line;
    uint32_t place; /* in its content */
    bool is_now;
};

struct line_search {
    struct shared_lines old, now; /* without the lines that earlier rounds have passed */
    int32_t *points;              /* x of each point, one row after the other */
    size_t cap;
    uint64_t steps;
};

void berth_line_list_clear(struct berth_line_list *lines)
{
    free(lines->at);
    free(lines->kept);
    *lines = (struct berth_line_list){0};
}

/* Returns the line that begins at `at`, which is before `end`. */
static struct berth_line line_at(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (struct berth_line){at, (size_t)((newline ? newline + 1 : end) - at)};
}

static size_t count_lines(const char *bytes, size_t len)
{
    size_t count = 0;
    for (size_t at = 0; at < len && count <= BERTH_DIFF_LINES_MAX; count++)
        at += line_at(bytes + at, bytes + len).len;
    return count;
}

int berth_line_list_split(const char *bytes, size_t len, struct berth_line_list *out,
                          struct berth_error *err)
{
    size_t count = len > BERTH_DIFF_BYTES_MAX ? 0 : count_lines(bytes, len);
    if (len > BERTH_DIFF_BYTES_MAX || count > BERTH_DIFF_LINES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE,
                          "The content has more than %zu bytes or %d lines.", BERTH_DIFF_BYTES_MAX,
                          BERTH_DIFF_LINES_MAX);
    auto_line_list lines = {.at = calloc(count + 1, sizeof *lines.at),
                            .count = count,
                            .kept = calloc(count + 1, sizeof *lines.kept)};
    if (!lines.at || !lines.kept)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: lines of a content.");
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        lines.at[i] = line_at(bytes + at, bytes + len);
        at += lines.at[i].len;
    }
    *out = lines;
    lines = (struct berth_line_list){0};
    return BERTH_OK;
}

bool berth_line_equal(const struct berth_line *a, const struct berth_line *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* Marks the lines that both contents begin and end with. Writes the number of those at the
 * beginning to *head and of those at the end to *tail. */
static void keep_ends(struct berth_line_list *old, struct berth_line_list *now, size_t *head,
                      size_t *tail)
{
    size_t most = old->count < now->count ? old->count : now->count, first = 0, last = 0;
    while (first < most && berth_line_equal(&old->at[first], &now->at[first]))
        first++;
    while (last < most - first &&
           berth_line_equal(&old->at[old->count - 1 - last], &now->at[now->count - 1 - last]))
        last++;
    memset(old->kept, true, first);
    memset(now->kept, true, first);
    memset(old->kept + old->count - last, true, last);
    memset(now->kept + now->count - last, true, last);
    *head = first;
    *tail = last;
}

/* --- numbers for lines --- */

/* Compares the lengths first. A comparison of bytes then takes at most the length of either line,
 * so that a sort is fast even if long lines differ only at their ends. */
static int sorted_line_compare(const void *one, const void *other)
{
    const struct sorted_line *a = one, *b = other;
    if (a->line.len != b->line.len)
        return a->line.len < b->line.len ? -1 : 1;
    int order = memcmp(a->line.at, b->line.at, a->line.len);
    if (order)
        return order;
    if (a->is_now != b->is_now)
        return a->is_now ? 1 : -1;
    return a->place < b->place ? -1 : 1;
}

/* Gives a number to each line that both contents have. The array is indexed by place; 0 means that
 * the other content does not have the line. */
static void number_lines(const struct sorted_line *sorted, size_t count, uint32_t *old_numbers,
                         uint32_t *now_numbers)
{
    uint32_t number = 0;
    for (size_t first = 0, end; first < count; first = end) {
        end = first + 1;
        while (end < count && berth_line_equal(&sorted[first].line, &sorted[end].line))
            end++;
        if (sorted[first].is_now || !sorted[end - 1].is_now)
            continue;
        number++;
        for (size_t i = first; i < end; i++)
            (sorted[i].is_now ? now_numbers : old_numbers)[sorted[i].place] = number;
    }
}

/* Collects the lines that have a number. */
static void collect_lines(const uint32_t *numbers, const struct berth_line_list *lines,
                          struct shared_lines *out)
{
    out->kept = lines->kept;
    for (size_t i = 0; i < lines->count; i++)
        if (numbers[i]) {
            out->numbers[out->count] = numbers[i];
            out->places[out->count++] = (uint32_t)i;
        }
}

/* Adds the lines that neither the beginning nor the end has. Returns how many were added. */
static size_t add_middle(const struct berth_line_list *lines, bool is_now, size_t head, size_t tail,
                         struct sorted_line *out)
{
    size_t count = 0;
    for (size_t i = head; i < lines->count - tail; i++)
        out[count++] = (struct sorted_line){lines->at[i], (uint32_t)i, is_now};
    return count;
}

/* --- the search --- */

/* Returns x where point i of row d begins, before the equal lines that follow, or UNREACHABLE.
 * `before` is row d - 1. Writes the point of that row from which it is reached to *from. */
static int32_t point_begin(const struct line_search *s, const int32_t *before, int32_t d, int32_t i,
                           int32_t *from)
{
    int32_t diagonal = 2 * i - d, deleted = UNREACHABLE, inserted = UNREACHABLE;
    *from = i;
    if (d == 0)
        return 0;
    if (i > 0 && before[i - 1] != UNREACHABLE && before[i - 1] < s->old.count)
        deleted = before[i - 1] + 1;
    if (i < d && before[i] != UNREACHABLE && before[i] - diagonal <= s->now.count)
        inserted = before[i];
    if (deleted <= inserted)
        return inserted;
    *from = i - 1;
    return deleted;
}

static int32_t *row_of(const struct line_search *s, int32_t d)
{
    return s->points + (size_t)d * ((size_t)d + 1) / 2;
}

static bool row_reserve(struct line_search *s, int32_t d)
{
    size_t need = (size_t)(d + 1) * ((size_t)d + 2) / 2, cap = s->cap ? s->cap : POINTS_FIRST;
    if (need <= s->cap)
        return true;
    while (cap < need)
        cap *= 2;
    int32_t *points = reallocarray(s->points, cap, sizeof *points);
    if (!points)
        return false;
    s->points = points;
    s->cap = cap;
    return true;
}

/* Computes row d. Writes the point with the most equal lines on its way to *best. Returns false
 * when the steps are used up. */
static bool row_compute(struct line_search *s, int32_t d, int32_t *best)
{
    const int32_t *before = d ? row_of(s, d - 1) : NULL;
    int32_t *row = row_of(s, d), most = -1, from;
    for (int32_t i = 0; i <= d; i++) {
        int32_t x = point_begin(s, before, d, i, &from), y = x - (2 * i - d);
        if (++s->steps > BERTH_LINE_STEPS_MAX)
            return false;
        row[i] = x;
        if (x == UNREACHABLE)
            continue;
        for (; x < s->old.count && y < s->now.count && s->old.numbers[x] == s->now.numbers[y]; y++)
            x++;
        s->steps += (uint64_t)(x - row[i]);
        row[i] = x;
        if (x + y > most) {
            most = x + y;
            *best = i;
        }
    }
    return true;
}

/* Marks the equal lines on the way to point i of row d. */
static void keep_way(struct line_search *s, int32_t d, int32_t i)
{
    for (; d >= 0; d--) {
        int32_t from, x = row_of(s, d)[i], diagonal = 2 * i - d;
        int32_t begin = point_begin(s, d ? row_of(s, d - 1) : NULL, d, i, &from);
        while (x-- > begin) {
            s->old.kept[s->old.places[x]] = true;
            s->now.kept[s->now.places[x - diagonal]] = true;
        }
        i = from;
    }
}

static void pass_lines(struct shared_lines *list, int32_t count)
{
    list->numbers += count;
    list->places += count;
    list->count -= count;
}

/* Searches until both lists are passed, or up to the best point of the last row, and marks the way.
 * The lists then begin behind it. */
static int search_round(struct line_search *s, struct berth_error *err)
{
    int32_t last = -1, best = 0, point = 0, x = 0, y = 0; /* of the last row that is complete */
    bool passed = false;
    while (!passed && last < BERTH_LINE_EDITS_MAX) {
        if (!row_reserve(s, last + 1))
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: comparison of lines.");
        if (!row_compute(s, last + 1, &point))
            break;
        last++;
        best = point;
        x = row_of(s, last)[best];
        y = x - (2 * best - last);
        passed = x == s->old.count && y == s->now.count;
    }
    keep_way(s, last, best);
    pass_lines(&s->old, x);
    pass_lines(&s->now, y);
    return BERTH_OK;
}

/* Runs rounds until a list is passed. Lines that are left when the steps are used up are not
 * kept. */
static int search_lists(struct line_search *s, struct berth_error *err)
{
    int rc = BERTH_OK;
    while (rc == BERTH_OK && s->old.count && s->now.count && s->steps < BERTH_LINE_STEPS_MAX)
        rc = search_round(s, err);
    free(s->points);
    s->points = NULL;
    return rc;
}

int berth_line_list_match(struct berth_line_list *old, struct berth_line_list *now, uint64_t *steps,
                          struct berth_error *err)
{
    size_t head, tail, all = old->count + now->count;
    *steps = 0;
    keep_ends(old, now, &head, &tail);
    if (head + tail == old->count || head + tail == now->count)
        return BERTH_OK;
    auto_free struct sorted_line *sorted = calloc(all, sizeof *sorted);
    auto_free uint32_t *numbers = calloc(3 * all, sizeof *numbers);
    if (!sorted || !numbers)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: comparison of lines.");
    size_t count = add_middle(old, false, head, tail, sorted);
    count += add_middle(now, true, head, tail, sorted + count);
    qsort(sorted, count, sizeof *sorted, sorted_line_compare);
    number_lines(sorted, count, numbers, numbers + old->count);
    struct line_search s = {
        .old = {.numbers = numbers + all, .places = numbers + 2 * all},
        .now = {.numbers = numbers + all + old->count, .places = numbers + 2 * all + old->count}};
    collect_lines(numbers, old, &s.old);
    collect_lines(numbers + old->count, now, &s.now);
    int rc = search_lists(&s, err);
    *steps = s.steps;
    return rc;
}
