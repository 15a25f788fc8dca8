/* SPDX-License-Identifier: Apache-2.0
 * src/store/exec.h - commands as rows: what ran where, and how it ended. */
#ifndef BERTH_STORE_EXEC_H
#define BERTH_STORE_EXEC_H

#include <berth/exec.h>

#include "store/row.h"

extern const struct berth_enum berth_end_causes;

struct berth_exec_record {
    const char *id, *company_id, *environment_id, *lease_id, *run_id; /* run_id: or NULL */
    const char *command;                                              /* secrets taken out */
    const char *cwd;                                                  /* or NULL */
    const char *owner;                                                /* the node that runs it */
    bool ended, truncated;
    struct berth_exec_end end; /* started_at_ms also before that */
};

/* The row as it is now, whatever was there: what is written late loses nothing. */
int berth_exec_put(struct berth_db *db, const struct berth_exec_record *record,
                   struct berth_error *err);
/* *out is NULL when there is none. */
int berth_exec_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                    struct berth_exec_record **out, struct berth_error *err);
/* A list of struct berth_exec_record, newest first, from behind the one of the id `before`, or
 * NULL. */
int berth_exec_select(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                      const char *before, int limit, struct berth_list *out,
                      struct berth_error *err);
/* The first that was started after the one of this id, or the first of all for "". *out is NULL
 * when there is none. */
int berth_exec_load_next(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out,
                         struct berth_error *err);
/* Those whose end is not written, of all companies. */
int berth_exec_select_open(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                           struct berth_error *err);
/* One whose end nobody will write; an end that is there stays. */
int berth_exec_set_lost(struct berth_db *db, const char *id, int64_t now_ms,
                        struct berth_error *err);
#endif
