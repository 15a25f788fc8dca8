/* SPDX-License-Identifier: Apache-2.0
 * src/store/request.h - rows of requests with an idempotency key, which must not be performed
 * twice. */
#ifndef BERTH_STORE_REQUEST_H
#define BERTH_STORE_REQUEST_H

#include "store/row.h"

struct berth_request_row {
    const char *id, *caller, *key;
    const char *digest; /* of method, path, query and body */
    const char *owner;  /* the node that performs or performed it */
    int64_t status;     /* HTTP status of the answer; 0: not answered yet */
    const char *answer; /* or NULL */
    int64_t created_at_ms;
};

/* Does nothing when a row with this caller and key exists. */
int berth_request_insert(struct berth_db *db, const struct berth_request_row *row,
                         struct berth_error *err);
/* Loads and locks the row. *out is NULL when there is no such row. */
int berth_request_load(struct berth_db *db, struct berth_arena *arena, const char *caller,
                       const char *key, struct berth_request_row **out, struct berth_error *err);
int berth_request_finish(struct berth_db *db, const char *id, int64_t status, const char *answer,
                         struct berth_error *err);
/* Changes the id and the owner of the row. */
int berth_request_take_over(struct berth_db *db, const char *id, const char *new_id,
                            const char *owner, struct berth_error *err);
int berth_request_delete(struct berth_db *db, const char *id, struct berth_error *err);
/* Deletes answered requests that were created before. */
int berth_request_delete_before(struct berth_db *db, int64_t created_at_ms,
                                struct berth_error *err);
#endif
