/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/quarantine.c - see quarantine.h. */
#include "core/sweep/quarantine.h"

#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "core/activity.h"
#include "store/prefix.h"
#include "store/store.h"

/* A row that cannot be read. */
struct poison {
    struct berth_arena *arena;
    enum berth_kind kind;
    const char *type, *action, *id, *trouble;
};

static bool is_told(const struct berth_list *entries, const char *action)
{
    for (int i = 0; i < entries->count; i++)
        if (strcmp(((const struct berth_activity *)entries->items[i])->action, action) == 0)
            return true;
    return false;
}

/* Writes the activity entry, unless an earlier sweep has. */
static int tx_quarantine(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct poison *p = ctx;
    struct berth_activity_filter filter = {.entity_id = p->id, .limit = BERTH_LIST_ROWS_MAX};
    struct berth_list entries;
    const char *company_id, *lease_id;
    int rc = berth_owner_select(db, p->arena, p->kind, p->id, &company_id, &lease_id, err);
    if (rc == BERTH_OK)
        rc = berth_activity_select(db, p->arena, &filter, &entries, err);
    if (rc < 0 || !company_id || is_told(&entries, p->action))
        return rc;
    auto_buf details = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &details};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "error", p->trouble);
    berth_json_close(&w, '}');
    struct berth_entity entity = {company_id, p->type, p->id};
    rc = berth_buf_check(&details, "Activity details", err);
    return rc < 0 ? rc
                  : berth_activity_of(db, &entity, p->action, NULL, berth_buf_str(&details), err);
}

static void quarantine(struct berth *b, const struct poison *told, const char *event)
{
    struct berth_error err;
    berth_log_line(&b->log, BERTH_LOG_ERROR, event, "id", told->id, "error", told->trouble, NULL);
    if (berth_store_tx(b->store, tx_quarantine, (void *)(uintptr_t)told, &err) <
        0) /* the next sweep tries again */
        berth_log_line(&b->log, BERTH_LOG_WARN, "not in the activity log", "id", told->id, "error",
                       err.message, NULL);
}

void berth_quarantine_environment(struct berth *b, struct berth_arena *arena, const char *id,
                                  const char *trouble)
{
    struct poison poison = {.arena = arena,
                            .kind = BERTH_KIND_ENVIRONMENT,
                            .type = "environment",
                            .action = "environment.quarantined",
                            .id = id,
                            .trouble = trouble};
    quarantine(b, &poison, "unreadable environment left alone");
}

void berth_quarantine_lease(struct berth *b, struct berth_arena *arena, const char *id,
                            const char *trouble)
{
    struct poison poison = {.arena = arena,
                            .kind = BERTH_KIND_LEASE,
                            .type = "environment_lease",
                            .action = "environment.lease_quarantined",
                            .id = id,
                            .trouble = trouble};
    quarantine(b, &poison, "unreadable lease left alone");
}
