/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check_trial.h - one check under way: its worker, its ids, and the steps that most
 * checks share. A step returns false when the check is over; the trial then says why. */
#ifndef BERTH_PLUGIN_CHECK_TRIAL_H
#define BERTH_PLUGIN_CHECK_TRIAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "plugin/session.h"

#define BERTH_TRIAL_ASK_MS 30000
#define BERTH_TRIAL_QUICK_MS 5000 /* for an answer that does not need a place */
#define BERTH_TRIAL_NO_PLACE "berth-check-no-such-place"

struct berth_trial {
    struct berth_engine *engine;
    const struct berth_json *manifest; /* as the package has it */
    struct berth_worker_spec spec;
    struct berth_arena arena;
    struct berth_buf json; /* the params that are being written */
    const char *driver_key, *config_json;
    struct berth_id company, environment, run, lease, workspace;
    struct berth_session *s;    /* NULL: the worker is not started */
    struct berth_json *methods; /* supportedMethods of the worker */
    const char *place;          /* the providerLeaseId that was acquired, or NULL */
    const char *metadata;       /* the metadata that came with it */
    bool skipped;
    char detail[800]; /* why the check is over */
};

/* The checks; check.c lists them with their names. Each returns true when the worker passed. */
typedef bool berth_trial_fn(struct berth_trial *t);
/* check_worker.c */
berth_trial_fn berth_check_initialize, berth_check_health, berth_check_unknown_method,
    berth_check_garbage, berth_check_long_line, berth_check_validate, berth_check_unknown_keys,
    berth_check_probe, berth_check_kill, berth_check_shutdown, berth_check_hang_up,
    berth_check_clean_stdout;
/* check_place.c */
berth_trial_fn berth_check_lease, berth_check_double_release, berth_check_double_destroy,
    berth_check_resume, berth_check_stale_resume, berth_check_realize, berth_check_find,
    berth_check_same_lease;
/* check_command.c */
berth_trial_fn berth_check_execute, berth_check_text, berth_check_stream, berth_check_timeout,
    berth_check_missing_program, berth_check_unknown_lease, berth_check_concurrency,
    berth_check_cancel;

/* Destroys the place that a failed check left, stops the worker, and frees what the trial holds. */
void berth_trial_clear(struct berth_trial *t);

/* Keeps the first reason why the check failed. Returns false. */
bool berth_trial_wrong(struct berth_trial *t, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Marks the check as skipped. Returns false. */
bool berth_trial_skip(struct berth_trial *t, const char *why);
bool berth_trial_is_error(const struct berth_session_reply *r);
/* Fails unless the worker answered with a result. */
bool berth_trial_answered(struct berth_trial *t, const char *what,
                          const struct berth_session_reply *r);

/* Begin params: an object, or one with the members that every environment call has. Texts of others
 * go into JSON only by the writer. */
struct berth_json_writer berth_trial_open_json(struct berth_trial *t);
struct berth_json_writer berth_trial_open_params(struct berth_trial *t);
/* Writes the member "lease" for the place. */
void berth_trial_put_lease(struct berth_trial *t, struct berth_json_writer *w);
/* Ends params. Returns them in the arena, or NULL when memory ran out; so do the next two. */
const char *berth_trial_close_json(struct berth_trial *t, struct berth_json_writer *w);
const char *berth_trial_params(struct berth_trial *t);
/* Writes the agent and the execution workspace, which acquire and resume carry. */
void berth_trial_put_ids(struct berth_trial *t, struct berth_json_writer *w);
const char *berth_trial_place_params(struct berth_trial *t, const char *place);

/* Starts the worker and initializes it. */
bool berth_trial_start(struct berth_trial *t);
void berth_trial_stop(struct berth_trial *t);
/* Returns whether the worker lists the method. */
bool berth_trial_has(const struct berth_trial *t, const char *method);
bool berth_trial_acquire(struct berth_trial *t);
bool berth_trial_begin(struct berth_trial *t); /* starts, then acquires */
/* Calls a method with the params of the place. */
bool berth_trial_give_back(struct berth_trial *t, const char *method);
/* Destroys the place, or releases it when the worker cannot destroy. */
bool berth_trial_finish(struct berth_trial *t);
/* Sets *found to whether environmentFindLeases lists the place. */
bool berth_trial_find_place(struct berth_trial *t, bool *found);

/* A command to run in the place. */
struct berth_trial_command {
    const char *script;           /* for sh, or NULL */
    const char *program;          /* used without `script`; it gets no arguments */
    const char *variable, *value; /* for its environment, or NULL */
    const char *input;            /* its stdin, or NULL */
    int64_t timeout_ms;           /* 0: more than it needs */
};
struct berth_session_question *berth_trial_begin_execute(struct berth_trial *t,
                                                         const struct berth_trial_command *c,
                                                         const char *invocation_json);
struct berth_session_reply berth_trial_execute(struct berth_trial *t,
                                               const struct berth_trial_command *c);
#endif
