/* SPDX-License-Identifier: Apache-2.0
 * src/sync/manifest.c - see manifest.h. The written form is a line that names it, then for each
 * entry one line of numbers, its path and its target, each closed by NUL, and at the end the number
 * of entries and the SHA-256 of all before it. */
#include "sync/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "sync/record.h"

#define HEAD "berth manifest 1\n"

/* --- entries --- */

void berth_tree_manifest_clear(struct berth_tree_manifest *manifest)
{
    free(manifest->entries);
    berth_arena_clear(&manifest->arena);
    *manifest = (struct berth_tree_manifest){0};
}

static int manifest_grow(struct berth_tree_manifest *m, struct berth_error *err)
{
    if (m->count == BERTH_TREE_ENTRIES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE,
                          "The workspace has more than %d files, directories and links. Exclude "
                          "some in .berthignore.",
                          BERTH_TREE_ENTRIES_MAX);
    if (!berth_array_grow(&m->entries, &m->cap, m->count, sizeof *m->entries))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: manifest.");
    return BERTH_OK;
}

int berth_tree_manifest_add(struct berth_tree_manifest *m, const struct berth_entry *entry,
                            struct berth_error *err)
{
    int rc = manifest_grow(m, err);
    if (rc < 0)
        return rc;
    if (entry->size > BERTH_TREE_BYTES_MAX - m->bytes)
        return berth_fail(err, BERTH_E_TOO_LARGE,
                          "The files of the workspace have more than %" PRId64
                          " bytes together. Exclude some in .berthignore.",
                          BERTH_TREE_BYTES_MAX);
    struct berth_entry *kept = &m->entries[m->count];
    *kept = *entry;
    kept->path = berth_arena_strdup(&m->arena, entry->path);
    kept->target = entry->target ? berth_arena_strdup(&m->arena, entry->target) : NULL;
    rc = berth_arena_check(&m->arena, err);
    if (rc < 0)
        return rc;
    m->count++;
    m->files += entry->kind == BERTH_ENTRY_FILE;
    m->bytes += entry->size;
    return BERTH_OK;
}

static int by_path(const void *a, const void *b)
{
    return berth_path_compare(((const struct berth_entry *)a)->path,
                              ((const struct berth_entry *)b)->path);
}

int berth_tree_manifest_sort(struct berth_tree_manifest *m, struct berth_error *err)
{
    bool sorted = true;
    for (size_t i = 1; i < m->count && sorted; i++)
        sorted = by_path(&m->entries[i - 1], &m->entries[i]) < 0;
    if (!sorted)
        qsort(m->entries, m->count, sizeof *m->entries, by_path);
    for (size_t i = 1; i < m->count; i++) {
        const struct berth_entry *before = &m->entries[i - 1], *e = &m->entries[i];
        if (strcmp(before->path, e->path) == 0 ||
            (before->kind != BERTH_ENTRY_DIRECTORY && berth_path_is_below(e->path, before->path)))
            return berth_fail(err, BERTH_E_INVALID,
                              "A manifest has \"%.200s\" twice, or a path below a file.", e->path);
    }
    return BERTH_OK;
}

bool berth_tree_manifest_same(const struct berth_tree_manifest *a,
                              const struct berth_tree_manifest *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        const struct berth_entry *x = &a->entries[i], *y = &b->entries[i];
        same = x->mtime_ns == y->mtime_ns && x->ctime_ns == y->ctime_ns && x->inode == y->inode &&
               x->hashed == y->hashed && strcmp(x->path, y->path) == 0 && berth_entry_same(x, y);
    }
    return same;
}

struct berth_entry *berth_tree_manifest_find(const struct berth_tree_manifest *m, const char *path)
{
    struct berth_entry key = {.path = path};
    return m->count ? bsearch(&key, m->entries, m->count, sizeof key, by_path) : NULL;
}

const struct berth_entry *berth_tree_manifest_next(const struct berth_tree_manifest *m, size_t *at,
                                                   const char *path)
{
    int order = -1;
    while (*at < m->count && (order = berth_path_compare(m->entries[*at].path, path)) < 0)
        ++*at;
    return *at < m->count && order == 0 ? &m->entries[*at] : NULL;
}

int berth_tree_manifest_check(const struct berth_tree_manifest *m, struct berth_error *err)
{
    char directory[BERTH_TREE_PATH_BYTES_MAX + 1];
    for (size_t i = 0; i < m->count; i++) {
        const char *path = m->entries[i].path, *slash = strrchr(path, '/');
        if (!slash)
            continue;
        size_t len = (size_t)(slash - path);
        if (len >= sizeof directory)
            return berth_fail(err, BERTH_E_INVALID, "A manifest has a path that is too long.");
        memcpy(directory, path, len);
        directory[len] = '\0';
        const struct berth_entry *above = berth_tree_manifest_find(m, directory);
        if (!above || above->kind != BERTH_ENTRY_DIRECTORY)
            return berth_fail(err, BERTH_E_INVALID,
                              "A manifest has \"%.200s\", but not its directory.", path);
    }
    return BERTH_OK;
}

/* --- the written form --- */

void berth_tree_manifest_write(const struct berth_tree_manifest *m, struct berth_buf *out)
{
    size_t begin = out->len;
    berth_buf_printf(out, HEAD "%" PRId64 "\n", m->taken_at_ns);
    for (size_t i = 0; i < m->count; i++)
        berth_record_put_entry(out, &m->entries[i]);
    berth_record_put_end(out, begin, m->count);
}

int berth_tree_manifest_parse(const char *bytes, size_t len, struct berth_tree_manifest *out,
                              struct berth_error *err)
{
    auto_tree_manifest m = {0};
    struct berth_record r = {bytes, bytes + len};
    struct berth_entry e;
    bool ended = false, good = len > sizeof HEAD && memcmp(bytes, HEAD, sizeof HEAD - 1) == 0;
    int rc = BERTH_OK;
    r.at += good ? sizeof HEAD - 1 : 0;
    good = good && berth_record_number(&r, 10, '\n', &m.taken_at_ns);
    while (good && rc == BERTH_OK && !ended) {
        ended = berth_record_at_end(&r);
        good = r.at < r.end &&
               (ended ? berth_record_end(&r, bytes, m.count) : berth_record_entry(&r, &e));
        if (good && !ended)
            rc = berth_tree_manifest_add(&m, &e, err);
    }
    if (!good)
        return berth_fail(err, BERTH_E_INVALID, "A manifest is damaged or not whole.");
    if (rc == BERTH_OK)
        rc = berth_tree_manifest_sort(&m, err);
    if (rc < 0)
        return rc;
    *out = m;
    m = (struct berth_tree_manifest){0};
    return BERTH_OK;
}
