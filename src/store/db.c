/* SPDX-License-Identifier: Apache-2.0
 * src/store/db.c - see db.h. */
#include "store/db.h"

#include <assert.h>

#include "base/failpoint.h"

int berth_db_run(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
                 berth_row_fn *on_row, void *ctx, struct berth_error *err)
{
    assert(nargs <= BERTH_DB_ARGS_MAX);
    if (berth_failpoint_query_fails())
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The store failed because a test asked for it.");
    return db->ops->run(db, sql, args, nargs, on_row, ctx, err);
}

int berth_row_int(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)err;
    *(int64_t *)ctx = row[0].number;
    return BERTH_OK;
}

int berth_row_count(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    (void)row, (void)err;
    ++*(int *)ctx;
    return BERTH_OK;
}
