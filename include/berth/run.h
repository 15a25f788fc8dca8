/* SPDX-License-Identifier: Apache-2.0
 * include/berth/run.h - what leases belong to: when a run ends, its places are given back. */
#ifndef BERTH_RUN_H
#define BERTH_RUN_H

#include <berth/exec.h>

enum berth_run_status {
    BERTH_RUN_QUEUED,
    BERTH_RUN_RUNNING,
    BERTH_RUN_SCHEDULED_RETRY,
    BERTH_RUN_SUCCEEDED,
    BERTH_RUN_FAILED,
    BERTH_RUN_CANCELLED,
    BERTH_RUN_TIMED_OUT,
};

struct berth_run;
BERTH_API const char *berth_run_id(const struct berth_run *run);
BERTH_API const char *berth_run_company_id(const struct berth_run *run);
BERTH_API enum berth_run_status berth_run_status(const struct berth_run *run);
BERTH_API const char *berth_run_to_json(struct berth_arena *arena, const struct berth_run *run);

/* company_id NULL: the company `default`. The run is `running`. */
BERTH_API int berth_run_create(struct berth *b, struct berth_arena *arena, const char *company_id,
                               struct berth_run **out, struct berth_error *err);
BERTH_API int berth_run_get(struct berth *b, struct berth_arena *arena, const char *id,
                            struct berth_run **out, struct berth_error *err);

struct berth_run_filter {
    const char *company_id; /* NULL: the company `default` */
    int status;             /* -1: any */
    const char *before;     /* the id of a run, the cursor of a page; NULL: from the newest */
    int limit;
};
#define BERTH_RUN_FILTER_INIT                                                                      \
    {                                                                                              \
        .status = -1, .limit = 100                                                                 \
    }
/* A list of struct berth_run, newest first. */
BERTH_API int berth_run_list(struct berth *b, struct berth_arena *arena,
                             const struct berth_run_filter *filter, struct berth_list *out,
                             struct berth_error *err);

struct berth_run_end {
    enum berth_run_status status; /* succeeded, failed, cancelled or timed_out */
    const char *error, *error_code;
    const struct berth_actor *actor;
};
/* Ends the run, then gives back its leases. A run that has ended keeps its end; its leases are
 * given back all the same. *released lists struct berth_lease. */
BERTH_API int berth_run_finish(struct berth *b, struct berth_arena *arena, const char *id,
                               const struct berth_run_end *end, struct berth_list *released,
                               struct berth_error *err);

/* --- the whole of it: a lease, the command, the place given back --- */

enum berth_run_phase {
    BERTH_PHASE_ACQUIRING,
    BERTH_PHASE_REALIZING,
    BERTH_PHASE_PROVISIONING,
    BERTH_PHASE_RUNNING,
    BERTH_PHASE_RELEASING,
};

/* A variable of the command whose value is a secret's: read for this run, on record, and masked in
 * all that is kept or shown of its output. */
struct berth_run_secret {
    const char *variable, *secret_id;
};

struct berth_run_request {
    const char *run_id;            /* that it shall have; NULL: a new one */
    const char *company_id;        /* NULL: the company `default` */
    const char *environment_id;    /* NULL: the company's local one */
    const char *workspace;         /* a directory here, made ready there; NULL: ours */
    int64_t ttl_ms;                /* of the lease; 0: by the settings */
    const char *provision_command; /* run by bash in the place first, unless it is local */
    const struct berth_run_secret *secrets;
    int secret_count;
    struct berth_exec_request command; /* lease_id is not read; cwd NULL: the workspace */
    int cancel_fd;                     /* becomes readable when it is to end; -1: never */
    const struct berth_actor *actor;
    /* Called once, when the run has a row and nothing forbids it to begin; a run that is refused
     * before that is reported by its end alone. Or NULL. */
    void (*on_created)(void *ctx, const struct berth_run *run);
    void (*on_phase)(void *ctx, enum berth_run_phase phase); /* or NULL */
    /* The command runs: from here to on_stopped it may be written to. Or NULL. */
    void (*on_started)(void *ctx, struct berth_exec *exec);
    /* It has ended, and nobody may use the exec when this returns. Or NULL. */
    void (*on_stopped)(void *ctx);
    struct berth_exec_handlers handlers; /* its ctx is that of all */
};
#define BERTH_RUN_REQUEST_INIT                                                                     \
    {                                                                                              \
        .cancel_fd = -1, .command = BERTH_EXEC_REQUEST_INIT                                        \
    }

struct berth_run_result {
    struct berth_run *run; /* with its error and errorCode, or NULL: there is none */
    bool started;          /* the command was, and `end` is its */
    struct berth_exec_end end;
    char exec_id[40]; /* of the command */
    bool truncated;   /* not all of its output was kept */
    char log[512];    /* the file that has it */
    bool owed;        /* the place is not confirmed to be gone: the sweep goes on */
};

/* Which environment a run is to have, by those who may say so: the first that does counts. NULL:
 * the company's local one. What an issue or a project says counts only where workspaces are
 * isolated. */
struct berth_environment_wishes {
    bool workspace_says; /* a workspace that is used again, also when it says NULL */
    const char *workspace;
    bool isolated_workspaces;
    const char *issue, *project, *agent; /* or NULL */
};
BERTH_API const char *berth_run_choose_environment(const struct berth_environment_wishes *wishes);

/* Blocks until the place is given back, whatever happened before; what failed is in the run. < 0:
 * the command did not run; the run, when there is one, has the same text. */
BERTH_API int berth_run_perform(struct berth *b, struct berth_arena *arena,
                                const struct berth_run_request *request,
                                struct berth_run_result *out, struct berth_error *err);

/* The same, but returns at once: no thread waits while the command runs. The request, and all in
 * it, is borrowed until on_done, which is the last call and must not block for long; what it is
 * told lives for the call, `err` is NULL when the command ran. request->cancel_fd is not read. */
struct berth_run_job;
typedef void berth_run_done_fn(void *ctx, const struct berth_run_result *result,
                               const struct berth_error *err);
BERTH_API int berth_run_start(struct berth *b, const struct berth_run_request *request,
                              berth_run_done_fn *on_done, void *ctx, struct berth_run_job **out,
                              struct berth_error *err);
/* At any moment before on_done; twice is fine. */
BERTH_API void berth_run_cancel(struct berth_run_job *p);
#endif
