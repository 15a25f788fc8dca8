/* SPDX-License-Identifier: Apache-2.0
 * src/sync/apply_steps.c - see apply_steps.h. A journal is a line that names it, the label, for
 * each step one line of numbers, its path and the entry that it replaces, and the end of a record.
 */
#include "sync/apply_steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "sync/record.h"

#define HEAD "berth merge 1\n"
#define PERMISSIONS 0777

void berth_steps_clear(struct berth_steps *steps)
{
    free(steps->items);
    berth_arena_clear(&steps->arena);
    *steps = (struct berth_steps){0};
}

int berth_steps_of_merge(const struct berth_merge *merge, struct berth_steps *out,
                         struct berth_error *err)
{
    *out = (struct berth_steps){.label = merge->label, .count = merge->count};
    out->items = calloc(merge->count + 1, sizeof *out->items);
    if (!out->items)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    for (size_t i = 0; i < merge->count; i++) {
        const struct berth_change *change = &merge->changes[i];
        struct berth_step *step = &out->items[i];
        step->kind = change->kind;
        step->path = change->path;
        step->mode = change->mode;
        step->replaces = change->local != NULL;
        if (change->local)
            step->old = *change->local;
    }
    return BERTH_OK;
}

void berth_steps_write(const struct berth_steps *steps, struct berth_buf *out)
{
    size_t begin = out->len;
    berth_buf_puts(out, HEAD);
    berth_record_put_text(out, steps->label);
    for (size_t i = 0; i < steps->count; i++) {
        const struct berth_step *step = &steps->items[i];
        berth_buf_printf(out, "%d %o %" PRId64 " %d\n", (int)step->kind, step->mode,
                         (int64_t)step->inode, step->replaces);
        berth_record_put_text(out, step->path);
        if (step->replaces)
            berth_record_put_entry(out, &step->old);
    }
    berth_record_put_end(out, begin, steps->count);
}

static bool read_step(struct berth_record *r, struct berth_step *step)
{
    int64_t kind, mode, inode, replaces;
    if (!berth_record_number(r, 10, ' ', &kind) || !berth_record_number(r, 8, ' ', &mode) ||
        !berth_record_number(r, 10, ' ', &inode) || !berth_record_number(r, 10, '\n', &replaces))
        return false;
    *step = (struct berth_step){.kind = (enum berth_change_kind)kind,
                                .mode = (uint16_t)mode,
                                .inode = (uint64_t)inode,
                                .replaces = replaces == 1,
                                .path = berth_record_text(r)};
    return step->path && berth_path_valid(step->path) && kind >= 0 &&
           kind <= BERTH_CHANGE_SET_MODE && mode >= 0 && mode <= PERMISSIONS &&
           (!step->replaces || berth_record_entry(r, &step->old));
}

/* Copies the texts of a step, which point into the bytes that were read. */
static void keep_texts(struct berth_steps *steps, struct berth_step *step)
{
    step->path = berth_arena_strdup(&steps->arena, step->path);
    step->old.path = step->path;
    if (step->old.target)
        step->old.target = berth_arena_strdup(&steps->arena, step->old.target);
}

static int add_step(struct berth_steps *steps, size_t *cap, struct berth_step step,
                    struct berth_error *err)
{
    if (!berth_array_grow(&steps->items, cap, steps->count, sizeof *steps->items))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
    keep_texts(steps, &step);
    steps->items[steps->count++] = step;
    return berth_arena_check(&steps->arena, err);
}

int berth_steps_parse(const char *bytes, size_t len, struct berth_steps *out,
                      struct berth_error *err)
{
    auto_steps steps = {0};
    struct berth_record r = {bytes, bytes + len};
    struct berth_step step;
    size_t cap = 0;
    int rc = BERTH_OK;
    bool ended = false, good = len > strlen(HEAD) && memcmp(bytes, HEAD, strlen(HEAD)) == 0;
    r.at += good ? strlen(HEAD) : 0;
    const char *label = good ? berth_record_text(&r) : NULL;
    good = label && strlen(label) <= BERTH_MERGE_LABEL_BYTES_MAX && !strchr(label, '/');
    while (good && rc == BERTH_OK && !ended) {
        ended = berth_record_at_end(&r);
        good = r.at < r.end &&
               (ended ? berth_record_end(&r, bytes, steps.count) : read_step(&r, &step));
        if (good && !ended)
            rc = add_step(&steps, &cap, step, err);
    }
    if (!good)
        return berth_fail(err, BERTH_E_INVALID, "The journal of a merge is damaged.");
    steps.label = berth_arena_strdup(&steps.arena, label);
    if (rc == BERTH_OK)
        rc = berth_arena_check(&steps.arena, err);
    if (rc < 0)
        return rc;
    *out = steps;
    steps = (struct berth_steps){0};
    return BERTH_OK;
}
