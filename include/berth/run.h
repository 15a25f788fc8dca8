/* SPDX-License-Identifier: Apache-2.0
 * include/berth/run.h - runs: units of work that hold leases. The end of a run releases its leases.
 * A program may create and finish a run itself, or let the library perform a whole run. */
#ifndef BERTH_RUN_H
#define BERTH_RUN_H

#include <berth/exec.h>
#include <berth/workspace.h>

enum berth_run_status {
    BERTH_RUN_QUEUED, /* never set by this library */
    BERTH_RUN_RUNNING,
    BERTH_RUN_SCHEDULED_RETRY, /* never set by this library */
    BERTH_RUN_SUCCEEDED,
    BERTH_RUN_FAILED,
    BERTH_RUN_CANCELLED,
    BERTH_RUN_TIMED_OUT,
};

struct berth_run;
/* The getters return text that lives as long as the run. */
BERTH_API const char *berth_run_id(const struct berth_run *run);
BERTH_API const char *berth_run_company_id(const struct berth_run *run);
BERTH_API enum berth_run_status berth_run_status(const struct berth_run *run);
/* Returns the run as a JSON object with the field names of the HTTP API. NULL: out of memory. */
BERTH_API const char *berth_run_to_json(struct berth_arena *arena, const struct berth_run *run);

/* Creates a run with the status `running`. The caller ends it with berth_run_finish; the sweep does
 * not, even if this process dies. company_id NULL: the company `default`. NOT_FOUND: the company
 * does not exist. */
BERTH_API int berth_run_create(struct berth *b, struct berth_arena *arena, const char *company_id,
                               struct berth_run **out, struct berth_error *err);
/* Loads a run. NOT_FOUND: no run has this id. */
BERTH_API int berth_run_get(struct berth *b, struct berth_arena *arena, const char *id,
                            struct berth_run **out, struct berth_error *err);

/* The runs to list. Initialise with BERTH_RUN_FILTER_INIT. */
struct berth_run_filter {
    const char *company_id; /* NULL: the company `default` */
    int status;             /* enum berth_run_status; -1: any */
    const char *before;     /* the last run of the previous page; NULL: start with the newest */
    int limit;              /* the largest number of runs to list */
};
#define BERTH_RUN_FILTER_INIT                                                                      \
    {                                                                                              \
        .status = -1, .limit = 100                                                                 \
    }
/* Lists runs as struct berth_run, newest first. */
BERTH_API int berth_run_list(struct berth *b, struct berth_arena *arena,
                             const struct berth_run_filter *filter, struct berth_list *out,
                             struct berth_error *err);

/* How a run ended. */
struct berth_run_end {
    enum berth_run_status status;   /* succeeded, failed, cancelled or timed_out */
    const char *error, *error_code; /* or NULL */
    const char *workspace_json;     /* what became of its workspace, an object; or NULL */
    const char *workspace_diff;     /* what changed there, as a unified diff; or NULL */
    const struct berth_actor *actor;
};
/* Ends a run and releases its leases. If the run has already ended, its end stays as it is and its
 * leases are still released. *released lists the released leases as struct berth_lease, also when a
 * release failed; the error is the first failure. Other errors may leave *released unchanged. */
BERTH_API int berth_run_finish(struct berth *b, struct berth_arena *arena, const char *id,
                               const struct berth_run_end *end, struct berth_list *released,
                               struct berth_error *err);

/* --- performing a whole run: acquire a lease, run a command, release the lease --- */

enum berth_run_phase {
    BERTH_PHASE_ACQUIRING,
    BERTH_PHASE_REALIZING,
    BERTH_PHASE_SENDING, /* the workspace */
    BERTH_PHASE_PROVISIONING,
    BERTH_PHASE_RUNNING,
    BERTH_PHASE_RETURNING, /* the workspace */
    BERTH_PHASE_RELEASING,
};

/* A variable of the command whose value is a secret. The secret is read for this run, the access is
 * recorded, and the value is masked in the output and in all texts that the run records. */
struct berth_run_secret {
    const char *variable, *secret_id;
};

/* A directory that is sent to the place before the command, and whose changes come home after it.
 */
struct berth_run_sync {
    const char *path;           /* on this machine; NULL: no directory is sent */
    const char *const *exclude; /* as in struct berth_workspace_push */
    enum berth_merge_policy on_conflict;
    const char *branch; /* as in struct berth_workspace_push; or NULL */
    struct berth_workspace_setup setup;
    bool no_restore;    /* the changes stay in the place, which is kept */
    bool mass_deletion; /* as in struct berth_workspace_pull */
};

/* A run to perform. Initialise with BERTH_RUN_REQUEST_INIT. The callbacks get handlers.ctx, and
 * each may be NULL. */
struct berth_run_request {
    const char *run_id;         /* a new UUID chosen by the caller; NULL: the library chooses */
    const char *company_id;     /* NULL: the company `default` */
    const char *environment_id; /* NULL: the local environment of the company */
    const char *workspace;      /* a local directory to work in; NULL: the lease's own, empty one */
    bool in_place;              /* without `workspace`: as in struct berth_workspace */
    struct berth_run_sync sync; /* not together with `workspace` or `in_place` */
    /* For the lease, as in struct berth_lease_request; or NULL. */
    const char *issue_id, *execution_workspace_id, *agent_id;
    int64_t ttl_ms; /* the lifetime of the lease; 0: as in the settings */
    /* A script for bash that runs in the workspace before the command, for up to 5 minutes. Skipped
     * in a local environment. NULL: none. */
    const char *provision_command;
    const struct berth_run_secret *secrets;
    int secret_count;
    /* The command. lease_id is ignored. If `secrets` above is not empty, it replaces those of the
     * command. cwd NULL: the directory of the workspace; a relative one
     * is below it. */
    struct berth_exec_request command;
    /* The run is cancelled when it becomes readable; -1: never. The work then still comes home.
     * What was written is read before that: if it becomes readable again, the work stays in the
     * place. */
    int cancel_fd;
    const struct berth_actor *actor;
    /* Called once, when the run is stored and its environment and secrets are accepted. It is not
     * called for a run that is refused earlier. */
    void (*on_created)(void *ctx, const struct berth_run *run);
    void (*on_phase)(void *ctx, enum berth_run_phase phase); /* called when a phase begins */
    berth_workspace_progress_fn *on_progress;                /* of the workspace's transfers */
    /* Called when the command runs. The caller may use `exec` until on_stopped returns, but does
     * not free it. */
    void (*on_started)(void *ctx, struct berth_exec *exec);
    /* Called when the command has ended. `exec` must not be used after it returns. */
    void (*on_stopped)(void *ctx);
    struct berth_exec_handlers handlers; /* quick_end is ignored */
};
#define BERTH_RUN_REQUEST_INIT                                                                     \
    {                                                                                              \
        .cancel_fd = -1, .command = BERTH_EXEC_REQUEST_INIT                                        \
    }

struct berth_run_result {
    struct berth_run *run;     /* with its error and errorCode; NULL: the run was not created */
    bool started;              /* the command was started */
    struct berth_exec_end end; /* how the command ended, if it was started */
    char exec_id[40];          /* the id of the command, or "" */
    bool truncated;            /* the log does not hold all output */
    char log[512];             /* the path of the log, or ""; the file exists if there was output */
    bool kept;                 /* the place holds work that did not come home, and is kept */
    const char *workspace_json; /* what became of the workspace, as the run shows it; or NULL */
    const char *workspace_diff; /* what changed there, as a unified diff; or NULL */
    bool owed;                  /* the place is not confirmed gone; the sweep tries again */
};

/* The environments that different parts of a configuration name for a run. */
struct berth_environment_wishes {
    bool workspace_says;      /* a reused workspace decides, also when `workspace` is NULL */
    const char *workspace;    /* the environment that the workspace used before */
    bool isolated_workspaces; /* `issue` and `project` count only if this is set */
    const char *issue, *project, *agent; /* or NULL */
};
/* Returns the environment to use, by precedence: workspace, issue, project, agent. NULL: the local
 * environment of the company. The text is borrowed from `wishes`. */
BERTH_API const char *berth_run_choose_environment(const struct berth_environment_wishes *wishes);

/* Performs a run and waits until its place is released. Returns BERTH_OK when the command was
 * started, however it ended: see out->end and out->run. Returns an error when it was not started;
 * out->run, if not NULL, records the same text. *out is filled in both cases. */
BERTH_API int berth_run_perform(struct berth *b, struct berth_arena *arena,
                                const struct berth_run_request *request,
                                struct berth_run_result *out, struct berth_error *err);

/* A run that berth_run_start began. It is valid until on_done returns. */
struct berth_run_job;
/* Receives the result of a run; `result` is valid during the call. `err` is NULL when the command
 * was started. */
typedef void berth_run_done_fn(void *ctx, const struct berth_run_result *result,
                               const struct berth_error *err);
/* Performs a run in the background: no thread waits while the command runs. The request and all
 * that it points to stay valid until on_done returns. on_done is the last callback. It runs on a
 * worker thread of the library, may run before this function returns, and must not block for long.
 * request->cancel_fd is ignored: use berth_run_cancel. CANCELLED: berth_close has begun. */
BERTH_API int berth_run_start(struct berth *b, const struct berth_run_request *request,
                              berth_run_done_fn *on_done, void *ctx, struct berth_run_job **out,
                              struct berth_error *err);
/* Cancels a run and does not wait. Must not be called after on_done has returned. Calling it again
 * is allowed. */
BERTH_API void berth_run_cancel(struct berth_run_job *p);
#endif
