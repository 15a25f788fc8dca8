/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/trip_model.c - see trip_model.h. Each path is looked at with all below it:
 * what one side left as it was becomes what the other side made of it. Only where both changed it,
 * the parts of a directory are looked at one by one. */
#include "trip_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NAME_BYTES_MAX 255

static bool is_kind(const struct trip_thing *x, char kind)
{
    return x && x->kind == kind;
}

/* Returns whether the part of `a` at a path is the part of `b` at another path. */
static bool parts_equal(const struct trip_tree *a, const char *at_a, const struct trip_tree *b,
                        const char *at_b)
{
    char path[2 * TRIP_PATH_SIZE];
    int in_a = 0, in_b = 0;
    for (int i = 0; i < a->count; i++) {
        const struct trip_thing *x = &a->things[i];
        if (!trip_is_below(x->path, at_a))
            continue;
        in_a++;
        (void)snprintf(path, sizeof path, "%s%s", at_b, x->path + strlen(at_a));
        if (!trip_equal(x, trip_at(b, path)))
            return false;
    }
    for (int i = 0; i < b->count; i++)
        in_b += trip_is_below(b->things[i].path, at_b);
    return in_a == in_b;
}

static bool same_part(const struct trip_tree *a, const struct trip_tree *b, const char *path)
{
    return parts_equal(a, path, b, path);
}

/* Wants the part of a tree at `path`, under the name `to`. */
static void take(struct trip_model *m, const struct trip_tree *from, const char *path,
                 const char *to)
{
    for (int i = 0; i < from->count; i++) {
        const struct trip_thing *x = &from->things[i];
        if (!trip_is_below(x->path, path))
            continue;
        const char *rest = x->path + strlen(path);
        struct trip_thing *copy = trip_add(&m->want, x);
        size_t len = strlen(to), rest_len = strlen(rest);
        if (len + rest_len >= sizeof copy->path)
            fail_msg("a path is too long for this test: %s%s", to, rest);
        memcpy(copy->path, to, len);
        memcpy(copy->path + len, rest, rest_len + 1);
    }
}

/* Returns the name number `nth` for the remote version of a path. A name that would become too long
 * loses whole characters at its end. */
static void name_beside(const char *path, int nth, char out[TRIP_PATH_SIZE])
{
    char end[32] = TRIP_MARK;
    const char *slash = strrchr(path, '/');
    size_t above = slash ? (size_t)(slash - path) + 1 : 0, len = strlen(path + above);
    if (nth > 1)
        (void)snprintf(end, sizeof end, TRIP_MARK "-%d", nth);
    size_t room = NAME_BYTES_MAX - strlen(end);
    if (len > room)
        for (len = room; len && ((unsigned char)path[above + len] >> 6) == 2;)
            len--;
    (void)snprintf(out, TRIP_PATH_SIZE, "%.*s%s", (int)(above + len), path, end);
}

static bool is_taken(const struct trip_model *m, const char *name)
{
    for (int i = 0; i < m->besides; i++)
        if (strcmp(m->beside[i], name) == 0)
            return true;
    return false;
}

/* Wants the remote version beside the path, under the first name that is free. A local part that is
 * this version already, and that the place has not changed, will do. */
static void put_beside(struct trip_model *m, const char *path)
{
    char name[TRIP_PATH_SIZE];
    for (int nth = 1;; nth++) {
        name_beside(path, nth, name);
        if (is_taken(m, name))
            continue;
        bool free_name =
            !trip_at(m->base, name) && !trip_at(m->local, name) && !trip_at(m->remote, name);
        bool there =
            parts_equal(m->remote, path, m->local, name) && same_part(m->base, m->remote, name);
        if (!free_name && !there)
            continue;
        (void)snprintf(m->beside[m->besides++], TRIP_PATH_SIZE, "%s", name);
        if (!there)
            take(m, m->remote, path, name);
        return;
    }
}

/* Counts what the remote version replaces below a directory here, and was changed here. */
static int count_lost(const struct trip_model *m, const char *path)
{
    size_t len = strlen(path);
    int lost = 0;
    for (int i = 0; i < m->local->count; i++) {
        const struct trip_thing *x = &m->local->things[i], *b = trip_at(m->base, x->path);
        lost += strncmp(x->path, path, len) == 0 && x->path[len] == '/' && x->kind != 'd' &&
                !(b && trip_equal(b, x));
    }
    return lost;
}

static void conflict(struct trip_model *m, const char *path)
{
    bool remote = trip_at(m->remote, path) != NULL;
    m->conflicts++;
    if (m->policy == BERTH_MERGE_REMOTE && remote) {
        m->conflicts += count_lost(m, path);
        take(m, m->remote, path, path);
        return;
    }
    take(m, m->local, path, path);
    if (m->policy == BERTH_MERGE_KEEP_BOTH && remote)
        put_beside(m, path);
}

/* Returns the mode of a file or directory that is here and there. */
static mode_t wanted_mode(struct trip_model *m, const struct trip_thing *b,
                          const struct trip_thing *r, const struct trip_thing *l)
{
    if (!b || b->kind != l->kind || r->mode == b->mode || r->mode == l->mode)
        return l->mode;
    if (l->mode == b->mode)
        return r->mode;
    m->conflicts++;
    return m->policy == BERTH_MERGE_REMOTE ? r->mode : l->mode;
}

/* A file here and there, changed on both sides. Content and mode are looked at apart. */
static void settle_file(struct trip_model *m, const char *path)
{
    const struct trip_thing *b = trip_at(m->base, path), *r = trip_at(m->remote, path);
    const struct trip_thing *l = trip_at(m->local, path);
    if (!trip_alike(b, l) && !trip_alike(b, r) && !trip_alike(l, r)) {
        conflict(m, path);
        return;
    }
    mode_t mode = wanted_mode(m, b, r, l);
    trip_add(&m->want, trip_alike(b, l) ? r : l)->mode = mode;
}

static void settle(struct trip_model *m, const char *path);

/* Returns whether a path is a name in a directory; "" is the root. */
static bool is_in(const char *path, const char *directory)
{
    size_t len = strlen(directory);
    if (len && (strncmp(path, directory, len) != 0 || path[len] != '/'))
        return false;
    return !strchr(path + len + (len != 0), '/');
}

/* Returns the first name in a directory that comes after `last`, on any side, or NULL. */
static const char *next_in(const struct trip_model *m, const char *directory, const char *last)
{
    const struct trip_tree *const sides[] = {m->base, m->remote, m->local};
    const char *found = NULL;
    for (int side = 0; side < 3; side++)
        for (int i = 0; i < sides[side]->count; i++) {
            const char *path = sides[side]->things[i].path;
            if (is_in(path, directory) && strcmp(path, last) > 0 &&
                (!found || strcmp(path, found) < 0))
                found = path;
        }
    return found;
}

static void settle_content(struct trip_model *m, const char *directory)
{
    const char *path = "";
    while ((path = next_in(m, directory, path)))
        settle(m, path);
}

/* A directory that both sides have, or that one of them deleted. The latter goes, unless something
 * in it has to stay. */
static void settle_directory(struct trip_model *m, const char *path)
{
    const struct trip_thing *b = trip_at(m->base, path), *r = trip_at(m->remote, path);
    const struct trip_thing *l = trip_at(m->local, path);
    int before = m->want.count;
    settle_content(m, path);
    if ((r && l) || m->want.count > before) {
        mode_t mode = r && l ? wanted_mode(m, b, r, l) : r ? r->mode : l->mode;
        trip_add(&m->want, r ? r : l)->mode = mode;
    }
}

static void settle(struct trip_model *m, const char *path)
{
    const struct trip_thing *b = trip_at(m->base, path), *r = trip_at(m->remote, path);
    const struct trip_thing *l = trip_at(m->local, path);
    bool was_directory = is_kind(b, 'd');
    if (same_part(m->base, m->remote, path) || same_part(m->local, m->remote, path))
        take(m, m->local, path, path);
    else if (same_part(m->base, m->local, path))
        take(m, m->remote, path, path);
    else if ((is_kind(r, 'd') && is_kind(l, 'd')) || (was_directory && is_kind(r, 'd') && !l) ||
             (was_directory && is_kind(l, 'd') && !r))
        settle_directory(m, path);
    else if (is_kind(r, 'f') && is_kind(l, 'f'))
        settle_file(m, path);
    else if (is_kind(r, 'f') && trip_alike(b, r)) /* another mode does not bring it back */
        take(m, m->local, path, path);
    else
        conflict(m, path);
}

static const struct trip_thing *leaf_at(const struct trip_tree *t, const char *path)
{
    const struct trip_thing *x = trip_at(t, path);
    return is_kind(x, 'd') ? NULL : x;
}

static void count_changes(struct trip_model *m)
{
    for (int i = 0; i < m->want.count; i++) {
        const struct trip_thing *x = &m->want.things[i], *was = leaf_at(m->local, x->path);
        m->added += x->kind != 'd' && !was;
        m->updated += x->kind != 'd' && was && !trip_equal(x, was);
    }
    for (int i = 0; i < m->local->count; i++)
        m->deleted +=
            m->local->things[i].kind != 'd' && !leaf_at(&m->want, m->local->things[i].path);
    for (int i = 0; i < m->base->count; i++)
        m->sent += m->base->things[i].kind != 'd';
}

void trip_model_make(struct trip_model *m)
{
    m->want.count = m->conflicts = m->besides = 0;
    m->added = m->updated = m->deleted = m->sent = 0;
    settle_content(m, "");
    count_changes(m);
}

bool trip_model_refuses(const struct trip_model *m, bool mass_deletion)
{
    if (m->policy == BERTH_MERGE_FAIL && m->conflicts)
        return true;
    return !mass_deletion && m->deleted > 10 && 2 * m->deleted > m->sent;
}
