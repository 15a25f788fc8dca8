/* SPDX-License-Identifier: Apache-2.0
 * src/driver/workers.h - how drivers speak to the workers of plugins. The manager implements it,
 * and a test can spy on it. */
#ifndef BERTH_DRIVER_WORKERS_H
#define BERTH_DRIVER_WORKERS_H

#include <berth/exec.h>

#include "net/rpc.h"

struct berth_arena;
struct berth_engine;
struct berth_locked;

struct berth_worker_call {
    const char *plugin_id, *method, *params_json;
    int64_t timeout_ms; /* 0: none was asked for, so the manager's own holds */
    /* What the worker was told that nobody else may see; lent. */
    const struct berth_locked *secrets;
    int secret_count;
    /* Of an execute: its id, and what its output goes to as long as it is not answered; or NULL. */
    const char *invocation, *company_id;
    void (*on_output)(void *ctx, enum berth_stream stream, const char *bytes, size_t len);
    berth_reply_fn *on_reply; /* exactly once; on the engine's thread, or before the call returns */
    berth_reply_fn *on_late;  /* or NULL: after a TIMEOUT, once, what came of it all the same */
    void *ctx;
};

struct berth_workers {
    const struct berth_workers_ops *ops; /* an implementation embeds this as its first member */
};

/* Why a worker does not run. */
struct berth_worker_absence {
    bool starting;     /* it is being started */
    unsigned attempts; /* starts that came to an end, well or not */
    bool start_failed; /* the last start; `error` says why */
    char error[400];
};

/* An empty file in the temporary directory of a worker, which the worker may read, write, and
 * replace by anything else. */
struct berth_worker_stage {
    const char *path; /* as the worker sees it; in the arena */
    const char *name; /* in `directory_fd`; in the arena */
    int directory_fd; /* the caller's */
};

/* From any thread; `want`, which waits, not from the engine's. All texts are borrowed for the call.
 */
struct berth_workers_ops {
    bool (*is_running)(struct berth_workers *w, const char *plugin_id);
    /* Starts it if nobody has, and waits so long for that at most. NULL: others start them. */
    void (*want)(struct berth_workers *w, const char *plugin_id, int64_t wait_ms);
    /* Says why it does not run. NULL: nothing is known of that. */
    void (*explain)(struct berth_workers *w, const char *plugin_id,
                    struct berth_worker_absence *out);
    /* Does the one that runs say that it has the method? NULL: none does. */
    bool (*supports)(struct berth_workers *w, const char *plugin_id, const char *method);
    /* Makes a file for the worker that runs. UNAVAILABLE: it does not run. NULL: there are no such
     * files. */
    int (*stage)(struct berth_workers *w, const char *plugin_id, struct berth_arena *arena,
                 struct berth_worker_stage *out, struct berth_error *err);
    /* Does not wait. */
    void (*call)(struct berth_workers *w, const struct berth_worker_call *call);
};

/* What the driver of one plugin is made of. Texts are copied. */
struct berth_worker_driver_options {
    struct berth_engine *engine;
    struct berth_workers *workers;
    struct berth_budget *inputs; /* for standard inputs that are collected; NULL: no limit */
    const char *plugin_id, *plugin_key, *driver_key;
    const char *schema_json; /* of the config */
    bool sandbox;            /* reached as a provider of `sandbox`; else by the driver `plugin` */
    /* How long a worker that is being started is waited for, how long one that does not run for
     * another reason, and how often it is looked at. */
    int64_t start_ms, ready_ms, poll_ms;
};
#endif
