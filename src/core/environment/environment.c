/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment.c - reads environments and shows them as JSON. */
#include "core/environment/environment.h"

#include <limits.h>
#include <string.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "store/store.h"

#define ROWS_AT_ONCE 16

int berth_environment_not_found(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Environment not found");
}

/* --- looking --- */

struct look {
    struct berth_arena *arena;
    const char *id;
    const struct berth_environment_filter *filter;
    struct berth_environment *environment;
    struct berth_list *list, *unreadable;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_environment_load(db, look->arena, look->id, BERTH_LOCK_NONE, &look->environment,
                                  err);
}

/* Lists the environments that can be read, up to filter->limit. Rows may be large, and a database
 * may hold a whole result in memory: so they are read a few at a time. */
static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    struct berth_environment_filter few = *look->filter;
    struct berth_list page = {0};
    int limit = look->filter->limit ? look->filter->limit : INT_MAX, rc = BERTH_OK;
    *look->list = *look->unreadable = (struct berth_list){0};
    do {
        int left = limit - look->list->count;
        few.limit = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        rc = berth_environment_select(db, look->arena, &few, &page, err);
        for (int i = 0; rc == BERTH_OK && i < page.count; i++) {
            struct berth_environment *e = page.items[i];
            few.before = e->id;
            if (!berth_list_add(e->trouble ? look->unreadable : look->list, look->arena, e))
                rc = berth_arena_check(look->arena, err);
        }
    } while (rc == BERTH_OK && page.count == few.limit && look->list->count < limit);
    return rc;
}

int berth_environment_get(struct berth *b, struct berth_arena *arena, const char *id,
                          struct berth_environment **out, struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Environment", &parsed, err) < 0)
        return berth_environment_not_found(err);
    struct look look = {.arena = arena, .id = parsed.text};
    int rc = berth_store_read(b->store, tx_get, &look, err);
    if (rc == BERTH_OK && !look.environment)
        rc = berth_environment_not_found(err);
    if (rc == BERTH_OK)
        *out = look.environment;
    return rc;
}

int berth_environment_list(struct berth *b, struct berth_arena *arena,
                           const struct berth_environment_filter *filter, struct berth_list *out,
                           struct berth_error *err)
{
    struct berth_environment_filter full = *filter;
    if (!full.company_id)
        full.company_id = b->company_id;
    if (full.name && !berth_utf8_valid(full.name))
        return berth_fail(err, BERTH_E_INVALID, "The name is not UTF-8.");
    *out = (struct berth_list){0};
    if (!berth_id_names(full.company_id))
        return BERTH_OK;
    struct berth_list unreadable = {0};
    struct look look = {.arena = arena, .filter = &full, .list = out, .unreadable = &unreadable};
    int rc = berth_store_read(b->store, tx_list, &look, err);
    for (int i = 0; rc == BERTH_OK && i < unreadable.count; i++) {
        const struct berth_environment *e = unreadable.items[i];
        berth_log_line(&b->log, BERTH_LOG_ERROR, "unreadable environment left out", "environmentId",
                       e->id, "error", e->trouble, NULL);
    }
    return rc;
}

static void put_environment(struct berth_json_writer *w, const struct berth_environment *e,
                            bool redacted)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", e->id);
    berth_json_put_str(w, "companyId", e->company_id);
    berth_json_put_str(w, "name", e->name);
    berth_json_put_str(w, "description", e->description);
    berth_json_put_str(w, "driver", berth_environment_drivers.names[e->driver]);
    berth_json_put_str(w, "status", berth_environment_statuses.names[e->status]);
    berth_json_put_bool(w, "deleting", e->deleting);
    berth_json_put_raw(w, "config", redacted ? "{}" : e->config_json);
    berth_json_put_raw(w, "metadata", redacted ? NULL : e->metadata_json);
    berth_json_put_time(w, "createdAt", e->created_at_ms);
    berth_json_put_time(w, "updatedAt", e->updated_at_ms);
    if (redacted) {
        berth_json_put_bool(w, "configRedacted", true);
        berth_json_put_bool(w, "metadataRedacted", true);
    }
    berth_json_close(w, '}');
}

void berth_environment_json(struct berth_json_writer *w, const struct berth_environment *e)
{
    put_environment(w, e, false);
}

void berth_environment_json_redacted(struct berth_json_writer *w, const struct berth_environment *e)
{
    put_environment(w, e, true);
}

bool berth_environment_in_place(const struct berth *b, const struct berth_environment *e)
{
    return berth_registry_in_place(b->registry, berth_environment_drivers.names[e->driver]);
}

const char *berth_environment_id(const struct berth_environment *e)
{
    return e->id;
}

const char *berth_environment_company_id(const struct berth_environment *e)
{
    return e->company_id;
}

const char *berth_environment_name(const struct berth_environment *e)
{
    return e->name;
}

enum berth_environment_driver berth_environment_driver(const struct berth_environment *e)
{
    return e->driver;
}

enum berth_environment_status berth_environment_status(const struct berth_environment *e)
{
    return e->status;
}

const char *berth_environment_config(const struct berth_environment *e)
{
    return e->config_json;
}

const char *berth_environment_to_json(struct berth_arena *arena, const struct berth_environment *e)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_environment_json(&(struct berth_json_writer){.buf = &buf}, e);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

int berth_environment_details(struct berth_arena *arena, const struct berth_environment *e,
                              const char **out, struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "name", e->name);
    berth_json_put_str(&w, "driver", berth_environment_drivers.names[e->driver]);
    berth_json_put_str(&w, "status", berth_environment_statuses.names[e->status]);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Activity details", err);
    *out = berth_arena_strdup(arena, berth_buf_str(&buf));
    return rc < 0 ? rc : berth_arena_check(arena, err);
}
