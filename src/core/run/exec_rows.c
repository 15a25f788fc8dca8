/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_rows.c - see exec_rows.h. */
#include "core/run/exec_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "core/lease/node.h"
#include "core/paths.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_result.h"
#include "core/run/foreign_machine.h"
#include "os/orphan_inits.h"
#include "os/strays.h"
#include "store/store.h"

#define OVERDUE_MS 30000 /* after the end of a lease; a living owner needs half of it */

/* --- reading --- */

struct exec_query {
    struct berth_arena *arena;
    const char *run_id, *id; /* id: of the one that is looked for, or beside which */
    int limit;
    struct berth_list *out;
    struct berth_exec_record *record;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct exec_query *listing = ctx;
    return berth_exec_load(db, listing->arena, listing->id, &listing->record, err);
}

int berth_exec_rows_get(struct berth *b, struct berth_arena *arena, const char *id,
                        struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_id parsed;
    int rc = berth_id_parse(id, "Exec", &parsed, err);
    if (rc < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Exec not found");
    struct exec_query listing = {.arena = arena, .id = parsed.text};
    struct berth_error behind;
    int flushed = berth_exec_journal_flush(b, &behind);
    rc = berth_store_read(b->store, tx_get, &listing, err);
    if (rc == BERTH_OK && !listing.record && flushed < 0) { /* it may not be written yet */
        *err = behind;
        rc = flushed;
    } else if (rc == BERTH_OK && !listing.record) {
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Exec not found");
    }
    if (rc == BERTH_OK)
        *out = listing.record;
    return rc;
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct exec_query *listing = ctx;
    return berth_exec_select(db, listing->arena, listing->run_id, listing->id, listing->limit,
                             listing->out, err);
}

int berth_exec_rows_list(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *before, int limit, struct berth_list *out,
                         struct berth_error *err)
{
    struct exec_query listing = {
        .arena = arena, .run_id = run_id, .id = before, .limit = limit, .out = out};
    struct berth_error behind;
    (void)berth_exec_journal_flush(b, &behind);
    return berth_store_read(b->store, tx_list, &listing, err);
}

static int tx_next(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct exec_query *listing = ctx;
    return berth_exec_load_next(db, listing->arena, listing->run_id, listing->id, &listing->record,
                                err);
}

int berth_exec_rows_next(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out, struct berth_error *err)
{
    struct exec_query listing = {.arena = arena, .run_id = run_id, .id = after};
    struct berth_error behind;
    int flushed = berth_exec_journal_flush(b, &behind);
    int rc = berth_store_read(b->store, tx_next, &listing, err);
    if (rc == BERTH_OK && !listing.record && flushed < 0) { /* it may not be written yet */
        *err = behind;
        rc = flushed;
    }
    *out = listing.record;
    return rc;
}

void berth_exec_rows_json(struct berth_json_writer *w, const struct berth_exec_record *record)
{
    struct berth_exec_record x = *record;
    berth_json_open(w, '{');
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++) {
        const char **text = berth_exec_text_at(&x, &berth_exec_texts[i]);
        if (text != &x.owner) /* the node's id is not for clients */
            berth_json_put_str(w, berth_exec_texts[i].key, *text);
    }
    berth_json_put_str(w, "status", x.ended ? "ended" : "running");
    if (x.ended)
        berth_exec_end_fields(w, &x.end, x.truncated);
    else
        berth_json_put_time(w, "startedAt", x.end.started_at_ms);
    berth_json_close(w, '}');
}

int berth_exec_rows_log(struct berth *b, const char *exec_id, char **out, struct berth_error *err)
{
    char *directory;
    int rc = berth_directory(b, "logs", &directory, err);
    if (rc < 0)
        return rc;
    int len = asprintf(out, "%s/%s.log", directory, exec_id);
    free(directory);
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.") : BERTH_OK;
}

/* --- those whose process is gone, or does not end them --- */

static int tx_open(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct exec_query *listing = ctx;
    return berth_exec_select_open(db, listing->arena, listing->out, err);
}

static int tx_overdue(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct exec_query *listing = ctx;
    return berth_exec_select_overdue(db, listing->arena, berth_time_wall_ms() - OVERDUE_MS,
                                     listing->out, err);
}

static int tx_lost(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_exec_set_lost(db, ctx, berth_time_wall_ms(), err);
}

/* Sets *lost to whether nothing on this machine looks after the command any more. */
static int judge_open(struct berth *b, struct berth_arena *arena, const struct berth_exec_record *x,
                      bool *lost, int *left, struct berth_error *err)
{
    struct exec_query now = {.arena = arena, .id = x->id};
    bool at_work, untold = false;
    const char *machine;
    int rc = berth_node_at_work(b->node, x->owner, x->id, 0, &at_work, err);
    if (rc == BERTH_OK && !at_work && x->owner && strcmp(x->owner, berth_node_id(b->node)) != 0)
        rc = berth_exec_journal_is_left(b, x->owner, &untold, err);
    if (rc < 0 || at_work || untold)
        return rc;
    rc = berth_exec_journal_flush(b, err); /* it may be one of ours, whose end is queued */
    if (rc == BERTH_OK)
        rc = berth_store_read(b->store, tx_get, &now, err);
    if (rc < 0 || !now.record || now.record->ended)
        return rc; /* it has ended since it was listed */
    rc = berth_foreign_machine_of_exec(b, arena, x, &machine, err);
    if (rc == BERTH_OK && machine) {
        berth_foreign_machine_tell(b, machine, "execId", x->id);
        ++*left;
    }
    *lost = rc == BERTH_OK && !machine;
    return rc;
}

static bool add_label(struct berth_list *labels, struct berth_arena *arena, const char *exec_id)
{
    return berth_list_add(labels, arena, berth_arena_printf(arena, "BERTH_EXEC_ID=%s", exec_id));
}

/* Adds the NULL that ends a list of labels. Returns an error when the list lacks some. */
static int close_labels(struct berth_list *labels, struct berth_arena *arena,
                        struct berth_error *err)
{
    (void)berth_list_add(labels, arena, NULL);
    return berth_arena_check(arena, err);
}

static void log_processes(struct berth *b, const char *event, int count)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", count);
    if (count)
        berth_log_line(&b->log, BERTH_LOG_WARN, event, "processes", number, NULL);
}

int berth_exec_rows_end_labelled(struct berth *b, struct berth_arena *arena,
                                 struct berth_list *labels, struct berth_error *err)
{
    bool some = labels->count > 0;
    int rc = close_labels(labels, arena, err);
    if (rc == BERTH_OK && some)
        log_processes(b, "processes of dead owners ended",
                      berth_orphan_inits_end() +
                          berth_strays_end_orphaned((const char *const *)(void *)labels->items));
    return rc;
}

/* Ends the processes of all lost commands, then writes their rows. */
static int end_lost(struct berth *b, struct berth_arena *arena, const struct berth_list *lost,
                    struct berth_error *err)
{
    struct berth_list labels = {0};
    for (int i = 0; i < lost->count; i++)
        (void)add_label(&labels, arena, ((const struct berth_exec_record *)lost->items[i])->id);
    int rc = berth_exec_rows_end_labelled(b, arena, &labels, err);
    for (int i = 0; rc == BERTH_OK && i < lost->count; i++) {
        const char *id = ((const struct berth_exec_record *)lost->items[i])->id;
        berth_log_line(&b->log, BERTH_LOG_WARN, "command of a dead process ended", "execId", id,
                       NULL);
        rc = berth_store_tx(b->store, tx_lost, (void *)(uintptr_t)id, err);
    }
    return rc;
}

int berth_exec_rows_end_lost(struct berth *b, struct berth_arena *arena, int *left,
                             struct berth_error *err)
{
    struct berth_list open = {0}, lost = {0};
    struct exec_query listing = {.arena = arena, .out = &open};
    berth_exec_journal_recover(b);
    int rc = berth_store_read(b->store, tx_open, &listing, err);
    for (int i = 0; i < open.count; i++) { /* one that cannot be judged now is judged later */
        bool is_lost = false;
        struct berth_error trouble;
        if (judge_open(b, arena, open.items[i], &is_lost, left, &trouble) < 0 && rc == BERTH_OK) {
            rc = trouble.code;
            *err = trouble;
        }
        if (is_lost)
            (void)berth_list_add(&lost, arena, open.items[i]);
    }
    struct berth_error trouble;
    int ended = end_lost(b, arena, &lost, &trouble);
    if (ended < 0 && rc == BERTH_OK)
        *err = trouble;
    return rc < 0 ? rc : ended;
}

int berth_exec_rows_end_overdue(struct berth *b, struct berth_arena *arena, struct berth_error *err)
{
    struct berth_list overdue = {0}, labels = {0};
    struct exec_query listing = {.arena = arena, .out = &overdue};
    int rc = berth_store_read(b->store, tx_overdue, &listing, err);
    for (int i = 0; rc == BERTH_OK && i < overdue.count; i++) {
        const struct berth_exec_record *x = overdue.items[i];
        const char *machine;
        if (x->owner && strcmp(x->owner, berth_node_id(b->node)) == 0)
            continue; /* its end may be queued */
        rc = berth_foreign_machine_of_exec(b, arena, x, &machine, err);
        if (rc == BERTH_OK && !machine)
            (void)add_label(&labels, arena, x->id);
    }
    bool some = labels.count > 0;
    if (rc == BERTH_OK)
        rc = close_labels(&labels, arena, err);
    if (rc == BERTH_OK && some)
        log_processes(b, "processes of ended leases ended",
                      berth_strays_end((const char *const *)(void *)labels.items));
    return rc;
}
