/* SPDX-License-Identifier: Apache-2.0
 * src/store/request.h - requests that must not be done twice, as rows. */
#ifndef BERTH_STORE_REQUEST_H
#define BERTH_STORE_REQUEST_H

#include "store/row.h"

struct berth_request_row {
    const char *id, *caller, *key;
    const char *digest; /* of all that was asked */
    const char *owner;  /* the node that is at it, or was */
    int64_t status;     /* of the answer; 0: there is none yet */
    const char *answer; /* or NULL */
    int64_t created_at_ms;
};

/* Does nothing when there is one of the caller and key. */
int berth_request_insert(struct berth_db *db, const struct berth_request_row *row,
                         struct berth_error *err);
/* *out is NULL when there is none. */
int berth_request_load(struct berth_db *db, struct berth_arena *arena, const char *caller,
                       const char *key, struct berth_request_row **out, struct berth_error *err);
int berth_request_finish(struct berth_db *db, const char *id, int64_t status, const char *answer,
                         struct berth_error *err);
/* It goes by another id from now on. */
int berth_request_take_over(struct berth_db *db, const char *id, const char *new_id,
                            const char *owner, struct berth_error *err);
int berth_request_delete(struct berth_db *db, const char *id, struct berth_error *err);
/* Of those that are answered. */
int berth_request_delete_before(struct berth_db *db, int64_t created_at_ms,
                                struct berth_error *err);
#endif
