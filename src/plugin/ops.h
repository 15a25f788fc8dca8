/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/ops.h - what core asks of plugin/, and what plugin/ asks of core. It is the only
 * header of plugin/ that core includes; builtin.c joins the two. */
#ifndef BERTH_PLUGIN_OPS_H
#define BERTH_PLUGIN_OPS_H

#include <berth/berth.h>

struct berth_engine;
struct berth_json;

/* What a worker is to be started with. */
struct berth_worker_spec {
    const char *plugin_key;
    const char *package; /* the directory that it may read; a real path */
    const char *entry;   /* what is run: a program, or a script for node */
    const char *manifest_json, *config_json;
    const char *settings_json; /* what the operator allows it; or NULL */
    const char *const *env;    /* variables from there, closed by NULL; or NULL */
    const char *state;         /* the directory that it may write */
    const char *data;          /* the directory of the store, which it must not see; or NULL */
    /* The Unix sockets of this machine that it may use, besides its own; closed by NULL. NULL: it
     * may not use Unix sockets. */
    const char *const *sockets;
    /* Files and directories of berth that no such socket may be, contain, or lie in. Closed by
     * NULL; or NULL. */
    const char *const *own;
    bool unconfined;     /* it may run where it cannot be confined */
    const char *log;     /* the file that its output is logged to */
    int64_t row_version; /* of the row that all this was read from */
};

/* What a plugin's row says now. */
struct berth_worker_row {
    const char *plugin_id;
    bool ready; /* the plugin is in use */
    const char *package, *manifest_json, *config_json, *settings_json;
    int64_t row_version;
};

/* Core, as a manager sees it. */
struct berth_worker_host {
    /* Reads the plugin's row and fills *out, in the arena. Runs on a thread of the pool. */
    int (*describe)(void *ctx, const char *plugin_id, struct berth_arena *arena,
                    struct berth_worker_spec *out, struct berth_error *err);
    /* Logs what happened to a worker, in one sentence. Runs on the engine's thread. */
    void (*report)(void *ctx, const char *plugin_id, enum berth_log_level level, const char *event,
                   const char *text);
    const char *version; /* of this program */
    void *ctx;
};

/* A package on disk. */
struct berth_package {
    const char *path, *name;
    struct berth_json *manifest; /* as the package has it; the caller frees it */
};
/* The circumstances of one call; as struct berth_call, with the engine that runs npm and node. */
struct berth_package_call {
    struct berth_engine *engine;
    int64_t deadline_ms; /* by base/time's monotonic clock */
    int cancel_fd;
    struct berth_arena *arena;
};
/* Fetches and reads packages. All three block. */
struct berth_package_ops {
    /* Installs a package by npm, without its scripts, into `state` of `cage`, an empty directory.
     * npm runs confined as a worker, with the data and unconfined of `cage`. */
    int (*fetch)(const struct berth_package_call *call, const char *name, const char *version,
                 const struct berth_worker_spec *cage, const char **path, struct berth_error *err);
    /* Fails when the worker is missing, lies outside of its package, or cannot be run. */
    int (*check)(const struct berth_package_call *call, const char *path, const char *plugin_key,
                 const char *worker, struct berth_error *err);
    /* Reads the manifest. One that is a script is run as a worker is, with the state, data and
     * unconfined of `cage`. */
    int (*read)(const struct berth_package_call *call, const char *path,
                const struct berth_worker_spec *cage, struct berth_package *out,
                struct berth_error *err);
};

/* The workers of this process, besides calls to them (driver/workers.h). */
struct berth_manager;
struct berth_workers;
struct berth_manager_ops {
    int (*open)(struct berth_engine *engine, const struct berth_worker_host *host,
                struct berth_manager **out, struct berth_error *err);
    struct berth_workers *(*workers)(struct berth_manager *m);
    /* Starts a worker unless it runs, and waits for that up to wait_ms. */
    void (*start)(struct berth_manager *m, const char *plugin_id, int64_t wait_ms);
    /* Stops a worker and waits for its end. Calls in flight have ten seconds. */
    void (*stop)(struct berth_manager *m, const char *plugin_id);
    /* Compares all workers with all rows, which another process may have changed. Stops a worker
     * whose row is missing or not ready, or that was started from an older row; when only the
     * config is new, the worker is told. Does not wait. */
    void (*follow)(struct berth_manager *m, const struct berth_worker_row *rows, int count);
    /* Fills *out, in the arena. A worker that was never wanted is `stopped`. */
    int (*status)(struct berth_manager *m, const char *plugin_id, struct berth_arena *arena,
                  struct berth_worker_status *out, struct berth_error *err);
    /* Begins to stop all workers for good: new calls are refused, and what still runs after wait_ms
     * is killed, which answers its calls. Does not wait. Only the first call counts. */
    void (*halt)(struct berth_manager *m, int64_t wait_ms);
    void (*close)(struct berth_manager *m); /* stops all workers; NULL is fine */
};
#endif
