/* SPDX-License-Identifier: Apache-2.0
 * src/store/node.c - SQL of nodes. */
#include "store/node.h"

int berth_node_beat(struct berth_db *db, const char *id, const char *host, int64_t pid,
                    struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO nodes (id, host, pid, started_at, beat_at)"
                         " VALUES ($1, $2, $3, {db_now_ms}, {db_now_ms})"
                         " ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at",
                         NULL, NULL, err, berth_text(id), berth_text(host), berth_int(pid));
}

int berth_node_now(struct berth_db *db, int64_t *out, struct berth_error *err)
{
    return berth_db_run(db, "SELECT {db_now_ms}", NULL, 0, berth_row_int, out, err);
}

int berth_node_alive(struct berth_db *db, const char *id, int64_t lapse_ms, bool *alive,
                     struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(db, "SELECT 1 FROM nodes WHERE id = $1 AND beat_at > {db_now_ms} - $2",
                           berth_row_count, &rows, err, berth_text(id), berth_int(lapse_ms));
    *alive = rows > 0;
    return rc;
}

struct machine_reader {
    struct berth_arena *arena;
    const char *machine;
};

static int on_machine(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct machine_reader *reader = ctx;
    reader->machine = berth_row_text(reader->arena, &row[0]);
    return berth_arena_check(reader->arena, err);
}

int berth_node_machine(struct berth_db *db, struct berth_arena *arena, const char *id,
                       const char **out, struct berth_error *err)
{
    struct machine_reader reader = {.arena = arena};
    int rc = berth_db_exec(db, "SELECT host FROM nodes WHERE id = $1", on_machine, &reader, err,
                           berth_text(id));
    *out = reader.machine;
    return rc;
}

int berth_node_remove(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "DELETE FROM nodes WHERE id = $1", NULL, NULL, err, berth_text(id));
}

int berth_node_remove_dead(struct berth_db *db, int64_t silent_ms, struct berth_error *err)
{
    return berth_db_exec(db,
                         "DELETE FROM nodes WHERE beat_at < {db_now_ms} - $1"
                         " AND NOT EXISTS (SELECT 1 FROM execs WHERE cause IS NULL"
                         " AND owner = nodes.id)"
                         " AND NOT EXISTS (SELECT 1 FROM runs WHERE owner = nodes.id"
                         " AND status = 'running')",
                         NULL, NULL, err, berth_int(silent_ms));
}
