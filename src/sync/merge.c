/* SPDX-License-Identifier: Apache-2.0
 * src/sync/merge.c - see merge.h. The three trees are walked together, a directory at a time. */
#include "sync/merge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sync/ignore.h"

#define OWNER_BITS 0700
#define SUSPICIOUS_DELETIONS 10 /* up to these are never taken for an accident */

/* A part of a manifest: one entry and all below it, or the content of a directory. */
struct side {
    const struct berth_tree_manifest *manifest;
    size_t at, end; /* equal: there is nothing on this side */
};

/* Returns the first entry of the part, or NULL. */
static const struct berth_entry *top(struct side s)
{
    return s.at < s.end ? &s.manifest->entries[s.at] : NULL;
}

static bool is_directory(const struct berth_entry *e)
{
    return e && e->kind == BERTH_ENTRY_DIRECTORY;
}

static bool is_file(const struct berth_entry *e)
{
    return e && e->kind == BERTH_ENTRY_FILE;
}

/* Returns whether both parts have the same entries, or both none. Their first paths may differ. */
static bool parts_same(struct side a, struct side b)
{
    if (a.end - a.at != b.end - b.at)
        return false;
    size_t a_len = top(a) ? strlen(top(a)->path) : 0, b_len = top(b) ? strlen(top(b)->path) : 0;
    for (; a.at < a.end; a.at++, b.at++)
        if (strcmp(top(a)->path + a_len, top(b)->path + b_len) != 0 ||
            !berth_entry_same(top(a), top(b)))
            return false;
    return true;
}

/* Returns the entry `at` of a manifest with all below it, of those before `end`. */
static struct side part_at(const struct berth_tree_manifest *manifest, size_t at, size_t end)
{
    struct side part = {.manifest = manifest, .at = at, .end = at};
    do
        part.end++;
    while (part.end < end &&
           berth_path_is_below(manifest->entries[part.end].path, manifest->entries[at].path));
    return part;
}

/* --- what a plan consists of --- */

void berth_merge_clear(struct berth_merge *merge)
{
    free(merge->changes);
    free(merge->conflicts);
    berth_map_clear(&merge->beside);
    berth_arena_clear(&merge->arena);
    *merge = (struct berth_merge){0};
}

static int add_change(struct berth_merge *m, struct berth_change change, struct berth_error *err)
{
    if (!berth_array_grow(&m->changes, &m->cap, m->count, sizeof *m->changes))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    m->changes[m->count++] = change;
    if (change.kind == BERTH_CHANGE_PUT) {
        m->bytes += change.remote->size;
        ++*(change.local ? &m->updated : &m->added);
    } else if (change.kind == BERTH_CHANGE_REMOVE) {
        m->deleted++;
    } else if (change.kind == BERTH_CHANGE_SET_MODE && is_file(change.local)) {
        m->updated++;
    }
    return BERTH_OK;
}

static int add_conflict(struct berth_merge *m, enum berth_conflict_kind kind, const char *path,
                        const char *beside, struct berth_error *err)
{
    if (!berth_array_grow(&m->conflicts, &m->conflict_cap, m->conflict_count, sizeof *m->conflicts))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    m->conflicts[m->conflict_count++] =
        (struct berth_conflict){.kind = kind, .path = path, .beside = beside};
    return BERTH_OK;
}

const char *berth_conflict_word(enum berth_conflict_kind kind)
{
    static const char *const words[] = {
        [BERTH_CONFLICT_CONTENT] = "content",
        [BERTH_CONFLICT_MODE] = "mode",
        [BERTH_CONFLICT_KIND] = "kind",
        [BERTH_CONFLICT_DELETED_HERE] = "deleted-here",
        [BERTH_CONFLICT_DELETED_THERE] = "deleted-there",
    };
    return words[kind];
}

/* --- changes of whole parts --- */

/* Removes all of a local part. */
static int remove_part(struct berth_merge *m, struct side l, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (; rc == BERTH_OK && l.at < l.end; l.at++) {
        const struct berth_entry *e = top(l);
        struct berth_change change = {.kind = is_directory(e) ? BERTH_CHANGE_REMOVE_DIRECTORY
                                                              : BERTH_CHANGE_REMOVE,
                                      .path = e->path,
                                      .local = e};
        rc = add_change(m, change, err);
    }
    return rc;
}

/* Makes a directory. One that its owner may not write to gets its mode when its content is there.
 */
static int add_directory(struct berth_merge *m, const char *path, uint16_t mode,
                         struct berth_error *err)
{
    struct berth_change change = {
        .kind = BERTH_CHANGE_MAKE_DIRECTORY, .path = path, .mode = mode | OWNER_BITS};
    int rc = add_change(m, change, err);
    change.kind = BERTH_CHANGE_SET_MODE;
    change.mode = mode;
    return rc < 0 || (mode & OWNER_BITS) == OWNER_BITS ? rc : add_change(m, change, err);
}

/* Puts all of a remote part at `to`, where nothing is. */
static int put_part(struct berth_merge *m, struct side r, const char *to, struct berth_error *err)
{
    size_t from_len = strlen(top(r)->path);
    int rc = BERTH_OK;
    for (; rc == BERTH_OK && r.at < r.end; r.at++) {
        const struct berth_entry *e = top(r);
        const char *rest = e->path + from_len;
        const char *path = *rest ? berth_arena_printf(&m->arena, "%s%s", to, rest) : to;
        if (!path)
            return berth_arena_check(&m->arena, err);
        struct berth_change change = {
            .kind = BERTH_CHANGE_PUT, .path = path, .remote = e, .mode = e->mode};
        rc = is_directory(e) ? add_directory(m, path, e->mode, err) : add_change(m, change, err);
    }
    return rc;
}

/* Replaces the local part by the remote part. They are not both directories. */
static int take_remote(struct berth_merge *m, struct side r, struct side l, struct berth_error *err)
{
    const struct berth_entry *re = top(r), *le = top(l);
    if (!re)
        return remove_part(m, l, err);
    if (!le)
        return put_part(m, r, re->path, err);
    if (is_file(re) && is_file(le) && memcmp(re->hash, le->hash, sizeof re->hash) == 0)
        return add_change(
            m,
            (struct berth_change){
                .kind = BERTH_CHANGE_SET_MODE, .path = le->path, .local = le, .mode = re->mode},
            err);
    if (!is_directory(re) && !is_directory(le))
        return add_change(m,
                          (struct berth_change){.kind = BERTH_CHANGE_PUT,
                                                .path = le->path,
                                                .remote = re,
                                                .local = le,
                                                .mode = re->mode},
                          err);
    int rc = remove_part(m, l, err);
    return rc < 0 ? rc : put_part(m, r, re->path, err);
}

/* --- conflicts --- */

bool berth_merge_beside(const char *path, const char *label, unsigned nth,
                        char out[BERTH_TREE_PATH_BYTES_MAX + 1])
{
    char end[BERTH_MERGE_LABEL_BYTES_MAX + 32];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t above = (size_t)(name - path), len = strlen(name);
    int end_len = nth > 1 ? snprintf(end, sizeof end, ".remote-%s-%u", label, nth)
                          : snprintf(end, sizeof end, ".remote-%s", label);
    if (len + (size_t)end_len > BERTH_TREE_NAME_BYTES_MAX) {
        len = BERTH_TREE_NAME_BYTES_MAX - (size_t)end_len;
        while (len && ((unsigned char)name[len] & 0xc0) == 0x80)
            len--; /* not in the middle of a character */
    }
    int total = snprintf(out, BERTH_TREE_PATH_BYTES_MAX + 1, "%.*s%.*s%s", (int)above, path,
                         (int)len, name, end);
    return total <= BERTH_TREE_PATH_BYTES_MAX;
}

/* Returns the part at a path, which is empty when nothing is there. */
static struct side part_of(const struct berth_tree_manifest *manifest, const char *path)
{
    const struct berth_entry *e = berth_tree_manifest_find(manifest, path);
    return e ? part_at(manifest, (size_t)(e - manifest->entries), manifest->count)
             : (struct side){.manifest = manifest};
}

/* Returns whether this remote part is at a local path already, as after an earlier merge whose end
 * was not recorded, and stays there. It does not stay when the remote tree has changed or deleted
 * what it was sent with at this path. */
static bool is_there(const struct berth_merge *m, struct side r, const char *path)
{
    return parts_same(r, part_of(m->local, path)) &&
           parts_same(part_of(m->base, path), part_of(m->remote, path));
}

/* Puts the remote part beside the local path. Sets *beside to its path. */
static int put_beside(struct berth_merge *m, struct side r, const char **beside,
                      struct berth_error *err)
{
    char path[BERTH_TREE_PATH_BYTES_MAX + 1];
    unsigned nth = 0;
    bool there = false;
    do {
        if (!berth_merge_beside(top(r)->path, m->label, ++nth, path))
            return berth_fail(err, BERTH_E_TOO_LARGE,
                              "There is a conflict at \"%.300s\", and the path is too long to put "
                              "the remote version beside it.",
                              top(r)->path);
        there = !berth_map_get(&m->beside, path) && is_there(m, r, path);
    } while (!there &&
             (berth_tree_manifest_find(m->base, path) || berth_tree_manifest_find(m->local, path) ||
              berth_tree_manifest_find(m->remote, path) || berth_map_get(&m->beside, path)));
    char *kept = berth_arena_strdup(&m->arena, path);
    if (!kept || !berth_map_put(&m->beside, kept, kept))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    *beside = kept;
    return there ? BERTH_OK : put_part(m, r, kept, err);
}

/* Reports each file and link below a local directory that goes although it was changed here. */
static int report_lost(struct berth_merge *m, struct side l, struct berth_error *err)
{
    int rc = BERTH_OK;
    size_t at = 0;
    for (l.at++; rc == BERTH_OK && l.at < l.end; l.at++) {
        const struct berth_entry *e = top(l),
                                 *base = berth_tree_manifest_next(m->base, &at, e->path);
        if (!is_directory(e) && !berth_entry_same(base, e))
            rc = add_conflict(m, BERTH_CONFLICT_KIND, e->path, NULL, err);
    }
    return rc;
}

/* Settles a path that both sides changed differently. */
static int settle(struct berth_merge *m, enum berth_conflict_kind kind, struct side r,
                  struct side l, struct berth_error *err)
{
    const char *beside = NULL, *path = top(r) ? top(r)->path : top(l)->path;
    int rc = BERTH_OK;
    if (m->policy == BERTH_MERGE_KEEP_BOTH && top(r))
        rc = put_beside(m, r, &beside, err);
    else if (m->policy == BERTH_MERGE_REMOTE && top(r))
        rc = take_remote(m, r, l, err);
    if (rc == BERTH_OK)
        rc = add_conflict(m, kind, path, beside, err);
    bool replaced = m->policy == BERTH_MERGE_REMOTE && top(r) && is_directory(top(l));
    return rc == BERTH_OK && replaced ? report_lost(m, l, err) : rc;
}

/* --- one path --- */

/* Merges a number that three versions have. Returns the local one when both have changed it. */
static uint16_t merge_mode(const struct berth_entry *b, const struct berth_entry *r,
                           const struct berth_entry *l, bool *conflict)
{
    bool known = b && b->kind == l->kind;
    *conflict = known && r->mode != l->mode && r->mode != b->mode && l->mode != b->mode;
    return known && l->mode == b->mode ? r->mode : l->mode;
}

/* Merges two files that differ. Content and mode are merged separately. */
static int merge_files(struct berth_merge *m, const struct berth_entry *b, struct side r,
                       struct side l, struct berth_error *err)
{
    const struct berth_entry *re = top(r), *le = top(l);
    const size_t size = sizeof re->hash;
    bool differ = memcmp(re->hash, le->hash, size) != 0;
    bool here = !is_file(b) || memcmp(b->hash, le->hash, size) != 0;
    bool there = !is_file(b) || memcmp(b->hash, re->hash, size) != 0;
    if (differ && here && there)
        return settle(m, BERTH_CONFLICT_CONTENT, r, l, err);
    bool conflict;
    struct berth_change change = {.path = le->path, .local = le};
    change.mode = merge_mode(b, re, le, &conflict);
    if (conflict && m->policy == BERTH_MERGE_REMOTE)
        change.mode = re->mode;
    int rc = conflict ? add_conflict(m, BERTH_CONFLICT_MODE, le->path, NULL, err) : BERTH_OK;
    if (rc < 0 || (!(differ && there) && change.mode == le->mode))
        return rc;
    change.kind = differ && there ? BERTH_CHANGE_PUT : BERTH_CHANGE_SET_MODE;
    change.remote = differ && there ? re : NULL;
    return add_change(m, change, err);
}

static int merge_content(struct berth_merge *m, struct side b, struct side r, struct side l,
                         struct berth_error *err);

/* Returns the content of a directory; nothing when the part is not one. */
static struct side content_of(struct side s)
{
    if (!is_directory(top(s)))
        s.at = s.end;
    else
        s.at++;
    return s;
}

/* Merges directories. One of the two may be missing, and has been deleted then. */
static int merge_directories(struct berth_merge *m, struct side b, struct side r, struct side l,
                             struct berth_error *err)
{
    const struct berth_entry *be = top(b), *re = top(r), *le = top(l);
    size_t before = m->count;
    bool conflict;
    int rc = merge_content(m, content_of(b), content_of(r), content_of(l), err);
    if (rc < 0)
        return rc;
    if (!le) /* the local deletion stays, unless something new comes into the directory */
        return m->count > before ? add_directory(m, re->path, re->mode, err) : BERTH_OK;
    struct berth_change change = {.path = le->path, .local = le};
    if (!re) {
        change.kind = BERTH_CHANGE_REMOVE_DIRECTORY; /* not where local content stays */
        return add_change(m, change, err);
    }
    change.kind = BERTH_CHANGE_SET_MODE;
    change.mode = merge_mode(be, re, le, &conflict);
    if (conflict && m->policy == BERTH_MERGE_REMOTE)
        change.mode = re->mode;
    if (conflict)
        rc = add_conflict(m, BERTH_CONFLICT_MODE, le->path, NULL, err);
    return rc < 0 || change.mode == le->mode ? rc : add_change(m, change, err);
}

static int merge_path(struct berth_merge *m, struct side b, struct side r, struct side l,
                      struct berth_error *err)
{
    const struct berth_entry *be = top(b), *re = top(r), *le = top(l);
    if ((is_directory(re) && is_directory(le)) ||
        (is_directory(be) && ((is_directory(re) && !le) || (!re && is_directory(le)))))
        return merge_directories(m, b, r, l, err);
    if (parts_same(r, l) || parts_same(b, r))
        return BERTH_OK;
    if (parts_same(b, l))
        return take_remote(m, r, l, err);
    if (is_file(re) && is_file(le))
        return merge_files(m, be, r, l, err);
    if (is_file(re) && is_file(be) && memcmp(re->hash, be->hash, sizeof re->hash) == 0)
        return BERTH_OK; /* only the mode of a file that is not there any more */
    enum berth_conflict_kind kind = !re   ? BERTH_CONFLICT_DELETED_THERE
                                    : !le ? BERTH_CONFLICT_DELETED_HERE
                                    : is_directory(re) || is_directory(le) ? BERTH_CONFLICT_KIND
                                                                           : BERTH_CONFLICT_CONTENT;
    return settle(m, kind, r, l, err);
}

/* --- all paths --- */

static const char *first_path(const char *path, struct side s)
{
    const struct berth_entry *e = top(s);
    return e && (!path || berth_path_compare(e->path, path) < 0) ? e->path : path;
}

/* Takes the entry `path` and all below it from the beginning of a part. */
static struct side take_part(struct side *from, const char *path)
{
    struct side part = {.manifest = from->manifest, .at = from->at, .end = from->at};
    if (!top(*from) || strcmp(top(*from)->path, path) != 0)
        return part;
    part = part_at(from->manifest, from->at, from->end);
    from->at = part.end;
    return part;
}

static int merge_content(struct berth_merge *m, struct side b, struct side r, struct side l,
                         struct berth_error *err)
{
    int rc = BERTH_OK;
    const char *path;
    while (rc == BERTH_OK && (path = first_path(first_path(first_path(NULL, b), r), l))) {
        struct side pb = take_part(&b, path), pr = take_part(&r, path), pl = take_part(&l, path);
        rc = merge_path(m, pb, pr, pl, err);
    }
    return rc;
}

/* Orders changes as they are applied: content leaves a directory before the directory does, and a
 * directory is made before its content. Modes come last and from below, since they may forbid. */
static int compare_changes(const void *a, const void *b)
{
    const struct berth_change *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int order = berth_path_compare(x->path, y->path);
    bool upwards = x->kind == BERTH_CHANGE_REMOVE_DIRECTORY || x->kind == BERTH_CHANGE_SET_MODE;
    return upwards ? -order : order;
}

/* Returns the local directory that a change happens in, if its owner may not write to it. */
static const struct berth_entry *closed_directory(const struct berth_merge *m, const char *path)
{
    char above[BERTH_TREE_PATH_BYTES_MAX + 1];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    memcpy(above, path, (size_t)(slash - path));
    above[slash - path] = '\0';
    const struct berth_entry *e = berth_tree_manifest_find(m->local, above);
    return is_directory(e) && (e->mode & OWNER_BITS) != OWNER_BITS ? e : NULL;
}

/* Adds the changes that open such directories before all others, and close them afterwards. One
 * that is to be removed is closed, too: it stays when local content stays in it. */
static int open_directories(struct berth_merge *m, struct berth_map *opened,
                            struct berth_error *err)
{
    size_t count = m->count, at = 0;
    int rc = BERTH_OK;
    for (size_t i = 0; i < count; i++) {
        const struct berth_entry *e = closed_directory(m, m->changes[i].path);
        if (e && !berth_map_put(opened, e->path, (void *)(uintptr_t)e))
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    }
    struct berth_change change = {.kind = BERTH_CHANGE_OPEN_DIRECTORY};
    while (rc == BERTH_OK && (change.local = berth_map_next(opened, &at, NULL))) {
        change.path = change.local->path;
        change.mode = change.local->mode | OWNER_BITS;
        rc = add_change(m, change, err);
    }
    for (size_t i = 0; i < count; i++) /* it gets another mode anyway */
        if (m->changes[i].kind == BERTH_CHANGE_SET_MODE)
            (void)berth_map_remove(opened, m->changes[i].path);
    change.kind = BERTH_CHANGE_SET_MODE;
    at = 0;
    while (rc == BERTH_OK && (change.local = berth_map_next(opened, &at, NULL))) {
        change.path = change.local->path;
        change.mode = change.local->mode;
        rc = add_change(m, change, err);
    }
    return rc;
}

/* Refuses a remote tree with names that never cross, such as ".git", at any depth. */
static int check_names(const struct berth_tree_manifest *remote, struct berth_error *err)
{
    for (size_t i = 0; i < remote->count; i++) {
        const char *path = remote->entries[i].path, *slash = strrchr(path, '/');
        if (berth_ignore_never_crosses(slash ? slash + 1 : path))
            return berth_fail(err, BERTH_E_INVALID,
                              "The workspace that comes back has \"%.300s\", which is never taken "
                              "from a place.",
                              path);
    }
    return BERTH_OK;
}

int berth_merge_plan(const struct berth_tree_manifest *base,
                     const struct berth_tree_manifest *remote,
                     const struct berth_tree_manifest *local, enum berth_merge_policy policy,
                     const char *label, struct berth_merge *out, struct berth_error *err)
{
    assert(strlen(label) <= BERTH_MERGE_LABEL_BYTES_MAX);
    *out = (struct berth_merge){
        .policy = policy, .label = label, .base = base, .remote = remote, .local = local};
    int rc = check_names(remote, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < base->count; i++)
        out->base_count += !is_directory(&base->entries[i]);
    rc = merge_content(out, (struct side){base, 0, base->count},
                       (struct side){remote, 0, remote->count},
                       (struct side){local, 0, local->count}, err);
    if (rc < 0)
        return rc;
    if (policy == BERTH_MERGE_FAIL && out->conflict_count)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "%zu %s changed both here and there, the first is \"%.300s\". Nothing "
                          "was changed.",
                          out->conflict_count, out->conflict_count == 1 ? "path was" : "paths were",
                          out->conflicts[0].path);
    struct berth_map opened = {0};
    rc = open_directories(out, &opened, err);
    berth_map_clear(&opened);
    if (rc == BERTH_OK && out->count)
        qsort(out->changes, out->count, sizeof out->changes[0], compare_changes);
    return rc;
}

bool berth_merge_deletes_most(const struct berth_merge *merge)
{
    return merge->deleted > SUSPICIOUS_DELETIONS && merge->deleted > merge->base_count / 2;
}
