/* SPDX-License-Identifier: Apache-2.0
 * src/sync/manifest.c - see manifest.h. The written form is a line that names it, then for each
 * entry one line of numbers, its path and its target, each closed by NUL, and at the end the number
 * of entries and the SHA-256 of all before it. */
#include "sync/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"

#define HEAD "berth manifest 1\n"
#define PERMISSIONS 0777

/* --- paths --- */

int berth_path_compare(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    /* "/" comes before every other byte, so that "a/x" stands before "a-b". */
    int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
    int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
    return x < y ? -1 : x > y;
}

bool berth_path_valid(const char *path)
{
    int depth = 0;
    if (strlen(path) > BERTH_TREE_PATH_BYTES_MAX)
        return false;
    for (const char *name = path;; name++) {
        size_t len = strcspn(name, "/");
        bool dots = (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
        if (!len || dots || len > BERTH_TREE_NAME_BYTES_MAX || ++depth > BERTH_TREE_DEPTH_MAX)
            return false;
        name += len;
        if (!*name)
            return true;
    }
}

/* --- entries --- */

void berth_manifest_clear(struct berth_manifest *manifest)
{
    free(manifest->entries);
    berth_arena_clear(&manifest->arena);
    *manifest = (struct berth_manifest){0};
}

static int manifest_grow(struct berth_manifest *m, struct berth_error *err)
{
    if (m->count == BERTH_TREE_ENTRIES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE,
                          "The workspace has more than %d files, directories and links. Exclude "
                          "some in .berthignore.",
                          BERTH_TREE_ENTRIES_MAX);
    if (m->count < m->cap)
        return BERTH_OK;
    size_t cap = m->cap ? m->cap * 2 : 256;
    struct berth_entry *grown = realloc(m->entries, cap * sizeof *grown);
    if (!grown)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: manifest.");
    m->entries = grown;
    m->cap = cap;
    return BERTH_OK;
}

int berth_manifest_add(struct berth_manifest *m, const struct berth_entry *entry,
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
    m->bytes += entry->size;
    return BERTH_OK;
}

static int by_path(const void *a, const void *b)
{
    return berth_path_compare(((const struct berth_entry *)a)->path,
                              ((const struct berth_entry *)b)->path);
}

/* Returns whether `path` lies below `above`. */
static bool is_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return strncmp(path, above, len) == 0 && path[len] == '/';
}

int berth_manifest_sort(struct berth_manifest *m, struct berth_error *err)
{
    bool sorted = true;
    for (size_t i = 1; i < m->count && sorted; i++)
        sorted = by_path(&m->entries[i - 1], &m->entries[i]) < 0;
    if (!sorted)
        qsort(m->entries, m->count, sizeof *m->entries, by_path);
    for (size_t i = 1; i < m->count; i++) {
        const struct berth_entry *before = &m->entries[i - 1], *e = &m->entries[i];
        if (strcmp(before->path, e->path) == 0 ||
            (before->kind != BERTH_ENTRY_DIRECTORY && is_below(e->path, before->path)))
            return berth_fail(err, BERTH_E_INVALID,
                              "A manifest has \"%.200s\" twice, or a path below a file.", e->path);
    }
    return BERTH_OK;
}

struct berth_entry *berth_manifest_find(const struct berth_manifest *m, const char *path)
{
    struct berth_entry key = {.path = path};
    return m->count ? bsearch(&key, m->entries, m->count, sizeof key, by_path) : NULL;
}

bool berth_entry_same(const struct berth_entry *a, const struct berth_entry *b)
{
    if (!a || !b)
        return a == b;
    if (a->kind != b->kind || a->mode != b->mode)
        return false;
    if (a->kind == BERTH_ENTRY_LINK)
        return strcmp(a->target, b->target) == 0;
    return a->kind == BERTH_ENTRY_DIRECTORY ||
           (a->size == b->size && memcmp(a->hash, b->hash, sizeof a->hash) == 0);
}

/* --- the written form --- */

static void put_hex(struct berth_buf *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++)
        berth_buf_append(out, (char[]){digits[bytes[i] >> 4], digits[bytes[i] & 15]}, 2);
}

static void put_entry(struct berth_buf *out, const struct berth_entry *e)
{
    static const char kinds[] = {'d', 'f', 'l'};
    berth_buf_printf(out, "%c %o %" PRId64 " %" PRId64, kinds[e->kind], e->mode, e->size,
                     e->mtime_ns);
    berth_buf_printf(out, " %" PRId64 " %" PRId64 " ", e->ctime_ns, (int64_t)e->inode);
    if (e->hashed)
        put_hex(out, e->hash, sizeof e->hash);
    else
        berth_buf_puts(out, "-");
    berth_buf_append(out, "\n", 1);
    berth_buf_append(out, e->path, strlen(e->path) + 1);
    const char *target = e->target ? e->target : "";
    berth_buf_append(out, target, strlen(target) + 1);
}

void berth_manifest_write(const struct berth_manifest *m, struct berth_buf *out)
{
    size_t begin = out->len;
    unsigned char sum[BERTH_SHA256_SIZE];
    struct berth_error err;
    berth_buf_printf(out, HEAD "%" PRId64 "\n", m->taken_at_ns);
    for (size_t i = 0; i < m->count; i++)
        put_entry(out, &m->entries[i]);
    berth_buf_printf(out, "end %zu ", m->count);
    if (out->failed || berth_sha256(out->data + begin, out->len - begin, sum, &err) < 0) {
        out->failed = true;
        return;
    }
    put_hex(out, sum, sizeof sum);
    berth_buf_append(out, "\n", 1);
}

/* What is being read: [at, end), which is followed by a NUL. */
struct reading {
    const char *at, *end;
};

/* Reads a whole number and the byte behind it. */
static bool read_number(struct reading *r, int base, char behind, int64_t *out)
{
    char *end;
    errno = 0;
    if (r->at == r->end || strchr(" \t\r\n+", *r->at))
        return false;
    long long number = strtoll(r->at, &end, base);
    if (errno || end == r->at || end >= r->end || *end != behind)
        return false;
    r->at = end + 1;
    *out = number;
    return true;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool read_hash(struct reading *r, unsigned char out[BERTH_SHA256_SIZE])
{
    if (r->end - r->at <= 2 * BERTH_SHA256_SIZE)
        return false;
    for (int i = 0; i < BERTH_SHA256_SIZE; i++) {
        int high = hex_digit(r->at[2 * i]), low = hex_digit(r->at[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    r->at += 2 * BERTH_SHA256_SIZE;
    return *r->at++ == '\n';
}

static const char *read_text(struct reading *r)
{
    const char *text = r->at, *end = memchr(text, '\0', (size_t)(r->end - text));
    if (!end)
        return NULL;
    r->at = end + 1;
    return text;
}

static bool read_entry(struct reading *r, struct berth_entry *e)
{
    static const char kinds[] = "dfl";
    int64_t mode, inode;
    const char *kind = *r->at ? strchr(kinds, *r->at) : NULL;
    if (!kind || r->end - r->at < 3 || r->at[1] != ' ')
        return false;
    r->at += 2;
    *e = (struct berth_entry){.kind = (enum berth_entry_kind)(kind - kinds)};
    if (!read_number(r, 8, ' ', &mode) || !read_number(r, 10, ' ', &e->size) ||
        !read_number(r, 10, ' ', &e->mtime_ns) || !read_number(r, 10, ' ', &e->ctime_ns) ||
        !read_number(r, 10, ' ', &inode))
        return false;
    if (r->end - r->at > 2 && r->at[0] == '-' && r->at[1] == '\n')
        r->at += 2;
    else if (!(e->hashed = read_hash(r, e->hash)))
        return false;
    e->mode = (uint16_t)mode;
    e->inode = (uint64_t)inode;
    e->path = read_text(r);
    e->target = e->path ? read_text(r) : NULL;
    if (!e->target || mode < 0 || mode > PERMISSIONS || e->size < 0 || !berth_path_valid(e->path))
        return false;
    bool link = e->kind == BERTH_ENTRY_LINK;
    if (link != (*e->target != '\0') || strlen(e->target) > BERTH_TREE_PATH_BYTES_MAX ||
        (e->kind != BERTH_ENTRY_FILE && (e->size || e->hashed)))
        return false;
    if (!link)
        e->target = NULL;
    return true;
}

static bool read_end(struct reading *r, const char *begin, size_t count)
{
    int64_t said;
    unsigned char sum[BERTH_SHA256_SIZE], told[BERTH_SHA256_SIZE];
    struct berth_error err;
    r->at += 4;
    return read_number(r, 10, ' ', &said) && said == (int64_t)count &&
           berth_sha256(begin, (size_t)(r->at - begin), sum, &err) == BERTH_OK &&
           read_hash(r, told) && memcmp(sum, told, sizeof sum) == 0 && r->at == r->end;
}

int berth_manifest_parse(const char *bytes, size_t len, struct berth_manifest *out,
                         struct berth_error *err)
{
    auto_manifest m = {0};
    struct reading r = {bytes, bytes + len};
    struct berth_entry e;
    bool ended = false, good = len > sizeof HEAD && memcmp(bytes, HEAD, sizeof HEAD - 1) == 0;
    int rc = BERTH_OK;
    r.at += good ? sizeof HEAD - 1 : 0;
    good = good && read_number(&r, 10, '\n', &m.taken_at_ns);
    while (good && rc == BERTH_OK && !ended) {
        ended = r.end - r.at > 4 && memcmp(r.at, "end ", 4) == 0;
        good = r.at < r.end && (ended ? read_end(&r, bytes, m.count) : read_entry(&r, &e));
        if (good && !ended)
            rc = berth_manifest_add(&m, &e, err);
    }
    if (!good)
        return berth_fail(err, BERTH_E_INVALID, "A manifest is damaged or not whole.");
    if (rc == BERTH_OK)
        rc = berth_manifest_sort(&m, err);
    if (rc < 0)
        return rc;
    *out = m;
    m = (struct berth_manifest){0};
    return BERTH_OK;
}
