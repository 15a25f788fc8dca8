/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_journal.c - see note.h. */
#include "core/run/exec_journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"

struct berth_exec_note *berth_exec_note_new(const struct berth_exec_record *from)
{
    struct berth_exec_note *note = calloc(1, sizeof *note);
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
        berth_exec_note_free(note);
        return NULL;
    }
    return note;
}

void berth_exec_note_free(struct berth_exec_note *note)
{
    berth_arena_clear(&note->arena);
    free(note);
}

void berth_exec_notes_free(struct berth_exec_note *first)
{
    for (struct berth_exec_note *next; first; first = next) {
        next = first->next;
        berth_exec_note_free(first);
    }
}

/* --- as lines --- */

void berth_exec_note_write(struct berth_buf *line, const struct berth_exec_record *x)
{
    struct berth_json_writer w = {.buf = line};
    const struct berth_exec_end *end = &x->end;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "id", x->id);
    berth_json_put_str(&w, "companyId", x->company_id);
    berth_json_put_str(&w, "environmentId", x->environment_id);
    berth_json_put_str(&w, "leaseId", x->lease_id);
    berth_json_put_str(&w, "runId", x->run_id);
    berth_json_put_str(&w, "command", x->command);
    berth_json_put_str(&w, "cwd", x->cwd);
    berth_json_put_str(&w, "owner", x->owner);
    berth_json_put_int(&w, "startedAt", end->started_at_ms);
    if (x->ended) {
        berth_json_put_str(&w, "cause", berth_end_cause_name(end->cause));
        berth_json_put_int(&w, "exitCode", end->exit_code);
        berth_json_put_int(&w, "signal", end->signal);
        berth_json_put_int(&w, "stdoutBytes", (int64_t)end->bytes[BERTH_STDOUT]);
        berth_json_put_int(&w, "stderrBytes", (int64_t)end->bytes[BERTH_STDERR]);
        berth_json_put_bool(&w, "truncated", x->truncated);
        berth_json_put_int(&w, "finishedAt", end->finished_at_ms);
    }
    berth_json_close(&w, '}');
    berth_buf_puts(line, "\n");
}

void berth_exec_note_write_void(struct berth_buf *line, const char *id)
{
    struct berth_json_writer w = {.buf = line};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "void", id);
    berth_json_close(&w, '}');
    berth_buf_puts(line, "\n");
}

static const char *text_of(const struct berth_json *line, const char *key)
{
    return berth_json_str(berth_json_get(line, key));
}

static int64_t number_of(const struct berth_json *line, const char *key)
{
    return berth_json_int(berth_json_get(line, key));
}

/* False: it is none. */
static bool read_record(const struct berth_json *line, struct berth_exec_record *x)
{
    const char *cause = text_of(line, "cause");
    int found = cause ? berth_enum_find(&berth_end_causes, cause) : 0;
    *x = (struct berth_exec_record){.id = text_of(line, "id"),
                                    .company_id = text_of(line, "companyId"),
                                    .environment_id = text_of(line, "environmentId"),
                                    .lease_id = text_of(line, "leaseId"),
                                    .run_id = text_of(line, "runId"),
                                    .command = text_of(line, "command"),
                                    .cwd = text_of(line, "cwd"),
                                    .owner = text_of(line, "owner"),
                                    .ended = cause != NULL,
                                    .truncated = berth_json_true(berth_json_get(line, "truncated")),
                                    .end = {.cause = (enum berth_end_cause)(found < 0 ? 0 : found),
                                            .exit_code = (int)number_of(line, "exitCode"),
                                            .signal = (int)number_of(line, "signal"),
                                            .bytes = {(uint64_t)number_of(line, "stdoutBytes"),
                                                      (uint64_t)number_of(line, "stderrBytes")},
                                            .started_at_ms = number_of(line, "startedAt"),
                                            .finished_at_ms = number_of(line, "finishedAt")}};
    return found >= 0 && x->id && berth_id_valid(x->id) && x->company_id && x->environment_id &&
           x->lease_id && x->command && x->owner;
}

/* Where the list ends then. */
static struct berth_exec_note **remove_all(struct berth_exec_note **at, const char *id)
{
    while (*at) {
        struct berth_exec_note *note = *at;
        if (strcmp(note->record.id, id) != 0) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        berth_exec_note_free(note);
    }
    return at;
}

struct reading {
    struct berth_exec_note *first, **end;
    int unread;
};

static int read_line(struct reading *r, const char *text, size_t len, struct berth_error *err)
{
    struct berth_exec_record record;
    auto_json *line = NULL;
    int rc = berth_json_parse(text, len, BERTH_JSON_OURS, &line, err);
    if (rc == BERTH_E_NO_MEMORY) /* it will be readable another time */
        return rc;
    const char *never = rc < 0 ? NULL : text_of(line, "void");
    if (never) {
        r->end = remove_all(&r->first, never);
        return BERTH_OK;
    }
    if (rc < 0 || !read_record(line, &record)) {
        r->unread++;
        return BERTH_OK;
    }
    struct berth_exec_note *note = berth_exec_note_new(&record);
    if (!note)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
    *r->end = note;
    r->end = &note->next;
    return BERTH_OK;
}

int berth_exec_notes_read(const char *text, size_t len, struct berth_exec_note **out, int *unread,
                          struct berth_error *err)
{
    struct reading r = {.end = &r.first};
    int rc = BERTH_OK;
    for (const char *stop = text + len; text < stop && rc == BERTH_OK;) {
        const char *newline = memchr(text, '\n', (size_t)(stop - text));
        const char *till = newline ? newline : stop;
        rc = read_line(&r, text, (size_t)(till - text), err);
        text = till + 1;
    }
    *unread = r.unread;
    *out = rc < 0 ? NULL : r.first;
    if (rc < 0)
        berth_exec_notes_free(r.first);
    return rc;
}
