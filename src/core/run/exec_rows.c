/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_rows.c - see record.h. */
#include "core/run/exec_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "core/run/exec.h"
#include "core/lease/node.h"
#include "core/run/exec_journal.h"
#include "os/journal.h"
#include "os/pool.h"
#include "os/strays.h"
#include "store/lease.h"
#include "store/store.h"

#define WAIT_MS 20
#define RETRY_MS 1000 /* while the store cannot be reached */
#define LINE_BYTES_MAX ((size_t)1024 * 1024)

#define NAME_SIZE (2 * BERTH_ID_SIZE)

/* Of that node. The directory is the caller's. */
static int find_journal(const struct berth *b, const char *node_id, char **directory,
                        char name[NAME_SIZE], struct berth_error *err)
{
    (void)snprintf(name, NAME_SIZE, "%s.%s", b->store_id, node_id);
    return berth_directory(b, "journal", directory, err);
}

/* --- rows --- */

/* A command is a use of its lease. */
static int tx_write(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (const struct berth_exec_note *note = ctx; note && rc == BERTH_OK; note = note->next) {
        const struct berth_exec_record *x = &note->record;
        rc = berth_exec_put(db, x, err);
        if (rc == BERTH_OK)
            rc = berth_lease_touch(db, x->lease_id,
                                   x->ended ? x->end.finished_at_ms : x->end.started_at_ms, err);
    }
    return rc;
}

/* The store will not have this row, now or later. */
static bool is_refusal(int rc)
{
    return rc == BERTH_E_CONFLICT || rc == BERTH_E_INVALID;
}

/* A failure: some are not written, and may be later. One that is refused is in nobody's way. */
static int write_notes(struct berth *b, struct berth_exec_note *notes, struct berth_error *err)
{
    int rc = notes ? berth_store_tx(b->store, tx_write, notes, err) : BERTH_OK;
    if (!is_refusal(rc))
        return rc;
    rc = BERTH_OK;
    for (const struct berth_exec_note *note = notes; note && rc == BERTH_OK; note = note->next) {
        struct berth_exec_note one = *note;
        one.next = NULL;
        rc = berth_store_tx(b->store, tx_write, &one, err);
        if (!is_refusal(rc))
            continue;
        berth_log_line(&b->log, BERTH_LOG_WARN, "command not recorded", "execId", note->record.id,
                       "error", err->message, NULL);
        rc = BERTH_OK;
    }
    return rc;
}

/* --- the queue, and the journal beside it: strays_lock is held --- */

static int open_journal(struct berth *b, struct berth_error *err)
{
    auto_free char *directory = NULL;
    char name[NAME_SIZE];
    if (b->journal)
        return BERTH_OK;
    int rc = find_journal(b, berth_node_id(b->node), &directory, name, err);
    return rc < 0 ? rc : berth_journal_open(directory, name, &b->journal, err);
}

static int put_line(struct berth *b, const struct berth_exec_record *record,
                    struct berth_error *err)
{
    auto_buf line = BERTH_BUF_INIT(LINE_BYTES_MAX);
    berth_exec_note_write(&line, record);
    int rc = berth_buf_check(&line, "The record of a command", err);
    return rc < 0 ? rc : berth_journal_put(b->journal, line.data, line.len, err);
}

static int put_void(struct berth *b, const char *id, struct berth_error *err)
{
    auto_buf line = BERTH_BUF_INIT(LINE_BYTES_MAX);
    berth_exec_note_write_void(&line, id);
    int rc = berth_buf_check(&line, "The record of a command", err);
    return rc < 0 ? rc : berth_journal_put_to_both(b->journal, line.data, line.len, err);
}

static void log_unwritten(struct berth *b, const char *id, const struct berth_error *err)
{
    berth_log_line(&b->log, BERTH_LOG_WARN, "journal not written", "execId", id, "error",
                   err->message, NULL);
}

static void append(struct berth *b, struct berth_exec_note *note)
{
    *b->notes_end = note;
    b->notes_end = &note->next;
}

static struct berth_exec_note *find(struct berth *b, const char *id)
{
    struct berth_exec_note *note = b->notes;
    while (note && strcmp(note->record.id, id) != 0)
        note = note->next;
    return note;
}

/* A short command's beginning need not be written when its end is. */
static void drop(struct berth *b, const char *id)
{
    struct berth_exec_note **at = &b->notes, *note = find(b, id);
    if (!note)
        return;
    while (*at != note)
        at = &(*at)->next;
    *at = note->next;
    if (!*at)
        b->notes_end = at;
    berth_exec_note_free(note);
}

static void flush_job(void *ctx);

static void set_timer(struct berth *b, int64_t wait_ms)
{
    struct berth_error ignored;
    if (!b->notes_set) /* without a timer the next one, or the end, writes it */
        b->notes_set = berth_pool_after(b->pool, wait_ms, flush_job, b, &ignored) == BERTH_OK;
}

/* Those that get a row. What is put from now on goes to the journal's other file. */
static struct berth_exec_note *take(struct berth *b)
{
    struct berth_exec_note *taken = NULL, **end = &taken, *note = b->notes;
    b->notes = NULL;
    b->notes_end = &b->notes;
    for (struct berth_exec_note *next; note; note = next) {
        next = note->next;
        note->next = NULL;
        if (note->intended) {
            append(b, note);
        } else {
            *end = note;
            end = &note->next;
        }
    }
    if (b->journal && (taken || berth_journal_is_long(b->journal)))
        (void)berth_journal_turn(b->journal);
    return taken;
}

/* What was taken is written. The lines of what stays are put again first. */
static void clear_journal(struct berth *b)
{
    struct berth_error err;
    for (const struct berth_exec_note *note = b->notes; note; note = note->next)
        if (put_line(b, &note->record, &err) < 0) {
            log_unwritten(b, note->record.id, &err);
            return;
        }
    berth_journal_clear(b->journal);
}

static void put_back(struct berth *b, struct berth_exec_note *notes)
{
    struct berth_exec_note **end = &notes;
    while (*end)
        end = &(*end)->next;
    *end = b->notes;
    if (!b->notes)
        b->notes_end = end;
    b->notes = notes;
}

/* --- from outside --- */

void berth_exec_rows_flush(struct berth *b)
{
    struct berth_error err;
    pthread_mutex_lock(&b->notes_lock);
    pthread_mutex_lock(&b->strays_lock);
    struct berth_exec_note *notes = take(b);
    pthread_mutex_unlock(&b->strays_lock);
    int rc = write_notes(b, notes, &err);
    if (rc < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "commands not recorded yet", "error", err.message,
                       NULL);
    pthread_mutex_lock(&b->strays_lock);
    if (rc < 0)
        put_back(b, notes);
    else if (b->journal && berth_journal_owes(b->journal))
        clear_journal(b);
    pthread_mutex_unlock(&b->strays_lock);
    if (rc == BERTH_OK)
        berth_exec_notes_free(notes);
    pthread_mutex_unlock(&b->notes_lock);
}

static void flush_job(void *ctx)
{
    struct berth *b = ctx;
    pthread_mutex_lock(&b->strays_lock);
    b->notes_set = false;
    pthread_mutex_unlock(&b->strays_lock);
    berth_exec_rows_flush(b);
    pthread_mutex_lock(&b->strays_lock);
    const struct berth_exec_note *note = b->notes;
    while (note && note->intended)
        note = note->next;
    if (note)
        set_timer(b, RETRY_MS);
    pthread_mutex_unlock(&b->strays_lock);
}

int berth_exec_rows_begin(struct berth *b, const struct berth_exec_record *record,
                          struct berth_error *err)
{
    struct berth_exec_note *note = berth_exec_note_new(record);
    if (!note)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    note->intended = true;
    pthread_mutex_lock(&b->strays_lock);
    int rc = open_journal(b, err);
    if (rc == BERTH_OK)
        rc = put_line(b, record, err);
    if (rc == BERTH_OK)
        append(b, note);
    pthread_mutex_unlock(&b->strays_lock);
    if (rc < 0)
        berth_exec_note_free(note);
    return rc;
}

void berth_exec_rows_started(struct berth *b, const char *id)
{
    pthread_mutex_lock(&b->strays_lock);
    struct berth_exec_note *note = find(b, id);
    if (note) { /* else its end is on its way, and says more */
        note->intended = false;
        set_timer(b, WAIT_MS);
    }
    pthread_mutex_unlock(&b->strays_lock);
}

void berth_exec_rows_void(struct berth *b, const char *id)
{
    struct berth_error err;
    pthread_mutex_lock(&b->strays_lock);
    drop(b, id);
    if (put_void(b, id, &err) < 0)
        log_unwritten(b, id, &err);
    if (berth_journal_is_long(b->journal))
        set_timer(b, WAIT_MS);
    pthread_mutex_unlock(&b->strays_lock);
}

void berth_exec_rows_end(struct berth *b, const struct berth_exec_record *record)
{
    struct berth_exec_note *note = berth_exec_note_new(record);
    struct berth_error err;
    pthread_mutex_lock(&b->strays_lock);
    if (put_line(b, record, &err) < 0)
        log_unwritten(b, record->id, &err);
    if (note) {
        drop(b, record->id);
        append(b, note);
        set_timer(b, WAIT_MS);
    } else {
        berth_log_line(&b->log, BERTH_LOG_WARN, "command not recorded", "execId", record->id, NULL);
    }
    pthread_mutex_unlock(&b->strays_lock);
}

void berth_exec_rows_close(struct berth *b)
{
    berth_exec_rows_flush(b);
    berth_journal_close(b->journal, b->notes != NULL);
    berth_exec_notes_free(b->notes);
}

/* --- journals of killed processes --- */

static int on_journal(void *ctx, const char *text, size_t len, struct berth_error *err)
{
    struct berth *b = ctx;
    struct berth_exec_note *notes;
    int unread;
    int rc = berth_exec_notes_read(text, len, &notes, &unread, err);
    if (rc < 0)
        return rc;
    char count[16];
    (void)snprintf(count, sizeof count, "%d", unread);
    if (unread)
        berth_log_line(&b->log, BERTH_LOG_WARN, "lines of a journal cannot be read", "count", count,
                       NULL);
    rc = write_notes(b, notes, err);
    berth_exec_notes_free(notes);
    return rc;
}

void berth_exec_rows_recover(struct berth *b)
{
    struct berth_error err;
    auto_free char *directory = NULL;
    char prefix[BERTH_ID_SIZE + 1];
    (void)snprintf(prefix, sizeof prefix, "%s.", b->store_id);
    int rc = berth_directory(b, "journal", &directory, &err);
    if (rc == BERTH_OK)
        rc = berth_journal_recover(directory, prefix, on_journal, b, &err);
    if (rc < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "journal not recovered", "error", err.message,
                       NULL);
}

/* --- reading --- */

struct listing {
    struct berth_arena *arena;
    const char *run_id, *id; /* id: of the one that is looked for, or beside which */
    int limit;
    struct berth_list *out;
    struct berth_exec_record *record;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct listing *listing = ctx;
    return berth_exec_load(db, listing->arena, listing->id, &listing->record, err);
}

int berth_exec_rows_get(struct berth *b, struct berth_arena *arena, const char *id,
                        struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_id parsed;
    int rc = berth_id_parse(id, "Exec", &parsed, err);
    if (rc < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Exec not found");
    struct listing listing = {.arena = arena, .id = parsed.text};
    berth_exec_rows_flush(b);
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
    return berth_exec_select(db, listing->arena, listing->run_id, listing->id, listing->limit,
                             listing->out, err);
}

int berth_exec_rows_list(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *before, int limit, struct berth_list *out,
                         struct berth_error *err)
{
    struct listing listing = {
        .arena = arena, .run_id = run_id, .id = before, .limit = limit, .out = out};
    berth_exec_rows_flush(b);
    return berth_store_read(b->store, tx_list, &listing, err);
}

static int tx_next(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct listing *listing = ctx;
    return berth_exec_load_next(db, listing->arena, listing->run_id, listing->id, &listing->record,
                                err);
}

int berth_exec_rows_next(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out, struct berth_error *err)
{
    struct listing listing = {.arena = arena, .run_id = run_id, .id = after};
    berth_exec_rows_flush(b);
    int rc = berth_store_read(b->store, tx_next, &listing, err);
    *out = listing.record;
    return rc;
}

void berth_exec_rows_json(struct berth_json_writer *w, const struct berth_exec_record *x)
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
    berth_exec_rows_flush(b); /* it may be one of ours, whose end is queued */
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

/* Its journal may know more of it, and is not read yet: somebody else is at it, or could not. */
static int is_untold(struct berth *b, const struct berth_exec_record *x, bool *out,
                     struct berth_error *err)
{
    auto_free char *directory = NULL;
    char name[NAME_SIZE];
    int rc = find_journal(b, x->owner, &directory, name, err);
    *out = rc == BERTH_OK && berth_journal_is_left(directory, name);
    return rc;
}

int berth_exec_rows_end_lost(struct berth *b, struct berth_arena *arena, struct berth_error *err)
{
    struct berth_list open = {0};
    struct listing listing = {.arena = arena, .out = &open};
    berth_exec_rows_recover(b);
    int rc = berth_store_read(b->store, tx_open, &listing, err);
    for (int i = 0; rc == BERTH_OK && i < open.count; i++) {
        const struct berth_exec_record *x = open.items[i];
        bool at_work, untold = false;
        rc = berth_node_at_work(b->node, x->owner, x->id, 0, &at_work, err);
        if (rc == BERTH_OK && !at_work && x->owner && strcmp(x->owner, berth_node_id(b->node)) != 0)
            rc = is_untold(b, x, &untold, err);
        if (rc == BERTH_OK && !at_work && !untold)
            rc = end_one(b, arena, x->id, err);
    }
    return rc;
}
