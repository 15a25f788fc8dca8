/* SPDX-License-Identifier: Apache-2.0
 * src/base/id.h - UUIDs: ours are version 7, so that rows made later sort later. */
#ifndef BERTH_BASE_ID_H
#define BERTH_BASE_ID_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_ID_SIZE 37 /* 36 characters and the NUL */

struct berth_id {
    char text[BERTH_ID_SIZE];
};

/* Never goes backwards within a process, also when the clock does. */
struct berth_id berth_id_new(void);

/* Any UUID in its canonical spelling, either case. Foreign ids are checked before they reach a
 * query. */
bool berth_id_valid(const char *text);
/* May the id of a filter name something? NULL filters nothing; what is no UUID names nothing. */
static inline bool berth_id_names(const char *text_or_null)
{
    return !text_or_null || berth_id_valid(text_or_null);
}
/* The lower-case copy, or NOT_FOUND with `what` ("Environment") in the text: an id that cannot be
 * one names nothing. */
int berth_id_parse(const char *text, const char *what, struct berth_id *out,
                   struct berth_error *err);
#endif
