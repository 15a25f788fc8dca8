/* SPDX-License-Identifier: Apache-2.0
 * src/sync/entry.c - see entry.h. */
#include "sync/entry.h"

#include <string.h>

#include "base/limits.h"

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

bool berth_path_is_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return strncmp(path, above, len) == 0 && path[len] == '/';
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
