/* SPDX-License-Identifier: Apache-2.0
 * src/cli/similar.c - see similar.h. */
#include "cli/similar.h"

#include <string.h>

#define NAME_CHARS_MAX 64

/* Returns how many letters differ: changed, added, left out or swapped. */
static int distance(const char *a, const char *b)
{
    int rows[3][NAME_CHARS_MAX + 1];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > NAME_CHARS_MAX || b_len > NAME_CHARS_MAX)
        return NAME_CHARS_MAX;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        int *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *cli_most_like(const char *text, const char *const *names, int count)
{
    const char *found = NULL;
    int best = (int)strlen(text) / 3 + 1; /* one slip in a short word, more in a long one */
    for (int i = 0; i < count; i++) {
        int away = distance(text, names[i]);
        if (away <= best) {
            best = away - 1;
            found = names[i];
        }
    }
    return found;
}
