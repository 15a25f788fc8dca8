/* SPDX-License-Identifier: Apache-2.0
 * src/net/worker.h - what a plugin's worker is started with, and whom its manager reports to. The
 * domain fills these in; plugin/ uses them. */
#ifndef BERTH_NET_WORKER_H
#define BERTH_NET_WORKER_H

#include <berth/berth.h>

struct berth_engine;
struct berth_json;

/* One worker, as it is to be started now. */
struct berth_worker_spec {
    const char *plugin_key;
    const char *package; /* the directory that it may read */
    const char *entry;   /* what is run: a program, or a script for node */
    const char *manifest_json, *config_json;
    const char *state;   /* a directory of its own */
    const char *log;     /* the file that its words go to */
    int64_t row_version; /* of what all this was read from */
};

/* What a plugin's row says now. */
struct berth_worker_row {
    const char *plugin_id;
    bool ready; /* to be used */
    const char *package, *manifest_json, *config_json;
    int64_t row_version;
};

struct berth_worker_host {
    /* On a thread of the pool. Everything is as it is now, in the arena. */
    int (*describe)(void *ctx, const char *plugin_id, struct berth_arena *arena,
                    struct berth_worker_spec *out, struct berth_error *err);
    /* On the engine's thread: what happened to it, in one sentence. */
    void (*report)(void *ctx, const char *plugin_id, enum berth_log_level level, const char *event,
                   const char *text);
    const char *version; /* of this program */
    void *ctx;
};

/* Where packages come from, and what they say of themselves. Both block. */
struct berth_package {
    const char *path, *name;
    struct berth_json *manifest; /* as it says it; the caller's */
};
struct berth_package_ops {
    /* By npm, without scripts, into the directory, which is there and empty. */
    int (*fetch)(const struct berth_call *call, const char *name, const char *version,
                 const char *into, const char **path, struct berth_error *err);
    /* Is the worker there, in its package, and one that can be run? */
    int (*check)(const struct berth_call *call, const char *path, const char *plugin_key,
                 const char *worker, struct berth_error *err);
    /* `scratch`: a directory for the program that reads a manifest which is a script. */
    int (*read)(const struct berth_call *call, const char *path, const char *scratch,
                struct berth_package *out, struct berth_error *err);
};

/* The conformance suite: drives a worker as a host would, and as a bad one would. */
struct berth_check_request {
    const char *package;
    const struct berth_json *manifest; /* as the package says it */
    const char *config_json;           /* for its first driver; secrets resolved */
    const char *scratch;               /* a directory for its state */
    const char *const *only;           /* names of checks, closed by NULL; NULL: all */
};
enum berth_check_outcome {
    BERTH_CHECK_PASSED,
    BERTH_CHECK_FAILED,
    BERTH_CHECK_SKIPPED, /* it does not offer what would be looked at */
};
struct berth_check_result {
    const char *name, *about; /* what is looked at, in a few words */
    enum berth_check_outcome outcome;
    const char *detail; /* what was wrong; "" when nothing was */
};
/* `each` is called for every check in turn. INVALID: a name in `only` is none. */
typedef int berth_check_fn(struct berth_engine *engine, const struct berth_check_request *request,
                           void (*each)(void *ctx, const struct berth_check_result *result),
                           void *ctx, struct berth_error *err);

/* What the domain wants of a manager, besides calls (driver/workers.h). */
struct berth_manager;
struct berth_workers;
struct berth_manager_ops {
    int (*open)(struct berth_engine *engine, const struct berth_worker_host *host,
                struct berth_manager **out, struct berth_error *err);
    struct berth_workers *(*workers)(struct berth_manager *m);
    /* Starts it if nobody has, and waits so long for that at most. */
    void (*start)(struct berth_manager *m, const char *plugin_id, int64_t wait_ms);
    /* Ends a worker in good order, and waits for that. Calls in flight have ten seconds. */
    void (*stop)(struct berth_manager *m, const char *plugin_id);
    /* These are all the rows there are, maybe changed by another process. A worker whose row is
     * not ready or not there ends in good order, as does one that was started from an older one;
     * when only its config is new, it hears of that. Does not wait. */
    void (*follow)(struct berth_manager *m, const struct berth_worker_row *rows, int count);
    /* In the arena; one that was never wanted is `stopped`. */
    int (*status)(struct berth_manager *m, const char *plugin_id, struct berth_arena *arena,
                  struct berth_worker_status *out, struct berth_error *err);
    void (*close)(struct berth_manager *m); /* stops all; NULL is fine */
};
#endif
