/* SPDX-License-Identifier: Apache-2.0
 * src/base/id.h - UUIDs. Most are version 7, so that later rows sort after earlier ones. Runs and
 * leases look like version 4, because providers name places after the first or last digits of their
 * ids: these digits are random, and those in the middle (the 10th to 23rd character) hold the time,
 * so that rows made together are neighbours in an index that begins with them (store/db.h). */
#ifndef BERTH_BASE_ID_H
#define BERTH_BASE_ID_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_ID_SIZE 37 /* 36 characters and the NUL */

struct berth_id {
    char text[BERTH_ID_SIZE];
};

/* Returns an id that sorts after all earlier ids of this process, even when the clock goes back. */
struct berth_id berth_id_new(void);

/* Returns an id whose first 8 and last 12 digits are random. */
struct berth_id berth_id_new_random(void);

/* Says whether the text is a UUID of any version with dashes, in upper or lower case. Ids from
 * outside are checked before they reach a query. */
bool berth_id_valid(const char *text);
/* Says whether a filter by this id can match: NULL matches everything, an invalid UUID nothing. */
static inline bool berth_id_names(const char *text_or_null)
{
    return !text_or_null || berth_id_valid(text_or_null);
}
/* Writes the id in lower case to *out. Returns NOT_FOUND, with `what` ("Environment") in the
 * message, when the text is not a UUID. */
int berth_id_parse(const char *text, const char *what, struct berth_id *out,
                   struct berth_error *err);
#endif
