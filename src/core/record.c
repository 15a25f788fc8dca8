/* SPDX-License-Identifier: Apache-2.0
 * src/core/record.c - see record.h. */
#include "core/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "core/exec.h"
#include "core/node.h"
#include "os/engine.h"
#include "os/pool.h"
#include "store/lease.h"
#include "store/store.h"

#define WAIT_MS 20

struct berth_note {
    struct berth_note *next;
    struct berth_arena arena;
    struct berth_exec_record record;
};

static void free_note(struct berth_note *note)
{
    berth_arena_clear(&note->arena);
    free(note);
}

/* A command is a use of its lease. */
static int tx_write(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (const struct berth_note *note = ctx; note && rc == BERTH_OK; note = note->next) {
        const struct berth_exec_record *x = &note->record;
        rc = berth_exec_put(db, x, err);
        if (rc == BERTH_OK)
            rc = berth_lease_touch(db, x->lease_id,
                                   x->ended ? x->end.finished_at_ms : x->end.started_at_ms, err);
    }
    return rc;
}

void berth_record_flush(struct berth *b)
{
    struct berth_error err;
    pthread_mutex_lock(&b->notes_lock);
    pthread_mutex_lock(&b->strays_lock);
    struct berth_note *notes = b->notes;
    b->notes = NULL;
    b->notes_end = &b->notes;
    b->notes_set = false;
    pthread_mutex_unlock(&b->strays_lock);
    if (notes && berth_store_tx(b->store, tx_write, notes, &err) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "commands not recorded", "error", err.message,
                       NULL);
    for (struct berth_note *next; notes; notes = next) {
        next = notes->next;
        free_note(notes);
    }
    pthread_mutex_unlock(&b->notes_lock);
}

static void flush_job(void *ctx)
{
    berth_record_flush(ctx);
}

static struct berth_note *copy(const struct berth_exec_record *from)
{
    struct berth_note *note = calloc(1, sizeof *note);
    if (!note)
        return NULL;
    struct berth_arena *arena = &note->arena;
    note->record = *from;
    note->record.id = berth_arena_strdup(arena, from->id);
    note->record.company_id = berth_arena_strdup(arena, from->company_id);
    note->record.environment_id = berth_arena_strdup(arena, from->environment_id);
    note->record.lease_id = berth_arena_strdup(arena, from->lease_id);
    note->record.run_id = berth_arena_strdup(arena, from->run_id);
    note->record.command = berth_arena_strdup(arena, from->command);
    note->record.cwd = berth_arena_strdup(arena, from->cwd);
    note->record.owner = berth_arena_strdup(arena, from->owner);
    if (arena->failed) {
        berth_arena_clear(arena);
        free(note);
        return NULL;
    }
    return note;
}

/* Lock held. A short command's beginning need not be written when its end is. */
static void drop_older(struct berth *b, const char *id)
{
    struct berth_note **at = &b->notes;
    while (*at && strcmp((*at)->record.id, id) != 0)
        at = &(*at)->next;
    struct berth_note *older = *at;
    if (!older)
        return;
    *at = older->next;
    if (!*at)
        b->notes_end = at;
    free_note(older);
}

void berth_record_put(struct berth *b, const struct berth_exec_record *record)
{
    struct berth_error ignored;
    struct berth_note *note = copy(record);
    if (!note) {
        berth_log_line(&b->log, BERTH_LOG_WARN, "command not recorded", "execId", record->id, NULL);
        return;
    }
    pthread_mutex_lock(&b->strays_lock);
    drop_older(b, note->record.id);
    *b->notes_end = note;
    b->notes_end = &note->next;
    if (!b->notes_set) /* without a timer the next one, or the end, writes it */
        b->notes_set = berth_pool_after(b->pool, WAIT_MS, flush_job, b, &ignored) == BERTH_OK;
    pthread_mutex_unlock(&b->strays_lock);
}

struct listing {
    struct berth_arena *arena;
    const char *run_id, *id;
    struct berth_list *out;
    struct berth_exec_record *record;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct listing *listing = ctx;
    return berth_exec_load(db, listing->arena, listing->id, &listing->record, err);
}

int berth_record_get(struct berth *b, struct berth_arena *arena, const char *id,
                     struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_id parsed;
    int rc = berth_id_parse(id, "Exec", &parsed, err);
    if (rc < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Exec not found");
    struct listing listing = {.arena = arena, .id = parsed.text};
    berth_record_flush(b);
    rc = berth_store_read(b->store, tx_get, &listing, err);
    if (rc == BERTH_OK && !listing.record)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Exec not found");
    if (rc == BERTH_OK)
        *out = listing.record;
    return rc;
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct listing *listing = ctx;
    return berth_exec_select(db, listing->arena, listing->run_id, listing->out, err);
}

int berth_record_list(struct berth *b, struct berth_arena *arena, const char *run_id,
                      struct berth_list *out, struct berth_error *err)
{
    struct listing listing = {.arena = arena, .run_id = run_id, .out = out};
    berth_record_flush(b);
    return berth_store_read(b->store, tx_list, &listing, err);
}

void berth_record_json(struct berth_json_writer *w, const struct berth_exec_record *x)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", x->id);
    berth_json_put_str(w, "companyId", x->company_id);
    berth_json_put_str(w, "environmentId", x->environment_id);
    berth_json_put_str(w, "leaseId", x->lease_id);
    berth_json_put_str(w, "runId", x->run_id);
    berth_json_put_str(w, "command", x->command);
    berth_json_put_str(w, "cwd", x->cwd);
    berth_json_put_str(w, "status", x->ended ? "ended" : "running");
    if (x->ended)
        berth_exec_end_fields(w, &x->end, x->truncated);
    else
        berth_json_put_time(w, "startedAt", x->end.started_at_ms);
    berth_json_close(w, '}');
}

int berth_record_log(struct berth *b, const char *exec_id, char **out, struct berth_error *err)
{
    char *directory;
    int rc = berth_log_directory(b, &directory, err);
    if (rc < 0)
        return rc;
    int len = asprintf(out, "%s/%s.log", directory, exec_id);
    free(directory);
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.") : BERTH_OK;
}

/* --- those whose process is gone --- */

static int tx_open(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct listing *listing = ctx;
    return berth_exec_select_open(db, listing->arena, listing->out, err);
}

static int tx_lost(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_exec_set_lost(db, ctx, berth_time_wall_ms(), err);
}

static int end_one(struct berth *b, struct berth_arena *arena, const char *id,
                   struct berth_error *err)
{
    struct listing now = {.arena = arena, .id = id};
    berth_record_flush(b); /* it may be one of ours, whose end is queued */
    int rc = berth_store_read(b->store, tx_get, &now, err);
    if (rc < 0 || !now.record || now.record->ended)
        return rc; /* it has ended since it was listed */
    const char *label = berth_arena_printf(arena, "BERTH_EXEC_ID=%s", id);
    if (!label)
        return berth_arena_check(arena, err);
    char count[16];
    (void)snprintf(count, sizeof count, "%d", berth_strays_end((const char *const[]){label, NULL}));
    berth_log_line(&b->log, BERTH_LOG_WARN, "command of a dead process ended", "execId", id,
                   "processes", count, NULL);
    return berth_store_tx(b->store, tx_lost, (void *)(uintptr_t)id, err);
}

int berth_record_end_lost(struct berth *b, struct berth_arena *arena, struct berth_error *err)
{
    struct berth_list open = {0};
    struct listing listing = {.arena = arena, .out = &open};
    int rc = berth_store_read(b->store, tx_open, &listing, err);
    for (int i = 0; rc == BERTH_OK && i < open.count; i++) {
        const struct berth_exec_record *x = open.items[i];
        bool at_work;
        rc = berth_node_at_work(b->node, x->owner, x->id, 0, &at_work, err);
        if (rc == BERTH_OK && !at_work)
            rc = end_one(b, arena, x->id, err);
    }
    return rc;
}
