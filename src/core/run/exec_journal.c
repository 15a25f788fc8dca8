/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_journal.c - see exec_journal.h. */
#include "core/run/exec_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "core/lease/node.h"
#include "core/lock_order.h"
#include "core/paths.h"
#include "core/run/exec_note.h"
#include "os/journal.h"
#include "os/pool.h"
#include "store/lease.h"
#include "store/store.h"

#define WAIT_MS 20
#define RETRY_MS 1000 /* while the store cannot be reached */
#define LINE_BYTES_MAX ((size_t)1024 * 1024)
#define FILE_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define NAME_SIZE (2 * BERTH_ID_SIZE)

struct berth_exec_journal {
    struct berth *b;
    struct berth_lock writer; /* one thread writes rows at a time; readers wait for it */
    struct berth_lock lock;   /* of everything below */
    struct berth_exec_note *first, **end; /* to be written */
    struct berth_journal *file;           /* has at least the lines of all notes; NULL until used */
    bool timed;                           /* a flush is due */
};

/* Gives the journal of that node its name. The caller owns the directory. */
static int journal_find(const struct berth *b, const char *node_id, char **directory,
                        char name[NAME_SIZE], struct berth_error *err)
{
    (void)snprintf(name, NAME_SIZE, "%s.%s", b->store_id, node_id);
    return berth_directory(b, "journal", directory, err);
}

int berth_exec_journal_new(struct berth *b, struct berth_exec_journal **out,
                           struct berth_error *err)
{
    struct berth_exec_journal *j = calloc(1, sizeof *j);
    if (!j)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    j->b = b;
    j->end = &j->first;
    berth_lock_init(&j->writer, BERTH_RANK_EXEC_WRITER);
    berth_lock_init(&j->lock, BERTH_RANK_EXEC_JOURNAL);
    *out = j;
    return BERTH_OK;
}

void berth_exec_journal_free(struct berth_exec_journal *j)
{
    if (!j)
        return;
    struct berth_error ignored; /* it is logged, and the file has what is left */
    if (j->first)
        (void)berth_exec_journal_flush(j->b, &ignored);
    berth_journal_close(j->file, j->first != NULL);
    berth_exec_notes_free(j->first);
    berth_lock_destroy(&j->writer);
    berth_lock_destroy(&j->lock);
    free(j);
}

/* --- rows --- */

/* Writes the rows of all notes. A command also counts as a use of its lease. */
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

/* Returns whether the store will never take this row. */
static bool is_refusal(int rc)
{
    return rc == BERTH_E_CONFLICT || rc == BERTH_E_INVALID;
}

/* Returns an error when some notes could not be written; they may be later. A note that the store
 * refuses is dropped, so that it does not block the others. */
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

/* --- the queue and its file, with the lock held --- */

static int journal_open(struct berth_exec_journal *j, struct berth_error *err)
{
    auto_free char *directory = NULL;
    char name[NAME_SIZE];
    if (j->file)
        return BERTH_OK;
    int rc = journal_find(j->b, berth_node_id(j->b->node), &directory, name, err);
    return rc < 0 ? rc : berth_journal_open(directory, name, &j->file, err);
}

static int journal_put_line(struct berth_exec_journal *j, struct berth_buf *line,
                            struct berth_error *err)
{
    int rc = berth_buf_check(line, "The record of a command", err);
    return rc < 0 ? rc : berth_journal_put(j->file, line->data, line->len, err);
}

static int journal_put(struct berth_exec_journal *j, const struct berth_exec_record *record,
                       struct berth_error *err)
{
    auto_buf line = BERTH_BUF_INIT(LINE_BYTES_MAX);
    berth_exec_note_write(&line, record);
    return journal_put_line(j, &line, err);
}

static int journal_put_void(struct berth_exec_journal *j, const char *id, struct berth_error *err)
{
    auto_buf line = BERTH_BUF_INIT(LINE_BYTES_MAX);
    berth_exec_note_write_void(&line, id);
    return journal_put_line(j, &line, err);
}

static void log_unwritten(struct berth *b, const char *id, const struct berth_error *err)
{
    berth_log_line(&b->log, BERTH_LOG_WARN, "journal not written", "execId", id, "error",
                   err->message, NULL);
}

static void queue_append(struct berth_exec_journal *j, struct berth_exec_note *note)
{
    *j->end = note;
    j->end = &note->next;
}

static struct berth_exec_note *queue_find(struct berth_exec_journal *j, const char *id)
{
    struct berth_exec_note *note = j->first;
    while (note && strcmp(note->record.id, id) != 0)
        note = note->next;
    return note;
}

/* Removes the note of an exec: the note of its end replaces the note of its start. */
static void queue_drop(struct berth_exec_journal *j, const char *id)
{
    struct berth_exec_note **at = &j->first, *note = queue_find(j, id);
    if (!note)
        return;
    while (*at != note)
        at = &(*at)->next;
    *at = note->next;
    if (!*at)
        j->end = at;
    berth_exec_note_free(note);
}

static void flush_job(void *ctx);

/* When no timer can be set, the next note or the end of the runtime writes them. */
static void flush_later(struct berth_exec_journal *j, int64_t wait_ms)
{
    struct berth_error ignored;
    if (!j->timed)
        j->timed = berth_pool_after(j->b->pool, wait_ms, flush_job, j, &ignored) == BERTH_OK;
}

/* Takes the notes that get a row out of the queue. */
static struct berth_exec_note *queue_take(struct berth_exec_journal *j)
{
    struct berth_exec_note *taken = NULL, **end = &taken, *note = j->first;
    j->first = NULL;
    j->end = &j->first;
    for (struct berth_exec_note *next; note; note = next) {
        next = note->next;
        note->next = NULL;
        if (note->intended) {
            queue_append(j, note);
        } else {
            *end = note;
            end = &note->next;
        }
    }
    return taken;
}

static void queue_put_back(struct berth_exec_journal *j, struct berth_exec_note *notes)
{
    struct berth_exec_note **end = &notes;
    while (*end)
        end = &(*end)->next;
    *end = j->first;
    if (!j->first)
        j->end = end;
    j->first = notes;
}

/* Removes the lines of written notes from the file. Writing a row twice does no harm, so a file
 * that still holds lines of queued notes is left to grow until it is long. */
static void journal_trim(struct berth_exec_journal *j)
{
    auto_buf text = BERTH_BUF_INIT(FILE_BYTES_MAX);
    struct berth_error err;
    if (!j->file || berth_journal_is_empty(j->file) ||
        (j->first && !berth_journal_is_long(j->file)))
        return;
    for (const struct berth_exec_note *note = j->first; note; note = note->next)
        berth_exec_note_write(&text, &note->record);
    int rc = berth_buf_check(&text, "The journal of commands", &err);
    if (rc == BERTH_OK)
        rc = berth_journal_replace(j->file, text.data, text.len, &err);
    if (rc < 0)
        berth_log_line(&j->b->log, BERTH_LOG_WARN, "journal not trimmed", "error", err.message,
                       NULL);
}

/* --- from outside --- */

int berth_exec_journal_flush(struct berth *b, struct berth_error *err)
{
    struct berth_exec_journal *j = b->exec_journal;
    struct berth_error why;
    berth_lock_take(&j->writer);
    berth_lock_take(&j->lock);
    struct berth_exec_note *notes = queue_take(j);
    berth_lock_drop(&j->lock);
    int rc = write_notes(b, notes, &why);
    if (rc < 0) {
        berth_log_line(&b->log, BERTH_LOG_WARN, "commands not recorded yet", "error", why.message,
                       NULL);
        rc = berth_fail(err, BERTH_E_UNAVAILABLE, "Commands are not recorded yet: %s", why.message);
    }
    berth_lock_take(&j->lock);
    if (rc < 0)
        queue_put_back(j, notes);
    else
        journal_trim(j);
    berth_lock_drop(&j->lock);
    if (rc == BERTH_OK)
        berth_exec_notes_free(notes);
    berth_lock_drop(&j->writer);
    return rc;
}

void berth_exec_journal_hold(struct berth *b)
{
    struct berth_exec_journal *j = b->exec_journal;
    berth_lock_take(&j->lock);
    j->timed = true;
    berth_lock_drop(&j->lock);
}

static void flush_job(void *ctx)
{
    struct berth_exec_journal *j = ctx;
    struct berth_error ignored; /* it is logged */
    berth_lock_take(&j->lock);
    j->timed = false;
    berth_lock_drop(&j->lock);
    (void)berth_exec_journal_flush(j->b, &ignored);
    berth_lock_take(&j->lock);
    const struct berth_exec_note *note = j->first;
    while (note && note->intended)
        note = note->next;
    if (note)
        flush_later(j, RETRY_MS);
    berth_lock_drop(&j->lock);
}

int berth_exec_journal_begin(struct berth *b, const struct berth_exec_record *record,
                             struct berth_error *err)
{
    struct berth_exec_journal *j = b->exec_journal;
    struct berth_exec_note *note = berth_exec_note_new(record);
    if (!note)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    note->intended = true;
    berth_lock_take(&j->lock);
    int rc = journal_open(j, err);
    if (rc == BERTH_OK)
        rc = journal_put(j, record, err);
    if (rc == BERTH_OK)
        queue_append(j, note);
    berth_lock_drop(&j->lock);
    if (rc < 0)
        berth_exec_note_free(note);
    return rc;
}

void berth_exec_journal_started(struct berth *b, const char *id)
{
    struct berth_exec_journal *j = b->exec_journal;
    berth_lock_take(&j->lock);
    struct berth_exec_note *note = queue_find(j, id);
    if (note && note->intended) { /* else the note of its end has replaced it */
        note->intended = false;
        flush_later(j, WAIT_MS);
    }
    berth_lock_drop(&j->lock);
}

void berth_exec_journal_void(struct berth *b, const char *id)
{
    struct berth_exec_journal *j = b->exec_journal;
    struct berth_error err;
    berth_lock_take(&j->lock);
    queue_drop(j, id);
    if (journal_put_void(j, id, &err) < 0)
        log_unwritten(b, id, &err);
    if (berth_journal_is_long(j->file))
        flush_later(j, WAIT_MS);
    berth_lock_drop(&j->lock);
}

void berth_exec_journal_end(struct berth *b, const struct berth_exec_record *record)
{
    struct berth_exec_journal *j = b->exec_journal;
    struct berth_exec_note *note = berth_exec_note_new(record);
    struct berth_error err;
    berth_lock_take(&j->lock);
    if (journal_put(j, record, &err) < 0)
        log_unwritten(b, record->id, &err);
    if (note) {
        queue_drop(j, record->id);
        queue_append(j, note);
        flush_later(j, WAIT_MS);
    } else {
        berth_log_line(&b->log, BERTH_LOG_WARN, "command not recorded", "execId", record->id, NULL);
    }
    berth_lock_drop(&j->lock);
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

void berth_exec_journal_recover(struct berth *b)
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

int berth_exec_journal_is_left(struct berth *b, const char *node_id, bool *out,
                               struct berth_error *err)
{
    auto_free char *directory = NULL;
    char name[NAME_SIZE];
    int rc = journal_find(b, node_id, &directory, name, err);
    *out = rc == BERTH_OK && berth_journal_is_left(directory, name);
    return rc;
}
