/* SPDX-License-Identifier: Apache-2.0
 * src/api/read_turns.c - see read_turns.h. */
#include "api/read_turns.h"

#include <stdlib.h>

struct read_owner {
    struct berth_api_reader *first, *last; /* that wait */
    int reads;
};

bool berth_api_read_turns_put(struct berth_api_read_turns *turns, const char *owner,
                              struct berth_api_reader *reader)
{
    struct read_owner *o = berth_map_get(&turns->owners, owner);
    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o || !berth_map_put(&turns->owners, owner, o)) {
            free(o);
            return false;
        }
    }
    reader->next = NULL;
    if (o->first)
        o->last->next = reader;
    else
        o->first = reader;
    o->last = reader;
    return true;
}

struct berth_api_reader *berth_api_read_turns_take(struct berth_api_read_turns *turns)
{
    const char *name;
    size_t at = 0;
    int left = BERTH_API_LOG_READS_MAX - turns->reads - 1; /* after one more */
    for (struct read_owner *o; (o = berth_map_next(&turns->owners, &at, &name));) {
        struct berth_api_reader *reader = o->first;
        if (!reader || o->reads + 1 > left)
            continue;
        o->first = reader->next;
        o->reads++;
        turns->reads++;
        return reader;
    }
    return NULL;
}

void berth_api_read_turns_done(struct berth_api_read_turns *turns, const char *owner)
{
    struct read_owner *o = berth_map_get(&turns->owners, owner);
    turns->reads--;
    if (--o->reads || o->first)
        return;
    (void)berth_map_remove(&turns->owners, owner);
    free(o);
}

void berth_api_read_turns_clear(struct berth_api_read_turns *turns)
{
    berth_map_clear(&turns->owners);
}
