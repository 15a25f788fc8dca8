/* SPDX-License-Identifier: Apache-2.0
 * src/store/exec.h - commands as rows: what ran where, and how it ended. */
#ifndef BERTH_STORE_EXEC_H
#define BERTH_STORE_EXEC_H

#include <stddef.h>

#include <berth/exec.h>

#include "store/row.h"

extern const struct berth_enum berth_end_causes;

struct berth_exec_record {
    const char *id, *company_id, *environment_id, *lease_id;
    const char *run_id;  /* or NULL */
    const char *command; /* with secrets masked */
    const char *cwd;     /* or NULL */
    const char *owner;   /* the node that runs it */
    bool ended, truncated;
    struct berth_exec_end end; /* before the end only started_at_ms is set */
};

/* The fields of a record, in the order of the table's columns: what copies, stores, prints or reads
 * a record goes by these two tables. `cause` is apart: it is a word, and NULL before the end. */
struct berth_exec_text {
    const char *key; /* in JSON */
    size_t offset;
};
struct berth_exec_number {
    const char *key;
    size_t offset;
    char type; /* 'i' int, 'u' uint64_t, 't' int64_t time in ms, 'b' bool */
};
#define BERTH_EXEC_TEXTS 8
#define BERTH_EXEC_NUMBERS 7
extern const struct berth_exec_text berth_exec_texts[BERTH_EXEC_TEXTS];
extern const struct berth_exec_number berth_exec_numbers[BERTH_EXEC_NUMBERS];
const char **berth_exec_text_at(struct berth_exec_record *record,
                                const struct berth_exec_text *field);
int64_t berth_exec_number_get(const struct berth_exec_record *record,
                              const struct berth_exec_number *field);
void berth_exec_number_set(struct berth_exec_record *record, const struct berth_exec_number *field,
                           int64_t value);

/* Inserts or updates the row. A record without an end does not change a row that is there. */
int berth_exec_put(struct berth_db *db, const struct berth_exec_record *record,
                   struct berth_error *err);
/* *out is NULL when there is no such row. */
int berth_exec_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                    struct berth_exec_record **out, struct berth_error *err);
/* Lists struct berth_exec_record, newest first, after the one with the id `before`; NULL starts
 * with the newest. */
int berth_exec_select(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                      const char *before, int limit, struct berth_list *out,
                      struct berth_error *err);
/* Loads the exec that follows `after`, or the first one when `after` is "". *out is NULL when there
 * is no such row. */
int berth_exec_load_next(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out,
                         struct berth_error *err);
/* Lists the execs of all companies whose end is not written. */
int berth_exec_select_open(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                           struct berth_error *err);
/* Counts those of a lease that other nodes run. */
int berth_exec_count_open(struct berth_db *db, const char *lease_id, const char *but_node,
                          int64_t *out, struct berth_error *err);
/* Lists those of them whose lease has ended before this time. */
int berth_exec_select_overdue(struct berth_db *db, struct berth_arena *arena, int64_t before_ms,
                              struct berth_list *out, struct berth_error *err);
/* Ends an exec as lost. An end that is already written stays. */
int berth_exec_set_lost(struct berth_db *db, const char *id, int64_t now_ms,
                        struct berth_error *err);
#endif
