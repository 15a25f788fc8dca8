/* SPDX-License-Identifier: Apache-2.0
 * src/api/read_turns.h - which watches may read a log now. Each owner, such as a company,
 * has its own queue, and may read as many logs at once as are left free for the others: so one
 * owner has at most half of all. On the loop's thread. */
#ifndef BERTH_API_READ_TURNS_H
#define BERTH_API_READ_TURNS_H

#include <stdbool.h>

#include "base/map.h"

#define BERTH_API_LOG_READS_MAX 64 /* at once, of all owners */

/* A watch that waits for its turn. It stays where it is until it is taken. */
struct berth_api_reader {
    struct berth_api_reader *next;
};

struct berth_api_read_turns {
    struct berth_map owners; /* those that wait or read */
    int reads;               /* that were taken and are not done */
};

/* Queues the reader. Returns false, and does nothing, when memory ran out. */
bool berth_api_read_turns_put(struct berth_api_read_turns *turns, const char *owner,
                              struct berth_api_reader *reader);
/* Returns a reader that may read now, and counts it until berth_api_read_turns_done. NULL: none. */
struct berth_api_reader *berth_api_read_turns_take(struct berth_api_read_turns *turns);
void berth_api_read_turns_done(struct berth_api_read_turns *turns, const char *owner);
void berth_api_read_turns_clear(struct berth_api_read_turns *turns); /* no reader waits or reads */
#endif
