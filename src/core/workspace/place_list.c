/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_list.c - see place_list.h. Most entries are printed by a few commands
 * for all of them, one line each. Links, and paths with a newline or a backslash, which such lines
 * cannot hold, are printed one by one, closed by NUL. */
#include "core/workspace/place_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hex.h"
#include "base/limits.h"

#define PERMISSIONS 0777
#define TIME_S_MAX (INT64_C(1) << 33) /* in the year 2242 */

/* Names that never cross are pruned. Names with a newline, a carriage return or a backslash are
 * listed apart, because sha256sum escapes them. */
const char berth_place_list_script[] =
    " for p in find stat readlink ${hash:+sha256sum}; do"
    " command -v $p >/dev/null || { echo \"no $p\"; exit 0; }; done;"
    " nl='\n' cr=$(printf '\\r');"
    " w() { find \"${at:-.}\" ${depth:+-maxdepth $depth}"
    " \\( -name .berth -o -name .paperclip-runtime -o -name .git \\) -prune -o \"$@\"; };"
    " plain() { w ! -path \"*$nl*\" ! -path \"*$cr*\" ! -path '*\\\\*' \"$@\"; };"
    " echo entries; plain -exec stat -c '%f %s %Y %n' {} + || exit;"
    " echo links; plain -type l -exec sh -c"
    " 'for l; do t=$(readlink \"$l\" && echo .) && [ ${#t} -gt 2 ] || exit 1;"
    " printf \"%s\\0%s\\0\" \"$l\" \"${t%??}\"; done' sh {} + || exit;"
    " echo hashes; [ -z \"$hash\" ] || plain -type f -exec sha256sum {} + || exit;"
    " echo odd; export hash; w \\( -path \"*$nl*\" -o -path \"*$cr*\" -o -path '*\\\\*' \\)"
    " -exec sh -c"
    " 'for f; do s=$(stat -c \"%f %s %Y\" \"$f\") || exit; t=; h=;"
    " if [ -h \"$f\" ]; then t=$(readlink \"$f\" && echo .) && [ ${#t} -gt 2 ] || exit 1;"
    " t=${t%??};"
    " elif [ -n \"$hash\" ] && [ -f \"$f\" ]; then h=$(sha256sum < \"$f\") || exit; fi;"
    " printf \"%s %s\\0%s\\0%s\\0\" \"$s\" \"$f\" \"$t\" \"${h%% *}\"; done' sh {} + || exit;"
    " echo end";

static int bad_list(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM,
                      "The place sent a list of its files that is damaged or not whole.");
}

const char *berth_place_list_lacks(struct berth_arena *arena, const struct berth_buf *text)
{
    static const char head[] = "no ";
    size_t begin = sizeof head - 1;
    if (text->len <= begin || strncmp(text->data, head, begin) != 0)
        return NULL;
    return berth_arena_copy(arena, text->data + begin, strcspn(text->data + begin, "\n"));
}

/* What is left of the text. */
struct reading {
    char *at, *end;
    struct berth_ignore *ignore;
    bool hashed;
    bool root; /* the list has the directory itself, which is not an entry */
    struct berth_tree_manifest *out;
};

/* Returns the text up to a byte, which becomes NUL, and moves on; NULL: the byte does not come. */
static char *take_until(struct reading *r, char last)
{
    char *text = r->at, *end = text ? memchr(text, last, (size_t)(r->end - text)) : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    r->at = end + 1;
    return text;
}

/* Returns the path without "./", or NULL when it is not one that may be an entry. */
static const char *listed_path(const char *text)
{
    if (strncmp(text, "./", 2) != 0 || !berth_path_valid(text + 2))
        return NULL;
    return text + 2;
}

/* Reads "MODE SIZE TIME PATH". *added is the entry, or NULL when it is left out. */
static int add_entry(struct reading *r, char *line, struct berth_entry **added,
                     struct berth_error *err)
{
    char *end;
    unsigned long mode = strtoul(line, &end, 16);
    long long size = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
    long long time_s = *end == ' ' ? strtoll(end + 1, &end, 10) : 0;
    *added = NULL;
    if (size < 0 || *end != ' ')
        return bad_list(err);
    if (strcmp(end + 1, ".") == 0) {
        r->root = true;
        return BERTH_OK;
    }
    struct berth_entry e = {.path = listed_path(end + 1),
                            .mode = (uint16_t)(mode & PERMISSIONS),
                            .mtime_ns =
                                time_s > 0 && time_s < TIME_S_MAX ? time_s * 1000000000 : 0};
    if (!e.path)
        return bad_list(err);
    if (r->ignore && berth_ignore_excludes(r->ignore, e.path, S_ISDIR(mode)))
        return BERTH_OK;
    if (S_ISDIR(mode)) {
        e.kind = BERTH_ENTRY_DIRECTORY;
    } else if (S_ISREG(mode)) {
        e.kind = BERTH_ENTRY_FILE;
        e.size = size;
    } else if (S_ISLNK(mode)) {
        e.kind = BERTH_ENTRY_LINK;
        e.mode = 0;
        e.inode = (uint64_t)size; /* the length of its target, until that is read */
    } else {
        if (!r->out->skipped++)
            r->out->skipped_path = berth_arena_strdup(&r->out->arena, e.path);
        return berth_arena_check(&r->out->arena, err);
    }
    int rc = berth_tree_manifest_add(r->out, &e, err);
    if (rc == BERTH_OK)
        *added = &r->out->entries[r->out->count - 1];
    return rc;
}

static int set_target(struct reading *r, struct berth_entry *e, const char *target,
                      struct berth_error *err)
{
    size_t len = strlen(target);
    if (!len || len > BERTH_TREE_PATH_BYTES_MAX || (e->inode && e->inode != len))
        return bad_list(err);
    e->inode = 0;
    e->target = berth_arena_strdup(&r->out->arena, target);
    return berth_arena_check(&r->out->arena, err);
}

/* Reads links, each as its path and where it leads, up to the line "hashes". */
static int read_links(struct reading *r, struct berth_error *err)
{
    static const char head[] = "hashes\n";
    int rc = BERTH_OK;
    while (rc == BERTH_OK) {
        if ((size_t)(r->end - r->at) >= sizeof head - 1 &&
            memcmp(r->at, head, sizeof head - 1) == 0)
            break;
        const char *line = take_until(r, '\0'), *target = take_until(r, '\0');
        const char *path = target ? listed_path(line) : NULL;
        if (!path)
            return bad_list(err);
        struct berth_entry *e = berth_tree_manifest_find(r->out, path);
        if (e && e->kind == BERTH_ENTRY_LINK)
            rc = set_target(r, e, target, err);
    }
    return rc;
}

/* Reads "HASH  PATH". */
static int read_hash_line(struct reading *r, const char *line, struct berth_error *err)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    if (!berth_hex_read(line, hash, sizeof hash))
        return bad_list(err);
    line += (ptrdiff_t)2 * BERTH_SHA256_SIZE;
    const char *path =
        line[0] == ' ' && (line[1] == ' ' || line[1] == '*') ? listed_path(line + 2) : NULL;
    struct berth_entry *e = path ? berth_tree_manifest_find(r->out, path) : NULL;
    if (!path)
        return bad_list(err);
    if (e && e->kind == BERTH_ENTRY_FILE) {
        memcpy(e->hash, hash, sizeof hash);
        e->hashed = r->hashed;
    }
    return BERTH_OK;
}

/* Reads the entries that are closed by NUL, up to the line "end". */
static int read_odd(struct reading *r, struct berth_error *err)
{
    int rc = BERTH_OK;
    while (rc == BERTH_OK) {
        struct berth_entry *e;
        if (r->end - r->at == 4 && memcmp(r->at, "end\n", 4) == 0)
            return BERTH_OK;
        char *line = take_until(r, '\0'), *target = take_until(r, '\0'),
             *hash = take_until(r, '\0');
        if (!hash)
            return bad_list(err);
        rc = add_entry(r, line, &e, err);
        if (rc < 0 || !e)
            continue;
        if (e->kind == BERTH_ENTRY_LINK)
            rc = set_target(r, e, target, err);
        else if (e->kind == BERTH_ENTRY_FILE && r->hashed)
            e->hashed = berth_hex_read(hash, e->hash, sizeof e->hash);
    }
    return rc;
}

/* Returns UPSTREAM when an entry lacks what the lists after the first have to say. */
static int check_whole(const struct reading *r, struct berth_error *err)
{
    for (size_t i = 0; i < r->out->count; i++) {
        const struct berth_entry *e = &r->out->entries[i];
        if ((e->kind == BERTH_ENTRY_FILE && r->hashed && !e->hashed) ||
            (e->kind == BERTH_ENTRY_LINK && !e->target))
            return bad_list(err);
    }
    return BERTH_OK;
}

int berth_place_list_parse(struct berth_buf *text, struct berth_ignore *ignore, bool hashed,
                           bool is_directory, struct berth_tree_manifest *out,
                           struct berth_error *err)
{
    enum { START, ENTRIES, LINKS, HASHES, ODD } part = START;
    static const char *const heads[] = {"entries", "links", "hashes", "odd"};
    struct reading r = {.at = text->data, .ignore = ignore, .hashed = hashed, .out = out};
    struct berth_entry *ignored;
    int rc = BERTH_OK;
    r.end = text->len ? text->data + text->len : text->data;
    while (rc == BERTH_OK && part != ODD) {
        char *line = take_until(&r, '\n');
        if (!line) {
            rc = bad_list(err);
        } else if (strcmp(line, heads[part]) == 0) {
            part++;
            if (part == LINKS)
                rc = berth_tree_manifest_sort(out, err);
            if (rc == BERTH_OK && part == LINKS)
                rc = read_links(&r, err);
        } else if (part == ENTRIES) {
            rc = add_entry(&r, line, &ignored, err);
        } else if (part == HASHES) {
            rc = read_hash_line(&r, line, err);
        } else {
            rc = bad_list(err);
        }
    }
    if (rc == BERTH_OK)
        rc = read_odd(&r, err);
    /* An empty directory is listed with itself, so a list of nothing is damaged. */
    if (rc == BERTH_OK && r.root != is_directory)
        rc = bad_list(err);
    if (rc == BERTH_OK)
        rc = check_whole(&r, err);
    return rc < 0 ? rc : berth_tree_manifest_sort(out, err);
}
