/* SPDX-License-Identifier: Apache-2.0
 * src/store/plugin.c - SQL of plugins. */
#include "store/plugin.h"

static const char *const status_names[] = {"installed",       "ready",       "disabled", "error",
                                           "upgrade_pending", "uninstalled", NULL};
const struct berth_enum berth_plugin_statuses = {"plugin status", status_names};

const char *berth_plugin_status_name(enum berth_plugin_status status)
{
    return status_names[status];
}

#define COLUMNS                                                                                    \
    "id, plugin_key, package_name, package_path, in_place, version, status, manifest, config,"     \
    " last_error, install_order, installed_at, updated_at, row_version, settings"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_plugin(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_plugin *p = berth_arena_alloc(arena, sizeof *p);
    if (!p || !berth_list_add(reader->out, arena, p))
        return berth_arena_check(arena, err);
    int status;
    int rc = berth_enum_read(&berth_plugin_statuses, &row[6], &status, err);
    if (rc < 0)
        return rc;
    *p = (struct berth_plugin){.id = berth_row_text(arena, &row[0]),
                               .plugin_key = berth_row_text(arena, &row[1]),
                               .package_name = berth_row_text(arena, &row[2]),
                               .package_path = berth_row_text(arena, &row[3]),
                               .in_place = row[4].number != 0,
                               .version = berth_row_text(arena, &row[5]),
                               .status = (enum berth_plugin_status)status,
                               .manifest_json = berth_row_text(arena, &row[7]),
                               .config_json = berth_row_text(arena, &row[8]),
                               .last_error = berth_row_text(arena, &row[9]),
                               .install_order = row[10].number,
                               .installed_at_ms = row[11].number,
                               .updated_at_ms = row[12].number,
                               .row_version = row[13].number,
                               .settings_json = berth_row_text(arena, &row[14])};
    return berth_arena_check(arena, err);
}

int berth_plugin_insert(struct berth_db *db, const struct berth_plugin *p, struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO plugins (" COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8,"
        " $9, $10, $11, $12, $13, $14, $15)",
        NULL, NULL, err, berth_text(p->id), berth_text(p->plugin_key), berth_text(p->package_name),
        berth_text(p->package_path), berth_int(p->in_place), berth_text(p->version),
        berth_text(status_names[p->status]), berth_text(p->manifest_json),
        berth_text(p->config_json), berth_text(p->last_error), berth_int(p->install_order),
        berth_int(p->installed_at_ms), berth_int(p->updated_at_ms), berth_int(p->row_version),
        berth_text(p->settings_json));
}

int berth_plugin_save(struct berth_db *db, struct berth_plugin *p, bool *won,
                      struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(
        db,
        "UPDATE plugins SET package_name = $3, package_path = $4, in_place = $5, version = $6,"
        " status = $7, manifest = $8, config = $9, last_error = $10, updated_at = $11,"
        " settings = $12, row_version = row_version + 1 WHERE id = $1 AND row_version = $2 "
        "RETURNING id",
        berth_row_count, &rows, err, berth_text(p->id), berth_int(p->row_version),
        berth_text(p->package_name), berth_text(p->package_path), berth_int(p->in_place),
        berth_text(p->version), berth_text(status_names[p->status]), berth_text(p->manifest_json),
        berth_text(p->config_json), berth_text(p->last_error), berth_int(p->updated_at_ms),
        berth_text(p->settings_json));
    *won = rc == BERTH_OK && rows == 1;
    if (*won)
        p->row_version++;
    return rc;
}

int berth_plugin_remove(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "DELETE FROM plugins WHERE id = $1", NULL, NULL, err, berth_text(id));
}

int berth_plugin_load(struct berth_db *db, struct berth_arena *arena, const char *name,
                      enum berth_row_lock lock, struct berth_plugin **out, struct berth_error *err)
{
#define BY_NAME "SELECT " COLUMNS " FROM plugins WHERE id = $1 OR plugin_key = $1"
    static const char *const sql[] = {[BERTH_LOCK_NONE] = BY_NAME,
                                      [BERTH_LOCK_SHARE] = BY_NAME " {for_share}",
                                      [BERTH_LOCK_UPDATE] = BY_NAME " {for_update}"};
#undef BY_NAME
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, sql[lock], on_plugin, &reader, err, berth_text(name));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_plugin_take_turns(struct berth_db *db, struct berth_error *err)
{
    return berth_db_run(db, "{migration_lock}", NULL, 0, NULL, NULL, err);
}

int berth_plugin_select(struct berth_db *db, struct berth_arena *arena,
                        const struct berth_page *page, struct berth_list *out,
                        struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM plugins WHERE CAST($1 AS TEXT) IS NULL"
                         " OR install_order > (SELECT install_order FROM plugins WHERE id = $1)"
                         " ORDER BY install_order LIMIT $2",
                         on_plugin, &reader, err, berth_page_before(page), berth_page_limit(page));
}

int berth_plugin_next_order(struct berth_db *db, int64_t *out, struct berth_error *err)
{
    *out = 0;
    return berth_db_run(db, "SELECT coalesce(max(install_order), 0) + 1 FROM plugins", NULL, 0,
                        berth_row_int, out, err);
}
