/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_note.c - see exec_note.h. */
#include "core/run/exec_note.h"

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
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++) {
        const char **text = berth_exec_text_at(&note->record, &berth_exec_texts[i]);
        *text = berth_arena_strdup(arena, *text);
    }
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

static const char cause_key[] = "cause", void_key[] = "void";

static void note_put_number(struct berth_json_writer *w, const struct berth_exec_record *x,
                            const struct berth_exec_number *field)
{
    int64_t value = berth_exec_number_get(x, field);
    if (field->type == 'b')
        berth_json_put_bool(w, field->key, value != 0);
    else
        berth_json_put_int(w, field->key, value);
}

void berth_exec_note_write(struct berth_buf *line, const struct berth_exec_record *record)
{
    struct berth_exec_record x = *record;
    struct berth_json_writer w = {.buf = line};
    berth_json_open(&w, '{');
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++)
        berth_json_put_str(&w, berth_exec_texts[i].key,
                           *berth_exec_text_at(&x, &berth_exec_texts[i]));
    if (x.ended)
        berth_json_put_str(&w, cause_key, berth_end_cause_name(x.end.cause));
    for (int i = 0; i < BERTH_EXEC_NUMBERS; i++)
        note_put_number(&w, &x, &berth_exec_numbers[i]);
    berth_json_close(&w, '}');
    berth_buf_puts(line, "\n");
}

void berth_exec_note_write_void(struct berth_buf *line, const char *id)
{
    struct berth_json_writer w = {.buf = line};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, void_key, id);
    berth_json_close(&w, '}');
    berth_buf_puts(line, "\n");
}

static const char *note_text(const struct berth_json *line, const char *key)
{
    return berth_json_str(berth_json_get(line, key));
}

/* Returns false when the line is not a record. */
static bool note_read(const struct berth_json *line, struct berth_exec_record *x)
{
    const char *cause = note_text(line, cause_key);
    int found = cause ? berth_enum_find(&berth_end_causes, cause) : BERTH_END_EXITED;
    if (found < 0)
        return false;
    *x = (struct berth_exec_record){.ended = cause != NULL,
                                    .end = {.cause = (enum berth_end_cause)found}};
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++)
        *berth_exec_text_at(x, &berth_exec_texts[i]) = note_text(line, berth_exec_texts[i].key);
    for (int i = 0; i < BERTH_EXEC_NUMBERS; i++) {
        const struct berth_json *value = berth_json_get(line, berth_exec_numbers[i].key);
        berth_exec_number_set(x, &berth_exec_numbers[i],
                              berth_json_true(value) ? 1 : berth_json_int(value));
    }
    return x->id && berth_id_valid(x->id) && x->company_id && x->environment_id && x->lease_id &&
           x->command && x->owner;
}

/* Removes the notes of the exec. Returns the end of the list. */
static struct berth_exec_note **notes_remove(struct berth_exec_note **at, const char *id)
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

struct notes_reader {
    struct berth_exec_note *first, **end;
    int unread;
};

static int notes_read_line(struct notes_reader *r, const char *text, size_t len,
                           struct berth_error *err)
{
    struct berth_exec_record record;
    auto_json *line = NULL;
    int rc = berth_json_parse(text, len, BERTH_JSON_OURS, &line, err);
    if (rc == BERTH_E_NO_MEMORY) /* the line itself may be good */
        return rc;
    const char *never = rc < 0 ? NULL : note_text(line, void_key);
    if (never) {
        r->end = notes_remove(&r->first, never);
        return BERTH_OK;
    }
    if (rc < 0 || !note_read(line, &record)) {
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
    struct notes_reader r = {.end = &r.first};
    int rc = BERTH_OK;
    for (const char *stop = text + len; text < stop && rc == BERTH_OK;) {
        const char *newline = memchr(text, '\n', (size_t)(stop - text));
        const char *till = newline ? newline : stop;
        rc = notes_read_line(&r, text, (size_t)(till - text), err);
        text = till + 1;
    }
    *unread = r.unread;
    *out = rc < 0 ? NULL : r.first;
    if (rc < 0)
        berth_exec_notes_free(r.first);
    return rc;
}
